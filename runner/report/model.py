"""The report as data, built once from a run's two files; every rendering is made from it and nothing else."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import Field, InstanceOf

from runner.data.asked import AskedRun
from runner.data.checks import check
from runner.data.invocation import asked_of
from runner.data.kinds import Strict
from runner.data.metric import Metric
from runner.data.scale import NoScale, no_scale
from runner.data.store import without_collector
from runner.data.trials import Run, cell_key
from runner.design.blocks import Block
from runner.design.question import Card, Evidence, Page, Question, Said
from runner.evidence.configurations import absent_vpns, configurations_of
from runner.evidence.model import Configuration, Drift, Summary
from runner.evidence.stats import trials_by_cell
from runner.report import facts
from runner.report.behaviour import Behaviour, behaviours
from runner.report.behaviour import section as behaviour_section
from runner.report.breakdowns import Breakdown, breakdowns
from runner.report.experiments import ExperimentReport, experiment_report
from runner.report.facts import Fact
from runner.report.failures import FailureRow
from runner.report.failures import failures as broken
from runner.report.failures import section as failures_section
from runner.report.find_limits import find_limits
from runner.report.gateway_cores import CoresLadder, ladders
from runner.report.limits import LimitsSection
from runner.report.limits import section as limits_section
from runner.report.machines import Lack, Unlike, differing, lacking, left_out, machines_section
from runner.report.mesh import MeshPoint, mesh_points
from runner.report.observations import Observation, observations_of
from runner.report.proofs import ProofRow, proofs_of
from runner.report.sustained import SUSTAINED, Sustained, sustained_costs

# In their order:
SECTIONS = ("limits", "machines", "machines-differ", "findings", "behaviour", "timelines", "paper-tables")
COUNTED = ("ok", "failed", "unsupported", "lab_error")


@dataclass(frozen=True)
class Answered:
    """A question, and what the run says of it."""

    question: Question[Any]
    judgement: Strict
    _said: dict[str, Said | None] = field(default_factory=dict)

    def say(self, where: str) -> Said | None:
        """The answer in words; None where the run says nothing. ``where``: the run folder, as commands name it."""
        if where not in self._said:
            self._said[where] = self.question.say(self.judgement, where)
        return self._said[where]

    def card(self, where: str, page: Page) -> Card | None:
        """The answer for a page, where it is drawn and not told."""
        return self.question.card(self.judgement, where, page)


class Report(Strict):
    """Everything that any rendering shows. Times in seconds; ``measuring_share`` is a ratio of 1. ``carriers``: VPN ->
    what carries its packets over the WAN (``udp``, ``tcp``, ``esp``). ``metrics``: what each metric of the run is, by
    its name. ``cores``: of the machine, or of one of them; ``cpu_of``: whose CPU time the CPU cost is. ``judged``: the
    questions that the run answers, with ``judgements`` as their data; ``in_a_line``: the first of these answers;
    ``absent``: the VPNs that were asked for and have no number, the kernel's first. ``asked``: by the first call; None
    where nothing says it. ``configurations``: what the run compares; ``ladders``: of each, the cores that each rate
    takes. These and ``judged`` are not part of report.json."""

    run_id: str
    created_at: str
    vpneval_version: str
    citation: str = Field(default="", description="how to cite this run: version, commit, image digest, seed")
    command_line: str
    asked: AskedRun | None = None
    profile: str
    profile_note: str
    repetitions: int
    trials: dict[str, int]
    trimmed: int
    separation: str
    elapsed_s: float
    measuring_share: float | None
    scale: NoScale | None = Field(default=None, description="why data planes cannot be set against each other here")
    facts: list[Fact]
    metrics: dict[str, Metric]
    caveats: list[str]
    warnings: list[str]
    drift: list[Drift]
    judgements: dict[str, Any] = {}
    in_a_line: str = ""
    absent: list[str] = []
    sustained: list[Sustained] = []
    references: list[str]
    carriers: dict[str, str] = {}
    cores: int | None = None
    cpu_of: str = ""
    experiments: list[ExperimentReport]
    breakdowns: list[Breakdown] = []
    failures: list[FailureRow] = []
    behaviour: list[Behaviour] = Field(default=[], description="what a path that is not clean did to each VPN")
    mesh: list[MeshPoint] = []
    limits: LimitsSection = LimitsSection()
    machines_differ: list[Unlike] = Field(default=[], description="of a farm: facts in which its machines differ")
    machines_lack: list[Lack] = Field(default=[], description="of a farm: what single machines could not measure")
    left_out: dict[str, str] = Field(default={}, description="of a farm: machines that got no blocks, and why")
    proofs: list[ProofRow] = []
    observations: list[Observation]
    configurations: list[InstanceOf[Configuration]] = Field(default=[], exclude=True)
    ladders: list[list[CoresLadder]] = Field(default=[], exclude=True)
    judged: list[InstanceOf[Answered]] = Field(default=[], exclude=True)

    def say(self, where: str = "") -> list[Said]:
        """The answers, in words. ``where``: the run folder, as commands name it."""
        return [said for one in self.judged if (said := one.say(where))]

    def lead(self, where: str = "") -> list[Said]:
        """The answers that come first, in words."""
        return [said for one in self.judged if one.question.leads and (said := one.say(where))]

    @property
    def sections(self) -> dict[str, list[Block]]:
        """The sections by their names, without those that are empty: the report's own, and those of questions."""
        by_name: dict[str, Sequence[Block]] = {
            "limits": limits_section(self.limits),
            "machines-differ": machines_section(self.machines_differ, self.machines_lack, self.left_out),
            "behaviour": behaviour_section(self.behaviour),
            "timelines": failures_section(self.failures),
        }
        for said in self.say(self.run_id):
            by_name |= said.sections
        places = {name: place for place, name in enumerate(SECTIONS)}
        order = sorted(by_name, key=lambda name: places.get(name, len(places)))
        return {name: [*by_name[name]] for name in order if by_name[name]}

    @property
    def summaries(self) -> list[Summary]:
        """Every summary that is shown."""
        rows = (row for experiment in self.experiments for table in experiment.tables for row in table.measured_rows)
        return [row.summary for row in rows if row.summary]


