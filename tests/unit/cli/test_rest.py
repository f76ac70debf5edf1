"""The second run of --rest: what of the command line it is handed, and what is told when both runs are over."""

import shutil
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.cli import guest_runs as other_kernels
from runner.cli import survey
from runner.cli.guest_runs import rest_argv, run_with_rest, told_again
from runner.data.store import load_run
from runner.lab import kernels
from runner.sweep.request import Options, Request, ask

ROOT = Path(__file__).parents[3]
EXAMPLE = next((ROOT / "results" / "examples").glob("*/run.json")).parent


def option(argv: Sequence[str], name: str) -> str:
    return argv[argv.index(name) + 1]


def test_the_second_run_is_what_was_asked_for() -> None:
    asked = ask(
        Options(
            ["reference"],
            vpns="ipsec,openvpn",
            levels="cipher=aes-128-cbc",
            seed=7,
            repetitions=5,
            duration_s=4,
            image="bookworm",
            deadline="350s",
            until_significant=True,
            retry_failed=True,
        )
    )
    argv = rest_argv(asked, ["ipsec"], "rtt=2")
    assert argv[:2] == ["run", "reference"]
    wanted = {"--vpn": "ipsec", "--seed": "7", "--reps": "5", "--duration": "4", "--image": "bookworm"}
    wanted |= {"--weights": "rtt=2", "--set": "cipher=aes-128-cbc", "--profile": "quick"}
    assert {name: option(argv, name) for name in wanted} == wanted
    assert {"--until-significant", "--retry-failed"} <= set(argv)
    stated = ask(Options(["choose"], vpns="ipsec,openvpn", line="100M", must="nat"))
    again = rest_argv(stated, ["ipsec"], "")
    assert (option(again, "--line"), option(again, "--must")) == ("100M", "nat")
    assert {"--no-until-significant"} <= set(again)
    assert "--reps" not in again


def own_plugin(folder: Path) -> Path:
    path = folder / "mine.py"
    shutil.copy(ROOT / "vpns" / "ipip.py", path)
    return path


def test_a_plugin_that_is_a_file_is_handed_on_as_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guest has this machine's files and this folder: by its name alone it would know no such plugin."""
    path = own_plugin(tmp_path)
    asked = ask(Options(["reference"], vpns=f"{path},openvpn"))
    assert option(rest_argv(asked, ["mine"], ""), "--vpn") == f"{path}"
    commands: list[Sequence[str]] = []

    def run_in(kernel: Any, argv: Sequence[str], **how: Any) -> int:
        commands.append(argv)
        print('[{"what": "vpn mine (comparable)", "level": "ok", "says": "works"}]')
        return 0

    monkeypatch.setattr(survey, "run_in", run_in)
    monkeypatch.setattr(survey, "output_to", redirect_stdout)
    assert survey.ask_under(kernels.Uml(), asked) == {"mine": ""}
    assert option(commands[0], "--vpn") == f"{path},openvpn"


@pytest.fixture
def asked(tmp_path: Path) -> Request:
    return ask(Options(["reference"], vpns="ipsec,openvpn", deadline="350s", out=tmp_path / "both"))


def test_both_verdicts_and_both_pages_are_the_end(asked: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []

    def guest(kernel: Any, folder: Path, say: Any, argv: Sequence[str]) -> int:
        commands.append(argv)
        return here(folder)

    def here(folder: Path) -> int:
        shutil.copytree(EXAMPLE, folder)
        return 0

    monkeypatch.setattr(other_kernels, "check_machine", lambda: None)
    monkeypatch.setattr(other_kernels, "survey", lambda *_: kernels.Uml())
    monkeypatch.setattr(other_kernels, "_guest_run", guest)
    monkeypatch.setattr(kernels.Uml, "prepare", lambda self, say: None)
    said: list[str] = []
    assert run_with_rest(kernels.Uml(), asked, here, said.append, "rtt=1", ["--strict", "--quiet", "--full"]) == 0
    assert {"--strict", "--quiet", "--full"} <= set(commands[0])
    assert option(commands[0], "--weights") == "rtt=1"
    assert asked.out is not None
    pages = [f"Read {asked.out / kernel / 'report.html'}" for kernel in ("host", "uml")]
    assert said[-2:] == pages
    assert said[-3].startswith("Under User Mode Linux")
    (asked.out / "uml" / "report.json").unlink()
    assert told_again(asked.out)[-1:] == pages[:1]


def test_own_plugins_in_the_kernel_are_lacking_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_vpn(str(own_plugin(tmp_path))).dataplane == "kernel"
    run, trials = load_run(EXAMPLE)
    vpns = {"mine" if name == "ipip" else name: record for name, record in run.vpns.items()}
    renamed = [one.model_copy(update={"vpn": "mine"}) if one.vpn == "ipip" else one for one in trials]
    load: Callable[[Path], Any] = lambda folder: (run.model_copy(update={"vpns": vpns}), renamed)  # noqa: E731
    monkeypatch.setattr(other_kernels, "load_run", load)
    assert "mine" in other_kernels.lacks(EXAMPLE)
