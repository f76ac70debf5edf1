"""The trial loop: probe the VPNs, then block after block measure what takes turns, then the other tunnels singly."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from runner.data.errors import LabError, is_interruption
from runner.data.foreign import caught
from runner.data.levels import BASELINE
from runner.data.store import Store, last_round
from runner.data.trials import Cell
from runner.design.question import Going
from runner.instruments.result import Measured
from runner.lab.redaction import hide
from runner.sweep.going_on import after_all, measured_ids, without_number
from runner.sweep.plan import (
    Block,
    Plan,
    Planned,
    PlannedTunnel,
    Sums,
    all_turn,
    block,
    blocks,
    expected_s,
    ranked_cells,
)
from runner.sweep.records import Records
from runner.sweep.repeating import MOST_REPETITIONS, instances, next_look
from runner.sweep.rounds import Rounds, StandingTunnel, most_standing, shared_levels, standing
from runner.sweep.running_trial import RunningTrial
from runner.sweep.settings import Outcome, Stage, Watcher
from runner.sweep.shares import Shares, parts, side_share
from runner.sweep.supported import refusals
from runner.sweep.tunnels import RunContext
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

Look = Callable[[float, float], Going]
SIDE_SHARE = 0.1  # of a deadline's time for what no ranking is made of: ciphers, compression, more streams
# Such trials in a ranked tunnel have a turn in every fifth round, and in every tenth under a deadline: in the first one
# of an instance.
SIDE_EVERY, SIDE_EVERY_HURRIED = 5, 10
NAMED = 3  # of what has no sure answer yet
WAITS = 2  # times as seldom have those their turns without which something can be said
ROUNDS_OF_A_BLOCK = 100_000  # at most, of one that is measured apart from the others
KEPT_EVERY_S = 5.0  # the samples of a trial that is measured by itself, where a killed run would lose more


@dataclass
class Conductor:
    """One call of ``vpneval run``: it works through what is missing in the store."""

    store: Store
    vpns: Mapping[str, Vpn]
    cells: Sequence[Cell]
    stage: Stage
    watcher: Watcher
    experiments_of: Mapping[str, list[str]]  # cell key -> names of the experiments it belongs to
    # What is in doubt, when so many seconds are left and this share of the run is over. None: all go on.
    look: Look | None = None
    until_significant: bool = False  # then block after block as long as something is in doubt
    before_s: float = 0.0  # what earlier calls on the same folder took
    come_in: bool = False  # the cells are of VPNs that come in later: in tunnels after those that the run has
    looks_at: Sequence[float] = ()  # at which shares of a deadline's time
    outcome: Outcome = field(default_factory=Outcome)
    _rest: list[PlannedTunnel] = field(default_factory=list)  # of this block, and not begun
    _later: Sums = field(default_factory=Sums)  # of the blocks after it
    _total_s: float = math.inf  # that this call has, under a deadline
    _until: float = 0.0  # when the rounds that are being played will end, by time.monotonic()
    _looks: list[float] = field(default_factory=list)  # when to look next, by time.monotonic()
    _going: set[str] | None = None  # the ranked cells that still have turns; None: all
    _said: str = ""  # at the last look
    _last: Going = field(default_factory=lambda: Going([], []))  # what the last look said
    _without_number: set[str] = field(default_factory=set)  # ranked cells that earlier calls left out

    def __post_init__(self) -> None:
        self._records = Records(self.store, self.watcher, self.experiments_of, self.outcome, self._left_s)
        self._context = RunContext(self.store, self.vpns, self.stage, self.watcher, self._records)
        self._rounds = Rounds(self._context, self.stage.seed, self._last_round())
        self._ranked = ranked_cells(self.cells, self.vpns)
        self._shares = Shares(self.stage, self._ranked)

    def _last_round(self) -> int:
        """The number of the last round that was played. The blocks of a farm have separate ranges of numbers."""
        return max(last_round(self.store.trials), ROUNDS_OF_A_BLOCK * (self.stage.request.first - 1))

    def run(self) -> Outcome:
        """Measure what is missing. Returns when all is done, the deadline is reached, or lab or disk broke."""
        stage, seen = self.stage, self.store.trials
        hopeless = {trial.cell for trial in seen if trial.status == "unsupported"}
        if stage.deadline is not None:
            now, total_s = time.monotonic(), stage.deadline - time.monotonic()
            side = side_share(self.cells, self._ranked, self.experiments_of, SIDE_SHARE)
            self._shares.side_left_s, self._total_s = side * total_s, total_s
            self._looks = [now + share * total_s for share in self.looks_at] if self.look else []
        try:
            hopeless |= self.probe({trial.cell for trial in seen if trial.status in ("ok", "unsupported")})
            if self._looks and self.until_significant and any(trial.status == "ok" for trial in seen):
                self._doubts_first(hopeless)
            done = measured_ids(self.store.trials, stage.retry_failed)
            every = blocks(self.cells, stage.request.repetitions, stage.seed, done, hopeless, stage.profile)
            plan = every.after(stage.request.first - 1)
            if self.come_in:
                plan = after_all(seen, self.cells, hopeless, stage.seed, stage.profile, stage.request.question.tunnels)
            if stage.deadline is None or time.monotonic() < stage.deadline:
                self._expect([], plan.sums)
                self._work_through(plan)
                self._again(plan)
            self._count_left_out(plan)
            if self.look and self.until_significant:
                self.outcome.separation = self._until_separated(self.look, hopeless)
        except LabError as broken:
            if is_interruption(broken):
                raise KeyboardInterrupt from broken
            self.outcome.stopped = hide(str(broken))
        except OSError as error:
            self.outcome.stopped = self.store.trouble(error)
        return self.outcome

    def _doubts_first(self, hopeless: set[str]) -> None:
        """When a run goes on, measure the undecided pairs of its rankings first, in new tunnels after those that the
        run has. What earlier calls left out comes afterwards, where time is left."""
        self._without_number = without_number(self.store.trials, self._ranked, self.stage.retry_failed) - hopeless
        self._ranked = dict.fromkeys(self._ranked, 1)  # a pair in doubt has its turns, whichever ranking it is of
        self._take_a_look()
        going = [cell for cell in self.cells if cell.key in (self._going or ())]
        if any(cell.vpn != BASELINE for cell in going):
            stage, more = self.stage, instances(self._total_s)
            of_doubts = after_all(self.store.trials, going, hopeless, stage.seed, stage.profile, more)
            self._expect([], of_doubts.sums)
            # A later look may find another pair in doubt again: what takes turns stands ready.
            ready = [cell for cell in self.cells if cell.key in self._ranked and all_turn([cell], of_doubts.profile)]
            ready += [cell for cell in going if cell not in ready]
            self._work_through(replace(of_doubts, cells=ready, _known={}))
        self._looks = []

    def _work_through(self, plan: Plan) -> None:
        """Measure the plan, block after block."""
        for repetition in range(plan.first, plan.last + 1):
            planned, self._later = plan.block(repetition), plan.after(repetition).sums
            self._rest = planned.tunnels
            self._block(planned, self._later)

    def _again(self, plan: Plan) -> None:
        """Measure the failed trials of single tunnels once more, as far as the deadline allows; all of them without a
        deadline."""
        deadline = self.stage.deadline
        ok = {trial.id for trial in self.store.trials if trial.status != "failed"}
        for planned in plan:
            for tunnel in planned.single:
                trials = tuple(trial for trial in tunnel.trials if trial.id not in ok)
                again = PlannedTunnel(tunnel.vpn, tunnel.params, trials)
                if trials and not self._shares.too_late(again, []):
                    self._rest.append(again)
                    self._block(Block([], [again]), Sums())
            if deadline is not None and time.monotonic() > deadline:
                return

    def _count_left_out(self, plan: Plan) -> None:
        """Count the planned trials that have no line in the store at the end of a deadline: a look ended them, or time
        was too short. A cell whose packets do not fit the tunnel has one line for all its trials."""
        if self.stage.deadline is None and not self.stage.hours.between:
            return
        recorded = {trial.id for trial in self.store.trials}
        hopeless = {trial.cell for trial in self.store.trials if trial.status == "unsupported"}
        planned = (trial for block in plan for tunnel in block.tunnels for trial in tunnel.trials)
        left = [trial.cell.key for trial in planned if trial.id not in recorded and trial.cell.key not in hopeless]
        passed_over = sum(self._is_ended(key) for key in left)
        self.outcome.passed_over += passed_over
        self.outcome.trimmed += len(left) - passed_over

    def probe(self, known: set[str]) -> set[str]:
        """Ask every VPN, live on a gateway, which levels it supports here. A level that is not supported becomes an
        `unsupported` trial; where a broken plugin gives no answer, a `failed` one.

        Cells in ``known`` have answered in an earlier call. Returns the keys of the cells that cannot be measured.
        """
        refused: set[str] = set()
        done = {trial.id for trial in self.store.trials if trial.status == "failed" and not self.stage.retry_failed}
        asked = [cell for cell in self.cells if cell.key not in known]
        for cell, status, reason, remarks in refusals(asked, self.vpns, self.stage, self.store):
            refused.add(cell.key)
            if (trial := Planned(cell, 1)).id not in done:
                self._records.write(trial, measured=Measured(remarks=remarks), status=status, reason=reason)
        return refused

    def _until_separated(self, look: Look, hopeless: set[str]) -> str:
        """Measure the cells in doubt, block after block, until no pair is undecided, or until the time or the
        repetitions end. Returns a sentence about why it ended. Looks become rarer, because each look makes every
        verdict stricter."""
        stage, looked, going = self.stage, 0, look(math.inf, self._share())
        self.outcome.looks += 1
        while True:
            cells, doubts = going.cells, going.undecided
            measured = max((trial.repetition for trial in self.store.trials), default=0)
            after = f"after {measured} block{'s' * (measured != 1)}"
            if not doubts:  # and cells that go on all the same are those of a run without a pair
                decided = "there is no pair of VPNs to decide" if cells else "every pair of VPNs is decided"
                return f"{after}, {decided}"
            planned = block(cells, measured + 1, stage.seed, set(), hopeless, stage.profile)
            tunnels = planned.tunnels
            late = stage.deadline is not None and time.monotonic() + self._shares.need_s(tunnels) > stage.deadline
            most = stage.most_repetitions is not None and measured >= stage.most_repetitions
            if late or most or not tunnels:
                why = "deadline" if late else "limit of repetitions" if most else "lack of anything to measure"
                return f"{after}, ended by the {why}, still undecided: {'; '.join(doubts)}"
            looked = looked or next_look(measured, stage.most_repetitions or MOST_REPETITIONS)
            self.watcher.say(f"block {measured + 1} begins. These pairs are still undecided: {'; '.join(doubts)}")
            self._expect(tunnels, Sums())
            self._block(planned, Sums())
            if measured + 1 >= looked:
                going, looked, self.outcome.looks = look(math.inf, self._share()), 0, self.outcome.looks + 1

    def _share(self) -> float:
        """The share of the run that is over. Under a deadline it is the share of the time, earlier calls included; else
        the share of the allowed repetitions."""
        if self.stage.deadline is not None:
            return 1 - (self.stage.deadline - time.monotonic()) / (self.before_s + self._total_s)
        measured = max((trial.repetition for trial in self.store.trials), default=0)
        return measured / (self.stage.most_repetitions or MOST_REPETITIONS)

    def _expect(self, tunnels: Sequence[PlannedTunnel], later: Sums) -> None:
        self._rest, self._later = list(tunnels), later
        trials = sum(len(tunnel.trials) for tunnel in tunnels) + later.trials
        self.watcher.show_plan(trials, self._left_s())

    def _block(self, planned: Block, later: Sums) -> None:
        if planned.standing:
            self._take_turns(planned, later)
        for tunnel in planned.single:
            self._rest.remove(tunnel)
            if self._shares.too_late(tunnel, planned.single):
                continue
            self._in_hours(tunnel)
            started = time.monotonic()
            self.watcher.tunnel(tunnel.trials[0].repetition, tunnel.vpn, tunnel.params)
            self._tunnel(tunnel)
            self._shares.took(tunnel, time.monotonic() - started)

    # --- Tunnels that take turns -------------------------------------------------------------------------------------

    def _take_turns(self, planned: Block, later: Sums) -> None:
        """Measure the standing tunnels of a block: first those of the rankings, then the others, in groups. Without a
        deadline all of them stand at once where they fit, so that each can be compared with each."""
        for tunnel in planned.standing:
            self._rest.remove(tunnel)
        if self.stage.rig.stands == 1:
            return self._visits(planned, later)
        plain = [tunnel for tunnel in planned.standing if tunnel.vpn == BASELINE]
        rest = [tunnel for tunnel in planned.standing if tunnel.vpn != BASELINE]
        ranked = [tunnel for tunnel in rest if self._shares.is_ranked(tunnel) and self._goes_on(tunnel)]
        side = [tunnel for tunnel in rest if not self._shares.is_ranked(tunnel)]
        at_once = rest if self.stage.deadline is None else max(ranked, side, key=len)
        most = most_standing(len(plain), len(at_once), self.watcher.say)
        if self.stage.deadline is None and len(rest) <= most:
            ranked, side = rest, []
        with standing(self._context, plain) as base:
            ranked_s = self._shares.ranked_s(planned, later)
            for part in parts(ranked, most):
                self._stand(base, part, ranked_s * len(part) / len(ranked))
            every_s = self._shares.ranked_s(planned, later)
            share_s = self._shares.side_s(side, later.blocks + 1) if ranked else every_s
            for part in parts(side, most):
                started = time.monotonic()
                self._stand(base, part, share_s * len(part) / len(side))
                self._shares.side_left_s -= time.monotonic() - started
            self._alone(base, self._shares.ranked_s(planned, later), short=bool(rest))

    def _alone(self, base: Sequence[StandingTunnel], within_s: float, *, short: bool) -> None:
        """Play the baseline trials for which no VPN had a round in this block; ``short``: at most as many rounds as
        without a deadline."""
        left = {
            trial.planned.id
            for stand in base
            for trial in stand.trials
            if not trial.has_begun and self._has_turns(trial)
        }
        if left and within_s > 0:
            needed_s = sum(expected_s(stand.tunnel, self.stage.profile) for stand in base) if short else within_s
            self._play(base, time.monotonic() + min(within_s, needed_s), lambda trial: trial.planned.id in left)

    def _stand(self, base: Sequence[StandingTunnel], tunnels: Sequence[PlannedTunnel], within_s: float) -> None:
        """Bring these tunnels up beside the baseline and play rounds; under a deadline for ``within_s`` seconds, the
        bring-up included."""
        if within_s <= 0:
            return
        until = time.monotonic() + within_s
        with standing(self._context, tunnels) as stands:
            like = {shared_levels(trial) for stand in stands for trial in stand.trials}
            self._play([*base, *stands], until, lambda trial: shared_levels(trial) in like and self._has_turns(trial))

    def _visits(self, planned: Block, later: Sums) -> None:
        """For labs in which one tunnel stands at a time: play one tunnel's rounds after another's, numbered alike. Left
        out is, but for the baseline, for what the deadline leaves less than half of the shortest visit so far."""
        first, last = self._rounds.last, self._rounds.last
        share_s, shortest_s = self._shares.ranked_s(planned, later) / len(planned.standing), 0.0
        for tunnel in planned.standing:
            self._in_hours(tunnel)
            started = time.monotonic()
            if tunnel.vpn != BASELINE and started + shortest_s / 2 > (self.stage.deadline or math.inf):
                continue
            self._rounds.last = first
            with standing(self._context, [tunnel]) as stands:
                self._play(stands, started + share_s, self._has_turns)
            last = max(last, self._rounds.last)
            took_s = time.monotonic() - started
            shortest_s = min(shortest_s or took_s, took_s)
        self._rounds.last = last

    def _play(self, stands: Sequence[StandingTunnel], until: float, goes_on: Callable[[RunningTrial], bool]) -> None:
        took_s, began = 0.0, time.monotonic()

        def goes_round(played: int) -> bool:
            nonlocal took_s, began
            now = time.monotonic()
            took_s, began = now - began, now
            if self._looks and now >= self._looks[0]:
                self._looks = [at for at in self._looks if at > now]
                self._take_a_look()
                self._give_turns(stands)
            if self.stage.deadline is None:
                self._until = now + took_s * (self.stage.profile.rounds - played)
                most = self.stage.profile.rounds if took_s / 2 < self.stage.hours.left_s() else 1
                return played < most
            self._until = min(until, self.stage.deadline)
            if self._last.first:
                return played < self._last.first_rounds and now < self.stage.deadline
            return played == 0 or now + took_s / 2 < min(until, self.stage.deadline)

        self._give_turns(stands)
        self._rounds.play(stands, goes_round, goes_on)

    def _give_turns(self, stands: Sequence[StandingTunnel]) -> None:
        """Set how often each trial has its turn."""
        side_every = SIDE_EVERY if self.stage.deadline is None else SIDE_EVERY_HURRIED
        for stand in stands:
            for trial in stand.trials:
                key, other = trial.planned.cell.key, side_every if self._is_ranked(stand.tunnel) else 1
                trial.every = trial.planned.instrument.every * self._ranked.get(key, other)
                if self._last.first:
                    trial.every = 1 if key in self._last.first else WAITS * trial.every
                trial.times = 2 if key in self._last.twice else 1

    def _take_a_look(self) -> None:
        """Look at the results, and take the cells whose pairs are decided and known well enough out of the rounds."""
        assert self.look is not None
        assert self.stage.deadline is not None
        going = self.look(self.stage.deadline - time.monotonic(), self._share())
        self._last = going
        self._going = {cell.key for cell in going.cells} | self._without_number
        self.outcome.looks += going.tests_pairs
        said = f"{_not_clear(going.undecided)} {len(self._going)} of {len(self._ranked)} trials go on."
        if said != self._said and not going.first:
            self.watcher.say(said)
        self._said = said

    def _has_turns(self, trial: RunningTrial) -> bool:
        return not self._is_ended(trial.planned.cell.key)

    def _is_ended(self, key: str) -> bool:
        return self._going is not None and key in self._ranked and key not in self._going

    def _goes_on(self, tunnel: PlannedTunnel) -> bool:
        return self._going is None or any(trial.cell.key in self._going for trial in tunnel.trials)

    def _is_ranked(self, tunnel: PlannedTunnel) -> bool:
        return self._shares.is_ranked(tunnel)

    # --- Tunnels one after another -----------------------------------------------------------------------------------

    def _in_hours(self, tunnel: PlannedTunnel) -> None:
        if self.stage.deadline is None:  # else the run ends with the hours
            self.stage.hours.wait(self.watcher.say, self._shares.need_s([tunnel]))

    def _left_s(self) -> float:
        """The seconds until the planned work ends, at most until the deadline."""
        turns_s = max(0.0, self._until - time.monotonic())
        left = turns_s + self._shares.need_s(self._rest) + self._shares.pace * self._later.expected_s
        if self.stage.deadline is not None:
            to_deadline = self.stage.deadline - time.monotonic()
            left = to_deadline if turns_s or self._later.standing else min(left, to_deadline)  # rounds fill it
        return max(0.0, left)

    def _tunnel(self, tunnel: PlannedTunnel) -> None:
        """Measure the trials of one tunnel in a lab of its own. Each trial has its line in the store afterwards,
        whatever happens."""
        folder, waiting = self.store.logs(tunnel.name), list(tunnel.trials)
        if not any(trial.instrument.needs_tunnel for trial in waiting):
            return self._context.on_paper(tunnel, folder)
        fail = partial(self._context.fail, waiting, folder=folder)  # a failing VPN never stops the sweep
        with self._context.builder(tunnel, folder) as builder, caught(fail):
            bench = builder.bench()
            while waiting and self.stage.hours.left_s() > 0 and not self._records.machine.hopeless:
                self.watcher.measuring(waiting[0])
                usable = self._whole(waiting[0], bench, folder)
                waiting.pop(0)
                if waiting and not usable:
                    bench.renew()
        self._records.machine.refuse()

    def _whole(self, planned: Planned, bench: Bench, folder: Path) -> bool:
        """Measure one trial from its first slice to its last. Returns whether the tunnel is still usable."""
        with ExitStack() as closing:
            trial = self._context.running(planned, bench, folder)
            closing.callback(trial.close)
            kept = time.monotonic()
            while not trial.over:
                trial.turn(round_=0)
                if not trial.over and trial.has_samples and time.monotonic() > kept + KEPT_EVERY_S:
                    if trial.is_new:
                        self._records.begin(planned, trial.up, trial.log)
                    self.store.append_slices(trial.fresh())
                    kept = time.monotonic()
        return trial.usable


def _not_clear(undecided: Sequence[str]) -> str:
    """What has no sure answer yet, by name as far as that is short."""
    if not undecided:
        return "Everything is clear."
    more = f", and {len(undecided) - NAMED} more" if len(undecided) > NAMED else ""
    return f"Not clear yet: {'; '.join(undecided[:NAMED])}{more}."
