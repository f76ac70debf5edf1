"""What a VPN costs its gateways: CPU, switches, system calls, memory. It shares its TCP trials with `transport`."""

from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="cost",
    question="What does a VPN cost the machines that carry it, and how does that explain its throughput?",
    method="All VPNs use AES-128-CBC without compression, or the nearest that they have. While one TCP stream "
    "runs, vpneval counts CPU seconds with softirq and context switches; afterwards it reads the daemons' "
    "memory. It counts system calls during another TCP stream, because counting slows them down.",
    source="proc_stat(5), proc_pid_smaps(5), perf-stat(1); the thesis explains its ranking by switches and calls",
    metrics=(
        *("tcp_throughput", "cpu_per_gigabyte", "throughput_per_core", "context_switches_per_packet"),
        *("memory_bytes", "syscalls_per_packet"),
    ),
    traffic=(measuring("tcp"), measuring("loaded")),
)
