"""``vpneval more RUN``: the run's own command line once more, with its folder and the time that a sure answer takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import options
from runner.cli.folders import the_run
from runner.data.errors import UsageError
from runner.data.files import word
from runner.data.options import NeedsOptions

if TYPE_CHECKING:
    from runner.data.trials import Run


def go_on(
    *,
    last: options.LastRun = None,
    of_run: options.OfRun = None,
    deadline: options.Deadline = "",
    needs: NeedsOptions,
    shown: options.Shown,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="FILE|DIR",
            help="use this file, or what is below this directory, if the run asks for it; of a farm: the scheduler's "
            "address",
        ),
    ] = None,
) -> None:
    """Go on with a run where lines have no sure answer, pairs of VPNs are undecided, or what is named was not watched
    yet, and print the report.

    It measures as the run was asked for: the same experiments, VPNs, levels, weights, profile and lab. Without
    --deadline it takes the time that the report names. A run of a farm gets twice as many repetitions instead.

    A run folder is data: files that the run asks for beside vpneval's own are used where this command trusts them, or
    where you have measured with them before.
    """
    options.begin("vpneval reads the run.")
    from runner.catalogue import load_run
    from runner.choice.stated import state_needs
    from runner.cli.commands.run.work import measure
    from runner.data.invocation import asked_of
    from runner.data.numbers import seconds
    from runner.data.store import is_being_written
    from runner.data.trust import note, require_trusted
    from runner.lab.places import rootless

    folder = the_run("more", last, of_run)
    if is_being_written(folder):
        raise UsageError(
            f"{folder} is being measured right now. `vpneval watch {word(folder)}` shows it; go on when it ends"
        )
    run, _ = load_run(folder)
    asked = asked_of(run)
    if asked is None:
        raise UsageError(
            f"{folder}/run.json does not say with which command the run was made. Give that command, with --out "
            f"{word(folder)}"
        )
    require_trusted(asked, folder, trust or ())
    note(asked)
    asked = asked.with_changes(out=folder, needs=state_needs(needs, run.needs))
    if run.machines:
        asked = asked.with_changes(repetitions=_twice(run, folder, deadline), deadline_s=None, until_significant=None)
    else:
        rootless.enter(asked.lab)  # which begins this command again, where it is not root
        time_s = seconds(deadline) if deadline else _time_s(folder, asked.weights, shown.quiet)
        without = asked.rounds and not deadline  # so many rounds, however long they take
        asked = asked.with_changes(until_significant=True, deadline_s=None if without else time_s)
    raise typer.Exit(measure(asked, shown))


def _twice(run: Run, folder: Path, deadline: str) -> int:
    """How many repetitions a farm's run goes on to. Raises UsageError for a deadline."""
    repetitions = 2 * run.repetitions
    if deadline:
        raise UsageError(
            f"{folder} was measured on a farm, which has no --deadline. Without it, vpneval goes on to {repetitions} "
            "repetitions"
        )
    return repetitions


def _time_s(folder: Path, weights: str, quiet: bool) -> float:
    """For how long to go on. Where nothing is undecided, says so and ends the command. Raises UsageError where nothing
    tells yet."""
    from questions import USUAL, question_of, questions
    from runner.catalogue import load_run
    from runner.cli.reading import weights_of
    from runner.data.trials import measured_metrics
    from runner.design.question import Evidence

    run, trials = load_run(folder)
    question = questions()[USUAL] if weights else question_of({trial.params["measure"] for trial in trials})
    evidence = Evidence(run, trials, weights_of(weights, run, measured_metrics(trials)))
    judgement = question.judge(evidence)
    longer_s, told = question.longer_s(evidence, judgement), question.tell_open(evidence, judgement)
    if longer_s is None:
        raise UsageError(
            f"{folder} does not tell yet how long a sure answer takes. Say how long to measure: vpneval more "
            f"{word(folder)} --deadline 10m"
        )
    if not longer_s:
        options.tell(f"{folder}: {told} Nothing was measured.")
        raise typer.Exit
    if not quiet:
        options.tell(told)
    return longer_s
