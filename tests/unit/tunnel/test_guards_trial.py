"""Guards of the trial: nothing beats plain IP unsaid, no node goes unseen, no secret stays in a log.

Take a guard out, and its test fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from runner.catalogue import instruments
from runner.data.errors import LabError
from runner.data.levels import AES_CBC, Params
from runner.data.store import open_store
from runner.data.trials import Cell, Trial, Value, trial_id
from runner.instruments import result
from runner.lab.node.logs import LogFile, log_text, tail
from runner.lab.redaction import KNOWN
from runner.lab.shape.site_to_site import Lab, check_alive
from runner.sweep.plan import Planned
from runner.sweep.records import Records, faster_than, measurements_of
from tests.unit.helpers import PaperLab

TCP = {"measure": "tcp", "payload": "random", "streams": "1", "direction": "forward"}
PLAIN = {"cipher": "none", "integrity": "none", "compression": "off"}


def throughput(value: float) -> Value:
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
        measurements=measurements_of(result.Measured([throughput(value)]), instruments()["tcp"]),
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

    def show_plan(self, trials: int, expected_s: float) -> None: ...
    def tunnel(self, repetition: int, vpn: str, params: Params) -> None: ...
    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def show_slice(self, *_: object) -> None: ...
    def show_trial(self, trial: Trial, remaining_s: float) -> None: ...
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
    why: str = ""

    def why_ended(self) -> str:
        return self.why


def test_a_node_that_is_gone_breaks_the_lab() -> None:
    check_alive(cast(Lab, PaperLab({"gw1": Mortal()})))
    nodes = {"gw1": Mortal(), "gw2": Mortal("gw2 does not answer"), "wan": Mortal("wan is gone")}
    with pytest.raises(LabError, match=r"^gw2 does not answer; wan is gone$"):
        check_alive(cast(Lab, PaperLab(nodes)))


def test_a_secret_in_a_daemons_log_is_replaced_by_its_name(tmp_path: Path) -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA\n-----END PRIVATE KEY-----"
    KNOWN.learn({"gw1.key": key + "\n", "gw1.pub": "abcdefghijklmnopqrstuvwxyz"})
    log = LogFile(tmp_path / "gw1-daemon.log")
    log.write(f"loaded:\n{key}\npublic abcdefghijklmnopqrstuvwxyz\n".encode())
    log.flush()
    head, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    assert log.path.read_text() == f"loaded:\n{head}\n<gw1.key>\n{end}\npublic abcdefghijklmnopqrstuvwxyz\n"


def test_a_log_is_read_from_memory_where_its_disk_is_full(tmp_path: Path) -> None:
    log = LogFile(path := tmp_path / "gw1-daemon.log")
    log.write(b"one\n")
    with pytest.MonkeyPatch.context() as disk, open("/dev/full", "wb", buffering=0) as full:
        disk.setattr("runner.lab.node.logs.open_file", lambda *_: full)
        log.write(b"Initialization Sequence Completed\n")
    log.flush()
    assert path.read_text() == "one\n"
    assert log_text(path) == "one\nInitialization Sequence Completed\n"
    assert tail(tmp_path) == "\ngw1-daemon.log: one / Initialization Sequence Completed"
    del log
    assert log_text(path) == "one\n"  # the node is gone: the file is what there is


def test_a_failures_reason_has_the_tail_of_the_gateways_logs(tmp_path: Path) -> None:
    (tmp_path / "gw2-openvpn.log").write_text("".join(f"line {number}\n" for number in range(9)) + "\n")
    (tmp_path / "gw1-openvpn.log").write_text("")
    (tmp_path / "host2-iperf3.log").write_text("not a daemon\n")
    assert tail(tmp_path) == "\ngw2-openvpn.log: line 5 / line 6 / line 7 / line 8"
    assert tail(tmp_path / "empty") == ""
