"""What is printed, and where it cannot be: full devices, readers that leave, poor encodings, plugins that print."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TextIO

import pytest

from runner.cli import listing
from runner.cli.main import main
from runner.cli.shell import exit_code
from runner.data.store import open_store
from runner.data.streams import shown
from tests.unit.test_store import RUN, trial

CapSys = pytest.CaptureFixture[str]
MINE = "from vpns.openvpn import OpenVpn\n\n\nclass Mine(OpenVpn):\n    title = 'mine'\n"


def code_of(*argv: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(list(argv))
    return int(exit_.value.code or 0)


def full() -> TextIO:
    return open("/dev/full", "w")


def nobody_reads() -> TextIO:
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w")


@pytest.fixture
def runs(tmp_path: Path) -> tuple[str, str]:
    for name in ("a", "b"):
        with open_store(tmp_path / name) as store:
            store.save_run(RUN)
            store.append(trial("t"))
    return str(tmp_path / "a"), str(tmp_path / "b")


COMMANDS = [
    *(("list",), ("list", "--json"), ("--version",), ("--help",), ("plan", "reference"), ("recipe", "none")),
    *(("report", "a"), ("report", "a", "--format", "md"), ("compare", "a", "b"), ("compare", "a", "b", "--json")),
    *(("history", "a"), ("report", "a", "--write")),
]


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_standard_output_on_a_full_device(
    argv: tuple[str, ...], runs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", full())
    assert code_of(*argv) == 4
    assert capsys.readouterr().err == "vpneval: standard output cannot be written: No space left on device\n"
    sys.stdout.close()  # what is lost is not tried again


@pytest.mark.parametrize("argv", COMMANDS, ids=" ".join)
def test_a_reader_that_has_had_enough_is_no_regression(
    argv: tuple[str, ...], runs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", nobody_reads())
    assert code_of(*argv) == 141
    assert capsys.readouterr().err == ""
    sys.stdout.close()


@pytest.mark.parametrize("broken", [full, nobody_reads, lambda: None])
def test_standard_error_that_cannot_be_written_changes_nothing(
    broken: object, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.setattr(sys, "stderr", broken())  # type: ignore[operator]
    assert code_of("list", "nothing") == 2
    assert code_of("frobnicate") == 2
    assert code_of("plan", "reference", "--json") == 0
    assert json.loads(capsys.readouterr().out)


def test_an_encoding_that_lacks_a_character(
    runs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for argv in COMMANDS:
        stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
        monkeypatch.setattr(sys, "stdout", stdout)
        assert code_of(*argv) == 0


def test_what_a_plugin_prints_is_not_in_the_json(tmp_path: Path, capsys: CapSys) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("print('\\x1b[2Jhello')\n" + MINE)
    assert code_of("plan", "reference", "--vpn", str(mine), "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == "\\u001b[2Jhello\n"


def test_control_characters_are_shown_as_text(tmp_path: Path, capsys: CapSys) -> None:
    hostile = "\x1b]0;owned\x07\x9b31m\r\x08\u202e"
    for name in ("a", "b"):
        with open_store(tmp_path / name) as store:
            store.save_run(RUN.model_copy(update={"run_id": hostile, "profile_note": hostile}))
            failed = trial("t", hostile).model_copy(update={"status": "failed", "warnings": [hostile]})
            store.append(failed)
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    for form in ("term", "md", "json", "csv", "latex", "html", "findings"):
        code_of("report", a, "--format", form)
    for form in ("term", "json", "html"):
        code_of("compare", a, b, "--format", form)
    code_of("history", a)
    code_of("report", str(tmp_path / hostile))
    out, err = capsys.readouterr()
    assert not set("\x1b\x07\x9b\x08\u202e") & set(out + err)
    assert "\\u001b]0;owned\\u0007" in out
    assert "\\u001b]0;owned" in err


def test_shown() -> None:
    assert shown("a\tb\r\nc\n") == "a\tb\r\nc\n"
    assert shown("a\rb\x00\udcff") == "a\\u000db\\u0000\\udcff"


@pytest.mark.parametrize("columns", ["0", "1", "99999999", "-5", "x", "²"])
def test_a_width_in_which_nothing_can_be_shown_is_forgotten(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert code_of("list", "vpnns") == 2
    assert "unknown listing 'vpnns'; did you mean vpns" in capsys.readouterr().err


def test_a_working_directory_that_was_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for argv in (("report", "x", "y"), ("run", "transport"), ("list",)):
        assert code_of(*argv) == 2
        assert "the working directory cannot be used: No such file or directory; change to" in capsys.readouterr().err


def test_a_signal_ends_a_shell_with_128_and_its_number() -> None:
    assert [exit_code(returned) for returned in (0, 3, -9, -15)] == [0, 3, 137, 143]


def test_ctrl_c_of_which_a_module_makes_another_error(monkeypatch: pytest.MonkeyPatch, capsys: CapSys) -> None:
    def load(**_: object) -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    monkeypatch.setattr(listing, "tables", load)
    before = signal.getsignal(signal.SIGINT)
    assert code_of("list") == 130
    assert capsys.readouterr().err == "vpneval was interrupted. What was measured is safe.\n"
    assert signal.getsignal(signal.SIGINT) is before


INTERRUPTED = """
import os, signal, sys

class AtTyper:
    def find_spec(self, name, path, target=None):
        if name == "typer":
            try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass  # as some modules do while they are loaded

sys.meta_path.insert(0, AtTyper())
signal.signal(signal.SIGINT, signal.default_int_handler)
from runner.__main__ import main
sys.argv = ["vpneval", "list"]
main()
"""


def test_ctrl_c_while_the_modules_are_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "vpneval: interrupted before anything began\n"
