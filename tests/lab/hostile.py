"""A command of vpneval's in a process of its own with a setting of somebody's machine, and what is a right answer."""

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.data.store import load_run
from tests.lab.commands import VPNEVAL
from tests.lab.conftest import interfaces, mounts

PROJECT = Path(__file__).parents[2]
SMALL = ("--profile", "smallest", "--quiet", "--out", "OUT/run")
WITHOUT = 'set -- capsh --drop={} -- -c \'exec "$@"\' bash "$@"'  # these capabilities
RUN = ("run", "reference", "--vpn", "wireguard_go", *SMALL)


@dataclass(frozen=True)
class Situation:
    """``setting``: lines of bash before the command, in a mount namespace that goes with it; there and in ``command``,
    OUT is a folder of the test. ``code`` and ``says``: how the command ends, and words of its sentence."""

    name: str
    setting: str
    code: int = 0
    says: str = ""
    command: tuple[str, ...] = RUN
    smoke: bool = False


def hostile(one: Situation, folder: Path, *, cwd: Path = PROJECT) -> subprocess.CompletedProcess[str]:
    """The situation's command, ended."""
    lines = one.setting.replace("OUT", f"{folder}") + '\nexec "$@"'
    command = [word.replace("OUT", f"{folder}") for word in (*VPNEVAL, *one.command)]
    return subprocess.run(
        ["unshare", "--mount", "bash", "-euc", lines, "bash", *command],
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=240,
    )


def judge(one: Situation, done: subprocess.CompletedProcess[str], folder: Path) -> None:
    """Is it one of the right answers?"""
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert done.returncode == one.code, said
    out = folder / "run"
    trials = load_run(out)[1] if (out / "run.json").exists() else []
    assert not [trial for trial in trials if trial.status == "failed"], "a VPN is blamed"
    if one.code == 0 and one.command[0] == "run":
        assert {trial.vpn for trial in trials if trial.status == "ok"} == {"none", one.command[3]}
    if one.code:
        assert said.count("vpneval: ") == 1, said
        assert one.says.replace("OUT", f"{folder}") in said
        assert not trials


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    before = mounts(), interfaces()
    yield
    assert (mounts(), interfaces()) == before


def parameters(situations: list[Situation]) -> list[object]:
    return [pytest.param(one, id=one.name, marks=[pytest.mark.smoke] if one.smoke else []) for one in situations]
