"""The generator by itself: its processes on loopback, who may cut a burst, and which cores it takes."""

from __future__ import annotations

import json
import os
import socket
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.catalogue import load_experiment, load_vpn, parse_levels
from runner.data.errors import MeasurementError, UsageError
from runner.data.lab_facts import GeneratorLimit
from runner.data.levels import BASELINE
from runner.data.store import load_run
from runner.data.trials import Cell
from runner.design.profile import PROFILES
from runner.instruments.tools.generator import Arrived, Load, cores_for, cut_by_software, parse_cores
from runner.instruments.traffic.calibration import highest_limits, lengths_of, limit
from runner.lab.node import LabNode
from runner.lab.probes import generate
from runner.lab.shape.site_to_site import Lab
from runner.report.facts import facts
from tests.unit.helpers import Answers
from tests.unit.synthetic import make_run

EXAMPLE = Path(__file__).resolve().parents[3] / "results" / "examples" / "two-cores-quick"
ON, OFF, FIXED = "on", "off", "on [fixed]"


def trial(**more: Any) -> dict[str, Any]:
    usual = {"address": "127.0.0.1", "ip_bytes": [128], "per_s": 2000.0, "seconds": 0.3, "burst": 4}
    return {**usual, "cores": [0, 1], "flows": 2, **more}


def heard(sinks: list[socket.socket]) -> list[int]:
    """How many datagrams wait at each."""
    counts = []
    for sink in sinks:
        sink.setblocking(False)
        count = 0
        try:
            while sink.recv(2048):
                count += 1
        except BlockingIOError:
            counts.append(count)
    return counts


def test_a_piece_of_which_nothing_came_in_time_is_no_limit() -> None:
    offered = {"by": "sendmmsg", "processes": 1, "wakes": 1}
    late = Arrived(Load((1500,), 1e6, 0.1), 40, 60000, 0.1, 40, 0, 0, [], offered)
    with pytest.raises(MeasurementError, match="none of 40 packets came while they were sent"):
        limit(late)


class Clock:
    """Time passes in calls only: ``late_s`` more than asked in each pause, in one of fifty ``seldom_s``, and
    ``packet_s`` for each packet that is sent."""

    def __init__(self, late_s: float = 20e-6, seldom_s: float = 0.0, packet_s: float = 0.0) -> None:
        self.now_s, self.late_s, self.seldom_s, self.packet_s = 100.0, late_s, seldom_s, packet_s
        self.sleeps = 0
        self.bursts = [0]

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.sleeps += 1
        self.now_s += seconds + (self.seldom_s if self.seldom_s and self.sleeps % 50 == 49 else self.late_s)
        self.bursts.append(0)

    def send(self, flow: int, first: int, count: int) -> int:
        self.now_s += self.packet_s * count
        self.bursts[-1] += count
        return count


