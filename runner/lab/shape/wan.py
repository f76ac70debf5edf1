"""The WAN's conditions: delay, jitter, loss, rate, queue and MTU between the gateways, set on the WAN node.

Delay, jitter and loss are tc-netem(8)'s, for each direction; the rate is a token bucket's, tc-tbf(8), behind it,
with a queue of its own. Where the kernel has no netem, a program on gw1's cable does the same (probes/distance.py).
``runner/lab/readings/wan.py`` probes what was asked for before any VPN is started.
"""

from __future__ import annotations

import math

from runner.data.errors import Unsupported
from runner.data.wan import Conditions
from runner.lab import probes
from runner.lab.node import Node, wait_until
from runner.lab.shape.site_to_site import Lab

CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
UML_TICK_S = 0.01  # its kernel's CONFIG_HZ is 100
IN_ORDER = "40gbit"  # with a rate of its own, netem keeps the order of the packets that it delays unequally
RELAYED_BPS = 100e6  # that the program in netem's place carries with a tenth of a core, of full packets
NETEM = ("netem", "delay", "1ms")
PROGRAM = f"{probes.FOLDER}/distance.py"


def conditions_refusal(lab: Lab, wanted: Conditions) -> Unsupported | None:
    """Why this lab's WAN cannot have these conditions, None where it can. A live probe; the reason is the kernel's."""
    if wanted == Conditions():
        return None
    if not lab.has_wan:
        return Unsupported("this lab has no WAN node, which sets the WAN's conditions")
    if wanted.rate_bps and (lack := _lacks(lab.wan, "tbf", "rate", "1mbit", "burst", "4096", "limit", "4096")):
        return Unsupported(f"the WAN node's kernel has no tbf: {lack}")
    if wanted.is_impaired and (lack := _lacks(lab.wan, *NETEM)):
        if not lab.shared_kernel:
            return Unsupported(f"the WAN node's kernel has no netem: {lack}")
        if not wanted.rate_bps or wanted.rate_bps > RELAYED_BPS:
            most = f"--set wan_rate_bps={RELAYED_BPS:.0f}"
            return Unsupported(
                f"the WAN node's kernel has no netem, and what takes its place needs a rate: {most} or less"
            )
    return None


def _lacks(node: Node, *discipline: str) -> str:
    """What the kernel says where it has no such queue; empty where it has."""
    tried = node.run("tc", "qdisc", "add", "dev", "lo", "root", *discipline, check=False)
    node.run("tc", "qdisc", "del", "dev", "lo", "root", check=False)
    return tried.stderr.strip().splitlines()[-1] if tried.code != 0 else ""


def apply(lab: Lab, wanted: Conditions) -> None:
    """Set the conditions on both ports of the WAN node, and the MTU on the whole WAN.

    The rate counts Ethernet frames without preamble, gap and checksum: 14 bytes more than the IP packet.
    """
    lab.rtt_s = wanted.rtt_s
    tick = tick_s(lab.wan) if wanted.rate_bps else 0.0
    netem = wanted.is_impaired and not _lacks(lab.wan, *NETEM)
    if wanted.is_impaired and not netem:
        _put_apart(lab, wanted)
    for port in ("gw1", "gw2"):
        parent: tuple[str, ...] = ("root", "handle", "1:")
        if netem:
            delay: tuple[str, ...] = ("delay", f"{wanted.delay_ms}ms")
            if wanted.jitter_ms:
                delay += (f"{wanted.jitter_ms}ms", "distribution", "normal")
            loss = ("loss", "random", f"{100 * wanted.loss_ratio}%") if wanted.loss_ratio else ()
            order = ("rate", IN_ORDER) if wanted.jitter_ms else ()
            # Whatever is on its way waits here: far more packets than any rate puts into any delay.
            queue = ("netem", "limit", "1000000", *delay, *loss, *order)
            lab.wan.run("tc", "qdisc", "add", "dev", port, *parent, *queue)
            parent = ("parent", "1:1", "handle", "2:")
        if wanted.rate_bps:
            sizes = ("burst", str(bucket_bytes(wanted, tick)), "limit", str(queue_bytes(wanted)))
            rate = ("tbf", "rate", f"{int(wanted.rate_bps)}bit", *sizes)
            lab.wan.run("tc", "qdisc", "add", "dev", port, *parent, *rate)
    if wanted.rate_bps and lab.shared_kernel:
        # A cable between namespaces hands packets on with the socket that sent them, and what waits in the queue would
        # fill the socket's buffer and block the daemon. A promiscuous bridge keeps the packet, which frees the socket,
        # and forwards a copy, which has none (br_forward in net/bridge).
        lab.wan.run("ip", "link", "set", "dev", "br0", "promisc", "on")
    if wanted.mtu_bytes != Conditions.mtu_bytes:
        for port in ("gw1", "gw2"):
            lab.wan.run("ip", "link", "set", "dev", port, "mtu", str(wanted.mtu_bytes))
        for site in lab.sites:
            lab.gateway(site).run("ip", "link", "set", "dev", site.wan_interface, "mtu", str(wanted.mtu_bytes))


