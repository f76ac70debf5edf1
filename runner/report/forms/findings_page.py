"""docs/findings.md, the page on what runs say of the papers; ``vpneval report DIR… --format findings`` makes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations

from runner.papers.findings import Basis, Verdict
from runner.papers.published import names, paper
from runner.report.forms.markdown import table_lines
from runner.report.model import Report
from runner.report.papers.conclusions import ABOUT, Rows, opening, sentences
from runner.report.papers.findings import FindingRow
from runner.report.text import NONE, counted

PICTURE = (
    "![Published ratio against measured ratio, with 95 % intervals](findings.svg) Made by `vpneval report DIR… "
    "--format findings-plot`: on the diagonal both are the same."
)

HEAD = (
    *("finding", "run", "published", "measured (95 % interval)", "verdict", "system (data plane); kernel"),
    *("stands", "why"),
)
FOLDER = r" --out \S+"  # of the machine that a run was made on: its data are in results/papers/
SHOWN = ("lab kind", "lab kernel", "lab guest", "lab cpu", "lab cores", "image name")
INTRODUCTION = """\
Five published texts measured VPNs (their names are at the end). What they concluded is put to the test here, on \
today's software: each finding is a sentence of theirs, the number that it comes down to, what was measured, and a \
verdict. The numbers are ratios, of 1: of two systems measured side by side, or a share; what a timer sets is a time. \
Rates themselves are never compared: their machines were ten to twenty years older, and their limit was a cable where \
here it is the CPU.

- **reproduced**: the 95 % interval of what was measured lies within the claim
- **not reproduced**: it lies outside of the claim
- **answered**: nobody claimed it; a paper asks it, or this project does
- **undecided**: it reaches across the claim's bound; the column *why* says what a longer run would take
- **unmeasured**: the run lacks what the claim needs, with the reason
- **incomparable**: it was measured, but the two studies cannot be compared in this, with the reason

A claim in words has these bounds: *faster, more*: above 1. *As fast as, hardly matters*: within 10 %. *Half, 80 % \
more, 11 % longer*, and a time: the number itself, within a fifth. A claim about several systems holds if it holds \
for each; the number is then that of the system that decides. The paper's own system decides: where it had IPsec, \
that is ESP in the kernel, in a guest kernel where the host has none. Userspace ESP is another data plane, and is \
shown beside it. A value with ≥ is known from below only, because a search for a rate ended before a higher one \
failed; one with ≤ was divided by such a rate. It decides what it can decide: what is at least 2 is above 1. The \
published numbers, each with its place in its text, are in `results/published/`; what a text \
shows in a figure alone is nowhere, because reading it off would be guessing."""
WORTH = (
    "What a verdict is worth depends on what it was made from; the column *stands* says it in a word. A verdict that "
    "does not stand has no say in what became of a conclusion."
)
STANDS: Mapping[Basis, str] = {
    "count": "It counts bytes or packets, and knows no speed: it stands on any machine.",
    "ratio": "It compares systems that were measured side by side, repetition by repetition. Machines that share "
    "cores rank systems by the CPU time of everything together, separate gateways by their busiest thread: under *What "
    "limits it*, the run's report says where the order would change.",
    "share": "It is a share of a link, of an offered load or of plain IP. Where hosts, gateways and WAN share cores, "
    "the generators take CPU from the VPN: there it does not stand.",
    "time": "It is about waiting times. Where everything shares cores they hold the scheduler's, and in a guest kernel "
    "its clock's (100 ticks a second in User Mode Linux): there it does not stand.",
    "timer": "It is a time that a timer of a second or more sets: it stands on any machine.",
}
MADE = (
    "Of each run: its command (without `--out`), its date, its lab, and its repetitions. A deadline leaves out some of "
    "those that were asked for; then half of the cells have as many as it says first, or more."
)
TOGETHER = (
    "These runs were measured at the same time. If that was on one machine, they took CPU time from each other; their "
    "ratios are still made within one run, and within its rounds"
)
GUEST = (
    "A guest kernel has one CPU, which it lends to generators and gateways in turn, and the ciphers of the kernel are "
    "generic C code in it: what stands there is which of two systems costs more, and no rate."
)


