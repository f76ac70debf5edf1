"""Which cells --until-significant measures next, on made-up trials with a known truth."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.cli.asked import ask
from runner.data.errors import UsageError
from runner.data.store import open_store
from runner.data.trials import Cell, Trial
from runner.design.profile import PROFILES
from runner.ranking.weights import Weights
from runner.sweep.call import Settings
from runner.sweep.loop import Loop
from runner.sweep.plan import Planned
from runner.sweep.until import next_cells
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


CLOSE = {"none": 9000.0, "openvpn": 300.0, "ssh_tun": 303.0, "ipsec_user": 100.0}
APART = {"none": 9000.0, "openvpn": 300.0, "ssh_tun": 200.0, "ipsec_user": 100.0}


def test_the_next_block_has_the_pair_in_doubt_and_the_baseline_only() -> None:
    cells, doubts = next_cells(RUN, first_blocks(CLOSE), CELLS, TCP_ONLY)
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
    assert next_cells(RUN, first_blocks(APART), CELLS, TCP_ONLY) == ([], [])


def test_every_weighted_metric_of_the_pair_is_measured() -> None:
    trials = first_blocks(CLOSE)
    trials += [
        make_trial(vpn, CBC | IDLE, block, {"rtt": 0.2 * (1 + 0.01 * block)}) for vpn in VPNS[1:] for block in (1, 2, 3)
    ]
    cells, _ = next_cells(RUN, trials, CELLS, Weights(name="", values={"tcp_throughput": 1, "rtt": 1}))
    assert {cell.params["measure"] for cell in cells} == {"tcp", "idle"}
    assert {cell.params.get("streams", "1") for cell in cells} == {"1"}


def test_what_is_not_asked_for_is_not_measured_and_stays_in_doubt() -> None:
    cells, doubts = next_cells(
        RUN, first_blocks(CLOSE), [c for c in CELLS if c.vpn in ("none", "ipsec_user")], TCP_ONLY
    )
    assert cells == []
    assert len(doubts) == 1


def test_nothing_is_known_before_the_second_block() -> None:
    cells, doubts = next_cells(RUN, measured(CELLS, 1, APART), CELLS, TCP_ONLY)
    assert {cell.vpn for cell in cells} == set(VPNS)
    assert doubts
    assert not any("%" in doubt for doubt in doubts)


def test_repeating_what_is_in_doubt_separates_it() -> None:
    """Three per cent apart with 2 % noise: more blocks of the two tell them apart, and the third is not repeated."""
    truth = CLOSE | {"ssh_tun": 309.0}
    trials = first_blocks(truth)
    for block in range(4, 40):
        cells, doubts = next_cells(RUN, trials, CELLS, TCP_ONLY)
        if not doubts:
            break
        trials += measured(cells, block, truth)
    assert 4 < block < 39
    assert max(trial.repetition for trial in trials if trial.vpn == "ipsec_user") == 3


def test_what_is_asked_is_checked_before_anything_starts() -> None:
    assert ask(["transport"], profile="smallest").repetitions == 1
    asked = ask(["transport"], profile="smallest", until_significant=True, weights="rtt=1")
    assert asked.repetitions == 3
    assert asked.weights is not None
    assert asked.weights.counted == {"rtt": 1}
    assert ask(["transport"], repetitions=7, until_significant=True).repetitions == 7
    with pytest.raises(UsageError, match="will not measure rtt"):
        ask(["cipher"], until_significant=True, weights="rtt=1")


class Silent:
    def __init__(self) -> None:
        self.said: list[str] = []
        self.asked: list[int] = []

    def planned(self, trials: int, expected_s: float) -> None:
        self.asked.append(trials)

    def say(self, text: str) -> None:
        self.said.append(text)

    def tunnel(self, *_: object) -> None: ...
    def round(self, number: int, tunnels: int, remaining_s: float) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def finished(self, trial: Trial, remaining_s: float) -> None: ...


@pytest.fixture
def loop_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A loop whose tunnels append made-up trials; the lab is not what is tested here."""

    def make(truth: dict[str, float], **settings: Any) -> tuple[Loop, Silent]:
        watcher = Silent()
        profile = PROFILES["smallest"]
        image: Any = None
        with open_store(tmp_path / "run") as store:
            store.save_run(RUN)
            given = Settings(profile, 3, 1, image, {}, **settings)
            loop = Loop(store, {}, CELLS, given, watcher, {})
            loop.look = lambda left_s: next_cells(RUN, store.trials, CELLS, TCP_ONLY)
            loop.until_significant = True

            def tunnel(planned: Any) -> None:
                for one in planned.trials:
                    for trial in measured([one.cell], one.repetition, truth):
                        store.append(trial.model_copy(update={"id": one.id, "position": one.position}))

            monkeypatch.setattr(loop, "_tunnel", tunnel)
            monkeypatch.setattr(loop, "probe", lambda known: set())
        return loop, watcher

    return make


Make = Callable[..., tuple[Loop, Silent]]


def test_the_loop_goes_on_until_the_limit_and_names_what_is_left(loop_of: Make) -> None:
    loop, watcher = loop_of(CLOSE | {"ssh_tun": 300.0}, most_repetitions=5)
    outcome = loop.run()
    assert outcome.separation.startswith("after 5 blocks, ended by the limit of repetitions, still in doubt: ")
    assert [said.split(",")[0] for said in watcher.said] == ["block 4", "block 5"]
    assert watcher.asked[1:] == [4, 4]  # the baseline first and last, and two VPNs
    again, _ = loop_of(APART, most_repetitions=5)
    assert len(again.store.trials) == len(loop.store.trials)
    assert again.run().separation.startswith("after 5 blocks, ended by the limit")  # nothing is measured twice
    further, _ = loop_of(CLOSE, most_repetitions=6)
    further.run()
    assert max(trial.repetition for trial in further.store.trials) == 6


def test_the_loop_ends_where_all_is_separated_or_the_deadline_is_near(loop_of: Make) -> None:
    loop, watcher = loop_of(APART)
    assert loop.run().separation == "after 3 blocks, no pair of neighbours in the ranking is in doubt"
    assert watcher.said == []


def test_a_deadline_ends_it(loop_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("runner.sweep.loop.time.monotonic", lambda: now.__setitem__(0, now[0] + 0.5) or now[0])
    loop, _ = loop_of(CLOSE | {"ssh_tun": 300.0}, deadline=400.0)
    assert "ended by the deadline, still in doubt" in loop.run().separation
    assert max(trial.repetition for trial in loop.store.trials) > 3
