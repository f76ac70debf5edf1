"""What a finding can claim, each as a function that judges it: a ratio, a share or a time that lies between bounds, an
order, a spread; alone, of several parts, or with what another data plane measured beside it."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
import scipy  # loads scipy.stats at its first use

from runner.data.trials import Trial
from runner.papers.findings import Blocks, Data, Ends, Judgement, NotMeasured, Verdict
from runner.ranking.stats import block_values, compare_blocks, compare_independent, summarise

KERNEL_ESP, USERSPACE_ESP = "ipsec", "ipsec_user"
USERSPACE = f"userspace ESP ({USERSPACE_ESP})"
IPSEC = (KERNEL_ESP, USERSPACE_ESP)  # every paper's IPsec is that of the kernel


def decide(value: float | None, low: float | None, high: float | None, between: tuple[float, float]) -> Judgement:
    """The claim that a value lies ``between`` two bounds, judged by its 95 % interval.

    Wholly inside: reproduced. Wholly outside: not reproduced. Across a bound, or no interval: not comparable.
    """
    lower, upper = between
    if value is None or low is None or high is None:
        verdict: Verdict = "not comparable"
        reason = "undecided: one repetition has no interval"
    elif lower <= low and high <= upper:
        verdict, reason = "reproduced", f"the interval lies {_words(between)}"
    elif high < lower or low > upper:
        verdict, reason = "not reproduced", f"the interval does not lie {_words(between)}"
    else:
        verdict, reason = "not comparable", f"undecided: the interval reaches across the bound ({_words(between)})"
    return Judgement(verdict=verdict, reason=reason, value=value, low=low, high=high)


def compare(a: Blocks, b: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that ``a`` over ``b``, within the blocks, lies ``between`` two bounds.

    Raises NotMeasured where no block has both."""
    if not a.keys() & b.keys():
        raise NotMeasured("the two were measured in different rounds or repetitions, and share none")
    ratio = compare_blocks(a, b)
    return decide(ratio.ratio, ratio.low, ratio.high, between).model_copy(update={"published": published})


