"""The WAN's conditions: delay, jitter, loss, rate, queue and MTU between the gateways, set on the WAN node.

Delay, jitter and loss are tc-netem(8)'s, for each direction; the rate is a token bucket's, tc-tbf(8), behind it,
with a queue of its own. What was asked for is probed between the bare gateways before any VPN is started.
"""

from __future__ import annotations

import json
import re
import time

import scipy

from runner.data.errors import MeasurementError, Unsupported
from runner.data.wan import Conditions
from runner.lab import probes
from runner.lab.node import PATIENCE, Node, wait_until
from runner.lab.site_to_site import Lab
from runner.lab.wire import interface, outer

PINGS = 1000
PROBE_S = 1.0
UNLIKELY = 1e-4  # a loss that chance brings about less often than this was not the one asked for
CLOCK_SOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
UML_TICK_S = 0.01  # its kernel's CONFIG_HZ is 100
IN_ORDER = "40gbit"  # with a rate of its own, netem keeps the order of the packets that it delays unequally


def unsupported(lab: Lab, wanted: Conditions) -> Unsupported | None:
    """Can this lab's WAN do that? A live probe; the reason is the kernel's."""
    if wanted == Conditions():
        return None
    if not lab.has_wan:
        return Unsupported("this lab has no WAN node, which sets the WAN's conditions")
    for discipline in ["netem"] * wanted.impaired + ["tbf"] * bool(wanted.rate_bps):
        options = ("delay", "1ms") if discipline == "netem" else ("rate", "1mbit", "burst", "4096", "limit", "4096")
        tried = lab.wan.run("tc", "qdisc", "add", "dev", "lo", "root", discipline, *options, check=False)
        lab.wan.run("tc", "qdisc", "del", "dev", "lo", "root", check=False)
        if tried.code != 0:
            return Unsupported(f"the WAN node's kernel has no {discipline}: {tried.stderr.strip().splitlines()[-1]}")
    return None


def apply(lab: Lab, wanted: Conditions) -> None:
    """Set the conditions on both ports of the WAN node, and the MTU on the whole WAN.

    The rate counts Ethernet frames without preamble, gap and checksum: 14 bytes more than the IP packet.
    """
    tick = tick_s(lab.wan) if wanted.rate_bps else 0.0
    for port in ("gw1", "gw2"):
        parent: tuple[str, ...] = ("root", "handle", "1:")
        if wanted.impaired:
            delay: tuple[str, ...] = ("delay", f"{wanted.delay_ms}ms")
            if wanted.jitter_ms:
                delay += (f"{wanted.jitter_ms}ms", "distribution", "normal")
            loss = ("loss", "random", f"{100 * wanted.loss_ratio}%") if wanted.loss_ratio else ()
            order = ("rate", IN_ORDER) if wanted.jitter_ms else ()
            # Whatever is on its way waits here: far more packets than any rate puts into any delay.
            netem = ("netem", "limit", "1000000", *delay, *loss, *order)
            lab.wan.run("tc", "qdisc", "add", "dev", port, *parent, *netem)
            parent = ("parent", "1:1", "handle", "2:")
        if wanted.rate_bps:
            sizes = ("burst", str(bucket_bytes(wanted, tick)), "limit", str(queue_bytes(wanted)))
            rate = ("tbf", "rate", f"{int(wanted.rate_bps)}bit", *sizes)
            lab.wan.run("tc", "qdisc", "add", "dev", port, *parent, *rate)
    if wanted.mtu_bytes != Conditions.mtu_bytes:
        for port in ("gw1", "gw2"):
            lab.wan.run("ip", "link", "set", "dev", port, "mtu", str(wanted.mtu_bytes))
        for site in lab.sites:
            lab.gateway(site).run("ip", "link", "set", "dev", site.wan_interface, "mtu", str(wanted.mtu_bytes))


def clear(lab: Lab) -> None:
    """Take the queues of ``apply`` away again."""
    for port in ("gw1", "gw2"):
        lab.wan.run("tc", "qdisc", "del", "dev", port, "root", check=False)


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


def verify(lab: Lab, wanted: Conditions) -> str:
    """Probe what the WAN does now, between the bare gateways; what was found, in words.

    Raises MeasurementError where delay, loss, MTU or rate are not what was asked for.
    """
    said = []
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    if wanted.impaired or wanted.mtu_bytes != Conditions.mtu_bytes:
        said.append(_pinged(lab, wanted))
    full = wanted.mtu_bytes - 28  # IPv4 and ICMP
    fits = near.run("ping", "-c3", "-W3", "-i0.2", "-Mdo", f"-s{full}", far, check=False).code
    longer = near.run("ping", "-c1", "-W1", "-Mdo", f"-s{full + 1}", far, check=False).code
    if (fits != 0 and wanted.loss_ratio < 0.2) or longer == 0:
        raise MeasurementError(f"the WAN's MTU is not {wanted.mtu_bytes} bytes")
    if wanted.rate_bps:
        said.append(_rate(lab, wanted))
    return ", ".join(said)


