"""Measures a tunnel's handshake on the WAN: what it sends, how long it takes, and on which paths it succeeds.

host1 ──── gw1 ════ tap │ router │ tap ════ gw2 ──── host2
   drops fragments      MTU, loss        drops fragments
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import dropwhile
from math import sqrt
from statistics import fmean

from runner.data.errors import CommandError, MeasurementError, Unsupported
from runner.data.levels import Levels, Params, tunnel_levels
from runner.data.metric import Metric, share, time_ms
from runner.design.profile import Profile
from runner.instruments.instrument import Asked
from runner.instruments.path import narrow, router
from runner.instruments.path.verdict import NoControl, PathProbe, PathVerdict
from runner.instruments.tools.between import Talker, talking
from runner.lab import probes
from runner.lab.node import wait_until
from runner.lab.node.iproute import interface
from runner.lab.readings.path import HEADERS_BYTES
from runner.lab.shape.site import ip_version, peers_of
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import UP_WITHIN_S, Bench, plug_in_helper, put_files, start
from runner.tunnel.proof import ANSWER_PORT, has_answer
from runner.vpn.plugin import Secrets, Vpn, entry

ETHERNET, IPV6_BYTES, FRAGMENT = 14, 40, 44  # RFC 8200 §4.5
OF_THE_NETWORK = (0, 1, 2, 58)  # ICMP, IGMP, ICMPv6, and the header before its reports on groups (RFC 3810 §5)
SILENT_S = 2.0  # a VPN that has sent nothing by then waits for payload
PINGS, PING_BYTES, FLOOD, LONG_BYTES = 3, 228, 1000, 1400
PAYLOAD = "55" * 16  # hex
TABLE = ("inet", "handshake")
LOSSY = """
table inet handshake {{
    counter seen {{
    }}
    counter lost {{
    }}
    chain forward {{
        type filter hook forward priority 0
        counter name seen
        numgen random mod 10000 < {per_10000} counter name lost drop
    }}
}}
"""
# Before defragmentation, which is at -400.
NO_FRAGMENTS = """
table inet handshake {
    counter lost {
    }
    chain prerouting {
        type filter hook prerouting priority -450
        ip frag-off & 0x3fff != 0 counter name lost drop
        exthdr frag exists counter name lost drop
    }
}
"""


@dataclass(frozen=True)
class Obstacles:
    """What is in a handshake's way, and how many ``handshakes`` are tried."""

    mtu: int = 1500
    drops_fragments: bool = False
    loss_ratio: float = 0.0
    handshakes: int = 1


PATHS = {
    "clear": Obstacles(),
    "mtu_1280": Obstacles(mtu=1280),
    "fragments_dropped": Obstacles(mtu=1280, drops_fragments=True),
    "loss_0.01": Obstacles(loss_ratio=0.01, handshakes=5),
    "loss_0.05": Obstacles(loss_ratio=0.05, handshakes=5),
}


@dataclass(frozen=True)
class WanPacket:
    """An IP packet at a ``port`` of the router: seconds since the epoch, whether the gateway there ``sent`` it or gets
    it, its length."""

    at_s: float
    port: str
    sent: bool
    length: int
    fragment: bool
    protocol: int


@dataclass
class Taps:
    """A packet capture on each of the router's ports, by the port's name."""

    by_port: Mapping[str, Talker]
    _later: list[WanPacket] = field(default_factory=list)  # than the moment of the last look

    def packets(self) -> list[WanPacket]:
        """The packets that have passed the ports since the last call, by time. All ports are read up to one moment, so
        that a packet which came in by one port has also left by the other, whole or in fragments."""
        until = time.time()
        found = self._later + [packet for port, tap in self.by_port.items() for packet in wan_packets(port, tap)]
        self._later = [packet for packet in found if packet.at_s > until]
        return sorted((packet for packet in found if packet.at_s <= until), key=lambda packet: packet.at_s)


