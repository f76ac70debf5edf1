"""What a finding can claim, each as a function that judges it: a ratio, a share or a time that lies between bounds, an
order, a spread; alone, of several parts, or with what another data plane measured beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import scipy  # loads scipy.stats at its first use

from runner.data.numbers import SAME, lead
from runner.evidence.estimates import Pooled, RoundValues
from runner.evidence.longer import times_until_decided
from runner.evidence.stats import compare_blocks, summarise
from runner.papers.findings import BOUNDS, Blocks, Data, Ends, Judgement, NotMeasured, Open, Verdict, open_ends

KERNEL_ESP, USERSPACE_ESP = "ipsec", "ipsec_user"
USERSPACE = f"userspace ESP ({USERSPACE_ESP})"
ERROR = 0.05  # of a conclusion, however many parts and runs it is made from
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
    longer = chance = None
    if value is None:
        reason = "there is no ratio, because a value is zero"
    elif low is None or high is None:
        reason = "one repetition has no interval"
    else:
        least, most = min(low, 0.0) if may[0] else low, math.inf if may[1] else high
        if lead(least, lower) >= 0 and lead(upper, most) >= 0:
            verdict, reason = "reproduced", f"the interval lies {_words(between)}"
            chance = chance_of(value, low, high, between, blocks)
        elif lead(most, lower) < 0 or lead(upper, least) < 0:
            verdict, reason = "not reproduced", f"the interval does not lie {_words(between)}"
            chance = chance_of(value, low, high, between, blocks)
        elif known := KNOWN.get(may):
            reason = f"{known}, which does not decide whether it lies {_words(between)}"
        else:
            reason = f"the interval reaches across the bound ({_words(between)})"
            longer = times_longer(value, low, high, between, blocks)
    judgement = Judgement(verdict=verdict, reason=reason, value=value, low=low, high=high, longer=longer, chance=chance)
    return judgement.model_copy(update={"bound": BOUNDS[may], "between": between})


def chance_of(value: float, low: float, high: float, between: Ends, blocks: int) -> float:
    """How likely an interval lies so far on its side of the claim's bound where the truth lies on the bound: the
    two-sided p value, by Student's t with the ``blocks`` (0: normal), on logarithms where all is positive. Of a value
    between two bounds it is the larger one's; of one outside, that of the nearer bound."""
    freedom = blocks - 1 if blocks > 1 else math.inf
    quantile = float(scipy.stats.t.ppf(0.975, freedom))
    inside = between[0] <= value <= between[1]
    chances = []
    for bound in between:
        if math.isinf(bound) or (bound <= 0 < low):
            continue  # no value lies beyond it
        reach = _distance(value, low if bound < value else high)
        away = _distance(value, bound)
        chances.append(2 * float(scipy.stats.t.sf(quantile * away / reach, freedom)) if reach > 0 else 0.0)
    return (max if inside else min)(chances, default=0.0)


def sure(chance: float | None, among: int = 1) -> bool:
    """Does a verdict with this ``chance`` of being wrong stand as one of so many that share one error (Bonferroni)?"""
    return chance is None or chance * among <= ERROR


