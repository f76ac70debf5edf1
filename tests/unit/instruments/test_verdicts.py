"""A path's verdict is no single draw: it is tried until k of n decides."""

from collections.abc import Iterator, Mapping
from itertools import chain, repeat
from typing import Any, cast

import pytest

from runner.data.metric import verdict
from runner.instruments.instrument import Asked
from runner.instruments.path.verdict import ALIKE, TRIES, NoControl, PathProbe, PathVerdict
from runner.instruments.result import Measured
from runner.tunnel.bring_up import Bench

TOLD = verdict(name="borne", title="Borne", definition="Of this test.", source="none")


class Probe(PathProbe):
    """Tells these kinds, one a try; "" where the control does not come out."""

    name = "probe"
    metrics = (TOLD,)
    most_tries = TRIES

    def __init__(self, kinds: Iterator[str]) -> None:
        self.kinds, self.tried = kinds, 0

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        self.tried += 1
        if not (kind := next(self.kinds)):
            raise NoControl("the relay lost another packet")
        return {"borne": PathVerdict(kind, float(kind == "all"), {"sent": 1}, {"try": self.tried})}


def judged(probe: PathProbe) -> Measured:
    return probe.once(cast("Bench", None), cast("Asked", None))


def counts(found: Measured) -> dict[str, Any]:
    (value,) = found.measurements
    return {name: value.detail[name] for name in ("kind", "alike", "tries")} | {"value": value.value}


def test_the_first_ones_that_tell_the_same_decide() -> None:
    probe = Probe(repeat("all"))
    assert counts(judged(probe)) == {"kind": "all", "alike": ALIKE, "tries": ALIKE, "value": 1.0}


@pytest.mark.parametrize(
    ("kinds", "kind", "alike", "tries"),
    [
        (("none", *["all"] * 7), "all", 7, 8),
        (("all", "all", *["none"] * 6), "none", 6, 8),
        (("", "all", "", *["all"] * 5), "all", 3, 3),
        (("", "", "all", "none", "all", "all", "all", "all"), "all", 5, 6),
    ],
)
def test_where_tries_differ_the_most_frequent_has_its_counts(
    kinds: tuple[str, ...], kind: str, alike: int, tries: int
) -> None:
    seen = counts(judged(Probe(iter(kinds))))
    assert (seen["kind"], seen["alike"], seen["tries"]) == (kind, alike, tries)


@pytest.mark.parametrize(("first", "tried"), [((), ALIKE), (("all",), TRIES), (("all", "", "none"), TRIES)])
def test_a_control_that_does_not_come_out_is_no_verdict(first: tuple[str, ...], tried: int) -> None:
    probe = Probe(chain(first, repeat("")))
    found = judged(probe)
    assert not found.measurements
    assert found.attempt["inconclusive"]["borne"]["kind"] == "no_control"
    assert probe.tried == tried


def test_a_probe_that_takes_long_is_tried_once() -> None:
    probe = Probe(repeat("none"))
    probe.most_tries = 1  # type: ignore[misc]
    assert counts(judged(probe))["tries"] == 1
    (unsure,) = [judged(Probe(repeat(""))).attempt["inconclusive"]["borne"]]
    assert "another packet" in unsure["reason"]
