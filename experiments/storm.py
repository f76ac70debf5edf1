"""What becomes of a hub with many tunnels that reboots."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="storm",
    question="How long does a hub with fifty tunnels take until all are back after its reboot?",
    method="Fifty gateways have a tunnel each to one hub, set up as each VPN's makers advise and as hubs are run "
    "(OpenVPN: one process in server mode). The hub dies without a "
    "word and comes back a second later (--set hub_failure=restart: its daemons are told to end). vpneval measures "
    "how long until half, nine tenths and all of the spokes are answered through their tunnels, and the hub's CPU "
    "time and memory. Before that all must be answered, and none while the hub is down.",
    source="RFC 6201 §4 (reset); cgroups(7)",
    metrics=("storm_start", "storm_half", "storm_most", "storm_all", "storm_cpu", "storm_memory"),
    traffic=(measuring("storm"),),
    base="recommended",
    only=("none", "wireguard_go", "openvpn", "ipsec_user", "fastd", "nebula"),  # whose plugins make a hub
)
