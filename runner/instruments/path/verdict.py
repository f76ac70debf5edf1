"""What all probes of a path have in common: a verdict with its control, or none where the control did not come out."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from runner.data.errors import CommandError, MeasurementError, Unsupported
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

TROUBLE = (MeasurementError, CommandError, TimeoutError)
TRIES = 8  # at most, of one verdict
ALIKE = 3  # if the first ones tell the same, that is the verdict


@dataclass(frozen=True)
class PathVerdict:
    """What a probe found: its ``kind``, which a report has words for, the metric's ``value``, and the counts behind it.
    ``control``: the counts of the control, which came out. ``alike`` of ``tries`` told this kind."""

    kind: str
    value: float
    control: Mapping[str, Any]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    alike: int = 1
    tries: int = 1


class NoControl(MeasurementError):
    """The control did not come out, so that the probe tells nothing of the VPN."""


class Judging(Whole):
    """What all probes of a path share."""

    takes_s = 8.0  # on average
    datagrams = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if not lab.has_wan or lab.kind != "netns":
            return Unsupported("the probes of a path need the lab's own WAN node between the gateways")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return self.takes_s

    def to_measured(self, found: Mapping[str, PathVerdict]) -> Measured:
        """The verdicts, metric by metric, as measurements."""
        values = []
        for name, verdict in found.items():
            numbers, control = dict(verdict.numbers), dict(verdict.control)
            counts = {"alike": verdict.alike, "tries": verdict.tries}
            said: dict[str, Any] = {"kind": verdict.kind, "numbers": numbers, "control": control, **counts}
            values.append(measurement(name, verdict.value, **said))
        return Measured(values)

    def inconclusive(
        self, trouble: Exception, metrics: Collection[str] = (), told: int = 0, tries: int = 1
    ) -> Measured:
        """No verdict in these metrics, or in all, and why: ``told`` of ``tries`` had one, the last of the others had
        this ``trouble``."""
        kind = "no_control" if isinstance(trouble, NoControl) else "no_answer"
        reason = str(trouble) if tries == 1 else f"{tries - told} of {tries} tries told nothing, the last: {trouble}"
        names = metrics or [metric.name for metric in self.metrics]
        unsure = {name: {"kind": kind, "reason": reason} for name in names}
        warnings = [f"{name}: inconclusive: {reason}" for name in unsure]
        return Measured(warnings=warnings, attempt={"inconclusive": unsure})


class PathProbe(Judging):
    """A probe of a path: its ``verdicts``, metric by metric, are data of kind and counts, without sentences. It is
    tried ``most_tries`` times at most: once, where a try takes long or counts its own."""

    most_tries: ClassVar[int] = 1

    @abstractmethod
    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        """Metric -> verdict. Raises one of TROUBLE where there is none, and NoControl for a control."""

    def once(self, bench: Bench, asked: Asked) -> Measured:
        tries, troubles = list[Mapping[str, PathVerdict]](), list[Exception]()
        least = min(ALIKE, self.most_tries)
        while len(tries) + len(troubles) < self.most_tries and not is_decided(tries):
            try:
                tries.append(self.verdicts(bench, asked))
            except TROUBLE as trouble:
                troubles.append(trouble)
                if not tries and len(troubles) == least:
                    break
        if len(tries) < least:
            return self.inconclusive(troubles[-1], tries=len(tries) + len(troubles), told=len(tries))
        return self.to_measured({metric: most_frequent([each[metric] for each in tries]) for metric in tries[0]})


def is_decided(tries: Sequence[Mapping[str, PathVerdict]]) -> bool:
    """Are there as many tries as it takes, and did all of them tell the same?"""
    kinds = {tuple(verdict.kind for verdict in each.values()) for each in tries}
    return len(tries) >= ALIKE and len(kinds) == 1


def most_frequent(tries: Sequence[PathVerdict]) -> PathVerdict:
    """The verdict whose kind most tries told, with how many of how many; of those of that kind the one whose value is
    in the middle. A single try may have counted its own."""
    if len(tries) == 1:
        return tries[0]
    kind, alike = Counter(each.kind for each in tries).most_common(1)[0]
    same = sorted((each for each in tries if each.kind == kind), key=lambda each: each.value)
    return replace(same[len(same) // 2], alike=alike, tries=len(tries))
