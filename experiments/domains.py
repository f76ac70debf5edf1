"""Two sites with the same addresses: what the OSLV paper found no VPN to route."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """By the gateways with every VPN, by the VPN itself where it can."""
    return params["translator"] == "gateway" or bool(vpn.declared.abilities.translates)


EXPERIMENT = Experiment(
    name="domains",
    question="Can a VPN join two sites whose networks have the same addresses?",
    method="Both sites have the network 172.16.5.0/24, and a host with the same address. To each other they have the "
    "networks 10.1.0.0/24 and 10.2.0.0/24. The gateways translate one for one by nftables, or the VPN does "
    "itself. A host of each site asks the other's over TCP. As a control, one gateway stops to translate.",
    source="OSLV paper, section Routing and Table 3; nft(8); openvpn(8), client-nat",
    metrics=("overlap_reach",),
    traffic=(measuring("domains"), measuring("domains", translator="vpn")),
    wanted=is_wanted,
)
