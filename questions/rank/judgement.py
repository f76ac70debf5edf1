"""What a run says of the order of its VPNs, as data: rankings, the verdicts on each pair, and the numbers behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field, InstanceOf, PrivateAttr

from runner.data.kinds import Strict
from runner.data.metric import Metric
from runner.design.question import Evidence
from runner.evidence.model import Components, Configuration, Summary
from runner.ranking.model import OnMachines, Ranking, Verdict
from runner.report.breakdowns import Breakdown
from runner.report.limits import LimitsSection


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
    ``weighed``: weights were given. ``bases``: what they were made from; ``by_tcp``: of each ranking, that by the
    preset ``tcp``, where the balanced weights leave out a VPN that carries TCP only; ``failed``: of each ranking, the
    metrics that do not count because no trial of them ended ok: title -> trials that failed; ``blocks``: repetitions or
    rounds; ``evidence``, ``breakdowns`` and ``limits``: what the words need beside. These are not in report.json."""

    weighed: bool = False
    rankings: list[Ranking] = []
    verdicts: list[Verdict]
    spreads: list[Spread] = []
    behind: list[list[RankedNumber]] = []
    machines: list[OnMachines] = []
    seconds_more: float | None = None
    evidence: InstanceOf[Evidence] = Field(exclude=True)
    bases: list[InstanceOf[Configuration]] = Field(exclude=True)
    by_tcp: list[Ranking | None] = Field(default=[], exclude=True)
    failed: list[dict[str, int]] = Field(default=[], exclude=True)
    blocks: int = Field(default=0, exclude=True)
    breakdowns: list[Breakdown] = Field(default=[], exclude=True)
    limits: LimitsSection = Field(default=LimitsSection(), exclude=True)

    _ordered: dict[int, tuple[Ranking, list[Verdict]]] = PrivateAttr(default_factory=dict)

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

    def verdicts_of(self, ranking: Ranking) -> list[Verdict]:
        """``of_ranking``, which is kept: each form asks for it anew, and 200 VPNs have 100,000."""
        kept = self._ordered.get(id(ranking))
        if kept is None or kept[0] is not ranking:
            kept = self._ordered[id(ranking)] = ranking, of_ranking(self.verdicts, ranking)
        return kept[1]


def of_ranking(verdicts: Sequence[Verdict], ranking: Ranking) -> list[Verdict]:
    """The verdicts of one ranking: metrics in the order of the weights, pairs in the order of the places."""
    order = {standing.vpn: number for number, standing in enumerate(ranking.standings)}
    metrics = {metric: number for number, metric in enumerate(ranking.weights.counted_metrics)}
    mine = [
        verdict.other_way if order[verdict.a] > order[verdict.b] else verdict
        for verdict in verdicts
        if (verdict.configuration, verdict.image) == (ranking.configuration, ranking.image)
        and verdict.metric in metrics
    ]
    return sorted(mine, key=lambda verdict: (metrics[verdict.metric], order[verdict.a], order[verdict.b]))
