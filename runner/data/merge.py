"""Several run folders of one lab as one run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.data.errors import UsageError
from runner.data.levels import outside_of_tunnel
from runner.data.metric import Metric
from runner.data.trials import ExperimentRecord, Machine, Run, Trial


def merge_runs(runs: Sequence[tuple[Run, list[Trial]]]) -> tuple[Run, list[Trial]]:
    """Merge runs into one. Its blocks get new numbers, so that only values that shared a block are paired.

    Raises UsageError, saying what differs, unless lab, kernel, machine, image, profile and the VPNs' configurations are
    the same, and the metrics mean the same: numbers from different labs are never ranked together.
    """
    runs = [*zip(distinct([run for run, _ in runs]), (trials for _, trials in runs), strict=True)]
    same_estimands(runs)
    merged, trials = runs[0]
    if len(runs) > 1:
        trials = [_move_logs(merged, trial) for trial in trials]
    for run, more in runs[1:]:
        ours, theirs = identity(merged), identity(run)
        for name, value in ours.items():
            if theirs[name] != value:
                raise UsageError(
                    f"runs {merged.run_id} and {run.run_id} cannot be ranked together: "
                    f"{name} differs ({value} and {theirs[name]}). Report them one by one."
                )
        for vpn in sorted(merged.vpns.keys() & run.vpns.keys()):
            if "" not in (digests := {merged.vpns[vpn].digest, run.vpns[vpn].digest}) and len(digests) > 1:
                both = f"runs {merged.run_id} and {run.run_id}"
                raise UsageError(f"{both} have different plugins called {vpn}. Report them one by one.")
            if merged.vpns[vpn].configurations != run.vpns[vpn].configurations:
                raise UsageError(f"runs {merged.run_id} and {run.run_id}: the configurations of {vpn} differ")
        offset = max((trial.repetition for trial in trials), default=-1) + 1
        last_round = max(
            (number for trial in trials for measurement in trial.measurements for number in measurement.rounds),
            default=-1,
        )
        trials = trials + [
            _move_logs(run, _later(trial, offset, last_round + 1)).model_copy(update={"id": f"{run.run_id}/{trial.id}"})
            for trial in more
        ]
        merged = merged.model_copy(
            update={
                "run_id": f"{merged.run_id} + {run.run_id}",
                "repetitions": merged.repetitions + run.repetitions,
                "looks": max(merged.looks, run.looks),
                "experiments": _experiments([*merged.experiments, *run.experiments]),
                "metrics": merge_metrics([merged, run]),
                "vpns": merged.vpns | run.vpns,
                "machines": merge_machines(merged, run),
                "invocations": merged.invocations + run.invocations,
            }
        )
    return merged, trials


def distinct(runs: Sequence[Run], folders: Sequence[Path] = ()) -> list[Run]:
    """The runs with names of their own: where two have one name, as the folders ``host`` of two calls have, each is
    named by its folder, seen from where all of them are; or by a number."""
    if len({run.run_id for run in runs}) == len(runs):
        return list(runs)
    if folders:
        whole = [folder.resolve() for folder in folders]
        top = os.path.commonpath([folder.parent for folder in whole])
        names = [os.path.relpath(folder, top) for folder in whole]
    else:
        names = [f"{run.run_id} ({number})" for number, run in enumerate(runs, 1)]
    return [run.model_copy(update={"run_id": name}) for run, name in zip(runs, names, strict=True)]


def merge_machines(a: Run, b: Run) -> dict[str, Machine]:
    """The machines of two runs. Raises UsageError where only one was measured on a farm, or a name means two kinds."""
    both = f"runs {a.run_id} and {b.run_id}"
    if bool(a.machines) != bool(b.machines):
        raise UsageError(f"{both}: only one of them was measured on a farm. Report them one by one.")
    for name in sorted(a.machines.keys() & b.machines.keys()):
        if a.machines[name].kind != b.machines[name].kind:
            raise UsageError(f"{both}: the machine {name} is not of the same kind in both. Report them one by one.")
    return a.machines | b.machines


def merge_metrics(runs: Sequence[Run]) -> dict[str, Metric]:
    """The metrics of all these runs, each with the definition of the first run that has it.

    Raises UsageError where two runs define a metric with different units, directions or instruments.
    """
    first: dict[str, Run] = {}
    for run in runs:
        for name, metric in run.metrics.items():
            other = first.setdefault(name, run)
            ours, theirs = _meaning(other.metrics[name]), _meaning(metric)
            if ours != theirs:
                raise UsageError(
                    f"runs {other.run_id} and {run.run_id} mean different things by the metric {name}: {ours}; and "
                    f"{theirs}. Report them one by one."
                )
    return {name: run.metrics[name] for name, run in first.items()}


def same_estimands(runs: Sequence[tuple[Run, Sequence[Trial]]]) -> None:
    """Raise UsageError where a metric of the same traffic is the mean in one run and the median in another."""
    first: dict[tuple[str, frozenset[tuple[str, str]]], tuple[str, str]] = {}
    for run, trials in runs:
        for trial in trials:
            for measurement in trial.measurements:
                if not (estimand := measurement.detail.get("estimand")):  # a metric that is always the same one
                    continue
                traffic = frozenset(outside_of_tunnel(trial.params).items())
                other, theirs = first.setdefault((measurement.metric, traffic), (run.run_id, estimand))
                if estimand != theirs:
                    raise UsageError(
                        f"{measurement.metric} is the {theirs} in the run {other}, and the {estimand} in the run "
                        f"{run.run_id}: these are different quantities. Report each run by itself, or measure both "
                        "with one profile."
                    )


def _meaning(metric: Metric) -> str:
    return f"{metric.unit} by the instrument {metric.measure}, {metric.better} is better"


def _move_logs(run: Run, trial: Trial) -> Trial:
    """The trial with the path of its logs as seen from the parent of the run folders, where a page of several runs
    belongs."""
    return trial.model_copy(update={"log": f"{run.run_id}/{trial.log}"}) if trial.log else trial


def _later(trial: Trial, repetitions: int, rounds: int) -> Trial:
    """The trial with its repetition and its rounds numbered on from another run's."""
    measurements = [
        measurement.model_copy(update={"rounds": [number + rounds for number in measurement.rounds]})
        if measurement.rounds
        else measurement
        for measurement in trial.measurements
    ]
    return trial.model_copy(update={"repetition": trial.repetition + repetitions, "measurements": measurements})


def identity(run: Run) -> dict[str, Any]:
    """What must be equal for numbers to be comparable: lab, kernel, machine, image, profile."""
    lab = {name: run.lab.get(name) for name in ("kind", "kernel", "guest", "cpu", "cores", "uplink")}
    image = run.image.get("digest") or run.image.get("name")
    return {"lab " + name: value for name, value in lab.items()} | {"image": image, "profile": run.profile}


def _experiments(records: Sequence[ExperimentRecord]) -> list[ExperimentRecord]:
    """The experiments, with those of the same name merged into one that has the cells of all."""
    merged: dict[str, ExperimentRecord] = {}
    for record in records:
        if record.name not in merged:
            merged[record.name] = record
            continue
        cells = {cell.key: cell for cell in [*merged[record.name].cells, *record.cells]}
        metrics = list(dict.fromkeys([*merged[record.name].metrics, *record.metrics]))
        update = {"cells": list(cells.values()), "metrics": metrics}
        merged[record.name] = merged[record.name].model_copy(update=update)
    return list(merged.values())
