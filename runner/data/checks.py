"""What a schema cannot say of a run: a folder made by hand, or by a newer vpneval, is refused with the place."""

from __future__ import annotations

import math
from collections.abc import Sequence

from runner.data.errors import UsageError
from runner.data.trials import Run, Trial

NUMBERS = ("file_bytes", "wan_rate_bps")  # the levels that a report reads as numbers


def check(run: Run, trials: Sequence[Trial]) -> None:
    """Raise UsageError for a metric that run.json does not define, a unit that is not the metric's, a number that is
    not finite, and a level that should be a number and is not."""
    for name, known in run.metrics.items():
        if name != known.name:
            raise UsageError(f"run.json: what it defines as the metric {name!r} calls itself {known.name!r}")
    for experiment in run.experiments:
        for metric in experiment.metrics:
            _known(run, f"run.json: experiment {experiment.name}", metric)
        for cell in experiment.cells:
            _levels(f"run.json: experiment {experiment.name}: {cell.vpn}", cell.params)
    for trial in trials:
        where = f"trials.jsonl: trial {trial.id}"
        _levels(where, trial.params)
        for measurement in trial.measurements:
            _known(run, where, measurement.metric)
            known = run.metrics[measurement.metric]
            if (measurement.unit, measurement.better) != (known.unit, known.better):
                units = f"{measurement.unit}, {measurement.better} is better; it is {known.unit}, {known.better}"
                raise UsageError(f"{where}: {measurement.metric} is in {units}")
            if not (math.isfinite(measurement.value) and all(map(math.isfinite, measurement.samples))):
                raise UsageError(f"{where}: a value of {measurement.metric} is not a finite number")


def _known(run: Run, where: str, metric: str) -> None:
    if metric not in run.metrics:
        defined = ", ".join(run.metrics) or "none"
        raise UsageError(f"{where}: unknown metric {metric!r}; run.json defines {defined}")


def _levels(where: str, params: dict[str, str]) -> None:
    for factor in NUMBERS:
        if factor in params and not _is_number(params[factor]):
            raise UsageError(f"{where}: the level {params[factor]!r} of {factor} is not a number")


def _is_number(level: str) -> bool:
    try:
        return math.isfinite(float(level))
    except ValueError:
        return False
