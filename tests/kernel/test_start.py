"""Does the guest kernel start, and what is said where it does not; with a CPU that has AMX, or one that pretends to."""

import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest

from runner.data.errors import LabError
from runner.lab import kernels
from runner.lab.kernels import boot, uml, xstate
from runner.lab.kernels.boot import Attempt, DoesNotStart, run_in

HERE = Path(__file__).parent
HOLDS = [sys.executable, "-IS", str(HERE / "ymm_inside.py")]
# Two processes of one CPU, with values of their own.
BOTH_HOLD = ["sh", "-c", '"$@" 17 & "$@" 200; mine=$?; wait $! && exit $mine', "sh", *HOLDS]


@pytest.mark.smoke
def test_the_guest_starts(first_boot: str) -> None:
    """All other tests with a guest skip where it does not."""
    assert not first_boot, first_boot


class Preloaded(kernels.Uml):
    """User Mode Linux with these libraries."""

    def __init__(self, *libraries: Path) -> None:
        self.libraries = libraries

    def libraries_to_preload(self) -> list[Path]:
        return list(self.libraries)


@pytest.fixture(scope="module")
def pretend(uml: kernels.Uml, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ptrace(2) as on a CPU with AMX."""
    if xstate.compiler() is None:
        pytest.skip("no C compiler")
    return xstate.compile_library(HERE / "pretend.c", tmp_path_factory.mktemp("pretend"))


@pytest.fixture(scope="module")
def avx(uml: kernels.Uml) -> None:
    if "avx" not in xstate.CPUINFO.read_text().split():
        pytest.skip("this CPU has no AVX")


@pytest.mark.parametrize("amx", [pytest.param(True, marks=pytest.mark.smoke), False])
def test_without_its_completion_it_panics_and_that_is_said_at_once(
    pretend: Path, amx: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(xstate, "has_amx", lambda: amx)
    began = time.monotonic()
    with pytest.raises(DoesNotStart) as raised:
        run_in(Preloaded(pretend), ["true"], console_log=tmp_path / "console")
    assert time.monotonic() - began < 30, "not its deadline of 60 s, nor a second start"
    console = (tmp_path / "console").read_text()
    assert "put_fp_registers" in console
    assert console.count(boot.PANIC) == 1
    said = str(raised.value)
    if amx:
        assert said == (
            f"the guest kernel uml does not start on this machine: {uml.AMX}, and what vpneval adds to it does not help"
        )
    else:
        assert "uml: its kernel panicked after" in said
        assert "Attempted to kill init!" in said, "the reason"
        assert "put_fp_registers" in said, "and the trace"


@pytest.mark.smoke
def test_with_its_completion_it_starts_and_registers_survive(
    pretend: Path, avx: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    completed = xstate.compile_library(xstate.SOURCE, tmp_path)
    assert run_in(Preloaded(completed, pretend), BOTH_HOLD) == 0, capfd.readouterr().err


def test_a_completion_that_loses_half_a_register_is_seen(
    pretend: Path, avx: None, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The control of the test above: the upper half of ymm15 is at byte 816."""
    source = tmp_path / "loses.c"
    kept = "area[XSTATE_BV] &= KEPT;"
    assert kept in xstate.SOURCE.read_text()
    source.write_text(xstate.SOURCE.read_text().replace(kept, f"{kept} area[816 / 8] = area[824 / 8] = 0;"))
    assert run_in(Preloaded(xstate.compile_library(source, tmp_path), pretend), BOTH_HOLD) == 1
    assert f"{'11' * 32} has become {'11' * 16}{'00' * 16}" in capfd.readouterr().err


class Panics(kernels.Uml):
    """Says so and stays, as User Mode Linux does; then there would be another start."""

    def attempts(self, fd: int, folders: Sequence[Path]) -> Generator[Attempt, None, None]:
        says = "echo 'Kernel panic - not syncing: no reason'; seq 300; sleep 60"
        for _ in range(2):
            yield Attempt("panics", ["sh", "-c", says], 60, 1)


@pytest.mark.smoke
def test_a_panic_is_noticed_and_not_tried_again(uml: kernels.Uml) -> None:
    said: list[str] = []
    began = time.monotonic()
    with pytest.raises(DoesNotStart, match="Kernel panic - not syncing: no reason\n1\n2\n"):
        run_in(Panics(), ["true"], say=said.append)
    assert time.monotonic() - began < 10, "within 2 s on a quiet machine"
    assert len(said) == 1


@pytest.mark.smoke
def test_a_guest_that_panics_at_work_is_noticed(uml: kernels.Uml) -> None:
    began = time.monotonic()
    with pytest.raises(LabError, match="ended before the command did: Kernel panic - not syncing: sysrq"):
        run_in(uml, ["sh", "-c", "echo c > /proc/sysrq-trigger; sleep 60"])
    assert time.monotonic() - began < 30
