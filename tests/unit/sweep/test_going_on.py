"""Going on with a run: the undecided pairs of its rankings come before what an earlier deadline left out; on paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.levels import AES_CBC
from runner.data.store import load_run
from runner.design.question import Going
from tests.unit.asking import request
from tests.unit.instruments.test_own_instrument import Watcher
from tests.unit.on_paper import OTHER_CIPHER, Run, cells, on_paper

ALL = cells("none", "openvpn", "ssh_tun", "ipsec_user", ciphers=(AES_CBC, OTHER_CIPHER))
SWEEP = [cell for cell in ALL if cell.params["cipher"] == "3des-cbc"]
IN_DOUBT = [cell for cell in ALL if cell.vpn != "ipsec_user" and cell not in SWEEP]
PAIR = ["counted_ms: openvpn and ssh_tun (comparable)"]


class Told(Watcher):
    """Notes what is said to come, and how long it will take."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.asked: list[tuple[int, float]] = []
        self.left: list[tuple[float, float]] = []  # when it was said, and how long is left

    def show_plan(self, trials: int, expected_s: float) -> None:
        self.asked.append((trials, expected_s))

    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None:
        self.left.append((self.run.world.now, remaining_s))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run of which a deadline has left out the sweep."""
    with on_paper(tmp_path / "run", monkeypatch) as made:
        outcome = made(ALL, deadline_s=20.0, look=lambda left_s, share: Going(IN_DOUBT, PAIR, set()))
        assert outcome.trimmed == len(SWEEP) == 3
        assert sweep_of(made) == []
        made.world.turns.clear()
        yield made


def sweep_of(run: Run) -> list[str]:
    return [one.vpn for one in load_run(run.folder)[1] if one.params["cipher"] == "3des-cbc"]


def test_pairs_in_doubt_have_all_the_time_and_the_display_says_how_long_it_lasts(run: Run) -> None:
    began, told = run.world.now, Told(run)
    outcome = run(
        ALL,
        deadline_s=60.0,
        until_significant=True,
        look=lambda left_s, share: Going(IN_DOUBT, PAIR, set()),
        watcher=told,
    )
    assert {vpn for vpn, *_ in run.world.turns} == {"none", "openvpn", "ssh_tun"}
    assert len(run.world.turns) > 0.8 * 60 / 0.25
    assert sweep_of(run) == []
    assert outcome.trimmed == 3
    assert PAIR[0] in outcome.separation
    ((trials_ahead, ahead_s),) = told.asked
    assert trials_ahead == len(IN_DOUBT)
    assert ahead_s == pytest.approx(60, abs=1)
    assert len(told.left) > 20
    for now, left_s in told.left:
        assert left_s == pytest.approx(began + 60 - now, abs=2)
    trials = [one for one in load_run(run.folder)[1] if one.vpn == "openvpn"]
    assert [one.repetition for one in trials] == [1, 2], "a tunnel of its own"


def test_what_was_left_out_comes_when_every_pair_is_decided(run: Run) -> None:
    decided_at = run.world.now + 25

    def look(left_s: float, share: float) -> Going:
        return Going(IN_DOUBT, PAIR, set()) if run.world.now < decided_at else Going([], [], set())

    outcome = run(ALL, deadline_s=60.0, until_significant=True, look=look)
    assert sorted(sweep_of(run)) == ["ipsec_user", "openvpn", "ssh_tun"]
    assert outcome.trimmed == 0
    assert outcome.separation.endswith("every pair of VPNs is decided")
    assert {vpn for vpn, _, at in run.world.turns if at < decided_at} == {"none", "openvpn", "ssh_tun"}


def test_a_cell_of_a_ranking_that_has_no_number_is_measured_with_the_pairs_in_doubt(run: Run) -> None:
    more = [*ALL, *cells("gre_ipsec")]
    run(more, deadline_s=60.0, until_significant=True, look=lambda left_s, share: Going(IN_DOUBT, PAIR, set()))
    assert {vpn for vpn, *_ in run.world.turns} == {"none", "openvpn", "ssh_tun", "gre_ipsec"}


def test_without_until_significant_the_same_command_measures_what_is_missing(run: Run) -> None:
    run(ALL, deadline_s=60.0, look=lambda left_s, share: Going(IN_DOUBT, PAIR, set()))
    assert sorted(sweep_of(run)) == ["ipsec_user", "openvpn", "ssh_tun"]


def test_a_long_time_for_what_is_undecided_asks_for_no_more_of_the_sweeps(run: Run) -> None:
    given = {"deadline_s": 1140, "until_significant": True}
    assert request("transport", **given).repetitions == 7
    assert request("transport", out=run.folder, **given).repetitions == 3
