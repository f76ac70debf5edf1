"""Tunnels that stand together, and rounds in which their trials take turns.

Randomised multiple interleaved trials (Abedi and Brecht 2017): in a round every cell has its slices, in random order,
so that what the machine does meanwhile happens to all alike, and the ratio of two VPNs within a round is free of it.
Slices that are compared with one another follow one another: a round of everything takes some ten seconds, in which the
machine changes, and those of one measurement take two.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from runner.data.errors import InstrumentError, LabError, ProofError
from runner.data.foreign import caught
from runner.data.levels import beside_plain_ip
from runner.lab import machine
from runner.sweep.plan import PlannedTunnel
from runner.sweep.running_trial import RunningTrial
from runner.sweep.tunnels import RunContext, is_of_disk
from runner.tunnel.bring_up import Bench

MOST_STANDING = 30  # of the VPNs' tunnels at once


@dataclass
class StandingTunnel:
    """A tunnel that is up, and its trials."""

    tunnel: PlannedTunnel
    bench: Bench
    folder: Path
    trials: list[RunningTrial] = field(default_factory=list)

    def renew(self, context: RunContext) -> None:
        """Bring up another tunnel in the place of this one, which is not usable any more. Raises LabError."""
        with caught(partial(self.give_up, context)):
            self.bench.renew()

    def give_up(self, context: RunContext, error: BaseException) -> None:
        """Give the tunnel up, and write the lines of the trials that were under way, with the slices that they have.
        Where the tunnel is not what was asked for, they have no number. Where the lab is broken, nothing is learnt of
        the VPN: raises LabError, and the trials are measured again."""
        waiting = [trial for trial in self.trials if not trial.over]
        for trial in waiting:
            if not isinstance(error, LabError | ProofError) and not is_of_disk(error):
                trial.end_without(f"the tunnel did not come up again: {error}")
            trial.close()
        waiting = [trial for trial in waiting if not trial.over]
        for trial in waiting:
            trial.over = True
        context.fail([trial.planned for trial in waiting], error, self.folder)


def most_standing(plain: int, wanted: int, say: Callable[[str], object]) -> int:
    """How many of the VPNs' tunnels can stand at once beside the baseline's: as many as the limit of open files allows,
    with one more lab in which a set-up is timed. Tells ``say`` where that is fewer than ``wanted``."""
    fit, wanted = max(1, machine.labs_that_fit() - plain - 1), min(wanted, MOST_STANDING)
    if fit < wanted:
        say(
            f"{wanted} tunnels could stand at once, and this process may open files for {fit}. So they stand and take "
            f"turns in groups, one group after the other. For all at once: ulimit -n "
            f"{machine.limit_for(plain + 1 + wanted)}"
        )
    return min(fit, MOST_STANDING)


@contextmanager
def standing(context: RunContext, tunnels: Sequence[PlannedTunnel]) -> Iterator[list[StandingTunnel]]:
    """Bring up all of ``tunnels`` at once, each in a lab of its own, for as long as the context lasts. A tunnel that
    does not come up is tried once more where time is left, and then its trials fail. At the end of the context every
    trial has its line. Raises LabError."""
    stands: list[StandingTunnel] = []
    with ExitStack() as labs:
        try:
            again = [(tunnel, why) for tunnel in tunnels if (why := _stand(context, tunnel, labs, stands))]
            for tunnel, why in again:
                _stand(context, tunnel, labs, stands, before=why)
            yield stands
        finally:
            _end(context, stands)


def _stand(
    context: RunContext, tunnel: PlannedTunnel, labs: ExitStack, stands: list[StandingTunnel], before: str = ""
) -> str:
    """Bring the tunnel up in a lab and add it to ``stands``. ``before``: why the first attempt failed. Returns the
    reason of the failure where another attempt is worth it; else "", and the tunnel is up or its trials are written
    down. Raises LabError."""
    began = time.monotonic()
    context.watcher.tunnel(tunnel.trials[0].repetition, tunnel.vpn, tunnel.params)
    folder = context.store.logs(tunnel.name)
    failed = list[BaseException]()
    # What does not come up goes at once, because its daemons would disturb the others; and never stops the sweep.
    with caught(failed.append), ExitStack() as lab:
        builder = lab.enter_context(context.builder(tunnel, folder))
        stand = StandingTunnel(tunnel, builder.bench(), folder)
        labs.push(lab.pop_all())
    for error in failed:
        if not before and _another_attempt(context, error, time.monotonic() - began):
            return str(error) or repr(error)
        context.fail(tunnel.trials, error, folder)
        return ""
    stand.trials = [context.running(planned, stand.bench, folder) for planned in tunnel.trials]
    for trial in stand.trials:
        if before:
            trial.note(f"the tunnel came up at the second attempt; at the first: {before}")
    stands.append(stand)
    return ""


def _another_attempt(context: RunContext, error: BaseException, took_s: float) -> bool:
    """Is another attempt made for a tunnel that did not come up? Not where the lab or the disk is broken, where the
    tunnel was up but is not what was asked for, or where the deadline leaves too little time for a second attempt as
    long."""
    broken = isinstance(error, LabError | InstrumentError | ProofError | OSError)
    if broken and not isinstance(error, TimeoutError):  # which is an OSError, and says that no payload came
        return False
    deadline = context.stage.deadline
    return deadline is None or time.monotonic() + took_s < deadline


def _end(context: RunContext, stands: Sequence[StandingTunnel]) -> None:
    """Write the line of every trial, with the slices that it has; also while the run is being stopped."""
    for stand in stands:
        for trial in stand.trials:
            try:
                trial.end()
            except (LabError, ProofError) as broken:
                with suppress(LabError):  # the others end all the same
                    stand.give_up(context, broken)
            finally:
                trial.close()


@dataclass
class Rounds:
    """The rounds of a run, numbered on from ``last``; the order within each is drawn from ``seed``."""

    context: RunContext
    seed: int
    last: int = 0

    def play(
        self,
        stands: Sequence[StandingTunnel],
        more: Callable[[int], bool],
        goes_on: Callable[[RunningTrial], bool] = lambda trial: True,
    ) -> int:
        """Play rounds as long as ``more``, given the number of rounds played, is true. The slices of each round are on
        the disk before the next one. ``goes_on``: does this trial still have turns? Returns the number of rounds
        played.

        Raises LabError and OSError.
        """
        played = 0
        while more(played):
            going = [(stand, trial) for stand in stands for trial in stand.trials if not trial.over and goes_on(trial)]
            due = [turn for turn in going if played % turn[1].every == 0]
            if not due:
                if any(trial.every <= trial.planned.instrument.every for _, trial in going):  # it is due soon
                    played += 1
                    continue
                break
            self.last += 1
            turns = in_order(due, random.Random(f"{self.seed}/round {self.last}"))
            context = self.context
            context.watcher.show_round(self.last, len({id(stand) for stand, _ in turns}), context.records.left_s())
            for stand, trial in turns:
                if not trial.over:  # its tunnel may have been lost in this round
                    self._turn(stand, trial)
            fresh = [row for _, trial in turns if not trial.over for row in trial.fresh()]
            self.context.store.append_slices(fresh)
            played += 1
        return played

    def _turn(self, stand: StandingTunnel, trial: RunningTrial) -> None:
        context, first = self.context, not trial.rows
        context.watcher.measuring(trial.planned)
        try:
            trial.turn(self.last)
        except (LabError, ProofError) as broken:
            stand.give_up(context, broken)
            return
        context.records.machine.refuse()
        if first and trial.rows and not trial.over:
            context.records.begin(trial.planned, trial.up, trial.log)
        if not trial.usable:
            trial.usable = True
            if not all(other.over for other in stand.trials):
                stand.renew(context)


def in_order(
    due: Sequence[tuple[StandingTunnel, RunningTrial]], rng: random.Random
) -> list[tuple[StandingTunnel, RunningTrial]]:
    """The turns of one round: groups of trials that are compared with each other, in random order, and the VPNs in
    random order within each."""
    groups: dict[str, list[tuple[StandingTunnel, RunningTrial]]] = {}
    for stand, trial in due:
        for number in range(trial.planned.instrument.turns * trial.times):
            groups.setdefault(f"{number} {shared_levels(trial)}", []).append((stand, trial))
    order = list(groups.values())
    rng.shuffle(order)
    for group in order:
        rng.shuffle(group)
    return [turn for group in order for turn in group]


def shared_levels(trial: RunningTrial) -> tuple[tuple[str, str], ...]:
    """The levels that the trial shares with the VPNs that it is compared with, and with their baseline: plain IP has no
    crypto driver, and is in the rounds of VPNs that all have one."""
    return tuple(sorted(beside_plain_ip(trial.planned.cell.params).items()))
