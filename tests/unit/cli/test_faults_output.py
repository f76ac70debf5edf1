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
from rich.live import Live

from runner.cli.commands.lab.work import exit_code
from runner.cli.commands.list import work as listing
from runner.cli.main import main
from runner.cli.output import Output
from runner.data import streams
from runner.data.store import open_store
from runner.data.streams import CONTROL, ERRORS, OUTPUT, output_to, visible_text
from runner.data.trials import Invocation
from runner.lab import redaction
from runner.lab.places import rootless
from runner.lab.redaction import Redaction
from runner.sweep import run as session
from runner.sweep.settings import Outcome
from tests.unit.data.test_store import RUN, trial
from tests.unit.synthetic import realistic_run

BEGUN = "vpneval reads the plugins and checks the command line.\n"
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
            store.append(trial(f"of-{name}"))
    run, trials = realistic_run()
    call = Invocation(command_line=["vpneval"], started_at="2026-01-01", ended_at="2026-01-02")
    with open_store(tmp_path / "c") as store:
        store.save_run(run.model_copy(update={"invocations": [call]}))
        for one in trials:
            store.append(one)
    return str(tmp_path / "a"), str(tmp_path / "b")


@pytest.fixture(autouse=True)
def no_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of `run` but its measuring: the run folder is there already. tests/lab and the campaign measure."""
    monkeypatch.setattr(session, "run", lambda *_: Outcome())
    monkeypatch.setattr(rootless, "enter", lambda lab: None)


COMMANDS = [
    *(("list",), ("list", "--json"), ("--version",), ("--help",), ("plan", "reference"), ("recipe", "none")),
    *(("report", "a"), ("report", "a", "--format", "md"), ("compare", "a", "b"), ("compare", "a", "b", "--json")),
    *(("history", "a"), ("report", "a", "--write"), ("watch", "c"), ("why", "openvpn", "wireguard_go", "c")),
    *(("run", "transport", "--out", "c", "--quiet", "--json"), ("--no-color", "report", "c")),
]
# One for each way of printing: a table, a report, a document, JSON.
WAYS = [("list",), ("report", "c"), ("report", "a", "--format", "md"), ("compare", "a", "b", "--json")]
LOUD = [  # these say on standard error that they begin
    *(("run", "transport", "--out", "c"), ("run", "transport", "--out", "c", "--json")),
]


@pytest.mark.parametrize("argv", COMMANDS + LOUD, ids=" ".join)
def test_standard_output_on_a_full_device(
    argv: tuple[str, ...], runs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", full())
    assert code_of(*argv) == 4
    said = BEGUN if argv in LOUD else ""
    assert capsys.readouterr().err == f"{said}vpneval: standard output cannot be written: No space left on device\n"
    sys.stdout.close()  # what is lost is not tried again


@pytest.mark.parametrize("argv", COMMANDS + LOUD, ids=" ".join)
def test_a_reader_that_has_had_enough_is_no_regression(
    argv: tuple[str, ...], runs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdout", nobody_reads())
    assert code_of(*argv) == 141
    assert capsys.readouterr().err == (BEGUN if argv in LOUD else "")
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


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "koi8-r", "iso2022_jp", "gb18030", "utf-16"])
def test_an_encoding_that_lacks_a_character(
    encoding: str, runs: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.chdir(tmp_path)
    for argv in COMMANDS + LOUD if encoding == "ascii" else WAYS:
        (to := io.BytesIO()).close = lambda: None  # type: ignore[method-assign]  # so that it can be read below
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(to, encoding=encoding, write_through=True))
        assert code_of(*argv) == (5 if "compare" in argv else 0)  # the two runs have no numbers
        sys.stdout.flush()
        said = to.getvalue()
        assert said, argv
        if "--json" in argv:
            assert json.loads(said)
    assert "Traceback" not in capsys.readouterr().err


def test_what_a_plugin_prints_is_not_in_the_json(tmp_path: Path, capsys: CapSys) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("print('\\x1b[2Jhello')\n" + MINE)
    assert code_of("plan", "reference", "--vpn", str(mine), "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == "\\u001b[2Jhello\n"


KEY = "q6Zt+XyB0mJkGfQ2n9eWc7sLr4HdVpUo1aTiNhYb3A8="


def test_what_others_write_to_the_console_has_no_secrets_and_no_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: CapSys
) -> None:
    monkeypatch.setattr(streams, "HIDERS", [(known := Redaction()).text])
    known.learn({"gw1.key": KEY})
    before = sys.stdout, sys.stderr
    with output_to(sys.stdout):
        sys.stderr.write(f"\x1b[2Jerror {KEY}\x07\n")
        sys.stdout.write(f"in two {KEY[:9]}")
        print(KEY[9:])
        print("to error", KEY, file=sys.stderr, flush=True)
        sys.stderr.writelines(["lines ", KEY, "\n"])
        assert not sys.stderr.isatty()
        ERRORS.write("\x1b[1mthe program's own\x1b[0m\n")
        OUTPUT.write("{}\n")
        print("without an end", KEY, end="", file=sys.stderr)
    assert (sys.stdout, sys.stderr) == before
    out, err = capsys.readouterr()
    assert out == "{}\n"
    assert err == (
        "\\u001b[2Jerror <gw1.key>\\u0007\nin two <gw1.key>\nto error <gw1.key>\nlines <gw1.key>\n"
        "\x1b[1mthe program's own\x1b[0m\nwithout an end <gw1.key>"
    )


def test_what_others_print_beside_a_live_display_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "HIDERS", [(known := Redaction()).text])
    known.learn({"gw1.key": KEY})
    said = io.StringIO()
    console = Output(file=said, force_terminal=True, width=120)
    with output_to(said), Live("the display", console=console, auto_refresh=False):
        print("printed \x07" + KEY)
        print("to error", KEY, file=sys.stderr)
    assert "printed <gw1.key>" in said.getvalue().replace("\\u0007", "")
    assert "\x07" not in said.getvalue()
    assert "to error <gw1.key>" in said.getvalue()
    assert "q6Zt" not in said.getvalue()


def test_the_secrets_of_this_process_are_hidden_on_the_console() -> None:
    assert redaction.KNOWN.text in streams.HIDERS


def test_what_a_plugin_writes_to_standard_error_is_text(tmp_path: Path, capsys: CapSys) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import sys\nsys.stderr.write('\\x1b[2Jhello' + chr(7))\n" + MINE)
    assert code_of("plan", "reference", "--vpn", str(mine), "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == "\\u001b[2Jhello\\u0007"


@pytest.mark.parametrize("before", [["compare", "a", "b"], ["list"], ["lab"], []])
@pytest.mark.parametrize("word", ["\u202e", "a\x1b[2Jb", "--\u202e", "-\x9b"])
def test_of_a_wrong_word_on_the_command_line_control_characters_are_text(
    capsys: CapSys, before: list[str], word: str
) -> None:
    assert code_of(*before, word) == 2
    err = capsys.readouterr().err
    assert err
    assert not CONTROL.search(err)


def test_control_characters_are_shown_as_text(tmp_path: Path, capsys: CapSys) -> None:
    hostile = "\x1b]0;owned\x07\x9b31m\r\x08\u202e"
    for name in ("a", "b"):
        with open_store(tmp_path / name) as store:
            store.save_run(RUN.model_copy(update={"profile_note": hostile}))
            failed = trial("t").model_copy(update={"status": "failed", "reason": hostile, "warnings": [hostile]})
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
    assert visible_text("a\tb\r\nc\n") == "a\tb\r\nc\n"
    assert visible_text("a\rb\x00\udcff") == "a\\u000db\\u0000\\udcff"


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
    others = signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever tests before this one have left there
    try:
        assert code_of("list") == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, others)
    assert capsys.readouterr().err == "vpneval was interrupted. What was measured is safe.\n"


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
