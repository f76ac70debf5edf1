"""How much longer packets get: bytes on the WAN for each packet, and the longest packet that fits."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="overhead",
    question="How many bytes does a VPN add to a packet, and how long may a packet be?",
    method="vpneval sends 200 packets of one length slowly through the idle tunnel. The overhead is the IP bytes "
    "on the WAN minus the packets' own. It is counted by interface counters and compared with a capture "
    "and with the protocol's closed form. The path MTU is found by ICMP echo with DF set.",
    source="RFC 4303 §2 (ESP), WireGuard whitepaper §5.4.6, openvpn(8), RFC 4253 §6 (SSH), RFC 1191 §3 (path MTU)",
    metrics=("overhead_bytes", "path_mtu"),
    traffic=(measuring("overhead"), measuring("mtu")),
    vary_traffic={"packet_bytes": ("64", "128", "256", "512", "1024", "1400")},
)
