"""What a gateway costs that has nothing to do."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="idle",
    question="What does a tunnel cost its gateways while it carries nothing?",
    method="All VPNs are set up as their makers advise, and left alone for two minutes (quick: 30 s). vpneval counts "
    "CPU time, wake-ups and memory of the gateways, and the packets, bytes and silences on the WAN. Beside each "
    "tunnel stand bare gateways: the one with nothing on it must count nothing, and a program that polls on "
    "another one must be seen.",
    source="cgroups(7), proc_pid_status(5), proc_pid_smaps(5); RFC 4787 REQ-5",
    metrics=("idle_cpu", "idle_wakeups", "idle_memory", "idle_packets", "idle_bytes", "idle_silence"),
    traffic=(measuring("quiet"),),
    vary_traffic={"quiet_s": ("120", "30")},
    base="recommended",
)
