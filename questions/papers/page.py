"""results/papers/findings.md, the page on what runs say of the papers; ``vpneval report DIR… --format findings`` makes
it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import combinations, groupby
from statistics import median
from string import ascii_uppercase

from questions.papers import Judged
from questions.papers.conclusions import HEAD as CONCLUSIONS_HEAD
from questions.papers.conclusions import count_outcomes, lines_of, opening, put_to_the_test
from questions.papers.deciding import Planned, Rows, Runs
from questions.papers.findings import FindingRow, Findings
from questions.papers.together import said_once
from runner.choice.machine import DISTURBED
from runner.data.asked import AskedRun
from runner.data.invocation import command
from runner.data.named import HOST
from runner.papers.published import names, paper
from runner.report.forms.markdown import fit_words, literal, table_lines
from runner.report.model import Report
from runner.report.text import NONE, count_noun, duration

LONGEST_CELL = 200  # characters, of the tables of findings and of runs
PICTURE = "![Published ratio against measured ratio, with 95 % intervals](findings.svg)"
HEAD = ("finding", "published; run: measured (95 % interval)", "verdict: why")
VERDICTS = """\
A *finding* is one number: a ratio of two systems side by side, a share of 1, a count, or a time. Absolute rates are not
compared, because the papers had other machines. Its verdict: **reproduced**, the 95 % interval lies within the claim;
**not reproduced**, outside; **answered**, a question that nobody had answered; **undecided**, across its bound;
**unmeasured**; **incomparable**: no verdict is possible.
"""
BOUNDS = """\
[papers.md](../../docs/papers.md#findings) has the bounds of claims in words. ≥: known from below only; ≤: from above;
?: neither.
"""
POOLED = """
Several runs of one finding are pooled: tries are counted together, and numbers that agree are weighted by their
errors. Where the runs differ by more than chance, that is said, and the interval holds that of each run, so that a
verdict is what each of them says. A verdict is about the machines of its runs.

A conclusion holds if each of its findings is reproduced, and does not hold if one is not. All its parts share one error
of 5 % (Bonferroni). An open one lacks a run. One with a finding that no run can decide cannot be decided, though
another finding may still refute it.
"""
GUESTS = """
User Mode Linux is no scale between data planes: a system call costs 50 to 400 times as much there as on its host, and
the kernel's own work about the same. What stands there is the kernel's data plane against itself, one VPN's settings
against each other, counts, and what a timer sets. Its kernel's ciphers are generic C code; OpenSSL in it uses the
CPU's instructions, unless a run has `driver=generic`. `--kernel qemu` needs KVM; on a Debian machine, whose kernel has
ESP, leave it out. Anywhere on shared cores, a share of a link or of a CPU and a time of waiting do not stand, because
generators and gateways take CPU from each other; a share that this can only lower does.
"""
COSTS = "Measured in guests ({}): a system call costs {} times as much as on the host, a packet {} times."
OLDER = "Older runs are judged by their kind of guest."
TIMES = (
    "Times of commands are those of the runs here, or `vpneval plan`'s, times {:.1f} in a guest kernel, as these runs "
    "took (their median)."
)
MADE = (
    "Each is a folder here: its `run.json` has the whole command, its report the line to cite it. In parentheses: "
    "repetitions; where a deadline left out some, half of the cells have the first number or more. Then, where it was "
    "measured, what other programs and the hypervisor had of the CPU time in the middle measurement: above "
    f"{100 * DISTURBED:.0f} % a run decides nothing. A guest does not see what its host does beside it."
)
TOGETHER = "Measured at the same time, so that they took CPU time from each other if that was on one machine"


def by_letters(reports: Sequence[Report]) -> dict[str, Report]:
    """The reports by the letters that the page names their runs by: A to Z, then AA, AB…"""
    letters = [first + second for first in ("", *ascii_uppercase) for second in ascii_uppercase]
    return dict(zip(letters, reports, strict=False))


def findings_text(reports: Sequence[Report], planned: Planned) -> str:
    """The page of all papers, in Markdown: each conclusion, how to read it, each paper's findings, the runs.

    Each report is a run of its own, with a letter: what two labs measured is shown side by side, and never compared.
    ``planned``: how long a command takes by ``vpneval plan``.
    """
    by_letter = by_letters(reports)
    rows = rows_of(by_letter)
    runs = runs_of(by_letter, planned)
    lines = ["# Do the papers' conclusions still hold?", "", opening(rows, runs), ""]
    lines += [*_table(CONCLUSIONS_HEAD, lines_of(rows, runs)), "", PICTURE, "", "## How to read this", ""]
    lines += [
        VERDICTS + BOUNDS + POOLED + GUESTS,
        *_costs(by_letter),
        TIMES.format(runs.guest_pace),
        "",
        "## The findings",
        "",
    ]
    for name in names():
        title = paper(name).title
        lines += [f"### {title[0].upper()}{title[1:]}", "", *_table_of(name, rows)]
    device_rows = [findings_in(report).device_row for report in reports if findings_in(report).device_row]
    if device_rows:
        lines += ["Rows for `results/published/devices.csv`:", "", "```csv", *device_rows, "```", ""]
    return "\n".join([*lines, *_runs(by_letter, runs)])


def paper_text(name: str, reports: Sequence[Report], planned: Planned) -> str:
    """The page of one paper, in Markdown. Without a run, it names the commands that would decide its conclusions."""
    by_letter = by_letters(reports)
    rows, runs, about = rows_of(by_letter), runs_of(by_letter, planned), paper(name)
    lines = [f"# Do the conclusions of {literal(about.title)} still hold?", "", literal(about.citation), ""]
    if tested := [conclusion for _, conclusion in put_to_the_test([name])]:
        lines += [f"Conclusions put to the test: {len(tested)}. Of these, {count_outcomes(tested, rows, runs)}", ""]
        lines += [*_table(CONCLUSIONS_HEAD, lines_of(rows, runs, [name])), ""]
    if not reports:
        return "\n".join(lines)
    lines += ["## How to read this", "", VERDICTS + POOLED]
    lines += [GUESTS.lstrip(), *_costs(by_letter)] if any(map(_guest, reports)) else []
    return "\n".join([*lines, "## The findings", "", *_table_of(name, rows), *_runs(by_letter, runs)])


def findings_in(report: Report) -> Findings:
    """What the report says of the papers' findings."""
    judgements = (one.judgement for one in report.judged)
    return next((one.findings for one in judgements if isinstance(one, Judged)), Findings())


def _costs(reports: Mapping[str, Report]) -> list[str]:
    """A paragraph: what a system call and a packet cost in the guests that measured it, and that others did not."""
    guests = {run: findings_in(report) for run, report in reports.items() if _guest(report)}
    measured = {run: of for run, of in guests.items() if of.call_times is not None}
    calls, packets = ([getattr(of, cost) for of in measured.values()] for cost in ("call_times", "packet_times"))
    lines = [COSTS.format(", ".join(measured), _range(calls), _range(packets))] if measured else []
    lines += [OLDER] * (len(measured) < len(guests))
    return [" ".join(lines), ""] if lines else []


def _range(values: Sequence[float]) -> str:
    """The least and the greatest, as text."""
    return " to ".join(dict.fromkeys(f"{end:.3g}" for end in (min(values), max(values))))


def _guest(report: Report) -> str:
    """The kind of guest kernel that the run was measured in; empty on a machine itself."""
    guest = next((fact.value for fact in report.facts if fact.name == "lab guest"), "none")
    return guest if guest != "none" else ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table of cells that are Markdown themselves."""
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)]


def rows_of(reports: Mapping[str, Report]) -> list[tuple[str, FindingRow]]:
    """The findings, each said once by all runs. A run without a number for a claim is left out where another run has
    one."""
    by_claim: dict[tuple[str, str], list[tuple[str, FindingRow]]] = {}
    for run, report in reports.items():
        for row in findings_in(report).rows:
            by_claim.setdefault((row.experiment, row.id), []).append((run, row))
    rows: list[tuple[str, FindingRow]] = []
    for claim in by_claim.values():
        measured = [(run, row) for run, row in claim if row.value is not None or row.beside]
        rows += said_once(measured or claim[:1])
    return sorted(rows, key=lambda item: item[1].experiment)


def runs_of(reports: Mapping[str, Report], planned: Planned) -> Runs:
    """What the runs were asked for, and what new ones would take: in guest kernels as many times as long as planned as
    the median of these runs, each by the share of its trials that it made."""
    asked, paces = {}, []
    for run, report in reports.items():
        named = [experiment.name for experiment in report.experiments]
        asked[run] = (report.asked or AskedRun(experiments=named)).with_changes(
            out=None
        )  # a folder of the run's machine
        made = sum(report.trials.values())
        if asked[run].kernel != HOST and made and (expected := planned(asked[run])):
            trials, seconds = expected
            paces.append(report.elapsed_s / (seconds * made / trials))
    return Runs(planned, asked, median(paces or [1.0]))


def _table_of(name: str, rows: Rows) -> list[str]:
    """A paper's findings with a number that stands, in a table; the others by name, with the reason."""
    claims = [[*claim] for _, claim in groupby(rows, key=lambda item: (item[1].experiment, item[1].id))]
    mine = [claim for claim in claims if claim[0][1].paper == name]
    shown = {at: stands for at, claim in enumerate(mine) if (stands := [item for item in claim if _stands(item[1])])}
    return [
        *table_lines(HEAD, [_of_finding(claim) for claim in shown.values()]),
        *_without_number([_nearest(claim) for at, claim in enumerate(mine) if at not in shown]),
    ]


def _stands(row: FindingRow) -> bool:
    """Has it a number, from a machine left alone, by a kernel that is a scale for its systems, where it stands?"""
    return row.value is not None and row.kind not in ("scale", "busy") and row.stands != "no"


def _nearest(claim: Rows) -> FindingRow:
    """Of the runs without a number that stands, the one that measured most of it: its reason is what is left."""
    return max((row for _, row in claim), key=lambda row: row.value is not None)


def _without_number(findings: Sequence[FindingRow]) -> list[str]:
    """The findings for which no run has a number that stands, by the reason."""
    by_reason: dict[str, list[str]] = {}
    for row in findings:
        if row.kind == "scale":
            reason = "**no scale**"
        elif row.kind == "busy":
            reason = "**busy machine**"
        elif row.value is not None:
            reason = "**does not stand** on shared cores"
        else:
            reason = f"**unmeasured** ({literal(fit(row.short or row.reason))})"
        by_reason.setdefault(reason, []).append(f"{row.experiment}/{row.id}")
    lines = [f"- {reason}: {', '.join(names)}" for reason, names in by_reason.items()]
    return [*lines, ""] if lines else []


def _of_finding(claim: Rows) -> list[str]:
    """A finding's row of the table."""
    _, first = claim[0]
    stated = {run: row.stated_words for run, row in claim if row.stated_words != NONE}
    published = "; ".join(dict.fromkeys(stated.values()))
    if 0 < len(stated) < len(claim):
        published = f"{', '.join(stated)}: {published}"  # of other runs another system decides
    numbers = [f"{run}: {row.measured_words}{f', {row.part}' * bool(row.part)}" for run, row in claim]
    verdict = ": ".join(filter(None, (_verdict(claim), _why(claim))))
    cells = [f"{first.found} ({first.experiment}/{first.id})", "; ".join(filter(None, [published, *numbers])), verdict]
    return [fit(cell) for cell in cells]


def _verdict(claim: Rows) -> str:
    """The verdicts on a finding, each with the runs that have it."""
    by_verdict: dict[str, list[str]] = {}
    for run, row in claim:
        by_verdict.setdefault(row.verdict + f" {row.answer}" * bool(row.answer), []).append(run)
    named = len(by_verdict) > 1
    return ", ".join(verdict + f" ({', '.join(runs)})" * named for verdict, runs in by_verdict.items())


def _why(claim: Rows) -> str:
    """What is to be said of the verdicts on a finding: why it is not reproduced today; if no run decides it, why; and
    what other data planes measured beside it."""
    decided = any(row.is_decided for _, row in claim)
    runs_of_reason: dict[str, list[str]] = {}
    for run, row in claim:
        for reason in filter(None, (row.today if decided else _open(row), row.note)):
            runs_of_reason.setdefault(reason, []).append(run)
    why = [f"{', '.join(runs)}: " * (len(runs) < len(claim)) + reason for reason, runs in runs_of_reason.items()]
    beside = [f"{run}: " * (len(claim) > 1) + f"beside it {row.beside}" for run, row in claim if row.beside]
    return "; ".join(why + beside)


def _open(row: FindingRow) -> str:
    """Why a finding has no verdict."""
    if row.bound and row.verdict == "undecided":
        return "such a bound does not decide it"
    return row.needs if row.is_undecided else row.short or row.reason


def fit(words: str) -> str:
    """The words of a cell, cut where they are too many."""
    return fit_words(words, LONGEST_CELL)


def _runs(reports: Mapping[str, Report], runs: Runs) -> list[str]:
    """The section of the runs: their machines, their commands, and which of them were measured at the same time."""
    machines: dict[str, list[str]] = {}  # kernel, CPU, cores -> runs
    lines = []
    for run, report in reports.items():
        lab = {fact.name: fact.value for fact in report.facts}
        guest = _guest(report)
        what = ["kernel"] + ["cpu", "cores"] * (not guest) + ["congestion control"]
        where = ", ".join(f"{name} {lab[f'lab {name}']}" for name in what if lab.get(f"lab {name}"))
        machines.setdefault(f"{guest or 'host'}, {where}", []).append(run)
        made, taken = findings_in(report).repetitions, findings_in(report).taken
        load = "" if taken is None else f"; others had {100 * taken:.0f} %"
        repetitions = f"{f'{made} of ' * (0 < made < report.repetitions)}{report.repetitions}"
        lines.append(f"- {run}, {report.run_id}: `{fit(command(runs.asked[run]))}` ({repetitions}{load})")
    seconds = sum(report.elapsed_s for report in reports.values())
    days = sorted({report.created_at[:10] for report in reports.values()})
    when = f", {' to '.join(dict.fromkeys((days[0], days[-1])))}" if days else ""
    return [
        *("## The runs", "", f"{count_noun(len(lines), 'run')}, {duration(seconds)} together{when}. {MADE}", ""),
        *[f"- **{where}**: {', '.join(of)}" for where, of in machines.items()],
        *("", *lines, "", *_together(reports)),
    ]


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
