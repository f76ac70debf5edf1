"""docs/add-a-vpn.md is true: its two VPNs, copied out of the tree, with the commands that it says."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runner.lab.node import PATIENCE
from runner.lab.software.image import Image

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT = (DOCS / "add-a-vpn.md").read_text()
TOY, REST = DOCUMENT.split("## 6. A VPN with TLS and secrets")
TLS, TROUBLE = REST.split("## 8. My tunnel does not come up")


def test_the_page_adds_a_vpn_in_less_than_sixty_lines(image: Image, tmp_path: Path) -> None:
    toy = plugin("toy", tmp_path)
    assert len(toy.splitlines()) < 60
    given = commands(TOY)
    assert [shlex.split(command)[1] for command in given] == ["lab", "lab", "recipe", "run"]
    said = [follow(command.replace("/tmp/toy", str(tmp_path / "run")), tmp_path) for command in given]

    assert "inet 10.1.0.1/24" in said[0]
    assert "socat version" in said[0]
    (promised,) = re.findall(r"^    (64 bytes from .*?) time=", TOY, re.MULTILINE)
    assert promised in said[1]
    assert "socat TUN,tun-name=toy2" in said[2]
    assert "toy | not encrypted" in (tmp_path / "run" / "report.md").read_text()
    assert_proofs(tmp_path / "run", "toy", TOY)


def test_the_page_adds_a_vpn_with_tls_and_secrets(image: Image, tmp_path: Path) -> None:
    plugin("tlstun", tmp_path)
    given = [command for command in commands(TLS) if " security " not in command]
    assert [shlex.split(command)[1] for command in given] == ["lab", "run"]
    said = [follow(command.replace("/tmp/tlstun", str(tmp_path / "run")), tmp_path) for command in given]

    assert {*re.findall(r"^-rw-------.* (\S+)$", said[0], re.MULTILINE)} == {"ca.crt", "gw1.crt", "gw1.key"}
    assert "1 received" in said[0]
    assert "aes-256-gcm" in said[1]
    assert_proofs(tmp_path / "run", "tlstun", TLS)
    everything = "".join(path.read_text(errors="replace") for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert "TLS_AES_256_GCM_SHA384" in everything
    assert "PRIVATE KEY" not in everything


def test_the_page_finds_why_a_tunnel_does_not_come_up(image: Image, tmp_path: Path) -> None:
    whole = plugin("tlstun", tmp_path)
    before, after = re.findall(r"`(commonname=[^`]+)`", TROUBLE)
    assert whole.count(before) == 1
    (tmp_path / "tlstun.py").write_text(whole.replace(before, after))
    done = call("vpneval lab shell gw1 --vpn ./tlstun.py -c true", tmp_path)
    assert done.returncode == 1
    (promised,) = re.findall(r"^    (vpneval: tlstun did not .*?)\n\n", TROUBLE, re.MULTILINE | re.DOTALL)
    printed = " ".join(done.stderr.split())
    parts = [part.strip() for part in " ".join(promised.split()).split("…")]
    assert len(parts) == 4
    assert not [part for part in parts if part not in printed], printed


def plugin(name: str, folder: Path) -> str:
    """The page's plugin, written into the folder."""
    if not Path("/dev/net/tun").exists():
        pytest.skip("the kernel has no TUN (/dev/net/tun is missing)")
    (file,) = re.findall(rf"^    cp docs/(\S*{name}\.py) \.$", DOCUMENT, re.MULTILINE)
    text = Path(DOCS, file).read_text()
    (folder / f"{name}.py").write_text(text)
    return text


def commands(part: str) -> list[str]:
    return re.findall(r"^    (vpneval .+)$", part, re.MULTILINE)


def assert_proofs(folder: Path, vpn: str, part: str) -> None:
    """Every trial of the VPN has the proof that the page shows, but for the bytes of the capture."""
    trials = [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]
    proofs = [trial["proof"] for trial in trials if trial["vpn"] == vpn and trial["status"] == "ok"]
    assert proofs
    (promised,) = re.findall(r'"proof":\{("confidential_promised".*?"sent_bytes":2048)', part)
    assert all(json.loads("{" + promised + "}").items() <= proof.items() for proof in proofs)


def follow(command: str, folder: Path) -> str:
    """What the command prints. A busy machine's search may end without a number, as the page says: exit code 1."""
    done = call(command, folder)
    assert done.returncode in ((0, 1) if " run " in command else (0,)), f"{command}: {done.stderr[-500:]}"
    return done.stdout


def call(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "runner", *shlex.split(command)[1:]]
    limit_s = 180 * PATIENCE
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, timeout=limit_s, env=environment())


def environment() -> dict[str, str]:
    return {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
