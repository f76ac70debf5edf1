"""The Quagga paper's reroute: a link dies, OSPF finds another path, and the tunnel follows it."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring


def sensible(params: Mapping[str, str]) -> bool:
    """Without a routing daemon nothing leads to a loopback; the paper's tunnel of figure 3b ends on a link."""
    return params["endpoint"] == "link" or (params["detection"] != "static" and "uplinks" not in params)


EXPERIMENT = Experiment(
    name="reroute",
    question="How long is a tunnel between OSPF routers interrupted when the link below it dies, and what "
    "decides that?",
    method="There are five FRR routers. The path gw1–r2–r3–gw2 is cheaper than gw1–r5–gw2. With one_router, both"
    " links of gw1 end at r2, and there is no r5. A thousand datagrams a second go each way through the "
    "tunnel while the link gw1–r2 dies, with loss of carrier or silently. The routers watch their "
    "neighbours by hellos of 1 s, by minimal hellos, or by BFD (the profile thesis also uses the default "
    "hellos). With static, no router runs a routing daemon: gw1 has a second route with a higher metric, "
    "and a VPN that can follow gw1's new address is configured to do so. The tunnel ends on loopbacks, or"
    " at gw1 on the address of the link that dies, as in the paper. The detail has both paths. The "
    "profile thesis causes 30 failures of each kind, quick 3, smallest 1, each at a random moment.",
    source="paper on strongSwan and Quagga, Section V; RFC 6412, RFC 6413; RFC 5880 (BFD); RFC 2328 (OSPF)",
    metrics=("convergence_ms",),
    traffic=(measuring("reroute"),),
    vary_traffic={
        "detection": ("default", "hello", "minimal_hello", "bfd", "static"),
        "endpoint": ("loopback", "link"),
        "link_failure": ("carrier", "silent"),
        "uplinks": ("two_routers", "one_router"),
    },
    sensible=sensible,
    only=("ipip", "ipsec", "ipsec_user", "gre_ipsec", "wireguard", "wireguard_go", "openvpn", "tinc"),
)
