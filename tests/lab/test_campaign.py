"""The fault campaign's runs in a short form; ``make campaign`` has the long one, with seeds not used before."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab.image import Image


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_runs_in_which_something_goes_wrong(image: Image) -> None:
    root = Path(__file__).resolve().parents[2]
    argv = [sys.executable, "-m", "tests.campaign", "--seed", "20", "--cases", "150", "--only", "labs"]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
