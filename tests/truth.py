"""What a shaped link must give, by arithmetic: the known answers for tests and for ``make bench-truth``.

The WAN's token bucket (runner.wan) counts Ethernet frames without preamble, gap and checksum, so that a
frame has 14 bytes more than its IP packet. Whatever the bucket holds when a trial begins comes through on top of
the rate, and so does what the queue holds when it ends, as far as the instrument waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.errors import MeasurementError
from runner.image import Image
from runner.lab import Lab
from runner.labs import NamespaceRig
from runner.measure.packets import GRACE_S
from runner.plugin import load_vpn
from runner.tunnel import Bench, Tunnel, bring_up, make_secrets, start_services
from runner.wan import Conditions, apply, bucket_bytes, queue_bytes

QUEUE_S = 0.1  # on a busy machine a generator is late by tens of milliseconds, and then sends what it owes
ETHERNET_BYTES = 14
IPV4_UDP_BYTES = 28
IPV4_TCP_BYTES = 52  # with the timestamp option
MSS_BYTES = 1448


def frame_rate(link_bps: float, inner_bytes: int, overhead_bytes: float = 0) -> float:
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


@contextmanager
def shaped(image: Image, logs: Path, link_bps: float, queue_s: float, name: str = "none") -> Iterator[Bench]:
    """The lab with the VPN ``name`` up, its WAN limited to ``link_bps``."""
    vpn, rig = load_vpn(name), NamespaceRig()
    secrets: dict[str, str] = {}

    def renewal() -> tuple[Lab, Tunnel]:
        raise MeasurementError("the tunnel broke down")

    with rig.lab(image, logs=logs) as lab:
        secrets = make_secrets(vpn, rig.alone(image, lambda line: None), lab.sites)
        start_services(lab)
        up = bring_up(lab, vpn, vpn.comparable, secrets)
        apply(lab, Conditions(rate_bps=link_bps, queue_ms=1e3 * queue_s))
        yield Bench(lab, up, renewal)
