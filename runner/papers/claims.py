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
from types import MappingProxyType

import scipy  # loads scipy.stats at its first use

from runner.data.levels import TUNNEL
from runner.data.numbers import SAME, lead
from runner.data.trials import Trial
from runner.papers.findings import BOUNDS, Blocks, Data, Ends, Judgement, NotMeasured, Open, Verdict, open_ends
from runner.ranking.estimates import Pooled, RoundValues
from runner.ranking.stats import block_values, compare_blocks, compare_independent, summarise

KERNEL_ESP, USERSPACE_ESP = "ipsec", "ipsec_user"
USERSPACE = f"userspace ESP ({USERSPACE_ESP})"
BASELINE, PAYLOAD = "none", "payload"  # plain IP, and what it carries, which is one to it
ROUNDS_OF_SEARCH = 40
IPSEC = (KERNEL_ESP, USERSPACE_ESP)  # every paper's IPsec is that of the kernel


KNOWN: Mapping[Open, str] = {
    (False, True): "it is known from below only",
    (True, False): "it is known from above only: what it is divided by is known from below only",
    (True, True): "it is known from neither side: both are known from below only",
}


def decide(
    value: float | None,
    low: float | None,
    high: float | None,
    between: tuple[float, float],
    blocks: int = 0,
    may: Open = (False, False),
) -> Judgement:
    """The claim that a value lies ``between`` two bounds, judged by its 95 % interval, made from so many ``blocks``.

    Wholly inside: reproduced. Wholly outside: not reproduced. Across a bound, or no interval: undecided.
    ``may``: where the truth may be lower, or higher, the interval has no end on that side.
    """
    lower, upper = between
    verdict: Verdict = "undecided"
    longer = None
    if value is None:
        reason = "there is no ratio, because a value is zero"
    elif low is None or high is None:
        reason = "one repetition has no interval"
    else:
        least, most = min(low, 0.0) if may[0] else low, math.inf if may[1] else high
        if lead(least, lower) >= 0 and lead(upper, most) >= 0:
            verdict, reason = "reproduced", f"the interval lies {_words(between)}"
        elif lead(most, lower) < 0 or lead(upper, least) < 0:
            verdict, reason = "not reproduced", f"the interval does not lie {_words(between)}"
        elif known := KNOWN.get(may):
            reason = f"{known}, which does not decide whether it lies {_words(between)}"
        else:
            reason = f"the interval reaches across the bound ({_words(between)})"
            longer = times_longer(value, low, high, between, blocks)
    judgement = Judgement(verdict=verdict, reason=reason, value=value, low=low, high=high, longer=longer)
    return judgement.model_copy(update={"bound": BOUNDS[may]})


def times_longer(value: float, low: float, high: float, between: tuple[float, float], blocks: int) -> float | None:
    """How many times as much measuring would decide, if the value stayed and its error fell with the root of the time.

    Student's quantile falls with the ``blocks``, too (0: many). None where the value lies on the bound itself.
    """
    lower, upper = between
    reach = [  # towards each bound in the interval: how far the interval reaches, and how far the bound is away
        (_apart(value, end), _apart(value, bound))
        for bound, end in ((lower, low), (lower, high), (upper, low), (upper, high))
        if low <= bound <= high and (bound < value) == (end < value)
    ]
    if lead(value, lower) < 0 or lead(upper, value) < 0:  # the nearer one decides that it lies outside
        reach = sorted(reach, key=lambda ends: ends[1])[:1]
    if not reach or any(away <= SAME for _, away in reach):
        return None
    return max(_longer(wide / away, blocks) for wide, away in reach)


def _longer(over: float, blocks: int) -> float:
    """How many times as many blocks make the interval ``over`` times narrower (``over`` is 1 or more)."""
    if blocks < 2:
        return over**2
    quantile, longest = float(scipy.stats.t.ppf(0.975, blocks - 1)), 1.0
    for _ in range(ROUNDS_OF_SEARCH):  # more blocks have more degrees of freedom, and need fewer blocks
        narrower = float(scipy.stats.t.ppf(0.975, blocks * longest - 1)) / quantile
        longest = math.sqrt(longest * max(1.0, (over * narrower) ** 2))
    return longest


def _apart(a: float, b: float) -> float:
    """The distance of two values: in logarithms, as their intervals were made, where both are positive."""
    return abs(math.log(a / b)) if a > 0 and b > 0 else abs(a - b)


