"""The papers' findings beside those of this run: a table of verdicts, the same in every form."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from statistics import median, median_high
from typing import Literal

from pydantic import Field

from runner.choice.machine import DISTURBED, machine_state
from runner.data.kinds import Strict
from runner.data.levels import BASELINE
from runner.data.scale import costs_beside_host, no_scale
from runner.data.trials import Run, Trial
from runner.design.blocks import Block, Heading, Hyperlink, Paragraph, Table
from runner.evidence.stats import block_values, trials_by_cell
from runner.papers.conditions import unlike
from runner.papers.findings import DECIDED, Finding, Judgement, judge, trials_of
from runner.papers.judges import findings_of
from runner.papers.published import DeviceRow, device_row
from runner.papers.scales import Basis
from runner.report.text import NONE, count_noun, experiment_anchor, roughly

HEAD = ("finding", "published", "measured (95 % interval)", "verdict", "systems", "why")
COLOUR = {
    **{"reproduced": "green", "not reproduced": "bold red", "answered": "cyan"},
    **{"undecided": "yellow", "unmeasured": "yellow", "incomparable": "yellow"},
}
ABOUT = (
    "Ratios, of 1: of two systems, or of a share; a time has its unit. Published numbers: from the papers' text. "
    "Reproduced: the 95 % interval lies within the claim; not reproduced: outside; answered: an open "
    "question; undecided: across its bound; unmeasured: the run lacks what it needs; incomparable: measured, but the "
    "two studies cannot be compared in this. The paper's own system decides (IPsec: the kernel's ESP); another data "
    "plane is shown beside it."
)
Stands = Literal["yes", "on shared cores", "no"]
STANDS: Mapping[
    Basis, tuple[Stands, Stands]
] = {  # what a verdict is worth on shared cores, and on machines of their own
    "count": ("yes", "yes"),
    "ratio": ("on shared cores", "yes"),
    "share": ("no", "yes"),
    "time": ("no", "yes"),
    "timer": ("yes", "yes"),
    "programs": ("no", "yes"),
}
BUSY = f"others had {{:.0f}} % of this machine's CPU, and above {100 * DISTURBED:.0f} % nothing is decided"
LONGEST = 100  # times the length of the run; longer estimates are not given


class FindingRow(Judgement):
    """One finding: its judgement, whose ``systems`` are named with their data planes here, with what it is about.

    ``judged``: the judgement as it was made, by which runs are pooled, and the ``machine`` that it was made on.
    ``counts``: what the number is, a sentence with ``{}`` for the number. ``basis``: what the number was made from, and
    so whether the verdict ``stands`` on the run's machines. ``needs``: what would decide what its interval leaves
    undecided, in words; ``repetitions`` and ``needed_s``: how many those are, and how long they take. ``today``: why it
    is not reproduced today, as far as that is known.
    """

    experiment: str
    id: str
    paper: str
    where: str
    citation: str
    found: str
    today: str = ""
    basis: Basis = "ratio"
    stands: Stands = "yes"
    needs: str = ""
    repetitions: int | None = None
    needed_s: float | None = None
    counts: str = ""
    kernel: str = ""
    run: str = ""
    judged: Judgement | None = Field(default=None, exclude=True)
    machine: str = Field(default="", exclude=True)

    @property
    def is_decided(self) -> bool:
        """Has it a verdict, or an answer?"""
        return self.verdict in DECIDED

    @property
    def is_undecided(self) -> bool:
        """Is it the interval alone that leaves it open?"""
        return not self.is_decided and bool(self.needs)

    @property
    def measured_words(self) -> str:
        """The value and its 95 % interval as text; a dash where there is no value."""
        return self.number or NONE

    @property
    def sentence(self) -> str:
        """The value, its 95 % interval, and what it counts, as a sentence without its full stop."""
        return self.counts.replace("{}", self.measured_words)

    @property
    def stated_words(self) -> str:
        """The paper's own number as text; a dash where its text has none."""
        ends = self.published_range or (() if self.published is None else (self.published,))
        shown = dict.fromkeys(f"{end:.3g}" for end in ends)
        return f"{'–'.join(shown)} {self.unit}".rstrip() if ends else NONE

    @property
    def made_from(self) -> str:
        """The systems that decided, on which kernel and in which run; a dash where nothing was measured."""
        return f"{', '.join(self.systems)}; kernel {self.kernel}; run {self.run}" if self.systems else NONE

    @property
    def why(self) -> str:
        """The reason, what each part came to, what would decide the finding, and the number beside it."""
        reason = self.reason + f" ({self.summary})" * bool(self.summary) + f"; {self.needs}" * bool(self.needs)
        return f"{reason}; beside it: {self.beside}" if self.beside else reason

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the row, in the columns of HEAD."""
        finding = f"{self.found} [{self.citation}]"
        return finding, self.stated_words, self.measured_words, self.verdict, self.made_from, self.why


class Findings(Strict):
    """All findings of a run's experiments, and the row of the device table that it makes; empty where there is none.
    ``taken``: the share of the machine's CPU time that other programs and the hypervisor had, None where it is not
    known.
    ``repetitions``: how many the cells of these experiments have (half of them have more, or as many).
    ``call_times``, ``packet_times``: how many times what they cost on its host a system call and a packet cost in the
    run's guest kernel; None where the run did not measure it."""

    rows: list[FindingRow] = []
    repetitions: int = 0
    device_row: str = ""
    taken: float | None = Field(default=None, exclude=True)
    call_times: float | None = Field(default=None, exclude=True)
    packet_times: float | None = Field(default=None, exclude=True)

    @property
    def counts(self) -> str:
        """How many findings have each verdict, in one phrase; empty without findings."""
        verdicts = [row.verdict for row in self.rows]
        return ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in COLOUR if verdict in verdicts)


