"""What the second chance calls green, by small suites of its own that pytest really runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PASSES = "def test_passes(): pass\n"
# Fails in the first pass: the file is made then.
ONCE = """
from pathlib import Path
def test_once():
    done = Path(__file__).with_suffix(".done")
    again = done.exists()
    done.touch()
    assert again, "the daemon was late"
"""
TWICE = 'def test_twice(): assert False, "the daemon never came"\n'
SKIPS_THEN = ONCE.replace(
    "    assert again", "    import pytest\n    pytest.skip('no') if again else None\n    assert again"
)
CRASHES_THEN = ONCE.replace("    assert again", "    import os\n    os._exit(9) if again else None\n    assert again")
TEAR_DOWN = (
    "import pytest\n@pytest.fixture\ndef left():\n    yield\n    assert False, 'left over'\ndef test_left(left): pass\n"
)


def run(folder: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    argv = [sys.executable, "-m", "tests.tools.second_chance", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    path = f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [*argv, "-c", "/dev/null", *options, str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_green_without_a_failure(tmp_path: Path) -> None:
    done = run(tmp_path, {"unit/test_a.py": PASSES, "lab/test_b.py": PASSES})
    assert done.returncode == 0, done.stdout
    assert not (tmp_path / "unsteady.json").exists()


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_fails_once_is_green_and_told(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, {"lab/test_b.py": ONCE, "unit/test_a.py": PASSES}, "-n", workers)
    assert done.returncode == 0, done.stdout
    (test,) = json.loads((tmp_path / "unsteady.json").read_text())["tests"]
    assert test["test"] == "lab/test_b.py::test_once"
    assert "the daemon was late" in test["message"]
    assert test["test"] in done.stdout.splitlines()[-4], "the run ends with the list"


@pytest.mark.parametrize(
    "again", [TWICE, SKIPS_THEN, CRASHES_THEN, TEAR_DOWN], ids=["fails", "skips", "crashes", "tear-down"]
)
def test_what_does_not_pass_then_is_red(tmp_path: Path, again: str) -> None:
    done = run(tmp_path, {"kernel/test_b.py": again})
    assert done.returncode != 0
    assert "did not pass the second time" in done.stdout
    assert not (tmp_path / "unsteady.json").exists()


@pytest.mark.parametrize(
    "files",
    [
        {"unit/test_a.py": ONCE},
        {"unit/test_a.py": ONCE, "lab/test_b.py": ONCE},
        {f"lab/test_{number}.py": ONCE for number in range(11)},
    ],
    ids=["unit", "unit beside lab", "eleven"],
)
def test_no_second_chance(tmp_path: Path, files: dict[str, str]) -> None:
    done = run(tmp_path, files)
    assert done.returncode == 1
    assert "No second chance" in done.stdout


def test_other_ends_of_pytest_are_its_exit_codes(tmp_path: Path) -> None:
    assert run(tmp_path / "..", {}, "--no-such-option").returncode == 4
    assert run(tmp_path, {"lab/test_b.py": "import nothing_of_that_name\n"}).returncode == 2
