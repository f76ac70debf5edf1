"""From experiments to trials: which are missing, in which order, and how long they will take."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial

from runner.catalogue import describe_fault, instruments
from runner.data.errors import UsageError
from runner.data.foreign import caught
from runner.data.levels import BASELINE, TUNNEL_FACTORS, UPLINK, VARIANTS, ranked_by
from runner.data.trials import Cell, Position, trial_id
from runner.design.experiment import Experiment
from runner.design.profile import Profile
from runner.instruments.instrument import Instrument
from runner.vpn.plugin import Vpn

TUNNEL_S = 0.9  # bring-up, proof and tear-down of one tunnel, on average
RECOMMENDED_EVERY = 3
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

    @property
    def instrument(self) -> Instrument:
        """The instrument that measures the trial."""
        return instruments()[self.cell.params["measure"]]


@dataclass(frozen=True)
class PlannedTunnel:
    """One tunnel of a block, and the trials inside it in their random order."""

    vpn: str
    params: Mapping[str, str]
    trials: tuple[Planned, ...]

    @property
    def name(self) -> str:
        """The name of the tunnel's log folder."""
        levels = "_".join(level for level in self.params.values() if level not in ("off", "none"))
        first = self.trials[0]
        suffix = "" if first.position == "within" else f"-{first.position}"
        return f"r{first.repetition}{suffix}-{self.vpn}" + (f"-{levels}" if levels else "")


def any_turns(cells: Sequence[Cell], profile: Profile) -> bool:
    """Is any of these cells measured in rounds?"""
    return any(instruments()[cell.params["measure"]].takes_turns(cell.params, profile) for cell in cells)


def all_turn(cells: Sequence[Cell], profile: Profile) -> bool:
    """Are all of these cells measured in rounds?"""
    return all(instruments()[cell.params["measure"]].takes_turns(cell.params, profile) for cell in cells)


def all_cells(
    experiments: Sequence[Experiment],
    vpns: Sequence[Vpn],
    profile: Profile,
    chosen: Mapping[str, Sequence[str]],
    images: Sequence[str] = (),
) -> list[Cell]:
    """Every cell that was asked for, once, even if several experiments share it. ``images``: gateway images; each VPN's
    cell is repeated for each of them."""
    cells: dict[str, Cell] = {}
    for experiment in experiments:
        for vpn in vpns:
            for cell in _on_uplinks(experiment.cells(vpn, profile, chosen), chosen.get(UPLINK, ())):
                for image in () if vpn.reference else images:
                    with_image = Cell(vpn=cell.vpn, params={**cell.params, "image": image})
                    cells.setdefault(with_image.key, with_image)
                if vpn.reference or not images:
                    cells.setdefault(cell.key, cell)
    return list(cells.values())


def _on_uplinks(cells: Sequence[Cell], uplinks: Sequence[str]) -> list[Cell]:
    """The cells on each of these uplinks; the cells themselves where there is none."""
    on = [Cell(vpn=cell.vpn, params={**cell.params, UPLINK: name}) for name in uplinks for cell in cells]
    return on if uplinks else list(cells)


@dataclass(frozen=True)
class Block:
    """The tunnels of one repetition. Those of ``standing`` stand together and take turns, the baseline's among them;
    those of ``single`` come one after another, the baseline first and last."""

    standing: list[PlannedTunnel]
    single: list[PlannedTunnel]

    @property
    def tunnels(self) -> list[PlannedTunnel]:
        """All tunnels of the block."""
        return [*self.standing, *self.single]


