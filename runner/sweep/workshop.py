"""What every trial of a call is made with: labs, keys, records; and how a failure becomes a line of the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from runner.data.errors import InstrumentError, LabError, ProofError, VpnevalError
from runner.data.files import write_text
from runner.data.levels import tunnel_levels
from runner.data.store import FULL, Store
from runner.instruments.instrument import Asked, at_once
from runner.lab.machine import confined
from runner.lab.node.logs import tail
from runner.lab.shape.site_to_site import SITES
from runner.sweep.builder import Builder, Shared
from runner.sweep.call import Settings, Watcher
from runner.sweep.plan import Planned, PlannedTunnel
from runner.sweep.records import Records
from runner.sweep.underway import UnderWay
from runner.tunnel.bring_up import Bench
from runner.vpn.page import recipe
from runner.vpn.plugin import Vpn


@dataclass
class Workshop:
    """The means of one call of ``vpneval run``."""

    store: Store
    vpns: Mapping[str, Vpn]
    settings: Settings
    watcher: Watcher
    records: Records
    _shared: Shared = field(default_factory=Shared)
    _too_long: set[str] = field(default_factory=set)  # cells whose packets their tunnel does not carry
    _memory: dict[str, dict[str, Any]] = field(default_factory=dict)  # cell key -> what its repetitions have learnt

    def builder(self, tunnel: PlannedTunnel, folder: Path) -> Builder:
        """Builds the labs of a tunnel, whose logs are in ``folder``."""
        return Builder(self.vpns[tunnel.vpn], tunnel, self.settings, self._shared, folder)

    def asked(self, planned: Planned) -> Asked:
        """What an instrument is told of a trial."""
        cell, seed = planned.cell, self.settings.seed * 1000 + planned.repetition
        memory = self._memory.setdefault(cell.key, {})
        known_bps = self.records.known_bps.get(cell.key)
        return Asked(self.vpns[cell.vpn], cell.params, self.settings.profile, seed, known_bps, memory)

    def under_way(self, planned: Planned, bench: Bench, folder: Path) -> UnderWay:
        """The trial, ready for its first slice."""
        asked, log = self.asked(planned), self.log(folder)
        return UnderWay(planned, bench, asked, self.records, folder, log, self._too_long, planned.repetition)

    def fail(self, waiting: Sequence[Planned], error: BaseException, folder: Path) -> None:
        """Trials for which there is no tunnel, or no longer: their lines. Raises LabError where the lab is broken."""
        if isinstance(error, InstrumentError):
            for planned in waiting:
                self.records.write(planned, status="lab_error", reason=str(error), log=self.log(folder))
            return
        if isinstance(error, LabError):
            for planned in waiting:
                self.records.write(planned, status="lab_error", reason=str(error), log=self.log(folder))
            raise error
        if isinstance(error, OSError) and (is_full(error) or not self.store.is_there()):
            raise LabError(self.store.trouble(error)) from error
        what = str(error) or repr(error)
        reason = (what if isinstance(error, VpnevalError | TimeoutError) else repr(error)) + tail(folder)
        if self.settings.rig.stands != 1 and (why := confined(reason)):  # the labs are on this machine
            reason += f"\n{why}"
        proof = error.proof if isinstance(error, ProofError) else None
        for planned in waiting:
            self.records.write(planned, status="failed", reason=reason, log=self.log(folder), proof=proof)

    def on_paper(self, tunnel: PlannedTunnel, folder: Path) -> None:
        """Trials that count what a plugin writes down, and need no tunnel; the recipe is their log."""
        for planned in tunnel.trials:
            try:
                write_text(folder / "recipe.txt", recipe(self.vpns[tunnel.vpn], tunnel_levels(tunnel.params), SITES))
                no_bench = cast(Bench, None)  # what needs no tunnel does not look at one
                measured = at_once(planned.instrument.measure(no_bench, self.asked(planned)))
                self.records.check(planned, measured)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a failing plugin or instrument never stops the sweep
                self.fail([planned], error, folder)
            else:
                self.records.write(planned, measured=measured, log=self.log(folder))

    def log(self, folder: Path) -> str:
        """A log folder's name in the store."""
        return str(folder.relative_to(self.store.folder))


def is_full(error: BaseException) -> bool:
    """Does it say that the disk is full?"""
    return isinstance(error, OSError) and error.errno in FULL
