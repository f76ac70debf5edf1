"""What became of the papers' conclusions in runs: the opening of docs/findings.md, and its list of all sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from runner.papers.claims import KERNEL_ESP
from runner.papers.findings import Verdict
from runner.papers.judges import no_run, run_for, why_today
from runner.papers.published import Conclusion, names, paper
from runner.report.forms.markdown import table_lines
from runner.report.papers.findings import FindingRow
from runner.report.text import NONE, duration

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
OPEN = "open: "  # how a reason begins where no experiment measures the finding
LONGER_SEARCH = (
    "rates that are known from below only do not decide it; with `--profile thesis` the searches go on longer"
)
UNSHARED: Mapping[str, str] = {
    "share": "a share of a link stands only where the gateways are machines of their own",
    "time": "waiting times stand only where the gateways are machines of their own",
}
GENERIC = "the guest's ESP is generic C code"  # of User Mode Linux, which has no driver for the CPU's instructions
HEAD = ("sentence", "in our words", "what became of it")


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


def of_finding(name: str, rows: Rows) -> Rows:
    """The rows of one finding (experiment/finding), of all runs."""
    return [(run, row) for run, row in rows if f"{row.experiment}/{row.id}" == name]


def opening(rows: Rows, seconds: float) -> list[str]:
    """The papers' conclusions that hold, those that do not, and those that are open, and why: a line for each paper and
    outcome, so that about twenty lines are enough. ``seconds``: how long all runs took."""
    tested = [
        (paper(name).title, conclusion) for name in names() for conclusion in paper(name).conclusions if conclusion.by
    ]
    outcomes = [outcome(conclusion, rows) for _, conclusion in tested]
    count = {what: outcomes.count(what) for what in OUTCOMES}
    papers = len(dict.fromkeys(title for title, _ in tested))
    answered = f"{count['answered']} {'is' if count['answered'] == 1 else 'are'} answered"
    lines = [
        f"Of {len(tested)} conclusions in {papers} papers that can be put to the test, **{count['holds']} still "
        f"hold**, **{count['does not hold']} do not**, and {count['open']} are open; of the papers' own open "
        f"questions, {answered}.",
        "",
    ]
    for what, heading in OUTCOMES.items():
        for title in dict.fromkeys(title for title, _ in tested):
            mine = [
                conclusion
                for (of, conclusion), became in zip(tested, outcomes, strict=True)
                if (of, became) == (title, what)
            ]
            if mine:
                because = _left_open if what == "open" else _because
                fates = "; ".join(f"{conclusion.says} ({because(conclusion, rows)})" for conclusion in mine)
                lines.append(f"- **{heading}**, {title}: {fates}")
    return [*lines, f"- **Precision**: {_precision(rows)}", f"- **Time**: all runs together took {duration(seconds)}."]


def _precision(rows: Rows) -> str:
    """How many findings with a number that stands are left undecided by their interval: on hosts, and in guests."""
    phrases = []
    for where, guest in (("this host's own kernel", False), ("guest kernels", True)):
        mine = [(run, row) for run, row in rows if row.value is not None and row.stands != "no" and row.guest == guest]
        claims = [of_finding(name, mine) for name in dict.fromkeys(f"{row.experiment}/{row.id}" for _, row in mine)]
        decided = [any(row.decided for _, row in claim) for claim in claims]
        undecided = [any(row.undecided for _, row in claim) for claim in claims]
        left = sum(open_ and not done for done, open_ in zip(decided, undecided, strict=True))
        phrases.append(
            f"of {sum(decided) + left} findings that runs on {where} could decide, the interval leaves {left} open"
        )
    return f"{'; '.join(phrases)}. Each of these says below what a longer run would take."


def _left_open(conclusion: Conclusion, rows: Rows) -> str:
    """Why a conclusion is open, and what would decide it, by the first of its findings that is open."""
    for name in conclusion.by:
        mine = of_finding(name, rows)
        if any(row.decided and row.stands != "no" for _, row in mine):
            continue
        experiment, one_of_it = name.split("/")
        if undecided := [(run, row) for run, row in mine if row.undecided and row.stands != "no"]:
            run, row = undecided[0]
            return f"undecided, {row.measured}; by the command of run {run}, {row.needs}"
        if bounded := [(run, row) for run, row in mine if row.bound and not row.decided and row.stands != "no"]:
            run, row = min(bounded, key=lambda item: (item[1].high or math.inf) / (item[1].low or 1))  # the narrowest
            return f"{row.measured} in run {run}: {LONGER_SEARCH}"
        if shared := [(run, row) for run, row in mine if row.decided]:
            run, row = shared[0]
            measured = f"{row.measured} in run {run}, but {UNSHARED[row.basis]}"
            return f"{measured}: `vpneval run {experiment} --lab ssh:testbed.toml`"
        reason = min((row.reason for _, row in mine), key=len, default="")
        if undecidable := no_run(experiment, one_of_it):
            return undecidable
        if reason.startswith(OPEN):
            return reason.removeprefix(OPEN)
        return f"not measured: `vpneval run {run_for(experiment, one_of_it)}`"
    raise AssertionError(f"{conclusion.where}, {conclusion.sentence} is not open")


def _because(conclusion: Conclusion, rows: Rows) -> str:
    """The finding that decides a conclusion, in short: its number, its run, and the reason where it is known."""
    order: tuple[Verdict, ...] = ("not reproduced", "reproduced", "answered", "undecided", "unmeasured", "incomparable")
    mine = [(run, row) for name in conclusion.by for run, row in of_finding(name, rows) if row.stands != "no"]
    run, row = min(mine, key=lambda item: order.index(item[1].verdict))
    answer = row.reason.split(":")[0] + ", " if row.verdict == "answered" else ""
    theirs = "" if row.stated == NONE else f", published {row.stated}"
    return "; ".join([f"{answer}{row.measured}{theirs}", f"run {run}", *_why(row)])


def _why(row: FindingRow) -> list[str]:
    """Why a finding is not reproduced today, and whether it depends on the guest kernel's generic ESP."""
    reasons = why_today(row.experiment, row.id, row.reason) if row.verdict == "not reproduced" else []
    generic = row.kernel.endswith(" in uml") and f"{KERNEL_ESP} (kernel)" in row.systems
    return reasons + [GENERIC] * (generic and row.basis in ("ratio", "share"))


def _where(run: str, row: FindingRow) -> str:
    return f"run {run}, where it does not stand" if row.decided and row.stands == "no" else f"run {run}"


def sentences(rows: Rows) -> list[str]:
    """A table for each paper: each sentence of its conclusions, with its verdicts or why it is left out."""
    lines = []
    for name in names():
        document = paper(name)
        table_rows = []
        for conclusion in document.conclusions:
            became = f"left out: {conclusion.why}"
            if conclusion.by:
                became = f"{conclusion.fate}: " + "; ".join(_verdicts(finding, rows) for finding in conclusion.by)
            table_rows.append((f"{conclusion.where}, {conclusion.sentence}", conclusion.says, became))
        lines += [f"### {document.title[0].upper()}{document.title[1:]}", "", *table_lines(HEAD, table_rows)]
    return lines


def _verdicts(finding: str, rows: Rows) -> str:
    mine = [f"{row.verdict} ({_where(run, row)})" for run, row in of_finding(finding, rows)]
    return f"{finding} {', '.join(mine) or 'not in these runs'}"
