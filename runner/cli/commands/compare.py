"""``vpneval compare``: a run before a change and one after it, or two builds in one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import options
from runner.cli.folders import one_run
from runner.data.errors import UsageError, require_known

if TYPE_CHECKING:
    from runner.report.compare import Comparison


def compare(
    before: Annotated[
        Path, typer.Argument(metavar="BEFORE", help="the run folder from before the change, or one with two builds")
    ],
    after: Annotated[
        Path | None, typer.Argument(metavar="[AFTER]", help="the run folder from after the change")
    ] = None,
    as_json: options.Json = False,
    margin: options.Margin = "",
    form: Annotated[
        str,
        typer.Option("--format", metavar="FORM", help="term, html, md (for a pull request), json or junit (JUnit XML)"),
    ] = "term",
) -> None:
    """Compare a run before a change with one after it, or the builds of one run (`run --build`).

    Exit code 1: something became worse by more than its metric's margin, or fails now. 6: nothing did, and not one
    measurement is decided. 5: the runs share no measurement.

    Of farms with several kinds of machines, each kind is compared with the same kind in the other run.
    """
    options.begin("vpneval reads the runs and compares them.")
    from runner.cli.compared import FORMS, code_of, show

    require_known("format", form, list(FORMS))
    comparisons = _runs(one_run(before), one_run(after), margin) if after else _builds(one_run(before), margin)
    show(comparisons, "json" if as_json else form)
    if code := code_of(comparisons):
        raise typer.Exit(code)


def _runs(before: Path, after: Path, margin: str) -> list[Comparison]:
    from runner.catalogue import load_told
    from runner.data.merge import distinct
    from runner.ranking.margins import with_margins
    from runner.report.compare import compare_kinds

    if before.resolve() == after.resolve():
        raise UsageError(f"compare takes two runs, and both are {before}: before the change, and after it")
    (first, trials, lacks), (second, later, too) = load_told(before), load_told(after)
    for sentence in lacks + too:
        options.tell(f"Warning: {sentence}")
    first, second = distinct([first, second], [before, after])
    if trials and trials == later:
        raise UsageError(f"{before} and {after} hold the same measurements: nothing was measured in between")
    return compare_kinds((with_margins(first, margin), trials), (with_margins(second, margin), later))


def _builds(folder: Path, margin: str) -> list[Comparison]:
    from runner.catalogue import load_told
    from runner.ranking.margins import with_margins
    from runner.report.builds import compare_builds

    run, trials, lacks = load_told(folder)
    for sentence in lacks:
        options.tell(f"Warning: {sentence}")
    return compare_builds(with_margins(run, margin), trials)
