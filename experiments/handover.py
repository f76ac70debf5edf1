"""More than a thousand handovers between two gateways, as many as the ClusterIP paper had of each measurement."""

from collections.abc import Mapping

from runner.design.experiment import Experiment, measuring


def sensible(params: Mapping[str, str]) -> bool:
    """The plugin's heartbeats decide with CLUSTERIP; keepalived has its own."""
    return params["redundancy"] == "clusterip" or params["heartbeat_ms"] == "1000"


EXPERIMENT = Experiment(
    name="handover",
    question="How long is a handover between two gateways, over more than a thousand failures, and how does it spread?",
    method="The cable of the active gateway's WAN interface is pulled at a random moment and put back after the "
    "handover, 340 times in a trial, in eight labs side by side; the profile quick has three trials. The handover is "
    "captured on the WAN, while the near host asks the far one for an echo every 10 ms. CLUSTERIP with strongSwan's "
    "default heartbeats (one a second, dead after 2.1 s), and keepalived with the plugin ha. The factor heartbeat_ms "
    "shortens the heartbeats and, by the same factor, the silence.",
    source="ClusterIP paper, §VI-A (more than 1000 samples a measurement) and §VI-A.3, figures 1b and 6",
    metrics=("handover_ms",),
    traffic=(measuring("failover", gateway_failure="interface", handovers="340", labs="8", heartbeat_ms="1000"),),
    vary_traffic={"redundancy": ("clusterip", "ha_sync")},
    only=("ipsec", "ipsec_user"),
    keep=("redundancy",),
    sensible=sensible,
)
