"""User Mode Linux on a CPU with AMX: what is needed, made and said there, and that nothing is elsewhere."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from socket import socket

import pytest

from runner.data.errors import CannotRunHere
from runner.lab import kernels
from runner.lab.kernels import uml, xstate
from runner.lab.kernels.boot import Attempt, Guest
from runner.stages import examination
from runner.stages.examination import guest_kernels

COMPILES = '#!/bin/sh\n[ "$4" = -o ] && cat "$6" > "$5" && chmod 755 "$5"\n'
FAILS = '#!/bin/sh\necho half > "$5"\necho "no room" >&2\nexit 1\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Empty, on a machine that has User Mode Linux and no C compiler."""
    modules = tmp_path / "modules"
    (modules / "6.1.176").mkdir(parents=True)
    monkeypatch.setattr(uml, "MODULES", modules)
    monkeypatch.setattr(uml, "getting", lambda packages: [f"apt-get install {' '.join(packages)}"] if packages else [])
    # A guest that is started is this machine's own, whose CPU has AMX or not.
    monkeypatch.setattr(examination, "run_in", lambda guest, argv: guest.prepare(print))
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "cache"))
    has(monkeypatch)
    return tmp_path / "cache" / "kernels"


def has(monkeypatch: pytest.MonkeyPatch, **more: Path) -> None:
    tools = {"linux.uml": "/usr/bin/linux.uml", "modprobe": "/sbin/modprobe", **more}
    monkeypatch.setattr(shutil, "which", lambda tool: str(tools[tool]) if tool in tools else None)


def cpu(flags: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = folder / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: fpu avx2 {flags}\n\nprocessor\t: 1\nflags\t\t: fpu avx2 {flags}\n")
    monkeypatch.setattr(xstate, "CPUINFO", cpuinfo)


@pytest.fixture
def amx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpu("amx_bf16 amx_tile amx_int8", tmp_path, monkeypatch)


def compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, name: str = "tcc") -> None:
    tool = folder / name
    tool.write_text(script)
    tool.chmod(0o755)
    has(monkeypatch, **{name: tool})


def first_attempt() -> Attempt:
    with closing(kernels.Uml().attempts(7, [])) as attempts:
        return next(attempts)


def doctors_line() -> tuple[str, str]:
    (check,) = [check for check in guest_kernels() if check.what == "guest kernel uml"]
    return check.level, check.says


def test_without_amx_nothing_is_made_preloaded_or_needed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpu("avx512f", tmp_path, monkeypatch)
    kernels.Uml().prepare(print)
    attempt = first_attempt()
    assert attempt.argv[:4] == ["taskset", "--cpu-list", attempt.argv[2], "linux.uml"]
    assert not attempt.panics
    assert kernels.Uml().missing_packages() == []
    level, says = doctors_line()
    assert level == "ok"
    assert says.startswith("/usr/bin/linux.uml, Linux 6.1.176; it started and ended in ")
    assert not cache.exists()


def test_with_amx_what_completes_it_reaches_it_alone(
    amx: None, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, COMPILES)
    kernels.Uml().prepare(print)
    (library,) = cache.iterdir()
    assert library.read_bytes() == xstate.SOURCE.read_bytes()
    assert library.stat().st_mode & 0o777 == 0o644
    attempt = first_attempt()
    assert attempt.argv[3:6] == ["env", f"LD_PRELOAD={library}", "linux.uml"]
    assert not attempt.environment, "setpriv, unshare, sh and taskset have it as it was"
    assert attempt.panics
    level, says = doctors_line()
    assert (level, "this CPU has AMX" in says) == ("ok", True)


@pytest.mark.parametrize("name", ["tcc", "gcc", "cc"])
def test_any_c_compiler_will_do(name: str, amx: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.Uml().missing_packages() == ["tcc"]
    compiler(tmp_path, monkeypatch, COMPILES, name)
    assert kernels.Uml().missing_packages() == []


def test_without_a_compiler_the_reason_is_said_in_words(amx: None) -> None:
    said = (
        "User Mode Linux needs what this machine lacks (this CPU has AMX, which User Mode Linux does not know: vpneval "
        "compiles what completes it); get it with: apt-get install tcc"
    )
    with pytest.raises(CannotRunHere) as raised:
        kernels.Uml().prepare(print)
    assert str(raised.value) == said
    assert doctors_line() == ("warning", said)


def test_a_compiler_that_fails_leaves_nothing(
    amx: None, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler(tmp_path, monkeypatch, FAILS)
    with pytest.raises(CannotRunHere, match="failed: no room"):
        kernels.Uml().prepare(print)
    assert not list(cache.iterdir())


@pytest.mark.parametrize(
    ("said", "first", "last"),
    [
        (["booting", "Kernel panic - not syncing: no init", *["trace"] * 400, "its end"], "Kernel panic - ", "its end"),
        (["first", *["more"] * 400, "no such kernel"], "more\n", "no such kernel"),
        ([], "it says nothing", "it says nothing"),
    ],
)
def test_last_words_have_the_reason(said: Sequence[str], first: str, last: str) -> None:
    with tempfile.TemporaryFile() as console, socket() as channel, subprocess.Popen(["true"]) as process:
        console.write(b"Kernel panic of another start\n")
        guest = Guest(process, channel, console, begins=console.tell())
        console.write("\n".join(said).encode())
        console.flush()
        words = guest.last_words()
        assert guest.has_panicked() is first.startswith("Kernel panic")
    assert words.startswith(first)
    assert words.endswith(last)


@pytest.mark.parametrize("folder", ["a b", "a:b"])
def test_a_cache_that_cannot_be_preloaded_from_is_named(
    amx: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    compiler(tmp_path, monkeypatch, COMPILES)
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / folder))
    with pytest.raises(CannotRunHere, match=f"{folder}.*LD_PRELOAD.*VPNEVAL_CACHE"):
        kernels.Uml().prepare(print)