def wan_packets(port: str, tap: Talker) -> Iterator[WanPacket]:
    """The IP packets that a tap has seen since it was last asked."""
    said = tap.say()
    if said["lost"]:
        raise MeasurementError(f"the tap on the WAN lost {said['lost']} frames")
    for at_s, way, data in said["frames"]:
        frame = bytes.fromhex(data)
        kind, packet = frame[12:ETHERNET], frame[ETHERNET:]
        if kind == b"\x86\xdd":
            length, fragment = IPV6_BYTES + int.from_bytes(packet[4:6], "big"), packet[6] == FRAGMENT
            protocol = packet[IPV6_BYTES] if fragment else packet[6]
        elif kind == b"\x08\x00":
            length, protocol = int.from_bytes(packet[2:4], "big"), packet[9]
            fragment = bool(int.from_bytes(packet[6:8], "big") & 0x3FFF)
        else:
            continue
        yield WanPacket(at_s, port, way == "in", length, fragment, protocol)


def ping(lab: Lab, packet_bytes: int, *options: str) -> bool:
    """Does the far gateway answer a ping of this length from the near one?"""
    address = lab.sites[-1].wan_address
    size = f"-s{packet_bytes - HEADERS_BYTES[ip_version(address)]}"
    near = lab.gateway(lab.sites[0])
    return near.run("ping", "-q", "-W1", size, *options, address, check=False).code == 0


def check_taps(lab: Lab, taps: Taps) -> dict[str, int]:
    """Control: send pings, and check that the taps see each request and each reply once, with the right length."""
    taps.packets()
    ping(lab, PING_BYTES, f"-c{PINGS}", "-i0.2")
    seen = sum(packet.sent and packet.length == PING_BYTES for packet in taps.packets())
    if seen != 2 * PINGS:
        raise NoControl(f"the taps on the WAN saw {seen} of {2 * PINGS} packets of {PING_BYTES} bytes")
    return {"echoes_tapped": seen}


def obstruct(lab: Lab, obstacles: Obstacles) -> dict[str, object]:
    """Set up the path's obstacles. Control: pings from gateway to gateway; raises NoControl unless the obstacles stop
    what they should and nothing else."""
    gateways = [lab.gateway(site) for site in lab.sites]
    found: dict[str, object] = {}
    if obstacles.mtu < PATHS["clear"].mtu:
        found |= narrow.control(lab, obstacles.mtu, silent=False)
        found["fragments_pass"] = ping(lab, LONG_BYTES, "-c3", "-i0.2", "-Mdont")
        if not found["fragments_pass"]:
            raise NoControl("without a tunnel no fragments came through the narrow WAN")
    if obstacles.drops_fragments:
        for gateway in gateways:
            gateway.run("nft", "-f", "-", input=NO_FRAGMENTS)
        passed = ping(lab, LONG_BYTES, "-c3", "-i0.2", "-Mdont")
        dropped = sum(router.nft_counters(gateway, *TABLE)["lost"] for gateway in gateways)
        if passed or not dropped or not ping(lab, obstacles.mtu, "-c2", "-i0.2", "-Mdo"):
            raise NoControl(
                f"without a tunnel {dropped} fragments were dropped; a packet in fragments passed: {passed}"
            )
        found |= {"fragments_pass": False, "fragments_dropped": dropped}
    if obstacles.loss_ratio:
        lab.wan.run("nft", "-f", "-", input=LOSSY.format(per_10000=round(1e4 * obstacles.loss_ratio)))
        ping(lab, PING_BYTES, "-f", f"-c{FLOOD}")
        found |= (seen := router.nft_counters(lab.wan, *TABLE))
        expected = seen["seen"] * obstacles.loss_ratio
        if seen["seen"] < FLOOD or abs(seen["lost"] - expected) > 5 * sqrt(expected):
            raise NoControl(f"the WAN lost {seen['lost']} of {seen['seen']} packets, not about {expected:.0f}")
    router.forget(lab)
    return found


