"""The thesis' open question: do the VPNs keep their order when many clients load the gateways?"""

from collections.abc import Mapping

from runner.design.experiment import ALL, Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The short profiles leave out every second step."""
    return profile.name == "thesis" or (params.get("streams") or params["clients"]) in ("1", "4", "16", "64")


EXPERIMENT = Experiment(
    name="load",
    question="Does SSH port forwarding keep up with IPsec when many flows load the gateways, and which shares "
    "them fairly?",
    method="1, 2, 4 … 64 parallel TCP streams run at AES-128-CBC without compression, or the nearest that the "
    "VPN has. vpneval reports their total rate and Jain's fairness index. Then as many clients, each with "
    "its own address behind the near gateway, download by HTTP at the same time.",
    source="thesis §6.2 (future work); Jain et al., DEC-TR-301 (1984); iperf3(1) --parallel; curl(1) --parallel",
    metrics=("flows_throughput", "fairness", "clients_throughput", "clients_fairness"),
    traffic=(measuring("flows"), measuring("clients")),
    vary_traffic={"streams": ALL, "clients": ALL},
    wanted=is_wanted,
)
