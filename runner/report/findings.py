"""What the papers found beside what this run finds: a table of verdicts, the same in every rendering."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from statistics import median

from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from runner.data.trials import Run, Strict, Trial
from runner.papers.findings import Verdict, judge, number, trials_of
from runner.papers.judges import findings_of
from runner.papers.published import Device, device_row
from runner.ranking.stats import block_values
from runner.report.text import NONE, counted

HEAD = ("finding", "published", "measured (95 % interval)", "verdict", "systems", "why")
COLOUR = {"reproduced": "green", "not reproduced": "bold red", "answered": "cyan", "not comparable": "yellow"}
ABOUT = (
    "Ratios, of 1: of two systems, or of a share; a time has its unit. Published numbers: from the papers' text. "
    "Reproduced: the 95 % interval lies within the claim; not reproduced: outside; answered: an open question; not "
    "comparable: across its bound, or what it needs was not measured. The paper's own system decides (IPsec: the "
    "kernel's ESP); another data plane is shown beside it."
)


class FindingRow(Strict):
    """One finding. ``published``, ``value``, ``low`` and ``high`` are ratios of 1, or times in ``unit``; None where
    there is none. ``systems``: the plugins that decided, each with its data plane; ``beside``: another plane's number.
    """

    experiment: str
    id: str
    citation: str
    found: str
    published: float | None
    value: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    reason: str
    published_range: tuple[float, float] | None = None
    unit: str = ""
    systems: list[str] = []
    beside: str = ""
    kernel: str = ""
    run: str = ""

    @property
    def measured(self) -> str:
        """The value and its 95 % interval as text; a dash where there is no value."""
        return number(self.value, self.low, self.high, self.unit) or NONE

    @property
    def stated(self) -> str:
        """The paper's own number as text; a dash where its text has none."""
        ends = self.published_range or (() if self.published is None else (self.published,))
        return f"{'–'.join(f'{end:.3g}' for end in ends)} {self.unit}".rstrip() if ends else NONE

    @property
    def made_from(self) -> str:
        """Whose measurements decided, on which kernel, in which run; a dash where nothing was measured."""
        return f"{', '.join(self.systems)}; kernel {self.kernel}; run {self.run}" if self.systems else NONE

    @property
    def why(self) -> str:
        """The reason, and what is beside it."""
        return f"{self.reason}; beside it: {self.beside}" if self.beside else self.reason

    @property
    def cells(self) -> tuple[str, ...]:
        """The row under HEAD."""
        found = f"{self.found} [{self.citation}]"
        return found, self.stated, self.measured, self.verdict, self.made_from, self.why


class Findings(Strict):
    """All findings of a run's experiments, and the row of the device table that it makes; empty where there is none."""

    rows: list[FindingRow] = []
    device_row: str = ""

    @property
    def counts(self) -> str:
        """How many findings have each verdict, in one phrase; empty without findings."""
        verdicts = [row.verdict for row in self.rows]
        return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in COLOUR if verdict in verdicts)


def findings(run: Run, trials: Sequence[Trial]) -> Findings:
    """The verdicts on every experiment of the run whose data a paper's findings are judged by."""
    rows = []
    for record in run.experiments:
        own = trials_of(run, trials, record.name)
        for finding in findings_of(record.name):
            found = judge(finding, run, own)
            about = {"experiment": record.name, "id": finding.id, "citation": finding.citation, "found": finding.found}
            systems = [f"{name} ({run.vpns[name].dataplane})" if name in run.vpns else name for name in found.systems]
            where = {"systems": systems, "kernel": kernel_of(run), "run": run.run_id}
            rows.append(FindingRow.model_validate({**about, **found.model_dump(), **where}))
    return Findings(rows=rows, device_row=_device(run, trials_of(run, trials, "devices")))


def kernel_of(run: Run) -> str:
    """The kernel of the lab's nodes, and the machine that it ran in where that is a guest."""
    guest = str(run.lab.get("guest", "none"))
    return str(run.lab.get("kernel", "unknown")) + (f" in {guest}" if guest not in ("", "none") else "")


