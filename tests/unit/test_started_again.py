"""What this program starts is never what a folder of the current directory has under its name."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.own_program import again, own_python

ROOT = Path(__file__).parents[2]
PATH_KEPT_OUT = ("-P", "-I", "-IS", "-SI")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder with modules of the names that Python looks for; each leaves a file ``ran``."""
    for name in ("runner/__main__.py", "runner/__init__.py", "vpns/__init__.py", "typer.py", "pydantic.py", "json.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'open({str(tmp_path / "ran")!r}, "w")\n')
    return tmp_path


def tried(argv: list[str], folder: Path) -> bool:
    """Has something of the folder run?"""
    environment = {name: value for name, value in os.environ.items() if name not in ("VPNEVAL_PATIENCE", "PYTHONPATH")}
    subprocess.run(argv, cwd=folder, env=environment, capture_output=True, timeout=120, check=False)
    return (folder / "ran").exists()


def test_a_folder_of_that_name_in_the_current_directory_does_not_run(hostile: Path) -> None:
    assert not tried(again("--version"), hostile)
    assert not tried(own_python("json.tool", "--help"), hostile)
    command = "from runner.__main__ import main; main()"
    argv = [sys.executable, "-P", "-c", command]
    assert not tried([*argv, "doctor", "--lab", "vagrant"], hostile), "it starts itself again with a lab's patience"
    assert tried([sys.executable, "-m", "runner", "--version"], hostile), "the control"


def starts(code: str) -> Iterator[int]:
    """The lines that start this Python with ``-m`` or ``-c`` and the current directory in its path."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"python3 -[mc]\b", node.value):
            yield node.lineno
        if not isinstance(node, ast.List | ast.Tuple | ast.Call):
            continue
        words = node.args if isinstance(node, ast.Call) else node.elts
        said = [word.value if isinstance(word, ast.Constant) else ast.unparse(word) for word in words]
        for at, word in enumerate(said[:-1]):
            python = word == "sys.executable" or (isinstance(word, str) and word.startswith("python3"))
            if python and said[at + 1] not in PATH_KEPT_OUT and set(said[at + 1 :]) & {"-m", "-c"}:
                yield node.lineno


def test_no_code_starts_a_python_that_reads_the_current_directory() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("runner", "vpns", "experiments")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in starts(path.read_text())
    ]
    assert not found, "\n".join(["Take own_program.again(), or -P, or -IS on a node:", *found])


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ('run([sys.executable, "-m", "runner"])', True),
        ('run([*before, sys.executable, "-X", "utf8", "-m", "runner"])', True),
        ('node.run("python3", "-c", PROGRAM)', True),
        ('node.run("python3", "-IS", "-c", PROGRAM)', False),
        ("SCRIPT = 'version=$(python3 -c 1)'", True),
        ('run((sys.executable, "-P", "-m", "runner"))', False),
        ('run([sys.executable, "-IS", FILE])', False),
    ],
)
def test_each_such_start_is_found(code: str, wrong: bool) -> None:
    assert bool(list(starts(code))) == wrong
