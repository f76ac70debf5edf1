"""Many handovers: labs that fail side by side until there are enough, and what the paper says of them is judged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.trials import Trial
from runner.instruments.failures import handovers
from runner.instruments.instrument import Go
from runner.lab.node.lines import Lines
from runner.papers.findings import judge
from runner.papers.judges import findings_of
from tests.unit.synthetic import make_run, make_trial

LOST = {"lost": "within 30 s nothing came"}
SILENT: dict[str, Any] = {"says": "nothing, and lives"}

BENCH = SimpleNamespace(lab=None)  # keepalived moves the tunnel back by itself


class Watcher:
    """A probe: each line that it is told has the next of its answers, and after the last one it is gone."""

    where = "wan"

    def __init__(self, answers: Sequence[dict[str, Any]]) -> None:
        self._reading, self._writing = os.pipe()
        self._lines = Lines(self._reading, "wan")
        self._answers: Iterator[dict[str, Any]] = iter(answers)
        self.told = 0

    def fileno(self) -> int:
        return self._reading

    def hear(self, within_s: float) -> str:
        return self._lines.next(within_s).decode()

    def last_words(self, last: str, within_s: float) -> tuple[str, str]:
        return "", ""

    def tell(self, line: str) -> None:
        assert line == "again"
        self.told += 1
        if (found := next(self._answers, None)) is None:
            os.close(self._writing)
        elif found is not SILENT:
            os.write(self._writing, (json.dumps(found) + "\n").encode())

    def wait(self, timeout: float) -> int:
        return 1


def of_labs(wanted: int, *labs: Sequence[dict[str, Any]]) -> tuple[list[Watcher], list[float], list[str]]:
    watchers, seen = [Watcher(one) for one in labs], handovers.SeenHandovers()
    how = load_vpn("ipsec_user"), {"redundancy": "ha_sync"}
    seconds = list(handovers.collect_handovers(dict.fromkeys(watchers, BENCH), wanted, *how, seen))  # type: ignore[arg-type]
    assert seconds == seen.samples_s
    assert len(seen.intervals_s) == len(seconds)
    return watchers, seconds, seen.lost


def took(*seconds: float) -> list[dict[str, Any]]:
    return [{"handover_s": one, "interval_s": 0.01} for one in seconds]


@pytest.mark.parametrize("wanted", [1, 2, 5])
def test_labs_are_asked_until_there_are_enough_and_no_more(wanted: int) -> None:
    watchers, seconds, lost = of_labs(wanted, took(*range(9)), took(*range(10, 19)))
    assert len(seconds) == wanted
    assert sum(one.told for one in watchers) == wanted
    assert not lost


def test_a_lab_that_is_lost_leaves_its_share_to_the_others() -> None:
    watchers, seconds, lost = of_labs(4, [*took(1.0), LOST], took(1.5, 1.6, 1.7))
    assert sorted(seconds) == [1.0, 1.5, 1.6, 1.7]
    assert lost == [LOST["lost"]]
    assert watchers[0].told == 2


def test_with_no_lab_left_there_is_what_there_is() -> None:
    _, seconds, lost = of_labs(4, [*took(1.0), LOST], [LOST])
    assert seconds == [1.0]
    assert len(lost) == 2


def test_a_probe_that_lives_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handovers, "LIMIT_S", 0.0)
    monkeypatch.setattr(handovers, "SLACK_S", -0.9)  # and a heartbeat of a second
    _, seconds, lost = of_labs(4, [*took(1.0), SILENT], took(1.5, 1.6, 1.7))
    assert sorted(seconds) == [1.0, 1.5, 1.6]
    assert len(lost) == 1
    assert lost[0].startswith("its probe said nothing for 0.1 s")


def test_each_handover_is_a_slice_and_closing_early_ends_the_labs(monkeypatch: pytest.MonkeyPatch) -> None:
    open_labs: list[int] = []

    @contextmanager
    def failing(*_: object) -> Iterator[Watcher]:
        open_labs.append(1)
        try:
            yield Watcher(took(1.0, 1.5, 2.0, 2.5))
        finally:
            open_labs.pop()

    @contextmanager
    def another() -> Iterator[SimpleNamespace]:
        yield BENCH

    monkeypatch.setattr(handovers, "failing", failing)
    bench: Any = SimpleNamespace(lab=None, another=another)
    params = {"redundancy": "ha_sync", "handovers": "4", "labs": "2"}
    measuring = handovers.many(bench, load_vpn("ipsec_user"), params, "a timer", 1)
    assert next(measuring) == {"handover_ms": 1000.0}
    assert len(open_labs) == 2
    measuring.close()
    assert not open_labs

    measuring = handovers.many(bench, load_vpn("ipsec_user"), params, "a timer", 1)
    assert [next(measuring), measuring.send(Go.ON)] == [{"handover_ms": 1000.0}] * 2
    with pytest.raises(StopIteration) as end:
        measuring.send(Go.END)
    assert end.value.value.measurements[0].samples == [1000.0, 1000.0]
    assert end.value.value.warnings == ["2 of 4 handovers were measured"]
    assert not open_labs


def test_a_probe_that_dies_is_no_end() -> None:
    with pytest.raises(MeasurementError, match="the probe handovers on wan has died"):
        of_labs(3, took(1.0))


def measured(
    low_s: float, high_s: float, *, vpn: str = "ipsec", mode: str = "clusterip", ms: str = "1000"
) -> list[Trial]:
    """Three repetitions, of 340 handovers each, at random between two ends."""
    params = {"redundancy": mode, "gateway_failure": "interface", "heartbeat_ms": ms, "measure": "failover"}
    rng, trials = np.random.default_rng(1), []
    for block in (1, 2, 3):
        trial = make_trial(vpn, params, block, {"handover_ms": 1.0})
        (measured,) = trial.measurements
        measured.samples[:] = [float(one) for one in 1e3 * rng.uniform(low_s, high_s, 340)]
        trials.append(trial)
    return trials


def verdicts(trials: list[Trial]) -> dict[str, str]:
    return {one.id: judge(one, make_run(("ipsec", "ipsec_user")), trials).verdict for one in findings_of("handover")}


@pytest.mark.parametrize(
    ("ends", "wanted"),
    [
        ((1.63, 1.66), ("reproduced", "reproduced", "reproduced")),
        ((1.12, 2.12), ("reproduced", "not reproduced", "reproduced")),  # a random phase of a heartbeat
        ((0.3, 0.4), ("not reproduced", "not reproduced", "not reproduced")),
        ((2.5, 3.5), ("not reproduced", "not reproduced", "not reproduced")),
    ],
)
def test_median_quartiles_and_specification_are_judged(ends: tuple[float, float], wanted: tuple[str, str, str]) -> None:
    judged = verdicts(measured(*ends))
    assert judged == dict(zip(("median", "quartiles", "specified"), wanted, strict=True)) | {"goes-on": "reproduced"}


def test_the_papers_timers_and_its_system_decide() -> None:
    assert {*verdicts(measured(1.63, 1.66, ms="200")).values()} == {"unmeasured"}
    found = {
        one.id: judge(one, make_run(("ipsec", "ipsec_user")), measured(0.3, 0.4, vpn="ipsec_user", mode="ha_sync"))
        for one in findings_of("handover")
    }
    assert {one.verdict for one in found.values()} == {"unmeasured"}
    assert found["median"].beside.startswith("ipsec_user with ha_sync, by VRRP's timers of 0.1 s, 0.35")
    several = judge(findings_of("handover")[0], make_run(("ipsec",)), measured(1.6, 1.7))
    assert re.search(r"; 1020 handovers, box 1\.6, 1\.6[23], 1\.65, 1\.6[78], 1\.7 s$", several.reason)


def test_the_labs_that_were_given_up_are_said() -> None:
    trials = measured(1.6, 1.7)
    for trial, lost in zip(trials, (0, 3, 1), strict=True):
        trial.measurements[0].detail["lost"] = lost
    judged = {finding.id: judge(finding, make_run(("ipsec",)), trials) for finding in findings_of("handover")}
    assert {judgement.note for judgement in judged.values()} == {"after 4 of 1024 failures nothing came any more"}
    assert judged["specified"].value is not None
    assert judged["specified"].value < 1, "what never came was not in time"
    assert judged["goes-on"].value == judged["specified"].value == 1020 / 1024
