"""docs/findings.md, the page on what runs say of the papers; ``vpneval report DIR… --format findings`` makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations, groupby
from statistics import median
from string import ascii_uppercase
from typing import get_args

from runner.papers.findings import Basis, Verdict
from runner.papers.judges import why_today
from runner.papers.published import names, paper
from runner.report.forms.markdown import fitted, table_lines
from runner.report.model import Report
from runner.report.papers.conclusions import conclusion_lines, opening, precision
from runner.report.papers.deciding import Planned, Rows, Runs
from runner.report.papers.findings import FindingRow
from runner.report.text import NONE, counted, duration

LONGEST_CELL = 200  # characters
PICTURE = (
    "![Published ratio against measured ratio, with 95 % intervals](findings.svg) Made by `vpneval report DIR… "
    "--format findings-plot`: on the diagonal both are the same."
)
HEAD = ("finding", "what the number is", "published", "run: measured (95 % interval)", "verdict", "why")
RUNS_HEAD = ("run", "arguments of vpneval run", "day", "took", "repetitions", "machine")
MADE_HERE = r" --out \S+| --quiet"  # names a folder of the machine that a run was made on
INTRODUCTION = """\
A *conclusion* is a sentence in which a paper concludes. A *finding* is one number that such a sentence comes down to: \
a ratio of two systems measured side by side, a share of 1, or a time that a timer sets. Rates themselves are never \
compared, because the papers' machines were ten to twenty years older. Each finding has a verdict:

- **reproduced**: the 95 % interval of what was measured lies within the claim
- **not reproduced**: it lies outside of the claim
- **answered**: nobody claimed it; a paper asks it, or this project does
- **undecided**: it was measured, and the interval reaches across the bound of the claim
- **unmeasured**: the run lacks what the claim needs
- **incomparable**: it was measured, but the two studies cannot be compared in this

A conclusion does not hold if one of its findings is not reproduced in one run. It holds if each is reproduced. \
Otherwise it is open.

A claim in words has these bounds: *faster, more*: above 1. *As fast as, hardly matters*: within 10 % (UDP and TCP: 15 \
%; the forecast by ssh, and VPNs of one protocol: 25 %). *Next to nothing*: within 5 %. *Half, 80 % more*, and a time: \
the number itself, within a fifth. *11 % longer*: the percentage, within a fifth (9.2 to 13.2 %). A claim about \
several systems holds if it holds for each; the number is then that of the system that decides, or, where it holds for \
all, of the first, named behind it. A claim about a kind of VPN is about the mean of the paper's own members, and the \
interval is over them. The paper's own system decides: where it had IPsec, that is ESP in the kernel, and userspace \
ESP is shown beside it. Systems of two data planes are compared by one kind of crypto driver. A number with ≥ is known \
from below only, because a search for a rate ended before a higher one failed; with ≤ it was divided by such a rate; \
with ? both.

