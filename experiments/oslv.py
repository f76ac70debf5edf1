"""The OSLV study on today's VPNs: links of 100 Mbit/s, overhead, bandwidth utilisation, latency and jitter."""

from collections.abc import Callable, Mapping
from functools import partial
from math import inf

from runner import closed_form, findings
from runner.experiment import IDLE, OVERHEAD, TCP, UDP, Experiment, Profile
from runner.findings import LESS, Blocks, Data, Finding, Judgement, NotMeasured
from runner.plugin import Vpn
from runner.published import paper

STATED = paper("oslv")
LINK_BPS = STATED["link"] * 1e6
WAN = {"wan_rate_bps": f"{LINK_BPS:.0f}"}
LONG, SHORT = OVERHEAD | {"packet_bytes": "512"}, OVERHEAD | {"packet_bytes": "64"}
TRAFFIC = {"overhead_bytes": LONG, "tcp_throughput": TCP, "rtt": IDLE, "jitter": UDP}
TOLERANCE = 1.2  # a claim like "50 percent lower" is met within a fifth


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The short profiles: each VPN's own levels, and the overhead without a cipher, which tells headers apart."""
    bare = params["cipher"] == "null" and params["transport"] == "overhead"
    own = params["cipher"] == vpn.comparable["cipher"] or bare
    return profile.name == "thesis" or (own and params["integrity"] == vpn.comparable["integrity"])


def metric_of(data: Data, metric: str, vpn: str, cipher: str = "") -> Blocks:
    if vpn not in data.run.vpns:
        raise NotMeasured(f"{vpn} is not in this run")
    levels = data.run.vpns[vpn].configurations["comparable"]
    tunnel = {"cipher": cipher or levels["cipher"], "integrity": levels["integrity"]}
    return data.blocks(metric, vpn, **WAN, **tunnel, **TRAFFIC[metric])


def group(data: Data, metric: str, member: Callable[[str], bool]) -> dict[int, float]:
    """Block -> mean of ``metric`` over the VPNs that are members. A common divisor (80 B, plain IP) cancels."""
    vpns = [vpn for vpn in data.vpns(metric) if not data.run.vpns[vpn].reference and member(vpn)]
    values = [metric_of(data, metric, vpn) for vpn in vpns]
    blocks = set.intersection(*(set(found) for found in values)) if values else set()
    return {block: sum(found[block] for found in values) / len(values) for block in blocks}


def udp_over_tcp(metric: str, between: tuple[float, float], published: float, data: Data) -> Judgement:
    def stacked(vpn: str) -> bool:
        return data.run.vpns[vpn].transport == "tcp"

    over_udp, over_tcp = group(data, metric, lambda vpn: not stacked(vpn)), group(data, metric, stacked)
    if not over_udp or not over_tcp:
        raise NotMeasured(f"{metric} needs VPNs in TCP, and others")
    return findings.compare(over_udp, over_tcp, between, published)


def grouped(name: str, found: str, metric: str, low: float, high: float, published: float) -> Finding:
    between = (low / TOLERANCE, high * TOLERANCE)
    return Finding(name, "oslv", "Network Performance", found, partial(udp_over_tcp, metric, between, published))


def utilisation(data: Data) -> Judgement:
    vpns = [vpn for vpn in data.vpns("tcp_throughput") if not data.run.vpns[vpn].reference]
    rates = {vpn: metric_of(data, "tcp_throughput", vpn) for vpn in vpns}
    if not rates:
        raise NotMeasured("no VPN has a TCP throughput on this link")
    best = max(rates, key=lambda vpn: sum(rates[vpn].values()) / len(rates[vpn]))
    shares = {block: rate / LINK_BPS for block, rate in rates[best].items()}
    judged = findings.single(shares, (0, STATED["utilisation.best"] / 100), STATED["utilisation.best"] / 100)
    return judged.model_copy(update={"reason": f"the best is {best}: {judged.reason}"})


def lowest(metric: str, data: Data) -> Judgement:
    """Is IPsec in the kernel below every other VPN?"""
    ours = metric_of(data, metric, "ipsec")
    others = [vpn for vpn in data.vpns(metric) if vpn != "ipsec" and not data.run.vpns[vpn].reference]
    return findings.all_of({vpn: partial(findings.compare, ours, metric_of(data, metric, vpn), LESS) for vpn in others})


def headers(data: Data) -> Judgement:
    """Of the overhead of a 512-byte packet, what is left without cipher, IV, padding and integrity."""

    def one(vpn: str) -> Judgement:
        bare, whole = metric_of(data, "overhead_bytes", vpn, "null"), metric_of(data, "overhead_bytes", vpn)
        integrity = data.run.vpns[vpn].configurations["comparable"]["integrity"]
        tag = closed_form.HMAC[integrity] if vpn == "openvpn" else closed_form.ESP_ICV[integrity]
        shares = {block: (bare[block] - tag) / whole[block] for block in bare.keys() & whole.keys()}
        stated = STATED["overhead.headers"] / 100
        return findings.single(shares, (stated / TOLERANCE, stated * TOLERANCE), stated)

    return findings.all_of({vpn: partial(one, vpn) for vpn in ("ipsec", "ipsec_user", "openvpn")})


EXPERIMENT = Experiment(
    name="oslv",
    question="On links of 100 Mbit/s, how much of the link does each VPN use, and what does it add to every packet?",
    method="The WAN shaped to 100 Mbit/s. One TCP stream each way, the loss-bounded UDP search with its jitter, "
    "the idle tunnel's round trip, and the overhead of packets of 64 and 512 bytes, at the comparable levels.",
    source="OSLV paper §Network Performance, figure 3; RFC 2647 §3.17 (goodput)",
    metrics=("tcp_throughput", "udp_throughput", "rtt", "jitter", "overhead_bytes"),
    traffic=(TCP, TCP | {"direction": "reverse"}, UDP, IDLE, SHORT, LONG),
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
        Finding("best", "oslv", "Network Performance", "the best VPN uses less than half of the link", utilisation),
        Finding("ipsec-rtt", "oslv", "Network Performance", "IPsec has the lowest latency", partial(lowest, "rtt")),
        Finding(
            "ipsec-jitter", "oslv", "Network Performance", "IPsec has the lowest jitter", partial(lowest, "jitter")
        ),
        Finding("headers", "oslv", "Overhead", "headers make 75 % of the overhead", headers),
    ),
)
