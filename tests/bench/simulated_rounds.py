"""Simulated rounds, with the spread that slices on two shared cores have: for the tests of the statistics, and for
``make bench-decide``. Everything is of logarithms, so that 0.2 is 20 %."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.data.trials import Measurement, Run, Trial
from runner.evidence.estimates import RoundValues
from runner.evidence.intervals import Array
from tests.unit.synthetic import CBC, IDLE, METRICS, TCP, UDP, make_run, make_trial

TRAFFIC = {"tcp_throughput": TCP, "cpu_per_gigabyte": TCP, "udp_throughput": UDP, "jitter": UDP}
TRAFFIC["paced_cpu"] = {"measure": "paced", "paced_bps": "100000000"}
STOLEN = math.log(0.5)  # a slice of which another guest of the host took half


@dataclass(frozen=True)
class Machine:
    """What moves a slice. ``slice``: its own deviation; ``instance``: that of a tunnel brought up anew; ``drift``: that
    of the machine, which keeps ``memory`` of itself from one round to the next; ``unlike``: by how much VPNs feel the
    drift more or less than each other; ``stolen``: the share of slices that lose half; ``uneven``: the deviation of the
    logarithm of a VPN's ``slice``."""

    slice: float = 0.2
    instance: float = 0.01
    drift: float = 0.15
    memory: float = 0.8
    unlike: float = 0.3
    stolen: float = 0.05
    uneven: float = 0.0


def play(
    machine: Machine, truth: Sequence[float], instances: int, rounds: int, rng: np.random.Generator
) -> list[RoundValues]:
    """The values of VPNs whose logarithms are truly ``truth``: in each instance so many rounds, in each round a slice
    of each VPN in random order, one after the other on a machine that drifts from slice to slice."""
    vpns, total = len(truth), instances * rounds
    drift = _drift(machine, total * vpns, machine.memory ** (1 / vpns), rng).reshape(total, vpns)
    turns = np.argsort(rng.random((total, vpns)), axis=1)
    feels = 1 + machine.unlike * rng.uniform(-1, 1, vpns)
    logs = feels * np.take_along_axis(drift, turns, axis=1) + np.asarray(truth)
    logs += rng.normal(0, machine.slice * np.exp(machine.uneven * rng.normal(0, 1, vpns)), (total, vpns))
    logs += np.repeat(rng.normal(0, machine.instance, (instances, vpns)), rounds, axis=0)
    logs += STOLEN * (rng.random((total, vpns)) < machine.stolen)
    which = {number: 1 + number // rounds for number in range(total)}
    return [RoundValues(dict(enumerate(np.exp(logs[:, vpn]).tolist())), which) for vpn in range(vpns)]


def _drift(machine: Machine, steps: int, keeps: float, rng: np.random.Generator) -> Array:
    """An AR(1) process in its steady state."""
    pushes = rng.normal(0, machine.drift * math.sqrt(1 - keeps**2), steps)
    found = np.empty(steps)
    now = float(rng.normal(0, machine.drift))
    for step, push in enumerate(pushes):
        found[step] = now = keeps * now + push
    return found


def run_of(values: Mapping[str, Mapping[str, RoundValues]], measuring_s: float = 10.0) -> tuple[Run, list[Trial]]:
    """A run with these rounds: metric -> VPN -> its values. Each instance of each VPN is a trial of ``measuring_s``."""
    trials = []
    for metric, by_vpn in values.items():
        for vpn, rounds in by_vpn.items():
            for instance in sorted({rounds.instances[number] for number in rounds}):
                own = [number for number in rounds if rounds.instances[number] == instance]
                measured = Measurement(
                    metric=metric,
                    value=float(np.median([rounds[number] for number in own])),
                    unit=METRICS[metric].unit,
                    better=METRICS[metric].better,
                    samples=[rounds[number] for number in own],
                    rounds=own,
                )
                trial = make_trial(vpn, CBC | TRAFFIC.get(metric, IDLE), instance)
                trials.append(trial.model_copy(update={"measurements": [measured], "measuring_s": measuring_s}))
    return make_run(tuple({vpn: None for by_vpn in values.values() for vpn in by_vpn})), trials
