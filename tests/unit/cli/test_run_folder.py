"""One rule for every command about a run: its folder is the last word, or what --run names; else the latest."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runner.cli.main import main
from tests.tools.installed import PROJECT

EXAMPLE = next((PROJECT / "results" / "examples").iterdir())
CapSys = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of results/ with a run, where the commands are given."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(EXAMPLE, tmp_path / "results" / "mine")
    return tmp_path / "results"


def said(capsys: CapSys, *argv: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main([*argv])
    out, err = capsys.readouterr()
    return ended.value.code, out + err


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("report", "--format", "csv"), 0),
        (("why", "openvpn", "wireguard_go"), 0),
        (("why", "openvpn"), 0),
        (("watch",), 0),
        (("recipe", "wireguard_go"), 0),
        (("recipe",), 2),  # the example is of no line
    ],
)
def test_the_last_word_and_the_option_are_the_same(capsys: CapSys, command: tuple[str, ...], code: int) -> None:
    as_word, as_option = said(capsys, *command, "results/mine"), said(capsys, *command, "--run", "results/mine")
    assert as_word == as_option
    assert (as_word[0] or 0) == code
    if command[0] != "recipe":  # which needs no run
        assert said(capsys, *command) == as_word, "the latest"
    twice, told = said(capsys, *command, "results/mine", "--run", "results/other")
    assert twice == 2
    assert "leave one of them out" in told


def test_more_says_what_to_do_without_a_run(capsys: CapSys, results: Path) -> None:
    shutil.rmtree(results)
    code, told = said(capsys, "more")
    assert code == 2
    assert "results/ has no run of yours yet" in told


def test_why_one_alone_names_another(capsys: CapSys) -> None:
    """It is compared with the first of the ranking; the first one itself with the second."""
    against = [said(capsys, "why", vpn)[1] for vpn in ("openvpn", "wireguard_go")]
    assert "openvpn (" in against[0]
    assert all(" against " in text for text in against)
    shipped = str(Path(__file__).parents[3] / "results" / "choice" / "two-cores")
    code, told = said(capsys, "why", "ssh_tun", shipped, "--line", "50M", "--must", "udp-blocked")
    assert code == 0, told  # the first of its ranking has no number
    assert "ssh_tun (" in told
    code, told = said(capsys, "why", "openvpnn")
    assert code == 2
    assert "did you mean openvpn?" in told
    assert os.getcwd() not in told
