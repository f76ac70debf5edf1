"""The OSLV study on today's VPNs: links of 100 Mbit/s, overhead, bandwidth utilisation, latency and jitter."""

from collections.abc import Mapping
from functools import partial
from math import inf

from runner.data.levels import IDLE, TCP, UDP
from runner.design.experiment import Experiment
from runner.design.profile import Profile
from runner.papers import oslv
from runner.papers.findings import Finding
from runner.papers.oslv import LONG, SHORT, SLOW, WAN, grouped
from runner.vpn.plugin import Vpn

PERFORMANCE = "Network Performance"
STREAMS = (TCP, TCP | {"direction": "reverse"})


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The short profiles: each VPN's own levels, and the overhead without a cipher, which tells headers apart."""
    if "gw2_cpu" in params and vpn.reference:
        return False
    bare = params["cipher"] == "null" and params["measure"] == "overhead"
    own = params["cipher"] == vpn.comparable["cipher"] or bare
    return profile.name == "thesis" or (own and params["integrity"] == vpn.comparable["integrity"])


def lowest(metric: str, what: str) -> Finding:
    """The finding that IPsec in the kernel is below every other VPN in ``metric``."""
    judge = partial(oslv.lowest, metric)
    return Finding(f"ipsec-{metric}", "oslv", PERFORMANCE, f"IPsec in the kernel has the lowest {what}", judge, "time")


EXPERIMENT = Experiment(
    name="oslv",
    question="On links of 100 Mbit/s, how much of the link does each VPN use, and what does it add to every packet?",
    method="The WAN shaped to 100 Mbit/s. One TCP stream each way, the loss-bounded UDP search with its jitter, "
    "the idle tunnel's round trip, and the overhead of packets of 64 and 512 bytes, at the comparable levels; the "
    "streams once more with a second gateway of a twentieth of a CPU (theirs had a fifth of the clock rate).",
    source="OSLV paper §Network Performance, figure 3; RFC 2647 §3.17 (goodput)",
    metrics=("tcp_throughput", "udp_throughput", "rtt", "jitter", "overhead_bytes"),
    traffic=(*STREAMS, *(stream | SLOW for stream in STREAMS), UDP, IDLE, SHORT, LONG),
    underlay=WAN,
    vary={
        "cipher": ("aes-128-cbc", "aes-128-gcm", "chacha20-poly1305", "blowfish-128-cbc", "3des-cbc", "null"),
        "integrity": ("hmac-sha256", "hmac-sha1", "hmac-md5"),
    },
    own=True,
    keep=("cipher", "packet_bytes"),
    wanted=wanted,
    findings=(
        grouped("overhead", "VPNs in UDP have 50 % less overhead than those in TCP", "overhead_bytes", 0.5, 0.5, 0.5),
        grouped("use", "VPNs in UDP use 80 % more of the link than those in TCP", "tcp_throughput", 1.8, inf, 1.8),
        grouped("latency", "VPNs in UDP have 40 to 60 % less latency than those in TCP", "rtt", 0.4, 0.6, 0.5),
        grouped("jitter", "VPNs in UDP have 40 to 60 % less jitter than those in TCP", "jitter", 0.4, 0.6, 0.5),
        Finding("best", "oslv", PERFORMANCE, "the best VPN uses less than half of the link", oslv.utilisation, "share"),
        Finding("best-slow", "oslv", PERFORMANCE, "the best uses less than half, a gateway slow", oslv.slow, "share"),
        Finding("alike", "oslv", "The Experimental Testbed", "VPNs of one security protocol are alike", oslv.families),
        lowest("rtt", "latency"),
        lowest("jitter", "jitter"),
        Finding("least", "oslv", PERFORMANCE, "the least overhead of a VPN is 80 bytes a packet", oslv.least, "count"),
        Finding("headers", "oslv", "Overhead", "headers make 75 % of the overhead", oslv.headers, "count"),
    ),
)
