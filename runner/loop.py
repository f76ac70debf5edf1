"""The trial loop: probe, then block after block, tunnel after tunnel, trial after trial; nothing is dropped."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from runner.errors import CommandError, LabError, MeasurementError, ProofError, VpnevalError
from runner.experiment import Profile
from runner.image import Image
from runner.lab import SITES, Lab, check_alive, namespace_lab, shape
from runner.measure.idle import idle
from runner.measure.result import Measured
from runner.measure.tcp import tcp
from runner.measure.udp import udp
from runner.model import TRAFFIC_FACTORS, Cell, Proof, Status, Trial
from runner.plan import BASELINE, Planned, PlannedTunnel, blocks, expected_s, tunnel_levels
from runner.plugin import Unsupported, Vpn
from runner.store import Store
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


@dataclass
class Outcome:
    """What a call of the loop did."""

    measured: int = 0
    failed: int = 0
    trimmed: int = 0
    measuring_s: float = 0.0
    stopped: str = ""


@dataclass
class Loop:
    """One call of ``vpneval run``: it works through what is missing in the store."""

    store: Store
    vpns: Mapping[str, Vpn]
    cells: Sequence[Cell]
    settings: Settings
    watcher: Watcher
    experiments_of: Mapping[str, list[str]]  # cell key -> names of the experiments it belongs to
    outcome: Outcome = field(default_factory=Outcome)
    _secrets: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    _warm: dict[str, float] = field(default_factory=dict)
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
            tunnels = [tunnel for block in plan for tunnel in block]
            self.watcher.planned(sum(len(tunnel.trials) for tunnel in tunnels), self._left(tunnels))
            for block in plan:
                self._block(block, tunnels)
        except LabError as broken:
            self.outcome.stopped = str(broken)
        return self.outcome

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
            with namespace_lab(self.settings.image, image, logs=self.store.logs("probe")) as lab:
                answers: dict[tuple[str, ...], Unsupported | None] = {}
                for cell in cells:
                    vpn, levels = self.vpns[cell.vpn], tunnel_levels(cell.params)
                    key = (cell.vpn, *levels.values())
                    if key not in answers:
                        answers[key] = unsupported(lab, vpn, levels)
                    no = answers[key] or self._traffic_refused(vpn, cell)
                    if no:
                        found.add(cell.key)
                        self._record(Planned(cell, 1), status="unsupported", reason=no.reason)
        return found

    def _images(self) -> dict[str, Image]:
        return {"": self.settings.image, **self.settings.gateway_images}

    @staticmethod
    def _traffic_refused(vpn: Vpn, cell: Cell) -> Unsupported | None:
        if vpn.carries == "tcp" and cell.params["transport"] == "udp":
            return Unsupported(f"{vpn.title} carries TCP only")
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
        image_name = tunnel.params.get("image", "")
        with (folder / "commands.log").open("w", buffering=1) as commands, ExitStack() as labs:

            def fresh() -> tuple[Lab, Tunnel]:
                """A new lab with the tunnel up in it; the one before goes."""
                labs.close()
                images = self.settings.image, self._images()[image_name]
                lab = labs.enter_context(namespace_lab(*images, say, folder))
                if self.settings.profile.wan_rate_bps:
                    shape(lab, self.settings.profile.wan_rate_bps)
                start_services(lab)
                return lab, bring_up(lab, vpn, tunnel_levels(tunnel.params), secrets)

            def say(line: str) -> None:
                commands.write(line + "\n")

            try:
                secrets = self._keys(vpn, image_name, say)
                bench = Bench(*fresh(), fresh)
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
                scrub(folder, self._secrets.get((vpn.name, image_name), {}))

    def _keys(self, vpn: Vpn, image_name: str, say: Callable[[str], object]) -> dict[str, str]:
        """The VPN's secrets of this call, made at first use on a node without a network. Only in memory."""
        key = (vpn.name, image_name)
        if key not in self._secrets:
            self._secrets[key] = make_secrets(vpn, self._images()[image_name], SITES, say)
        return self._secrets[key]

    def _measure(self, bench: Bench, planned: Planned, log: str, rest: Sequence[PlannedTunnel]) -> bool:
        """One trial inside the tunnel. A failed measurement fails this trial only. Is the tunnel still usable?"""
        started = time.monotonic()
        params, profile = planned.cell.params, self.settings.profile
        up = bench.tunnel
        try:
            match params["transport"]:
                case "tcp":
                    how = int(params["streams"]), params["direction"], params["payload"]
                    measured = tcp(bench.lab, up.address, profile.duration_s, *how)
                case "udp":
                    measured = self._udp(bench, planned)
                case "idle":
                    measured = idle(bench.lab, up.address, profile.rtt_s, up.setup_s)
                case other:
                    raise AssertionError(f"nobody measures the traffic {other}")
        except (MeasurementError, CommandError, TimeoutError) as error:
            check_alive(bench.lab)
            reason, usable = str(error), bench.carries_payload()
            if not usable:
                reason += f"; the tunnel carries no payload any more{tail(self.store.folder / log)}"
            spent = Measured(measuring_s=time.monotonic() - started)
            self._record(planned, up, measured=spent, status="failed", reason=reason, log=log, started=started)
            return usable
        self._record(planned, up, measured=measured, log=log, started=started, rest=rest)
        return True

    def _udp(self, bench: Bench, planned: Planned) -> Measured:
        """The search starts where an earlier repetition ended. The first starts from overload, except through a
        tunnel that is itself TCP: overload breaks OpenSSH's, so that it starts at half the TCP throughput."""
        search, profile = self.settings.profile.udp, self.settings.profile
        first_bps = self._warm.get(planned.cell.key)
        if first_bps is not None and profile.warm_budget_s is not None:
            search = replace(search, budget_s=profile.warm_budget_s)
        elif first_bps is None and self.vpns[planned.cell.vpn].transport == "tcp":
            pilot = tcp(bench.lab, bench.address, 1, 1, "forward", "random")
            first_bps = pilot.measurements[0].value / 2
        seed = self.settings.seed * 1000 + planned.repetition
        payload_bytes = int(planned.cell.params["payload_bytes"])
        try:
            return udp(bench, payload_bytes, search, first_bps, seed)
        except MeasurementError as nothing:
            if search == profile.udp or not bench.carries_payload():
                raise
            # The little time that a warm start gets was not enough: once more, with all of it.
            measured = udp(bench, payload_bytes, profile.udp, first_bps, seed)
            measured.warnings.append(f"searched twice, first: {nothing}")
            return measured

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
            measurements=measured.measurements,
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

    def _implausible(self, planned: Planned, measured: Measured) -> list[str]:
        """A VPN that is faster than this block's plain IP is a warning."""
        if planned.cell.vpn == BASELINE:
            return []
        for baseline in self.store.trials:
            same = {name: baseline.params.get(name) for name in TRAFFIC_FACTORS}
            mine = {name: planned.cell.params.get(name) for name in TRAFFIC_FACTORS}
            if baseline.vpn == BASELINE and baseline.repetition == planned.repetition and same == mine:
                return faster_than(baseline, measured)
        return []


