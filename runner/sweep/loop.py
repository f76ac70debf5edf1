"""The trial loop: probe, then block after block, tunnel after tunnel, trial after trial; nothing is dropped."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import cast

from runner.catalogue import blamed
from runner.data.errors import CommandError, LabError, MeasurementError, ProofError, TooLongError, VpnevalError
from runner.data.files import write_text
from runner.data.levels import tunnel_levels
from runner.data.store import Store
from runner.data.trials import Cell, Slice, Trial
from runner.instruments.instrument import Asked, Found, at_once, play
from runner.instruments.result import Measured
from runner.lab import noise
from runner.lab.logs import tail
from runner.lab.redaction import hide
from runner.lab.site_to_site import check_alive
from runner.sweep.builder import Builder, Shared
from runner.sweep.call import Outcome, Settings, Watcher
from runner.sweep.plan import Planned, PlannedTunnel, block, blocks, expected_s
from runner.sweep.records import Records
from runner.sweep.supported import refusals
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import recipe


@dataclass
class Loop:
    """One call of ``vpneval run``: it works through what is missing in the store."""

    store: Store
    vpns: Mapping[str, Vpn]
    cells: Sequence[Cell]
    settings: Settings
    watcher: Watcher
    experiments_of: Mapping[str, list[str]]  # cell key -> names of the experiments it belongs to
    # For --until-significant: from the trials so far to the next block's cells, and the pairs in doubt, in words.
    next_cells: Callable[[Sequence[Trial]], tuple[list[Cell], list[str]]] | None = None
    outcome: Outcome = field(default_factory=Outcome)
    _shared: Shared = field(default_factory=Shared)
    _rest: list[PlannedTunnel] = field(default_factory=list)  # planned, and not begun
    _too_long: set[str] = field(default_factory=set)  # cells whose packets their tunnel does not carry
    _pace: float = 1.0  # real against expected time, learnt as we go

    def __post_init__(self) -> None:
        self._records = Records(self.store, self.watcher, self.experiments_of, self.outcome, self._left_s)

    def run(self) -> Outcome:
        """Measure what is missing. Returns when all is done, the deadline is reached, or lab or disk broke."""
        seen = {trial.id: trial for trial in self.store.trials}
        retry = self.settings.retry_failed
        done = {name for name, trial in seen.items() if trial.status in ("ok", "unsupported") or not retry}
        done -= {name for name, trial in seen.items() if trial.status == "lab_error"}
        hopeless = {trial.cell for trial in seen.values() if trial.status == "unsupported"}
        try:
            hopeless |= self.probe({trial.cell for trial in seen.values()})
            plan = blocks(self.cells, self.settings.repetitions, self.settings.seed, done, hopeless)
            self._expect([tunnel for planned in plan for tunnel in planned])
            for planned in plan:
                self._block(planned)
            if self.next_cells:
                self.outcome.separation = self._until_separated(self.next_cells, hopeless)
        except LabError as broken:
            self.outcome.stopped = hide(str(broken))
        except OSError as error:
            self.outcome.stopped = f"the run folder cannot be written: {error}"
        return self.outcome

    def probe(self, known: set[str]) -> set[str]:
        """Ask every VPN, live on a gateway, what it can do here; what it cannot becomes `unsupported` trials.

        Cells in ``known`` have trials already. Returns the keys of the cells that cannot be measured.
        """
        found: set[str] = set()
        asked = [cell for cell in self.cells if cell.key not in known]
        for cell, reason in refusals(asked, self.vpns, self.settings, self.store):
            found.add(cell.key)
            self._records.write(Planned(cell, 1), status="unsupported", reason=reason)
        return found

    def _until_separated(
        self, next_cells: Callable[[Sequence[Trial]], tuple[list[Cell], list[str]]], hopeless: set[str]
    ) -> str:
        """Block after block of the cells in doubt, until none is, or the time or the repetitions end; says which."""
        settings = self.settings
        while True:
            cells, doubts = next_cells(self.store.trials)
            measured = max((trial.repetition for trial in self.store.trials), default=0)
            if not doubts:
                return f"after {measured} blocks, no pair of neighbours in the ranking is in doubt"
            tunnels = block(cells, measured + 1, settings.seed, set(), hopeless)
            late = settings.deadline is not None and time.monotonic() + self._need_s(tunnels) > settings.deadline
            most = settings.most_repetitions is not None and measured >= settings.most_repetitions
            if late or most or not tunnels:
                why = "deadline" if late else "limit of repetitions" if most else "lack of anything to measure"
                return f"after {measured} blocks, ended by the {why}, still in doubt: {'; '.join(doubts)}"
            self.watcher.say(f"block {measured + 1}, because still in doubt: {'; '.join(doubts)}")
            self._expect(tunnels)
            self._block(tunnels)

    def _expect(self, tunnels: Sequence[PlannedTunnel]) -> None:
        self._rest = list(tunnels)
        self.watcher.planned(sum(len(tunnel.trials) for tunnel in tunnels), self._left_s())

    def _block(self, planned: Sequence[PlannedTunnel]) -> None:
        for tunnel in planned:
            self._rest.remove(tunnel)
            if self._too_late(tunnel, planned):
                self.outcome.trimmed += len(tunnel.trials)
                continue
            started = time.monotonic()
            self.watcher.tunnel(tunnel.trials[0].repetition, tunnel.vpn, tunnel.params)
            self._tunnel(tunnel)
            real = (time.monotonic() - started) / expected_s(tunnel, self.settings.profile)
            self._pace += 0.1 * (real - self._pace)

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
        left = self._need_s(self._rest)
        if self.settings.deadline is not None:
            left = min(left, self.settings.deadline - time.monotonic())
        return max(0.0, left)

    def _tunnel(self, tunnel: PlannedTunnel) -> None:
        """One tunnel in a lab of its own: all its trials end in the store, whatever happens."""
        vpn, folder, waiting = self.vpns[tunnel.vpn], self.store.logs(tunnel.name), list(tunnel.trials)
        if not any(trial.instrument.needs_tunnel for trial in waiting):
            return self._on_paper(vpn, tunnel, folder)
        with Builder(vpn, tunnel, self.settings, self._shared, folder) as builder:
            try:
                bench = builder.bench()
                while waiting:
                    self.watcher.measuring(waiting[0])
                    usable = self._measure(bench, waiting[0], folder)
                    waiting.pop(0)
                    if waiting and not usable:
                        bench.renew()
            except LabError as broken:
                for planned in waiting:
                    self._records.write(planned, status="lab_error", reason=str(broken), log=self._log(folder))
                raise
            except OSError as error:
                if is_full(error):
                    raise LabError(f"the disk is full: {error}") from error
                self._fail(waiting, error, folder)
            except Exception as error:  # the one broad except: a failing VPN never stops the sweep
                self._fail(waiting, error, folder)

    def _measure(self, bench: Bench, planned: Planned, folder: Path) -> bool:
        """One trial inside the tunnel. A failed measurement fails this trial only. Is the tunnel still usable?"""
        cell, up, log = planned.cell, bench.tunnel, self._log(folder)
        if cell.key in self._too_long:
            return True  # told once
        started, quiet = time.monotonic(), noise.snapshot()
        slices = Slices(planned.id)
        try:
            measured = play(planned.instrument.measure(bench, self._asked(planned)), slices.add)
            self._records.check(planned, measured)
        except TooLongError as refused:
            self._too_long.add(cell.key)
            self._records.write(planned, up, status="unsupported", reason=str(refused), log=log, started=started)
            return True
        except (MeasurementError, CommandError, TimeoutError) as error:
            around = noise.since(quiet)
            check_alive(bench.lab)
            reason, usable = str(error), bench.carries_payload()
            if not usable:
                check_alive(bench.lab)  # that a node is gone shows at its interfaces first, then at its process
                reason += f"; the tunnel carries no payload any more{tail(folder)}"
            spent = Measured(measuring_s=time.monotonic() - started, warnings=noise.warnings(around, loaded=False))
            spent.attempt = error.attempt if isinstance(error, MeasurementError) else {}
            self._records.write(
                planned,
                up,
                measured=spent,
                status="failed",
                reason=reason,
                log=log,
                started=started,
                around=around,
                slices=slices.rows,
            )
            return usable
        except (LabError, ProofError):  # the lab is broken, or the tunnel could not be made anew
            raise
        except (Exception, SystemExit) as error:
            if is_full(error):
                raise
            self._records.write(
                planned,
                up,
                status="failed",
                reason=blamed(planned.instrument, error),
                log=log,
                started=started,
                around=noise.since(quiet),
                slices=slices.rows,
            )
            return False  # nobody knows what it left behind: the next trial gets another tunnel
        around = noise.since(quiet)
        measured.warnings += noise.warnings(around, loaded=planned.instrument.full_load)
        self._records.write(planned, up, measured=measured, log=log, started=started, around=around, slices=slices.rows)
        return not planned.instrument.spends_tunnel

    def _asked(self, planned: Planned) -> Asked:
        seed = self.settings.seed * 1000 + planned.repetition
        known_bps = self._records.known_bps.get(planned.cell.key)
        return Asked(self.vpns[planned.cell.vpn], planned.cell.params, self.settings.profile, seed, known_bps)

    def _on_paper(self, vpn: Vpn, tunnel: PlannedTunnel, folder: Path) -> None:
        """Trials that count what a plugin writes down, and need no tunnel; the recipe is their log."""
        for planned in tunnel.trials:
            try:
                write_text(folder / "recipe.txt", recipe(vpn, tunnel_levels(tunnel.params)))
                no_bench = cast(Bench, None)  # what needs no tunnel does not look at one
                measured = at_once(planned.instrument.measure(no_bench, self._asked(planned)))
                self._records.check(planned, measured)
            except (Exception, SystemExit) as error:  # as in _tunnel: a failing plugin never stops the sweep
                self._fail([planned], error, folder)
            else:
                self._records.write(planned, measured=measured, log=self._log(folder))

    def _fail(self, waiting: Sequence[Planned], error: Exception | SystemExit, folder: Path) -> None:
        what = str(error) or repr(error)
        reason = what if isinstance(error, VpnevalError | TimeoutError) else repr(error)
        proof = error.proof if isinstance(error, ProofError) else None
        for planned in waiting:
            self._records.write(
                planned, status="failed", reason=reason + tail(folder), log=self._log(folder), proof=proof
            )

    def _log(self, folder: Path) -> str:
        return str(folder.relative_to(self.store.folder))


def is_full(error: BaseException) -> bool:
    """Does it say that the disk is full?"""
    return isinstance(error, OSError) and error.errno == errno.ENOSPC


@dataclass
class Slices:
    """The slices of one trial as rows of the store, stamped with the time since the trial began."""

    trial: str
    rows: list[Slice] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def add(self, found: Found) -> None:
        """A slice has ended now, with what it found. It began when the one before it ended.

        Raises MeasurementError unless that is a mapping of names to finite numbers.
        """
        numbers = found.values() if isinstance(found, Mapping) else [None]
        if not all(isinstance(value, Real) and math.isfinite(value) for value in numbers):
            raise MeasurementError(f"a slice is a mapping of names to finite numbers, not {found!r}")
        at_s = self.rows[-1].at_s + self.rows[-1].duration_s if self.rows else 0.0
        duration_s = round(time.monotonic() - self.began - at_s, 4)
        number = len(self.rows) + 1
        self.rows.append(
            Slice(trial=self.trial, number=number, at_s=round(at_s, 4), duration_s=duration_s, values=found)
        )