def apart(a: Blocks, b: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that ``a`` over ``b`` lies ``between`` two bounds, of two that took no turns with each other: one by
    rounds, say, and one by repetitions, whose numbers have nothing to do with each other."""
    ratio, _ = compare_independent([*b.values()], [*a.values()])
    return decide(ratio.ratio, ratio.low, ratio.high, between).model_copy(update={"published": published})


def single(values: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that a share, one for each block, lies ``between`` two bounds."""
    summary = summarise(list(values.values()))
    judgement = decide(summary.median, summary.low, summary.high, between)
    return judgement.model_copy(update={"published": published})


def timed(values_s: Blocks, between_s: Ends, published_s: Ends | None = None) -> Judgement:
    """The claim that a time (s), one for each block, lies ``between_s`` two bounds; ``published_s``: the paper's."""
    found = single(values_s, between_s)
    reason = found.reason.replace(_words(between_s), f"{_words(between_s)} s")
    return found.model_copy(update={"unit": "s", "published_range": published_s, "reason": reason})


MORE: tuple[float, float] = (1.0, math.inf)
LESS: tuple[float, float] = (0.0, 1.0)


def close(share: float) -> tuple[float, float]:
    """As good as equal: within ``share`` of 1, symmetrical for ratios."""
    return 1 / (1 + share), 1 + share


def all_of(parts: Mapping[str, Callable[[], Judgement]]) -> Judgement:
    """A claim with several parts: reproduced if all are, not reproduced if one is not. The number is that of the
    part that decides: the first that is not reproduced, else not comparable, else the first.

    Parts that were not measured are named and left out. Raises NotMeasured, with the first reason, where none was.
    """
    judged: dict[str, Judgement] = {}
    absent: dict[str, str] = {}
    for name, part in parts.items():
        try:
            judged[name] = part()
        except NotMeasured as missing:
            absent[name] = str(missing)
    if not judged:
        raise NotMeasured("; ".join(dict.fromkeys(absent.values())) or "nothing to compare")
    order: tuple[Verdict, ...] = ("not reproduced", "not comparable", "reproduced")
    decisive, found = min(judged.items(), key=lambda item: order.index(item[1].verdict))
    said = "; ".join(f"{name}: {one.verdict} {one.number}".rstrip() for name, one in judged.items())
    said += f"; not measured: {', '.join(absent)}" if absent else ""
    found = found.of(*(system for one in judged.values() for system in one.systems))
    if found.verdict == "reproduced":
        return found.model_copy(update={"reason": said})
    return found.model_copy(update={"reason": f"{decisive}: {found.reason}" + (f" ({said})" if len(parts) > 1 else "")})


@dataclass(frozen=True)
class At:
    """One cell: a VPN and enough levels to know it by."""

    vpn: str
    levels: Mapping[str, str]


def ratio_of(
    metric: str, a: At, b: At, between: tuple[float, float], published: float | None = None, unlike: str = ""
) -> Callable[[Data], Judgement]:
    """Judges the claim that ``metric`` at ``a`` over that at ``b`` lies ``between`` two bounds.

    ``unlike``: why the two studies cannot be compared in this; then the numbers are shown without a verdict.
    """

    def judged(data: Data) -> Judgement:
        found = compare(
            data.blocks(metric, a.vpn, **a.levels), data.blocks(metric, b.vpn, **b.levels), between, published
        ).of(a.vpn, b.vpn)
        return found.model_copy(update={"verdict": "not comparable", "reason": unlike}) if unlike else found

    return judged


Part = Callable[[], Judgement]
Judge = Callable[[str, Data], Judgement]  # of one VPN


def all_ratios(data: Data, metric: str, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float]) -> Judgement:
    """The claim that in each of ``pairs``, ``metric`` at the first over that at the second lies ``between`` bounds."""
    return all_of({name: partial(ratio_of(metric, a, b, between), data) for name, (a, b) in pairs.items()})


def on_ipsec(judge: Judge, other: str = "") -> Callable[[Data], Judgement]:
    """``judge`` of IPsec: the kernel's ESP decides, as in every paper; ESP in userspace is shown beside it.

    ``other``: what makes userspace ESP another mechanism in this, told with its number.
    """

    def of_plane(vpn: str, data: Data) -> Judgement:
        found = judge(vpn, data)
        if vpn not in found.systems:  # what is left without it is another claim
            raise NotMeasured(f"{vpn} was not measured in this")
        return found

    def judged(data: Data) -> Judgement:
        return beside(partial(of_plane, KERNEL_ESP, data), {USERSPACE: partial(of_plane, USERSPACE_ESP, data)}, other)

    return judged


def beside(decisive: Part, others: Mapping[str, Part], note: str = "") -> Judgement:
    """The verdict of ``decisive``, the paper's own system, with what the ``others`` measured beside it, and a ``note``.

    Raises NotMeasured where none was measured; where the others alone were, the finding is not comparable.
    """
    shown = []
    for name, other in others.items():
        with suppress(NotMeasured):
            shown.append(f"{name} {other().number}".rstrip() + (f" ({note})" if note else ""))
    try:
        return decisive().model_copy(update={"beside": "; ".join(shown)})
    except NotMeasured as missing:
        if not shown:
            raise
        reason = f"the paper's system decides, and was not measured: {missing}"
        return Judgement(verdict="not comparable", reason=reason, beside="; ".join(shown))


def measured_of(data: Data, metric: str, vpns: Sequence[str]) -> list[str]:
    """Those of ``vpns`` that have ``metric``, in their order."""
    return [vpn for vpn in vpns if vpn in data.vpns(metric)]


def opposite(found: Judgement) -> Judgement:
    """The claim that what was judged is not so."""
    other: dict[Verdict, Verdict] = {"reproduced": "not reproduced", "not reproduced": "reproduced"}
    return found.model_copy(update={"verdict": other.get(found.verdict, found.verdict)})