def _put_apart(lab: Lab, wanted: Conditions) -> None:
    """Lead gw1's cable through the program that delays and loses. The gateways then cut their segments and finish
    their checksums themselves: the program handles frames as they are on a cable."""
    for site in lab.sites:
        off = (word for feature in ("tx", "tso", "gso") for word in (feature, "off"))
        lab.gateway(site).run("ethtool", "-K", site.wan_interface, *off)
    wan = lab.wan
    wan.run("ip", "link", "add", "far", "type", "veth", "peer", "name", "far-br")
    wan.run("ip", "link", "set", "gw1", "nomaster")
    wan.run("ip", "link", "set", "far", "up")
    wan.run("ip", "link", "set", "far-br", "up", "master", "br0")
    wan.write(PROGRAM, probes.source("distance"), mode=0o644)
    conditions = (f"{value:g}" for value in (wanted.delay_ms, wanted.jitter_ms, wanted.loss_ratio))
    wan.spawn("python3", "-IS", PROGRAM, "gw1", "far", *conditions, log="distance")
    wait_until(lambda: "far apart" in wan.read_log("distance"), "the WAN's distance")
    # A new port passes its first packets up to a second later than ip(8) says (net/core/link_watch.c).
    ping = ("ping", "-c1", f"-W{math.ceil(1 + 2 * wanted.delay_ms / 1e3)}", lab.sites[-1].wan_address)
    gateway = lab.gateway(lab.sites[0])
    wait_until(lambda: gateway.run(*ping, check=False).code == 0, "a ping over the WAN", deadline_s=60)


def clear(lab: Lab) -> None:
    """Take the queues of ``apply`` away again."""
    lab.rtt_s = 0.0
    for port in ("gw1", "gw2"):
        lab.wan.run("tc", "qdisc", "del", "dev", port, "root", check=False)
    lab.wan.run("ip", "link", "set", "dev", "br0", "promisc", "off", check=False)


def bucket_bytes(wanted: Conditions, tick_s: float = 0.0) -> int:
    """The token bucket's size: a millisecond's worth, so that a test's first moments are not a gift, and at
    least two full frames. Larger segments that offloading makes are cut by the kernel. Where the kernel looks at
    it only every ``tick_s``, the bucket must last as long, or what overflows is missing from the rate."""
    assert wanted.rate_bps is not None
    return max(4096, int(wanted.rate_bps / 8 * max(0.001, tick_s)))


def tick_s(node: Node) -> float:
    """How far apart a node's timers can fire, in seconds: next to nothing, but where its kernel has no better clock.

    A kernel without high-resolution timers says so in /proc/net/psched: its fourth number is their resolution, in
    1/s. That of User Mode Linux claims to have them; it is an ordinary process, whose clock source, called ``timer``,
    is signals that come when the machine lets them. Source: net/sched/sch_api.c, arch/um/kernel/time.c.
    """
    clock = node.run("cat", CLOCK_SOURCE, check=False).stdout.strip()
    resolution = node.run("cat", "/proc/net/psched", check=False).stdout.split()[3:]
    return UML_TICK_S if clock == "timer" else 1 / int(resolution[0], 16) if resolution else 0.0


def queue_bytes(wanted: Conditions) -> int:
    """What may wait at the shaped WAN: ``queue_ms`` of its rate, and ten full frames, or TCP cannot fill it."""
    assert wanted.rate_bps is not None
    return max(10 * 1514, int(wanted.rate_bps / 8 * wanted.queue_ms / 1e3))
