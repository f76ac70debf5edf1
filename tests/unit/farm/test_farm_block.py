"""What leaves a machine of a farm: a block's run folder, and what a block that broke has said."""

import json
import secrets
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.farm import block
from runner.farm.block import BlockError, unpack
from runner.lab.redaction import is_public
from runner.lab.shape.site_to_site import SITES
from runner.vpn.recipe import NotedNode

BROKEN = """
import json, sys
from runner.cli.main import main
from runner.lab.redaction import KNOWN
from runner.stages import farm

def broken(path, watch):
    KNOWN.learn(made)
    raise RuntimeError(" ".join(f"{name}={text}" for name, text in made.items()))

made, farm.measure_block = json.loads(sys.argv[1]), broken
main(["block", "x"])
"""


def test_what_a_broken_block_says_has_no_secret_of_any_vpn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an error that nobody has foreseen has them in its words."""
    names = [f"{vpn}/{name}" for vpn in vpn_names() for name in load_vpn(vpn).secrets(NotedNode("ca"), SITES)]
    made = {name: secrets.token_hex(16) for name in names if not is_public(name, "")}
    assert len({name.split("/")[0] for name in made}) > 10
    real: Any = subprocess.Popen

    def start(argv: list[str], **options: Any) -> Any:
        return real([*argv[: argv.index("-m")], "-c", BROKEN, json.dumps(made)], **options)

    monkeypatch.setenv("VPNEVAL_SPOOL", str(tmp_path))
    monkeypatch.setattr(block, "SAID", 1_000_000)
    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(BlockError, match="vpneval ended with exit code 1") as broken:
        block.play("key", 1, {}, 60.0)
    said = str(broken.value)
    assert "RuntimeError" in said
    assert not [name for name in made if f"{name}=<{name}>" not in said], said[-3000:]
    assert not [name for name, text in made.items() if text in said]
    assert not list((tmp_path / "key").iterdir())


def test_of_a_block_only_the_run_folder_leaves(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "logs" / "t1").mkdir(parents=True)
    for name in ("run.json", "trials.jsonl", "slices.jsonl", "logs/t1/commands.log", "gw1.key", ".lock"):
        (folder / name).write_text(name)
    (folder / "logs" / "t1" / "passwd").symlink_to("/etc/passwd")  # a VPN's daemon may make one
    found = unpack(block.pack(block._files_of(folder)))
    assert sorted(found) == ["logs/t1/commands.log", "run.json", "slices.jsonl", "trials.jsonl"]
