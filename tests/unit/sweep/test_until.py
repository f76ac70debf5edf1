"""Which cells --until-significant measures next, on made-up trials with a known truth."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from runner.data.asked import AskedRun
from runner.data.errors import UsageError
from runner.data.store import open_store, read_run
from runner.data.trials import MOST_LOOKS, Cell, Trial
from runner.design.profile import PROFILES
from runner.design.question import Going
from runner.ranking.model import Verdict, Weights
from runner.sweep import run as session
from runner.sweep.conductor import Conductor
from runner.sweep.plan import Planned
from runner.sweep.repeating import next_look
from runner.sweep.settings import Outcome, Stage
from tests.unit.asking import FARM, made_up, request
from tests.unit.looking import going
from tests.unit.synthetic import CBC, IDLE, PLAIN, TCP, UDP, make_run, make_trial

VPNS = ("none", "openvpn", "ssh_tun", "ipsec_user")
RUN = make_run(VPNS)
OTHER = {"cipher": "3des-cbc", "integrity": "hmac-sha256", "compression": "off"}
CELLS = [
    Cell(vpn=vpn, params=(PLAIN if vpn == "none" else tunnel) | traffic)
    for vpn in VPNS
    for tunnel in (CBC, OTHER)
    for traffic in (TCP, UDP, IDLE, TCP | {"streams": "4"})
    if vpn != "none" or tunnel == CBC
]
NOISY = 0.2
TCP_ONLY = Weights(name="tcp", values={"tcp_throughput": 1})


def measured(cells: Sequence[Cell], block: int, truth: dict[str, float], noise: float = 0.02) -> list[Trial]:
    """A block of TCP trials of ``cells``: Mbit/s by VPN, with log-normal noise."""

    def value(vpn: str) -> float:
        return truth[vpn] * float(np.random.default_rng([block, VPNS.index(vpn)]).lognormal(0, noise))

    return [
        make_trial(cell.vpn, cell.params, block, {"tcp_throughput": value(cell.vpn)})
        for cell in cells
        if cell.params["measure"] == "tcp"
    ]


def first_blocks(truth: dict[str, float]) -> list[Trial]:
    return [trial for block in (1, 2, 3) for trial in measured(CELLS, block, truth)]


CLOSE = {"none": 9000.0, "openvpn": 300.0, "ssh_tun": 330.0, "ipsec_user": 100.0}  # three blocks do not tell
APART = {"none": 9000.0, "openvpn": 300.0, "ssh_tun": 200.0, "ipsec_user": 100.0}


def test_the_next_block_has_the_pair_in_doubt_and_the_baseline_only() -> None:
    cells, doubts, *_ = going(RUN, first_blocks(CLOSE), CELLS, TCP_ONLY, math.inf, 1.0)
    assert {(cell.vpn, *cell.params.values()) for cell in cells} == {
        ("none", *(PLAIN | TCP).values()),
        ("openvpn", *(CBC | TCP).values()),
        ("ssh_tun", *(CBC | TCP).values()),
    }
    assert len(doubts) == 1
    assert "openvpn" in doubts[0]
    assert "ssh_tun" in doubts[0]
    assert "(comparable)" in doubts[0]


def test_separated_neighbours_end_it() -> None:
    assert going(RUN, first_blocks(APART), CELLS, TCP_ONLY, math.inf, 1.0) == Going([], [], set())


def test_only_the_metric_in_doubt_is_measured() -> None:
    """In round trips, all three are the same."""
    trials = first_blocks(CLOSE)
    trials += [
        make_trial(vpn, CBC | IDLE, block, {"rtt": 0.2 * (1 + 0.01 * block)}) for vpn in VPNS[1:] for block in (1, 2, 3)
    ]
    cells, *_ = going(RUN, trials, CELLS, Weights(name="", values={"tcp_throughput": 1, "rtt": 1}), math.inf, 1.0)
    assert {cell.params["measure"] for cell in cells} == {"tcp"}
    assert {cell.params.get("streams", "1") for cell in cells} == {"1"}


def test_what_is_not_asked_for_is_not_measured_and_stays_in_doubt() -> None:
    cells, doubts, *_ = going(
        RUN, first_blocks(CLOSE), [c for c in CELLS if c.vpn in ("none", "ipsec_user")], TCP_ONLY, math.inf, 1.0
    )
    assert cells == []
    assert len(doubts) == 1


def test_nothing_is_known_before_the_second_block() -> None:
    cells, doubts, *_ = going(RUN, measured(CELLS, 1, APART), CELLS, TCP_ONLY, math.inf, 1.0)
    assert {cell.vpn for cell in cells} == set(VPNS)
    assert doubts
    assert not any("%" in doubt for doubt in doubts)


def test_repeating_what_is_in_doubt_separates_it() -> None:
    """Ten per cent apart with 2 % noise: more blocks of the two tell them apart, and the third is not repeated."""
    truth = CLOSE
    trials = first_blocks(truth)
    for block in range(4, 40):
        cells, doubts, *_ = going(RUN, trials, CELLS, TCP_ONLY, math.inf, 1.0)
        if not doubts:
            break
        trials += measured(cells, block, truth)
    assert 4 < block < 39
    assert max(trial.repetition for trial in trials if trial.vpn == "ipsec_user") == 3


def test_what_is_asked_is_checked_before_anything_starts() -> None:
    assert request("transport", profile="smallest").repetitions == 1
    asked = request("transport", profile="smallest", until_significant=True, weights="rtt=1")
    assert asked.repetitions == 3
    assert asked.weights is not None
    assert asked.weights.counted_metrics == {"rtt": 1}
    assert request("transport", repetitions=7, until_significant=True).repetitions == 7
    with pytest.raises(UsageError, match="does not measure rtt"):
        request("cipher", until_significant=True, weights="rtt=1")


def test_a_long_deadline_has_more_instances() -> None:
    found = {
        deadline_s: request("transport", deadline_s=deadline_s).repetitions
        for deadline_s in (350, 360, 540, 1190, 72_000)
    }
    assert found == {350: 3, 360: 3, 540: 4, 1190: 7, 72_000: 30}
    assert request("transport").repetitions == 3
    assert request("transport", deadline_s=1200, repetitions=2).repetitions == 2
    assert request("transport", deadline_s=1200, farm=FARM).repetitions == 3
    assert request("transport", deadline_s=1200, profile="smallest").repetitions == 1, "whole tests, one after another"
    assert request("transport", "handover", deadline_s=1200).repetitions == 3, "some of them"


def test_the_site_profile_repeats_what_is_undecided_unless_it_is_told_otherwise() -> None:
    assert request("transport", profile="site").until_significant
    assert not request("transport", profile="site", until_significant=False).until_significant
    assert not request("transport", profile="site", repetitions=1).until_significant
    assert request("transport", profile="site", repetitions=4, until_significant=True).until_significant
    assert not request("transport", profile="quick").until_significant
    assert not request("transport", profile="site", farm=FARM).until_significant


class Silent:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked: list[int] = []

    def show_plan(self, trials: int, expected_s: float) -> None:
        self.asked.append(trials)

    def say(self, text: str) -> None:
        self.said.append(text)

    def tunnel(self, *_: object) -> None: ...
    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def show_slice(self, *_: object) -> None: ...
    def show_trial(self, trial: Trial, remaining_s: float) -> None: ...


@pytest.fixture
def loop_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A loop whose tunnels append made-up trials; the lab is not what is tested here."""

    def make(truth: dict[str, float], noise: float = 0.02, **settings: Any) -> tuple[Conductor, Silent]:
        watcher = Silent()
        profile = PROFILES["smallest"]
        image: Any = None
        with open_store(tmp_path / "run") as store:
            store.save_run(RUN)
            given = Stage(request=made_up(profile, 3), image=image, **settings)
            loop = Conductor(store, {}, CELLS, given, watcher, {})
            loop.look = lambda left_s, share: going(RUN, store.trials, CELLS, TCP_ONLY, left_s, share)
            loop.until_significant = True

            def tunnel(planned: Any) -> None:
                for one in planned.trials:
                    for trial in measured([one.cell], one.repetition, truth, noise):
                        store.append(trial.model_copy(update={"id": one.id, "position": one.position}))

            monkeypatch.setattr(loop, "_tunnel", tunnel)
            monkeypatch.setattr(loop, "probe", lambda known: set())
        return loop, watcher

    return make


