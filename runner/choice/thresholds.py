"""The thresholds by which a VPN is judged on a line, as data. docs/method.md has the sources."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runner.data.named import Traffic


@dataclass(frozen=True)
class Step:
    """Up to ``fits`` a VPN fits, up to ``little`` it fits with a reservation; of ``path_share`` from there on."""

    fits: float
    little: float


@dataclass(frozen=True)
class Thresholds:
    """``payload_share``: payload of a line's rate (1300 of 1400 bytes). ``datagrams``: the share of each traffic's
    bytes that travels in datagrams. ``call_bytes``: of a voice packet, payload (20 ms of G.711). ``headroom``: capacity
    over demand from which on a VPN fits (Cisco's wireless voice guide: 25 % over-provisioning). Between the user's own
    gateways nothing has more than the path: there ``path_share`` of it fits, and ``core_load`` is what the line may
    take of the busiest core. ``load``: the share of the demand at which loss and delay are judged. What counts as equal
    in cost is an opinion, and so is which share of bad attempts is too much."""

    payload_share: float = 0.93
    headroom: float = 1.25
    path_share: Step = Step(0.9, 0.75)  # headers alone take 4 to 8 % of the packets that fit into a tunnel
    core_load: float = 0.8
    load: float = 0.8
    files: float = 0.0
    mixed: float = 0.3
    calls: float = 1.0
    transactions: float = 0.0
    call_bytes: float = 200.0
    call_share: float = 0.69  # of such packets: 28 bytes of UDP and IP, and 60 of a tunnel, are no payload
    packets: float = 2.0  # times as many short packets as long ones, at most, where packets are the limit; an opinion
    loss_ratio: Step = Step(0.001, 0.01)  # Microsoft, customer edge; ITU-T Y.1541 class 0
    delay_ms: Step = Step(10.0, 50.0)  # p95 added: half of a voice packet; Y.1541's variation of class 0
    mouth_to_ear_ms: Step = Step(150.0, 400.0)  # ITU-T G.114, of path and tunnel
    mixed_rtt_ms: float = 1.0
    transactions_rtt_ms: float = 0.1
    rtt_share: float = 0.1  # of the path's round trip: transactions go with its inverse; an opinion
    setup_s: Step = Step(2.0, 30.0)  # ITU-T G.1010, web browsing; a reload
    one_tcp_loss_ratio: float = (
        1e-4  # of the path, from which on what shares one connection is a fallback (RFC 9329; results/loss)
    )
    one_tcp: float = 1.22  # what one connection carries: Mathis et al., CCR 27(3), 1997; results/loss
    segment_bytes: float = 1448.0  # of that connection
    window_bytes: float = 2.0**21  # that it has on its way at most, where nobody has measured: OpenSSH's of a channel
    cost_cores: float = 0.25
    cost_ratio: float = 1.25
    cost_share: float = 0.05  # of the gateway's cores, where they are stated
    bad_share: Step = Step(0.02, 0.1)  # of the attempts, beyond plain IP's and the other VPNs' in the same rounds
    gap_s: float = 2.0  # without any datagram, in the long watch: from here on there is a reservation
    call_gap_s: float = 0.3
    short: float = 0.9  # of the highest capacity, where nothing carries the line

    def share(self, traffic: Traffic) -> float:
        """The share of the bytes that travels in datagrams, 0 to 1."""
        shares: dict[Traffic, float] = {
            "files": self.files,
            "mixed": self.mixed,
            "calls": self.calls,
            "transactions": self.transactions,
        }
        return shares[traffic]

    def one_tcp_bps(self, path_rtt_ms: float | None, path_loss_ratio: float | None) -> float:
        """What one TCP connection carries on such a path, bit/s; infinite where it loses nothing, or nobody knows."""
        if not path_rtt_ms or not path_loss_ratio:
            return math.inf
        return self.one_tcp * 8 * self.segment_bytes / (path_rtt_ms / 1e3 * math.sqrt(path_loss_ratio))

    def window_bps(self, path_rtt_ms: float | None, window_bytes: float | None) -> float:
        """What a window carries over a round trip, bit/s; infinite where nobody knows that. RFC 6349 §3.3.1."""
        return 8e3 * (window_bytes or self.window_bytes) / path_rtt_ms if path_rtt_ms else math.inf

    def demand_bps(self, line_bps: float, traffic: Traffic = "mixed") -> float:
        """The payload that a line full of this traffic carries, bit/s."""
        return (self.call_share if traffic == "calls" else self.payload_share) * line_bps


USUAL = Thresholds()
