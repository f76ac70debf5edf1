"""What a VPN can do beside carrying the line: each must that a trial can show, tried once."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="musts",
    question="What can a VPN do that no number says: carry IPv6, follow a gateway that moves, join three sites, stay "
    "closed when the tunnel is down?",
    method="Each VPN is set up as its makers advise. UDP goes between IPv6 addresses of the sites; the dialing "
    "gateway's WAN address changes; three gateways form a mesh; and the probes of the experiment security attack the "
    "tunnel. What counts is whether it works. So one repetition is enough: `--profile smallest`.",
    source="docs/musts.md",
    metrics=("fail_closed", "outage_ms"),
    traffic=(
        measuring("udp", inner="ipv6"),
        measuring("recovery", failure="roaming"),
        measuring("security"),
        measuring("mesh", sites="3"),
    ),
    base="recommended",
)
