"""What the slices of a trial come to: the values of its metrics, made from the slices alone, so that a run which was
killed in the middle has them, too."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence

from runner.data.trials import Slice, Value


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
