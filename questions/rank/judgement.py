"""What a run says of the order of its VPNs, as data: rankings, the verdicts on each pair, and the numbers behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, InstanceOf

from runner.data.kinds import Strict
from runner.data.metric import Metric
from runner.data.trials import MOST_LOOKS
from runner.design.question import Evidence
from runner.evidence.estimates import components, machines_of
from runner.evidence.model import Components, Configuration, Summary
from runner.evidence.stats import summarise_all
from runner.ranking.basis import Basis
from runner.ranking.model import OnMachines, Ranking, Verdict
from runner.ranking.rankings import Rankings
from runner.ranking.verdicts import verdicts
from runner.ranking.weights import default_weights
from runner.report import text
from runner.report.breakdowns import Breakdown, breakdowns
from runner.report.limits import LimitsSection, limits

LEAST_SHARE = 0.05  # of a run, before which nothing is decided


class RankedNumber(Strict):
    """One metric of a ranking: the ``traffic`` that it is ranked by, in words; VPN -> the summary of its repetitions,
    in the metric's unit; ``at_least``: the VPNs of which a value is a lower bound."""

    metric: str
    traffic: str
    summaries: dict[str, Summary]
    at_least: list[str]


class Spread(Strict):
    """Where the spread of one metric of one ranking comes from. ``between``: whose instances the component of that name
    is about: tunnels that were brought up anew, or machines."""

    configuration: str
    image: str
    metric: str
    components: Components
    between: Literal["instances", "machines"] = "instances"


class Ranked(Strict):
    """The verdict on each pair in each metric that counts; of a run that has ended its rankings, too. ``behind``: of
    each ranking, the numbers; ``spreads``: where the spread of what was measured by rounds comes from; ``machines``: of
    a farm, what each machine says of each ranking; ``seconds_more``: for how long to go on to decide most pairs;
    ``weighed``: weights were given. ``bases``: what they were made from; ``evidence``, ``breakdowns`` and ``limits``:
    what the words need beside. These are not in report.json."""

    weighed: bool = False
    rankings: list[Ranking] = []
    verdicts: list[Verdict]
    spreads: list[Spread] = []
    behind: list[list[RankedNumber]] = []
    machines: list[OnMachines] = []
    seconds_more: float | None = None
    evidence: InstanceOf[Evidence] = Field(exclude=True)
    bases: list[InstanceOf[Basis]] = Field(exclude=True)
    breakdowns: list[Breakdown] = Field(default=[], exclude=True)
    limits: LimitsSection = Field(default=LimitsSection(), exclude=True)

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """What each metric of the run is, by its name."""
        return self.evidence.run.metrics

    @property
    def is_shown(self) -> bool:
        """Are the rankings shown? They are where weights were given, and where no other answer leads, unless the run
        measured nothing that has a weight."""
        counted = not self.rankings or any(ranking.weights.counted_metrics for ranking in self.rankings)
        return self.weighed or (not self.evidence.led and counted)


def rank(evidence: Evidence) -> Ranked:
    """The verdicts, at the significance of a run that is looked at as often as it was, and all else that the words
    need; of a run that goes on, at that of one that is looked at as often as this call may, too, and nothing else."""
    run, trials = evidence.run, evidence.trials
    made = Rankings(run, trials, evidence.weights, evidence.configurations)
    if evidence.share is not None:
        counted = [(evidence.weights or default_weights(basis.values)).counted_metrics.keys() for basis in made.bases]
        over = min(1.0, max(LEAST_SHARE, evidence.share))
        found = verdicts(made.bases, counted, run.looks + MOST_LOOKS - 1, over)
        return Ranked(verdicts=found, evidence=evidence, bases=made.bases)
    return Ranked(
        weighed=evidence.weights is not None,
        rankings=made.rankings,
        verdicts=made.verdicts,
        spreads=spreads(made.bases),
        behind=[ranked_numbers(basis) for basis in made.bases],
        machines=made.machines,
        seconds_more=made.seconds_more,
        evidence=evidence,
        bases=made.bases,
        breakdowns=breakdowns(trials),
        limits=limits(run, trials, made.bases),
    )


def spreads(configurations: Sequence[Configuration]) -> list[Spread]:
    """The spread of every metric that was measured by rounds, for each ranking."""
    return [
        Spread(
            configuration=made.configuration,
            image=made.image,
            metric=metric,
            components=parts,
            between="machines" if machines_of(by_vpn) else "instances",
        )
        for made in configurations
        for metric, by_vpn in made.values.items()
        if (parts := components(by_vpn))
    ]


def ranked_numbers(made: Configuration) -> list[RankedNumber]:
    """The numbers of every metric that has values, in the order of the definitions."""
    numbers = []
    for metric, by_vpn in made.values.items():
        values = [list(blocks.values()) for blocks in by_vpn.values()]
        summaries = summarise_all(values, exact=made.metrics[metric].exact)
        numbers.append(
            RankedNumber(
                metric=metric,
                traffic=text.levels(made.traffic[metric]),
                summaries=dict(zip(by_vpn, summaries, strict=True)),
                at_least=[vpn for vpn, blocks in made.bounds[metric].items() if blocks],
            )
        )
    return numbers
