"""The thesis' three sweeps at once, and what it found in them: an order, ratios, and an explanation."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.papers.judges.thesis import BYTES, FUTURE, LOOKUPS, SWITCHES, VPNS
from runner.vpn.plugin import Vpn

# The thesis' datagrams: 1470 bytes of payload are an IP packet of 1498.
DATAGRAM = measuring("overhead", packet_bytes="1498", fragmentation="allow")
CBC = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "blowfish-128-cbc", "3des-cbc")


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """One parameter at a time is varied, as in §3.5.1."""
    if params["compression"] == "adaptive" and "adaptive" not in vpn.offers.compressions:
        return False  # OpenVPN's alone
    if vpn.name in FUTURE and params["measure"] not in ("tcp", "udp"):
        return False
    if params["measure"] != "tcp" or vpn.name in FUTURE:
        plain = params["compression"] == "off" and params["cipher"] in ("none", "aes-128-cbc")
        return plain and params.get("payload", "random") == "random"
    if params["compression"] == "off":
        return params["payload"] == "random"
    return params["cipher"] == "aes-128-cbc"


def sends_files(params: Mapping[str, str]) -> tuple[bool, ...]:
    """The thesis sends files in its tests of compression alone (§3.5.1). It compares these with the test without, which
    belongs to its other sweeps, too."""
    if params["compression"] != "off":
        return (True,)
    return (False, True) if params["cipher"] == "aes-128-cbc" else (False,)


EXPERIMENT = Experiment(
    name="thesis",
    question="Do the thesis' order of VPNs, and its explanation, hold on today's software and this hardware?",
    method="vpneval repeats the thesis' systems and its three sweeps: TCP and UDP at AES-128-CBC, TCP with each of its "
    "CBC ciphers, and TCP with compression (OpenVPN's LZO also in the mode adaptive, as in the thesis) for "
    "payloads that can and cannot be compressed. It also counts context switches, system calls and bytes on the "
    "WAN, and into how many packets a datagram of 1470 bytes is cut, by whom, and how often a route is looked up. "
    "GRE and L2TP, which the thesis leaves to others, run alone and over IPsec, at AES-128-CBC. The thesis does "
    "not state the integrity: it is HMAC-SHA-256 here, and `--set integrity=hmac-sha1` or several levels change "
    "it.",
    source="thesis §3.5.1 to §6.2",
    metrics=("tcp_throughput", "udp_throughput", SWITCHES, "syscalls_per_packet", BYTES, "overhead_bytes", LOOKUPS),
    traffic=(measuring("tcp"), measuring("udp"), measuring("loaded"), DATAGRAM, measuring("lookups")),
    vary={"cipher": CBC, "compression": ("off", "on", "adaptive")},
    vary_traffic={"payload": ("random", "zeros")},
    only=("none", "ipip", *VPNS, *FUTURE),
    keep=("cipher",),
    within={"transfer": sends_files},
    wanted=is_wanted,
)
