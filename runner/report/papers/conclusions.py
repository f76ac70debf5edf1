"""What became of the papers' conclusions in runs: the opening of docs/findings.md, and each paper's conclusions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from runner.papers.claims import KERNEL_ESP
from runner.papers.conditions import ALIKE
from runner.papers.findings import Verdict
from runner.papers.judges import why_today
from runner.papers.published import Conclusion, names, paper
from runner.report.papers.deciding import Rows, Runs, in_words, of_finding, ways
from runner.report.papers.findings import FindingRow
from runner.report.text import NONE, counted

Outcome = Literal["holds", "does not hold", "answered", "open"]
OUTCOMES: Mapping[Outcome, str] = {
    "holds": "These hold",
    "does not hold": "These do not",
    "answered": "Answered",
    "open": "Open",
}
GENERIC = "the guest's ESP is generic C code"  # of User Mode Linux, which has no driver for the CPU's instructions


def outcome(conclusion: Conclusion, rows: Rows) -> Outcome:
    """What became of a conclusion in these runs. It does not hold if one of its findings is not reproduced in one run.
    It holds if each of its findings is reproduced. A verdict that does not stand on the machines of its run is left
    out."""
    verdicts_of = [
        {row.verdict for _, row in of_finding(finding, rows) if row.stands != "no"} for finding in conclusion.by
    ]
    if any("not reproduced" in verdicts for verdicts in verdicts_of):
        return "does not hold"
    if all("reproduced" in verdicts for verdicts in verdicts_of):
        return "holds"
    return "answered" if any("answered" in verdicts for verdicts in verdicts_of) else "open"


def put_to_the_test() -> list[tuple[str, Conclusion]]:
    """The conclusions that are put to the test, each with the name of its paper."""
    return [(name, conclusion) for name in names() for conclusion in paper(name).conclusions if conclusion.by]


def decidable(conclusion: Conclusion, rows: Rows, runs: Runs) -> bool:
    """Has a run here decided this conclusion, or could a host and its guest kernels decide one of its open findings?"""
    return outcome(conclusion, rows) != "open" or any(way.here for way in ways(conclusion, rows, runs))


def opening(rows: Rows, runs: Runs) -> list[str]:
    """How many conclusions hold, do not, and are open, in a paragraph; then which, in a line for each outcome and
    paper: the paper's words in italics, and by which of our numbers, or what would decide it."""
    outcomes = [(name, conclusion, outcome(conclusion, rows)) for name, conclusion in put_to_the_test()]
    count = {what: sum(became == what for _, _, became in outcomes) for what in OUTCOMES}
    elsewhere = sum(not decidable(conclusion, rows, runs) for _, conclusion, _ in outcomes)
    papers = list(dict.fromkeys(name for name, _, _ in outcomes))
    lines = [
        f"We measured again, with today's software, what {len(papers)} published texts found of VPNs. Of their "
        f"{len(outcomes)} conclusions and open questions that can be put to the test, **{count['holds']} hold**, "
        f"**{count['does not hold']} do not**, {count['answered']} {'is' if count['answered'] == 1 else 'are'} "
        f"answered, and **{count['open']} are open**. Of the open ones, {elsewhere} cannot be decided by a host with "
        "its guest kernels.",
        "",
    ]
    for what, heading in OUTCOMES.items():
        for name in papers:
            mine = [conclusion for of, conclusion, became in outcomes if (of, became) == (name, what)]
            if mine:
                lines.append(f"- **{heading}**, {_linked(paper(name).title)}: {_told(mine, what, rows, runs)}")
    return lines


def _linked(title: str) -> str:
    """The title as a link to the paper's section."""
    return f"[{title}](#{title.lower().replace(' ', '-')})"


def _told(conclusions: Sequence[Conclusion], became: Outcome, rows: Rows, runs: Runs) -> str:
    """The conclusions, and what the opening says of each; what it says of several at once."""
    by_fate: dict[str, list[str]] = {}
    for conclusion in conclusions:
        if became == "open":
            fate = " ".join(map(sentence, in_words(ways(conclusion, rows, runs))))
        else:
            fate = because(conclusion, rows) if became != "holds" else ""
        by_fate.setdefault(fate, []).append(f"*{sentence(conclusion.says)}*")
    return " ".join(f"{' '.join(theirs)} {fate}".rstrip() for fate, theirs in by_fate.items())


def sentence(words: str) -> str:
    """The words with a capital and a full stop."""
    return words[:1].upper() + words[1:] + ("" if words[-1:] in ".?" else ".")


def because(conclusion: Conclusion, rows: Rows) -> str:
    """The number of the finding that decides a conclusion, in a sentence, with the run and why it is so today."""
    run, row = deciding(conclusion, rows)
    answer = sentence(row.reason.split(":")[0]) + " " if row.verdict == "answered" else ""
    notes = [row.part] * bool(row.part) + [f"run {run}"] + [f"published: {row.stated}"] * (row.stated != NONE)
    number = sentence(f"{row.sentence} ({'; '.join(notes)})")
    return " ".join([f"{answer}{number}", *map(sentence, _why(row))])


def deciding(conclusion: Conclusion, rows: Rows) -> tuple[str, FindingRow]:
    """The run and the finding that decide a conclusion."""
    order: tuple[Verdict, ...] = ("not reproduced", "reproduced", "answered", "undecided", "unmeasured", "incomparable")
    mine = [(run, row) for name in conclusion.by for run, row in of_finding(name, rows) if row.stands != "no"]
    return min(mine, key=lambda item: order.index(item[1].verdict))


def _why(row: FindingRow) -> list[str]:
    """Why a finding is not reproduced today, and whether it depends on the guest kernel's generic ESP."""
    reasons = why_today(row.experiment, row.id, row.reason) if row.verdict == "not reproduced" else []
    reasons += [row.note] * bool(row.note)
    alike = row.note in ALIKE.values()
    generic = not alike and row.kernel.endswith(" in uml") and f"{KERNEL_ESP} (kernel)" in row.systems
    return reasons + [GENERIC] * (generic and row.basis in ("ratio", "share"))


def precision(rows: Rows) -> str:
    """How many findings with a number that stands are left undecided by their interval: on hosts, and in guests."""
    phrases = []
    for where, guest in (("this host's own kernel", False), ("guest kernels", True)):
        mine = [(run, row) for run, row in rows if row.value is not None and row.stands != "no" and row.guest == guest]
        claims = [of_finding(name, mine) for name in dict.fromkeys(f"{row.experiment}/{row.id}" for _, row in mine)]
        decided = [any(row.decided for _, row in claim) for claim in claims]
        undecided = [any(row.undecided for _, row in claim) for claim in claims]
        left = sum(open_ and not done for done, open_ in zip(decided, undecided, strict=True))
        phrases.append(
            f"of {counted(sum(decided) + left, 'finding')} that runs on {where} could decide, the interval leaves "
            f"{left} undecided"
        )
    return sentence("; ".join(phrases))


def conclusion_lines(name: str, rows: Rows) -> list[str]:
    """Of a paper: each conclusion that is put to the test, with its place, what became of it, and by which findings; of
    one that holds with the number, because the opening has those of the others."""
    lines = []
    for conclusion in [conclusion for of, conclusion in put_to_the_test() if of == name]:
        became: str = outcome(conclusion, rows)
        place = f"{conclusion.where}, {conclusion.sentence}"
        number = f" {because(conclusion, rows)}" if became == "holds" else ""
        lines.append(f"- **{became}**: *{sentence(conclusion.says)}* ({place}) By {', '.join(conclusion.by)}.{number}")
    return lines
