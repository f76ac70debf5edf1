"""Which VPN suits a line: what each carries, delays and costs, rate by rate, as its makers advise today."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="choose",
    question="Which VPN suits my line?",
    method="Each VPN uses the first cipher of its own default list, or what its standard advises, without "
    "compression. TCP and UDP throughput, round-trip time and set-up time are measured as in `recommended`. Then rates "
    "from 10 Mbit/s up are offered, in TCP and in datagrams, until one is not carried: what comes through, what is "
    "lost, how long it takes, and the CPU time. At the end of a deadline `steady` watches what is named first.",
    source="RFC 2544 §26, RFC 8219 §5, RFC 7679; the makers' advice as in `recommended`",
    metrics=("tcp_throughput", "udp_throughput", "udp_goodput", "rtt", "setup_time", "ladder_rate", "cpu_per_gigabyte"),
    traffic=(
        measuring("tcp"),
        measuring("udp"),
        measuring("idle"),
        measuring("ladder", carried="tcp"),
        measuring("ladder", carried="datagrams"),
    ),
    base="recommended",
    # What led in results/choice, its kin in the kernel, and what goes over TCP or forwards ports only.
    first=("gre_ipsec", "ipsec", "ipsec_user", "openvpn", "ssh_forward", "ssh_tun", "wireguard", "wireguard_go"),
)
