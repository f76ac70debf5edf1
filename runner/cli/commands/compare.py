"""``vpneval compare``: a run before a change and one after it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli.folders import one_run
from runner.cli.options import Json, Margin, begin, tell
from runner.cli.reading import of_kinds
from runner.data.errors import UsageError, require_known
from runner.data.streams import document

EXITS = {"worse": 1, "cannot tell": 6, "fine": 0, "nothing measured": 5}  # of several kinds of machines the first


def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="the run folder from before the change")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="the run folder from after the change")],
    as_json: Json = False,
    margin: Margin = "",
    form: Annotated[str, typer.Option("--format", metavar="FORM", help="term, html or json")] = "term",
) -> None:
    """Compare a run before a change with one after it.

    Exit code 1: something became worse by more than its metric's margin, or fails now. 6: nothing did, and not one
    measurement is decided. 5: the runs share no measurement.

    Of farms with several kinds of machines, each kind is compared with the same kind in the other run.
    """
    begin("vpneval reads both runs and compares them.")
    from runner.cli.output import out
    from runner.data.irregular import load_told
    from runner.data.merge import distinct
    from runner.ranking.margins import with_margins
    from runner.report.compare import compare_kinds
    from runner.report.forms.comparison import comparison_html
    from runner.report.forms.terminal_comparison import render

    require_known("format", form, ["term", "html", "json"])
    before, after = one_run(before), one_run(after)
    if before.resolve() == after.resolve():
        raise UsageError(f"compare takes two runs, and both are {before}: before the change, and after it")
    (first, trials, lacks), (second, later, too) = load_told(before), load_told(after)
    for sentence in lacks + too:
        tell(f"Warning: {sentence}")
    first, second = distinct([first, second], [before, after])
    if trials and trials == later:
        raise UsageError(f"{before} and {after} hold the same measurements: nothing was measured in between")
    comparisons = compare_kinds((with_margins(first, margin), trials), (with_margins(second, margin), later))
    if as_json or form == "json":
        texts = [comparison.model_dump_json(indent=1) for comparison in comparisons]
        document((texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]") + "\n")
    elif form == "html":
        if len(comparisons) > 1:
            raise UsageError(
                f"--format html holds one comparison, and these runs have {len(comparisons)} kinds of machines "
                "in common: choose --format term or json"
            )
        document(comparison_html(comparisons[0]))
    else:
        for number, comparison in enumerate(comparisons, 1):
            if len(comparisons) > 1:
                out.rule(of_kinds(number, len(comparisons)))
            render(comparison, out)
    outcomes = {comparison.outcome for comparison in comparisons}
    if code := next(EXITS[outcome] for outcome in EXITS if outcome in outcomes):
        raise typer.Exit(code)
