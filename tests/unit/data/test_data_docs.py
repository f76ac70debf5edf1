"""The lines of docs/data.md that load a run, run as they stand there."""

import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.catalogue import load_run
from runner.ranking.basis import bases
from runner.report.forms.write import write_reports
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

DOCS = Path(__file__).resolve().parents[3] / "docs" / "data.md"
TEXT = DOCS.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
# What each block's result must be, in Python, beside what it is called there.
CHECKS = {
    "json": "assert len(trials) == TRIALS and trials[0]['measurements'] is not None",
    "pandas": "assert len(trials) == TRIALS and set(trials['status']) >= {'ok', 'failed', 'unsupported'}",
    "duckdb": "assert ('openvpn', 'rtt') in [row[:2] for row in best] and all(row[2] > 0 for row in best)",
}


PAIRS = dict(re.findall(r"```(python|r)\n(.*?)```", TEXT, flags=re.S))  # the last ones
RUNS_OF_PAIRS = {"python": [sys.executable, "-c"], "r": ["Rscript", "-e"]}
RESULTS = DOCS.parents[1] / "results"
# One tunnel of many ciphers, several tunnels, and one in which single slices failed.
RUNS = {
    "examples/two-cores-quick": ("openvpn", "wireguard_go"),
    "choice/two-cores": ("openvpn", "wireguard_go"),
    "papers/thesis": ("openvpn", "ssh_tun"),
}


def test_every_block_is_checked() -> None:
    assert [next(name for name in CHECKS if f"import {name}" in block) for block in BLOCKS[:-1]] == list(CHECKS)
    assert all(len([line for line in block.splitlines() if line]) == 2 for block in BLOCKS[:-1])
    assert len([line for line in PAIRS["python"].splitlines() if line]) <= 10


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("language", PAIRS)
def test_rounds_are_paired(language: str, name: str) -> None:
    """The ratio is that of the report, and its interval lies in the report's, but for chance."""
    if language == "python":
        pytest.importorskip("pandas")
    elif not shutil.which("Rscript"):
        pytest.skip("needs R with jsonlite")
    first, second = RUNS[name]
    tells = {"python": "print(ratio, low, high)", "r": "cat(ratio)"}[language]
    block = PAIRS[language].replace("results/RUN", str(RESULTS / name)).replace("wireguard_go", second)
    ended = subprocess.run([*RUNS_OF_PAIRS[language], f"{block}\n{tells}"], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 0, ended.stderr
    ratio, low, high = (math.log(float(number)) for number in ended.stdout.split())
    found = (basis.pairs("tcp_throughput") for basis in bases(*load_run(RESULTS / name)))
    estimates = next(pairs for pairs in found if {(first, second), (second, first)} & pairs.keys())
    own = estimates.get((first, second)) or estimates[second, first]
    sign = 1 if (first, second) in estimates else -1
    assert low < ratio < high
    assert ratio == pytest.approx(sign * own.centre, abs=0.01)
    least, most = sorted(sign * end for end in own.interval())
    assert low == pytest.approx(max(least, low), abs=0.02)
    assert high == pytest.approx(min(most, high), abs=0.02)


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
