"""Packet rate: what is made of the sink's counts, and what may be asked for."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import factors, instruments, load_experiment, load_vpn, parse_levels
from runner.data.errors import MeasurementError, UsageError
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, play
from runner.instruments.tools.arrivals import arrived_by, by_then, check_counts, variations_ms, whole_packets
from runner.instruments.tools.generator import BURST, Load, imix
from runner.instruments.tools.limits import Limits
from runner.instruments.traffic.duplex import bursts_detail
from runner.instruments.traffic.packets import Counted, best_passing, stream_detail
from tests.unit.helpers import PaperLab

BURSTS = {"burst": 20.04, "longest_burst": 90}


def counted(sent: int, on_time: int, **more: Any) -> Counted:
    usual = {"seconds": 1.0, "received": on_time, "outer_packets": sent, "outer_ip_bytes": 100 * sent}
    return Counted(sent=sent, on_time=on_time, **{**usual, "fragments": 0, "cpu_s": 1.0, **BURSTS, **more})


def test_packets_are_counted_by_their_payload() -> None:
    assert whole_packets(200, 200 * 64, 0, 64) == 200
    # three datagrams of 36 bytes that a tunnel has put into one: headers once
    assert whole_packets(1, 28 + 3 * 36, 0, 64) == 3
    assert whole_packets(10, 280, 0, 28) == 10, "no payload: nothing can be put together"


def test_a_mixture_is_counted_by_its_payload_where_a_tunnel_joins_packets() -> None:
    lengths, _ = imix(1328)
    sent, total = 12 * 50, 50 * sum(lengths)
    mean_bytes = total / sent
    assert whole_packets(sent, total, 0, mean_bytes) == sent
    joined = 119  # whose headers are not there
    assert whole_packets(sent - joined, total - 28 * joined, 0, mean_bytes) == sent
    assert whole_packets(sent // 2, total // 2, 0, mean_bytes) == sent // 2
    assert whole_packets(sent - 50, total - 50 * 1328, 0, mean_bytes) == sent - 50, (
        "the longest are lost, none is joined"
    )


def test_a_packet_in_fragments_is_one_packet() -> None:
    assert whole_packets(100, 100 * 1500, 100, 2000) == 100
    assert whole_packets(100, 100 * 1500, 200, 4000) == 100
    assert whole_packets(100, 100 * 1500, 90, 2000) == 90, "ten have lost their second half"
    assert whole_packets(0, 0, 7, 2000) == 0


def test_what_comes_late_has_waited_in_a_queue() -> None:
    steady = [(0.3 + i / 1000, 10 * i) for i in range(1, 1001)]
    assert arrived_by(steady, 1.0) == 1.0
    # offered twice what goes through: half of it comes within the second, the rest afterwards
    slow = [(0.3 + i / 1000, 10 * i) for i in range(1, 2001)]
    assert arrived_by(slow, 1.0) == pytest.approx(0.5, abs=0.01)
    delayed = [(when + 5, count) for when, count in steady]
    assert arrived_by(delayed, 1.0) == 1.0, "a constant delay is none"
    assert arrived_by([], 1.0) == by_then([], 1.0) == 0.0
    assert by_then(slow, 1.0) == pytest.approx(0.5, abs=0.003), "the grace is the queue's"


def test_a_counter_whose_counts_disagree_is_refused() -> None:
    nothing = {"rest": [0, 0], "stamped": [0, 0], "beside": [0, 0]}
    check_counts({"first": [1000, 0], **nothing, "interface": [1010, 1010]})
    check_counts({"first": [1000, 0], **nothing, "interface": [800, 1200]})
    check_counts({"first": [1000, 0], **nothing, "beside": [400, 0], "interface": [1400, 1400]})
    with pytest.raises(MeasurementError, match="received 500 to 510 packets, its filter counted 1000"):
        check_counts({"first": [1000, 0], **nothing, "interface": [500, 510]})


def test_the_mixture_is_seven_to_four_to_one() -> None:
    lengths, name = imix(1420)
    assert [lengths.count(length) for length in (40, 576, 1420)] == [7, 4, 1]
    sequence, _, table = name.removeprefix("IMIX - ").partition(" ")
    assert table == "(A=40, B=576, C=1420)"
    sizes = dict(entry.split("=") for entry in table.strip("()").split(", "))
    assert tuple(int(sizes[letter]) for letter in sequence) == lengths, "what is written is what is sent, in its order"


def test_jitter_is_the_change_of_the_transit_time() -> None:
    ms = 10**6
    stamps = [(0, 0, 100 * ms), (1, 10 * ms, 111 * ms), (2, 20 * ms, 120 * ms), (3, 30 * ms, 130 * ms)]
    assert variations_ms(stamps) == pytest.approx([1, 1, 0]), "the clocks' difference does not count"


def test_costs_are_of_the_fastest_stream_that_passed() -> None:
    streams = [counted(1000, 1000), counted(3000, 2980), counted(5000, 4900), counted(9000, 4000)]
    assert best_passing(streams) == streams[1]
    assert best_passing(streams[2:]) is None


def test_sent_is_received_late_and_lost() -> None:
    one = counted(1000, 700, received=900, outer_packets=1800)
    assert (one.late, one.lost_packets) == (200, 100)
    detail = stream_detail(one)
    assert detail["received"] + detail["lost"] == detail["sent"]
    assert detail["outer_packets_per_packet"] == 2


def test_each_packet_rate_says_what_left_back_to_back() -> None:
    """What was asked for, and what left where the rate left no time for pauses."""
    both = [counted(9, 9, burst=burst, longest_burst=round(2 * burst)) for burst in (17.0, 30.04, 45.0)]
    for burst in (BURST, 44):
        one, two = stream_detail(counted(9, 9), burst), bursts_detail(both, burst)
        for detail, sent, longest in ((one, 20.0, 90), (two, 30.0, 90)):
            assert detail["burst_packets"] == burst
            assert detail["burst_packets_sent"] == sent
            assert detail["burst_packets_longest"] == longest
    assert bursts_detail([])["burst_packets_sent"] is None


@pytest.mark.parametrize("measure", ["packets", "duplex"])
def test_how_many_leave_back_to_back_can_be_asked_for(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    instrument, params = instruments()[measure], {"packet_bytes": "1024", "burst_packets": "44"}
    offered: list[Load] = []

    class Paper:
        anew = nullcontext

        def begin(self, load: Load) -> None:
            offered.append(load)
            raise Unplayed

    monkeypatch.setattr("runner.instruments.traffic.packets.may_fragment", lambda *asked: False)
    for module in ("packets", "duplex"):
        monkeypatch.setattr(f"runner.instruments.traffic.{module}.generator", lambda bench, **more: Paper())
    for name, value in {"outer": None, "fragments_created": 0, "cpu_spent": 0.0}.items():
        monkeypatch.setattr(f"runner.instruments.traffic.packets.{name}", lambda *_, value=value: value)
    monkeypatch.setattr(Limits, "watch", lambda *_: nullcontext())
    bench: Any = SimpleNamespace(lab=PaperLab({}), address="10.2.0.2")
    with pytest.raises(Unplayed):
        play(instrument.measure(bench, Asked(load_vpn("openvpn"), params, PROFILES["quick"], 1)), print)
    assert [(load.burst, load.ip_bytes) for load in offered] == [(44, (1024,))]


class Unplayed(Exception):
    """Nothing is sent on paper."""


# --- what may be asked for -------------------------------------------------------------------------------------


RANGES = {factor: levels.range for factor, levels in factors().items() if levels.range}


@pytest.mark.parametrize(("factor", "between"), RANGES.items())
def test_numbers_in_range(factor: str, between: tuple[int, int]) -> None:
    low, high = between
    within = (low + high) // 2
    asked = parse_levels(f"{factor}={low},{factor}=0{within},{factor}={high}")
    assert asked == {factor: [str(low), str(within), str(high)]}


@pytest.mark.parametrize("level", ["27", "65536", "-64", "64.5", "many", "1e3", "٦٤"])
def test_numbers_out_of_range(level: str) -> None:
    with pytest.raises(UsageError, match="packet_bytes takes a whole number from 28 to 65535, not"):
        parse_levels(f"packet_bytes={level}")


def test_any_length_can_be_asked_for() -> None:
    openvpn, quick = load_vpn("openvpn"), PROFILES["quick"]
    chosen = parse_levels("packet_bytes=777,payload_bytes=1400,fragmentation=allow")
    for name in ("packet_rate", "overhead"):
        sized = [c.params for c in load_experiment(name).cells(openvpn, quick, chosen) if "packet_bytes" in c.params]
        assert sized
        assert all(params["packet_bytes"] == "777" for params in sized)
        assert all(params["fragmentation"] == "allow" for params in sized)
    udp = [c.params for c in load_experiment("transport").cells(openvpn, quick, chosen) if "payload_bytes" in c.params]
    assert [(params["payload_bytes"], params["fragmentation"]) for params in udp] == [("1400", "allow")]


def test_fragmentation_is_refused_unless_asked_for() -> None:
    openvpn, transport = load_vpn("openvpn"), load_experiment("transport")
    assert all("fragmentation" not in cell.params for cell in transport.cells(openvpn, PROFILES["quick"], {}))
    thesis = [cell.params for cell in transport.cells(openvpn, PROFILES["thesis"], {})]
    assert [p["fragmentation"] for p in thesis if p["measure"] == "udp"] == ["allow"]
    refused = transport.cells(openvpn, PROFILES["thesis"], parse_levels("fragmentation=refuse"))
    assert all("fragmentation" not in cell.params for cell in refused)
