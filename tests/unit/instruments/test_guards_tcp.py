"""Guards of the TCP throughput, and of the payload that it sends: no number of a test that broke off.

Take a guard out, and its test fails.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any, cast

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.design.profile import PROFILES
from runner.instruments import result
from runner.instruments.tools import cost, iperf
from runner.instruments.traffic import tcp
from runner.lab import probes
from runner.lab.node import Completed, Process
from runner.lab.node.namespaces import NamespaceProcess
from runner.vpn.recipe import NotedNode, PaperProcess
from tests.unit.helpers import Iperf, edited, lab_with, report


@pytest.fixture(autouse=True)
def _free_of_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = cost.CostSnapshot(cost.Spent({"user": 1.0}, 5), {}, 7)
    monkeypatch.setattr(tcp, "snapshot", lambda lab: nothing)
    monkeypatch.setattr(tcp, "wan_bytes", lambda lab: 0)


def tcp_of(found: dict[str, Any], duration_s: int = 2) -> result.Measured:
    return tcp.tcp(lab_with(Iperf(json.dumps(found))), "10.2.0.2", duration_s, 1, "forward", "random")


def test_tcp_that_is_in_order() -> None:
    found = {m.metric: m for m in tcp_of(report("tcp")).measurements}
    throughput = found["tcp_throughput"]
    assert throughput.value == pytest.approx(12905887585)
    assert (len(throughput.samples), throughput.detail["retransmits"]) == (2, 135)
    assert "cpu_per_gigabyte" not in found, "nothing was spent between two equal snapshots: that is no value"


def test_tcp_with_nothing_received() -> None:
    with pytest.raises(MeasurementError, match="nothing was received"):
        tcp_of(edited("tcp", lambda r: r["end"]["sum_received"].update(bytes=0, bits_per_second=0)))


def test_tcp_whose_payload_ended_early() -> None:
    with pytest.raises(MeasurementError, match=r"ran out.* after 1\.0 s"):
        tcp_of(report("tcp-exhausted"))


def test_a_test_of_a_file_that_did_not_come_whole() -> None:
    sent_bytes = report("tcp")["end"]["sum_sent"]["bytes"]
    lab = lab_with(Iperf(json.dumps(report("tcp"))))
    whole = tcp.tcp(lab, "10.2.0.2", 1, 1, "forward", "random", file_bytes=sent_bytes)
    assert whole.measurements[0].value > 0
    assert whole.measurements[0].at_least, "iperf3 saw its end within 0.1 s, which is much of this test"
    with pytest.raises(MeasurementError, match=r"the test ended after .* of .* MB"):
        tcp.tcp(lab, "10.2.0.2", 1, 1, "forward", "random", file_bytes=2 * sent_bytes)


def test_a_file_is_one_whole_test_in_every_profile_and_there_is_none_of_text() -> None:
    instrument, lab, vpn = tcp.Tcp(), lab_with(None), load_vpn("openvpn")
    for profile in PROFILES.values():
        assert not instrument.takes_turns({"payload": "zeros", "transfer": "file"}, profile)
        assert instrument.takes_turns({"payload": "zeros"}, profile) == (profile.rounds > 0)
    assert instrument.refuses(lab, vpn, {"payload": "text"}) is None
    assert instrument.refuses(lab, vpn, {"payload": "zeros", "transfer": "file"}) is None
    refused = instrument.refuses(lab, vpn, {"payload": "text", "transfer": "file"})
    assert refused is not None
    assert "only of random and zeros" in refused.reason


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
    with pytest.raises(MeasurementError, match="printed no JSON: Segmentation fault"):
        iperf.iperf3(lab_with(Iperf("Segmentation fault")), "10.2.0.2", 1)


class SlowToDie(NotedNode):
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
    assert host2.lines == ["pkill -KILL iperf3", "ss", "ss", "daemon iperf3 --server --port 5201", "ss"]


class BusyAtFirst(Iperf):
    """An iperf3 whose server has not done with the test before when it is asked first."""

    asked = 0

    def __init__(self, error: str, output: str = "") -> None:
        super().__init__(output)
        self.error = error

    def run(self, *argv: str, **options: Any) -> Completed:
        self.asked += 1
        return Completed(1, json.dumps({"error": self.error}), "") if self.asked < 4 else super().run(*argv, **options)


NO_CONNECTION = "unable to connect to server - server may have stopped running, firewall issue, etc.: "


@pytest.mark.parametrize(
    "says",
    [
        "the server is busy running a test. try again later",
        NO_CONNECTION + "Connection reset by peer",
        NO_CONNECTION + "Connection refused",
    ],
)
def test_iperf3_waits_for_a_server_that_is_at_the_test_before(says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    host1 = BusyAtFirst(says, json.dumps(report("tcp")))
    assert iperf.iperf3(lab_with(host1), "10.2.0.2", 1)["end"]["sum_received"]["bytes"] > 0
    assert host1.asked == 4
    monkeypatch.setattr(iperf, "FREE_WITHIN_S", 0.0)
    with pytest.raises(MeasurementError, match=says[:10]):
        iperf.iperf3(lab_with(BusyAtFirst(says)), "10.2.0.2", 1)


# --- the payload's source ------------------------------------------------------------------------------------


def started(*argv: str, log: Path) -> NamespaceProcess:
    return NamespaceProcess(subprocess.Popen(argv), log)


def test_feeder_that_outlasted_the_test(tmp_path: Path) -> None:
    tcp.check_feeder(started("true", log=tmp_path))


def test_feeder_that_ended_first(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match=r"payload ran out.*exit 1"):
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
        tcp.check_feeder(cast(Process, stuck))
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


def test_of_a_file_that_takes_long_the_end_is_known() -> None:
    def long(found: dict[str, Any]) -> None:
        found["end"]["sum_received"]["seconds"] = 6.0

    found = edited("tcp", long)
    lab = lab_with(Iperf(json.dumps(found)))
    measured = tcp.tcp(lab, "10.2.0.2", 1, 1, "forward", "random", file_bytes=found["end"]["sum_sent"]["bytes"])
    assert not measured.measurements[0].at_least
    assert not tcp_of(report("tcp")).measurements[0].at_least, "a test of a time ends when it is to"
