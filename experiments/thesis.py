"""The thesis' three sweeps at once, and what it found in them: an order, ratios, and an explanation."""

from collections.abc import Mapping

from experiments._thesis import VPNS, at, costs, extreme, packed, same_order, spread, tcp, tcp_is_udp
from runner.data.levels import LOADED, TCP, UDP
from runner.design.experiment import Experiment
from runner.design.profile import Profile
from runner.papers.findings import LESS, MORE, Finding, close
from runner.vpn.plugin import Vpn

CBC = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "blowfish-128-cbc", "3des-cbc")
LINK = "their baseline was a link of 1 Gbit/s, this lab's is the CPU: shown beside each other, without a verdict"
SWITCHES, BYTES = "context_switches_per_packet", "wire_bytes_per_payload_byte"


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """One parameter at a time is varied, as in §3.5.1."""
    if params["measure"] != "tcp":
        return params["compression"] == "off" and params["cipher"] in ("none", "aes-128-cbc")
    if params["compression"] == "off":
        return params["payload"] == "random"
    return params["cipher"] == "aes-128-cbc"


EXPERIMENT = Experiment(
    name="thesis",
    question="Do the thesis' order of VPNs, and its explanation, hold on today's software and this hardware?",
    method="Its systems and its three sweeps: TCP and UDP at AES-128-CBC, TCP with each of its CBC ciphers, TCP with "
    "compression and payloads that can and cannot be compressed; switches, calls and WAN bytes beside them.",
    source="thesis §3.5.1 to §5.5",
    metrics=("tcp_throughput", "udp_throughput", SWITCHES, "syscalls_per_packet", BYTES),
    traffic=(TCP, UDP, LOADED),
    vary={"cipher": CBC, "compression": ("off", "on")},
    vary_traffic={"payload": ("random", "zeros")},
    only=("none", "ipip", *VPNS),
    keep=("cipher",),
    wanted=wanted,
    findings=(
        tcp("ipip", "§4.1", "IPIP costs next to nothing", at("ipip"), at("none"), LESS, LINK),
        tcp("encryption", "§4.1", "encryption costs most", at("ssh_forward"), at("none"), LESS, LINK),
        tcp("forward", "§4.2", "SSH forwarding is as fast as IPsec", at("ssh_forward"), at("ipsec"), close(0.1)),
        tcp("ipsec-tun", "§4.2", "IPsec is faster than SSH with a TUN", at("ipsec"), at("ssh_tun"), MORE),
        tcp("forward-tun", "§4.2", "SSH forwarding is faster than a TUN", at("ssh_forward"), at("ssh_tun"), MORE),
        tcp("tun-openvpn", "§4.2", "SSH with a TUN is faster than OpenVPN", at("ssh_tun"), at("openvpn"), MORE),
        Finding("tcp-udp", "thesis", "§5.2", "UDP and TCP throughput are close, in every VPN", tcp_is_udp),
        extreme("blowfish-128-cbc", "Blowfish is the fastest cipher", MORE),
        extreme("3des-cbc", "3DES is the slowest cipher", LESS),
        Finding("same-order", "thesis", "§6.1", "the VPNs have the same order in almost every test", same_order),
        packed("openvpn", "zeros", MORE, "OpenVPN gains by compression"),
        packed("ssh_forward", "zeros", MORE, "SSH port forwarding gains by compression"),
        packed("ipsec", "zeros", LESS, "IPsec loses by compression"),
        packed("ssh_tun", "zeros", LESS, "SSH with a TUN loses by compression"),
        *(packed(vpn, "random", LESS, f"compressed data costs {vpn}") for vpn in ("ipsec", "ssh_tun", "ssh_forward")),
        packed("openvpn", "random", close(0.1), "compressed data costs OpenVPN's LZO nothing"),
        Finding("spread", "thesis", "§4, Appendix", "no coefficient of variation exceeds 9 %", spread),
        costs(SWITCHES, "openvpn", "ipsec", "OpenVPN switches, and IPsec does not"),
        costs(SWITCHES, "ssh_tun", "ssh_forward", "a virtual interface costs switches"),
        costs(BYTES, "ipsec", "ssh_forward", "IPsec carries more bytes than SSH forwarding"),
    ),
)
