"""From experiments to trials: which are missing, in which order, and how long they will take."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from runner.data.levels import BASELINE, FAILURE_FACTORS, NO_CIPHER, TCP, TUNNEL_FACTORS
from runner.data.trials import Cell, Position, trial_id
from runner.design.experiment import Experiment
from runner.design.profile import Profile
from runner.instruments.traffic.iperf import OVERHEAD_S
from runner.vpn.plugin import Vpn

TUNNEL_S = 0.9  # bring-up, proof and tear-down of one tunnel, on average
SEARCH_TRIALS = {"cold": 8, "warm": 4}  # what the search needs on average without a budget
LOADED_S = 2.0  # the idle tunnel first, the load's start and end, and counting
DOWNLOAD_BPS = 400e6  # what a file's download is guessed by
REKEY_S = {"clock": 17.0, "protocol": 125.0}  # else on command
SECONDS = {"flows": 0.3, "clients": 1.2, "rekey": 7.5, "device": 1.5, "security": 12, "mesh": 45}  # as long everywhere
FAILURE_S = {"recovery": 12.0, "reroute": 25.0, "failover": 25.0}  # one failure, its lab and its stream, on average
SLOW_PACKETS_S = 1.5  # a slow stream and its counters, or a search for the path MTU
HALVED_FROM = 6  # tunnels in a block, from which on the baseline is measured in its middle, too


@dataclass(frozen=True)
class Planned:
    """One trial to be measured."""

    cell: Cell
    repetition: int
    position: Position = "within"

    @property
    def id(self) -> str:
        """The trial's name; see ``trial_id``."""
        return trial_id(self.cell.vpn, self.cell.params, self.repetition, self.position)


@dataclass(frozen=True)
class PlannedTunnel:
    """One tunnel of a block, and the trials inside it in their random order."""

    vpn: str
    params: Mapping[str, str]
    trials: tuple[Planned, ...]

    @property
    def name(self) -> str:
        """Names its log folder."""
        levels = "_".join(level for level in self.params.values() if level not in ("off", "none"))
        first = self.trials[0]
        suffix = "" if first.position == "within" else f"-{first.position}"
        return f"r{first.repetition}{suffix}-{self.vpn}" + (f"-{levels}" if levels else "")


def all_cells(
    experiments: Sequence[Experiment],
    vpns: Sequence[Vpn],
    profile: Profile,
    chosen: Mapping[str, Sequence[str]],
    images: Sequence[str] = (),
) -> list[Cell]:
    """Every cell asked for, once, however many experiments share it. ``images`` multiplies the gateways' software."""
    cells: dict[str, Cell] = {}
    for experiment in experiments:
        for vpn in vpns:
            for cell in experiment.cells(vpn, profile, chosen):
                for image in () if vpn.reference else images:
                    with_image = Cell(vpn=cell.vpn, params={**cell.params, "image": image})
                    cells.setdefault(with_image.key, with_image)
                if vpn.reference or not images:
                    cells.setdefault(cell.key, cell)
    return list(cells.values())


def blocks(
    cells: Sequence[Cell], repetitions: int, seed: int, done: set[str], hopeless: set[str]
) -> list[list[PlannedTunnel]]:
    """The blocks of the repetitions from 1 on, each a list of tunnels."""
    return [block(cells, repetition, seed, done, hopeless) for repetition in range(1, repetitions + 1)]


