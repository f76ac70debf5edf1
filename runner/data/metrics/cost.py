"""Metrics of what a tunnel costs the machines that carry it."""

from runner.data.metrics.metric import Metric

COST = [
    Metric(
        "cpu_per_gigabyte",
        "CPU cost",
        "s/GB",
        "lower",
        "CPU seconds (user, system, interrupt, softirq) of all machines of the lab per 10^9 payload "
        "bytes received, during the TCP test.",
        "proc_stat(5); includes the hosts' generators where the lab's nodes share one kernel",
        "tcp",
    ),
    Metric(
        "throughput_per_core",
        "Throughput per busy core",
        "bit/s",
        "higher",
        "Payload bits received per CPU second, during the TCP test: what one core, wholly busy with it, carries.",
        "proc_stat(5); the inverse of cpu_per_gigabyte, so that a ranking should count one of the two",
        "tcp",
    ),
    Metric(
        "context_switches_per_packet",
        "Context switches per packet",
        "/packet",
        "lower",
        "Context switches of all machines of the lab per 1448 payload bytes received (a full-size packet), "
        "during the TCP test; those of the VPN's daemons alone are in the detail.",
        "proc_stat(5), ctxt; the thesis explains its ranking by them",
        "tcp",
    ),
    Metric(
        "memory_bytes",
        "Memory of the daemons",
        "B",
        "lower",
        "Proportional set size of the VPN's daemons on both gateways, after the TCP test. A tunnel in the "
        "kernel without a daemon has 0; the kernel's own memory is not counted.",
        "proc_pid_smaps(5), smaps_rollup, Pss",
        "tcp",
    ),
    Metric(
        "syscalls_per_packet",
        "System calls per packet",
        "/packet",
        "lower",
        "System calls of the VPN's daemons on both gateways per 1448 bytes that arrive at the far host, while a "
        "TCP stream fills the tunnel. A tunnel in the kernel without a daemon has 0.",
        "perf-stat(1), tracepoint raw_syscalls:sys_enter; the thesis explains its ranking by them",
        "loaded",
    ),
]
