"""Plausibility guards: each refuses what is not so. Take a guard out, and its test fails."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from runner import probes
from runner.errors import CommandError, LabError, MeasurementError, ProofError
from runner.lab import Lab, check_alive
from runner.logs import scrub, tail
from runner.measure import cost, idle, iperf, result, tcp, udp
from runner.model import Cell, Evidence, Measurement, Proof, Trial, trial_id
from runner.node import Completed, NamespaceProcess, Node
from runner.plan import Planned
from runner.plugin import AES_CBC, Params, Site
from runner.proof import judge
from runner.recipe import Paper, PaperProcess
from runner.records import Records, faster_than
from runner.store import open_store
from runner.tunnel import bring_up
from tests.unit.helpers import GW1, GW2, captured, report
from vpns.none import PlainIp

# --- proof ---------------------------------------------------------------------------------------------------

KEPT = Proof(confidential_promised=True, delivered=True, marker_on_wan=False, sent_bytes=2048, captured_bytes=5000)
CLEAR = KEPT.model_copy(update={"confidential_promised": False, "marker_on_wan": True})


def test_proofs_that_hold() -> None:
    judge(KEPT, [False, False])
    judge(CLEAR, [True, True])


def test_marker_not_delivered() -> None:
    with pytest.raises(ProofError, match=r"did not come through the tunnel: timed out"):
        judge(KEPT.model_copy(update={"delivered": False}), [False, False], "timed out\n")


def test_capture_that_saw_less_than_was_sent() -> None:
    with pytest.raises(MeasurementError, match="saw 2047 bytes of 2048 sent"):
        judge(KEPT.model_copy(update={"captured_bytes": 2047}), [False, False])


def test_plaintext_on_the_wan() -> None:
    with pytest.raises(ProofError, match="plaintext on the WAN"):
        judge(KEPT.model_copy(update={"marker_on_wan": True}), [True, False])


@pytest.mark.parametrize("seen", [[False, False], [True, False], [False, True]])
def test_control_marker_not_seen_in_the_clear(seen: list[bool]) -> None:
    with pytest.raises(MeasurementError, match="missed a marker"):
        judge(CLEAR.model_copy(update={"marker_on_wan": any(seen)}), seen)


class NoEvidence(PlainIp):
    name = "no_evidence"

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return Evidence(cipher="none")


def test_a_plugin_without_evidence_of_its_data_path() -> None:
    nodes = {name: Paper(name) for name in ("host1", "gw1", "wan", "gw2", "host2")}
    vpn = NoEvidence()
    with pytest.raises(ProofError, match="no evidence of the data path"):
        bring_up(cast(Lab, PaperLab(nodes)), vpn, vpn.comparable, {})


@dataclass
class PaperLab:
    """A lab of nodes that run nothing."""

    nodes: dict[str, Any]
    sites: tuple[Site, ...] = (GW1, GW2)
    shared_kernel: bool = True

    @property
    def host1(self) -> Any:
        return self.nodes["host1"]

    @property
    def host2(self) -> Any:
        return self.nodes["host2"]

    def gateway(self, site: Site) -> Any:
        return self.nodes[site.name]


# --- TCP -----------------------------------------------------------------------------------------------------


def edited(name: str, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """A captured iperf3 test with something changed in it."""
    found = copy.deepcopy(report(name))
    change(found)
    return found


@dataclass
class Iperf:
    """host1 with an iperf3 that says ``says``; ``hangs`` makes it not come back."""

    says: str
    hangs: bool = False
    ran: list[str] = field(default_factory=list)

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        self.ran.append(" ".join(argv))
        if self.hangs:
            raise CommandError("host1", argv, None, "", timeout)
        return Completed(0, self.says, "")


def lab_with(iperf: Iperf, host2: Any = None) -> Lab:
    return cast(Lab, PaperLab({"host1": iperf, "host2": host2 or Paper("host2")}))


@pytest.fixture(autouse=True)
def _free_of_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = cost.Snapshot({"user": 1.0}, 5, {}, 7)
    monkeypatch.setattr(tcp, "snapshot", lambda lab: nothing)
    monkeypatch.setattr(tcp, "wan_bytes", lambda lab: 0)


def tcp_of(found: dict[str, Any], duration_s: int = 2) -> result.Measured:
    return tcp.tcp(lab_with(Iperf(json.dumps(found))), "10.2.0.2", duration_s, 1, "forward", "random")


def test_tcp_that_is_in_order() -> None:
    found = {m.metric: m for m in tcp_of(report("tcp")).measurements}
    throughput, cpu = found["tcp_throughput"], found["cpu_per_gigabyte"]
    assert throughput.value == pytest.approx(12905887585)
    assert (len(throughput.samples), throughput.detail["retransmits"]) == (2, 135)
    assert cpu.value == 0  # nothing was spent between two equal snapshots


def test_tcp_with_nothing_received() -> None:
    with pytest.raises(MeasurementError, match="nothing was received"):
        tcp_of(edited("tcp", lambda r: r["end"]["sum_received"].update(bytes=0, bits_per_second=0)))


def test_tcp_whose_payload_ended_early() -> None:
    with pytest.raises(MeasurementError, match=r"exhausted.* after 1\.0 s"):
        tcp_of(report("tcp-exhausted"))


def test_tcp_where_nothing_was_sent_most_of_the_time() -> None:
    def stall(found: dict[str, Any]) -> None:  # 5 intervals, the last 3 empty
        first = found["intervals"][0]
        found["intervals"] = [copy.deepcopy(first) for _ in range(5)]
        for number, interval in enumerate(found["intervals"]):
            interval["sum"]["start"] = float(number)
            if number >= 2:
                interval["sum"].update(bytes=0, bits_per_second=0)

    with pytest.raises(MeasurementError, match=r"nothing was sent from 2\.0 s on"):
        tcp_of(edited("tcp", stall))


def test_iperf3_that_reports_an_error_or_no_json() -> None:
    with pytest.raises(MeasurementError, match="iperf3: unable to connect"):
        tcp_of({"start": {}, "intervals": [], "end": {}, "error": "unable to connect to server"})
    with pytest.raises(MeasurementError, match="said no JSON: Segmentation fault"):
        iperf.iperf3(lab_with(Iperf("Segmentation fault")), "10.2.0.2", 1)


class SlowToDie(Paper):
    """A host whose killed server holds its port until it has been looked at twice."""

    looked = 0

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        done = super().run(*argv, check=check, timeout=timeout, input=input)
        if argv[0] != "ss":
            return done
        self.looked += 1
        self.lines.append("ss")
        return Completed(0, "" if self.looked == 2 else "LISTEN 0 4096 *:5201 *:*\n", "")


def test_iperf3_that_hangs_gets_a_new_server_once_the_port_is_free() -> None:
    host2 = SlowToDie("host2")
    with pytest.raises(MeasurementError, match="iperf3 hung"):
        iperf.iperf3(lab_with(Iperf("", hangs=True), host2), "10.2.0.2", 1)
    assert host2.lines == ["pkill -KILL iperf3", "ss", "ss", "iperf3 --server --port 5201 &", "ss"]


class BusyAtFirst(Iperf):
    """An iperf3 whose server has not done with the test before when it is asked first."""

    asked = 0

    def run(self, *argv: str, **options: Any) -> Completed:
        self.asked += 1
        busy = '{"error": "the server is busy running a test. try again later"}'
        return Completed(1, busy, "") if self.asked < 4 else super().run(*argv, **options)


def test_iperf3_waits_for_a_server_that_is_still_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    host1 = BusyAtFirst(json.dumps(report("tcp")))
    assert iperf.iperf3(lab_with(host1), "10.2.0.2", 1)["end"]["sum_received"]["bytes"] > 0
    assert host1.asked == 4
    monkeypatch.setattr(iperf, "FREE_WITHIN_S", 0.0)
    with pytest.raises(MeasurementError, match="the server is busy"):
        iperf.iperf3(lab_with(BusyAtFirst("")), "10.2.0.2", 1)


# --- the payload's source ------------------------------------------------------------------------------------


def started(*argv: str, log: Path) -> NamespaceProcess:
    return NamespaceProcess(subprocess.Popen(argv), log)


def test_feeder_that_outlasted_the_test(tmp_path: Path) -> None:
    tcp.check_feeder(started("true", log=tmp_path))


def test_feeder_that_ended_first(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"payload was exhausted.*exit 1"):
        tcp.check_feeder(started("false", log=tmp_path))


class Stuck(PaperProcess):
    stopped = False

    def wait(self, timeout: float) -> int:
        raise TimeoutError

    def stop(self) -> None:
        self.stopped = True


def test_feeder_that_nobody_read_to_the_end() -> None:
    stuck = Stuck()
    with pytest.raises(MeasurementError, match="never read the payload"):
        tcp.check_feeder(cast(NamespaceProcess, stuck))
    assert stuck.stopped


def test_feeder_repeats_its_file_until_the_reader_goes(tmp_path: Path) -> None:
    payload = bytes(range(256)) * 1000
    (tmp_path / "payload").write_bytes(payload)
    os.mkfifo(tmp_path / "fifo")
    feed = Path(probes.__file__).parent / "feed.py"
    feeder = started(sys.executable, "-IS", str(feed), str(tmp_path / "payload"), str(tmp_path / "fifo"), log=tmp_path)
    with (tmp_path / "fifo").open("rb") as reader:
        read = reader.read(3 * len(payload) + 17)
    assert read == (payload * 4)[: len(read)]
    tcp.check_feeder(feeder)


def test_text_payload_shrinks_to_a_quarter() -> None:
    text = tcp.text_payload().encode()
    assert len(text) == 2_000_000
    assert 0.2 < len(zlib.compress(text)) / len(text) < 0.3


# --- UDP -----------------------------------------------------------------------------------------------------


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
    dropped = udp.snmp(Completed(0, captured("proc-net-snmp-drops.txt"), ""), "Udp", "RcvbufErrors")
    loss = udp.udp_loss(found, 1300, dropped)
    assert loss.received == loss.sent == 62797


def test_udp_never_has_more_received_than_sent() -> None:
    loss = udp.udp_loss(report("udp-drops"), 1300, 40_000)  # other sockets of the host drop, too
    assert loss.received == loss.sent


def jitter_of(**sent: float) -> Measurement:
    def change(found: dict[str, Any]) -> None:  # 1 Mbit/s of 200-byte datagrams, as udp.jitter asks for
        found["end"]["sum_sent"].update({"packets": 625, "bits_per_second": 1e6} | sent)
        found["end"]["sum_received"].update(bytes=625 * 200 if sent.get("packets", 1) else 0)

    return udp.jitter(lab_with(Iperf(json.dumps(edited("udp", change)))), "10.2.0.2")


def test_jitter() -> None:
    assert jitter_of().value == pytest.approx(0.00556, abs=1e-5)


def test_jitter_when_the_sender_fell_short() -> None:
    with pytest.raises(MeasurementError, match=r"fell short: 0\.80 of 1\.00 Mbit/s"):
        jitter_of(bits_per_second=0.8e6)


def test_jitter_with_nothing_received() -> None:
    found = edited("udp-total-loss", lambda r: r["end"]["sum_sent"].update(bits_per_second=1e6))
    with pytest.raises(MeasurementError, match="nothing was received"):
        udp.jitter(lab_with(Iperf(json.dumps(found))), "10.2.0.2")


def test_idle_with_no_exchange_finished() -> None:
    with pytest.raises(MeasurementError, match="no exchange was finished"):
        idle.idle(lab_with(Iperf("[]")), "10.2.0.2", 0.5, 1.0)


# --- the loop ------------------------------------------------------------------------------------------------

TCP = {"transport": "tcp", "payload": "random", "streams": "1", "direction": "forward"}
PLAIN = {"cipher": "none", "integrity": "none", "compression": "off"}


def throughput(value: float) -> Measurement:
    return result.measurement("tcp_throughput", value)


def baseline(value: float, repetition: int = 1) -> Trial:
    params = PLAIN | TCP
    return Trial(
        id=trial_id("none", params, repetition, "first"),
        vpn="none",
        params=params,
        repetition=repetition,
        position="first",
        status="ok",
        started_at="2026-01-01T00:00:00.000+00:00",
        measurements=[throughput(value)],
    )


def test_faster_than_the_baseline() -> None:
    plain = baseline(1e9)
    assert faster_than(plain, result.Measured([throughput(1.04e9)])) == []
    assert faster_than(plain, result.Measured([throughput(1.2e9)])) == [
        "tcp_throughput is 1.20 times the baseline's: not plausible"
    ]
    assert faster_than(plain, result.Measured([result.measurement("rtt", 9e9)])) == []


class Silent:
    """A watcher that nobody watches."""

    def planned(self, trials: int, expected_s: float) -> None: ...
    def tunnel(self, repetition: int, vpn: str, params: Params) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def finished(self, trial: Trial, remaining_s: float) -> None: ...
    def say(self, text: str) -> None: ...


@pytest.mark.parametrize(("repetition", "warned"), [(1, True), (2, False)])
def test_the_line_of_a_trial_that_beats_its_own_blocks_baseline_warns(
    tmp_path: Path, repetition: int, warned: bool
) -> None:
    with open_store(tmp_path / "run") as store:
        store.append(baseline(1e9, 1))
        store.append(baseline(9e9, 2))
        records = Records(store, Silent(), {})
        planned = Planned(Cell(vpn="openvpn", params={**AES_CBC, **TCP}), repetition)
        records.write(planned, measured=result.Measured([throughput(2e9)]))
        assert bool(store.trials[-1].warnings) == warned


@dataclass
class Mortal:
    lives: bool

    def alive(self) -> bool:
        return self.lives


def test_a_node_that_is_gone_breaks_the_lab() -> None:
    check_alive(cast(Lab, PaperLab({"gw1": Mortal(True)})))
    with pytest.raises(LabError, match="the node gw2 is gone"):
        check_alive(cast(Lab, PaperLab({"gw1": Mortal(True), "gw2": Mortal(False)})))


def test_a_secret_in_a_daemons_log_is_replaced_by_its_name(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----"
    (tmp_path / "gw1-daemon.log").write_text(f"loaded:\n{key}\npublic abcdefghijklmnopqrstuvwxyz\n")
    scrub(tmp_path, {"gw1.key": key + "\n", "gw1.pub": "abcdefghijklmnopqrstuvwxyz"})
    text = (tmp_path / "gw1-daemon.log").read_text()
    assert text == "loaded:\n<gw1.key>\npublic abcdefghijklmnopqrstuvwxyz\n"


def test_a_failures_reason_has_the_tail_of_the_gateways_logs(tmp_path: Path) -> None:
    (tmp_path / "gw2-openvpn.log").write_text("".join(f"line {number}\n" for number in range(9)) + "\n")
    (tmp_path / "gw1-openvpn.log").write_text("")
    (tmp_path / "host2-iperf3.log").write_text("not a daemon\n")
    assert tail(tmp_path) == "\ngw2-openvpn.log: line 5 / line 6 / line 7 / line 8"
    assert tail(tmp_path / "empty") == ""
