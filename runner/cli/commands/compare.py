"""``vpneval compare``: a run before a change and one after it, or two builds in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import options
from runner.cli.folders import one_run
from runner.data.errors import UsageError, require_known

if TYPE_CHECKING:
    from questions.compare.judgement import Comparisons


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="the run folder from before the change, or one with two builds")
    ],
    after: Annotated[
        Path | None, typer.Argument(metavar="[AFTER]", help="the run folder from after the change")
    ] = None,
    as_json: options.Json = False,
    margin: options.Margin = "",
    at_least: options.AtLeast = "",
    form: Annotated[
        str,
        typer.Option("--format", metavar="FORM", help="term, html, md (for a pull request), json or junit (JUnit XML)"),
    ] = "term",
) -> None:
    """Compare a run before a change with one after it, or the builds of one run (`run --build`).

    Exit code 0: nothing became worse, or nothing was found: what would have been is named. 1: something became worse by
    more than its metric's margin, or fails now. 6: nothing was found, and that is less than --at-least asks for, or not
    known. 5: the runs share no measurement.

    Of farms with several kinds of machines, each kind is compared with the same kind in the other run.
    """
    options.begin("vpneval reads the runs and compares them.")
    from runner.cli.compared import FORMS, code_of, show

    require_known("format", form, list(FORMS))
    judged = _judge(one_run(before), one_run(after) if after else None, margin, at_least)
    show(judged, "json" if as_json else form)
    if code := code_of(judged):
        raise typer.Exit(code)


def _judge(before: Path, after: Path | None, margin: str, at_least: str) -> Comparisons:
    from runner.catalogue import load_told
    from runner.cli.compared import judge
    from runner.data.merge import distinct
    from runner.design.question import Evidence
    from runner.ranking.margins import with_margins

    if after and before.resolve() == after.resolve():
        raise UsageError(f"compare takes two runs, and both are {before}: before the change, and after it")
    folders = [before, *([after] if after else [])]
    read = [load_told(folder) for folder in folders]
    for sentence in (sentence for _, _, lacks in read for sentence in lacks):
        options.tell(f"Warning: {sentence}")
    runs = [with_margins(run, margin) for run in distinct([run for run, _, _ in read], folders)]
    (trials, *later) = (trials for _, trials, _ in read)
    if trials and trials in later:
        raise UsageError(f"{before} and {after} hold the same measurements: nothing was measured in between")
    judged = judge(Evidence(runs[0], trials, after=(runs[1], later[0]) if later else None), at_least)
    if not judged.comparisons:
        raise UsageError(
            f"{runs[0].run_id} has no two builds of a VPN. Name two runs, before the change and after it, or measure "
            "builds: vpneval run builds --build VPN@old=PATH --build VPN@new=PATH"
        )
    return judged
