"""Whether KVM runs a guest is tried, with a control: the same ROM ends in software emulation."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.lab.kernels import kvm


@pytest.fixture(autouse=True)
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A device that may be opened."""
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(kvm, "DEVICE", device)
    kvm.kvm_runs_guests.cache_clear()
    yield device
    kvm.kvm_runs_guests.cache_clear()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """The only emulator in PATH is this shell script."""
    path = folder / kvm.EMULATOR
    path.write_text("#!/bin/sh\n" + script)
    path.chmod(0o755)
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")


@pytest.mark.parametrize(
    ("script", "runs"),
    [
        (f"exit {kvm.RAN}\n", True),
        ("exit 0\n", False),
        ("exit 1\n", False),
        ("exec sleep 60\n", False),
    ],
)
def test_only_a_guest_that_ran_to_its_end_shows_kvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, runs: bool
) -> None:
    install(tmp_path, monkeypatch, script)
    assert kvm.kvm_runs_guests(within_s=2.0) is runs


def test_nothing_is_started_where_the_device_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: Path
) -> None:
    install(tmp_path, monkeypatch, f"exit {kvm.RAN}\n")
    device.unlink()
    assert kvm.kvm_runs_guests() is False


def test_another_processor_is_taken_at_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert kvm.kvm_runs_guests() is True


def test_the_guest_ends_in_software_emulation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a ROM that no emulator could run would make every KVM a broken one."""
    if shutil.which(kvm.EMULATOR) is None or platform.machine() != "x86_64":
        pytest.skip(f"{kvm.EMULATOR} is not installed")
    monkeypatch.setattr(kvm, "ARGV", ("-machine", "pc,accel=tcg", *kvm.ARGV[2:]))
    assert kvm.kvm_runs_guests(within_s=30.0) is True