Make = Callable[..., tuple[Conductor, Silent]]


def test_the_loop_goes_on_until_the_limit_and_names_what_is_left(loop_of: Make) -> None:
    loop, watcher = loop_of(CLOSE, NOISY, most_repetitions=5)
    outcome = loop.run()
    assert outcome.separation.startswith("after 5 blocks, ended by the limit of repetitions, still undecided: ")
    assert [said.split(" begins. ")[0] for said in watcher.said] == ["block 4", "block 5"]
    assert watcher.asked[1:] == [5, 5]  # the baseline first and last, and three VPNs
    again, _ = loop_of(APART, NOISY, most_repetitions=5)
    assert len(again.store.trials) == len(loop.store.trials)
    assert again.run().separation.startswith("after 5 blocks, ended by the limit")  # nothing is measured twice
    further, _ = loop_of(CLOSE, NOISY, most_repetitions=6)
    further.run()
    assert max(trial.repetition for trial in further.store.trials) == 6


def test_the_loop_ends_where_all_is_separated_or_the_deadline_is_near(loop_of: Make) -> None:
    loop, watcher = loop_of(APART)
    assert loop.run().separation == "after 8 blocks, every pair of VPNs is decided"
    assert loop.outcome.looks == 4  # after 3, 5 and 8 of at most 30 blocks, and the report's
    assert [said.split(" begins. ")[0] for said in watcher.said] == [f"block {number}" for number in range(4, 9)]


