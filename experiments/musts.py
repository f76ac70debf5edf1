"""What a VPN can do beside carrying the line: each must that a trial can show, tried once."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="musts",
    question="What can a VPN do that no rate tells: carry IPv6, travel over it, come back after a gateway's move, "
    "join three sites, stay closed when it is down?",
    method="Each VPN is set up as its makers advise. UDP goes between the sites' IPv6 addresses. "
    "Round trips are measured over a WAN without IPv4. The dialing gateway's "
    "WAN address changes, and the tunnel has 150 s to come back, which is longer than daemons wait by default. Three "
    "gateways form a mesh. The probes of the experiment security attack the tunnel, and a router of the "
    "WAN has a small MTU. What counts is whether it works, "
    "so one repetition is enough: `--profile smallest`.",
    source="docs/musts.md; RFC 4301 §5.1 (failing closed), RFC 6413 (outages by loss)",
    metrics=("udp_throughput", "rtt", "outage_ms", "fail_closed", "mesh_time", "black_hole_mtu", "narrow_mtu"),
    traffic=(
        measuring("udp", inner="6"),
        measuring("idle", underlay="6"),
        measuring("recovery", failure="roaming", outage_limit_s="150"),
        measuring("security"),
        measuring("mesh", sites="3"),
        measuring("narrow"),
    ),
    base="recommended",
)
