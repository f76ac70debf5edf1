"""Guards of loss, jitter and idle round trips: lost tails, silent receivers, senders that fall short.

Take a guard out, and its test fails.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from runner.data.errors import MeasurementError
from runner.data.trials import Value
from runner.instruments.traffic import idle, udp
from runner.instruments.traffic.counters import snmp
from runner.lab.node import Completed
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
    dropped = snmp(Completed(0, captured("proc-net-snmp-drops.txt"), ""), "Udp", "RcvbufErrors")
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
