"""What the UDP throughput by turns makes of a tunnel that carries nothing after an overload, on paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.data.errors import MeasurementError
from runner.instruments.tools.generator import Load
from runner.instruments.traffic import udp_rounds
from runner.instruments.traffic.udp_rounds import Offering, SearchMemory
from runner.lab.node import Completed
from runner.search.rounds import StepwiseSearch

RATE_BPS = 900e6


@dataclass
class Stuck:
    """In the place of a bench: a tunnel that answers no echo, carries payload at the looks that ``carries`` says, and
    is made anew."""

    carries: list[bool] = field(default_factory=list)
    answers: bool = False
    waited_s: list[float] = field(default_factory=list)
    looks: int = 0
    renewed: int = 0
    address: str = "10.2.0.2"
    rtt_s: float = 0.0

    @property
    def lab(self) -> Any:
        return SimpleNamespace(host1=self, rtt_s=self.rtt_s, path_loss_ratio=0.0)

    def run(self, *argv: str, check: bool, timeout: float) -> Completed:
        self.waited_s.append(int(argv[argv.index("-w") + 1]))  # ping(8) refuses a part of a second
        return Completed(0 if self.answers else 1, "", "")

    def carries_payload(self) -> bool:
        self.looks += 1
        return self.carries.pop(0) if self.carries else False

    def renew(self) -> None:
        self.renewed += 1


def offering(bench: Stuck, monkeypatch: pytest.MonkeyPatch, *, careful: bool, fails: bool = False) -> Offering:
    failures = [MeasurementError("the two counts disagree")] if fails else []

    def at_once(ways: list[Any], load: Load) -> list[Any]:
        if failures:
            raise failures.pop()
        arrived = SimpleNamespace(received=0, sent=100, kept_up=0, burst=1.0, longest_burst=1, seconds=load.seconds)
        return [arrived for _ in ways]

    monkeypatch.setattr(udp_rounds, "at_once", at_once)
    monkeypatch.setattr(udp_rounds, "generator", lambda bench, address, *, reverse, fragments: None)
    return Offering(cast(Any, bench), Load((1328,), 0, 0), SearchMemory(StepwiseSearch(careful=careful)))


def test_a_tunnel_in_tcp_that_does_not_answer_within_a_second_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Stuck(carries=[True])
    one = offering(bench, monkeypatch, careful=True)
    one.settle(RATE_BPS)
    assert (bench.waited_s, bench.looks, bench.renewed) == ([1], 0, 1)
    assert one.so_far.breakdowns_bps == [RATE_BPS]


def test_any_other_tunnel_has_time_to_empty_its_queues(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Stuck(carries=[False, False, True])
    offering(bench, monkeypatch, careful=False).settle(RATE_BPS)
    assert (bench.waited_s, bench.looks, bench.renewed) == ([2], 3, 0)
    offering(bench, monkeypatch, careful=False).settle(RATE_BPS)
    assert (bench.looks, bench.renewed) == (6, 1)


@pytest.mark.parametrize("careful", [True, False])
def test_a_tunnel_that_answers_stays(monkeypatch: pytest.MonkeyPatch, careful: bool) -> None:
    bench = Stuck(answers=True)
    offering(bench, monkeypatch, careful=careful).settle(RATE_BPS)
    assert (bench.looks, bench.renewed) == (0, 0)


@pytest.mark.parametrize(("careful", "looks"), [(True, 1), (False, 3)])
@pytest.mark.parametrize("fails", [True, False])
def test_a_trial_of_which_nothing_comes_has_broken_the_tunnel_down(
    monkeypatch: pytest.MonkeyPatch, careful: bool, looks: int, fails: bool
) -> None:
    bench = Stuck()
    one = offering(bench, monkeypatch, careful=careful, fails=fails)
    trial = one.trial(RATE_BPS, 0.15)
    assert (trial.loss_ratio, bench.looks, bench.renewed) == (1.0, looks, 1)
    assert one.so_far.breakdowns_bps == [RATE_BPS]


def test_both_ways_are_one_trial_of_half_of_the_rate_each(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[list[bool], float]] = []

    def at_once(ways: list[bool], load: Load) -> list[Any]:
        played.append((ways, load.per_s))
        usual = {"sent": 100, "seconds": 100 / load.per_s}
        there = SimpleNamespace(**usual, received=100, kept_up=100, burst=1.0, longest_burst=4)
        back = SimpleNamespace(**usual, received=90, kept_up=80, burst=3.0, longest_burst=9)
        return [there, back]

    monkeypatch.setattr(udp_rounds, "at_once", at_once)
    monkeypatch.setattr(udp_rounds, "generator", lambda bench, address, *, reverse, fragments: reverse)
    one = Offering(cast(Any, Stuck()), Load((1328,), 0, 0), SearchMemory(StepwiseSearch()), reverse=(False, True))
    trial = one.trial(8 * 1300 * 1000, 0.15)
    assert played == [([False, True], 500.0)]
    assert (trial.sent, trial.received, trial.offered_rate_bps) == (200, 180, 8 * 1300 * 1000)
    assert (one.so_far.bursts, one.so_far.longest_burst) == ([1.0, 3.0], 9)


def test_an_echo_waits_for_whole_seconds_beyond_the_round_trip(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Stuck(answers=True, rtt_s=0.556)
    offering(bench, monkeypatch, careful=False).settle(RATE_BPS)
    assert bench.waited_s == [3]
    assert not bench.looks
