"""Builds the tunnels to measure on: keys, lab, WAN, daemons; makes them anew where a trial has used them up, and writes
down the trials that have no tunnel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from runner.data.errors import CommandError, InstrumentError, LabError, MeasurementError, ProofError, VpnevalError
from runner.data.files import open_file, write_text
from runner.data.foreign import caught
from runner.data.levels import Params, tunnel_levels
from runner.data.store import DISK, Store
from runner.data.trials import Cell
from runner.data.wan import Conditions, conditions
from runner.instruments.instrument import Asked, at_once
from runner.instruments.result import Measured
from runner.lab.machine import apparmor_hint
from runner.lab.node.logs import tail
from runner.lab.node.probing import own_fault
from runner.lab.readings.awake import Awake
from runner.lab.readings.wan import verify
from runner.lab.redaction import hide, is_public
from runner.lab.shape import wan
from runner.lab.shape.site import Site, helper_site, peers_of
from runner.lab.shape.site_to_site import SITES, Lab, check_alive, over_ipv6
from runner.lab.shape.topologies import Topology, topology_lab
from runner.lab.software.checksums import damage
from runner.lab.software.image import Image
from runner.sweep import cpu_quota, crypto_driver
from runner.sweep.plan import Planned, PlannedTunnel
from runner.sweep.records import Records
from runner.sweep.running_trial import RunningTrial
from runner.sweep.settings import Stage, Watcher
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, no_second_lab, start_services
from runner.vpn.page import recipe
from runner.vpn.plugin import Vpn


@dataclass
class Shared:
    """What the tunnels of one call share: the keys, kept only in memory, and the results of probing the WAN's
    conditions."""

    secrets: dict[tuple[str, str, bool, int], dict[str, str]] = field(default_factory=dict)
    probed: dict[Conditions, str] = field(default_factory=dict)


class TunnelBuilder:
    """Builds the labs of one planned tunnel, one at a time, and everything in them. Ends with its ``with`` block."""

    def __init__(self, vpn: Vpn, planned: PlannedTunnel, stage: Stage, shared: Shared, folder: Path) -> None:
        self.vpn, self.params, self.stage, self.shared, self.folder = vpn, planned.params, stage, shared, folder
        self.planned = planned
        self.instrument = planned.trials[0].instrument  # they share a lab, and so what it is like
        self.image_name = planned.params.get("image", "")
        # Security's probes say themselves that there is plaintext on the WAN: the proof leaves it to them.
        self.judged = not all(trial.instrument.finds_plaintext for trial in planned.trials)
        self._labs, self._underlay = ExitStack(), dict[str, str]()
        self._benches: list[Bench] = []
        self.keeps_files = True  # in configuration.txt; the same tunnel once more has the same

    def __enter__(self) -> TunnelBuilder:
        self._commands = open_file(self.folder / "commands.log", "w", buffering=1)
        return self

    def __exit__(self, *_: object) -> None:
        """Take the lab down."""
        with self._commands, self._labs:
            for bench in self._benches:
                bench.close()

    def bench(self) -> Bench:
        """Make the keys, the lab and the tunnel that the trials are measured on. Raises what ``bring_up`` raises, and
        LabError."""
        self._keys()
        lab, tunnel = self._tunnel()
        made = Bench(
            lab,
            tunnel,
            self._tunnel,
            bare=self._lab,
            keys=self._keys,
            meshes=self._mesh if lab.kind == "netns" else no_second_lab,
            another=self._another if self.stage.rig.stands != 1 else None,
        )
        self._benches.append(made)
        return made

    @contextmanager
    def _another(self) -> Iterator[Bench]:
        """Bring the same tunnel up once more, in a lab of its own beside this one."""
        number = len([*self.folder.glob("again-*")]) + 1
        folder = self.folder / f"again-{number}"
        folder.mkdir()
        with TunnelBuilder(self.vpn, self.planned, self.stage, self.shared, folder) as other:
            other.keeps_files = False
            yield other.bench()

    def _lab(self) -> Lab:
        """Make a new lab without a tunnel, in the place of the lab before."""
        self._labs.close()
        self._hold = self._labs.enter_context(cpu_quota.quota(self.params))
        making = self.instrument.lab(self.stage.rig, self.vpn, self.params, *self._images, self._say, self.folder)
        lab = self._labs.enter_context(making)
        self._address(lab)
        crypto_driver.set_driver(lab, self.vpn, self.params)
        self._set_wan(lab)
        start_services(lab)
        return lab

    def _tunnel(self) -> tuple[Lab, Tunnel]:
        """Make a new lab with the tunnel up in it, in the place of the lab before. Tries once more where a measuring
        program died."""
        with suppress(InstrumentError):
            return self._once_up()
        return self._once_up()

    def _once_up(self) -> tuple[Lab, Tunnel]:
        lab = self._lab()
        beside = {factor: self.params[factor] for factor in ("driver", "inner") if factor in self.params}
        levels = tunnel_levels(self.params) | beside | self.instrument.asks(self.params)
        keys, awake = self._keys(), Awake(lab)
        try:
            self._keep_files(lab, levels, keys)
            up = bring_up(lab, self.vpn, levels, keys, judged=self.judged)
            awake.refuse()
        except (VpnevalError, TimeoutError) as error:
            check_alive(lab)  # where a node is gone, whatever follows from that is no fault of the VPN's
            awake.refuse()
            if own_fault(error, [site.name for site in lab.sites]):
                raise InstrumentError(str(error)) from error
            raise
        varied = crypto_driver.driver_said(lab, self.vpn, self.params) | self._hold(lab)
        facts = up.evidence.facts | self._underlay | varied
        return lab, replace(up, evidence=up.evidence.model_copy(update={"facts": facts}))

    def _keep_files(self, lab: Lab, levels: Params, keys: Mapping[str, str]) -> None:
        """Write configuration.txt: the contents of the plugin's files on each gateway and beside them, with names in
        the place of secrets."""
        path = self.folder / "configuration.txt"
        if not self.keeps_files or path.exists():
            return
        private = {text.strip(): f"<{name}>" for name, text in keys.items() if not is_public(name, text)}
        files = {me.name: self.vpn.render(me, peers_of(me, lab.sites), levels, keys) for me in lab.sites}
        if name := self.vpn.beside:
            files[name] = self.vpn.render_beside(helper_site(lab.sites[0], name), lab.sites, levels, keys)
        with open_file(path, "w") as kept:
            for node, texts in files.items():
                for name, text in texts.items():
                    for secret, named in private.items():  # whole, with the lines around a key, which are no secret
                        text = text.replace(secret, named)
                    kept.write(hide(f"[{node}] {name}\n{text.rstrip()}\n\n"))

    @contextmanager
    def _mesh(self, topology: Topology) -> Iterator[Lab]:
        with topology_lab(topology, *self._images, self._say, self.folder) as lab:
            self._address(lab)
            yield lab

    def _address(self, lab: Lab) -> None:
        if self.params.get("underlay") == "6":
            over_ipv6(lab)

    def _set_wan(self, lab: Lab) -> None:
        """Set the WAN's conditions, and probe them once in a run. The result of the probe is a fact of the evidence."""
        wanted = conditions(self.params, self.stage.profile.wan_rate_bps)
        if wanted == Conditions() or self.instrument.own_wan(self.params):  # another topology has another WAN
            return
        wan.apply(lab, wanted)
        if wanted not in self.shared.probed:
            self.shared.probed[wanted] = verify(lab, wanted)
        self._underlay["wan"] = self.shared.probed[wanted]

    def _keys(self, *, others: bool = False, sites: Sequence[Site] = (), lasts_s: int = 0) -> dict[str, str]:
        """The VPN's secrets of this call, made at first use on a node without a network; ``others``: different secrets,
        as a stranger could have made them. Those that expire after ``lasts_s`` are made each time."""
        sites = sites or self.stage.rig.sites
        key = (self.vpn.name, self.image_name, others, len(sites))
        if lasts_s:
            self.shared.secrets.pop(key := (*key[:2], True, -lasts_s), None)
        if key not in self.shared.secrets:
            output = list[str]()
            alone = self.stage.rig.alone(self._images[1], output.append)
            try:
                self.shared.secrets[key] = make_secrets(self.vpn, alone, sites, lasts_s)
            finally:
                for line in output:  # without the keys, nobody knows which of the words are keys
                    self._say(hide(line) if key in self.shared.secrets else " ".join(line.split()[:2]))
        return self.shared.secrets[key]

    @property
    def _images(self) -> tuple[Image, Image]:
        """The image of the hosts and the WAN, and that of the gateways."""
        return self.stage.image, self.stage.images[self.image_name]

    def _say(self, line: str) -> None:
        self._commands.write(line + "\n")