@pytest.mark.parametrize(
    ("per_s", "burst", "clock", "most"),
    [
        (20_000, 16, Clock(), 16),
        (64_000, 16, Clock(packet_s=2e-6), 16),
        (200_000, 44, Clock(packet_s=2e-6), 44),
        (200_000, 16, Clock(packet_s=2e-6), 20),
        (10_000, 1, Clock(), 1),
        (200_000, 1, Clock(packet_s=1e-6), 20),  # 0.1 ms of the rate: sleeps are no shorter
        (20_000, 16, Clock(seldom_s=0.01), 16),  # what was due meanwhile leaves burst by burst
        (64_000, 16, Clock(seldom_s=0.004, packet_s=2e-6), 16),
        # A kernel without fine timers: 200 are due after two sleeps. Before that is known, the sender is 20 ms late.
        (20_000, 16, Clock(late_s=0.005), 391),
    ],
)
def test_no_more_than_a_burst_leaves_back_to_back_and_the_rate_is_kept(
    per_s: float, burst: int, clock: Clock, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = by_clock(clock, monkeypatch, per_s=per_s, burst=burst)
    assert found["longest"] == max(clock.bursts) == most
    assert found["wakes"] == sum(packets > 0 for packets in clock.bursts)
    assert found["sent"] == sum(clock.bursts) == pytest.approx(per_s / 2, rel=0.01), "half a second"
    assert found["seconds"] < 0.52


@pytest.mark.parametrize(("per_s", "most"), [(350e3, 700), (450e3, 225e3), (5e6, 2.5e6)])
def test_a_sender_that_has_hardly_time_for_pauses_makes_few(
    per_s: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(packet_s=2e-6, seldom_s=0.004)
    found = by_clock(clock, monkeypatch, per_s=per_s, burst=16)
    assert found["sent"] > 0.99 * 0.5 * min(per_s, 1 / 2e-6)
    assert 700 <= found["longest"] == max(clock.bursts) <= most


def test_who_was_interrupted_between_two_bursts_has_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program took the processor after a burst, for longer than the pause would have been."""
    clock = Clock()
    sending = clock.send

    def interrupted(flow: int, first: int, count: int) -> int:
        sent = sending(flow, first, count)
        if first % 160 == 0:
            monotonic = clock.monotonic

            def late() -> float:  # what is read after the next reading
                clock.monotonic = monotonic  # type: ignore[method-assign]
                now_s = clock.now_s
                clock.now_s += 0.002
                return now_s

            clock.monotonic = late  # type: ignore[method-assign]
        return sent

    clock.send = interrupted  # type: ignore[method-assign]
    found = by_clock(clock, monkeypatch, per_s=64_000, burst=16)
    assert found["longest"] == 16
    assert found["sent"] == 32_000


def by_clock(clock: Clock, monkeypatch: pytest.MonkeyPatch, **asked: float) -> dict[str, Any]:
    monkeypatch.setattr(generate, "time", clock)
    sending = cast(generate.Segments, SimpleNamespace(send=clock.send, by="send"))
    return generate.send_paced({"seconds": 0.5, **asked}, sending, 1)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="this machine has one core")
@pytest.mark.parametrize(("flows", "processes"), [(1, 1), (2, 2), (3, 2)])
def test_processes_share_rate_and_flows_each_on_its_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flows: int, processes: int
) -> None:
    real = generate.attempt

    def noting(asked: dict[str, Any]) -> dict[str, Any]:
        found = real(asked)
        (core,) = os.sched_getaffinity(0)
        (tmp_path / str(core)).write_text(f"{found['sent']} {found['bytes']} {[*asked['flow_numbers']]}")
        return found

    monkeypatch.setattr(generate, "attempt", noting)
    with ExitStack() as stack:
        sinks: list[socket.socket] = []
        first = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        first.bind(("127.0.0.1", 0))
        port = first.getsockname()[1]
        for number in range(flows):
            sink = first if not number else stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            if number:
                try:
                    sink.bind(("127.0.0.1", port + number))
                except OSError:
                    pytest.skip("another program has the port beside")
            sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**21)
            sinks.append(sink)
        found = generate.run_on_cores(trial(port=port, flows=flows))
        counts = heard(sinks)
    noted = {path.name: path.read_text().split(" ", 2) for path in tmp_path.iterdir()}
    assert set(noted) == {"0", "1"} if processes == 2 else set(noted) == {"0"}, "each is pinned"
    assert found["processes"] == processes
    assert sum(int(sent) for sent, _, _ in noted.values()) == found["sent"] == sum(counts) > 100
    assert sum(int(octets) for _, octets, _ in noted.values()) == found["bytes"] == 128 * found["sent"]
    assert all(counts)
    expected = {"0": "[0, 2]" if flows == 3 else "[0]", "1": "[1]"}
    assert {core: numbers for core, (_, _, numbers) in noted.items()} == {core: expected[core] for core in noted}


def test_all_flows_have_the_same_rate_however_they_are_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def noting(asked: dict[str, Any]) -> dict[str, Any]:
        (tmp_path / str(len(asked["flow_numbers"]))).write_text(str(asked["per_s"]))
        return {"sent": 1, "bytes": 1, "wakes": 1, "seconds": 1.0, "longest": 1, "by": "nobody", "forgotten": []}

    monkeypatch.setattr(generate, "attempt", noting)
    generate.run_on_cores(trial(port=9, flows=3))
    assert {path.name: float(path.read_text()) for path in tmp_path.iterdir()} == {
        "1": pytest.approx(2000 / 3),
        "2": pytest.approx(4000 / 3),
    }


def test_a_core_that_is_gone_pins_nobody() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.bind(("127.0.0.1", 0))
        found = generate.run_on_cores(trial(port=sink.getsockname()[1], flows=1, cores=[4000]))
    assert found["sent"] > 10
    assert found["processes"] == 1


def test_the_last_half_of_four_cores_and_more_is_the_generators() -> None:
    def cores(status: str) -> list[int]:
        near = cast(LabNode, Answers({"grep Cpus_allowed_list /proc/self/status": status}))
        return cores_for(Lab({}, shared_kernel=False), near)

    assert cores("Cpus_allowed_list:\t0-3\n") == [2, 3]
    assert cores("Cpus_allowed_list:\t0-15\n") == [8, 9, 10, 11], "no more than four"
    assert cores("Cpus_allowed_list:\t0-2\n") == []
    assert cores("") == [], "a machine that does not tell"
    assert parse_cores("Cpus_allowed_list:\t0-1,4,6-7\n") == [0, 1, 4, 6, 7]


class Port(Answers):
    """A port as ethtool(8) tells of it."""

    def __init__(self, driver: str, cuts: str, *, yields: bool = True) -> None:
        told = {"ethtool -k": f"Features for eth0:\ntx-udp-segmentation: {cuts}\n"} if cuts else {}
        told |= {"ethtool -i": f"driver: {driver}\nversion: 1.0\n"} if driver else {}
        super().__init__(told | ({"ethtool -K": ""} if yields else {}))
        self.undone: list[str] = []

    def defer(self, *argv: str) -> None:
        self.undone.append(" ".join(argv))


@pytest.mark.parametrize(
    ("driver", "cuts", "yields", "bursts", "turned_off"),
    [
        ("veth", ON, True, True, True),
        ("virtio_net", ON, True, True, True),
        ("vmxnet3", ON, True, True, True),
        ("virtio_net", OFF, True, True, False),
        ("virtio_net", FIXED, True, False, False),
        ("virtio_net", ON, False, False, False),
        ("veth", ON, False, False, False),
        ("ixgbe", ON, True, True, False),
        ("mlx5_core", FIXED, True, True, False),
        ("", ON, True, True, True),  # nobody knows what it is
        ("", ON, False, False, False),
        ("veth", "", True, False, False),  # a kernel that has no such offload
    ],
)
def test_a_burst_is_handed_over_as_one_only_where_it_is_cut(
    driver: str, cuts: str, yields: bool, bursts: bool, turned_off: bool
) -> None:
    port = Port(driver, cuts, yields=yields)
    assert cut_by_software(cast(LabNode, port), "eth0") is bursts
    assert ("ethtool -K eth0 tx-udp-segmentation off" in port.ran and yields) is turned_off
    assert port.undone == (["ethtool -K eth0 tx-udp-segmentation on"] if turned_off else [])


# --- What it offers at most ------------------------------------------------------------------------------------------


def cells(experiment: str, profile: str, **levels: str) -> list[Cell]:
    chosen = parse_levels(",".join(f"{name}={level}" for name, level in levels.items())) if levels else {}
    return load_experiment(experiment).cells(load_vpn("openvpn"), PROFILES[profile], chosen)


def test_the_longest_packets_and_full_ones_are_tried_where_the_generator_sends() -> None:
    assert lengths_of(cells("transport", "quick"), PROFILES["quick"]) == [1328, 1500]
    assert lengths_of(cells("transport", "site"), PROFILES["site"]) == [1228, 1500]
    assert lengths_of(cells("transport", "thesis"), PROFILES["thesis"]) == [], "iperf3 sends there"
    assert lengths_of(cells("packet_rate", "thesis"), PROFILES["thesis"]) == [1400, 1500]
    assert lengths_of(cells("latency", "quick"), PROFILES["quick"]) == []
    assert lengths_of(cells("transport", "quick", payload_bytes="8000"), PROFILES["quick"]) == [1500]


def found(ip_bytes: int, packets_per_s: float, processes: int = 1) -> GeneratorLimit:
    return GeneratorLimit(
        ip_bytes=ip_bytes,
        packets_per_s=packets_per_s,
        bps=8 * ip_bytes * packets_per_s,
        by="UDP_SEGMENT",
        processes=processes,
        burst_packets=16,
    )


def test_the_best_of_all_calls_counts() -> None:
    assert highest_limits([found(1500, 3e5), found(1328, 2e5)], [found(1500, 2e5), found(1328, 4e5)]) == [
        found(1328, 4e5),
        found(1500, 3e5),
    ]
    assert highest_limits([], [found(64, 1e5)]) == [found(64, 1e5)]


def test_the_report_says_from_where_on_a_rate_is_a_lower_bound() -> None:
    run = make_run(())
    assert "packet generator" not in {fact.name for fact in facts(run, [])}, "an older run"
    run.lab["generator"] = [found(1328, 400000, 2).model_dump(), found(1500, 369123).model_dump()]
    said = {fact.name: fact.value for fact in facts(run, [])}
    assert said["packet generator"] == (
        "it offers at most 400,000 packets/s of 1328 B (4.25 Gbit/s; UDP_SEGMENT, 2 processes, without a pause) and "
        "369,123 packets/s of 1500 B (4.43 Gbit/s; UDP_SEGMENT, 1 process, without a pause), found over plain IP "
        "before the first tunnel. A rate found up there is a lower bound"
    )
    assert "lab generator" not in said


@pytest.mark.parametrize("wrong", ["fast", [1], [{"ip_bytes": 0}], [found(1, 1).model_dump() | {"by": 7}]])
def test_limits_that_are_none_are_refused(tmp_path: Path, wrong: object) -> None:
    run = json.loads(make_run(()).model_dump_json()) | {"lab": {"generator": wrong}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "trials.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"run.json: lab.*generator"):
        load_run(tmp_path)


def test_in_a_quick_run_only_plain_ip_is_known_from_below() -> None:
    """The generator offers more than any VPN of a quick run carries: none of their rows says ≥."""
    _, trials = load_run(EXAMPLE)
    throughputs = [
        (trial.vpn, found) for trial in trials for found in trial.measurements if found.metric == "udp_throughput"
    ]
    assert len({vpn for vpn, _ in throughputs}) >= 4, "three VPNs and plain IP"
    assert {vpn for vpn, found in throughputs if found.at_least} == {BASELINE}
    assert {trial.vpn for trial in trials if any(found.at_least for found in trial.measurements)} == {BASELINE}