@without_collector()
def build(evidence: Evidence, questions: Sequence[Question[Any]] = ()) -> Report:
    """The report of a run, with the answers to these questions, of which those before come first. Raises UsageError for
    an unknown configuration, and for what ``runner.data.checks`` refuses."""
    run, trials = evidence.run, evidence.trials
    check(run, trials)
    judged = list[Answered]()
    for question in questions:
        if not evidence.led and any(one.question.leads for one in judged):
            evidence = replace(evidence, led=True)
        answered = Answered(question, question.judge(evidence))
        judged += [answered] if answered.say(run.run_id) else []
    answers = [said for one in judged if (said := one.say(run.run_id))]
    compared = configurations_of(run, trials, names=evidence.configurations)
    by_cell = trials_by_cell(trials)
    limited = find_limits(run, trials, compared)
    experiments = [
        experiment_report(run, trials, by_cell, record, limited.sentences_by_cell) for record in run.experiments
    ]
    proofs, proof_of = proofs_of(trials)
    return Report(
        **_of_run(run),
        trials={status: sum(trial.status == status for trial in trials) for status in COUNTED},
        facts=facts.facts(run, trials),
        metrics=run.metrics,
        caveats=facts.caveats(run, trials) + [sentence for said in answers for sentence in said.caveats],
        warnings=facts.warnings(trials),
        drift=facts.drifts(trials),
        judged=judged,
        judgements={one.question.name: one.judgement.model_dump(mode="json") for one in judged},
        in_a_line=next((said.line for one, said in zip(judged, answers, strict=True) if one.question.leads), ""),
        absent=absent_vpns(run, trials),
        sustained=sustained_costs(run, by_cell, _summaries(experiments)),
        references=[name for name, record in run.vpns.items() if record.reference],
        carriers={name: record.transport for name, record in run.vpns.items()},
        cores=run.lab["cores"] if isinstance(run.lab.get("cores"), int) else None,
        cpu_of=facts.cpu_of(trials),
        experiments=experiments,
        breakdowns=breakdowns(trials),
        failures=broken(trials, run.metrics),
        behaviour=behaviours(trials),
        mesh=mesh_points(trials),
        limits=limited,
        machines_differ=differing(run),
        machines_lack=lacking(run, trials),
        left_out=left_out(run),
        proofs=proofs,
        observations=observations_of(trials, proof_of),
        configurations=compared,
        ladders=[ladders(configuration, trials) for configuration in compared],
    )


def _of_run(run: Run) -> dict[str, Any]:
    """What a report has of run.json as it stands there."""
    return {
        "run_id": run.run_id,
        "created_at": run.created_at,
        "vpneval_version": run.vpneval_version,
        "citation": facts.citation(run),
        "command_line": shlex.join(run.invocations[0].command_line) if run.invocations else "",
        "asked": asked_of(run),
        "profile": run.profile,
        "profile_note": run.profile_note,
        "repetitions": run.repetitions,
        "trimmed": run.invocations[-1].trimmed if run.invocations else 0,
        "separation": run.invocations[-1].separation if run.invocations else "",
        "elapsed_s": sum(call.elapsed_s for call in run.invocations),
        "measuring_share": _measuring_share(run),
        "scale": no_scale(run),
    }


def _measuring_share(run: Run) -> float | None:
    """The share of its time in which the run measured something."""
    elapsed_s = sum(call.elapsed_s for call in run.invocations)
    return sum(call.measuring_s for call in run.invocations) / elapsed_s if elapsed_s else None


def _summaries(experiments: Sequence[ExperimentReport]) -> dict[tuple[str, str], Summary]:
    """(Cell, metric) -> its summary in the tables of the experiments."""
    tables = (table for experiment in experiments for table in experiment.tables if table.metric in SUSTAINED)
    return {
        (cell_key(row.vpn, row.params), table.metric): row.summary
        for table in tables
        for row in table.measured_rows
        if row.summary
    }
