"""What a system call and a packet cost here, and what a guest is told of its host."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from runner.lab.readings import calibration


def test_the_costs_are_positive_and_the_guest_keeps_those_of_its_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(calibration.HOST, raising=False)
    costs = calibration.calibration()
    assert {*costs} == {"here"}
    assert {*costs["here"]} - {"aes_kb_us"} == {"system_call_us", "packet_us"}
    assert all(0 < cost < 1000 for cost in costs["here"].values())
    monkeypatch.setenv(calibration.HOST, json.dumps(costs["here"]))
    assert calibration.calibration()["host"] == costs["here"]


def test_a_dearer_call_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: twenty calls for one."""
    plain = calibration.calibration()["here"]["system_call_us"]
    real = os.getppid
    monkeypatch.setattr(os, "getppid", lambda: [real() for _ in range(20)])
    assert calibration.calibration()["here"]["system_call_us"] > 5 * plain


def test_a_kernel_that_cuts_no_datagrams_has_no_packets_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "UDP_SEGMENT", 9999)
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
