"""Which trials of a choice have their turns first, until something can be said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from questions.choose import LADDER, Choose
from runner.data.needs import Needs
from runner.data.trials import Cell, Run, Trial
from runner.design.question import Evidence, Going
from tests.unit.choice.runs import chosen_run


def choosing(run: Run, trials: Sequence[Trial], cells: Sequence[Cell]) -> Going:
    evidence = Evidence(run, trials, share=0.5)
    return Choose().going(evidence, Choose().judge(evidence), cells, 60.0)


@pytest.mark.parametrize(("passes", "instances", "early"), [(1, 1, True), (3, 2, True), (3, 3, False), (8, 2, False)])
def test_ladders_come_first_in_the_first_tunnels_alone(passes: int, instances: int, early: bool) -> None:
    """Three passes are too few to say anything, in however many tunnels: a VPN may fail in all later ones."""
    run, trials = chosen_run(passes=passes, instances=instances)
    cells = list({trial.cell: Cell(vpn=trial.vpn, params=trial.params) for trial in trials}.values())
    going = choosing(run, trials, cells)
    ladders = {cell.key for cell in cells if cell.params["measure"] == LADDER}
    assert ladders
    assert going.first == (ladders if early else set())
    assert not going.tests_pairs


def test_a_run_without_a_trial_begins_with_its_ladders() -> None:
    run, trials = chosen_run(passes=4)
    cells = list({trial.cell: Cell(vpn=trial.vpn, params=trial.params) for trial in trials}.values())
    going = choosing(run, [], cells)
    assert going.first
    assert going.undecided
    assert going.cells == cells


def test_who_comes_in_later_has_turns_where_the_others_have_settled_it() -> None:
    run, trials = chosen_run(passes=6, instances=3, noise=0.02, needs=Needs(line_bps=5e7, path_rtt_ms=20))
    cells = list({trial.cell: Cell(vpn=trial.vpn, params=trial.params) for trial in trials}.values())
    assert not choosing(run, trials, cells).cells, "the control: it is settled"
    late = run.vpns["openvpn"].model_copy(update={"after": 3})
    run = run.model_copy(update={"vpns": run.vpns | {"late": late}})
    new = [cell.model_copy(update={"vpn": "late"}) for cell in cells if cell.vpn == "openvpn"]
    going = choosing(run, trials, [*new, *(cell for cell in cells if cell.vpn == "none")])
    assert {cell.vpn for cell in going.cells} == {"late", "none"}
    assert not going.undecided
