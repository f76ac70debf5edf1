"""What a shaped link must give, by arithmetic: the known answers for tests and for ``make bench-truth``.

The WAN's token bucket (runner.lab.shape.wan) counts Ethernet frames without preamble, gap and checksum, so that a
frame has 14 bytes more than its IP packet. Whatever the bucket holds when a trial begins comes through on top of
the rate, and so does what the queue holds when it ends, as far as the instrument waits for it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.trials import Value
from runner.data.wan import Conditions
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.result import Measured
from runner.instruments.tools.arrivals import GRACE_S, by_then
from runner.instruments.tools.generator import Arrived, Load, imix
from runner.instruments.traffic.udp import Udp
from runner.lab.places import NamespaceRig
from runner.lab.readings.noise import STEAL_RATIO, noise_since, snapshot
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.shape.wan import apply, bucket_bytes, queue_bytes
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services

ATTEMPTS = 5  # other work on the machine makes a generator late, and then the link loses what it sends in haste
BUSY = 0.2
JUMBO_MTU_BYTES = 9000
QUEUE_S = 0.1  # on a busy machine a generator is late by tens of milliseconds, and then sends what it owes
ETHERNET_BYTES = 14
IPV4_UDP_BYTES = 28
IPV4_TCP_BYTES = 52  # with the timestamp option
MSS_BYTES = 1448
MIXED_MTU_BYTES, MIXED_S = 1500, 0.5


def frame_rate(link_bps: float, inner_bytes: float, overhead_bytes: float = 0) -> float:
    """Packets per second of ``inner_bytes`` (IP) that fit through the link, a tunnel's bytes added to each."""
    return link_bps / 8 / (inner_bytes + overhead_bytes + ETHERNET_BYTES)


def tcp_goodput(link_bps: float) -> float:
    """Payload bit/s of full TCP segments."""
    return frame_rate(link_bps, MSS_BYTES + IPV4_TCP_BYTES) * MSS_BYTES * 8


def udp_throughput(link_bps: float, payload_bytes: int, loss_ratio: float, trial_s: float, queue_s: float) -> float:
    """Offered payload bit/s at which ``loss_ratio`` of a trial of ``trial_s`` seconds is lost."""
    link = Conditions(rate_bps=link_bps, queue_ms=1e3 * queue_s)
    stored_bits = 8 * (bucket_bytes(link) + queue_bytes(link))
    gift = 1 + stored_bits / link_bps / trial_s
    return frame_rate(link_bps, payload_bytes + IPV4_UDP_BYTES) * payload_bytes * 8 * gift / (1 - loss_ratio)


def packet_rate(
    link_bps: float, inner_bytes: int, loss_ratio: float, trial_s: float, overhead_bytes: float = 0
) -> float:
    """Offered packets/s at which ``loss_ratio`` does not come within the time: what is late does not count."""
    gift = 1 + (8 * bucket_bytes(Conditions(rate_bps=link_bps)) / link_bps + GRACE_S) / trial_s
    return frame_rate(link_bps, inner_bytes, overhead_bytes) * gift / (1 - loss_ratio)


SHORT = PROFILES["smallest"]  # the profile of short trials


def udp_in_time(link_bps: float, payload_bytes: int, loss_ratio: float) -> float:
    """Offered payload bit/s at which ``loss_ratio`` of a short trial does not come within its time."""
    gift = 1 + 8 * bucket_bytes(Conditions(rate_bps=link_bps)) / link_bps / SHORT.udp.trial_duration_s
    return frame_rate(link_bps, payload_bytes + IPV4_UDP_BYTES) * payload_bytes * 8 * gift / (1 - loss_ratio)


def mixture(link_bps: float) -> Load:
    """Packets of three lengths, 5 % more of them than the link carries."""
    lengths, _ = imix(MIXED_MTU_BYTES)
    return Load(lengths, 1.05 * frame_rate(link_bps, statistics.fmean(lengths)), MIXED_S)