@dataclass
class RunContext:
    """What the trials of one ``vpneval run`` need: store, plugins, stage, watcher and records."""

    store: Store
    vpns: Mapping[str, Vpn]
    stage: Stage
    watcher: Watcher
    records: Records
    _shared: Shared = field(default_factory=Shared)
    _too_long: set[str] = field(default_factory=set)  # cells whose packets their tunnel does not carry
    _memory: dict[str, dict[str, Any]] = field(default_factory=dict)  # cell key -> what its repetitions have learnt

    def builder(self, tunnel: PlannedTunnel, folder: Path) -> TunnelBuilder:
        """Builds the labs of a tunnel, whose logs are in ``folder``."""
        return TunnelBuilder(self.vpns[tunnel.vpn], tunnel, self.stage, self._shared, folder)

    def ask_for(self, planned: Planned) -> Asked:
        """What an instrument is told about a trial."""
        cell, seed = planned.cell, self.stage.seed * 1000 + planned.repetition
        memory = self._memory.setdefault(cell.key, {})
        known_bps = self.records.known_bps.get(cell.key)
        wanted = self.stage.wanted.get(cell.key, ())
        return Asked(self.vpns[cell.vpn], cell.params, self.stage.profile, seed, known_bps, memory, wanted)

    def running(self, planned: Planned, bench: Bench, folder: Path) -> RunningTrial:
        """A trial that is ready for its first slice."""
        asked, log = self.ask_for(planned), self.log(folder)
        return RunningTrial(planned, bench, asked, self.records, folder, log, self._too_long, planned.repetition)

    def fail(self, waiting: Sequence[Planned], error: BaseException, folder: Path) -> None:
        """Write the lines of trials for which there is no tunnel, or no longer. Raises LabError where the lab is
        broken, or the machine has failed so often that the others would fail, too."""
        if waiting and not isinstance(error, LabError) and (why := self._damage(waiting[0].cell)):
            error = InstrumentError(why)
        if isinstance(error, InstrumentError):
            for planned in waiting:
                self.records.write(planned, status="lab_error", reason=str(error), log=self.log(folder))
            if waiting:
                self.records.machine.add(waiting[0].cell.vpn, str(error), of_tunnel=True)
                self.records.machine.refuse()
            return
        if isinstance(error, LabError):
            for planned in waiting:
                self.records.write(planned, status="lab_error", reason=str(error), log=self.log(folder))
            raise error
        if isinstance(error, OSError) and self.store.is_own(error):
            raise LabError(self.store.trouble(error)) from error
        what = str(error) or repr(error)
        reason = (what if isinstance(error, VpnevalError | TimeoutError) else repr(error)) + tail(folder)
        said = (f"{' '.join(error.argv[:1])}: {error.stderr}" if isinstance(error, CommandError) else "") + tail(folder)
        if self.stage.rig.stands != 1 and (why := apparmor_hint(said)):  # the labs are on this machine
            reason += f"\n{why}"
        proof = error.proof if isinstance(error, ProofError) else None
        seen = Measured(attempt=error.attempt if isinstance(error, MeasurementError) else {})
        for planned in waiting:
            self.records.write(
                planned, measured=seen, status="failed", reason=reason, log=self.log(folder), proof=proof
            )

    def _damage(self, cell: Cell) -> str:
        """What is damaged of the software that the VPN of this cell ran; "" where nothing is."""
        software = self.vpns[cell.vpn].software
        images = self.stage.image, self.stage.images[cell.params.get("image", "")]
        return damage(images, software.packages, software.layer)

    def on_paper(self, tunnel: PlannedTunnel, folder: Path) -> None:
        """Measure trials that count what a plugin writes down, and need no tunnel; the recipe is their log."""
        for planned in tunnel.trials:
            measured = None
            with caught(partial(self.fail, [planned], folder=folder)):
                write_text(folder / "recipe.txt", recipe(self.vpns[tunnel.vpn], tunnel_levels(tunnel.params), SITES))
                no_bench = cast(Bench, None)  # what needs no tunnel does not look at one
                found = at_once(planned.instrument.measure(no_bench, self.ask_for(planned)))
                self.records.check(planned, found)
                measured = found
            if measured is not None:
                self.records.write(planned, measured=measured, log=self.log(folder))

    def log(self, folder: Path) -> str:
        """The name of a log folder in the store."""
        return str(folder.relative_to(self.store.folder))


def is_of_disk(error: BaseException) -> bool:
    """Does this error say that the disk is full, or takes nothing any more?"""
    return isinstance(error, OSError) and error.errno in DISK