The word behind the verdicts of a finding says what its number is made from, and so what a verdict is worth. A verdict \
that *does not stand* has no say in a conclusion.
"""
STANDS: Mapping[Basis, str] = {
    "count": "bytes, packets or tasks. It stands on any machine.",
    "ratio": "two systems side by side, repetition by repetition. Where machines share cores, the CPU time of "
    "everything together counts; of separate gateways it would be the busiest thread. *What limits it* in a run's "
    "report says where the order would change.",
    "share": "a part of a link, of an offered load or of plain IP. Where hosts, gateways and WAN share cores, the "
    "generators take CPU from the VPN, and it does not stand.",
    "time": "waiting. On shared cores this holds the scheduler's, in a guest kernel its clock's (100 ticks a second in "
    "User Mode Linux), and it does not stand.",
    "timer": "a time that a timer of a second or more sets. It stands on any machine.",
}
GUEST = (
    "A guest kernel has one CPU for generators and gateways, and its ciphers are generic C code. What stands there is "
    "which of two systems costs more, and no rate."
)
TIMES = (
    "How long a command takes is estimated by the time that a run here took, or by `vpneval plan`, times {:.1f} in a "
    "guest kernel, where the runs below took so much longer than planned (their median)."
)
ELSEWHERE = (
    "The published numbers, each with its place in its text, are in `results/published/`; what a text shows in a "
    "figure alone is nowhere, because reading it off would be guessing. The report of each run (`vpneval report DIR`, "
    "also as JSON) has each finding's systems, data planes and complete reason."
)
LEFT_OUT = "Of {} concluding sentences {} are left out: `results/published/{}.json` has each with the reason."
MADE = (
    "The whole command of each is in `run.json` in its folder in `results/papers/`. A deadline leaves out some of the "
    "repetitions that were asked for; then half of the cells have as many as it says first, or more."
)
TOGETHER = (
    "These runs were measured at the same time, and took CPU time from each other if that was on one machine; their "
    "ratios are still made within one run, and within its rounds"
)


def lettered(reports: Sequence[Report]) -> dict[str, Report]:
    """The reports by the letters that the page names their runs by: A to Z, then AA, AB…"""
    letters = [first + second for first in ("", *ascii_uppercase) for second in ascii_uppercase]
    return dict(zip(letters, reports, strict=False))


def findings_text(reports: Sequence[Report], planned: Planned) -> str:
    """The page, in Markdown: which conclusions hold, how to read it, each paper's conclusions and findings, the runs.

    Each report is a run of its own, with a letter: what two labs measured is shown side by side, and never compared.
    ``planned``: how long a command takes by ``vpneval plan``.
    """
    by_letter = lettered(reports)
    rows = rows_of(by_letter)
    runs = runs_of(by_letter, planned)
    lines = ["# Do the papers' conclusions still hold?", "", *opening(rows, runs), "", PICTURE, ""]
    lines += ["## How to read this page", "", INTRODUCTION]
    lines += [f"- **{basis}**: {meaning}" for basis, meaning in STANDS.items()]
    lines += ["", f"{GUEST} {precision(rows)}", "", f"{TIMES.format(runs.guest_pace)} {ELSEWHERE}", ""]
    for name in names():
        lines += _paper(name, rows)
        device_rows = [report.findings.device_row for report in reports if report.findings.device_row]
        if name == "devices" and device_rows:
            lines += ["### Runs as rows of results/published/devices.csv", "", "```csv", *device_rows, "```", ""]
    return "\n".join([*lines, *_runs(by_letter, runs)])


def rows_of(reports: Mapping[str, Report]) -> list[tuple[str, FindingRow]]:
    """The findings of all runs, those of one claim together. A run without a number for a claim is left out where
    another run has one."""
    by_claim: dict[tuple[str, str], list[tuple[str, FindingRow]]] = {}
    for run, report in reports.items():
        for row in report.findings.rows:
            by_claim.setdefault((row.experiment, row.id), []).append((run, row))
    rows = []
    for claim in by_claim.values():
        measured = [(run, row) for run, row in claim if row.value is not None or row.beside]
        rows += measured or claim[:1]
    return sorted(rows, key=lambda item: item[1].experiment)


def runs_of(reports: Mapping[str, Report], planned: Planned) -> Runs:
    """The runs' commands, and what new ones would take: in guest kernels as many times as long as planned as the median
    of these runs, each by the share of its trials that it made."""
    commands, paces = {}, []
    for run, report in reports.items():
        commands[run] = re.sub(MADE_HERE, "", report.command_line).removeprefix("vpneval run ")
        made = sum(report.trials.values())
        if "--kernel " in commands[run] and made and (expected := planned(commands[run])):
            trials, seconds = expected
            paces.append(report.elapsed_s / (seconds * made / trials))
    return Runs(planned, commands, median(paces or [1.0]))


def _paper(name: str, rows: Rows) -> list[str]:
    """A paper's section: the machines that it measured on, its conclusions, its findings."""
    document = paper(name)
    machines = f" Measured on: {'; '.join(machine.text for machine in document.hardware)}." * bool(document.hardware)
    left_out = sum(not conclusion.by for conclusion in document.conclusions)
    claims = [[*claim] for _, claim in groupby(rows, key=lambda item: (item[1].experiment, item[1].id))]
    mine = [claim for claim in claims if claim[0][1].paper == name]
    unmeasured = [claim for claim in mine if all(row.value is None and not row.beside for _, row in claim)]
    return [
        *(f"## {document.title[0].upper()}{document.title[1:]}", ""),
        *(f"{document.citation.rstrip('.')}.{machines}", ""),
        *conclusion_lines(name, rows),
        *("", LEFT_OUT.format(len(document.conclusions), left_out, name), ""),
        *table_lines(HEAD, [cells for claim in mine if claim not in unmeasured for cells in _of_finding(claim)]),
        *_unmeasured(unmeasured),
    ]


