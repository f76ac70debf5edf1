"""What became of the papers' conclusions in runs: the opening of docs/findings.md, and its list of every sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from runner.papers.findings import Verdict
from runner.papers.published import Conclusion, names, paper
from runner.report.findings import FindingRow
from runner.report.forms.markdown import table_lines
from runner.report.text import NONE

Rows = Sequence[tuple[str, FindingRow]]  # (the run's letter, a finding there)
Outcome = Literal["holds", "does not hold", "answered", "open"]
OUTCOMES: Mapping[Outcome, str] = {
    "holds": "These still hold",
    "does not hold": "These do not",
    "answered": "Answered",
    "open": "Open",
}
ABOUT = (
    "The sections in which the papers conclude (the device page has none: its sections that claim something), sentence "
    "by sentence. A finding is named by its experiment and its name there."
)
HEAD = ("sentence", "in our words", "what became of it")


def outcome(one: Conclusion, rows: Rows) -> Outcome:
    """What became of a conclusion in these runs. One finding of it that is not reproduced, in one run, is enough that
    it does not hold; it holds where each of its findings is reproduced."""
    found = [{row.verdict for _, row in rows if f"{row.experiment}/{row.id}" == finding} for finding in one.by]
    if any("not reproduced" in verdicts for verdicts in found):
        return "does not hold"
    if all("reproduced" in verdicts for verdicts in found):
        return "holds"
    return "answered" if any("answered" in verdicts for verdicts in found) else "open"


def opening(rows: Rows) -> list[str]:
    """Which of the papers' conclusions hold, which do not, and why: a line a paper for each, so that twenty do."""
    found = [(paper(name).title, one) for name in names() for one in paper(name).conclusions if one.by]
    outcomes = [outcome(one, rows) for _, one in found]
    count = {what: outcomes.count(what) for what in OUTCOMES}
    papers = len(dict.fromkeys(title for title, _ in found))
    lines = [
        f"Of {len(found)} conclusions in {papers} papers that can be put to the test, **{count['holds']} still hold**, "
        f"**{count['does not hold']} do not**, and {count['open']} are open; {count['answered']} of the papers' own "
        "open questions are answered.",
        "",
    ]
    for what, heading in OUTCOMES.items():
        for title in dict.fromkeys(title for title, _ in found):
            mine = [one for (of, one), became in zip(found, outcomes, strict=True) if (of, became) == (title, what)]
            if mine and what != "open":
                told = "; ".join(f"{one.says} ({_because(one, rows)})" for one in mine)
                lines.append(f"- **{heading}**, {title}: {told}")
    missing = sum(
        any(all(row.value is None for _, row in rows if f"{row.experiment}/{row.id}" == finding) for finding in one.by)
        for (_, one), became in zip(found, outcomes, strict=True)
        if became == "open"
    )
    rest = count["open"] - missing
    lines += [f"- **Open**: {missing} conclusions need something that these runs did not measure."] if missing else []
    undecided = "the interval reaches across the bound, or the two studies measured different things"
    return [*lines, f"- **Open**: of {rest} conclusions {undecided}."] if rest else lines


def _because(one: Conclusion, rows: Rows) -> str:
    """The finding that decides a conclusion, in short: its number, its systems and its run."""
    order: tuple[Verdict, ...] = ("not reproduced", "reproduced", "answered", "not comparable")
    mine = [(run, row) for run, row in rows if f"{row.experiment}/{row.id}" in one.by]
    run, row = min(mine, key=lambda item: order.index(item[1].verdict))
    answer = row.reason.split(":")[0] + ", " if row.verdict == "answered" else ""
    theirs = "" if row.stated == NONE else f", published {row.stated}"
    return f"{answer}{row.measured}{theirs}; run {run}"


def sentences(rows: Rows) -> list[str]:
    """A table a paper: each sentence of its conclusions, and its verdicts or why it is left out."""
    lines = []
    for name in names():
        one = paper(name)
        told = []
        for it in one.conclusions:
            became = f"left out: {it.why}"
            if it.by:
                became = f"{it.fate}: " + "; ".join(_verdicts(finding, rows) for finding in it.by)
            told.append((f"{it.where}, {it.sentence}", it.says, became))
        lines += [f"### {one.title[0].upper()}{one.title[1:]}", "", *table_lines(HEAD, told)]
    return lines


def _verdicts(finding: str, rows: Rows) -> str:
    mine = [f"{row.verdict} (run {run})" for run, row in rows if f"{row.experiment}/{row.id}" == finding]
    return f"{finding} {', '.join(mine) or 'not in these runs'}"