def findings_text(reports: Sequence[Report]) -> str:
    """The page, in Markdown: which conclusions hold, the runs, what a verdict is worth, all verdicts in short, then
    each with its numbers, and what became of every sentence of the conclusions.

    Each report is a run of its own, with a letter: what two labs measured is shown side by side, and never compared.
    """
    facts = [{fact.name: fact.value for fact in report.facts} for report in reports]
    runs = [chr(ord("A") + number) for number in range(len(reports))]
    rows = rows_of(dict(zip(runs, reports, strict=True)))
    seconds = sum(report.elapsed_s for report in reports)
    lines = ["# What this project finds of what the papers found", "", *opening(rows, seconds), "", PICTURE, ""]
    lines += ["Made by `vpneval report DIR… --format findings` from runs, not written by hand.", "", INTRODUCTION, ""]
    lines += ["## The runs", "", MADE, ""]
    for run, report, lab in zip(runs, reports, facts, strict=True):
        where = ", ".join(lab[name] for name in SHOWN if lab.get(name))
        command = re.sub(FOLDER, "", report.command_line)
        lines.append(f"- **{run}**: `{command}`, {report.created_at[:10]}: {where}. ")
        made, asked = report.findings.repetitions, counted(report.repetitions, "repetition")
        lines[-1] += f"{f'{made} of ' * (0 < made < report.repetitions)}{asked}, profile {report.profile}. "
        lines[-1] += f"Verdicts: {report.findings.counts or 'none: it has no experiment with findings'}."
    lines += ["", *_together(dict(zip(runs, reports, strict=True))), "## What a verdict is worth", ""]
    lines += [WORTH, ""]
    lines += [f"- **{basis}**: {meaning}" for basis, meaning in STANDS.items()]
    lines += ["", GUEST] if any(lab.get("lab guest", "") not in ("", "none") for lab in facts) else []
    lines += ["", "## In short", "", *_in_short(rows)]
    questions = {reported.name: reported.question for report in reversed(reports) for reported in report.experiments}
    for experiment in dict.fromkeys(row.experiment for _, row in rows):
        lines += [f"## {experiment}", "", questions[experiment], ""]
        mine = [(run, row) for run, row in rows if row.experiment == experiment]
        lines += table_lines(HEAD, [_cells(run, row) for run, row in mine])
    for report in reports:
        if line := report.findings.device_row:
            lines += ["## This machine as a row of results/published/devices.csv", "", "```csv", line, "```", ""]
    lines += ["## Every sentence of their conclusions", "", ABOUT, "", *sentences(rows)]
    return "\n".join([*lines, "## The papers", "", *_papers(), ""])


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


def _in_short(rows: Rows) -> list[str]:
    """The claims by verdict, a line for each claim."""
    lines = []
    verdicts: tuple[Verdict, ...] = (
        *("reproduced", "not reproduced", "answered"),
        *("undecided", "unmeasured", "incomparable"),
    )
    for verdict in verdicts:
        mine = [(run, row) for run, row in rows if row.verdict == verdict]
        if mine:
            lines += [f"**{verdict.capitalize()}** ({len(mine)})", ""]
            for run, row in mine:
                number = f"run {run}: {row.measured}" if row.value is not None else "not measured"
                other = f"; beside it {row.beside}" if row.beside else ""
                lines.append(f"- {row.found} ({row.experiment}, {number}{other})")
            lines.append("")
    return lines


def _cells(run: str, row: FindingRow) -> tuple[str, ...]:
    word = row.stands if row.value is not None else "–"
    finding = f"{row.found} [{row.citation}]"
    made_from = f"{', '.join(row.systems)}; {row.kernel}" if row.systems else NONE
    return finding, run, row.stated, row.measured, row.verdict, made_from, f"{word} ({row.basis})", row.why


def _papers() -> list[str]:
    """A line for each paper, with the machines that it measured on."""
    lines = []
    for name in names():
        document = paper(name)
        machines = (
            f" Measured on: {'; '.join(machine.text for machine in document.hardware)}." if document.hardware else ""
        )
        lines.append(f"- **{document.title}**: {document.citation.rstrip('.')}.{machines}")
    return lines