def _unmeasured(claims: Sequence[Rows]) -> list[str]:
    """The findings for which no run has anything, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for (_, row), *_ in claims:
        reason = fit(shortened(row.reason).replace("in this run", "in these runs"))
        by_reason.setdefault(reason, []).append(_name(row))
    lines = [f"- **unmeasured** ({reason}): {'; '.join(names)}" for reason, names in by_reason.items()]
    return [*lines, ""] if lines else []


def _name(row: FindingRow) -> str:
    """The finding, its place in the paper, and its name."""
    return f"{row.found} ({row.where.partition(', figure')[0]}; {row.experiment}/{row.id})"


def _of_finding(claim: Rows) -> list[list[str]]:
    """A finding's rows of the table: one for all runs, unless their numbers are too many for a cell."""
    (_, first), numbers = claim[0], [(run, row) for run, row in claim if row.value is not None]
    lines = [""]
    for number in [f"{run}: {row.measured}{f', {row.part}' * bool(row.part)}" for run, row in numbers]:
        if lines[-1] and len(lines[-1]) + len(number) > LONGEST_CELL - 10:
            lines.append("")
        lines[-1] += f"{'; ' * bool(lines[-1])}{number}"
    stated = {run: row.stated for run, row in numbers if row.stated != NONE}
    published = "; ".join(dict.fromkeys(stated.values()))
    if 0 < len(stated) < len(numbers):
        published = f"{', '.join(stated)}: {published}"  # of other runs another system decides
    about = first.counts.replace("{}", "…")
    cells = [_name(first), about, published or NONE, lines[0] or NONE, _verdict(numbers), _why(claim)]
    return [[fit(cell) for cell in cells], *[["", "", "", fit(more), "", ""] for more in lines[1:]]]


def _verdict(numbers: Rows) -> str:
    """The verdicts on a finding, each with the runs that have it, and what they are made from."""
    if not numbers:
        return "unmeasured"
    by_verdict: dict[str, list[str]] = {}
    for run, row in numbers:
        answer = f": {row.reason.partition(':')[0]}" if row.verdict == "answered" else ""
        by_verdict.setdefault(row.verdict + answer + ", does not stand" * (row.stands == "no"), []).append(run)
    named = len(by_verdict) > 1
    each = [verdict + f" ({', '.join(runs)})" * named for verdict, runs in by_verdict.items()]
    return f"{', '.join(each)} · {numbers[0][1].basis}"


def _why(claim: Rows) -> str:
    """What is to be said of the verdicts on a finding: why it is not reproduced today; if no run decides it, why there
    is none and what would decide it; and what other data planes measured beside it."""
    decided = any(row.decided and row.stands != "no" for _, row in claim)
    measured = [(run, row) for run, row in claim if row.value is not None]
    runs_of_reason: dict[str, list[str]] = {}
    for run, row in measured or claim:
        if row.verdict == "not reproduced":
            reasons = why_today(row.experiment, row.id, row.reason)
        elif row.decided or decided:
            reasons = []
        elif row.undecided:
            reasons = [row.needs.partition(" (")[0]] if row.stands != "no" else []
        else:
            reasons = [shortened(row.reason)]
        for reason in reasons:
            runs_of_reason.setdefault(reason, []).append(run)
    for run, row in measured:
        if row.note:
            runs_of_reason.setdefault(row.note, []).append(run)
    why = [f"{', '.join(runs)}: " * (len(runs) < len(measured)) + reason for reason, runs in runs_of_reason.items()]
    beside = [f"{run}: " * (len(claim) > 1) + f"beside it {row.beside}" for run, row in claim if row.beside]
    return "; ".join(why + beside)


