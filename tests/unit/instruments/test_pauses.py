"""A process that was stopped, or a machine that was suspended, makes no sample."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import InstrumentError, MeasurementError
from runner.data.trials import Cell
from runner.lab.readings.awake import Awake
from runner.lab.readings.pauses import LEAST_S, PAUSES, FarClock, Pauses, boottime
from runner.sweep import crypto_driver, tunnels
from runner.sweep.plan import Planned, PlannedTunnel
from runner.tunnel.bring_up import Tunnel
from tests.unit.helpers import PaperLab, named_secrets
from tests.unit.on_paper import EVIDENCE, PROOF, Paper, Run, on_paper
from tests.unit.synthetic import CBC, IDLE


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with on_paper(tmp_path / "run", monkeypatch) as made:
        yield made


def test_a_jump_of_the_clock_between_two_looks_is_a_pause() -> None:
    now = [100.0]
    pauses = Pauses(lambda: now[0])
    assert pauses.seconds() == 0
    now[0] += LEAST_S / 2
    assert pauses.seconds() == 0, "a busy machine is no suspended one"
    now[0] += 6
    assert pauses.seconds() == pytest.approx(6)
    pauses.refuse(pauses.seconds())
    with pytest.raises(InstrumentError, match=r"stood still for 6\.0 s while this was measured"):
        pauses.refuse(0)


def test_a_stopped_process_notices_it() -> None:
    code = (
        "import time; from runner.lab.readings.pauses import PAUSES; PAUSES.seconds(); print('ready', flush=True); "
        "input(); print(PAUSES.seconds())"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(1.5 * LEAST_S)  # the stop itself is what is measured
        os.kill(process.pid, signal.SIGCONT)
        assert float(process.communicate("\n", timeout=30)[0]) >= LEAST_S


SUSPENDED = """
import ctypes, os, time
from runner.data.errors import InstrumentError
from runner.lab.readings.pauses import Pauses
class Alone(Pauses):  # a thread may not enter a time namespace, and looks here by itself
    def _look(self): pass
pauses = Alone()
pauses.seconds()
while len(os.listdir("/proc/self/task")) > 1: pass
before, libc = time.monotonic(), ctypes.CDLL(None, use_errno=True)
assert libc.unshare(0x80) == 0, "CLONE_NEWTIME"
open("/proc/self/timens_offsets", "w").write("boottime 6 0")
assert libc.setns(os.open("/proc/self/ns/time_for_children", os.O_RDONLY), 0x80) == 0
assert time.monotonic() - before < 6, "the other clock does not count what was suspended"
try:
    pauses.refuse(0)
except InstrumentError as refused:
    print(refused)
"""


@pytest.mark.skipif(not Path("/proc/self/ns/time_for_children").exists() or os.geteuid() != 0, reason="time namespace")
def test_a_suspended_machine_is_noticed() -> None:
    """The kernel's clocks as after a suspension: CLOCK_BOOTTIME has gone on, CLOCK_MONOTONIC has not."""
    done = subprocess.run([sys.executable, "-c", SUSPENDED], capture_output=True, text=True, timeout=30, check=False)
    assert "stood still for 6.0 s while this was measured" in done.stdout, done.stderr