def _pinged(lab: Lab, wanted: Conditions) -> str:
    """Round-trip time and loss of a thousand pings."""
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    count = PINGS if wanted.loss_ratio else 40
    done = near.run("ping", "-q", f"-c{count}", "-i0.002", "-W3", far, check=False, timeout=60)
    times = re.search(r"= ([\d.]+)/([\d.]+)/", done.stdout)
    received = re.search(r"(\d+) received", done.stdout)
    if not times or not received:
        raise MeasurementError(f"the WAN carries no ping: {done.stdout.strip()[-200:]}")
    fastest_ms, mean_ms = float(times[1]), float(times[2])
    expected_ms = 2 * wanted.delay_ms
    slack_ms = 1 + 0.1 * expected_ms + wanted.jitter_ms
    if fastest_ms < 0.9 * expected_ms - 8 * wanted.jitter_ms or mean_ms > expected_ms + slack_ms * 3:
        raise MeasurementError(f"the WAN's round trip takes {mean_ms:.1f} ms, not {expected_ms:g} ms")
    lost = count - int(received[1])
    both_ways = 1 - (1 - wanted.loss_ratio) ** 2
    if scipy.stats.binomtest(lost, count, both_ways).pvalue < UNLIKELY:
        raise MeasurementError(f"the WAN lost {lost} of {count} round trips, not {both_ways:.2%}")
    return f"RTT {mean_ms:.2f} ms, {lost} of {count} round trips lost"


def _rate(lab: Lab, wanted: Conditions) -> str:
    """What passes in a second of more than the rate, after the queue has filled."""
    assert wanted.rate_bps is not None
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    length = min(wanted.mtu_bytes, 1400)
    near.write(f"{probes.FOLDER}/generate.py", probes.source("generate"), mode=0o644)
    per_s = 1.3 * wanted.rate_bps / 8 / (length + 14) / (1 - wanted.loss_ratio)
    filled_s = 0.2 + (wanted.queue_ms / 0.3 + wanted.delay_ms) / 1e3
    seconds = filled_s + 10 * PROBE_S * PATIENCE  # at most: it is stopped when all is seen
    trial = {"address": far, "port": 9, "ip_bytes": [length], "per_s": per_s, "seconds": seconds, "burst": 1}
    idle = outer(lab).packets + 20
    sender = near.spawn("python3", "-IS", f"{probes.FOLDER}/generate.py", json.dumps(trial), log="wan-rate")
    wait_until(lambda: outer(lab).packets > idle, "the probe's packets on the WAN")
    time.sleep(filled_s)  # nothing tells that the queue is full
    counter = f"/sys/class/net/{interface(near, lab.sites[0].wan_interface)}/statistics/tx_packets"
    # The time is taken after each reading: nearly all that one takes, a tenth of a second and more on a busy machine
    # or in a guest kernel, goes by before its command looks at the counter.
    before, started, sent = outer(lab), time.monotonic(), int(near.run("cat", counter).stdout)
    time.sleep(PROBE_S * PATIENCE)
    passed, elapsed, sent = outer(lab) - before, time.monotonic() - started, int(near.run("cat", counter).stdout) - sent
    if not sender.alive():
        raise MeasurementError("the probe of the WAN's rate was over before it was read: this machine is too busy")
    sender.stop()
    found_bps = 8 * (passed.ip_bytes + 14 * passed.packets) / elapsed
    offered_bps = 8 * (length + 14) * sent / elapsed * (1 - wanted.loss_ratio)
    if found_bps < 0.85 * wanted.rate_bps and offered_bps < 1.1 * wanted.rate_bps:
        said = f"this machine offered {offered_bps / 1e6:.4g} Mbit/s to a WAN of {wanted.rate_bps / 1e6:.4g}"
        raise MeasurementError(f"the WAN's rate cannot be probed: {said}")
    if not 0.85 * wanted.rate_bps <= found_bps <= 1.1 * wanted.rate_bps:
        raise MeasurementError(f"the WAN carries {found_bps / 1e6:.4g} Mbit/s, not {wanted.rate_bps / 1e6:.4g}")
    return f"{found_bps / 1e6:.4g} Mbit/s"