def order_held(data: Data, metric: str, vpns: Sequence[str], first: Mapping[str, str]) -> dict[int, float]:
    """Block -> of all pairs of VPNs and all cells alike, the share in whose order is that of the cell ``first``.

    Raises NotMeasured with fewer than three VPNs.
    """
    able = measured_of(data, metric, vpns)
    if len(able) < 3:
        raise NotMeasured(f"an order needs three VPNs; measured: {', '.join(able) or 'none'}")
    model = {vpn: data.blocks(metric, vpn, **first) for vpn in able}
    factors = [*first]
    tests = {
        tuple(t.params[f] for f in factors) for t in data.trials if {*factors} <= t.params.keys() and t.vpn in able
    }
    held: dict[int, list[bool]] = {}
    for test in sorted(tests):
        levels = dict(zip(factors, test, strict=True))
        values = {vpn: block_values(data.matching(vpn, levels), metric) for vpn in able}
        for a, b in combinations(able, 2):
            for block in values[a].keys() & values[b].keys() & model[a].keys() & model[b].keys():
                same = (values[a][block] > values[b][block]) == (model[a][block] > model[b][block])
                held.setdefault(block, []).append(same)
    return {block: sum(pairs) / len(pairs) for block, pairs in sorted(held.items())}


def pooled_variation(data: Data, metric: str, vpns: Sequence[str], limit: float) -> Judgement:
    """The claim that the coefficient of variation of ``metric`` is ``limit`` at most: one number for all cells.

    The largest of many grows with their number; the pooled one does not. The variances of the logarithms are pooled
    over the cells by their degrees of freedom, and the interval is that of a variance (chi squared). Raises NotMeasured
    where no cell has three repetitions.
    """
    same: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in data.trials:
        if trial.vpn in vpns:
            same[trial.cell, trial.position].append(trial)
    many = {trials[0].id: (trials[0].vpn, block_values(trials, metric)) for trials in same.values()}
    logs = [(vpn, np.log([*found.values()])) for vpn, found in many.values() if len(found) > 2]
    if not logs:
        raise NotMeasured("a coefficient of variation needs three repetitions")
    freedom = sum(len(one) - 1 for _, one in logs)
    squares = float(sum(((one - one.mean()) ** 2).sum() for _, one in logs))
    ends = [float(scipy.stats.chi2.ppf(share, freedom)) for share in (0.975, 0.025)]
    value, low, high = (math.sqrt(math.expm1(squares / by)) for by in (freedom, *ends))
    found = decide(value, low, high, (0.0, limit)).of(*(vpn for vpn, _ in logs))
    return found.model_copy(update={"published": limit, "reason": f"pooled over {len(logs)} cells: {found.reason}"})


def extreme(
    data: Data,
    metric: str,
    vpns: Sequence[str],
    factor: str,
    level: str,
    levels: Mapping[str, str],
    between: tuple[float, float],
) -> Judgement:
    """The claim that in each of ``vpns``, ``metric`` at ``level`` over that at every other level of ``factor`` lies
    ``between`` two bounds. VPNs without that level are named and left out; raises NotMeasured where none has it."""
    pairs = {
        f"{vpn} against {other}": partial(
            ratio_of(metric, At(vpn, {**levels, factor: level}), At(vpn, {**levels, factor: other}), between), data
        )
        for vpn in vpns
        if level in data.levels(factor, vpn)
        for other in data.levels(factor, vpn)
        if other != level
    }
    if not pairs:
        raise NotMeasured(f"no VPN here has {level} and another {factor}")
    found = all_of(pairs)
    without = [vpn for vpn in vpns if level not in data.levels(factor, vpn)]
    told = f"{found.reason}; without {', '.join(without)}, not measured with it" if without else found.reason
    return found.model_copy(update={"reason": told})


def _words(between: tuple[float, float]) -> str:
    low, high = between
    if math.isinf(high):
        return f"above {low:.3g}"
    return f"below {high:.3g}" if low <= 0 else f"between {low:.3g} and {high:.3g}"
