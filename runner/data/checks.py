"""What a schema cannot say of a run: a folder made by hand, or by a newer vpneval, is refused with the place."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from runner.data.errors import UsageError
from runner.data.trials import Run, Trial
from runner.data.wan import PRESETS

# A factor whose name has a unit has numbers as levels, and so have counts; those of the second group are whole.
NUMBERS = re.compile(
    r"(?:\w+_(?:bps|ms|s|ratio|cpu))|(\w+_(?:bytes|packets)|streams|clients|sites|flows|labs|cpus|dscp)"
)


def check(run: Run, trials: Sequence[Trial]) -> None:
    """Raise UsageError for a metric that run.json does not define, a unit that is not the metric's, a number that is
    not finite, and a level that should be a number and is not."""
    for name, known in run.metrics.items():
        if name != known.name:
            raise UsageError(f"run.json: what it defines as the metric {name!r} calls itself {known.name!r}")
    for experiment in run.experiments:
        for metric in experiment.metrics:
            _check_metric(run, f"run.json: experiment {experiment.name}", metric)
        for cell in experiment.cells:
            _levels(f"run.json: experiment {experiment.name}: {cell.vpn}", cell.params)
    for trial in trials:
        where = f"trials.jsonl: trial {trial.id}"
        _levels(where, trial.params)
        for measurement in trial.measurements:
            _check_metric(run, where, measurement.metric)
            known = run.metrics[measurement.metric]
            if (measurement.unit, measurement.better) != (known.unit, known.better):
                units = f"{measurement.unit}, {measurement.better} is better; it is {known.unit}, {known.better}"
                raise UsageError(f"{where}: {measurement.metric} is in {units}")
            if not (math.isfinite(measurement.value) and all(map(math.isfinite, measurement.samples))):
                raise UsageError(f"{where}: a value of {measurement.metric} is not a finite number")


def _check_metric(run: Run, where: str, metric: str) -> None:
    if metric not in run.metrics:
        defined = ", ".join(run.metrics) or "none"
        raise UsageError(f"{where}: unknown metric {metric!r}; run.json defines {defined}")


def _levels(where: str, params: dict[str, str]) -> None:
    for factor, level in params.items():
        if (a_number := NUMBERS.fullmatch(factor)) and not _is_number(level, whole=bool(a_number[1])):
            raise UsageError(f"{where}: the level {level!r} of {factor} is not a {'whole ' * bool(a_number[1])}number")
    if (wan := params.get("wan", "lan")) not in PRESETS:
        raise UsageError(f"{where}: the level {wan!r} of wan is none of {', '.join(PRESETS)}")


def _is_number(level: str, *, whole: bool) -> bool:
    try:
        return math.isfinite(int(level) if whole else float(level))
    except (ValueError, OverflowError):
        return False
