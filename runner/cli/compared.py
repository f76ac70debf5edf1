"""A comparison of two runs, or of two builds, as a command shows it, and the exit code that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runner.cli.output import out
from runner.data.errors import UsageError
from runner.data.streams import document

if TYPE_CHECKING:
    from questions.compare.judgement import Comparisons
    from runner.design.question import Evidence

EXITS = {
    "worse": 1,
    "cannot tell": 6,
    "fine": 0,
    "nothing found": 0,
    "nothing measured": 5,
}  # of several comparisons the first
FORMS = ("term", "html", "md", "json", "junit")


def code_of(judged: Comparisons) -> int:
    """The exit code of these comparisons."""
    outcomes = {comparison.outcome for comparison in judged.comparisons}
    return next(EXITS[outcome] for outcome in EXITS if outcome in outcomes)


def judge(evidence: Evidence, at_least: str) -> Comparisons:
    """The comparisons that a run makes of its builds, or with a later run. ``at_least``: as the option; empty: as the
    run was asked. Raises UsageError."""
    from questions import questions
    from questions.compare.judgement import with_at_least
    from runner.data.invocation import asked_of
    from runner.ranking.margins import parse_margins

    asked = None if at_least or evidence.after else asked_of(evidence.run)
    least = parse_margins(at_least or (asked.at_least if asked else ""), evidence.run.metrics)
    return with_at_least(questions()["compare"].judge(evidence), least)


def show(judged: Comparisons, form: str) -> None:
    """Print the comparisons in this form of FORMS. Raises UsageError where it holds one only."""
    from runner.report.forms.terminal import print_blocks

    if form == "term":
        from questions.compare.blocks import say

        print_blocks(say(judged).brief, out)
    else:
        document(text_of(judged, form))


def text_of(judged: Comparisons, form: str) -> str:
    """The comparisons in a form that is text. Raises UsageError where it holds one only."""
    from questions.compare.blocks import say
    from runner.report.forms.elements import titled_page
    from runner.report.forms.junit import junit_text
    from runner.report.forms.markdown import blocks_text

    if form == "json":
        texts = [comparison.model_dump_json(indent=1) for comparison in judged.comparisons]
        return (texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]") + "\n"
    if form == "html":
        if (several := len(judged.comparisons)) > 1:
            raise UsageError(
                f"--format html holds one comparison, and there are {several} here: choose another --format"
            )
        return titled_page(say(judged).whole)
    return blocks_text(say(judged).whole) if form == "md" else junit_text("vpneval compare", say(judged).checks)
