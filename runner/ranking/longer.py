"""How much longer a run takes until most of its undecided pairs are decided."""

from __future__ import annotations

import math
from collections.abc import Sequence

from runner.data.trials import Run
from runner.evidence.model import Configuration
from runner.ranking.model import Verdict

ESTIMATED = 0.9  # share of the undecided pairs: those that are decided soonest
# Of 30 simulated runs that continue for the estimated time, 60 % decide two thirds of their pairs; for 1.4 times: 77 %.
SAFETY = 1.6
LEAST_SHARE = 0.3  # of its time, in which a run measures


def seconds_more(run: Run, verdicts: Sequence[Verdict], bases: Sequence[Configuration]) -> float | None:
    """For how many seconds, whole minutes, to continue the run, so that two thirds or more of the undecided pairs of
    all rankings are decided in four of five runs. This is more than the measuring time, because no run measures all the
    time, and because ratios come out nearer to 1 than they looked. None on a farm, where more machines decide them
    sooner, where nothing is undecided, and where the time cannot be estimated."""
    measuring_s = None if run.machines else seconds_to_measure(run, verdicts, bases)
    if measuring_s is None:
        return None
    elapsed_s = sum(call.elapsed_s for call in run.invocations)
    share = sum(call.measuring_s for call in run.invocations) / elapsed_s if elapsed_s else 0.0
    return 60.0 * max(1, math.ceil(SAFETY * measuring_s / max(LEAST_SHARE, share or 1.0) / 60))


def seconds_to_measure(run: Run, verdicts: Sequence[Verdict], bases: Sequence[Configuration]) -> float | None:
    """The estimated measuring time in seconds after which most of the undecided pairs are decided. None where no pair
    is undecided, or where no estimate exists. Pairs share the measurements of a VPN's tunnel, metrics share those of
    one instrument, and all of them share the baseline. The slowest pairs are left out: a ratio near a margin may take
    hours."""
    tunnels = {
        (basis.configuration, basis.image, vpn): f"{basis.image} {sorted(levels.items())}"
        for basis in bases
        for vpn, levels in basis.levels.items()
    }
    undecided = [pair for pair in verdicts if pair.decision == "undecided" and pair.seconds is not None]
    undecided.sort(key=lambda pair: pair.seconds or 0.0)
    needed: dict[str, dict[tuple[str, str], float]] = {}
    for pair in undecided[: math.ceil(ESTIMATED * len(undecided))]:
        of_kind = needed.setdefault(run.metrics[pair.metric].measure, {})
        for vpn in (pair.a, pair.b):
            key = (vpn, tunnels.get((pair.configuration, pair.image, vpn), ""))
            of_kind[key] = max(of_kind.get(key, 0.0), (pair.seconds or 0.0) / 2)
    plain = sum(max(of_kind.values()) for of_kind in needed.values())
    return plain + sum(sum(of_kind.values()) for of_kind in needed.values()) if needed else None
