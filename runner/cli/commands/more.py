"""``vpneval more RUN``: the run's own command line once more, with its folder and the time that a sure answer takes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli.folders import one_run
from runner.cli.options import (
    Deadline,
    Full,
    Json,
    Line,
    MustHaves,
    NeedsFile,
    PathLoss,
    PathRtt,
    Quiet,
    TrafficName,
    begin,
    tell,
)
from runner.data.errors import UsageError
from runner.data.files import word

if TYPE_CHECKING:
    from runner.data.trials import Run
    from runner.report.model import Report

LEAST_S = 180  # that a run goes on for, where a line has no sure answer: else as long as it has taken
# What the first command line said of its own time, folder and output, of other runs, and of other kernels.
WITH_VALUE = ("--deadline", "--out", "--rest", "--kernel")
NEEDS = ("--needs", "--line", "--path-rtt", "--path-loss", "--traffic", "--must")
FLAGS = ("--install", "--until-significant", "--no-until-significant", "--quiet", "--full", "--json", "--no-color")


def more(
    context: typer.Context,
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of the run to go on with")],
    deadline: Deadline = "",
    needs: NeedsFile = None,
    line: Line = "",
    path_rtt: PathRtt = "",
    path_loss: PathLoss = "",
    traffic: TrafficName = "",
    must: MustHaves = None,
    quiet: Quiet = False,
    full: Full = False,
    as_json: Json = False,
) -> None:
    """Go on with a run where lines have no sure answer, or pairs of VPNs are undecided, and print the report.

    It measures as the run was asked for: the same experiments, VPNs, levels, weights, profile and lab. Without
    --deadline it takes the time that the report names. A run of a farm gets twice as many repetitions instead.
    """
    begin("vpneval reads the run.")
    from runner.data.store import is_being_written, load_run

    folder = one_run(folder)
    if is_being_written(folder):
        raise UsageError(
            f"{folder} is being measured right now. `vpneval watch {word(folder)}` shows it; go on when it ends"
        )
    run, _ = load_run(folder)
    asked = asked_first(run, folder)
    words = [*without(asked, *WITH_VALUE), *under(run, asked, folder), "--out", str(folder)]
    words = _with_needs(words, context)
    words += [flag for flag, given in {"--quiet": quiet, "--full": full, "--json": as_json}.items() if given]
    if run.machines:
        words = _repeated(words, run, folder, deadline)
    else:
        words.append("--until-significant")
        time = deadline or _time(folder, value_of("--weights", asked), quiet)
        words += [] if "--rounds" in words and not deadline else ["--deadline", time]
    sys.argv[1:] = ["run", *words]  # in a guest, in a user namespace and in run.json, it is this command
    command = context.parent.command.commands["run"]  # type: ignore[union-attr]
    with command.make_context("run", words, parent=context.parent) as going:
        command.invoke(going)


def _with_needs(words: list[str], context: typer.Context) -> list[str]:
    """The command line with the needs that this one states in place of those that it had."""
    for option in NEEDS:
        given = context.params[option[2:].replace("-", "_")]
        text = ",".join(given) if isinstance(given, list) else str(given or "")
        words = [*without(words, option), option, text] if text else words
    return words


def asked_first(run: Run, folder: Path) -> list[str]:
    """The words behind ``vpneval run`` of the run's first command line. Raises UsageError where it has none."""
    for invocation in run.invocations[:1]:
        words = [word for word in invocation.command_line[1:] if word not in FLAGS]
        if words[:1] == ["run"]:
            return [part for word in words[1:] for part in (word.split("=", 1) if word.startswith("--") else [word])]
    raise UsageError(
        f"{folder}/run.json does not say with which command the run was made. Give that command, with --out "
        f"{word(folder)}"
    )


def without(words: Sequence[str], *options: str) -> list[str]:
    """The words of a command line without these options and their values."""
    left_out = {at + after for at, word in enumerate(words) if word in options for after in (0, 1)}
    return [word for at, word in enumerate(words) if at not in left_out]


def value_of(option: str, words: Sequence[str]) -> str:
    """What a command line gives this option: the last time counts. Empty where it has none."""
    return next((words[at + 1] for at in range(len(words) - 2, -1, -1) if words[at] == option), "")


def under(run: Run, words: Sequence[str], folder: Path) -> list[str]:
    """The option of the guest kernel that the run was measured under; nothing for the machine's own. A command line
    may name several kernels, whose folders have their names."""
    from runner.cli.guest_runs import folder_of

    if not run.lab.get("guest"):
        return []
    names = value_of("--kernel", words).split(",")
    return ["--kernel", next((name for name in names if folder_of(name) == folder.name), names[-1])]


def _repeated(words: Sequence[str], run: Run, folder: Path, deadline: str) -> list[str]:
    """The command line of a farm's run, with twice as many repetitions. Raises UsageError for a deadline."""
    repetitions = 2 * run.repetitions
    if deadline:
        raise UsageError(
            f"{folder} was measured on a farm, which has no --deadline. Without it, vpneval goes on to {repetitions} "
            "repetitions"
        )
    return [*without(words, "--reps"), "--reps", f"{repetitions}"]


def _time(folder: Path, weights: str, quiet: bool) -> str:
    """For how long to go on. Where nothing is undecided, says so and ends the command. Raises UsageError where nothing
    tells yet."""
    from runner.cli.reading import report_of
    from runner.report.answer import answers, minutes_more, sure

    report: Report = report_of([folder], weights)
    if report.choice and not weights:
        if report.choice.unsettled:
            return f"{max(LEAST_S, report.elapsed_s):.0f}s"
        tell(f"{folder}: every line that was asked for has its answer. Nothing was measured.")
        raise typer.Exit
    all_answers = answers(report)
    minutes = minutes_more(report)
    if not any(answer.pairs for answer in all_answers) or (
        minutes is None and any(answer.open for answer in all_answers)
    ):
        raise UsageError(
            f"{folder} does not tell yet how long a sure answer takes. Say how long to measure: vpneval more "
            f"{word(folder)} --deadline 10m"
        )
    if minutes is None:
        tell(f"{folder}: {sure(report, all_answers[0])} Nothing was measured.")
        raise typer.Exit
    if not quiet:
        tell(sure(report, next(answer for answer in all_answers if answer.open)))
    return f"{minutes}m"
