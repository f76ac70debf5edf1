"""The Quagga paper's reroute: a link dies, OSPF finds another path, and the tunnel follows it."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="reroute",
    question="How long is a tunnel between OSPF routers dead when the link below it dies, and what decides that?",
    method="Five FRR routers; gw1–r2–r3–gw2 is the cheaper path, gw1–r5–gw2 the other. A thousand datagrams a second "
    "each way through the tunnel while the link gw1–r2 dies: with loss of carrier, or silently. Neighbours are watched "
    "by hellos of 1 s, by minimal hellos, or by BFD (in the thesis profile by default hellos, too). The tunnel ends "
    "on loopbacks, or at gw1 on the address of the link that dies, as in the paper. Both paths are in the detail. "
    "30 failures of each kind in the thesis profile, 3 in quick, 1 in smallest, each at a random moment.",
    source="paper on strongSwan and Quagga, Section V; RFC 6412, RFC 6413; RFC 5880 (BFD); RFC 2328 (OSPF)",
    metrics=("convergence_ms",),
    traffic=(measuring("reroute"),),
    vary_traffic={
        "detection": ("default", "hello", "minimal_hello", "bfd"),
        "endpoint": ("loopback", "link"),
        "link_failure": ("carrier", "silent"),
    },
    only=("ipip", "ipsec", "ipsec_user", "gre_ipsec", "wireguard", "wireguard_go", "openvpn", "tinc"),
)
