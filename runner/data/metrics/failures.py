"""Metrics of what a failure costs: outage, convergence, handover."""

from runner.data.metrics.metric import Metric

FAILURES = [
    Metric(
        "outage_ms",
        "Outage",
        "ms",
        "lower",
        "How long one kind of failure keeps packets from coming through, by a stream of datagrams both ways: those "
        "lost, or too late by 400 ms, over their rate; the worse direction. No recovery in time is a lower bound.",
        "RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold)",
        "recovery",
    ),
    Metric(
        "convergence_ms",
        "Convergence time",
        "ms",
        "lower",
        "How long the tunnel's packets are lost when a link dies until routing has moved it to another path: "
        "datagrams lost or late by 400 ms, over their rate; the worse direction. "
        "No recovery in time is a lower bound.",
        "RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold)",
        "reroute",
    ),
    Metric(
        "handover_ms",
        "Handover time",
        "ms",
        "lower",
        "From the last tunnel packet that the failing gateway put on the WAN to the first of the one that takes "
        "over, by capture on the WAN; packets of the probe stream's length, "
        "so that negotiating a tunnel does not count.",
        "ClusterIP paper, Fig. 1b and Section VI; draft-ietf-bmwg-ipsec-term (tunnel failover time)",
        "failover",
    ),
    Metric(
        "failover_outage_ms",
        "Outage at failover",
        "ms",
        "lower",
        "How long the hosts' packets do not come through when one of two gateways fails: datagrams lost or late by "
        "400 ms, over their rate; the worse direction. No recovery in time is a lower bound.",
        "RFC 6412, RFC 6413 (loss-derived method, forwarding delay threshold), RFC 6414 (protection)",
        "failover",
    ),
    Metric(
        "ha_download_s",
        "Download with a second gateway",
        "s",
        "lower",
        "Time for an HTTP download (of 50 MB where no size is asked for) while nothing fails, with or without a second "
        "gateway that stands by. CPU seconds by kind are in the detail.",
        "ClusterIP paper, Section VI (first and second test); curl(1), time_total; proc_stat(5)",
        "failover",
    ),
    Metric(
        "ha_user_s",
        "User CPU time of a download",
        "s",
        "lower",
        "CPU time in user mode of the whole lab during the download of ha_download_s.",
        "ClusterIP paper, Section VI (first and second test); proc_stat(5)",
        "failover",
    ),
    Metric(
        "ha_system_s",
        "System CPU time of a download",
        "s",
        "lower",
        "CPU time in the kernel, interrupts included, of the whole lab during the download of ha_download_s.",
        "ClusterIP paper, Section VI (first and second test); proc_stat(5)",
        "failover",
    ),
    Metric(
        "failover_download_s",
        "Download across a failover",
        "s",
        "lower",
        "Time for an HTTP download during which one of two gateways fails: 10 MB at 2 MB/s beside the probe stream, "
        "5.2 s without a failure; or of the size and limit asked for, with the failure after 5 s, as in the ClusterIP "
        "paper's third test. No recovery in time is a lower bound.",
        "ClusterIP paper, Section VI (third test); curl(1), time_total",
        "failover",
    ),
]