def ranked_cells(cells: Sequence[Cell], vpns: Mapping[str, Vpn]) -> dict[str, int]:
    """Key -> every how many rounds the cell has a turn, of the cells that a ranking is made of: in every round at the
    comparable configuration, in every third one where only the ranking of the recommended configuration needs the cell
    beside that; so has plain IP where builds are compared with each other. A ranked cell has the traffic that its
    instrument's metrics are ranked by. All cells where none is ranked."""
    turns, first = dict[str, int](), False
    for cell in cells:
        vpn, traffic = vpns.get(cell.vpn), ranked_by(cell.params["measure"])
        if vpn is None or any(cell.params.get(factor, level) != level for factor, level in traffic.items()):
            continue
        if vpn.reference or vpn.comparable.items() <= cell.params.items():
            turns[cell.key] = 1
            first = first or not (vpn.reference or vpn.recommended.items() <= cell.params.items())
        elif vpn.recommended.items() <= cell.params.items():
            turns[cell.key] = RECOMMENDED_EVERY
    order = {key: every if first else 1 for key, every in turns.items()} or {cell.key: 1 for cell in cells}
    if any(vpn.build for vpn in vpns.values()):
        order |= {cell.key: RECOMMENDED_EVERY for cell in cells if cell.vpn == BASELINE and cell.key in order}
    return order


@dataclass(frozen=True)
class Sums:
    """Totals of a number of ``blocks``: their trials and seconds, the seconds of the single tunnels, and the number of
    blocks in which tunnels stand together."""

    blocks: int = 0
    trials: int = 0
    expected_s: float = 0.0
    single_s: float = 0.0
    standing: int = 0

    def plus(self, other: Sums, times: int = 1) -> Sums:
        """These sums plus ``times`` times the ``other`` ones."""
        mine, theirs = astuple(self), astuple(other)
        return Sums(*(own + times * more for own, more in zip(mine, theirs, strict=True)))


@dataclass(frozen=True)
class Plan:
    """The blocks of the repetitions from ``first`` to ``last``. A block is planned when it is asked for. Blocks of
    which nothing has been measured are alike, so that the sums count one of them for all."""

    cells: Sequence[Cell]
    last: int
    seed: int
    done: set[str]
    hopeless: set[str]
    profile: Profile
    begun: int  # the last repetition of which something is done
    first: int = 1
    _known: dict[int, Sums] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Block]:
        return (self.block(repetition) for repetition in range(self.first, self.last + 1))

    def block(self, repetition: int) -> Block:
        """The block of this repetition."""
        return block(self.cells, repetition, self.seed, self.done, self.hopeless, self.profile)

    def after(self, repetition: int) -> Plan:
        """The plan of the repetitions after this one."""
        return replace(self, first=repetition + 1)

    @property
    def sums(self) -> Sums:
        """The totals of all blocks of the plan."""
        fresh = max(self.first, self.begun + 1, 2)  # the first repetition takes longer: nothing is known yet
        total = Sums()
        for repetition in range(self.first, min(fresh - 1, self.last) + 1):
            total = total.plus(self._sums(repetition))
        return total.plus(self._sums(fresh), self.last - fresh + 1) if fresh <= self.last else total

    def _sums(self, repetition: int) -> Sums:
        if repetition not in self._known:
            planned = self.block(repetition)
            trials = sum(len(tunnel.trials) for tunnel in planned.tunnels)
            single_s = sum(expected_s(tunnel, self.profile) for tunnel in planned.single)
            standing_s = sum(expected_s(tunnel, self.profile) for tunnel in planned.standing)
            self._known[repetition] = Sums(1, trials, single_s + standing_s, single_s, int(bool(planned.standing)))
        return self._known[repetition]


_REPETITION = re.compile(r"-r(\d+)(?:-\w+)?$")  # in a trial's id


def blocks(
    cells: Sequence[Cell], repetitions: int, seed: int, done: set[str], hopeless: set[str], profile: Profile
) -> Plan:
    """The plan of the repetitions from 1 to ``repetitions``."""
    begun = max((int(number) for name in done for number in _REPETITION.findall(name)), default=0)
    return Plan(cells, repetitions, seed, done, hopeless, profile, begun)