def mixture_bps(load: Load, link_bps: float) -> float:
    """Ethernet bit/s that come of such a load while it is sent: the link's rate and its bucket, of any lengths."""
    return link_bps + 8 * bucket_bytes(Conditions(rate_bps=link_bps)) / load.seconds


def mixture_came_bps(arrived: Arrived) -> float:
    """The same, as the far host's interface counted it. Not the packets: a full queue loses more of the long ones."""
    return by_then(arrived.samples, arrived.load.seconds) * 8 * arrived.samples[-1][1] / arrived.load.seconds


def udp_generated(bench: Bench, payload_bytes: int) -> Measured:
    """UDP throughput through plain IP by short trials of the generator, as where VPNs take turns."""
    levels = {"payload_bytes": str(payload_bytes), "fragmentation": "refuse"}
    asked = Asked(load_vpn("none"), levels, SHORT, 1)
    return at_once(Udp().measure(bench, asked))


def payload_that_fits(link_bps: float) -> tuple[int, int]:
    """UDP payload and MTU (bytes) that fill a frame; from 500 Mbit/s long frames, so that the sender keeps up."""
    mtu_bytes = 1500 if link_bps < 500e6 else JUMBO_MTU_BYTES
    return mtu_bytes - IPV4_UDP_BYTES, mtu_bytes


def found_near(expected: float, within: float, measure: Callable[[], Value]) -> Value:
    """The first of a few measurements that is near what is expected, or the last.

    Skips the test where none is near, and at most one was undisturbed: other work was seen just before the others, or
    CPU time was stolen in them.
    """
    disturbed: list[str] = []
    for _ in range(ATTEMPTS):
        busy, before = busy_ratio(), snapshot()
        found = measure()
        if abs(found.value / expected - 1) <= within:
            return found
        stolen = noise_since(before).steal_ratio or 0.0
        if busy > BUSY or stolen > STEAL_RATIO:
            disturbed.append(f"{busy:.0%} busy before, {stolen:.1%} stolen")
    if len(disturbed) >= ATTEMPTS - 1:
        pytest.skip(f"a known answer needs the machine to itself: {'; '.join(disturbed)}")
    return found


def busy_ratio() -> float:
    """The share of the machine's CPU time that is in use (or stolen) just now, while the lab is idle."""
    before = snapshot().ticks
    time.sleep(0.5)
    now = snapshot().ticks
    assert before is not None
    assert now is not None
    spent = [new - old for new, old in zip(now, before, strict=True)]
    return 1 - (spent[3] + spent[4]) / sum(spent)  # idle, and waiting for a disk


def set_mtu(lab: Lab, mtu_bytes: int) -> None:
    """The MTU of every link from host1 to host2."""
    batch(lab.wan, *(f"link set {port} mtu {mtu_bytes}" for port in ("gw1", "gw2", "br0")))
    for site in lab.sites:
        batch(lab.gateway(site), f"link set wan0 mtu {mtu_bytes}", f"link set lan0 mtu {mtu_bytes}")
    for host in (lab.host1, lab.host2):
        batch(host, f"link set eth0 mtu {mtu_bytes}")


@contextmanager
def shaped(
    image: Image, logs: Path, link_bps: float, queue_s: float, name: str = "none", mtu_bytes: int = 1500
) -> Iterator[Bench]:
    """The lab with the VPN ``name`` up, its WAN limited to ``link_bps``."""
    vpn, rig = load_vpn(name), NamespaceRig()
    secrets: dict[str, str] = {}

    def renewal() -> tuple[Lab, Tunnel]:
        raise MeasurementError("the tunnel broke down")

    with rig.lab(image, logs=logs) as lab:
        set_mtu(lab, mtu_bytes)
        secrets = make_secrets(vpn, rig.alone(image, lambda line: None), lab.sites)
        start_services(lab)
        up = bring_up(lab, vpn, vpn.comparable, secrets)
        apply(lab, Conditions(rate_bps=link_bps, queue_ms=1e3 * queue_s))
        yield Bench(lab, up, renewal)