def _device(run: Run, trials: Sequence[Trial]) -> str:
    """This machine as a line of devices.csv; empty where the transfers were not measured."""
    rates = {}
    for cipher in ("aes-128-cbc", "aes-256-cbc"):
        mine = [trial for trial in trials if trial.params.get("device_cipher") == cipher]
        if not (values := block_values(mine, "ssh_rate")):
            return ""
        rates[cipher] = round(median(values.values()) / 1e6, 1)
    numbers = {
        f"aes{cipher[4:7]}_{what}": value
        for cipher, rate in rates.items()
        for what, value in (("s", round(800 / rate, 2)), ("mbit_s", rate))
    }
    told = [found.detail for trial in trials for found in trial.measurements if found.metric == "ssh_rate"]
    about = {
        "cpu": str(run.lab.get("cpu", "unknown")),
        "mhz": next((detail["cpu_mhz"] for detail in told if detail.get("cpu_mhz")), None),
        "device": f"{run.lab.get('machine', 'unknown')}, {_cores(run)}",
        "source": f"vpneval {run.vpneval_version}, run {run.run_id}, {run.created_at[:10]}",
    }
    return device_row(Device.model_validate({**about, **numbers}))


def _cores(run: Run) -> str:
    cores = run.lab.get("cores")
    return counted(cores, "core") if isinstance(cores, int) else "an unknown number of cores"


def render(found: Findings, console: Console) -> None:
    """The table in a terminal."""
    if not found.rows and not found.device_row:
        return
    console.print()
    console.print(Rule(Text("findings", "bold"), style="cyan", align="left"))
    console.print(Text(ABOUT, "dim"))
    console.print(Text(found.counts, "bold"))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    table.add_column("finding", overflow="fold", ratio=3)
    table.add_column("published", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", overflow="fold")
    table.add_column("verdict and why", overflow="fold", ratio=3)
    for row in found.rows:
        name = Text.assemble(row.found, "\n", (f"{row.experiment}: {row.citation}", "dim"))
        verdict = Text.assemble((row.verdict, COLOUR[row.verdict]), f": {row.why[:300]}", (f"\n{row.made_from}", "dim"))
        table.add_row(name, row.stated, row.measured, verdict)
    console.print(table)
    if found.device_row:
        console.print(Text.assemble(("device table  ", "cyan"), found.device_row))


def markdown_lines(found: Findings, table: Callable[[Sequence[str], Sequence[Sequence[str]]], list[str]]) -> list[str]:
    """The section of a Markdown report; ``table`` makes lines of a head and of rows of plain text."""
    if not found.rows and not found.device_row:
        return []
    lines = ["## Findings", "", ABOUT, "", f"**{found.counts or 'none'}**", ""]
    for experiment in dict.fromkeys(row.experiment for row in found.rows):
        lines += [f"### Findings: {experiment}", ""]
        lines += table(HEAD, [row.cells for row in found.rows if row.experiment == experiment])
    if found.device_row:
        lines += ["### This machine in the device table", "", "```csv", found.device_row, "```", ""]
    return lines


def html_section(
    found: Findings, table: Callable[[str, Sequence[str], Sequence[str]], str], experiments: Mapping[str, str]
) -> str:
    """The section of a page; ``table`` makes one of a caption, a head and rows of HTML; ``experiments``: name -> the id
    of its section. Everything is escaped here."""
    if not found.rows and not found.device_row:
        return ""
    parts = [f"<p>{escape(ABOUT)}</p><p><strong>{escape(found.counts)}</strong></p>"]
    for experiment in dict.fromkeys(row.experiment for row in found.rows):
        mine = [row for row in found.rows if row.experiment == experiment]
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in row.cells) for row in mine]
        parts.append(table(f"Findings: {experiment}", HEAD, rows))
        if experiment in experiments:
            parts.append(f'<p><a href="#{experiments[experiment]}">What {escape(experiment)} measured</a></p>')
    if found.device_row:
        parts.append(f"<p>This machine in the device table: <code>{escape(found.device_row)}</code></p>")
    return f'<section id="findings" tabindex="-1"><h2>Findings</h2>{"".join(parts)}</section>'