def findings(run: Run, trials: Sequence[Trial], papers: Sequence[str] = ()) -> Findings:
    """The verdicts on the findings of these papers (none: of all in results/published/), for every experiment of the
    run that has findings."""
    rows, mine = list[FindingRow](), list[Trial]()
    taken = taken_share(run, trials)
    for record in run.experiments:
        if of_record := findings_of(record.name, papers):
            own = trials_of(run, trials, record.name)
            mine += own
            rows += [_row(record.name, finding, run, own, taken or 0.0) for finding in of_record]
    made = repetitions_made(mine) if rows else 0
    call, packet = costs_beside_host(run.lab) or (None, None)
    row = _device(run, trials_of(run, trials, "devices"))
    return Findings(rows=rows, repetitions=made, device_row=row, taken=taken, call_times=call, packet_times=packet)


def taken_share(run: Run, trials: Sequence[Trial]) -> float | None:
    """The share of the machine's CPU time that other programs and the hypervisor had, in the middle measurement. None
    where no measurement looked, and in a guest, which does not see what its host does beside it."""
    looked = any(load.cores for trial in trials for load in trial.loads)
    guest = run.lab.get("guest", "none") not in ("", "none")
    return machine_state(trials, ()).taken_share if looked and not guest else None


def _row(experiment: str, finding: Finding, run: Run, own: Sequence[Trial], taken: float) -> FindingRow:
    """The finding's verdict on the experiment's ``own`` trials, with all that a form shows of it; ``taken``: what
    others had of the machine, which forbids a verdict from DISTURBED on."""
    judgement = judge(finding, run, own)
    if taken > DISTURBED and judgement.value is not None:
        busy = BUSY.format(100 * taken)
        judgement = unlike(judgement, "busy", f"{busy}; {judgement.reason}").model_copy(
            update={"answer": "", "short": busy}
        )
    # What was measured without a VPN has its trials under plain IP.
    made = repetitions_made(own, [name if name in run.vpns else BASELINE for name in judgement.systems])
    repetitions = repetitions_needed(judgement, made)
    return FindingRow(
        **judgement.model_dump(exclude={"systems", "part"}),
        **part_words(finding, judgement),
        experiment=experiment,
        id=finding.id,
        paper=finding.paper,
        where=finding.where,
        citation=finding.citation,
        found=finding.found,
        systems=[f"{name} ({run.vpns[name].dataplane})" if name in run.vpns else name for name in judgement.systems],
        basis=finding.basis,
        stands=stands(finding, run, judgement),
        needs=needs(judgement, run, made),
        repetitions=repetitions,
        needed_s=repetitions * _elapsed_s(run) / made if repetitions else None,
        kernel=kernel_of(run),
        run=run.run_id,
        judged=judgement,
        machine=f"{kernel_of(run)}, {run.lab.get('cpu', 'unknown')}, {_cores(run)}",
    )


def part_words(finding: Finding, judgement: Judgement) -> dict[str, str]:
    """What is said by the part that decides: what its number counts, why it is not so today, and its name, unless the
    first tells it."""
    of_part = finding.counts_of.get(judgement.part)
    return {
        "counts": of_part or finding.counts,
        "part": "" if of_part else judgement.part,
        "today": finding.today.get(judgement.part, finding.today.get("", "")) * (judgement.verdict == "not reproduced"),
    }


def _elapsed_s(run: Run) -> float:
    return sum(call.elapsed_s for call in run.invocations)


def stands(finding: Finding, run: Run, judgement: Judgement) -> Stands:
    """What a verdict is worth on the machines of this run. It depends on what the number was made from. A share that is
    known from below only, because sharing cores lowers it, decides wherever that is enough."""
    if finding.basis == "share" and judgement.bound == "≥" and judgement.verdict in DECIDED:
        return "yes"
    return STANDS[finding.basis][0 if run.lab.get("nodes_share_cores", True) else 1]


