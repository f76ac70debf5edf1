"""The fault campaign's runs in a short form; ``make campaign`` has the long one, with seeds not used before."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab.software.image import Image
from tests.campaign.__main__ import EVERY
from tests.campaign.labs import IN_TURN

CASES = 200


@pytest.mark.timeout(900)
def test_runs_in_which_something_goes_wrong(image: Image) -> None:
    """Eight runs: of each kind of what may go wrong, one at least."""
    assert {*IN_TURN[: CASES // EVERY]} == {*IN_TURN} == {"plugin", "signals", "killed", "disk", "output"}
    root = Path(__file__).resolve().parents[2]
    argv = [sys.executable, "-m", "tests.campaign", "--seed", "20", "--cases", str(CASES), "--only", "labs"]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