def try_to_start(lab: Lab, vpn: Vpn, params: Params, secrets: Secrets) -> bool:
    """Write the VPN's files on every gateway and start it. Returns whether that succeeded."""
    for site in lab.sites:
        put_files(lab.gateway(site), vpn, vpn.render(site, peers_of(site, lab.sites), params, secrets))
    try:
        start(lab, vpn, params)
    except (TimeoutError, CommandError):
        return False
    return True


def is_up(lab: Lab, vpn: Vpn, within_s: float) -> bool:
    """Does every gateway report within this time that the tunnel is up?"""
    try:
        for site in lab.sites:
            up = partial(vpn.is_up, lab.gateway(site), site, peers_of(site, lab.sites))
            wait_until(up, f"{vpn.name} up on {site.name}", within_s)
    except TimeoutError:
        return False
    return True


def carries(lab: Lab, vpn: Vpn) -> bool:
    """Does one connection through the tunnel bring a few bytes back?"""
    program, address = f"{probes.FOLDER}/ask.py", entry(vpn, lab.sites)
    argv = ("python3", "-IS", program, "marker", address, str(ANSWER_PORT), f"{UP_WITHIN_S:g}")
    done = lab.host1.run(*argv, check=False, input=PAYLOAD, timeout=2 * UP_WITHIN_S)
    return has_answer(lab.host1, done.code)


def prepare(lab: Lab) -> None:
    """Make each packet a frame on the WAN, and let what daemons say begin anew: in an earlier lab of this tunnel they
    have said that it is up, in the same files."""
    gateways = [lab.gateway(site) for site in lab.sites]
    logs = gateways[0].logs
    folder = logs / f"handshake-{len([*logs.glob('handshake-*')]) + 1}"
    folder.mkdir()
    for site, gateway in zip(lab.sites, gateways, strict=True):
        port = interface(gateway, site.wan_interface)
        gateway.run("ethtool", "-K", port, "tso", "off", "gso", "off", check=False)
        gateway.log_to(folder)


def handshake(
    lab: Lab, vpn: Vpn, params: Params, secrets: Secrets, obstacles: Obstacles
) -> tuple[dict[str, object], dict[str, float]]:
    """The control, and one handshake in a fresh lab: ``up`` or not, and if it is, its ``bytes``, ``packets``,
    ``fragments``, ``longest`` packet and ``time_ms``."""
    with router.wan_router(lab) as ports:
        narrow.narrow(lab, ports, obstacles.mtu, silent=False)
        near, far = (ports[site.wan_address] for site in (lab.sites[0], lab.sites[-1]))
        with (
            talking(lab.wan, "tap", near, ready="tapping") as left,
            talking(lab.wan, "tap", far, ready="tapping") as right,
        ):
            taps = Taps({near: left, far: right})
            control = {**check_taps(lab, taps), **obstruct(lab, obstacles)}
            taps.packets()
            if not try_to_start(lab, vpn, params, secrets):
                return control, {"up": False}
            up = is_up(lab, vpn, SILENT_S)
            seen = of_handshake(taps.packets(), near)
            if not seen:  # it dials when the first payload comes
                carries(lab, vpn)
            up = up or is_up(lab, vpn, UP_WITHIN_S)
            seen = of_handshake(seen + taps.packets(), near)
            if not up or not seen or not carries(lab, vpn):
                return control, {"up": False}
    sent = [packet for packet in seen if packet.sent]
    return control, {
        "up": True,
        "bytes": sum(packet.length for packet in sent),
        "packets": len(sent),
        "fragments": sum(packet.fragment for packet in seen if not packet.sent),
        "longest": max(packet.length for packet in sent),
        "time_ms": round(1e3 * (seen[-1].at_s - seen[0].at_s), 2),
    }


