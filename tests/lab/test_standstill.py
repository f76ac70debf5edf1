"""A machine between two sites that stands still for two seconds: the slice is measured again, and no VPN is blamed."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from runner.data.errors import InstrumentError
from runner.lab.node import LabNode
from runner.lab.places import open_rig
from runner.lab.readings.awake import Awake
from tests.lab.commands import rows, start, trials_of, until
from tests.lab.conftest import descendants
from tests.lab.sites import TwoSites

STILL_S = 2.5


def stand_still(machine: LabNode) -> None:
    """All processes of the machine stop, as with a virtual machine that is paused while the clocks go on."""
    stopped = {machine.pid, *descendants(machine.pid)}
    tell(stopped, signal.SIGSTOP)
    time.sleep(STILL_S)  # the pause itself is what is measured
    until_s = time.monotonic() + 20
    while waiting := {
        pid for pid in stopped if is_stopped(pid)
    }:  # unshare(1) stops itself when it sees its child stopped
        assert time.monotonic() < until_s, f"still stopped: {waiting}"
        tell(waiting, signal.SIGCONT)
        time.sleep(0.05)


def tell(pids: set[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def is_stopped(pid: int) -> bool:
    """proc(5), stat: the state follows the name in brackets."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@pytest.mark.timeout(300)
def test_a_machine_that_stands_still_is_named(unchanged: TwoSites, tmp_path: Path) -> None:
    with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        Awake(lab).refuse()
        awake = Awake(lab)
        stand_still(unchanged.nodes["gw2"])
        with pytest.raises(InstrumentError, match=r"machine of (gw2|host2) and (gw2|host2) stood still for [12]\.\d s"):
            awake.refuse()
        Awake(lab).refuse()


@pytest.mark.timeout(300)
def test_a_slice_in_which_a_machine_stood_still_is_measured_again(boxes: TwoSites, tmp_path: Path) -> None:
    what = ("--vpn", "wireguard_go", "--set", "measure=tcp,streams=1,direction=forward,payload=random", "--reps", "1")
    out = tmp_path / "run"
    run = start(out, "transport", "--profile", "quick", *what, "--image", "host", "--lab", f"site:{boxes.sites()}")
    until(run, lambda: any('"wireguard_go' in row for row in rows(out)), "a slice of the VPN", 120)
    stand_still(boxes.nodes["gw2"])
    said = run.communicate(timeout=200)
    assert run.returncode == 0, said
    (trial,) = trials_of(out, "wireguard_go")
    assert trial.status == "ok", trial.reason
    assert [text for text in trial.warnings if "stood still for" in text and "gw2" in text], trial.warnings