def block(
    cells: Sequence[Cell], repetition: int, seed: int, done: set[str], hopeless: set[str], profile: Profile
) -> Block:
    """One repetition of ``cells``: those that take turns, and the others.

    Trials in ``done`` and cells in ``hopeless`` (unsupported) are left out. So a second call with the same seed plans
    exactly what is missing, in the same order.
    """
    rng = random.Random(f"{seed}/{repetition}")
    turning = [cell for cell in cells if instruments()[cell.params["measure"]].takes_turns(cell.params, profile)]
    keys = {cell.key for cell in turning}
    standing = _tunnels(turning, repetition, rng)
    rng.shuffle(standing)
    single = _one_by_one([cell for cell in cells if cell.key not in keys], repetition, rng, done)
    return Block(_missing(standing, done, hopeless), _missing(single, done, hopeless))


def _one_by_one(cells: Sequence[Cell], repetition: int, rng: random.Random, done: set[str]) -> list[PlannedTunnel]:
    """The tunnels that come one after another: the baseline first and last, and in the middle of a long block; the
    VPNs' tunnels in random order."""
    tunnels = _tunnels([cell for cell in cells if cell.vpn != BASELINE], repetition, rng)
    rng.shuffle(tunnels)
    baseline = [cell for cell in cells if cell.vpn == BASELINE]
    first = _tunnels(baseline, repetition, rng, "first")
    last = _tunnels(_again(baseline, "last"), repetition, rng, "last")
    half = len(tunnels) // 2
    closed = any(trial.id in done for tunnel in last for trial in tunnel.trials)
    halved = len(tunnels) >= HALVED_FROM and not closed  # after its last baseline, a block has no middle any more
    between = _tunnels(_again(baseline, "between"), repetition, rng, "between") if halved else []
    return [*first, *tunnels[:half], *between, *tunnels[half:], *last]


def _again(baseline: Sequence[Cell], position: Position) -> list[Cell]:
    """The baseline cells that are measured once more at this position; these are enough to see a drift."""
    return [cell for cell in baseline if position in instruments()[cell.params["measure"]].again(cell.params)]


def _missing(tunnels: Sequence[PlannedTunnel], done: set[str], hopeless: set[str]) -> list[PlannedTunnel]:
    missing = []
    for tunnel in tunnels:
        trials = tuple(t for t in tunnel.trials if t.id not in done and t.cell.key not in hopeless)
        if trials:
            missing.append(PlannedTunnel(tunnel.vpn, tunnel.params, trials))
    return missing


def _tunnels(
    cells: Sequence[Cell], repetition: int, rng: random.Random, position: Position = "within"
) -> list[PlannedTunnel]:
    """One tunnel for all cells that share VPN and tunnel factors; inside it the cells are shuffled."""
    groups: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.vpn, *tunnel_params(cell.params).items()), []).append(cell)
    tunnels = []
    for group in groups.values():
        rng.shuffle(group)
        trials = tuple(Planned(cell, repetition, position) for cell in group)
        tunnels.append(PlannedTunnel(group[0].vpn, tunnel_params(group[0].params), trials))
    return tunnels


def tunnel_params(params: Mapping[str, str]) -> dict[str, str]:
    """The levels that a tunnel and its lab are made for: those of the tunnel factors, and those that the instrument
    needs before the tunnel is made."""
    own = instruments()[params["measure"]].factors
    before = (factor for factor, levels in own.items() if levels.before)
    return {factor: params[factor] for factor in (*TUNNEL_FACTORS, *before, *VARIANTS) if factor in params}


def expected_s(tunnel: PlannedTunnel, profile: Profile) -> float:
    """How long one tunnel will take, seconds."""
    return TUNNEL_S + sum(expected_trial_s(trial, profile) for trial in tunnel.trials)


def expected_trial_s(trial: Planned, profile: Profile) -> float:
    """How long one trial will take inside its tunnel, seconds, all its turns together. Raises UsageError for an
    instrument that cannot say."""
    instrument = trial.instrument
    params = trial.cell.params
    turns = instrument.turns * -(-profile.rounds // instrument.every) if instrument.takes_turns(params, profile) else 1
    with caught(partial(_blame, instrument)):
        each_s = instrument.expected_s(params, profile, first=trial.repetition == 1)
    return turns * each_s


def _blame(instrument: Instrument, broken: BaseException) -> None:
    raise UsageError(describe_fault(instrument, broken)) from broken
