"""What a VPN plugin is: the interface that every file in vpns/ fills in, and how plugins are found."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import AEAD, UNENCRYPTED, Params
from runner.data.packet import Layers, overhead_of
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.site import Site
from runner.vpn.declared import Abilities, Security

Secrets = Mapping[str, str]  # name -> text, for example {"gw1.key": "-----BEGIN…"}


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
    image_layer: ClassVar[str] = ""  # where the image lacks these tools: vagrant/layers/NAME.sh (runner/lab/layers.py)

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

    # What a trial asks for beside the levels (runner/sweep/variants.py); set on a copy of the plugin.
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
        form (runner/vpn/closed_form.py); None where none is known. Their length is compared with what is measured."""
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


def no_tun(node: Node) -> Unsupported | None:
    """Why ``node`` can make no TUN and no TAP; None where it can. For ``supports``."""
    if node.run("test", "-c", "/dev/net/tun", check=False).code == 0:
        return None
    return Unsupported("the kernel has no TUN (/dev/net/tun is missing)")