def of_handshake(found: Sequence[WanPacket], dialing: str) -> list[WanPacket]:
    """What has passed without the network's own, from the first packet on that came in by the port ``dialing``: what
    the other gateway had sent before found nobody."""
    seen = [packet for packet in found if packet.protocol not in OF_THE_NETWORK]
    return list(dropwhile(lambda packet: (packet.port, packet.sent) != (dialing, True), seen))


class Handshake(PathProbe):
    """A tunnel that is brought up anew, on one of several paths."""

    name = "handshake"
    datagrams = False
    factors = {"path": Levels(tuple(PATHS), default="clear")}
    metrics = (
        share(
            name="handshake_passes",
            title="Handshakes that come to an end",
            better="higher",
            definition="The share of handshakes after which both gateways say that the tunnel is up and a payload is "
            "answered through it, each within 15 s. The factor path says what is in their way: a router whose MTU is "
            "1280 bytes; with gateways that drop fragments; a WAN that loses packets at random, both ways.",
            source="RFC 7383 §1 (fragments that are dropped), RFC 9242 (IKE_INTERMEDIATE), RFC 9370",
        ),
        Metric(
            name="handshake_bytes",
            title="Bytes of a handshake",
            unit="byte",
            better="lower",
            definition="IP bytes that both gateways send on the WAN from the first packet of the one that dials until "
            "both say that the tunnel is up. Of a VPN that sends nothing until then, also those of the first payload. "
            "Mean of the handshakes that came to an end.",
            source="RFC 7296 §1.2, RFC 8446 §2, RFC 4253 §7",
        ),
        Metric(
            name="handshake_packets",
            title="Packets of a handshake",
            unit="packet",
            better="lower",
            definition="As handshake_bytes, the packets that the gateways send.",
            source="RFC 7296 §1.2, RFC 8446 §2, RFC 4253 §7",
        ),
        Metric(
            name="handshake_fragments",
            title="IP fragments of a handshake",
            unit="packet",
            better="lower",
            definition="Those packets that reach a gateway as fragments of an IP packet, whoever has cut it.",
            source="RFC 791 §3.2, RFC 8200 §4.5",
        ),
        time_ms(
            name="handshake_time",
            title="Time of a handshake",
            definition="From the first packet that the dialing gateway sends to the last of the handshake.",
            source="RFC 7296 §2.1 (what is lost is sent again)",
            margin=1.5,
        ),
    )
    takes_s = 5.0
    spends_tunnel = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.reference:
            return Unsupported("without a tunnel there is no handshake")
        if vpn.transport == "ethernet":
            return Unsupported(f"{vpn.title} is not carried by IP, and a router is on the way here")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return self.takes_s * PATHS[params["path"]].handshakes

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        obstacles, keys, params = PATHS[asked.params["path"]], bench.keys(), tunnel_levels(asked.params)
        seen: list[dict[str, float]] = []
        control: dict[str, object] = {}
        for _ in range(obstacles.handshakes):
            bench.lab = bench.bare()
            plug_in_helper(bench.lab, asked.vpn)
            prepare(bench.lab)
            control, found = handshake(bench.lab, asked.vpn, params, keys, obstacles)
            seen.append(found)
        return handshake_verdicts(seen, control)


def handshake_verdicts(seen: Sequence[Mapping[str, float]], control: Mapping[str, object]) -> dict[str, PathVerdict]:
    """The verdicts on the handshakes that were tried. Where none came to an end, nothing else is known of them."""
    done = [found for found in seen if found["up"]]
    numbers = {"each": [dict(found) for found in seen]}
    kind = "up" if len(done) == len(seen) else "some" if done else "dead"
    verdicts = {"handshake_passes": PathVerdict(kind, len(done) / len(seen), control, numbers)}
    for metric, name in (("bytes", "bytes"), ("packets", "packets"), ("fragments", "fragments"), ("time", "time_ms")):
        if done:
            mean = fmean(found[name] for found in done)
            verdicts[f"handshake_{metric}"] = PathVerdict(kind, mean, control, numbers)
    return verdicts
