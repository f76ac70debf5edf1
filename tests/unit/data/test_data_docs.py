"""The lines of docs/data.md that load a run, run as they stand there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from runner.report.forms.write import write_reports
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

DOCS = Path(__file__).resolve().parents[3] / "docs" / "data.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), flags=re.S)
# What each block's result must be, in Python, beside what it is called there.
CHECKS = {
    "json": "assert len(trials) == TRIALS and trials[0]['measurements'] is not None",
    "pandas": "assert len(trials) == TRIALS and set(trials['status']) >= {'ok', 'failed', 'unsupported'}",
    "duckdb": "assert ('openvpn', 'rtt') in [row[:2] for row in best] and all(row[2] > 0 for row in best)",
}


def test_every_block_is_checked() -> None:
    assert [next(name for name in CHECKS if f"import {name}" in block) for block in BLOCKS] == list(CHECKS)
    assert all(len([line for line in block.splitlines() if line]) == 2 for block in BLOCKS)


@pytest.mark.parametrize("library", CHECKS)
def test_two_lines_load_a_run(library: str, tmp_path: Path) -> None:
    pytest.importorskip(library)
    run, trials = realistic_run(2)
    folder = tmp_path / "results" / "RUN"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(run.model_dump_json())
    (folder / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in trials))
    write_reports(folder, build(run, trials))
    block = next(block for block in BLOCKS if f"import {library}" in block)
    program = block + "\n" + CHECKS[library].replace("TRIALS", str(len(trials)))
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert ended.returncode == 0, ended.stderr