def times_longer(value: float, low: float, high: float, between: tuple[float, float], blocks: int) -> float | None:
    """How many times as much measuring would decide, if the value stayed and its error fell with the root of the time.

    Student's quantile falls with the ``blocks``, too (0: many). None where the value lies on the bound itself.
    """
    lower, upper = between
    reach = [  # towards each bound in the interval: how far the interval reaches, and how far the bound is away
        (_distance(value, end), _distance(value, bound))
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
    quantile = float(scipy.stats.t.ppf(0.975, blocks - 1))

    def reach_at(times: float) -> float:
        return (over * (float(scipy.stats.t.ppf(0.975, blocks * times - 1)) / quantile)) ** 2

    return times_until_decided(reach_at, rounds=40)


def _distance(a: float, b: float) -> float:
    """The distance of two values: in logarithms, as their intervals were made, where both are positive."""
    return abs(math.log(a / b)) if a > 0 and b > 0 else abs(a - b)


def compare(a: Blocks, b: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that ``a`` over ``b``, within the blocks, lies ``between`` two bounds.

    Raises NotMeasured where no block has both: from one group of rounds to another the machine drifts by more than
    either group shows (decision 0123)."""
    in_turns = [isinstance(values, RoundValues) for values in (a, b) if not isinstance(values, Pooled)]
    if not a.keys() & b.keys() or len({*in_turns}) > 1:
        raise NotMeasured(
            "the two were measured in different rounds or repetitions, and share none; a run without --deadline pairs "
            "them",
            "measured in different rounds",
        )
    ratio = compare_blocks(a, b)
    judged = decide(ratio.ratio, ratio.low, ratio.high, between, ratio.blocks, _may(a, b))
    return judged.model_copy(update={"published": published})


def _may(a: Blocks, b: Blocks) -> Open:
    """May ``a`` over ``b`` be lower, and may it be higher? A search that was continued is compared with everything."""
    if isinstance(a, Pooled) or isinstance(b, Pooled):
        return open_ends(a.values(), b.values())
    shared = a.keys() & b.keys()
    return open_ends([a[block] for block in shared], [b[block] for block in shared])


def single(values: Blocks, between: tuple[float, float], published: float | None = None) -> Judgement:
    """The claim that a share, one for each block, lies ``between`` two bounds."""
    summary = summarise(list(values.values()))
    may = open_ends(values.values())
    judgement = decide(summary.median, summary.low, summary.high, between, summary.n, may)
    return judgement.model_copy(update={"published": published})


def time_within(values_s: Blocks, between_s: Ends, published_s: Ends | None = None) -> Judgement:
    """The claim that a time (s), one for each block, lies ``between_s`` two bounds; ``published_s``: the paper's."""
    return single(values_s, between_s).model_copy(update={"unit": "s", "published_range": published_s})


MORE: tuple[float, float] = (1.0, math.inf)
LESS: tuple[float, float] = (0.0, 1.0)


def close(share: float) -> tuple[float, float]:
    """As good as equal: within ``share`` of 1, symmetrical for ratios."""
    return 1 / (1 + share), 1 + share


def all_of(parts: Mapping[str, Callable[[], Judgement]]) -> Judgement:
    """A claim with several parts: reproduced if all are, not reproduced if one is not. The number is that of the
    part that decides: of those that are not reproduced the surest, else one without a verdict, else the first.

    The parts share one error: of twenty parts of a true claim, one is not reproduced by chance. So the surest one has
    to be as sure as their number asks for. Parts that were not measured are named and left out. Raises NotMeasured,
    with the first reason, where none was.
    """
    judged: dict[str, Judgement] = {}
    absent: dict[str, NotMeasured] = {}
    for name, part in parts.items():
        try:
            judged[name] = part()
        except NotMeasured as missing:
            absent[name] = missing
    if not judged:
        raise NotMeasured(*_first_of(absent.values()))
    failed = {name: one for name, one in judged.items() if one.verdict == "not reproduced"}
    if failed:
        decisive = min(failed, key=lambda name: failed[name].chance or 0.0)
        result = _judge_among(failed[decisive], len(judged))
    else:
        order: tuple[Verdict, ...] = ("undecided", "incomparable", "unmeasured", "reproduced")
        # Of those that are undecided first one that no longer run decides in the same way.
        decisive, result = min(judged.items(), key=lambda item: (order.index(item[1].verdict), not item[1].bound))
    told = {name: f"{name}: {one.verdict} {one.number}".rstrip() for name, one in judged.items()}
    summary = "; ".join([*told.values(), *([f"not measured: {', '.join(absent)}"] if absent else [])])
    update: dict[str, object] = {"parts": judged, "part": decisive, "summary": summary if len(parts) > 1 else ""}
    update["reason"] = f"{decisive}: {result.reason}"
    if result.verdict == "reproduced":
        chances = [one.chance for one in judged.values() if one.chance is not None]
        update["chance"] = max(chances, default=None)
        update["reason"] = result.reason if len(parts) == 1 else f"each of {len(judged)} parts lies within the claim"
    if result.verdict == "undecided" and result.kind != "shared":
        update["longer"] = _longest([one for one in judged.values() if one.verdict == "undecided"])
    systems = [system for one in judged.values() for system in one.systems]
    return result.with_systems(*systems).model_copy(update=update)


def _first_of(missing: Iterable[NotMeasured]) -> tuple[str, str]:
    """What several parts lack, each reason once, and the same in fewer words."""
    reasons = list(missing)
    long, short = (
        list(dict.fromkeys(words for words in each if words))
        for each in ([str(one) for one in reasons], [one.short or str(one) for one in reasons])
    )
    return ("; ".join(long) or "nothing to compare", "; ".join(short))


def _longest(undecided: Sequence[Judgement]) -> float | None:
    """How many times as much measuring decides each of these; None where that is not known of one."""
    longer = [one.longer for one in undecided if one.low is not None]
    known = [times for times in longer if times is not None]
    return max(known, default=None) if known == longer else None


def _judge_among(judgement: Judgement, among: int) -> Judgement:
    """A part that is not reproduced, as one of ``among`` parts that share one error."""
    if sure(judgement.chance, among) or judgement.chance is None:
        chance = None if judgement.chance is None else min(1.0, judgement.chance * among)
        return judgement.model_copy(update={"chance": chance})
    needed, seen = (float(scipy.stats.norm.isf(p / 2)) for p in (ERROR / among, judgement.chance))
    reason = f"{judgement.reason}, which one of {among} parts does by chance"
    return judgement.model_copy(
        update={
            "verdict": "undecided",
            "kind": "shared",
            "reason": reason,
            "longer": (needed / seen) ** 2,
            "chance": None,
        }
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

    def judge_ratio(data: Data) -> Judgement:
        first, second = data.blocks(metric, a.vpn, **a.levels), data.blocks(metric, b.vpn, **b.levels)
        return data.check_scale(compare(first, second, between, published), a.vpn, b.vpn)

    return judge_ratio


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

    def judge_planes(data: Data) -> Judgement:
        return judge_beside(
            partial(of_plane, KERNEL_ESP, data), {USERSPACE: partial(of_plane, USERSPACE_ESP, data)}, other
        )

    return judge_planes


def judge_beside(decisive: Part, others: Mapping[str, Part], note: str = "") -> Judgement:
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
        without = "the paper's system decides, and was not measured"
        return Judgement(verdict="unmeasured", reason=f"{without}: {missing}", short=without, beside="; ".join(shown))


def measured_of(data: Data, metric: str, vpns: Sequence[str]) -> list[str]:
    """Those of ``vpns`` that have ``metric``, in their order."""
    return [vpn for vpn in vpns if vpn in data.vpns(metric)]


def opposite(judgement: Judgement) -> Judgement:
    """The judgement of the opposite claim."""
    other: dict[Verdict, Verdict] = {"reproduced": "not reproduced", "not reproduced": "reproduced"}
    verdict = other.get(judgement.verdict, judgement.verdict)
    return judgement.model_copy(update={"verdict": verdict, "opposed": not judgement.opposed})


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
