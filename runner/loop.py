"""The trial loop: probe, then block after block, tunnel after tunnel, trial after trial; nothing is dropped."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from runner import noise, traffic, wan
from runner.errors import CommandError, LabError, MeasurementError, ProofError, VpnevalError
from runner.experiment import Profile
from runner.failures import prepare
from runner.image import Image
from runner.lab import SITES, Lab, check_alive
from runner.labs import NamespaceRig, Rig
from runner.logs import scrub, tail
from runner.measure.mtu import TooLongError
from runner.measure.result import Measured
from runner.model import TRAFFIC_FACTORS, WAN_FACTORS, Cell, Noise, Proof, Status, Trial
from runner.operations import operations
from runner.plan import BASELINE, Planned, PlannedTunnel, block, blocks, expected_s, tunnel_levels
from runner.plugin import Site, Unsupported, Vpn
from runner.recipe import recipe
from runner.store import Store
from runner.topologies import Topology, topology_lab
from runner.tunnel import Bench, Tunnel, bring_up, make_secrets, start_services, unsupported

FASTER_THAN_BASELINE = 1.05  # beyond this a VPN that beats plain IP is a warning, not good news


class Watcher(Protocol):
    """Who is told how the run goes: the live display, or plain lines."""

    def planned(self, trials: int, expected_s: float) -> None: ...
    def tunnel(self, repetition: int, vpn: str, params: Mapping[str, str]) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def finished(self, trial: Trial, remaining_s: float) -> None: ...
    def say(self, text: str) -> None: ...


@dataclass
class Settings:
    """What a run is made with."""

    profile: Profile
    repetitions: int
    seed: int
    image: Image
    gateway_images: Mapping[str, Image]
    retry_failed: bool = False
    deadline: float | None = None  # time.monotonic() at which the run should have ended
    most_repetitions: int | None = None  # for --until-significant; None where the deadline alone ends it
    rig: Rig = field(default_factory=NamespaceRig)  # where the labs are set up


@dataclass
class Outcome:
    """What a call of the loop did."""

    measured: int = 0
    failed: int = 0
    trimmed: int = 0
    measuring_s: float = 0.0
    stopped: str = ""
    separation: str = ""  # what --until-significant came to


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
    _secrets: dict[tuple[str, str, bool, int], dict[str, str]] = field(default_factory=dict)
    _warm: dict[str, float] = field(default_factory=dict)
    _probed: dict[wan.Conditions, str] = field(default_factory=dict)
    _too_long: set[str] = field(default_factory=set)  # cells whose packets their tunnel does not carry
    _pace: float = 1.0  # real against expected time, learnt as we go

    def run(self) -> Outcome:
        """Measure what is missing. Returns when all is done, the deadline is reached, or the lab broke."""
        seen = {trial.id: trial for trial in self.store.trials}
        retry = self.settings.retry_failed
        done = {name for name, trial in seen.items() if trial.status in ("ok", "unsupported") or not retry}
        done -= {name for name, trial in seen.items() if trial.status == "lab_error"}
        hopeless = {trial.cell for trial in seen.values() if trial.status == "unsupported"}
        for trial in seen.values():
            self._remember(trial)
        try:
            hopeless |= self.probe({trial.cell for trial in seen.values()})
            plan = blocks(self.cells, self.settings.repetitions, self.settings.seed, done, hopeless)
            tunnels = [tunnel for planned in plan for tunnel in planned]
            self.watcher.planned(sum(len(tunnel.trials) for tunnel in tunnels), self._left(tunnels))
            for planned in plan:
                self._block(planned, tunnels)
            if self.next_cells:
                self.outcome.separation = self._until_separated(self.next_cells, hopeless)
        except LabError as broken:
            self.outcome.stopped = str(broken)
        return self.outcome

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
            need_s = self._pace * sum(expected_s(tunnel, settings.profile) for tunnel in tunnels)
            late = settings.deadline is not None and time.monotonic() + need_s > settings.deadline
            most = settings.most_repetitions is not None and measured >= settings.most_repetitions
            if late or most or not tunnels:
                why = "deadline" if late else "limit of repetitions" if most else "lack of anything to measure"
                return f"after {measured} blocks, ended by the {why}, still in doubt: {'; '.join(doubts)}"
            self.watcher.say(f"block {measured + 1}, because still in doubt: {'; '.join(doubts)}")
            self.watcher.planned(sum(len(tunnel.trials) for tunnel in tunnels), self._left(tunnels))
            self._block(list(tunnels), tunnels)

    def probe(self, known: set[str]) -> set[str]:
        """Ask every VPN, live on a gateway, what it can do here; what it cannot becomes `unsupported` trials.

        Cells in ``known`` have trials already. Returns the keys of the cells that cannot be measured.
        """
        found: set[str] = set()
        for image_name, image in self._images().items():
            cells = [cell for cell in self.cells if cell.params.get("image", "") == image_name]
            cells = [cell for cell in cells if cell.key not in known]
            if not cells:
                continue
            with self.settings.rig.lab(self.settings.image, image, logs=self.store.logs("probe")) as lab:
                answers: dict[tuple[str, ...], Unsupported | None] = {}
                wans: dict[wan.Conditions, Unsupported | None] = {}
                for cell in cells:
                    vpn, levels = self.vpns[cell.vpn], tunnel_levels(cell.params)
                    key = (cell.vpn, *levels.values())
                    if on_paper(cell):
                        if no := Vpn.supports(vpn, lab.gateway(lab.sites[0]), levels):
                            found.add(cell.key)
                            self._record(Planned(cell, 1), status="unsupported", reason=no.reason)
                        continue
                    if key not in answers:
                        answers[key] = unsupported(lab, vpn, levels)
                    underlay = wan.conditions(cell.params, self.settings.profile.wan_rate_bps)
                    if underlay not in wans:
                        wans[underlay] = wan.unsupported(lab, underlay)
                    no = answers[key] or wans[underlay] or self._traffic_refused(vpn, cell)
                    no = no or prepare.refused(lab, vpn, cell.params)
                    if no:
                        found.add(cell.key)
                        self._record(Planned(cell, 1), status="unsupported", reason=no.reason)
        return found

    def _images(self) -> dict[str, Image]:
        return {"": self.settings.image, **self.settings.gateway_images}

    @staticmethod
    def _traffic_refused(vpn: Vpn, cell: Cell) -> Unsupported | None:
        if vpn.carries == "tcp" and cell.params["transport"] in ("udp", "packets", "overhead", "mtu", "duplex"):
            return Unsupported(f"{vpn.title} carries TCP only")
        if cell.params["transport"] == "rekey" and cell.params["rekey"] not in vpn.rekeys:
            return Unsupported(f"{vpn.title} has no command that asks for new keys ({cell.params['rekey']})")
        if cell.params["transport"] == "device" and vpn.name != BASELINE:
            return Unsupported("100 MB through ssh is measured without any VPN")
        return None

    def _block(self, block: Sequence[PlannedTunnel], tunnels: list[PlannedTunnel]) -> None:
        for tunnel in block:
            tunnels.remove(tunnel)
            if self._too_late(tunnel, block):
                self.outcome.trimmed += len(tunnel.trials)
                continue
            started = time.monotonic()
            self.watcher.tunnel(tunnel.trials[0].repetition, tunnel.vpn, tunnel.params)
            self._tunnel(tunnel, tunnels)
            real = (time.monotonic() - started) / expected_s(tunnel, self.settings.profile)
            self._pace += 0.1 * (real - self._pace)

    def _too_late(self, tunnel: PlannedTunnel, block: Sequence[PlannedTunnel]) -> bool:
        """Would this tunnel end after the deadline? The block's last baseline keeps its place."""
        if self.settings.deadline is None:
            return False
        last = [other for other in block if other.trials[0].position == "last" and other is not tunnel]
        need = self._pace * sum(expected_s(other, self.settings.profile) for other in [tunnel, *last])
        return time.monotonic() + need > self.settings.deadline

    def _left(self, tunnels: Sequence[PlannedTunnel]) -> float:
        left = self._pace * sum(expected_s(tunnel, self.settings.profile) for tunnel in tunnels)
        if self.settings.deadline is not None:
            left = min(left, self.settings.deadline - time.monotonic())
        return max(0.0, left)

    def _tunnel(self, tunnel: PlannedTunnel, rest: Sequence[PlannedTunnel]) -> None:
        """One tunnel in a lab of its own: all its trials end in the store, whatever happens."""
        vpn = self.vpns[tunnel.vpn]
        folder = self.store.logs(tunnel.name)
        log = str(folder.relative_to(self.store.folder))
        waiting = list(tunnel.trials)
        if all(on_paper(trial.cell) for trial in waiting):
            return self._on_paper(vpn, tunnel, folder)
        image_name = tunnel.params.get("image", "")
        underlay: dict[str, str] = {}
        probed_only = all(trial.cell.params["transport"] == "security" for trial in waiting)
        with (folder / "commands.log").open("w", buffering=1) as commands, ExitStack() as labs:

            def bare() -> Lab:
                """A new lab without a tunnel; the one before goes."""
                labs.close()
                images = self.settings.image, self._images()[image_name]
                lab = labs.enter_context(prepare.lab_for(self.settings.rig, tunnel.params, *images, say, folder))
                underlay.update(self._underlay(lab, tunnel.params))
                start_services(lab)
                return lab

            def fresh() -> tuple[Lab, Tunnel]:
                """A new lab with the tunnel up in it; the one before goes."""
                lab = bare()
                one, levels = prepare.prepared(vpn, tunnel.params), tunnel_levels(tunnel.params)
                up = bring_up(lab, one, levels, secrets, judged=not probed_only)
                return lab, replace(up, evidence=up.evidence.model_copy(update={"facts": up.evidence.facts | underlay}))

            def keys(others: bool) -> dict[str, str]:
                return self._keys(vpn, image_name, say, others=others)

            def keys_of(sites: Sequence[Site]) -> dict[str, str]:
                return self._keys(vpn, image_name, say, sites=sites)

            def meshes(topology: Topology) -> AbstractContextManager[Lab]:
                images = self.settings.image, self._images()[image_name]
                return topology_lab(topology, *images, say, folder)

            def say(line: str) -> None:
                commands.write(line + "\n")

            try:
                secrets = self._keys(vpn, image_name, say)
                bench = Bench(*fresh(), fresh, bare=bare, keys=keys, keys_of=keys_of)
                bench.meshes = meshes if bench.lab.kind == "netns" else None
                while waiting:
                    self.watcher.measuring(waiting[0])
                    usable = self._measure(bench, waiting[0], log, rest)
                    waiting.pop(0)
                    if waiting and not usable:
                        bench.renew()
            except LabError as broken:
                for planned in waiting:
                    self._record(planned, status="lab_error", reason=str(broken), log=log)
                raise
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise LabError(f"the disk is full: {error}") from error
                self._fail(waiting, error, folder, log)
            except Exception as error:  # the one broad except: a failing VPN never stops the sweep
                self._fail(waiting, error, folder, log)
            finally:
                for (name, *_), known in self._secrets.items():
                    if name == vpn.name:
                        scrub(folder, known)

    def _on_paper(self, vpn: Vpn, tunnel: PlannedTunnel, folder: Path) -> None:
        """Trials that count what a plugin writes down, and need no tunnel; the recipe is their log."""
        levels, log = tunnel_levels(tunnel.params), str(folder.relative_to(self.store.folder))
        for planned in tunnel.trials:
            try:
                (folder / "recipe.txt").write_text(recipe(vpn, levels))
                measured = operations(vpn, levels)
            except Exception as error:  # as in _tunnel: a failing plugin never stops the sweep
                self._fail([planned], error, folder, log)
            else:
                self._record(planned, measured=measured, log=log)

    def _underlay(self, lab: Lab, params: Mapping[str, str]) -> dict[str, str]:
        """Set the WAN's conditions, and probe them once a run; what the probe found, as a fact of the evidence."""
        wanted = wan.conditions(params, self.settings.profile.wan_rate_bps)
        if wanted == wan.Conditions() or prepare.topology_of(params):  # another topology has another WAN
            return {}
        wan.apply(lab, wanted)
        if wanted not in self._probed:
            self._probed[wanted] = wan.verify(lab, wanted)
        return {"wan": self._probed[wanted]}

    def _keys(
        self,
        vpn: Vpn,
        image_name: str,
        say: Callable[[str], object],
        *,
        others: bool = False,
        sites: Sequence[Site] = SITES,
    ) -> dict[str, str]:
        """The VPN's secrets of this call, made at first use on a node without a network; or others, which a stranger
        could have made in the same way. Only in memory."""
        key = (vpn.name, image_name, others, len(sites))
        if key not in self._secrets:
            alone = self.settings.rig.alone(self._images()[image_name], say)
            self._secrets[key] = make_secrets(vpn, alone, sites)
        return self._secrets[key]

    def _measure(self, bench: Bench, planned: Planned, log: str, rest: Sequence[PlannedTunnel]) -> bool:
        """One trial inside the tunnel. A failed measurement fails this trial only. Is the tunnel still usable?"""
        started, quiet = time.monotonic(), noise.snapshot()
        params, up = planned.cell.params, bench.tunnel
        if planned.cell.key in self._too_long:
            return True  # told once
        try:
            seed = self.settings.seed * 1000 + planned.repetition
            asked = traffic.Asked(params, self.settings.profile, seed, self._warm.get(planned.cell.key))
            measured = traffic.measure(bench, self.vpns[planned.cell.vpn], asked)
        except TooLongError as refused:
            self._too_long.add(planned.cell.key)
            self._record(planned, up, status="unsupported", reason=str(refused), log=log, started=started)
            return True
        except (MeasurementError, CommandError, TimeoutError) as error:
            around = noise.since(quiet)
            check_alive(bench.lab)
            reason, usable = str(error), bench.carries_payload()
            if not usable:
                reason += f"; the tunnel carries no payload any more{tail(self.store.folder / log)}"
            spent = Measured(measuring_s=time.monotonic() - started)
            spent.warnings += noise.warnings(around, loaded=False)
            spent.attempt = error.attempt if isinstance(error, MeasurementError) else {}
            self._record(
                planned, up, measured=spent, status="failed", reason=reason, log=log, started=started, around=around
            )
            return usable
        around = noise.since(quiet)
        measured.warnings += noise.warnings(around, loaded=params["transport"] == "tcp")
        self._record(planned, up, measured=measured, log=log, started=started, rest=rest, around=around)
        return params["transport"] != "security"  # its probes use the tunnel up

    def _fail(self, waiting: Sequence[Planned], error: Exception, folder: Path, log: str) -> None:
        what = str(error) or repr(error)
        reason = what if isinstance(error, VpnevalError | TimeoutError) else repr(error)
        for planned in waiting:
            proof = error.proof if isinstance(error, ProofError) else None
            self._record(planned, status="failed", reason=reason + tail(folder), log=log, proof=proof)

    def _record(
        self,
        planned: Planned,
        up: Tunnel | None = None,
        *,
        measured: Measured | None = None,
        status: Status = "ok",
        reason: str = "",
        log: str = "",
        started: float | None = None,
        rest: Sequence[PlannedTunnel] = (),
        proof: Proof | None = None,
        around: Noise | None = None,
    ) -> None:
        """Write one trial's line and tell the watcher."""
        measured = measured or Measured()
        self.outcome.measuring_s += measured.measuring_s
        duration_s = 0.0 if started is None else time.monotonic() - started
        trial = Trial(
            id=planned.id,
            vpn=planned.cell.vpn,
            params=planned.cell.params,
            repetition=planned.repetition,
            position=planned.position,
            experiments=self.experiments_of.get(planned.cell.key, []),
            status=status,
            reason=reason,
            encrypted=bool(up and up.proof.confidential_promised and not up.proof.marker_on_wan),
            warnings=measured.warnings + self._implausible(planned, measured),
            started_at=(datetime.now(UTC) - timedelta(seconds=duration_s)).isoformat(timespec="milliseconds"),
            duration_s=round(duration_s, 3),
            measuring_s=round(measured.measuring_s, 3),
            log=log,
            evidence=up.evidence if up else None,
            proof=up.proof if up else proof,
            noise=around,
            attempt=measured.attempt,
            measurements=measured.measurements,
            timelines=measured.timelines,
        )
        self.store.append(trial)
        self._remember(trial)
        self.outcome.measured += status == "ok"
        self.outcome.failed += status in ("failed", "lab_error")
        self.watcher.finished(trial, self._left(rest))

    def _remember(self, trial: Trial) -> None:
        """Keep what later trials need: where a search should start."""
        for found in trial.measurements:
            if found.metric == "udp_throughput":
                self._warm[trial.cell] = found.value
            if found.metric in ("packet_rate", "packet_rate_both_ways"):
                self._warm[trial.cell] = found.value * 8 * int(trial.params["packet_bytes"])

    def _implausible(self, planned: Planned, measured: Measured) -> list[str]:
        """A VPN that is faster than this block's plain IP is a warning."""
        if planned.cell.vpn == BASELINE:
            return []
        for baseline in self.store.trials:
            same = {name: baseline.params.get(name) for name in (*TRAFFIC_FACTORS, *WAN_FACTORS)}
            mine = {name: planned.cell.params.get(name) for name in (*TRAFFIC_FACTORS, *WAN_FACTORS)}
            if baseline.vpn == BASELINE and baseline.repetition == planned.repetition and same == mine:
                return faster_than(baseline, measured)
        return []


def on_paper(cell: Cell) -> bool:
    """Is it counted from what the plugin writes down, whatever this machine can run?"""
    return cell.params["transport"] == "operations"


def faster_than(baseline: Trial, measured: Measured) -> list[str]:
    """Warnings for throughputs that exceed the baseline's by more than the noise that is usual."""
    plain = {found.metric: found.value for found in baseline.measurements if found.metric.endswith("throughput")}
    return [
        f"{found.metric} is {found.value / plain[found.metric]:.2f} times the baseline's: not plausible"
        for found in measured.measurements
        if found.metric in plain and found.value > FASTER_THAN_BASELINE * plain[found.metric]
    ]