def test_a_run_of_one_vpn_has_no_pair_to_decide(loop_of: Make) -> None:
    loop, _ = loop_of(APART)
    one = ("none", "openvpn")
    cells = [cell for cell in CELLS if cell.vpn in one]

    def look(left_s: float, share: float) -> Going:
        trials = [trial for trial in loop.store.trials if trial.vpn in one]
        return going(RUN, trials, cells, TCP_ONLY, left_s, share)

    loop.look = look
    assert loop.run().separation == "after 3 blocks, there is no pair of VPNs to decide"


def test_the_looks_of_all_calls_on_a_folder_are_counted(tmp_path: Path) -> None:
    for call in range(1, 4):
        with open_store(tmp_path) as store:
            run = read_run(tmp_path / "run.json") if call > 1 else RUN.model_copy(update={"invocations": []})
            loop = SimpleNamespace(store=store, outcome=Outcome(looks=6))
            with session.written_down(run, AskedRun(experiments=[]), cast(Any, loop), time.monotonic()):
                pass
        assert read_run(tmp_path / "run.json").looks == 1 + 5 * call


def test_a_look_of_a_later_call_costs_more_and_comes_later_in_the_run(
    loop_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def noting(made: object, counted: object, looks: int, over: float) -> list[Verdict]:
        seen.append(looks)
        return []

    monkeypatch.setattr("questions.rank.judge.verdicts", noting)
    for looks in (1, 6):
        going(RUN.model_copy(update={"looks": looks}), first_blocks(CLOSE), CELLS, TCP_ONLY, 60.0, 0.5)
    assert seen == [6, 11]
    loop, _ = loop_of(CLOSE, deadline=time.monotonic() + 100.0)
    loop._total_s = 100.0
    assert loop._share() == pytest.approx(0, abs=0.01)
    loop.before_s = 300.0
    assert loop._share() == pytest.approx(0.75, abs=0.01)


def test_each_look_comes_later_than_the_one_before() -> None:
    looks = [3]
    while looks[-1] < 30:
        looks.append(next_look(looks[-1], 30))
    assert looks == [3, 5, 8, 13, 21, 30]
    assert len(looks) == MOST_LOOKS
    assert next_look(30, 30) == 31


def test_a_deadline_ends_it(loop_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("runner.sweep.conductor.time.monotonic", lambda: now.__setitem__(0, now[0] + 0.5) or now[0])
    loop, _ = loop_of(CLOSE, NOISY, deadline=400.0)
    assert "ended by the deadline, still undecided" in loop.run().separation
    assert max(trial.repetition for trial in loop.store.trials) > 3
