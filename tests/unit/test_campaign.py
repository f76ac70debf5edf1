"""The fault campaign in a short form, without labs; ``make campaign`` has the long one, with seeds not used before."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_cases() -> None:
    root = Path(__file__).resolve().parents[2]
    argv = [sys.executable, "-m", "tests.campaign", "--seed", "20", "--cases", "100", "--only", "commands"]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
