"""The rounds in which trials take turns: their order, their numbers, how long they last; on paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from runner.data.errors import LabError
from runner.data.levels import AES_CBC
from runner.data.store import load_run, read_slices
from runner.data.trials import Cell
from runner.design.question import Going
from runner.sweep.conductor import SIDE_SHARE
from tests.unit.instruments.test_own_instrument import Watcher
from tests.unit.on_paper import (
    OTHER_CIPHER,
    SLICE_S,
    Counts,
    Run,
    by_round,
    cells,
    on_paper,
    trials_of,
)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with on_paper(tmp_path / "run", monkeypatch) as made:
        yield made


# --- rounds ------------------------------------------------------------------------------------------------------


def test_every_cell_has_one_slice_a_round_in_an_order_that_is_drawn_anew(run: Run) -> None:
    run(cells("none", "openvpn", "ipsec_user", "ssh_tun"), rounds=12)
    rounds = by_round(run.world, 4)
    assert len(rounds) == 12
    assert all(sorted(one) == sorted(rounds[0]) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 6
    for trial in run.trials.values():
        (found,) = trial.measurements
        assert (trial.status, found.rounds, len(found.samples)) == ("ok", list(range(1, 13)), 12)
    rows = read_slices(run.folder)
    assert all([row.round for row in rows[trial.id]] == list(range(1, 13)) for trial in run.trials.values())


@pytest.mark.parametrize("deadline_s", [None, 20.0])
def test_what_has_a_turn_in_every_third_round_only_is_not_ended_by_the_rounds_between(
    run: Run, monkeypatch: pytest.MonkeyPatch, deadline_s: float | None
) -> None:
    monkeypatch.setattr(Counts, "every", 3)
    run(cells("none", "openvpn"), rounds=9, deadline_s=deadline_s)
    for trial in run.trials.values():
        (found,) = trial.measurements
        assert found.rounds == [*range(1, len(found.rounds) + 1)], "a round in which nobody is due has no number"
        assert len(found.rounds) == 3 if deadline_s is None else len(found.rounds) > 6


def test_what_is_compared_is_measured_one_after_another(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "turns", 3)
    run(cells("none", "openvpn", "ipsec_user", levels="12"), rounds=6)
    rounds = by_round(run.world, 3 * 3 * 2)
    assert len(rounds) == 6
    groups = [[one[at : at + 3] for at in range(0, len(one), 3)] for one in rounds]
    for one in groups:
        assert all({name[-1] for name in group} in ({"1"}, {"2"}) for group in one)
        assert all(len({*group}) == 3 for group in one), "each VPN once"
    assert len({"".join(group[0][-1] for group in one) for one in groups}) > 2, "the groups come in random order"
    for trial in run.trials.values():
        (found,) = trial.measurements
        assert found.rounds == [1, 2, 3, 4, 5, 6]
        rows = read_slices(run.folder)[trial.id]
        middles = [
            sorted(row.values["counted_ms"] for row in rows if row.round == number)[1] for number in found.rounds
        ]
        assert found.samples == middles


def test_the_order_follows_from_the_seed(run: Run, tmp_path: Path) -> None:
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run.world.turns.clear()
        run(rounds=8, seed=seed, out=tmp_path / name)
        orders.append(by_round(run.world, 3))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_repetitions_are_instances_whose_rounds_have_numbers_of_their_own(run: Run) -> None:
    run(rounds=4, repetitions=3)
    found = [one for one in load_run(run.folder)[1] if one.vpn == "openvpn"]
    assert [one.measurements[0].rounds for one in found] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    rows = read_slices(run.folder)
    assert [{row.instance for row in rows[one.id]} for one in found] == [{1}, {2}, {3}]


def test_a_baseline_beside_no_vpn_has_its_rounds(run: Run) -> None:
    run(cells("none"), rounds=5)
    assert run.rounds("none") == [1, 2, 3, 4, 5]
    run.world.never_up["openvpn"] = TimeoutError("no payload came")
    again = run.folder.with_name("again")
    run(cells("none", "openvpn", levels="12")[:3], rounds=5, out=again)
    found = trials_of(again)
    assert {name: one.status for name, one in found.items()} == {"none": "ok", "none 2": "ok", "openvpn": "failed"}
    assert all(len(found[name].measurements[0].rounds) == 5 for name in ("none", "none 2"))


def test_what_does_not_come_up_is_gone_before_the_rounds(run: Run) -> None:
    run.world.never_up["openvpn"] = TimeoutError("no payload came")
    stood = list[list[str]]()
    run.world.wrong["ipsec_user", 3] = lambda bench: stood.append(sorted(run.world.standing))
    run()
    assert stood == [["ipsec_user", "none"]]
    assert run.trials["openvpn"].reason.startswith("no payload came")
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(("deadline_s", "every"), [(None, 5), (24.0, 10)])
def test_what_no_ranking_is_made_of_has_fewer_turns(run: Run, deadline_s: float | None, every: int) -> None:
    def side(key: str) -> bool:
        return '"of_counts":"2"' in key

    with pytest.MonkeyPatch.context() as patch:
        ranked = {cell.key for cell in cells("none", "openvpn", levels="12") if not side(cell.key)}
        patch.setattr("runner.sweep.conductor.ranked_cells", lambda *_: dict.fromkeys(ranked, 1))
        run(cells("none", "openvpn", levels="12"), rounds=12, deadline_s=deadline_s)
    found = {name: one.measurements[0].rounds for name, one in run.trials.items()}
    rounds = range(1, len(found["none"]) + 1)
    assert len(rounds) >= 12
    assert found["openvpn"] == found["none"] == [*rounds]
    assert found["openvpn 2"] == found["none 2"] == [*rounds[::every]]


def test_a_sweep_takes_turns_with_the_rankings_where_there_is_room_and_no_deadline(run: Run) -> None:
    two = cells("none", "openvpn", ciphers=(AES_CBC, OTHER_CIPHER))

    def rounds_of_both(folder: Path) -> list[list[int]]:
        found = [one for one in load_run(folder)[1] if one.vpn == "openvpn"]
        assert len({one.params["cipher"] for one in found}) == 2
        return [one.measurements[0].rounds for one in found]

    run(two, rounds=4)
    assert rounds_of_both(run.folder) == [[1, 2, 3, 4]] * 2
    full = run.folder.with_name("full")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("runner.sweep.rounds.MOST_STANDING", 1)
        run(two, rounds=4, out=full)
    assert sorted(rounds_of_both(full)) == [[1, 2, 3, 4], [5, 6, 7, 8]]


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline_s", [8.0, 20.0, 61.0])
def test_rounds_fill_a_deadline_and_end_in_time(run: Run, deadline_s: float) -> None:
    began = run.world.now
    run(deadline_s=deadline_s, rounds=2, repetitions=2)
    took_s = run.world.now - began
    assert deadline_s - 2.5 <= took_s <= deadline_s + 3 * SLICE_S
    found = [one for one in load_run(run.folder)[1] if one.vpn == "openvpn"]
    assert len(found) == 2
    lengths = [len(one.measurements[0].rounds) for one in found]
    assert abs(lengths[0] - lengths[1]) <= 3, "the repetitions share the time"


def test_the_baseline_alone_fills_a_deadline_too(run: Run) -> None:
    run(cells("none", levels="12"), deadline_s=30.0, rounds=2, repetitions=2)
    found = load_run(run.folder)[1]
    assert len(found) == 4
    assert sum(len(one.measurements[0].rounds) for one in found) > 0.7 * 30 / SLICE_S


def test_what_no_ranking_is_made_of_has_its_share_of_a_deadline(run: Run) -> None:
    run(cells("none", "openvpn", "ssh_tun", ciphers=(AES_CBC, OTHER_CIPHER)), deadline_s=120.0, repetitions=2)
    rows = read_slices(run.folder)
    trials = {one.id: one for one in load_run(run.folder)[1]}
    side = sum(len(rows[name]) for name, one in trials.items() if one.params["cipher"] == "3des-cbc")
    ranked = sum(len(rows[name]) for name, one in trials.items() if one.params["cipher"] == "aes-128-cbc")
    assert side
    assert SIDE_SHARE == 0.1
    assert 0.6 * SIDE_SHARE < side / (side + ranked) < 1.3 * SIDE_SHARE


def test_sweeps_alone_have_the_time_that_they_were_asked_for(run: Run) -> None:
    both = cells("none", "openvpn", "ssh_tun", ciphers=(AES_CBC, OTHER_CIPHER))
    ranked = [cell for cell in both if cell.params["cipher"] != "3des-cbc"]

    def share(folder: Path, **experiments: list[Cell]) -> float:
        of = {cell.key: [name for name, its in experiments.items() if cell in its] for cell in both}
        run(both, deadline_s=120.0, repetitions=2, experiments_of=of, out=folder)
        rows, trials = read_slices(folder), load_run(folder)[1]
        side = sum(len(rows[one.id]) for one in trials if one.params["cipher"] == "3des-cbc")
        others = sum(len(rows[one.id]) for one in trials if one.params["cipher"] == "aes-128-cbc")
        return side / (side + others)

    assert 0.35 < share(run.folder.with_name("alone"), cipher=both) < 0.5
    assert share(run.folder.with_name("beside"), cipher=both, transport=ranked) < 1.3 * SIDE_SHARE


def test_what_a_look_has_ended_is_told_from_what_the_deadline_left_out(run: Run) -> None:
    of = cells("none", "openvpn", "ipsec_user", "ssh_tun")
    outcome = run(
        of, deadline_s=40.0, repetitions=4, look=lambda left_s, share: Going(of[:2], ["none or openvpn"], set())
    )
    found = load_run(run.folder)[1]
    assert len({one.repetition for one in found if one.vpn == "openvpn"}) == 4
    assert outcome.passed_over == 16 - len(found) > 0
    assert outcome.trimmed == 0
    assert {one.vpn for one in found if one.repetition == 4} == {"none", "openvpn"}


def test_what_a_look_gives_twice_the_turns_has_two_slices_in_each_round_after_it(run: Run) -> None:
    of = cells("none", "openvpn", "ssh_tun")
    (noisy,) = [cell.key for cell in of if cell.vpn == "ssh_tun"]
    run(of, deadline_s=60.0, repetitions=2, look=lambda left_s, share: Going(of, ["all"], {noisy}))
    rows = read_slices(run.folder)
    per_round = {vpn: Counter[int]() for vpn in ("none", "openvpn", "ssh_tun")}
    for one in load_run(run.folder)[1]:
        per_round[one.vpn].update(row.round for row in rows[one.id])
        assert one.measurements[0].rounds == sorted({row.round for row in rows[one.id]}), "one value a round"
    assert {*per_round["none"].values()} == {*per_round["openvpn"].values()} == {1}
    of_each = [per_round["ssh_tun"][number] for number in sorted(per_round["ssh_tun"])]
    assert of_each == sorted(of_each), "also in the instances after it"
    assert {*of_each} == {1, 2}


@pytest.mark.parametrize("deadline_s", [60.0, None])
def test_each_round_says_how_long_is_left(run: Run, deadline_s: float | None) -> None:
    class Told(Watcher):
        said: ClassVar[list[tuple[float, float]]] = []

        def show_round(self, number: int, tunnels: int, remaining_s: float) -> None:
            self.said.append((run.world.now, remaining_s))

    run(cells("none", "openvpn"), rounds=100, deadline_s=deadline_s, watcher=Told())
    ended = run.world.now
    assert len(Told.said) >= 10
    for now, left_s in Told.said[2:]:  # how long a round takes is known after one
        assert left_s == pytest.approx(ended - now, rel=0.2, abs=5)
    assert Told.said[3][1] > 5


def test_without_a_deadline_nothing_is_left_out(run: Run) -> None:
    outcome = run(repetitions=2)
    assert (outcome.trimmed, outcome.passed_over, len(load_run(run.folder)[1])) == (0, 0, 6)


def test_a_deadline_that_is_over_measures_nothing_and_says_so(run: Run) -> None:
    outcome = run(deadline_s=0.5)
    assert outcome.trimmed + len(run.trials) >= 2
    assert all(one.status == "ok" for one in run.trials.values())


# --- where one tunnel stands at a time -------------------------------------------------------------------------------


def test_visits_of_one_tunnel_after_another_share_the_numbers_of_their_rounds(run: Run) -> None:
    most = list[int]()
    for number in range(1, 5):
        run.world.wrong["openvpn", number] = lambda bench: most.append(len(run.world.standing))
    run(rounds=4, repetitions=2, stands=1)
    assert set(most) == {1}
    found = [(one.repetition, one.measurements[0].rounds) for one in load_run(run.folder)[1]]
    assert sorted(found, key=str) == [(1, [1, 2, 3, 4])] * 3 + [(2, [5, 6, 7, 8])] * 3


@pytest.mark.parametrize("deadline_s", [4.0, 9.0, 40.0])
def test_a_visit_that_would_begin_after_the_deadline_is_left_out(
    run: Run, monkeypatch: pytest.MonkeyPatch, deadline_s: float
) -> None:
    """On slow machines a tunnel takes longer than its share, whatever the deadline says."""
    monkeypatch.setattr("tests.unit.on_paper.BRING_UP_S", 3.0)
    names = ("none", "openvpn", "ipsec_user", "ssh_tun", "wireguard_go")
    began = run.world.now
    outcome = run(cells(*names), rounds=4, stands=1, deadline_s=deadline_s)
    took_s = 3.0 + SLICE_S
    assert run.world.now - began < deadline_s + 2 * took_s, "one visit, and the baseline's"
    assert "none" in run.trials
    assert outcome.trimmed == len(names) - len(run.trials)
    assert all(one.status == "ok" for one in run.trials.values())
    assert (len(run.trials) == len(names)) is (deadline_s == 40.0)


def test_a_lab_that_breaks_while_an_interruption_ends_it_is_not_a_broken_lab(run: Run) -> None:
    def interrupted(bench: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise LabError("gw1: the connection ended")

    run.world.wrong["openvpn", 2] = interrupted
    with pytest.raises(KeyboardInterrupt):
        run()
