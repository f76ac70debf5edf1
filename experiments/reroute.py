"""The Quagga paper's reroute: a link dies, OSPF finds another path, and the tunnel follows it."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="reroute",
    question="How long is a tunnel between OSPF routers interrupted when the link below it dies, and what "
    "decides that?",
    method="There are five FRR routers. The path gw1–r2–r3–gw2 is cheaper than gw1–r5–gw2. A thousand datagrams "
    "a second go each way through the tunnel while the link gw1–r2 dies, with loss of carrier or "
    "silently. The routers watch their neighbours by hellos of 1 s, by minimal hellos, or by BFD (the "
    "profile thesis also uses the default hellos). The tunnel ends on loopbacks, or at gw1 on the address "
    "of the link that dies, as in the paper. The detail has both paths. The profile thesis causes 30 "
    "failures of each kind, quick 3, smallest 1, each at a random moment.",
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
