"""The OSLV study on today's VPNs: links of 100 Mbit/s, overhead, bandwidth utilisation, latency and jitter."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.papers.cells import LONG, SHORT, WAN
from runner.papers.judges.oslv import BARE, PACKING, SLOW
from runner.vpn.plugin import Vpn

STREAMS = (measuring("tcp"), measuring("tcp", direction="reverse"))


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The short profiles: each VPN's own levels; the overhead with and without a cipher of 8-byte blocks; a stream to
    the slow gateway without cryptography, where the VPN can do without."""
    if "gw2_cpu" in params and vpn.reference:
        return False
    overhead = params["measure"] == "overhead"
    packing = overhead and params["cipher"] in ("null", PACKING[0]) and params["integrity"] == PACKING[1]
    own = (params["cipher"], params["integrity"]) == (vpn.comparable["cipher"], vpn.comparable["integrity"])
    slow = "gw2_cpu" in params and params["direction"] == "forward" and BARE.items() <= params.items()
    bare = slow and BARE["cipher"] in vpn.offers.ciphers and BARE["integrity"] in vpn.offers.integrities
    return profile.name == "thesis" or own or packing or bare


EXPERIMENT = Experiment(
    name="oslv",
    question="On links of 100 Mbit/s, how much of the link does each VPN use, and what does it add to every packet?",
    method="The WAN is shaped to 100 Mbit/s. At the comparable levels, vpneval measures one TCP stream each way, "
    "UDP throughput with at most 1 % loss and its jitter, the round trip of the idle tunnel, and the "
    "overhead of packets of 64 and 512 bytes. It measures the streams once more with a second gateway "
    "that gets a twentieth of a CPU (the paper's had a fifth of the clock rate), also without cryptography.",
    source="OSLV paper §Network Performance, figure 3; RFC 2647 §3.17 (goodput)",
    metrics=("tcp_throughput", "udp_throughput", "rtt", "jitter", "overhead_bytes"),
    traffic=(*STREAMS, *(stream | SLOW for stream in STREAMS), measuring("udp"), measuring("idle"), SHORT, LONG),
    wan=WAN,
    vary={
        "cipher": ("aes-128-cbc", "aes-128-gcm", "chacha20-poly1305", "blowfish-128-cbc", "3des-cbc", "null"),
        "integrity": ("hmac-sha256", "hmac-sha1", "hmac-md5", "none"),
    },
    own=True,
    keep=("cipher", "packet_bytes"),
    wanted=is_wanted,
)
