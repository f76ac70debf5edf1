"""What a VPN plugin is: the interface that every file in vpns/ fills in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from runner.data.errors import Unsupported
from runner.data.kinds import Line, Ports, Text, Word
from runner.data.levels import AEAD, EXCHANGES, TUNNEL, UNENCRYPTED, Params
from runner.data.packet import Layers
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.lab.software.builds import Build
from runner.vpn.declared import UNDECLARED, Declared
from runner.vpn.lifecycle import Lifecycle
from runner.vpn.sign import Sign

Secrets = Mapping[str, str]  # name -> text, for example {"gw1.key": "-----BEGIN…"}


@dataclass(frozen=True)
class Offers:
    """The levels that a VPN has: level -> the daemon's own word for it. What is not here is unsupported, and ``limits``
    (factor -> why it has no others) is the reason. ``ike``: proposals of the IKE SA. ``key_exchanges``: of TLS or SSH,
    level -> what the daemon's log calls it. ``gone``: level -> why today's daemons refuse it, so that nobody is told
    how to set it up."""

    ciphers: Mapping[str, str] = field(default_factory=lambda: {"none": "none"})
    integrities: Mapping[str, str] = field(default_factory=lambda: {"none": "none"})
    compressions: Mapping[str, str] = field(default_factory=lambda: {"off": "off"})
    limits: Mapping[str, str] = field(default_factory=dict)
    ike: tuple[str, ...] = ()
    key_exchanges: Mapping[str, str] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Software:
    """What a gateway must have. ``tools``: command -> Debian package; a word or more may follow the package after a
    comma. ``layer``: vagrant/layers/NAME.sh, which has them where the image does not (runner/lab/software/layers.py).
    ``version``: which version that is, where it takes the place of the image's own.
    ``daemons``: other packages whose version says what was measured; of several, a gateway needs one. ``libraries``:
    packages that it needs and that bring no command. ``openssl``: does OpenSSL encrypt the payload?
    Then the factor ``driver`` can be set. ``dials``: how a command begins that dials once only -> the command that
    succeeds once the tunnel is there. The scripts of ``recipe`` repeat the first until then: the peer may
    start later. ``needs``: what else a gateway must have, as a sentence of the page that ``recipe`` prints."""

    tools: Mapping[str, str] = field(default_factory=dict)
    layer: str = ""
    version: str = ""
    daemons: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    openssl: bool = False
    dials: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""

    @property
    def packages(self) -> list[str]:
        """The Debian packages of all of it, sorted."""
        return sorted({*self._tools, *self.daemons, *self.libraries})

    def is_in(self, packages: Collection[str]) -> bool:
        """Do these packages have all that a gateway needs? Of several daemons one."""
        return {*self._tools, *self.libraries} <= {*packages} and (
            not self.daemons or bool({*self.daemons} & {*packages})
        )

    @property
    def _tools(self) -> list[str]:
        return [package.partition(",")[0] for package in self.tools.values()]


@dataclass(frozen=True)
class Version:
    """A version of a VPN's software beside the image's own. ``layer``: vagrant/layers/NAME.sh, which has it;
    ``changes``: the plugin's attributes that differ, {"inner_ipv6": True}."""

    layer: str
    changes: Mapping[str, Any] = field(default_factory=dict)


def _one_of(*words: str) -> AfterValidator:
    """Checks a word. A Literal would keep a plugin's subclass from having another word than the plugin."""

    def check(word: str) -> str:
        if word not in words:
            raise ValueError(f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}")
        return word

    return AfterValidator(check)


def _whole(levels: Params) -> Params:
    if lacks := sorted({*TUNNEL} - levels.keys()):
        raise ValueError(f"a level of each of {', '.join(TUNNEL)} (it lacks {', '.join(lacks)})")
    return levels


Configuration = Annotated[Params, AfterValidator(_whole)]


