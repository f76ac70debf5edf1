"""Metrics of waiting: round trips, jitter, and the time until a tunnel is there."""

from runner.data.metrics.metric import Metric

DELAY = [
    Metric(
        "rtt",
        "Round-trip time",
        "ms",
        "lower",
        "Median time of a one-byte request and its one-byte answer between the hosts, over one "
        "established TCP connection with TCP_NODELAY, tunnel otherwise idle. The same exchange for "
        "every VPN, so that those which carry TCP only can be compared.",
        "RFC 2681 (round-trip delay), with a TCP exchange as the Type-P",
        "idle",
    ),
    Metric(
        "jitter",
        "Jitter",
        "ms",
        "lower",
        "Smoothed interarrival jitter of a 1 Mbit/s UDP stream, as its receiver computes it.",
        "RFC 3550 §6.4.1",
        "udp",
    ),
    Metric(
        "setup_time",
        "Tunnel set-up time",
        "s",
        "lower",
        "From the first command on a gateway to the first payload delivered at the far host and "
        "answered; both gateways cold, daemons not running, keys and files already in place.",
        "after draft-ietf-bmwg-ipsec-term (tunnel set-up rate), seen by the hosts",
        "idle",
    ),
    Metric(
        "rtt_loaded",
        "Round-trip time under load",
        "ms",
        "lower",
        "Median time of the same exchange as for the round-trip time, while a TCP stream from the near host "
        "to the far one fills the tunnel, or half of it (factor load).",
        "RFC 2681 under working conditions, after draft-ietf-ippm-responsiveness",
        "loaded",
    ),
    Metric(
        "udp_rtt",
        "UDP round-trip time",
        "ms",
        "lower",
        "Median round-trip time of a datagram every 5 ms on the otherwise idle tunnel, by irtt; its delay "
        "variation and loss are in the detail. A second instrument beside the TCP exchange.",
        "RFC 2681 (round-trip delay), RFC 3393 (variation, of round trips); irtt-client(1)",
        "loaded",
    ),
    Metric(
        "rekey_rtt",
        "Longest round trip at a rekey",
        "ms",
        "lower",
        "Longest of the round trips that began in the second from a rekey on, beside a TCP stream that fills the "
        "tunnel, median of the trial's rekeys. Those of the second before are in the detail.",
        "RFC 2681 (round-trip delay), RFC 7296 §2.8 (rekeying)",
        "rekey",
    ),
]
