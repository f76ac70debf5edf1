"""What becomes of a tunnel that is in use for long."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="soak",
    question="What does a gateway gain in descriptors and memory in an hour of use, and how long is a rekey's pause?",
    method="All VPNs are set up as their makers advise. A TCP stream of a tenth of what the tunnel carries flows for "
    "an hour (--set soak_s names another time). Every five seconds vpneval counts the descriptors and the private "
    "memory of each gateway. Keys are renewed six times by the VPN's timer or by command, or by the protocol's "
    "clock. A program that leaks, on a bare gateway beside the tunnel, must be seen. Then a tunnel is set up whose "
    "certificates expire, is watched, and is restarted; with certificates that last it must come back.",
    source="proc_pid_fd(5), proc_pid_smaps(5); RFC 7296 §2.8; RFC 5280 §4.1.2.5",
    metrics=("soak_descriptors", "soak_memory", "soak_pause", "expiry_borne", "expiry_refused"),
    traffic=(measuring("soak"), measuring("expiry")),
    base="recommended",
)
