"""What a call of ``vpneval run`` or ``plan`` asks for, checked before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.catalogue import add_instrument, expand, load_experiment, load_vpn, metrics, parse_levels, vpn_names
from runner.data import numbers
from runner.data.errors import UsageError, require_known
from runner.data.files import is_there
from runner.data.levels import BASELINE
from runner.data.store import load_run
from runner.data.trials import Cell, ExperimentRecord
from runner.design.experiment import Experiment
from runner.design.profile import PROFILES, Profile
from runner.lab.names import DEFAULT_IMAGE, image_names
from runner.lab.places import check_spec
from runner.ranking.basis import measured_metrics
from runner.ranking.weights import Weights, parse_weights
from runner.sweep.plan import TUNNEL_S, Planned, all_cells, blocks, expected_trial_s
from runner.sweep.until import INITIAL_REPETITIONS
from runner.vpn.plugin import Vpn

LONGEST_S = 86400  # iperf3's own limit for a test
MOST_REPS = 1000


@dataclass
class Asked:
    """The run that a command line describes, every name of it known to exist."""

    experiments: list[Experiment]
    vpns: list[Vpn]
    profile: Profile
    chosen: dict[str, list[str]]
    repetitions: int
    seed: int = 1
    image: str = DEFAULT_IMAGE
    gateway_images: list[str] = field(default_factory=list)
    out: Path | None = None
    deadline_s: float | None = None
    retry_failed: bool = False
    until_significant: bool = False
    weights: Weights | None = None  # of the ranking that until_significant goes by
    lab: str = "netns"

    @property
    def cells(self) -> list[Cell]:
        """Every cell of these experiments, VPNs and levels, once."""
        return all_cells(self.experiments, self.vpns, self.profile, self.chosen, self.gateway_images)

    @property
    def records(self) -> list[ExperimentRecord]:
        """The experiments as run.json holds them."""
        found = []
        for experiment in self.experiments:
            record = experiment.record(self.vpns, self.profile, self.chosen)
            cells = all_cells([experiment], self.vpns, self.profile, self.chosen, self.gateway_images)
            found.append(record.model_copy(update={"cells": cells}))
        return found

    def expected(self) -> tuple[int, float]:
        """Trials, and seconds they will take if every VPN is supported."""
        sums = blocks(self.cells, self.repetitions, self.seed, set(), set(), self.profile).sums
        return sums.trials, sums.expected_s

    @property
    def shortest_s(self) -> float:
        """How long its shortest trial takes, in a tunnel of its own."""
        return TUNNEL_S + min(expected_trial_s(Planned(cell, 1), self.profile) for cell in self.cells)


def ask(
    experiments: Sequence[str],
    *,
    vpns: str = "",
    levels: str = "",
    profile: str = "quick",
    repetitions: int | None = None,
    duration_s: int | None = None,
    seed: int = 1,
    image: str = DEFAULT_IMAGE,
    gateway_images: str = "",
    out: Path | None = None,
    deadline: str = "",
    retry_failed: bool = False,
    until_significant: bool = False,
    weights: str = "",
    lab: str = "netns",
    instruments: Sequence[str] = (),
) -> Asked:
    """Check everything that a user can get wrong. Raises UsageError; starts nothing."""
    for path in instruments:
        add_instrument(path)
    require_known("profile", profile, list(PROFILES))
    chosen_profile = PROFILES[profile]
    if duration_s is not None:
        if not 1 <= duration_s <= LONGEST_S:
            raise UsageError(f"--duration must be a whole number of seconds from 1 to {LONGEST_S}, not {duration_s}")
        note = f"{chosen_profile.note}; changed: whole tests of {duration_s} s, one after another"
        chosen_profile = replace(chosen_profile, duration_s=duration_s, rounds=0, note=note)
    if repetitions is not None and not 1 <= repetitions <= MOST_REPS:
        raise UsageError(f"--reps must be from 1 to {MOST_REPS}, not {repetitions}")
    check_spec(lab)
    require_known("image", image, image_names())
    gateways = [name.strip() for name in gateway_images.split(",") if name.strip()]
    for name in gateways:
        require_known("image", name, image_names())
    wanted = [name.strip() for name in vpns.split(",") if name.strip()] or vpn_names()
    plugins = [load_vpn(name) for name in dict.fromkeys([BASELINE, *wanted])]  # none: to be compared with
    twice = sorted({vpn.name for vpn in plugins if [other.name for other in plugins].count(vpn.name) > 1})
    if twice:
        raise UsageError(f"--vpn names two plugins called {', '.join(twice)}. Rename your file")
    asked = Asked(
        [load_experiment(name) for name in expand(experiments)],
        plugins,
        chosen_profile,
        parse_levels(levels),
        repetitions or chosen_profile.repetitions,
        seed,
        image,
        gateways,
        out,
        None,
        retry_failed,
        until_significant,
        lab=lab,
    )
    if until_significant:
        asked.repetitions = max(asked.repetitions, INITIAL_REPETITIONS)
    if not asked.cells:
        options = [f"--profile {profile}", *[f"--vpn {vpns}"] * bool(vpns), *[f"--set {levels}"] * bool(levels)]
        raise UsageError(f"{' '.join(options)} leaves nothing to measure in {', '.join(experiments)}")
    asked.deadline_s = _deadline_s(deadline, asked)
    asked.weights = _weights(weights, asked)
    return asked


def _deadline_s(text: str, asked: Asked) -> float | None:
    """The time that ``text`` is. Raises UsageError for none, and for one in which nothing can be measured."""
    if not text:
        return None
    deadline_s, shortest_s = seconds(text), asked.shortest_s
    if deadline_s < shortest_s:
        raise UsageError(
            f"--deadline {text} is too short: the shortest trial of this run takes about {shortest_s:.1f} s"
        )
    return deadline_s


def _weights(text: str, asked: Asked) -> Weights | None:
    """The weights that a run goes by. Raises UsageError where they count what it will not have measured."""
    if not text:
        return None
    kinds = {cell.params["measure"] for cell in asked.cells}
    known = metrics()
    there = {metric.name for metric in known.values() if metric.measure in kinds}
    if asked.out and is_there(asked.out / "run.json"):  # by earlier calls
        run, trials = load_run(asked.out)
        known, there = known | run.metrics, there | set(measured_metrics(trials))
    weights = parse_weights(text, known)
    if absent := sorted(weights.counted.keys() - there):
        told = f"will not measure {', '.join(absent)} (it measures: {', '.join(sorted(there))})"
        raise UsageError(f"weights {text!r}: this run {told}")
    return weights if asked.until_significant else None


def seconds(text: str) -> float:
    """``360``, ``90s``, ``6m`` or ``2h`` in seconds. Raises UsageError for anything else."""
    units = {"s": 1, "m": 60, "h": 3600}
    count, unit = (text[:-1], units[text[-1]]) if text[-1:] in units else (text, 1)
    try:
        return numbers.number(count, 1e-3, 1e7 / unit) * unit
    except ValueError:
        raise UsageError(f"--deadline must be a time like 360, 90s, 6m or 2h, not {text!r:.60}") from None
