"""What the papers found beside what this run finds: a table of verdicts, the same in every rendering."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from runner.data.trials import Run, Strict, Trial
from runner.papers.findings import Verdict, judge, number, trials_of
from runner.papers.judges import findings_of
from runner.papers.published import Device, device_row
from runner.ranking.stats import block_values
from runner.report.sections import Section, SectionTable
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


def section(found: Findings) -> Section | None:
    """The section of every form, a table an experiment; None where there are no findings."""
    if not found.rows and not found.device_row:
        return None
    tables = []
    for experiment in dict.fromkeys(row.experiment for row in found.rows):
        rows = [list(row.cells) for row in found.rows if row.experiment == experiment]
        tables.append(SectionTable(title=f"Findings: {experiment}", head=list(HEAD), rows=rows, experiment=experiment))
    return Section(
        key="findings",
        title="Findings",
        about=ABOUT,
        counts=found.counts,
        tables=tables,
        line=found.device_row,
        line_title="This machine in the device table" if found.device_row else "",
    )
