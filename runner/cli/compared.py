"""A comparison of two runs, or of two builds, as a command shows it, and the exit code that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runner.cli.output import out
from runner.cli.reading import of_kinds
from runner.data.errors import UsageError
from runner.data.streams import document

if TYPE_CHECKING:
    from runner.report.compare import Comparison

EXITS = {"worse": 1, "cannot tell": 6, "fine": 0, "nothing measured": 5}  # of several comparisons the first
FORMS = ("term", "html", "md", "json", "junit")


def code_of(comparisons: Sequence[Comparison]) -> int:
    """The exit code of these comparisons."""
    outcomes = {comparison.outcome for comparison in comparisons}
    return next(EXITS[outcome] for outcome in EXITS if outcome in outcomes)


def show(comparisons: Sequence[Comparison], form: str) -> None:
    """Print the comparisons in this form of FORMS. Raises UsageError where it holds one only."""
    from runner.report.forms.comparison import comparison_html, comparison_junit, comparison_md
    from runner.report.forms.terminal_comparison import render

    if form == "json":
        texts = [comparison.model_dump_json(indent=1) for comparison in comparisons]
        document((texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]") + "\n")
    elif form == "html":
        if len(comparisons) > 1:
            raise UsageError(
                f"--format html holds one comparison, and there are {len(comparisons)} here: choose another --format"
            )
        document(comparison_html(comparisons[0]))
    elif form in ("md", "junit"):
        document((comparison_md if form == "md" else comparison_junit)(comparisons))
    else:
        for number, comparison in enumerate(comparisons, 1):
            if comparison.machines and len(comparisons) > 1:
                out.rule(of_kinds(number, len(comparisons)))
            render(comparison, out)
