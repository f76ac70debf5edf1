"""The trial loop: probe, then block after block: what takes turns together, the rest tunnel after tunnel."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from runner.data.errors import LabError
from runner.data.files import write_text
from runner.data.levels import BASELINE, outside_of_tunnel, tunnel_levels
from runner.data.store import Store, last_round
from runner.data.trials import Cell
from runner.instruments.instrument import at_once
from runner.lab.redaction import hide
from runner.sweep.call import Outcome, Settings, Watcher
from runner.sweep.plan import (
    TUNNEL_S,
    Block,
    Plan,
    Planned,
    PlannedTunnel,
    Sums,
    block,
    blocks,
    expected_s,
    ranked_cells,
)
from runner.sweep.records import Records
from runner.sweep.supported import refusals
from runner.sweep.turns import Rounds, Standing, conditions, standing
from runner.sweep.underway import UnderWay
from runner.sweep.workshop import Workshop
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import recipe

MOST_STANDING = 30  # tunnels at once
SIDE_SHARE = 0.2  # of a deadline's time for what no ranking is made of: ciphers, compression, more streams
LOOKS_AT = (0.35, 0.5, 0.65, 0.8, 0.9)  # of a deadline's time; the report is the sixth look
SIDE_EVERY = 5  # such trials in a ranked tunnel have a turn in every fifth round
UP_SHARE = 0.25  # of such a part of the time bringing tunnels up may take, else it is taken whole


@dataclass
class Loop:
    """One call of ``vpneval run``: it works through what is missing in the store."""

    store: Store
    vpns: Mapping[str, Vpn]
    cells: Sequence[Cell]
    settings: Settings
    watcher: Watcher
    experiments_of: Mapping[str, list[str]]  # cell key -> names of the experiments it belongs to
    # What is in doubt: the cells that go on in the seconds that are left, and the pairs in words. None: all go on.
    look: Callable[[float], tuple[list[Cell], list[str]]] | None = None
    until_significant: bool = False  # then block after block as long as something is in doubt
    outcome: Outcome = field(default_factory=Outcome)
    _rest: list[PlannedTunnel] = field(default_factory=list)  # of this block, and not begun
    _later: Sums = field(default_factory=Sums)  # of the blocks after it
    _pace: float = 1.0  # real against expected time, learnt as we go
    _side_left_s: float = 0.0
    _looks: list[float] = field(default_factory=list)  # when to look next, by time.monotonic()
    _going: set[str] | None = None  # the ranked cells that still have turns; None: all

    def __post_init__(self) -> None:
        self._records = Records(self.store, self.watcher, self.experiments_of, self.outcome, self._left_s)
        self._workshop = Workshop(self.store, self.vpns, self.settings, self.watcher, self._records)
        self._rounds = Rounds(self._workshop, self.settings.seed, last_round(self.store.trials))
        self._ranked = ranked_cells(self.cells, self.vpns)

    def run(self) -> Outcome:
        """Measure what is missing. Returns when all is done, the deadline is reached, or lab or disk broke."""
        seen = {trial.id: trial for trial in self.store.trials}
        retry = self.settings.retry_failed
        done = {name for name, trial in seen.items() if trial.status in ("ok", "unsupported") or not retry}
        done -= {name for name, trial in seen.items() if trial.status == "lab_error"}
        hopeless = {trial.cell for trial in seen.values() if trial.status == "unsupported"}
        if self.settings.deadline is not None:
            now, total_s = time.monotonic(), self.settings.deadline - time.monotonic()
            self._side_left_s = SIDE_SHARE * total_s
            self._looks = [now + share * total_s for share in LOOKS_AT] if self.look else []
        try:
            hopeless |= self.probe({trial.cell for trial in seen.values() if trial.status in ("ok", "unsupported")})
            settings = self.settings
            plan = blocks(self.cells, settings.repetitions, settings.seed, done, hopeless, settings.profile)
            self._expect([], plan.sums)
            for repetition in range(1, settings.repetitions + 1):
                planned, self._later = plan.block(repetition), plan.after(repetition).sums
                self._rest = planned.tunnels
                self._block(planned, self._later)
            self._again(plan)
            if self.look and self.until_significant:
                self.outcome.separation = self._until_separated(self.look, hopeless)
        except LabError as broken:
            self.outcome.stopped = hide(str(broken))
        except OSError as error:
            self.outcome.stopped = self.store.trouble(error)
        return self.outcome

    def _again(self, plan: Plan) -> None:
        """What came one by one and gave no number, once more, where time is left."""
        if self.settings.deadline is None:
            return
        ok = {trial.id for trial in self.store.trials if trial.status != "failed"}
        for planned in plan:
            for tunnel in planned.single:
                trials = tuple(trial for trial in tunnel.trials if trial.id not in ok)
                again = PlannedTunnel(tunnel.vpn, tunnel.params, trials)
                if trials and not self._too_late(again, []):
                    self._rest.append(again)
                    self._block(Block([], [again]), Sums())
            if time.monotonic() > self.settings.deadline:
                return

    def probe(self, known: set[str]) -> set[str]:
        """Ask every VPN, live on a gateway, what it can do here; what it cannot becomes `unsupported` trials, and what
        a broken plugin does not say becomes `failed` ones.

        Cells in ``known`` have answered in an earlier call. Returns the keys of the cells that cannot be measured.
        """
        found: set[str] = set()
        done = {trial.id for trial in self.store.trials if trial.status == "failed" and not self.settings.retry_failed}
        asked = [cell for cell in self.cells if cell.key not in known]
        for cell, status, reason in refusals(asked, self.vpns, self.settings, self.store):
            found.add(cell.key)
            if (trial := Planned(cell, 1)).id not in done:
                self._records.write(trial, status=status, reason=reason)
        return found

    def _until_separated(self, look: Callable[[float], tuple[list[Cell], list[str]]], hopeless: set[str]) -> str:
        """Block after block of the cells in doubt, until none is, or the time or the repetitions end; says which."""
        settings = self.settings
        while True:
            cells, doubts = look(math.inf)
            measured = max((trial.repetition for trial in self.store.trials), default=0)
            if not doubts:
                return f"after {measured} blocks, no pair of neighbours in the ranking is in doubt"
            planned = block(cells, measured + 1, settings.seed, set(), hopeless, settings.profile)
            tunnels = planned.tunnels
            late = settings.deadline is not None and time.monotonic() + self._need_s(tunnels) > settings.deadline
            most = settings.most_repetitions is not None and measured >= settings.most_repetitions
            if late or most or not tunnels:
                why = "deadline" if late else "limit of repetitions" if most else "lack of anything to measure"
                return f"after {measured} blocks, ended by the {why}, still in doubt: {'; '.join(doubts)}"
            self.watcher.say(f"block {measured + 1}, because these pairs are still undecided: {'; '.join(doubts)}")
            self._expect(tunnels, Sums())
            self._block(planned, Sums())

    def _expect(self, tunnels: Sequence[PlannedTunnel], later: Sums) -> None:
        self._rest, self._later = list(tunnels), later
        trials = sum(len(tunnel.trials) for tunnel in tunnels) + later.trials
        self.watcher.planned(trials, self._left_s())

    def _block(self, planned: Block, later: Sums) -> None:
        if planned.standing:
            self._take_turns(planned, later)
        for tunnel in planned.single:
            self._rest.remove(tunnel)
            if self._too_late(tunnel, planned.single):
                self.outcome.trimmed += len(tunnel.trials)
                continue
            started = time.monotonic()
            self.watcher.tunnel(tunnel.trials[0].repetition, tunnel.vpn, tunnel.params)
            self._tunnel(tunnel)
            real = (time.monotonic() - started) / expected_s(tunnel, self.settings.profile)
            self._pace += 0.1 * (real - self._pace)

    # --- Tunnels that take turns -------------------------------------------------------------------------------------

    def _take_turns(self, planned: Block, later: Sums) -> None:
        """The tunnels of a block that stand together: first those of the rankings, then the others, in parts."""
        for tunnel in planned.standing:
            self._rest.remove(tunnel)
        if self.settings.rig.stands == 1:
            return self._visits(planned, later)
        plain = [tunnel for tunnel in planned.standing if tunnel.vpn == BASELINE]
        rest = [tunnel for tunnel in planned.standing if tunnel.vpn != BASELINE]
        ranked = [tunnel for tunnel in rest if self._is_ranked(tunnel) and self._goes_on(tunnel)]
        side = [tunnel for tunnel in rest if not self._is_ranked(tunnel)]
        with standing(self._workshop, plain) as base:
            ranked_s = self._share_s(planned, later)
            for part in parts(ranked):
                self._stand(base, part, ranked_s * len(part) / len(ranked))
            share_s = self._side_share_s(side, later.blocks + 1) if ranked else self._share_s(planned, later)
            for part in parts(side):
                started = time.monotonic()
                self._stand(base, part, share_s * len(part) / len(side))
                self._side_left_s -= time.monotonic() - started
            self._alone(base, self._share_s(planned, later), short=bool(rest))

    def _alone(self, base: Sequence[Standing], within_s: float, *, short: bool) -> None:
        """The baseline's trials that no VPN was measured beside have their rounds, too; ``short``: not more of them
        than without a deadline."""
        left = {trial.planned.id for one in base for trial in one.trials if not trial.begun and self._has_turns(trial)}
        if left and within_s > 0:
            needed_s = sum(expected_s(one.tunnel, self.settings.profile) for one in base) if short else within_s
            self._play(base, time.monotonic() + min(within_s, needed_s), lambda trial: trial.planned.id in left)

    def _stand(self, base: Sequence[Standing], tunnels: Sequence[PlannedTunnel], within_s: float) -> None:
        """These tunnels beside the baseline: rounds, for ``within_s`` seconds with the bring-up, under a deadline."""
        if within_s <= 0:
            self.outcome.trimmed += sum(len(tunnel.trials) for tunnel in tunnels)
            return
        until = time.monotonic() + within_s
        with standing(self._workshop, tunnels) as stands:
            like = {conditions(trial) for one in stands for trial in one.trials}
            self._play([*base, *stands], until, lambda trial: conditions(trial) in like and self._has_turns(trial))

    def _visits(self, planned: Block, later: Sums) -> None:
        """Where one tunnel stands at a time: the rounds of one after another's, under the same numbers."""
        first, last = self._rounds.last, self._rounds.last
        share_s = self._share_s(planned, later) / len(planned.standing)
        for tunnel in planned.standing:
            self._rounds.last, until = first, time.monotonic() + share_s
            with standing(self._workshop, [tunnel]) as stands:
                self._play(stands, until, self._has_turns)
            last = max(last, self._rounds.last)
        self._rounds.last = last

    def _play(self, stands: Sequence[Standing], until: float, goes_on: Callable[[UnderWay], bool]) -> None:
        took_s, began = 0.0, time.monotonic()

        def more(played: int) -> bool:
            nonlocal took_s, began
            now = time.monotonic()
            took_s, began = now - began, now
            if self._looks and now >= self._looks[0]:
                self._looks = [at for at in self._looks if at > now]
                self._take_a_look()
            if self.settings.deadline is None:
                return played < self.settings.profile.rounds
            return played == 0 or now + took_s / 2 < min(until, self.settings.deadline)

        for one in stands:
            for trial in one.trials:
                other = SIDE_EVERY if self._is_ranked(one.tunnel) else 1
                trial.every = trial.planned.instrument.every * self._ranked.get(trial.planned.cell.key, other)
        self._rounds.play(stands, more, goes_on)

    def _take_a_look(self) -> None:
        """Pairs that are decided get no more of the time."""
        assert self.look is not None
        assert self.settings.deadline is not None
        cells, doubts = self.look(self.settings.deadline - time.monotonic())
        self._going, self.outcome.looks = {cell.key for cell in cells}, self.outcome.looks + 1
        self.watcher.say(f"look {self.outcome.looks - 1}: {len(doubts)} pairs are undecided, {len(cells)} cells go on")

    def _has_turns(self, trial: UnderWay) -> bool:
        key = trial.planned.cell.key
        return self._going is None or key in self._going or key not in self._ranked

    def _goes_on(self, tunnel: PlannedTunnel) -> bool:
        return self._going is None or any(trial.cell.key in self._going for trial in tunnel.trials)

    def _is_ranked(self, tunnel: PlannedTunnel) -> bool:
        return any(trial.cell.key in self._ranked for trial in tunnel.trials)

    def _share_s(self, planned: Block, later: Sums) -> float:
        """Of a deadline's time what the ranked tunnels of this block may take."""
        if self.settings.deadline is None:
            return float("inf")
        single_s = self._need_s(planned.single) + self._pace * later.single_s
        side_s = self._side_left_s if any(not self._is_ranked(tunnel) for tunnel in planned.standing) else 0.0
        left_s = self.settings.deadline - time.monotonic() - single_s - max(0.0, side_s)
        return left_s / (1 + later.standing)

    def _side_share_s(self, side: Sequence[PlannedTunnel], blocks_left: int) -> float:
        """Of their quarter of a deadline's time what these tunnels may take in this block: an even share, or all at
        once where that would hardly bring them up."""
        if self.settings.deadline is None:
            return float("inf")
        up_s = TUNNEL_S * len(side)
        even_s = self._side_left_s / blocks_left
        share_s = even_s if UP_SHARE * even_s > up_s else self._side_left_s
        return share_s if share_s > up_s else 0.0

    # --- Tunnels one after another -----------------------------------------------------------------------------------

    def _too_late(self, tunnel: PlannedTunnel, planned: Sequence[PlannedTunnel]) -> bool:
        """Would this tunnel end after the deadline? The block's last baseline keeps its place."""
        if self.settings.deadline is None:
            return False
        last = [other for other in planned if other.trials[0].position == "last" and other is not tunnel]
        return time.monotonic() + self._need_s([tunnel, *last]) > self.settings.deadline

    def _need_s(self, tunnels: Sequence[PlannedTunnel]) -> float:
        return self._pace * sum(expected_s(tunnel, self.settings.profile) for tunnel in tunnels)

    def _left_s(self) -> float:
        """Until the end of what is planned, or the deadline."""
        left = self._need_s(self._rest) + self._pace * self._later.expected_s
        if self.settings.deadline is not None:
            left = min(left, self.settings.deadline - time.monotonic())
        return max(0.0, left)

    def _tunnel(self, tunnel: PlannedTunnel) -> None:
        """One tunnel in a lab of its own: all its trials end in the store, whatever happens."""
        folder, waiting = self.store.logs(tunnel.name), list(tunnel.trials)
        if not any(trial.instrument.needs_tunnel for trial in waiting):
            return self._on_paper(tunnel, folder)
        with self._workshop.builder(tunnel, folder) as builder:
            try:
                bench = builder.bench()
                while waiting:
                    self.watcher.measuring(waiting[0])
                    usable = self._whole(waiting[0], bench, folder)
                    waiting.pop(0)
                    if waiting and not usable:
                        bench.renew()
            except Exception as error:  # a failing VPN never stops the sweep
                self._workshop.fail(waiting, error, folder)

    def _whole(self, planned: Planned, bench: Bench, folder: Path) -> bool:
        """One trial from its first slice to its last. Is the tunnel still usable?"""
        with ExitStack() as closing:
            trial = self._workshop.under_way(planned, bench, folder)
            closing.callback(trial.close)
            while not trial.over:
                trial.turn()
        return trial.usable

    def _on_paper(self, tunnel: PlannedTunnel, folder: Path) -> None:
        """Trials that count what a plugin writes down, and need no tunnel; the recipe is their log."""
        for planned in tunnel.trials:
            try:
                write_text(folder / "recipe.txt", recipe(self.vpns[tunnel.vpn], tunnel_levels(tunnel.params)))
                no_bench = cast(Bench, None)  # what needs no tunnel does not look at one
                measured = at_once(planned.instrument.measure(no_bench, self._workshop.asked(planned)))
                self._records.check(planned, measured)
            except (Exception, SystemExit) as error:  # as in _tunnel: a failing plugin never stops the sweep
                self._workshop.fail([planned], error, folder)
            else:
                self._records.write(planned, measured=measured, log=self._workshop.log(folder))


def parts(tunnels: Sequence[PlannedTunnel]) -> list[Sequence[PlannedTunnel]]:
    """Not more of them than can stand at once; those that are compared, by their conditions, stay together."""
    together = sorted(tunnels, key=lambda tunnel: str(outside_of_tunnel(tunnel.params)))
    count = -(-len(together) // MOST_STANDING)
    size = -(-len(together) // count) if count else 1
    return [together[start : start + size] for start in range(0, len(together), size)]
