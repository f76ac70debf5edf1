"""What a tunnel's trials are measured on: keys, lab, WAN, tunnel; and all of it anew where a trial has used it up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from runner.data.errors import InstrumentError, VpnevalError
from runner.data.files import open_file
from runner.data.levels import Params, tunnel_levels
from runner.data.wan import Conditions, conditions
from runner.lab.readings.wan import verify
from runner.lab.redaction import hide, is_public
from runner.lab.shape import wan
from runner.lab.shape.site import Site, peers_of
from runner.lab.shape.site_to_site import Lab, check_alive
from runner.lab.shape.topologies import Topology, topology_lab
from runner.lab.software.image import Image
from runner.sweep import variants
from runner.sweep.call import Settings
from runner.sweep.plan import PlannedTunnel
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services
from runner.vpn.plugin import Vpn


@dataclass
class Shared:
    """What the tunnels of one call share: keys, only in memory, and what probing the WAN's conditions found."""

    secrets: dict[tuple[str, str, bool, int], dict[str, str]] = field(default_factory=dict)
    probed: dict[Conditions, str] = field(default_factory=dict)


class Builder:
    """Builds the labs of one planned tunnel, one at a time, and everything in them. Ends with its ``with`` block."""

    def __init__(self, vpn: Vpn, planned: PlannedTunnel, settings: Settings, shared: Shared, folder: Path) -> None:
        self.vpn, self.params, self.settings, self.shared, self.folder = vpn, planned.params, settings, shared, folder
        self.planned = planned
        self.instrument = planned.trials[0].instrument  # they share a lab, and so what it is like
        self.image_name = planned.params.get("image", "")
        # Security's probes say themselves that there is plaintext on the WAN: the proof leaves it to them.
        self.judged = not all(trial.instrument.finds_plaintext for trial in planned.trials)
        self._labs, self._underlay = ExitStack(), dict[str, str]()
        self._benches: list[Bench] = []
        self.keeps_files = True  # in configuration.txt; the same tunnel once more has the same

    def __enter__(self) -> Builder:
        self._commands = open_file(self.folder / "commands.log", "w", buffering=1)
        return self

    def __exit__(self, *_: object) -> None:
        """The lab goes."""
        with self._commands, self._labs:
            for bench in self._benches:
                bench.close()

    def bench(self) -> Bench:
        """Keys, lab, tunnel: what the trials are measured on. Raises what ``bring_up`` raises, and LabError."""
        self._keys()
        lab, tunnel = self._tunnel()
        made = Bench(lab, tunnel, self._tunnel, bare=self._lab, keys=self._keys_of_strangers, keys_of=self._keys_of)
        made.meshes = self._mesh if lab.kind == "netns" else None
        self._benches.append(made)
        if self.settings.rig.stands != 1:
            made.beside, made.another = self._beside, self._another
        return made

    def _beside(self) -> float:
        """The same tunnel once more, in a lab of its own that goes at once: its set-up time, s."""
        with self._another() as other:
            return other.tunnel.setup_s

    @contextmanager
    def _another(self) -> Iterator[Bench]:
        """The same tunnel once more, in a lab of its own beside this one."""
        number = len([*self.folder.glob("again-*")]) + 1
        folder = self.folder / f"again-{number}"
        folder.mkdir()
        with Builder(self.vpn, self.planned, self.settings, self.shared, folder) as other:
            other.keeps_files = False
            yield other.bench()

    def _lab(self) -> Lab:
        """A new lab without a tunnel; the one before goes."""
        self._labs.close()
        self._hold = self._labs.enter_context(variants.quota(self.params))
        making = self.instrument.lab(self.settings.rig, self.vpn, self.params, *self._images, self._say, self.folder)
        lab = self._labs.enter_context(making)
        variants.set_driver(lab, self.vpn, self.params)
        self._set_wan(lab)
        start_services(lab)
        return lab

    def _tunnel(self) -> tuple[Lab, Tunnel]:
        """A new lab with the tunnel up in it; the one before goes. Once more where what measures has died in it."""
        with suppress(InstrumentError):
            return self._once_up()
        return self._once_up()

    def _once_up(self) -> tuple[Lab, Tunnel]:
        lab = self._lab()
        levels = tunnel_levels(self.params) | variants.asked(self.params) | self.instrument.asks(self.params)
        keys = self._keys()
        try:
            self._keep_files(lab, levels, keys)
            up = bring_up(lab, self.vpn, levels, keys, judged=self.judged)
        except (VpnevalError, TimeoutError):
            check_alive(lab)  # where a node is gone, whatever follows from that is no fault of the VPN's
            raise
        varied = variants.driver_said(lab, self.vpn, self.params) | self._hold(lab)
        facts = up.evidence.facts | self._underlay | varied
        return lab, replace(up, evidence=up.evidence.model_copy(update={"facts": facts}))

    def _keep_files(self, lab: Lab, levels: Params, keys: Mapping[str, str]) -> None:
        """Write configuration.txt: what the plugin's files on each gateway hold, with names in place of the secrets."""
        path = self.folder / "configuration.txt"
        if not self.keeps_files or path.exists():
            return
        private = {text.strip(): f"<{name}>" for name, text in keys.items() if not is_public(name, text)}
        with open_file(path, "w") as kept:
            for site in lab.sites:
                for name, text in self.vpn.render(site, peers_of(site, lab.sites), levels, keys).items():
                    for secret, named in private.items():  # whole, with the lines around a key, which are no secret
                        text = text.replace(secret, named)
                    kept.write(hide(f"[{site.name}] {name}\n{text.rstrip()}\n\n"))

    def _mesh(self, topology: Topology) -> AbstractContextManager[Lab]:
        return topology_lab(topology, *self._images, self._say, self.folder)

    def _set_wan(self, lab: Lab) -> None:
        """Set the WAN's conditions, and probe them once a run; what the probe found is a fact of the evidence."""
        wanted = conditions(self.params, self.settings.profile.wan_rate_bps)
        if wanted == Conditions() or self.instrument.own_wan(self.params):  # another topology has another WAN
            return
        wan.apply(lab, wanted)
        if wanted not in self.shared.probed:
            self.shared.probed[wanted] = verify(lab, wanted)
        self._underlay["wan"] = self.shared.probed[wanted]

    def _keys(self, *, others: bool = False, sites: Sequence[Site] = ()) -> dict[str, str]:
        """The VPN's secrets of this call, made at first use on a node without a network; or others, which a stranger
        could have made in the same way."""
        sites = sites or self.settings.rig.sites
        key = (self.vpn.name, self.image_name, others, len(sites))
        if key not in self.shared.secrets:
            said = list[str]()
            alone = self.settings.rig.alone(self._images[1], said.append)
            try:
                self.shared.secrets[key] = make_secrets(self.vpn, alone, sites)
            except BaseException:  # nobody knows which of the words are keys
                said = [" ".join(line.split()[:2]) for line in said]
                raise
            finally:
                for line in said:
                    self._say(hide(line))
        return self.shared.secrets[key]

    def _keys_of_strangers(self, others: bool) -> dict[str, str]:
        return self._keys(others=others)

    def _keys_of(self, sites: Sequence[Site]) -> dict[str, str]:
        return self._keys(sites=sites)

    @property
    def _images(self) -> tuple[Image, Image]:
        """Of the hosts and the WAN, and of the gateways."""
        return self.settings.image, self.settings.images[self.image_name]

    def _say(self, line: str) -> None:
        self._commands.write(line + "\n")
