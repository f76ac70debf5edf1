"""docs/add-a-vpn.md is true: its toy, word for word, outside the tree, with the commands that it says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab.image import Image
from runner.lab.node import PATIENCE

DOCUMENT = (Path(__file__).parent.parent.parent / "docs" / "add-a-vpn.md").read_text()


def test_the_page_adds_a_vpn_in_less_than_sixty_lines(image: Image, tmp_path: Path) -> None:
    if not Path("/dev/net/tun").exists():
        pytest.skip("the kernel has no TUN (/dev/net/tun is missing)")
    (toy,) = re.findall(r"^`toy.py`, whole:\n\n```python\n(.*?)^```", DOCUMENT, re.DOTALL | re.MULTILINE)
    assert len(toy.splitlines()) < 60
    (tmp_path / "toy.py").write_text(toy)

    commands = re.findall(r"^    (vpneval .+)$", DOCUMENT, re.MULTILINE)
    assert [shlex.split(command)[1] for command in commands] == ["lab", "lab", "recipe", "run"]
    said = [follow(command.replace("/tmp/toy", str(tmp_path / "run")), tmp_path) for command in commands]

    assert "inet 10.1.0.1/24" in said[0]
    assert "socat version" in said[0]
    (promised,) = re.findall(r"^    (64 bytes from .*?) time=", DOCUMENT, re.MULTILINE)
    assert promised in said[1]
    assert "socat TUN,tun-name=toy2" in said[2]
    assert "not encrypted" in said[3]
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    proofs = [trial["proof"] for trial in trials if trial["vpn"] == "toy" and trial["status"] == "ok"]
    assert proofs
    (promised,) = re.findall(r'"proof":\{("confidential_promised".*?"sent_bytes":2048)', DOCUMENT)
    assert all(json.loads("{" + promised + "}").items() <= proof.items() for proof in proofs)


def follow(command: str, folder: Path) -> str:
    """What the command prints. A busy machine's search may end without a number, as the page says: exit code 1."""
    argv = [sys.executable, "-m", "runner", *shlex.split(command)[1:]]
    limit_s = 180 * PATIENCE
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=limit_s, env=environment())
    assert done.returncode in ((0, 1) if " run " in command else (0,)), f"{command}: {done.stderr[-500:]}"
    return done.stdout


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
