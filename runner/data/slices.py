"""What the slices of a trial come to: the values of its metrics, made from the slices alone, so that a run which was
killed in the middle has them, too."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

from runner.data.numbers import real
from runner.data.trials import Rung, Slice, Value

FOREIGN = "foreign_s"  # of a rung: CPU seconds of programs that are not the lab's
AT = "@"  # between a name and a rate: ``loss_ratio@100000000`` is what a rung of a ladder found at 100 Mbit/s


def middle_mean(values: Sequence[float]) -> float:
    """The mean of the middle half (trimmed by a quarter at each end): a slice during which the machine was busy with
    something else has no weight. Of fewer than four values the median."""
    if len(values) < 4:
        return statistics.median(values)
    cut = len(values) // 4
    return statistics.fmean(sorted(values)[cut : len(values) - cut])


def values_of(slices: Sequence[Slice], metrics: Collection[str]) -> list[Value]:
    """The value of each of ``metrics`` that slices name. A sample is the median of a round's slices. The slices of a
    trial that was measured by itself belong to no round, and each is a sample."""
    values = []
    for metric in metrics:
        alone = [row.values[metric] for row in slices if metric in row.values and not row.round]
        if alone:
            values.append(Value(metric=metric, value=middle_mean(alone), samples=alone))
            continue
        by_round: dict[int, list[float]] = {}
        for row in slices:
            if metric in row.values:
                by_round.setdefault(row.round, []).append(row.values[metric])
        if by_round:
            samples = [statistics.median(of_round) for of_round in by_round.values()]
            values.append(Value(metric=metric, value=middle_mean(samples), samples=samples, rounds=list(by_round)))
    return values


def with_values(given: Sequence[Value], slices: Sequence[Slice], metrics: Collection[str]) -> list[Value]:
    """The values of an instrument, those of metrics that its slices have replaced by the slices' ones; details stay."""
    own = {value.metric: value for value in values_of(slices, metrics)}
    named = {value.metric: value for value in given if not value.rounds}
    merged = [
        value.model_copy(update={"value": mine.value, "samples": mine.samples, "rounds": mine.rounds})
        if value.metric in named and (mine := own.get(value.metric))
        else value
        for value in given
    ]
    return merged + [value for name, value in own.items() if name not in {other.metric for other in given}]


def at_rate(name: str, rate_bps: float) -> str:
    """The name, in a slice, of a value of one rung of a ladder."""
    return f"{name}{AT}{rate_bps:.0f}"


def curve_of(slices: Sequence[Slice]) -> list[Rung]:
    """The rungs of a ladder, the lowest rate first; empty for slices that are of no ladder."""
    found: dict[float, dict[int, dict[str, float]]] = {}
    for number, row in enumerate(slices, 1):
        for key, value in row.values.items():
            name, _, rate = key.partition(AT)
            if (rate_bps := real(rate)) > 0:  # not of any other name
                found.setdefault(rate_bps, {}).setdefault(row.round or number, {})[name] = value
    return [
        Rung(
            rate_bps=rate_bps,
            rounds=list(by_round),
            values={
                name: [values.get(name) for values in by_round.values()]
                for name in dict.fromkeys(name for values in by_round.values() for name in values)
            },
        )
        for rate_bps, by_round in sorted(found.items())
    ]


def foreign_ratio(curve: Sequence[Rung], cores: int) -> float | None:
    """The share of the CPU time of a machine with so many ``cores`` that other programs had during the rungs; None
    where nobody has counted it. A single rung is shorter than some ticks of the clock, so that it may be below 0."""
    columns = [(rung.values.get(FOREIGN, []), rung.values.get("seconds", [])) for rung in curve]
    known = [pair for foreign, lasted in columns for pair in zip(foreign, lasted, strict=False)]
    both = [(spent_s, seconds) for spent_s, seconds in known if spent_s is not None and seconds]
    if not both:
        return None
    share = sum(spent_s for spent_s, _ in both) / sum(seconds for _, seconds in both) / cores
    return round(min(1.0, max(0.0, share)), 5)
