"""What else a machine did: enough of it, or too few rounds, forbid an answer, in the first line of every form."""

from __future__ import annotations

from typing import Any

import pytest

from questions.choose.judge import choice
from questions.choose.judgement import Choice
from questions.choose.words import headline, lines
from runner.choice.machine import machine_state
from runner.data.loads import CoreLoad, MachineLoad, ProcessLoad
from runner.data.needs import Needs
from runner.data.trials import Noise, Run, Trial
from tests.unit.choice.runs import chosen_run


def beside(trials: list[Trial], foreign: float = 0.0, stolen: float = 0.0) -> list[Trial]:
    """The trials on a machine of which a compiler had this share, and the hypervisor that one."""
    core = CoreLoad(core=0, user=0.5, system=0.1, irq=0.0, softirq=0.0, steal=0.0)
    other = ProcessLoad(node="", name="cc1plus", role="other", busy=2 * foreign)
    own = ProcessLoad(node="gw1", name="openvpn", role="vpn", busy=0.9)
    load = MachineLoad(name="this machine", nodes=["gw1"], seconds=1.0, cores=[core, core], processes=[other, own])
    update = {"loads": [load], "noise": Noise(steal_ratio=stolen)}
    return [trial.model_copy(update=update) for trial in trials]


def made(run: Run, trials: list[Trial]) -> Choice:
    found = choice(run, trials)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("foreign", "stolen", "calm", "disturbed", "forbids"),
    [
        (0.05, 0.02, True, False, None),
        (0.12, 0.0, False, False, None),
        (0.3, 0.0, False, True, None),
        (0.0, 0.25, False, True, None),
        (0.68, 0.0, False, True, "busy"),
        (0.25, 0.25, False, True, "busy"),
    ],
)
def test_the_share_that_others_took(
    foreign: float, stolen: float, calm: bool, disturbed: bool, forbids: str | None
) -> None:
    run, trials = chosen_run()
    state = machine_state(beside(trials, foreign, stolen), [*run.vpns])
    assert (state.calm, state.is_disturbed, state.forbids) == (calm, disturbed, forbids)
    assert state.programs[0].name == "cc1plus"


@pytest.mark.parametrize("needs", [Needs(), Needs(line_bps=1e8)], ids=["every line", "one line"])
def test_a_busy_machine_has_no_answer_and_the_cause_is_the_first_line(needs: Needs) -> None:
    run, trials = chosen_run(needs=needs)
    found = made(run, beside(trials, 0.68))
    assert (found.answer, found.bands, lines(found)) == (None, [], [])
    assert headline(found).startswith("No answer yet: other programs took 68% of this machine's CPU (cc1plus")
    assert found.unsettled, "and measuring goes on as long as there is time"
    assert made(run, trials).bands, "the same without them has one"


def test_nothing_is_sure_where_a_good_part_of_the_machine_was_taken() -> None:
    run, trials = chosen_run(needs=Needs(line_bps=1e8))
    quiet, busy = made(run, trials).answer, made(run, beside(trials, 0.2)).answer
    assert quiet
    assert busy
    assert (quiet.certainties.of_slices, busy.certainties.of_slices) == ("sure", "probably")


@pytest.mark.parametrize(("passes", "forbids"), [(2, "few"), (3, "few"), (4, None)])
def test_three_rounds_tell_no_spread(passes: int, forbids: str | None) -> None:
    run, trials = chosen_run(needs=Needs(line_bps=1e8), passes=passes, noise=0.01)
    found = made(run, trials)
    assert found.machine.forbids == forbids
    assert (found.answer is None) == bool(forbids)


def test_a_vpn_that_came_in_late_forbids_no_answer() -> None:
    """It has fewer rounds than the others."""
    run, trials = chosen_run(needs=Needs(line_bps=1e8))

    def cut(trial: Trial) -> Trial:
        rungs: list[Any] = [
            rung.model_copy(
                update={"rounds": rung.rounds[:1], "values": {name: each[:1] for name, each in rung.values.items()}}
            )
            for rung in trial.curve
        ]
        return trial.model_copy(update={"curve": rungs})

    late = [cut(trial) if trial.vpn == "ipsec_user" else trial for trial in trials]
    assert made(run, late).machine.forbids is None
