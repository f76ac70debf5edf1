"""Decides at each look which cells go on, so that the time that is left decides the most pairs and measures the quoted
ratios well enough; and decides when to look.

Each look at pairs makes every verdict stricter, so that a call has six of these at most, with O'Brien and Fleming's
bounds. A choice tests no pairs, and is looked at after each round.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Sequence
from typing import NamedTuple

from runner.choice.answer import RATES_BPS, unsettled
from runner.choice.devices import devices
from runner.choice.machine import FEWEST_ROUNDS, machine_state
from runner.choice.musts import states
from runner.data.scale import no_scale
from runner.data.shipped import shipped_runs
from runner.data.trials import MOST_LOOKS, Cell, Run, Trial
from runner.ranking.doubts import Doubt, cells_in_doubt, doubts, look
from runner.ranking.weights import Weights

CHOICE_LOOKS_AT = tuple(share / 50 for share in range(50))  # of its time: before each round
INITIAL_REPETITIONS = 3  # with --until-significant: before them, little is known of the spread
MOST_REPETITIONS = 30  # with --until-significant, where no deadline is given
GROWTH = 1.6  # from one look to the next, in repetitions: 3, 5, 8, 13, 21, 30
LEAST_SHARE = 0.05  # of a run, before which nothing is decided
# Under a deadline such a metric goes on, whatever is decided, until the 95 % intervals of its ratios reach no farther
# than by this factor. Of other metrics the pairs are decided last, and known as well by then (decision 0055).
WIDTHS = {"tcp_throughput": 1.075}
INSTANCE_S = 180.0  # of a long deadline, to each tunnel of a VPN: more rounds in the same ones would tell little more
FEWEST_INSTANCES = 2  # of the tunnels of each VPN
FIRST_ROUNDS = -(-FEWEST_ROUNDS // FEWEST_INSTANCES)  # in each of these, before a choice says anything
LADDER = "ladder"  # the instrument that a choice needs
TWICE = 0.5  # of a VPN's pairs in such a metric: where more are undecided or too wide, it has two slices in a round


class Going(NamedTuple):
    """The answer of a look. ``cells``: those that go on; ``doubts``: everything that is undecided, in words;
    ``twice``: the keys of those among the cells that have twice their turns."""

    cells: list[Cell]
    doubts: list[str]
    twice: set[str]
    tests_pairs: bool = True  # a look that tests none costs the verdicts on them nothing
    first: set[str] = set()  # the keys of those that nothing is said without: they have a turn in each round now


def going(
    run: Run, trials: Sequence[Trial], cells: Sequence[Cell], weights: Weights | None, left_s: float, share: float
) -> Going:
    """The cells of the undecided pairs that ``left_s`` seconds can decide, by what they have shown so far, or of all
    where it can decide none, and all cells of a run that has no pairs. Where that time is limited, also those of ratios
    that are not known to their WIDTHS. ``share``: how much of the run is over, 0 to 1. The looks of earlier calls have
    their price, too."""
    looks, over = run.looks + MOST_LOOKS - 1, min(1.0, max(LEAST_SHARE, share))
    pairs_in_doubt = doubts(run, trials, weights, looks, over, widths=WIDTHS if left_s < math.inf else None)
    if not pairs_in_doubt and not look(run, trials, weights):
        return Going(list(cells), [], set())
    undecided, wide = ([doubt for doubt in pairs_in_doubt if doubt.decided is decided] for decided in (False, True))
    on = cells_in_doubt(within(undecided, left_s) + wide, cells)
    return Going(on, [doubt.words for doubt in undecided], twice(pairs_in_doubt, on) if left_s < math.inf else set())


def choosing(run: Run, trials: Sequence[Trial], cells: Sequence[Cell]) -> Going:
    """All cells as long as a line that was asked for has no sure answer; none when every line has one, or depends on
    the gateways. Nothing is sure before FEWEST_ROUNDS slices of each ladder, in FEWEST_INSTANCES tunnels."""
    made = devices(run, trials)
    words = {
        vpn: {must: state.word for must, state in own.items()}
        for vpn, own in states(run, trials, shipped_runs()).items()
    }
    state = machine_state(trials, [*made], real=not no_scale(run))
    few = state.rounds < FEWEST_ROUNDS or _too_few(trials, made)
    # A VPN whose ladder fails is few for ever: in later tunnels all else has its turns again.
    early = few and len({trial.repetition for trial in trials if trial.curve}) <= FEWEST_INSTANCES
    asked = [run.needs.line_bps] if run.needs.line_bps else list(RATES_BPS)
    lines = asked if few else unsettled(made, words, run.needs, state=state)
    return Going(
        list(cells) if lines else [],
        [f"{line / 1e6:g} Mbit/s" for line in lines],
        twice=set(),
        tests_pairs=False,
        first={cell.key for cell in cells if cell.params["measure"] == LADDER} if early else set(),
    )


def _too_few(trials: Sequence[Trial], vpns: Container[str]) -> bool:
    """Has a ladder that carries anything been climbed too seldom, or in too few tunnels?"""
    known = [trial for trial in trials if trial.curve and trial.vpn in vpns]
    climbed = Counter[str]()
    for trial in known:
        climbed[trial.cell] += len(trial.curve[0].rounds)
    carrying = {trial.cell for trial in known if any(value.value for value in trial.measurements)}
    tunnels = {trial.repetition for trial in known}
    return min((climbed[cell] for cell in carrying), default=0) < FEWEST_ROUNDS or len(tunnels) < FEWEST_INSTANCES


def twice(pairs_in_doubt: Sequence[Doubt], cells: Sequence[Cell]) -> set[str]:
    """The keys of those of these cells of which most ratios, in a metric of WIDTHS, are undecided or too wide. One
    slice in each round is not enough for them; a second slice of one VPN makes all its ratios narrower."""
    waiting = Counter(
        (cell.key, doubt.configuration, doubt.image, doubt.peers)
        for doubt in pairs_in_doubt
        for cell in cells
        if doubt.metric in WIDTHS and cell.vpn in (doubt.a, doubt.b) and doubt.asks_for(cell)
    )
    return {key for (key, *_, peers), pairs in waiting.items() if pairs > TWICE * peers}


def instances(deadline_s: float, each_s: float = INSTANCE_S) -> int:
    """How many tunnels of each VPN, one after another, a deadline has time for, ``each_s`` seconds of it for each."""
    return min(MOST_REPETITIONS, 1 + int(deadline_s / each_s))


def next_look(repetitions: int, most: int) -> int:
    """The number of repetitions after which to look again, having looked after so many."""
    return min(max(repetitions + 1, most), max(repetitions + 1, math.ceil(GROWTH * repetitions)))


def within(pairs_in_doubt: Sequence[Doubt], left_s: float) -> list[Doubt]:
    """The pairs that so many seconds may decide; all pairs where they decide none."""
    soon = [doubt for doubt in pairs_in_doubt if doubt.seconds is None or doubt.seconds <= left_s]
    return soon or list(pairs_in_doubt)