def block(cells: Sequence[Cell], repetition: int, seed: int, done: set[str], hopeless: set[str]) -> list[PlannedTunnel]:
    """One repetition of ``cells``: the baseline first and last, and between where the block is long; the VPNs'
    tunnels in random order.

    ``done`` trial ids and ``hopeless`` (unsupported) cell keys are left out, so that a second call with the
    same seed plans exactly what is missing, in the same order.
    """
    rng = random.Random(f"{seed}/{repetition}")
    tunnels = _tunnels([cell for cell in cells if cell.vpn != BASELINE], repetition, rng)
    rng.shuffle(tunnels)
    baseline = [cell for cell in cells if cell.vpn == BASELINE]
    stream = [cell for cell in baseline if cell.params.items() >= (TCP | NO_CIPHER).items()]  # enough to see drift
    idle = [cell for cell in baseline if cell.params["measure"] == "idle"]
    first = _tunnels(baseline, repetition, rng, "first")
    last = _tunnels(stream + idle, repetition, rng, "last")
    half = len(tunnels) // 2
    closed = any(trial.id in done for tunnel in last for trial in tunnel.trials)
    halved = len(tunnels) >= HALVED_FROM and not closed  # after its last baseline, a block has no middle any more
    between = _tunnels(stream, repetition, rng, "between") if halved else []
    missing = []
    for tunnel in [*first, *tunnels[:half], *between, *tunnels[half:], *last]:
        trials = tuple(t for t in tunnel.trials if t.id not in done and t.cell.key not in hopeless)
        if trials:
            missing.append(PlannedTunnel(tunnel.vpn, tunnel.params, trials))
    return missing


def _tunnels(
    cells: Sequence[Cell], repetition: int, rng: random.Random, position: Position = "within"
) -> list[PlannedTunnel]:
    """Cells that share VPN and tunnel factors share a tunnel; inside it they are shuffled."""
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        levels = tuple(cell.params.get(factor, "") for factor in (*TUNNEL_FACTORS, *FAILURE_FACTORS))
        groups.setdefault((cell.vpn, *levels), []).append(cell)
    tunnels = []
    for group in groups.values():
        rng.shuffle(group)
        shared = (factor for factor in (*TUNNEL_FACTORS, *FAILURE_FACTORS) if factor in group[0].params)
        params = {factor: group[0].params[factor] for factor in shared}
        trials = tuple(Planned(cell, repetition, position) for cell in group)
        tunnels.append(PlannedTunnel(group[0].vpn, params, trials))
    return tunnels


def expected_s(tunnel: PlannedTunnel, profile: Profile) -> float:
    """How long one tunnel will take, seconds."""
    return TUNNEL_S + sum(expected_trial_s(trial, profile) for trial in tunnel.trials)


def expected_trial_s(trial: Planned, profile: Profile) -> float:
    """How long one trial will take inside its tunnel, seconds."""
    measure = trial.cell.params["measure"]
    if measure == "idle":
        return profile.rtt_s + 0.1
    if measure == "tcp":
        return profile.duration_s + 0.05
    if measure == "loaded":
        return LOADED_S + profile.loaded_s + (profile.duration_s + 0.1 if trial.cell.params["load"] == "half" else 0)
    if measure == "download":
        return 0.3 + int(trial.cell.params["file_bytes"]) * 8 / DOWNLOAD_BPS
    if measure in ("overhead", "mtu"):
        return SLOW_PACKETS_S
    if measure in FAILURE_S:
        if "download_bytes" in (params := trial.cell.params):
            limit = DOWNLOAD_BPS / 8 if params["download_limit"] == "off" else int(params["download_limit"])
            times = 1 if params["gateway_failure"] == "none" else profile.failures
            return (5 + int(params["download_bytes"]) / limit) * times
        return FAILURE_S[measure] * profile.failures
    if measure == "rekey":
        return REKEY_S.get(trial.cell.params["rekey"], SECONDS["rekey"])
    if measure in SECONDS:
        return SECONDS[measure] + (profile.duration_s if measure in ("flows", "clients") else 0)
    searches = {"packets": profile.packets, "duplex": profile.duplex}
    search = searches.get(measure, profile.udp)
    if search.engine == "bayes":
        first = trial.repetition == 1
        count = SEARCH_TRIALS["cold" if first else "warm"]
        found = count * (search.trial_duration_s + OVERHEAD_S)
        confirming = search.confirm[0] * search.confirm[1] if search.confirm else 0.0
        budget = search.budget_s if first or profile.warm_budget_s is None else profile.warm_budget_s
        return min(found, budget or found) + confirming + 1.5
    each = search.confirm or (10, 10.0)
    return 10 * each[0] * each[1]  # about ten bisections of the thesis' ten runs
