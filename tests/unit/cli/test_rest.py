"""The second run of --rest: what of the command line it is handed, and what is told when both runs are over."""

import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.cli import options, several
from runner.cli.main import main
from runner.cli.options import Shown
from runner.cli.several import run_with_rest, told_again
from runner.data.asked import AskedRun
from runner.data.needs import Needs
from runner.data.store import load_run
from runner.data.streams import document
from runner.lab import kernels
from runner.stages import guests, survey
from runner.stages.survey import REST_S, of_rest
from runner.sweep.request import Request
from runner.sweep.settings import Outcome
from tests.unit.asking import request

ROOT = Path(__file__).parents[3]
EXAMPLE = next((ROOT / "results" / "examples").glob("*/run.json")).parent


def option(argv: Sequence[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_the_second_run_is_what_was_asked_for() -> None:
    first = request(
        "reference",
        vpns="ipsec,openvpn",
        levels="cipher=aes-128-cbc",
        seed=7,
        repetitions=5,
        duration_s=4,
        image="bookworm",
        weights="tcp_throughput=2",
        needs=Needs(line_bps=1e8),
        deadline_s=350,
        until_significant=True,
        retry_failed=True,
    )
    second = of_rest(first, ["ipsec"])
    assert second == first.asked.with_changes(vpns=["ipsec"], deadline_s=REST_S)
    rounds = of_rest(request("choose", vpns="ipsec,openvpn", rounds=4), ["ipsec"])
    assert (rounds.rounds, rounds.until_significant) == (None, False), "the deadline says how many there are"


def own_plugin(folder: Path) -> Path:
    path = folder / "mine.py"
    shutil.copy(ROOT / "vpns" / "ipip.py", path)
    return path


def test_a_plugin_that_is_a_file_is_handed_on_as_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest has this machine's files and this folder: by its name alone it would know no such plugin."""
    path = own_plugin(tmp_path)
    asked = request("reference", vpns=f"{path},openvpn")
    assert of_rest(asked, ["mine"]).vpns == (f"{path}",)
    commands: list[Sequence[str]] = []

    def run_in(kernel: Any, argv: Sequence[str], **how: Any) -> int:
        commands.append(argv)
        print('[{"what": "", "vpn": "mine", "configuration": "comparable", "level": "ok", "says": "works"}]')
        return 0

    monkeypatch.setattr(survey, "run_in", run_in)
    monkeypatch.setattr(survey, "output_to", redirect_stdout)
    assert survey.ask_under(kernels.Uml(), asked) == {"mine": ""}
    assert option(commands[0], "--vpn") == f"{path},openvpn"


@pytest.fixture
def asked(tmp_path: Path) -> Request:
    return request(
        "reference",
        vpns="ipsec,openvpn",
        weights="tcp_throughput=1",
        until_significant=True,
        deadline_s=350,
        out=tmp_path / "both",
    )


def test_both_verdicts_and_both_pages_are_the_end(asked: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[AskedRun] = []

    def measured(request: Request, shown: Shown) -> int:
        given.append(request.asked)
        shutil.copytree(EXAMPLE, request.asked.out or "")
        return 0

    monkeypatch.setattr(several, "check_machine", lambda: None)
    monkeypatch.setattr(several, "survey", lambda *_: kernels.Uml())
    monkeypatch.setattr(several, "measure_and_report", measured)
    monkeypatch.setattr(kernels.Uml, "prepare", lambda self, say: None)
    said: list[str] = []
    monkeypatch.setattr(options, "tell", said.append)
    assert run_with_rest(kernels.Uml(), asked, Shown(strict=True)) == 0
    assert [(one.kernel, one.weights) for one in given] == [
        ("host", "tcp_throughput=1"),
        ("uml", "tcp_throughput=1"),
    ]
    assert asked.asked.out is not None
    pages = [f"Read {asked.asked.out / kernel / 'report.html'}" for kernel in ("host", "uml")]
    assert said[-2:] == pages
    assert said[-3].startswith("Under User Mode Linux")
    (asked.asked.out / "uml" / "report.json").unlink()
    assert told_again(asked.asked.out)[-1:] == pages[:1]


def test_own_plugins_in_the_kernel_are_lacking_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_vpn(str(own_plugin(tmp_path))).dataplane == "kernel"
    run, trials = load_run(EXAMPLE)
    vpns = {"mine" if name == "ipip" else name: record for name, record in run.vpns.items()}
    renamed = [one.model_copy(update={"vpn": "mine"}) if one.vpn == "ipip" else one for one in trials]
    load: Callable[[Path], Any] = lambda folder: (run.model_copy(update={"vpns": vpns}), renamed)  # noqa: E731
    monkeypatch.setattr(survey, "load_run", load)
    assert "mine" in survey.lacks(EXAMPLE)


def test_a_guest_is_asked_as_json_and_answers_what_it_has_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []
    codes = [0, 4]

    def run_in(kernel: Any, argv: Sequence[str], **how: Any) -> int:
        commands.append(argv)
        document(json.dumps(vars(Outcome(measured=3, stopped="the lab's broken"))) + "\n")
        return codes.pop(0)

    monkeypatch.setattr(guests, "run_in", run_in)
    first = replace(request("reference"), asked=AskedRun(experiments=["reference"], vpns=["./it's mine.py"]))
    first = replace(first, asked=first.asked.with_changes(needs=Needs(line_bps=1e8), kernel="host,uml"))
    done = guests.play(kernels.Uml(), first, tmp_path / "uml", lambda text: None, quiet=True)
    assert done == Outcome(measured=3, stopped="the lab's broken")
    command, asked, *flags = commands[0][4:]
    assert command == "play"
    assert AskedRun.model_validate_json(asked) == first.asked.with_changes(kernel="uml", out=tmp_path / "uml")
    assert flags == ["--quiet"]
    with pytest.raises(guests.Ended) as ended:
        guests.play(kernels.Uml(), first, tmp_path / "uml", lambda text: None)
    assert ended.value.exit_code == 4


def test_what_a_guest_is_not_asked_for_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["play", '{"experiments": ["reference"], "command": "x"}'])
    assert ended.value.code == 2
    assert "this is not what vpneval asks a guest for" in capsys.readouterr().err
