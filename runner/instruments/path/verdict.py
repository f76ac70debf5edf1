"""What all probes of a path have in common: a verdict with its control, or none where the control did not come out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from runner.data.errors import CommandError, MeasurementError, Unsupported
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

TROUBLE = (MeasurementError, CommandError, TimeoutError)


@dataclass(frozen=True)
class PathVerdict:
    """What a probe found: its ``kind``, which a report has words for, the metric's ``value``, and the counts behind it.
    ``control``: the counts of the control, which came out."""

    kind: str
    value: float
    control: Mapping[str, Any]
    numbers: Mapping[str, Any] = field(default_factory=dict)


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
        values = [
            measurement(
                name, verdict.value, kind=verdict.kind, numbers=dict(verdict.numbers), control=dict(verdict.control)
            )
            for name, verdict in found.items()
        ]
        return Measured(values)

    def inconclusive(self, trouble: Exception) -> Measured:
        """No verdict, and why."""
        kind = "no_control" if isinstance(trouble, NoControl) else "no_answer"
        told = {metric.name: {"kind": kind, "reason": str(trouble)} for metric in self.metrics}
        warnings = [f"{name}: inconclusive: {trouble}" for name in told]
        return Measured(warnings=warnings, attempt={"inconclusive": told})


class PathProbe(Judging):
    """A probe of a path: its ``verdicts``, metric by metric, are data of kind and counts, without sentences."""

    @abstractmethod
    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        """Metric -> verdict. Raises one of TROUBLE where there is none, and NoControl for a control."""

    def once(self, bench: Bench, asked: Asked) -> Measured:
        try:
            return self.to_measured(self.verdicts(bench, asked))
        except TROUBLE as trouble:
            return self.inconclusive(trouble)
