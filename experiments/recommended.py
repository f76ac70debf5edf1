"""Each VPN as its makers advise today, beside the equal-cipher comparison of `transport`."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="recommended",
    question="How do the VPNs compare when each is set up as its makers advise today?",
    method="Each VPN uses the first cipher of its own default list, or what its standard advises, without "
    "compression. TCP, UDP and the idle tunnel are measured as in `transport`.",
    source="openvpn(8) --data-ciphers, ssh_config(5) Ciphers, RFC 8221 §5, WireGuard whitepaper §5.4",
    metrics=("tcp_throughput", "udp_throughput", "udp_goodput", "rtt", "jitter", "setup_time", "cpu_per_gigabyte"),
    traffic=(measuring("tcp"), measuring("udp"), measuring("idle")),
    base="recommended",
)