class Vpn(ABC):
    """One VPN. Subclass it in ``vpns/NAME.py``; the file's name is the VPN's name. Its attributes are checked by their
    annotations (runner/vpn/guard.py).

    The runner calls, for every tunnel: ``supports`` (a live probe on a gateway), ``secrets`` (once a run),
    then on each gateway, the highest-numbered first: write the files of ``render``, and ``start``. Gateways
    with lower numbers dial those with higher ones. Then it polls ``is_up``, and asks for ``evidence``. What a VPN needs
    ``beside`` its gateways is a node of its own on the WAN, with files (``render_beside``) and a start
    (``start_beside``) before theirs; ``runner.lab.shape.site.helper_site`` has its address.

    ``params`` has the levels of cipher, integrity and compression; and, where a trial asks for it: ``ike`` (a proposal
    of ``offers.ike``), ``key_exchange`` (a level of ``offers.key_exchanges``), ``driver`` (``generic``: no crypto
    instructions of this CPU), ``rekey_every_s`` (seconds),
    ``inner`` (if it is there, the sites' ``lan_ipv6`` have to pass, too), ``behind`` (each site's own network, which
    the VPN is to translate to ``lan``, by which the other knows it), ``apart`` (a TCP port of the last site, whose
    packets are to get integrity alone), ``marks`` (``copied``: DSCP and ECN of what is inside are to be outside, too),
    and ``roaming`` (the names of the gateways whose WAN address may change: their own files are to have no address of
    the path, and the others' none, a name, or one that is the first; see ``moves``).
    """

    name: ClassVar[str]
    title: ClassVar[Line]
    family: ClassVar[Line] = ""  # "IPsec": the VPNs of one protocol, of which one may do what another cannot
    dataplane: ClassVar[Annotated[str, _one_of("kernel", "userspace")]]
    # What it travels in on the WAN.
    transport: ClassVar[Annotated[str, _one_of("esp", "udp", "tcp", "gre", "ipip", "ip", "ethernet")]]
    carries: ClassVar[Annotated[str, _one_of("ip", "tcp")]] = "ip"  # "tcp" where it forwards ports only
    own_connections: ClassVar[bool] = False  # over TCP: has each connection that it carries one of its own on the WAN?
    reference: ClassVar[bool] = False  # shown in reports, never ranked
    note: ClassVar[Text] = ""  # what a reader of the ranking must know
    speaks: ClassVar[Line] = ""  # the protocol on the WAN, where several plugins speak it
    # Where the answering gateway listens on the WAN, "udp/500 udp/4500": nothing else may listen there, and a NAT in
    # front of it has to forward them. Empty: not declared.
    ports: ClassVar[Ports] = ""
    outer_ipv6: ClassVar[bool] = False  # do its files and commands take IPv6 addresses of the gateways?
    # Does its tunnel carry IPv6 between the sites, once that is routed through its device? ``params`` says ``inner``.
    inner_ipv6: ClassVar[bool] = False
    several_networks: ClassVar[bool] = False  # do its files and commands name all ``lans`` of a site, for a recipe?
    hub_and_spokes: ClassVar[bool] = False  # do they serve a hub, which its spokes dial, for a recipe? See ``as_hub``
    # The longest packet between the sites that its tunnel takes whole, where that is less than a WAN of 1500 bytes lets
    # pass. The datagrams of a choice fit all of its candidates.
    inner_mtu: ClassVar[int] = 1500
    # For which gateways do its files allow for ``roaming``, so that a recipe works where an address is not fixed? Such
    # a peer's ``wan_address`` is a name, or empty where it dials.
    roams: ClassVar[Annotated[str, _one_of("none", "dialing", "both")]] = "none"
    copies_marks: ClassVar[bool] = False  # does an option copy DSCP and ECN to the outside? ``params`` says ``marks``
    # The tunnel's network devices that daemons make and no command of ``start`` names, for a recipe, which lets what is
    # for the other sites leave by nothing else: "tun{peer.number}", "oc*". "*": it leaves by any, unprotected.
    devices: ClassVar[Line] = ""
    # Does a tunnel fail whose two ends begin at the same moment? Then the second is started when the first's packets
    # have arrived.
    one_end_first: ClassVar[bool] = False
    beside: ClassVar[Word] = ""  # what it needs on the WAN beside its gateways: "coordinator"
    modules: ClassVar[Line] = ""  # the kernel's, as modprobe(8) calls them: of its data path
    software: ClassVar[Software] = Software()
    versions: ClassVar[Mapping[str, Version]] = {}  # beside the image's own, by their levels of the factor `version`
    offers: ClassVar[Offers] = Offers()
    comparable: ClassVar[Configuration]  # AES-128-CBC and HMAC-SHA-256, or the nearest there is
    recommended: ClassVar[Configuration]  # as its makers advise today
    declared: ClassVar[Declared] = UNDECLARED  # its security and abilities; set below the class
    build: ClassVar[Build | None] = None  # what takes the place of the image's software; never set in a plugin
    sign: ClassVar[Sign] = Sign()  # by what `vpneval look` recognises a tunnel of it that somebody has set up

    @property
    def brings_software(self) -> bool:
        """Does software come onto a gateway before its files: a layer, or a build?"""
        return bool(self.software.layer or self.build)

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        """Can gateway ``node`` do ``params``? Extend it with live probes; None means yes."""
        return level_refusal(self, params)

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        """Make fresh keys with the real tools on ``ca``, a node without a network. Name -> text."""
        return {}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        """The files of gateway ``me``: path -> text. Pure: the same arguments give the same files."""
        return {}

    def render_beside(self, me: Site, sites: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        """The files of the node ``beside``, as ``render``."""
        return {}

    def start_beside(self, node: Node, me: Site, sites: Sequence[Site], params: Params) -> None:
        """Start what the node ``beside`` runs, its files being in place, until gateways can use it."""
        raise NotImplementedError(f"{self.name} does not say how its {self.beside} starts")

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

    def with_fallback(self) -> Vpn:
        """The plugin whose tunnel may also take the way that its product falls back to by itself where the usual one is
        closed, such as a relay; the same plugin where it has no other."""
        return self

    def as_hub(self) -> Vpn:
        """The plugin that sets up a hub and those who dial it as operators run them, where that is not one tunnel each
        beside the others; the same plugin where it is. The hub is the site with the highest number."""
        return self

    def lifecycle(self) -> Lifecycle:
        """How it renews keys, which timers notice a dead peer, and how it moves to a second gateway."""
        return Lifecycle()

    def encapsulation(self, params: Params, inner_bytes: int) -> Layers | None:
        """The layers in which an inner packet of ``inner_bytes`` (IPv4) travels on the WAN, by the protocol's closed
        form (runner/vpn/closed_form.py); None where none is known. Their length is compared with what is measured."""
        return None


def level_refusal(vpn: Vpn, params: Params) -> Unsupported | None:
    """Does ``vpn`` offer these levels at all, whatever the gateway? None means yes."""
    offers = vpn.offers
    levels = {"cipher": offers.ciphers, "integrity": offers.integrities, "compression": offers.compressions}
    levels |= {"ike": dict.fromkeys(offers.ike, ""), "key_exchange": offers.key_exchanges}
    for factor, words in levels.items():
        if factor in EXCHANGES and factor not in params:
            continue
        level = params[factor]
        if factor == "integrity" and params["cipher"] in AEAD and level == "aead":
            continue  # an AEAD brings its own
        if level not in words:
            why = offers.limits.get(factor, f"the plugin of {vpn.title} does not offer {factor} {level}")
            asked, offered = f"{factor} {level}", ", ".join(words) or "no choice"
            return Unsupported(f"{why} (asked: {asked}; offered: {offered})", "not offered", why, offered)
    return None


def confidential(params: Params) -> bool:
    """Does a VPN promise, at these levels, that nobody on the WAN can read the payload? Unless they do not encrypt."""
    return params["cipher"] not in UNENCRYPTED


def moves(params: Params, site: Site) -> bool:
    """May the address of this gateway change?"""
    return site.name in params.get("roaming", "").split()


def entry(vpn: Vpn, sites: Sequence[Site]) -> str:
    """The address that the first site's host connects to in order to reach the last site's host."""
    return sites[0].lan_address if vpn.carries == "tcp" else sites[-1].host_address


def no_tun(node: Node) -> Unsupported | None:
    """Why ``node`` can make no TUN and no TAP; None where it can. For ``supports``."""
    # Read before it has an interface, the device says EBADFD (tun.c), in whichever place it was put.
    error = node.run("dd", "if=/dev/net/tun", "bs=1", "count=1", "iflag=nonblock", "status=none", check=False).stderr
    if "File descriptor in bad state" in error:
        return None
    if "No such file" in error:
        return Unsupported.kernel("TUN (/dev/net/tun is missing)")
    why = f"cannot be used: {error.strip().rpartition(': ')[2]}" if error else "is not the kernel's TUN device"
    return Unsupported(f"/dev/net/tun {why}; mknod /dev/net/tun c 10 200; a container needs --device /dev/net/tun")


def with_build(kind: type[Vpn], build: Build) -> type[Vpn]:
    """The plugin with a build in the place of its software: a VPN of its own, called VPN@NAME."""
    own = {"name": f"{kind.name}@{build.name}", "title": f"{kind.title}, build {build.name}", "build": build}
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, **own})


def with_version(kind: type[Vpn], level: str) -> type[Vpn]:
    """The plugin with another version of its software: a VPN of its own, called VPN@LEVEL."""
    version = kind.versions[level]
    own = {"name": f"{kind.name}@{level}", "title": f"{kind.title}, version {level}", "versions": {}}
    software = replace(kind.software, layer=version.layer, version=level)
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "software": software, **own, **version.changes})
