"""What a VPN plugin is: the interface that every file in vpns/ fills in, and how plugins are found."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import traceback
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import ClassVar

from runner.closed_form import Layers, overhead_of
from runner.declared import Abilities, Security
from runner.errors import MeasurementError, UsageError
from runner.model import Evidence
from runner.node import Node

Params = Mapping[str, str]  # tunnel factor -> level, for example {"cipher": "aes-128-cbc", …}
Secrets = Mapping[str, str]  # name -> text, for example {"gw1.key": "-----BEGIN…"}

NO_CIPHER = {"cipher": "none", "integrity": "none", "compression": "off"}
AES_CBC = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
TCP_PORTS = (5201, 5202, 5203)  # what a VPN that forwards ports must forward: iperf3, the answering probe, HTTP
AES_AEAD = tuple(f"aes-{bits}-{mode}" for mode in ("gcm", "ccm", "gmac") for bits in (128, 192, 256))
AEAD = (*AES_AEAD, "chacha20-poly1305", "salsa2012-umac")
UNENCRYPTED = ("none", "null", "aes-128-gmac", "aes-192-gmac", "aes-256-gmac")  # integrity at most (RFC 2410, RFC 4543)


@dataclass(frozen=True)
class Site:
    """One site: its gateway, the network behind it, and the host in that network. Addresses are IPv4 text."""

    number: int
    name: str
    wan_address: str
    wan_interface: str
    lan: str
    lan_address: str
    host_address: str

    @property
    def lan_netmask(self) -> tuple[str, str]:
        """The LAN as network address and netmask, as older daemons want it."""
        network = ip_network(self.lan)
        return str(network.network_address), str(network.netmask)


@dataclass(frozen=True)
class Unsupported:
    """This VPN cannot do what was asked here; ``reason`` is the tool's own message where there is one."""

    reason: str


class Vpn(ABC):
    """One VPN. Subclass it in ``vpns/NAME.py``; the file's name is the VPN's name.

    The runner calls, for every tunnel: ``supports`` (a live probe on a gateway), ``secrets`` (once a run),
    then on each gateway, the highest-numbered first: write the files of ``render``, and ``start``. Gateways
    with lower numbers dial those with higher ones. Then it polls ``is_up``, and asks for ``evidence``.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    dataplane: ClassVar[str]  # "kernel" or "userspace"
    layer: ClassVar[int]  # OSI layer of what it carries: 2 Ethernet, 3 IP, 4 TCP streams
    transport: ClassVar[str]  # what it travels in on the WAN: esp, udp, tcp, gre, ipip, ip, ethernet
    carries: ClassVar[str] = "ip"  # "ip", or "tcp" where it forwards ports only
    reference: ClassVar[bool] = False  # shown in reports, never ranked
    note: ClassVar[str] = ""  # what a reader of the ranking must know

    security: ClassVar[Security | None] = None  # as declared; None is "nothing declared", which reports say
    abilities: ClassVar[Abilities | None] = None

    tools: ClassVar[Mapping[str, str]] = {}  # command -> Debian package, what a gateway must have
    image_layer: ClassVar[str] = ""  # where the image lacks these tools: vagrant/layers/NAME.sh (runner/layers.py)

    # Level -> the daemon's own word for it. What is not here is unsupported with ``limits`` as the reason.
    ciphers: ClassVar[Mapping[str, str]] = {"none": "none"}
    integrities: ClassVar[Mapping[str, str]] = {"none": "none"}
    compressions: ClassVar[Mapping[str, str]] = {"off": "off"}
    limits: ClassVar[Mapping[str, str]] = {}  # factor -> why it has no other levels

    # How keys are renewed: on command (esp, the data's keys; ike), every ``rekey_every_s`` by an option (clock), or
    # by a clock of the protocol that no option changes (protocol).
    rekeys: ClassVar[tuple[str, ...]] = ()
    # Of those that a clock renews: a log ({} is the peer's name), and the words that each rekey adds to it.
    rekey_says: ClassVar[tuple[str, str]] = ("", "")
    openssl: ClassVar[bool] = False  # does OpenSSL encrypt the payload? Then the factor ``driver`` can be set

    # What a trial asks for beside the levels (runner/variants.py); set on a copy of the plugin.
    rekey_every_s: float = 0.0  # seconds; 0 is the daemon's own default
    ike_proposal: str = ""  # of the IKE SA, in strongSwan's words; "" where there is no such thing
    generic_driver: bool = False  # no crypto instructions of this CPU

    comparable: ClassVar[Params]  # AES-128-CBC and HMAC-SHA-256, or the nearest there is
    recommended: ClassVar[Params]  # as its makers advise today

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        """Can gateway ``node`` do ``params``? Extend it with live probes; None means yes."""
        offered = {"cipher": self.ciphers, "integrity": self.integrities, "compression": self.compressions}
        for factor, levels in offered.items():
            level = params[factor]
            if factor == "integrity" and params["cipher"] in AEAD and level == "aead":
                continue  # an AEAD brings its own
            if level not in levels:
                why = self.limits.get(factor, f"the plugin of {self.title} does not offer {factor} {level}")
                return Unsupported(f"{why} (asked: {factor} {level}; offered: {', '.join(levels)})")
        return None

    def confidential(self, params: Params) -> bool:
        """Does this VPN promise, at these levels, that nobody on the WAN can read the payload?"""
        return params["cipher"] not in UNENCRYPTED

    def encapsulation(self, params: Params, inner_bytes: int) -> Layers | None:
        """The layers in which an inner packet of ``inner_bytes`` (IPv4) travels on the WAN, by the protocol's closed
        form (runner/closed_form.py); None where none is known. Their length is compared with what is measured."""
        return None

    def overhead(self, params: Params, inner_bytes: int) -> int | None:
        """How many bytes longer an inner packet of ``inner_bytes`` is on the WAN, by ``encapsulation``."""
        layers = self.encapsulation(params, inner_bytes)
        return None if layers is None else overhead_of(layers)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        """Make fresh keys with the real tools on ``ca``, a node without a network. Name -> text."""
        return {}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        """The files of gateway ``me``: path -> text. Pure: the same arguments give the same files."""
        return {}

    @abstractmethod
    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        """Bring the tunnel up on gateway ``me``, its files being in place."""

    @abstractmethod
    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        """Does gateway ``me`` think that its tunnels are up?"""

    @abstractmethod
    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        """What the daemon and the kernel say was negotiated, and the data path in use.

        Raises ProofError where it is not what was asked."""

    def rekey(self, node: Node, me: Site, peers: Sequence[Site], what: str) -> None:
        """Renew the keys ``what`` (one of ``rekeys``) of gateway ``me``'s tunnels, and return when they are new.

        Raises TimeoutError where they stay the old ones."""
        raise MeasurementError(f"the plugin {self.name} lists rekeys ({', '.join(self.rekeys)}), but has no rekey()")

    def rekey_mark(self, node: Node, me: Site, peers: Sequence[Site]) -> str:
        """A text that changes on gateway ``me`` whenever its keys were renewed by a clock (``rekeys``): by default, how
        often ``rekey_says`` is in its logs."""
        log, words = self.rekey_says
        if not words:
            raise MeasurementError(f"the plugin {self.name} lists rekeys ({', '.join(self.rekeys)}), but no rekey_says")
        return str(sum(node.logged(log.format(peer.name)).count(words) for peer in peers))

    def entry(self, sites: Sequence[Site]) -> str:
        """The address that the first site's host connects to in order to reach the last site's host."""
        return sites[-1].host_address


def pair_number(me: Site, peer: Site) -> int:
    """A number for each pair of sites, 0 for the first two: for ports, interfaces and tunnel networks."""
    low, high = sorted((me.number, peer.number))
    return (high - 1) * (high - 2) // 2 + low - 1


def lower_numbered(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The peers that dial ``me``."""
    return [peer for peer in peers if peer.number < me.number]


