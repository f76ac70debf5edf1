"""What a real path does to a tunnel: marks, reordering, loss, filters, a small MTU, a NAT, a policer, a deep queue."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn

PROBES = ("marks", "reordering", "repeats", "narrow", "blocked", "nat", "policing", "bulk")


def with_option(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """Marks are copied only where the VPN has an option for it."""
    return "marks" not in params or vpn.copies_marks


EXPERIMENT = Experiment(
    name="path",
    question="What does each VPN do when the path marks, reorders, repeats, loses or blocks packets, is narrow, slow "
    "or a NAT?",
    method="A program takes the place of the WAN's bridge and does one thing to the tunnel's packets, exactly and by "
    "number; a filter lets only some protocols pass; a router has a small MTU, polices, lets a long queue wait, or is "
    "a NAT that changes its mappings. Each verdict has its control in the same trial: the same from gateway to "
    "gateway, without a tunnel. If the control fails, there is no value. See docs/paths.md.",
    source="RFC 2983 and RFC 6040 (DSCP, ECN), RFC 4303 §3.4.3 (replay window), RFC 4737 (reordering), RFC 5560 "
    "(duplication), RFC 6534 (bursts of loss), RFC 8229 (UDP blocked), RFC 1191 and RFC 2923 (path MTU, black holes), "
    "RFC 4787 (NAT), RFC 2475 (policers), RFC 7567 (queues)",
    metrics=(
        "dscp_copied",
        "congestion_heard",
        "reordering_depth",
        "duplicates_borne",
        "burst_loss_borne",
        "passes_without_udp",
        "passes_https_only",
        "black_hole_mtu",
        "narrow_mtu",
        "nat_port_back",
        "nat_address_back",
        "policed_share",
        "beside_bulk_p50",
        "beside_bulk_p99",
    ),
    traffic=(*(measuring(probe) for probe in PROBES), measuring("marks", marks="copied")),
    base="recommended",
    wanted=with_option,
)
