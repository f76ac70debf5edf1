"""``vpneval more RUN`` of runs that were measured in guests: it goes on under the kernel of the run."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.data.store import load_run
from runner.lab import kernels

pytestmark = pytest.mark.timeout(600)


def vpneval(*argv: object) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "runner", *map(str, argv)], capture_output=True, text=True, timeout=290, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_one_of_two_kernels_runs_goes_on_in_its_guest(uml: kernels.Uml, tmp_path: Path) -> None:
    asked = ("--vpn", "openvpn", "--set", "measure=idle", "--profile", "smallest", "--kernel", "host,uml")
    vpneval("run", "transport", *asked, "--out", tmp_path / "both")
    for name, guest in (("uml", "uml"), ("host", None)):
        folder = tmp_path / "both" / name
        before = len(load_run(folder)[1])
        vpneval("more", folder, "--deadline", "40s")
        run, trials = load_run(folder)
        assert len(trials) > before
        assert (run.lab.get("guest"), len(run.invocations)) == (guest, 2)