def repetitions_made(trials: Sequence[Trial], vpns: Collection[str] = ()) -> int:
    """How many repetitions of a cell were measured, as the upper median over the cells (of these ``vpns``, if they have
    any). A deadline leaves out some of those that were asked for."""
    ok = [trial for trial in trials if trial.status == "ok"]
    by_cell = trials_by_cell([trial for trial in ok if trial.vpn in vpns] or ok)
    return median_high([len({trial.repetition for trial in own}) for own in by_cell.values()] or [0])


def needs(judgement: Judgement, run: Run, made: int) -> str:
    """What a run would take to decide the finding, as an estimate from the repetitions ``made``; empty where something
    else than its interval leaves it open."""
    if judgement.verdict != "undecided" or judgement.bound or judgement.value is None:
        return ""
    if judgement.members:
        return "its interval is over the paper's own VPNs that were measured, and no more repetitions narrow it"
    if judgement.low is None:
        return "two repetitions would tell, or more"
    if judgement.longer is None:
        return "it lies on the bound, and more repetitions may never tell"
    if (repetitions := repetitions_needed(judgement, made)) is None:
        return f"a run of more than {LONGEST} times the length would decide it"
    needed = roughly(_elapsed_s(run) * repetitions / made)
    return f"about {repetitions} repetitions would decide it, {needed}"


def repetitions_needed(judgement: Judgement, made: int) -> int | None:
    """How many repetitions would decide what an interval leaves open, as an estimate from those that were ``made``.
    None where that is not known, and where they are too many."""
    if judgement.verdict != "undecided" or judgement.longer is None or judgement.longer > LONGEST:
        return None
    return math.ceil(max(made + 1, made * judgement.longer))


def kernel_of(run: Run) -> str:
    """The kernel of the lab's nodes, and the machine that it ran in where that is a guest."""
    guest = str(run.lab.get("guest", "none"))
    return str(run.lab.get("kernel", "unknown")) + (f" in {guest}" if guest not in ("", "none") else "")


def _device(run: Run, trials: Sequence[Trial]) -> str:
    """This machine as a line of devices.csv; empty where the transfers were not measured, and in a lab where not the
    cipher limits them (runner/data/scale.py)."""
    rates: dict[str, float] = {}
    if no_scale(run):
        return ""
    for cipher in ("aes-128-cbc", "aes-256-cbc"):
        mine = [t for t in trials if t.params.get("device_cipher") == cipher and "driver" not in t.params]
        if not (values := block_values(mine, "ssh_rate")):
            return ""
        rates[cipher] = round(median(values.values()) / 1e6, 1)
    numbers = {
        f"aes{cipher[4:7]}_{what}": value
        for cipher, rate in rates.items()
        for what, value in (("s", round(800 / rate, 2)), ("mbit_s", rate))
    }
    details = [
        measurement.detail for trial in trials for measurement in trial.measurements if measurement.metric == "ssh_rate"
    ]
    about = {
        "cpu": str(run.lab.get("cpu", "unknown")),
        "mhz": next((detail["cpu_mhz"] for detail in details if detail.get("cpu_mhz")), None),
        "device": f"{run.lab.get('device') or run.lab.get('machine', 'unknown')}, {_cores(run)}",
        "source": f"vpneval {run.vpneval_version}, run {run.run_id}, {run.created_at[:10]}",
    }
    return device_row(DeviceRow.model_validate({**about, **numbers}))


def _cores(run: Run) -> str:
    cores = run.lab.get("cores")
    return count_noun(cores, "core") if isinstance(cores, int) else "an unknown number of cores"


def brief(findings: Findings) -> list[Block]:
    """A sentence on each finding, for a terminal."""
    said: list[Block] = []
    for row in findings.rows:
        measured = f"{row.sentence} (published: {row.stated_words}). " * (row.value is not None)
        said.append(Paragraph(f"{row.found}: {row.verdict}. {measured}{row.why[:1].upper()}{row.why[1:]}."))
    return said


def section(findings: Findings, experiments: Sequence[str]) -> list[Block]:
    """The section, for every form: a table for each experiment; empty where there are no findings. ``experiments``: of
    the run, in their order."""
    if not findings.rows and not findings.device_row:
        return []
    blocks: list[Block] = [Heading("Findings", "findings"), Paragraph(ABOUT)]
    blocks += [Paragraph(findings.counts, "strong")] if findings.counts else []
    for experiment in dict.fromkeys(row.experiment for row in findings.rows):
        rows = [row.cells for row in findings.rows if row.experiment == experiment]
        link = Hyperlink(f"What {experiment} measured", name=experiment_anchor(experiments.index(experiment)))
        blocks += [Table(f"Findings: {experiment}", HEAD, rows), link]
    if findings.device_row:
        blocks.append(Paragraph(findings.device_row, "code", lead="This machine in the device table"))
    return blocks