def faster_than(baseline: Trial, measured: Measured) -> list[str]:
    """Warnings for throughputs that exceed the baseline's by more than the noise that is usual."""
    plain = {found.metric: found.value for found in baseline.measurements if found.metric.endswith("throughput")}
    return [
        f"{found.metric} is {found.value / plain[found.metric]:.2f} times the baseline's: not plausible"
        for found in measured.measurements
        if found.metric in plain and found.value > FASTER_THAN_BASELINE * plain[found.metric]
    ]


def tail(folder: Path, lines: int = 4) -> str:
    """The last lines of the gateways' daemon logs, for the reason of a failure."""
    said = []
    for path in sorted(folder.glob("gw*.log")):
        last = [line for line in path.read_text(errors="replace").splitlines() if line.strip()][-lines:]
        if last:
            said.append(f"{path.name}: " + " / ".join(line.strip()[:200] for line in last))
    return "\n" + "\n".join(said) if said else ""


def scrub(folder: Path, secrets: Mapping[str, str]) -> None:
    """Replace any secret that a daemon wrote into its log by its name. None should be there; this makes sure."""
    private = {name: text.strip() for name, text in secrets.items() if name.endswith(".key") and len(text) > 16}
    for path in folder.glob("*.log"):
        text = path.read_text(errors="replace")
        clean = text
        for name, value in private.items():
            clean = clean.replace(value, f"<{name}>")
        if clean != text:
            path.write_text(clean)
