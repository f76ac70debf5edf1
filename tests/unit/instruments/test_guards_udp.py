"""Guards of loss, jitter and idle round trips: lost tails, silent receivers, senders that fall short.

Take a guard out, and its test fails.
"""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.trials import Value
from runner.design.profile import PROFILES
from runner.instruments.instrument import at_once
from runner.instruments.tools.limits import Limits, Piece
from runner.instruments.traffic import idle, udp
from runner.instruments.traffic.udp_sockets import UdpSockets, search_of
from runner.lab.node import Completed
from runner.lab.node.proc import counters
from runner.search import Measure, SearchResult, SearchTrial
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench
from tests.unit.helpers import Iperf, captured, edited, lab_with, report


def test_udp_with_nothing_sent() -> None:
    with pytest.raises(MeasurementError, match="sent no datagram"):
        udp.udp_loss(edited("udp", lambda r: r["end"]["sum_sent"].update(packets=0)), 1300)


def test_udp_lost_tail_is_loss() -> None:
    found = report("udp-total-loss")
    assert found["end"]["sum"]["lost_packets"] == 0  # what iperf3 makes of it
    assert udp.udp_loss(found, 1300).received == 0


def test_udp_drops_of_the_receiver_are_no_loss_of_the_vpn() -> None:
    found = report("udp-drops")
    assert udp.udp_loss(found, 1300).received / 62797 == pytest.approx(0.514, abs=0.001)
    dropped = counters(captured("proc-net-snmp-drops.txt"))["UdpRcvbufErrors"]
    loss = udp.udp_loss(found, 1300, dropped)
    assert loss.received == loss.sent == 62797


def test_udp_never_has_more_received_than_sent() -> None:
    loss = udp.udp_loss(report("udp-drops"), 1300, 40_000)  # other sockets of the host drop, too
    assert loss.received == loss.sent


def jitter_of(**sent: float) -> Value:
    def change(found: dict[str, Any]) -> None:  # 1 Mbit/s of 200-byte datagrams, as udp.jitter asks for
        found["end"]["sum_sent"].update({"packets": 625, "bits_per_second": 1e6} | sent)
        found["end"]["sum_received"].update(bytes=625 * 200 if sent.get("packets", 1) else 0)

    return udp.jitter(lab_with(Iperf(json.dumps(edited("udp", change)))), "10.2.0.2")


def test_jitter() -> None:
    assert jitter_of().value == pytest.approx(0.00556, abs=1e-5)


def test_jitter_when_the_sender_fell_short() -> None:
    with pytest.raises(MeasurementError, match=r"was too slow: 0\.80 of 1\.00 Mbit/s"):
        jitter_of(bits_per_second=0.8e6)


def test_jitter_with_nothing_received() -> None:
    found = edited("udp-total-loss", lambda r: r["end"]["sum_sent"].update(bits_per_second=1e6))
    with pytest.raises(MeasurementError, match="nothing was received"):
        udp.jitter(lab_with(Iperf(json.dumps(found))), "10.2.0.2")


def test_idle_with_no_exchange_finished() -> None:
    with pytest.raises(MeasurementError, match="no exchange of bytes ended in time"):
        idle.idle(lab_with(Iperf("[]")), "10.2.0.2", 0.5, 1.0)


class Receiver:
    """A host whose sockets get so much of what they ask for."""

    def __init__(self, granted_bytes: int, name: str = "host") -> None:
        self.granted_bytes, self.name = granted_bytes, name

    def run(self, *argv: str, **_: object) -> Completed:
        return Completed(0, f"{min(int(argv[-1]), self.granted_bytes)}\n", "")


def test_a_buffer_that_the_kernel_does_not_give_is_refused_with_what_it_gives() -> None:
    lab = lab_with(Receiver(212_992, "host1"), Receiver(212_992, "host2"))
    instrument, vpn = UdpSockets(), load_vpn("openvpn")
    thesis = {"send_buffer_bytes": "9216", "receive_buffer_bytes": "196608"}
    assert instrument.refuses(lab, vpn, thesis) is None
    for factor, name in (("send_buffer_bytes", "host1"), ("receive_buffer_bytes", "host2")):
        no = instrument.refuses(lab, vpn, thesis | {factor: "1000000"})
        assert no is not None
        assert no.reason.startswith(f"the kernel of {name} gives a socket 212992 bytes at most (sysctl net.core.")
    tcp_only = instrument.refuses(lab, load_vpn("ssh_forward"), thesis)
    assert tcp_only is not None
    assert "carries TCP only" in tcp_only.reason


def test_small_buffers_are_searched_without_a_break_in_every_profile() -> None:
    for profile in PROFILES.values():
        search = search_of(profile)
        assert search.engine != "rounds"
        assert search.max_rate_bps == profile.udp.max_rate_bps


class OneTrial:
    """A search that makes a single trial."""

    engine = "bayes"

    def find(self, offer: Measure, *_: object) -> SearchResult:
        loss = offer(1e6, 1.0)
        trial = SearchTrial(1e6, 1e6, 1.0, loss.sent, loss.received, "estimate")
        return SearchResult(1e6, None, None, (trial,), 1.0, frozenset())


def test_what_the_receivers_socket_drops_is_no_loss_and_is_kept_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped = counters(captured("proc-net-snmp-drops.txt"))["UdpRcvbufErrors"]
    counts, search = iter((0, dropped)), OneTrial()
    bench = SimpleNamespace(lab=lab_with(Receiver(2**21), Receiver(2**21)), address="10.2.0.2")
    jitter, asked = jitter_of(), list[str]()

    def iperf3(lab: object, address: str, seconds: int, *options: str) -> dict[str, Any]:
        asked.extend(options)
        return report("udp-drops")

    monkeypatch.setattr(udp, "iperf3", iperf3)
    monkeypatch.setattr(udp, "receive_buffer_errors", lambda lab: next(counts))
    monkeypatch.setattr(udp, "fragments_created", lambda lab: 0)
    monkeypatch.setattr(udp, "jitter", lambda *_: jitter)
    monkeypatch.setattr(Limits, "watch", lambda *_: nullcontext(Piece(0)))
    measured = at_once(udp.udp(cast(Bench, bench), 1300, cast(UdpSearch, search), None))
    (trial,) = measured.measurements[0].detail["trials"]
    assert trial["loss_ratio"] == 0
    assert trial["receiver_drop_ratio"] == pytest.approx(0.486, abs=0.001)
    assert asked[asked.index("--window") + 1] == str(2**21)
