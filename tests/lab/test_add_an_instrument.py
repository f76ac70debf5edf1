"""docs/add-an-instrument.md is true: its instrument and experiment, copied, with the commands that it says."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from runner.data.store import load_run, read_slices
from runner.lab.node import PATIENCE
from runner.lab.software.image import Image

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "add-an-instrument.md").read_text()


def test_the_page_adds_an_instrument_and_an_experiment(image: Image, tmp_path: Path) -> None:
    for file in re.findall(r"^    cp (\S+) \.$", DOCUMENT, re.MULTILINE):
        shutil.copy(ROOT / file, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {"connect.py", "connecting.py"}
    commands = re.findall(r"^    (vpneval .+)$", DOCUMENT, re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["plan", "run", "report"]

    planned = follow(commands[0], tmp_path)
    assert "at_once 1" in planned
    assert "at_once 8" in planned

    done = follow(commands[1], tmp_path)
    assert "connect · at_once 1: Connection time" in done
    assert "connect · at_once 8: Connection time" in done
    run, trials = load_run(tmp_path / "run")
    assert run.metrics["connect_time"].unit == "ms"
    assert run.metrics["connect_time"].measure == "connect"
    assert len(trials) == 6
    assert {(trial.vpn, trial.params["at_once"]) for trial in trials} == {
        (vpn, at_once) for vpn in ("none", "openvpn", "wireguard_go") for at_once in ("1", "8")
    }
    slices = read_slices(tmp_path / "run")
    for trial in trials:
        assert trial.status == "ok", trial.reason
        (found,) = trial.measurements
        assert found.metric == "connect_time"
        assert 0 < found.value < 5000
        rows = slices[trial.id]
        assert [row.number for row in rows] == list(range(1, len(rows) + 1))
        assert len(found.samples) == sum(row.values["connections"] for row in rows) == 32 * len(rows)

    said = follow(commands[2], tmp_path)
    assert "Connection time: at_once 8, and its ratio to at_once 1" in said
    assert "not ranked" not in said, "two VPNs are ranked by the new metric"
    for vpn in ("openvpn", "wireguard_go"):
        assert re.search(rf"^ *[12](–2)? +{vpn} .*\d", said, re.MULTILINE), said


def follow(command: str, folder: Path) -> str:
    """What the command prints, its progress included."""
    argv = [sys.executable, "-m", "runner", *shlex.split(command.replace("/tmp/connecting", "run"))[1:]]
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    limit_s = 180 * PATIENCE
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=limit_s, env=environment)
    assert done.returncode == 0, f"{command}: {done.stderr[-500:]}"
    return done.stdout + done.stderr
