"""What somebody meets who uses vpneval for the first time: lists, help and progress that can be read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runner.catalogue import read_run, vpn_names
from runner.cli.main import main
from runner.data.trials import Cell
from runner.sweep.supported import sentences_on
from tests.tools.installed import PROJECT
from tests.unit.synthetic import CBC, IDLE

CapSys = pytest.CaptureFixture[str]
LISTS = ("vpns", "extinct", "absent", "experiments", "metrics", "presets", "factors", "profiles")


def printed(capsys: CapSys, *argv: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*argv])
    assert not ended.value.code
    return capsys.readouterr().out


@pytest.mark.parametrize("what", LISTS)
def test_no_word_of_a_list_is_broken_at_80_columns(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    whole = set(printed(capsys, "list", what, "--json").replace('"', " ").replace("\\n", " ").split())
    monkeypatch.setattr("runner.cli.output.out._width", 80)
    text = printed(capsys, "list", what)
    assert max(map(len, text.splitlines())) <= 80
    known = {part for word in whole for part in re.split(r"[^\w]+", word)} | {"data", "path", "carried", "in"}
    assert {part for word in text.split() for part in re.split(r"[^\w]+", word) if not part.isdigit()} <= known


@pytest.mark.parametrize("command", [(), ("run",), ("report",), ("lab", "shell")])
def test_h_is_help(capsys: CapSys, command: tuple[str, ...]) -> None:
    assert printed(capsys, *command, "-h") == printed(capsys, *command, "--help")


@pytest.mark.parametrize("command", ["recipe", "doctor", "lab"])
def test_what_measures_nothing_offers_to_measure_nothing(capsys: CapSys, command: str) -> None:
    assert "measure only" not in " ".join(printed(capsys, *[command, "shell"][: 1 + (command == "lab")], "-h").split())


def test_a_shell_completes_a_command(capsys: CapSys, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_VPNEVAL_COMPLETE", "complete_bash"), ("COMP_WORDS", "vpneval hist"), ("COMP_CWORD", "1")):
        monkeypatch.setenv(name, value)
    assert printed(capsys) == "history\n"


def test_what_is_not_supported_takes_a_line_before_the_first_number() -> None:
    cells = [Cell(vpn=vpn, params={**CBC, **IDLE}) for vpn in vpn_names()[:20]]
    (line,) = sentences_on([(cell, f"no {cell.vpn} here") for cell in cells], cells)
    assert [vpn for vpn in vpn_names()[:20] if vpn not in line] == []


LOADED = """
import contextlib, sys
from runner.cli.main import main
with contextlib.suppress(SystemExit):
    main(["report", sys.argv[1]])
slow = {"runner.catalogue", "scipy.stats", "scipy.integrate", "vl_convert", "runner.sweep"} & {*sys.modules}
sys.exit(f"loaded: {slow}" if slow else 0)
"""


@pytest.mark.parametrize(
    "run",
    ["choice/two-cores", "examples/two-cores-quick", pytest.param("choice/two-cores-uml", marks=pytest.mark.slow)],
)
def test_a_report_does_not_wait_for_what_it_does_not_use(run: str, tmp_path: Path) -> None:
    """The plugins take 0.3 s to load, scipy.stats 0.6 s, the maker of pictures 0.2 s. Of a run as it is written today;
    an older one does not tell all of its metrics."""
    folder = tmp_path / "run"
    shutil.copytree(PROJECT / "results" / run, folder)
    (folder / "run.json").write_text(read_run(folder / "run.json").model_dump_json())
    argv = [sys.executable, "-c", LOADED, str(folder)]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "vpneval report" in ended.stdout


def test_what_is_printed_below_the_report_of_two_runs_exists(capsys: CapSys) -> None:
    """Not a page of both, which nothing wrote, and no command with a name made of two."""
    both = [str(PROJECT / "results" / "papers" / f"handovers-clusterip-{name}") for name in "ab"]
    text = printed(capsys, "report", *both)
    assert "report.html" not in text
    assert "".join(f"See all  vpneval report {' '.join(both)} --full".split()) in "".join(text.split())
    assert "handovers-clusterip-a +" not in text
