"""A process that was stopped, or a machine that was suspended, makes no sample."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.errors import InstrumentError, MeasurementError
from runner.lab.readings.pauses import LEAST_S, PAUSES, Pauses
from tests.unit.on_paper import Paper, Run, on_paper


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