def test_a_slice_in_which_the_machine_was_suspended_is_measured_again(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asleep = [0.0]
    monkeypatch.setattr(PAUSES, "_clock", lambda: boottime() + asleep[0])

    def suspended(bench: Paper) -> None:
        asleep[0] += 6

    run.world.wrong[("openvpn", 3)] = suspended
    assert run().failed == 0
    assert (run.trials["openvpn"].status, run.rounds("openvpn")) == ("ok", [1, 2, 4, 5, 6])
    assert "stood still for 6." in run.trials["openvpn"].warnings[0]
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("error", [None, TimeoutError("no payload came")])
def test_a_tunnel_that_came_up_while_the_machine_was_suspended_is_brought_up_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    asleep, tries = [0.0], [0]
    up = Tunnel("10.2.0.2", 6.038, EVIDENCE, PROOF)

    def comes_up(*_: object, **__: object) -> Tunnel:
        tries[0] += 1
        if tries[0] == 1:
            asleep[0] += 6
            if error:
                raise error
        return up

    lab = PaperLab({})
    monkeypatch.setattr(PAUSES, "_clock", lambda: boottime() + asleep[0])
    monkeypatch.setattr(tunnels, "bring_up", comes_up)
    monkeypatch.setattr(crypto_driver, "driver_said", lambda *_: {})
    monkeypatch.setattr(tunnels.TunnelBuilder, "_lab", lambda self: lab)
    monkeypatch.setattr(tunnels.TunnelBuilder, "_keys", lambda self: named_secrets(self.vpn, lab.sites))
    planned = PlannedTunnel("openvpn", CBC, (Planned(Cell(vpn="openvpn", params=CBC | IDLE), 1),))
    stage: Any = SimpleNamespace(rig=SimpleNamespace(stands=0))
    made = tunnels.TunnelBuilder(load_vpn("openvpn"), planned, stage, tunnels.Shared(), tmp_path)
    made._hold = lambda _: {}
    assert made._tunnel()[1].address == up.address
    assert tries == [2]


def pauses_in(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None):  # type: ignore[no-untyped-def]
    """A slice in which the process stands still, and which then fails, or seems to be well."""
    total = [0.0]
    monkeypatch.setattr(PAUSES, "seconds", lambda: total[0])

    def wrong(bench: Paper) -> None:
        total[0] += 6
        if error:
            raise error

    return wrong


@pytest.mark.parametrize("error", [None, MeasurementError("no answer"), TimeoutError("it did not end")])
def test_the_slice_is_measured_again_and_the_tunnel_is_not_to_blame(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    run.world.wrong[("openvpn", 3)] = pauses_in(monkeypatch, error)
    assert run().failed == 0
    assert (run.trials["openvpn"].status, run.rounds("openvpn")) == ("ok", [1, 2, 4, 5, 6])
    assert "stood still for 6.0 s" in run.trials["openvpn"].warnings[0]
    assert run.world.renewed == []
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]


def looks(*seen: tuple[float, float, float]) -> float:
    """How long a machine stood still after these looks at its clock: asked, what it showed, heard."""
    clock = FarClock()
    for look in seen:
        clock.saw(*look)
    return clock.stood_still_s


def test_a_machines_clock_that_stays_behind_was_still() -> None:
    assert looks((10, 500, 10.1), (20, 504, 20.1)) == pytest.approx(6, abs=0.2)
    assert looks((10, 500, 10.1), (20, 504, 20.1), (30, 508, 30.1)) == pytest.approx(12, abs=0.4)


@pytest.mark.parametrize(
    "later",
    [
        (20, 510, 20.1),  # it goes as ours does
        (20, 510 - LEAST_S / 2, 20.1),  # a busy machine
        (20, 516, 27),  # our question or its answer was on its way for seconds
        (10 + 7200, 500 + 7200 - 2, 10 + 7200.1),  # two hours, and a clock that is slow
        (20, 530, 20.1),  # it is ahead: ours has stood still, which is seen here
    ],
)
def test_a_machines_clock_that_does_not_prove_a_pause(later: tuple[float, float, float]) -> None:
    assert looks((10, 500, 10.1), later) == 0


def test_a_machine_that_stood_still_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    still = {"gw1": 0.0, "gw2": 3.0}

    def node(name: str) -> Any:
        return SimpleNamespace(name=name, stood_still_s=lambda ask=True: still[name])

    lab: Any = SimpleNamespace(shared_kernel=False, nodes={name: node(name) for name in still})
    awake = Awake(lab)
    awake.refuse()
    still["gw1"] += 6
    with pytest.raises(InstrumentError, match=r"the machine of gw1 stood still for 6\.0 s while this was measured"):
        awake.refuse()
    Awake(lab).refuse()
