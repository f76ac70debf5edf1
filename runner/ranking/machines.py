"""What each machine of a farm says of a ranking by itself: who leads there, by how much, and which machine stands out.

The ranking's own intervals have the differences between machines in them (evidence.estimates). Here the machines are
looked at one by one: the log ratio of a VPN to the leader, round by round, is free of how fast the machine is, so that
what is left is how well the two suit it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import scipy

from runner.data.numbers import exp, lead
from runner.evidence.estimates import Estimate, RoundValues, estimate_pair, machines_of
from runner.evidence.model import Blocks
from runner.evidence.ties import in_order
from runner.ranking.basis import Basis
from runner.ranking.model import MachineRatio, OneMachine, OnMachines, Ranking

LEVEL = 0.05  # of naming one machine or more where all are alike
FEWEST = 4  # machines, from which on one can stand out


def on_machines(basis: Basis, ranking: Ranking) -> OnMachines | None:
    """The results of one ranking on each machine. None where there are not two machines, or fewer than two VPNs are
    ranked."""
    ranked = [standing.vpn for standing in ranking.standings if standing.place is not None]
    metrics = [metric for metric in ranking.weights.counted_metrics if machines_of(basis.values.get(metric, {}))]
    if len(ranked) < 2 or not metrics:
        return None
    names = sorted({name for metric in metrics for name in machines_of(basis.values[metric])})
    own: dict[str, dict[str, dict[str, RoundValues]]] = {name: {} for name in names}
    for metric in metrics:
        for name, by_vpn in _by_machine(basis.values[metric]).items():
            own[name][metric] = by_vpn
    ratios = {name: _ratios(own[name], ranked[0], ranked[1:]) for name in names}
    out = _standing_out(ratios, {metric: basis.metrics[metric].title for metric in metrics}, ranked[0])
    return OnMachines(
        configuration=ranking.configuration,
        image=ranking.image,
        first=ranked[0],
        second=ranked[1],
        titles={metric: basis.metrics[metric].title for metric in metrics},
        machines=[
            OneMachine(
                machine=name,
                blocks=max((estimate.blocks for estimate in ratios[name].values()), default=0),
                leader=_leader(basis, ranking, own[name], ranked),
                ratios=[
                    _ratio(metric, estimate) for (metric, vpn), estimate in ratios[name].items() if vpn == ranked[1]
                ],
                stands_out=out.get(name, []),
            )
            for name in names
        ],
    )


def _by_machine(by_vpn: Mapping[str, Blocks]) -> dict[str, dict[str, RoundValues]]:
    """Machine -> VPN -> its values there."""
    by_machine: dict[str, dict[str, RoundValues]] = {}
    for vpn, blocks in by_vpn.items():
        if not isinstance(blocks, RoundValues):
            continue
        mine: list[dict[int, float]] = [{} for _ in blocks.machines]
        for block, value in blocks.items():
            if blocks.machines:
                mine[blocks.instances[block]][block] = value
        for number, (name, values) in enumerate(zip(blocks.machines, mine, strict=True)):
            by_machine.setdefault(name, {})[vpn] = RoundValues(values, dict.fromkeys(values, number))
    return by_machine


def _ratios(
    own: Mapping[str, Mapping[str, RoundValues]], first: str, others: Sequence[str]
) -> dict[tuple[str, str], Estimate]:
    """(metric, VPN) -> the log ratio of the leader over that VPN."""
    ratios = {}
    for metric, by_vpn in own.items():
        for vpn in others:
            if first in by_vpn and vpn in by_vpn and (estimate := estimate_pair(by_vpn[first], by_vpn[vpn])):
                ratios[metric, vpn] = estimate
    return ratios


def _ratio(metric: str, estimate: Estimate) -> MachineRatio:
    low, high = estimate.interval()
    return MachineRatio(metric=metric, ratio=exp(estimate.centre), low=exp(low), high=exp(high))


def _leader(basis: Basis, ranking: Ranking, own: Mapping[str, Mapping[str, RoundValues]], ranked: Sequence[str]) -> str:
    """The ranked VPN with the lowest weighted average rank by this machine's medians; of equals the better placed
    one."""
    average = dict.fromkeys(ranked, 0.0)
    for metric, by_vpn in own.items():
        sign = -1 if basis.metrics[metric].better == "higher" else 1
        middle = {vpn: sign * statistics.median(blocks.values()) for vpn, blocks in by_vpn.items() if blocks}
        for vpn in ranked:
            rank = 1 + sum(lead(middle[vpn], other) > 0 for other in middle.values()) if vpn in middle else len(ranked)
            average[vpn] += ranking.weights.counted_metrics[metric] * rank
    return in_order(ranked, [average[vpn] for vpn in ranked])[0]


def _standing_out(
    by_machine: Mapping[str, Mapping[tuple[str, str], Estimate]], titles: Mapping[str, str], first: str
) -> dict[str, list[str]]:
    """Machine -> sentences on the ratios in which it differs from the others: by the studentised residual among all
    machines' ratios, at Bonferroni's level for the number of machines and ratios."""
    outliers: dict[str, list[str]] = {}
    pairs = sorted({pair for ratios in by_machine.values() for pair in ratios})
    for metric, vpn in pairs:
        centres = {name: ratios[metric, vpn].centre for name, ratios in by_machine.items() if (metric, vpn) in ratios}
        n = len(centres)
        if n < FEWEST:
            continue
        limit = -float(scipy.special.stdtrit(n - 2, LEVEL / (2 * n * len(pairs))))
        for name, centre in centres.items():
            others = [value for other, value in centres.items() if other != name]
            spread = statistics.stdev(others) * math.sqrt(1 + 1 / (n - 1))
            if spread > 0 and abs(centre - statistics.fmean(others)) / spread > limit:
                outliers.setdefault(name, []).append(
                    f"{titles[metric]}, {first} over {vpn}: {exp(centre):.3g}; "
                    f"on the others {exp(statistics.fmean(others)):.3g}"
                )
    return outliers