def higher_numbered(me: Site, peers: Sequence[Site]) -> list[Site]:
    """The peers that ``me`` dials."""
    return [peer for peer in peers if peer.number > me.number]


def no_tun(node: Node) -> Unsupported | None:
    """Why ``node`` can make no TUN and no TAP; None where it can. For ``supports``."""
    if node.run("test", "-c", "/dev/net/tun", check=False).code == 0:
        return None
    return Unsupported("the kernel has no TUN (/dev/net/tun is missing)")


def vpn_names() -> list[str]:
    """The names of the plugins in vpns/, sorted."""
    import vpns

    return sorted(module.name for module in pkgutil.iter_modules(vpns.__path__) if module.name[0] != "_")


def load_vpn(name: str) -> Vpn:
    """The plugin ``name``: a file of vpns/, or a path to a file outside the tree (``./mine.py``).

    Raises UsageError with the near matches for an unknown name, and for a file that is not a plugin.
    """
    if name.endswith(".py"):
        path = Path(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise UsageError(f"no plugin file {name}")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as broken:
            raise UsageError(f"plugin file {name} cannot be loaded: {_told(broken, path)}") from broken
        stem = path.stem
    else:
        if "/" in name:
            raise UsageError(f"a plugin from outside the tree is a file whose name ends in .py, not {name}")
        require_known("VPN", name, vpn_names())
        module, stem = importlib.import_module(f"vpns.{name}"), name
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Vpn) and value.__module__ == module.__name__:
            value.name = stem
            return _finished(name, value)
    raise UsageError(f"{name} defines no subclass of runner.plugin.Vpn")


def _finished(name: str, plugin: type[Vpn]) -> Vpn:
    """An instance of the plugin. Raises UsageError that names what is still missing in it."""
    needed = ("title", "dataplane", "layer", "transport", "comparable", "recommended")
    missing = [attribute for attribute in needed if not hasattr(plugin, attribute)]
    missing += sorted(plugin.__abstractmethods__)
    if missing:
        raise UsageError(f"plugin {name} is not finished: {plugin.__name__} lacks {', '.join(missing)}")
    return plugin()


def _told(broken: Exception, path: Path) -> str:
    """An error of a plugin file in words, with the line of that file that it comes from."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(broken.__traceback__) if Path(frame.filename) == path.resolve()
    ]
    line = broken.lineno if isinstance(broken, SyntaxError) else lines[-1] if lines else None
    what = broken.msg if isinstance(broken, SyntaxError) else str(broken)
    return f"{f'line {line}: ' if line else ''}{type(broken).__name__}: {what}"


def require_known(kind: str, name: str, valid: Sequence[str]) -> None:
    """Raise UsageError unless ``name`` is in ``valid``; the message has the near matches and the valid ones."""
    if name in valid:
        return
    near = get_close_matches(name, valid, n=3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise UsageError(f"unknown {kind} {name!r}{hint} Valid: {', '.join(valid)}")