def compare(a: Blocks, b: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that ``a`` over ``b``, within the blocks, lies ``between`` two bounds.

    Raises NotMeasured where no block has both."""
    in_turns = [isinstance(values, RoundValues) for values in (a, b) if not isinstance(values, Pooled)]
    if not a.keys() & b.keys() or len({*in_turns}) > 1:
        raise NotMeasured("the two were measured in different rounds or repetitions, and share none")
    ratio = compare_blocks(a, b)
    judged = decide(ratio.ratio, ratio.low, ratio.high, between, ratio.blocks, _may(a, b))
    return judged.model_copy(update={"published": published})


def _may(a: Blocks, b: Blocks) -> Open:
    """May ``a`` over ``b`` be lower, and may it be higher? A search that was continued is compared with everything."""
    if isinstance(a, Pooled) or isinstance(b, Pooled):
        return open_ends(a.values(), b.values())
    shared = a.keys() & b.keys()
    return open_ends([a[block] for block in shared], [b[block] for block in shared])


def apart(a: Blocks, b: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that ``a`` over ``b`` lies ``between`` two bounds, where the two took no turns with each other: one was
    measured in rounds, say, and the other in repetitions, so that their block numbers are unrelated."""
    ratio, _ = compare_independent([*b.values()], [*a.values()])
    judged = decide(ratio.ratio, ratio.low, ratio.high, between, may=open_ends(a.values(), b.values()))
    return judged.model_copy(update={"published": published})


def single(values: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that a share, one for each block, lies ``between`` two bounds."""
    summary = summarise(list(values.values()))
    may = open_ends(values.values())
    judgement = decide(summary.median, summary.low, summary.high, between, summary.n, may)
    return judgement.model_copy(update={"published": published})


def timed(values_s: Blocks, between_s: Ends, published_s: Ends | None = None) -> Judgement:
    """The claim that a time (s), one for each block, lies ``between_s`` two bounds; ``published_s``: the paper's."""
    judgement = single(values_s, between_s)
    reason = judgement.reason.replace(_words(between_s), f"{_words(between_s)} s")
    return judgement.model_copy(update={"unit": "s", "published_range": published_s, "reason": reason})


MORE: tuple[float, float] = (1.0, math.inf)
LESS: tuple[float, float] = (0.0, 1.0)


def close(share: float) -> tuple[float, float]:
    """As good as equal: within ``share`` of 1, symmetrical for ratios."""
    return 1 / (1 + share), 1 + share


def all_of(parts: Mapping[str, Callable[[], Judgement]]) -> Judgement:
    """A claim with several parts: reproduced if all are, not reproduced if one is not. The number is that of the
    part that decides: the first that is not reproduced, else one without a verdict, else the first.

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
    order: tuple[Verdict, ...] = ("not reproduced", "undecided", "incomparable", "unmeasured", "reproduced")
    # Of those that are undecided first one that no longer run decides in the same way.
    decisive, result = min(judged.items(), key=lambda item: (order.index(item[1].verdict), not item[1].bound))
    summary = "; ".join(
        f"{name}: {judgement.verdict} {judgement.number}".rstrip() for name, judgement in judged.items()
    )
    summary += f"; not measured: {', '.join(absent)}" if absent else ""
    result = result.of(*(system for judgement in judged.values() for system in judgement.systems))
    result = result.model_copy(update={"part": decisive})
    if result.verdict == "undecided":  # each of the undecided parts has to be decided
        longer = [
            judgement.longer
            for judgement in judged.values()
            if judgement.verdict == "undecided" and judgement.low is not None
        ]
        known = [times for times in longer if times is not None]
        result = result.model_copy(update={"longer": max(known, default=None) if known == longer else None})
    if result.verdict == "reproduced":
        return result.model_copy(update={"reason": summary})
    return result.model_copy(
        update={"reason": f"{decisive}: {result.reason}" + (f" ({summary})" if len(parts) > 1 else "")}
    )


@dataclass(frozen=True)
class At:
    """One cell: a VPN and enough levels to know it by."""

    vpn: str
    levels: Mapping[str, str]


def ratio_of(
    metric: str, a: At, b: At, between: tuple[float, float], published: float | None = None
) -> Callable[[Data], Judgement]:
    """Judges the claim that ``metric`` at ``a`` over that at ``b`` lies ``between`` two bounds."""

    def judged(data: Data) -> Judgement:
        first, second = data.blocks(metric, a.vpn, **a.levels), data.blocks(metric, b.vpn, **b.levels)
        if first.keys() & second.keys():
            return compare(first, second, between, published).of(a.vpn, b.vpn)
        return by_plain_ip(data, metric, (a, b), between, published).of(a.vpn, b.vpn)

    return judged


def by_plain_ip(
    data: Data, metric: str, cells: tuple[At, At], between: tuple[float, float], published: float | None
) -> Judgement:
    """The claim that ``metric`` at the first cell over that at the second lies ``between`` two bounds, where they had
    their turns in different rounds: each is divided by plain IP in its own rounds, which shows how fast the machine
    was.

    Raises NotMeasured where plain IP was not measured beside both."""
    shares = []
    for at in cells:
        outside = {factor: level for factor, level in at.levels.items() if factor not in (*TUNNEL, PAYLOAD)}
        mine, plain = data.blocks(metric, at.vpn, **at.levels), data.blocks(metric, BASELINE, **outside)
        shares.append({block: mine[block] / plain[block] for block in mine.keys() & plain.keys()})
    if not all(shares):
        raise NotMeasured("the two were measured in different rounds or repetitions, and plain IP beside one of them")
    judged = apart(shares[0], shares[1], between, published)
    return judged.model_copy(update={"reason": f"{judged.reason}; each over plain IP in its own rounds"})


Part = Callable[[], Judgement]
Judge = Callable[[str, Data], Judgement]  # of one VPN


def all_ratios(data: Data, metric: str, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float]) -> Judgement:
    """The claim that in each of ``pairs``, ``metric`` at the first over that at the second lies ``between`` bounds."""
    return all_of({name: partial(ratio_of(metric, a, b, between), data) for name, (a, b) in pairs.items()})


def on_ipsec(judge: Judge, other: str = "") -> Callable[[Data], Judgement]:
    """``judge`` of IPsec: the kernel's ESP decides, as in every paper; ESP in userspace is shown beside it.

    ``other``: what makes userspace ESP another mechanism in this, shown with its number.
    """

    def of_plane(vpn: str, data: Data) -> Judgement:
        judgement = judge(vpn, data)
        if vpn not in judgement.systems:  # what is left without it is another claim
            raise NotMeasured(f"{vpn} was not measured in this")
        return judgement

    def judged(data: Data) -> Judgement:
        return beside(partial(of_plane, KERNEL_ESP, data), {USERSPACE: partial(of_plane, USERSPACE_ESP, data)}, other)

    return judged


def beside(decisive: Part, others: Mapping[str, Part], note: str = "") -> Judgement:
    """The verdict of ``decisive``, the paper's own system, with what the ``others`` measured beside it, and a ``note``.

    Raises NotMeasured where none was measured; where the others alone were, the finding is unmeasured.
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
        return Judgement(verdict="unmeasured", reason=reason, beside="; ".join(shown))


def measured_of(data: Data, metric: str, vpns: Sequence[str]) -> list[str]:
    """Those of ``vpns`` that have ``metric``, in their order."""
    return [vpn for vpn in vpns if vpn in data.vpns(metric)]


def recovered(trials: Sequence[Trial], metric: str) -> dict[int, float]:
    """Repetition -> the share of the failures of these trials after which ``metric`` came to its end."""
    shares = defaultdict(list)
    for trial in trials:
        for measurement in trial.measurements:
            if trial.status == "ok" and measurement.metric == metric and "unrecovered" in measurement.detail:
                shares[trial.repetition].append(1 - measurement.detail["unrecovered"] / measurement.detail["failures"])
    return {repetition: sum(of_repetition) / len(of_repetition) for repetition, of_repetition in shares.items()}


def opposite(judgement: Judgement) -> Judgement:
    """The judgement of the opposite claim."""
    other: dict[Verdict, Verdict] = {"reproduced": "not reproduced", "not reproduced": "reproduced"}
    return judgement.model_copy(update={"verdict": other.get(judgement.verdict, judgement.verdict)})


def order_held(
    data: Data,
    metric: str,
    vpns: Sequence[str],
    first: Mapping[str, str],
    more: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> dict[int, float]:
    """Block -> the share of pairs of VPNs that have the same order as in the cell ``first``, over all other cells of
    ``metric`` and those of ``more`` (metric -> its levels); of the pairs that ``first`` tells apart.

    Raises NotMeasured with fewer than three VPNs, and where no such pair was measured together in another cell.
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
    others = [(metric, dict(zip(factors, test, strict=True))) for test in sorted(tests - {tuple(first.values())})]
    for measured, levels in [*others, *more.items()]:
        values = {vpn: block_values(data.matching(vpn, levels), measured) for vpn in able}
        for a, b in combinations(able, 2):
            ahead = _ahead(model[a], model[b])
            for block in values[a].keys() & values[b].keys() if ahead is not None else ():
                held.setdefault(block, []).append((lead(values[a][block], values[b][block]) > 0) == ahead)
    if not held:
        raise NotMeasured("no two VPNs that the plain test tells apart were measured together in another test")
    return {block: sum(pairs) / len(pairs) for block, pairs in sorted(held.items())}


def _ahead(a: Blocks, b: Blocks) -> bool | None:
    """Is ``a`` above ``b``? None where the blocks that they share do not tell the two apart."""
    if not a.keys() & b.keys():
        return None
    ratio = compare_blocks(a, b)
    return (ratio.ratio or 0) > 1 if ratio.significant else None


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
    judgement = all_of(pairs)
    without = [vpn for vpn in vpns if level not in data.levels(factor, vpn)]
    reason = f"{judgement.reason}; without {', '.join(without)}, not measured with it" if without else judgement.reason
    return judgement.model_copy(update={"reason": reason})


def _words(between: tuple[float, float]) -> str:
    low, high = between
    if math.isinf(high):
        return f"above {low:.3g}"
    return f"below {high:.3g}" if low <= 0 else f"between {low:.3g} and {high:.3g}"
