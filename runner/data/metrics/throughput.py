"""Metrics of payload bits: how many a tunnel carries in a second, and how they are shared."""

from runner.data.metrics.metric import Metric

THROUGHPUT = [
    Metric(
        "tcp_throughput",
        "TCP throughput",
        "bit/s",
        "higher",
        "Payload bits per second that the receiving iperf3 got over the whole test.",
        "RFC 6349 §2.3 (TCP throughput); thesis §3.4",
        "tcp",
    ),
    Metric(
        "udp_throughput",
        "UDP throughput",
        "bit/s",
        "higher",
        "Highest offered rate (UDP payload bits per second) whose mean loss ratio stays below 1 %.",
        "RFC 2544 §26.1 with the thesis' loss bound (§3.5.1)",
        "udp",
    ),
    Metric(
        "udp_goodput",
        "UDP goodput",
        "bit/s",
        "higher",
        "UDP payload bits per second that came through the tunnel at the UDP throughput: what was received in "
        "the passing trial of the search that offered a rate nearest to it.",
        "RFC 2647 §3.17 (goodput), within RFC 2544 §26.1",
        "udp",
    ),
    Metric(
        "download_time",
        "Download time",
        "s",
        "lower",
        "Time from the start of curl on the near host to the last byte of an incompressible file that nginx on "
        "the far host serves by HTTP, connection set-up included.",
        "curl(1) --write-out, time_total; RFC 9110 §9.3.1 (GET)",
        "download",
    ),
    Metric(
        "flows_throughput",
        "Throughput of parallel flows",
        "bit/s",
        "higher",
        "Payload bits per second that all parallel TCP streams together delivered.",
        "RFC 6349 §2.3; thesis §6.2 (loading the gateways with multiple requests)",
        "flows",
    ),
    Metric(
        "fairness",
        "Fairness between flows",
        "1",
        "higher",
        "Jain's fairness index of the parallel streams' rates: 1 where all are equal, 1/n where one has all.",
        "Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301 (1984)",
        "flows",
    ),
    Metric(
        "clients_throughput",
        "Throughput of many clients",
        "bit/s",
        "higher",
        "Bytes of an incompressible file that all clients together downloaded by HTTP at once, each from an address "
        "of its own in the near LAN, over the time of the longest, connection set-up included.",
        "curl(1) --parallel, --interface; thesis §6.2 (loading the gateways with multiple requests)",
        "clients",
    ),
    Metric(
        "clients_fairness",
        "Fairness between clients",
        "1",
        "higher",
        "Jain's fairness index of the clients' rates: 1 where all are equal, 1/n where one has all.",
        "Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301 (1984)",
        "clients",
    ),
    Metric(
        "rekey_loss",
        "Throughput lost at a rekey",
        "1",
        "lower",
        "One less the payload received in the second from a rekey on over that of the second before it, median of "
        "the trial's rekeys. Below 0 where the noise is larger than the loss.",
        "RFC 7296 §2.8 (rekeying); swanctl(8) --rekey",
        "rekey",
    ),
    Metric(
        "ssh_rate",
        "100 MB through ssh",
        "bit/s",
        "higher",
        "100 MB of zeros that dd makes on the gateway, through ssh to the near host without any VPN: 800 Mbit over "
        "the seconds elapsed, connection set-up included.",
        "the device page, Hardware performance; ssh_config(5) Ciphers",
        "device",
    ),
]
