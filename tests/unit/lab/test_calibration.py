"""What a system call and a packet cost here, and what a guest is told of its host."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.lab.node import Completed, Node
from runner.lab.probes import costs
from runner.lab.readings import calibration
from tests.unit.helpers import Answers


def test_the_costs_are_positive_and_the_guest_keeps_those_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(calibration.HOST, raising=False)
    costs = calibration.calibration()
    assert {*costs} == {"here"}
    assert {*costs["here"]} - {"aes_kb_us"} == {"system_call_us", "packet_us"}
    assert all(0 < cost < 1000 for cost in costs["here"].values())
    monkeypatch.setenv(calibration.HOST, json.dumps(costs["here"]))
    assert calibration.calibration()["host"] == costs["here"]


def test_another_machine_is_asked_by_a_program() -> None:
    """The probe as it is, run by a Python without this project; what is odd in an answer was not measured."""

    def asked(*argv: str, input: str, **_: Any) -> Completed:
        done = subprocess.run([sys.executable, *argv[1:]], input=input, capture_output=True, text=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    found = calibration.costs_of(cast(Node, SimpleNamespace(run=asked)))
    assert {*found} == {"system_call_us", "packet_us"}
    assert all(0 < cost < 1000 for cost in found.values())
    for said in ('{"system_call_us": "1", "packet_us": NaN}', "{}", "null", "", "[" * 10**5):
        assert calibration.costs_of(cast(Node, Answers({"python3 -IS -": said}))) == {}
    assert calibration.costs_of(cast(Node, Answers())) == {}, "without a Python"


def test_a_dearer_call_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: twenty calls for one."""
    plain = calibration.calibration()["here"]["system_call_us"]
    real = os.getppid
    monkeypatch.setattr(os, "getppid", lambda: [real() for _ in range(20)])
    assert calibration.calibration()["here"]["system_call_us"] > 5 * plain


def test_a_kernel_that_cuts_no_datagrams_has_no_packets_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "UDP_SEGMENT", 9999)
    assert "packet_us" not in calibration.calibration()["here"]


def test_a_machine_of_ones_own_loads_no_module_for_the_question(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(calibration.HOST, raising=False)
    monkeypatch.setattr(calibration, "PROTOCOLS", tmp_path / "protocols")
    calibration.PROTOCOLS.write_text("protocol  size\nUDP  1216\n")
    monkeypatch.setattr(socket, "AF_ALG", "asked")
    assert "aes_kb_us" not in calibration.calibration()["here"]
    calibration.PROTOCOLS.write_text("protocol  size\nALG  1216\n")
    with pytest.raises(TypeError):  # control: where it is loaded it is asked
        calibration.calibration()
