"""What the UDP throughput by turns makes of a tunnel that carries nothing after an overload, on paper."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.data.errors import MeasurementError
from runner.instruments.traffic import udp_rounds
from runner.instruments.traffic.generator import Load
from runner.instruments.traffic.udp_rounds import Offering, SoFar
from runner.lab.node import Completed
from runner.search.rounds import Rounds

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

    @property
    def lab(self) -> Any:
        return SimpleNamespace(host1=self)

    def run(self, *argv: str, check: bool, timeout: float) -> Completed:
        self.waited_s.append(float(argv[argv.index("-w") + 1]))
        return Completed(0 if self.answers else 1, "", "")

    def carries_payload(self) -> bool:
        self.looks += 1
        return self.carries.pop(0) if self.carries else False

    def renew(self) -> None:
        self.renewed += 1


def offering(bench: Stuck, monkeypatch: pytest.MonkeyPatch, *, careful: bool, fails: bool = False) -> Offering:
    class Paper:
        played = 0

        def play(self, load: Load) -> Any:
            self.played += 1
            if fails and self.played == 1:
                raise MeasurementError("the two counts disagree")
            return SimpleNamespace(received=0, sent=100, kept_up=0, burst=1.0, seconds=load.seconds)

    made = Paper()
    monkeypatch.setattr(udp_rounds, "generator", lambda bench, address, *, fragments: made)
    return Offering(cast(Any, bench), Load((1328,), 0, 0), SoFar(Rounds(careful=careful)))


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
