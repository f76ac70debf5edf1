"""What became of the papers' conclusions in runs: the table that opens the page, with a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from questions.papers.deciding import (
    Rows,
    Runs,
    in_words,
    is_beyond_runs,
    of_finding,
    standing,
    surely,
    undecided_of,
    ways,
)
from questions.papers.findings import FindingRow
from runner.papers.claims import sure
from runner.papers.findings import Verdict
from runner.papers.published import Conclusion, names, paper
from runner.report.forms.markdown import literal
from runner.report.text import NONE

Outcome = Literal["holds", "does not hold", "answered", "open", "cannot be decided"]
OUTCOMES: tuple[Outcome, ...] = ("holds", "does not hold", "answered", "open", "cannot be decided")
UNDECIDED: tuple[Outcome, ...] = ("open", "cannot be decided")
HEAD = ("conclusion", "then", "now", "why")


def outcome(conclusion: Conclusion, rows: Rows) -> Outcome:
    """What became of a conclusion in these runs. It does not hold if one of its findings is not reproduced. It holds if
    each is. A verdict that does not stand on the machines of its runs is left out, and all findings share one error. A
    question is answered if each finding is. What is left cannot be decided if one of its findings is beyond all runs,
    and is open otherwise."""
    by_finding = [of_finding(name, rows) for name in conclusion.by]
    numbers = sum(len(standing(mine)) for mine in by_finding)
    if any(surely(mine, "not reproduced", numbers) for mine in by_finding):
        return "does not hold"
    if all(surely(mine, "reproduced") for mine in by_finding):
        return "holds"
    if all(surely(mine, "answered", numbers) for mine in by_finding):
        return "answered"
    beyond = any(is_beyond_runs(name, mine) for name, mine in undecided_of(conclusion, rows).items())
    return "cannot be decided" if beyond else "open"


def put_to_the_test(papers: Sequence[str] = ()) -> list[tuple[str, Conclusion]]:
    """The conclusions of these papers (none: of all in results/published/) that are put to the test, each with its
    paper's id."""
    stated = [paper(name) for name in papers or names()]
    return [(one.id, conclusion) for one in stated for conclusion in one.conclusions if conclusion.by]


def decidable(conclusion: Conclusion, rows: Rows, runs: Runs) -> bool:
    """Has a run here decided this conclusion, or could a host and its guest kernels decide one of its open findings?"""
    became = outcome(conclusion, rows)
    return became not in UNDECIDED or (became == "open" and any(way.here for way in ways(conclusion, rows, runs)))


def opening(rows: Rows, runs: Runs) -> str:
    """How many conclusions of all papers hold, do not, and are open."""
    tested = put_to_the_test()
    papers = len({name for name, _ in tested})
    return (
        f"We measured again, with today's software, what {papers} published texts found of VPNs. Of their "
        f"{len(tested)} conclusions and open questions that can be put to the test, "
        + count_outcomes([conclusion for _, conclusion in tested], rows, runs)
    )


def count_outcomes(tested: Sequence[Conclusion], rows: Rows, runs: Runs) -> str:
    """How many of these hold, do not, and are open: a sentence that has begun, and a second one."""
    became = [outcome(conclusion, rows) for conclusion in tested]
    count = {what: became.count(what) for what in OUTCOMES}
    never = count["cannot be decided"]
    elsewhere = sum(not decidable(conclusion, rows, runs) for conclusion in tested) - never
    return (
        f"**{count['holds']} hold**, "
        f"**{count['does not hold']} do not**, {count['answered']} {'is' if count['answered'] == 1 else 'are'} "
        f"answered, **{count['open']} are open**, and {never} cannot be decided. Of the open ones, "
        f"{elsewhere} need more than a host with its guest kernels."
    )


def lines_of(rows: Rows, runs: Runs, papers: Sequence[str] = ()) -> list[list[str]]:
    """The cells of the table: each conclusion of these papers (none: of all in results/published/) with its place, the
    paper's own number, what became of it with the number that decides, and why."""
    lines = []
    for name, conclusion in put_to_the_test(papers):
        became = outcome(conclusion, rows)
        place = literal(f"{name}, {conclusion.where}, {conclusion.sentence}")
        about = f"*{literal(sentence(conclusion.says))}* ({place})"
        if became in UNDECIDED:
            decided = [item for item in deciding(conclusion, rows, "answered") if sure(item[1].chance)]
            told = list(map(sentence, in_words(ways(conclusion, rows, runs))))
        else:
            decided, told = deciding(conclusion, rows, became), []
        numbers = "; ".join(
            f"{_answer_words(row)}{row.measured_words}{literal(f', {row.part}') * bool(row.part)}; "
            f"run{'s' * (', ' in run)} {run}"
            for run, row in decided
        )
        why = dict.fromkeys(because(row) for _, row in decided)
        now = f"**{became}**{', in part' * (became in UNDECIDED and bool(numbers))} {numbers}".rstrip()
        lines.append([about, then(conclusion, rows), now, " ".join([*why, *told])])
    return lines


def _answer_words(row: FindingRow) -> str:
    return f"{row.answer} " * bool(row.answer)


def then(conclusion: Conclusion, rows: Rows) -> str:
    """The papers' own numbers for a conclusion, a dash where its text has none."""
    stated = [
        row.stated_words for name in conclusion.by for _, row in of_finding(name, rows) if row.stated_words != NONE
    ]
    return ", ".join(dict.fromkeys(stated)) or NONE


def sentence(words: str) -> str:
    """The words with a capital and a full stop."""
    return words[:1].upper() + words[1:] + ("" if words[-1:] in ".?" else ".")


def because(row: FindingRow) -> str:
    """What the number is of, why it is so today, and what was measured beside it."""
    number, beside = row.counts.replace("{}", "…"), f"beside it {row.beside}" * bool(row.beside)
    return literal(" ".join(map(sentence, [number, *filter(None, (row.today, row.note, beside))])))


def deciding(conclusion: Conclusion, rows: Rows, became: Outcome) -> list[tuple[str, FindingRow]]:
    """The run and the finding that decide a conclusion, the surest; of one that is answered, each answer."""
    of_outcome: dict[Outcome, Verdict] = {"holds": "reproduced", "does not hold": "not reproduced"}
    verdict = of_outcome.get(became, "answered")
    decided = [
        min(mine, key=lambda item: item[1].chance or 0.0)
        for name in conclusion.by
        if (mine := [item for item in standing(of_finding(name, rows)) if item[1].verdict == verdict])
    ]
    return decided if became == "answered" or not decided else [min(decided, key=lambda item: item[1].chance or 0.0)]