def shortened(reason: str) -> str:
    """A reason by its deciding part: without the list of what each part of the claim came to, the levels of a cell,
    how a bound came about, which its mark says, and that there is no verdict."""
    reason = _without_parts(reason).removeprefix("open: ").partition(": shown ")[0]
    reason = re.sub(r"\w+ has no \w+ at [^:]*: ", "", reason)
    reason = re.sub(r"^(the paper's system decides, and was not measured): (?!none of).*", r"\1", reason)
    reason = re.sub(
        r"(?:[^;:]*: )?it is known from .*, which does not decide .*", "such a bound does not decide it", reason
    )
    return "; ".join(dict.fromkeys(reason.split("; ")))


def _without_parts(reason: str) -> str:
    """The reason without the list of the parts of the claim, which is in parentheses."""
    begins = re.search(rf" \([^()]*: (?:{'|'.join(get_args(Verdict))})\b", reason)
    if not begins:
        return reason
    depth = 0
    for at, character in enumerate(reason[begins.start() :], begins.start()):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ")" and depth == 0:
            return reason[: begins.start()] + reason[at + 1 :]
    return reason[: begins.start()]


def fit(words: str) -> str:
    """The words of a cell, cut where they are too many."""
    return fitted(words, LONGEST_CELL)


def _runs(reports: Mapping[str, Report], runs: Runs) -> list[str]:
    """The section of the runs: their machines, a table, and which of them were measured at the same time."""
    machines: dict[str, str] = {}  # kernel, CPU, cores -> name
    rows = []
    for run, report in reports.items():
        lab = {fact.name: fact.value for fact in report.facts}
        guest = lab.get("lab guest", "none")
        what = ["lab kernel"] + ["lab cpu", "lab cores"] * (guest in ("", "none"))
        where = ", ".join(f"{name.removeprefix('lab ')} {lab[name]}" for name in what if lab.get(name))
        kind = "host" if guest in ("", "none") else guest
        alike = sum(name.startswith(kind) for name in machines.values())
        machines.setdefault(f"{kind}: {where}", kind + f" {alike + 1}" * bool(alike))
        made = report.findings.repetitions
        repetitions = f"{f'{made} of ' * (0 < made < report.repetitions)}{report.repetitions}"
        cells = (run, runs.commands[run], report.created_at[:10], duration(report.elapsed_s), repetitions)
        rows.append([*map(fit, cells), machines[f"{kind}: {where}"]])
    seconds = sum(report.elapsed_s for report in reports.values())
    lines = ["## The runs", "", f"{counted(len(rows), 'run')}, {duration(seconds)} together. {MADE}", ""]
    lines += [f"- **{name}**: {where.partition(': ')[2]}" for where, name in machines.items()]
    return [*lines, "", *table_lines(RUNS_HEAD, rows), *_together(reports)]


def _together(reports: Mapping[str, Report]) -> list[str]:
    """A line that names the pairs of runs that were measured at the same time."""
    times = {run: _from_to(report) for run, report in reports.items()}
    pairs = [
        f"{a} and {b}"
        for (a, (a_from, a_to)), (b, (b_from, b_to)) in combinations(times.items(), 2)
        if a_from < b_to and b_from < a_to
    ]
    return [f"{TOGETHER}: {', '.join(pairs)}.", ""] if pairs else []


def _from_to(report: Report) -> tuple[datetime, datetime]:
    begun = datetime.fromisoformat(report.created_at)
    return begun, begun + timedelta(seconds=report.elapsed_s)
