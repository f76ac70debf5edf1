"""The probes run on other people's machines, with the Python that is there: mypy knows what each version lacks."""

import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab import probes
from runner.lab.places.connection import OLDEST_PYTHON


def complaints(*files: Path) -> str:
    version = ".".join(map(str, OLDEST_PYTHON))
    argv = ["mypy", "--python-version", version, "--no-incremental", "--follow-imports=silent", *map(str, files)]
    return subprocess.run([sys.executable, "-m", *argv], capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_the_oldest_python_that_is_promised_has_what_the_probes_use(tmp_path: Path) -> None:
    newer = tmp_path / "newer.py"
    newer.write_text("import tomllib\n")
    assert "tomllib" in complaints(newer), "it would be seen"
    assert "Success" in complaints(*(path for path in Path(probes.__file__).parent.glob("*.py")))
