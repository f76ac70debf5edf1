"""The wheel, installed into an empty environment: everything that needs no lab, from an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.data.shipped import shipped_runs
from tests.tools.installed import PROJECT, done


def test_the_packages_are_those_of_the_environment(installed: Path, tmp_path: Path) -> None:
    """The control: without it the commands below might run from the checkout."""
    ask = "import experiments, runner, vpns; print(experiments.__file__, runner.__file__, vpns.__file__)"
    said = done(str(installed.with_name("python")), "-c", ask, folder=tmp_path).stdout.split()
    assert len(said) == 3
    for path in said:
        assert Path(path).is_relative_to(installed.parents[1])


def test_every_shipped_file_is_the_one_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    ask = "from runner.data.shipped import *; print(*map(shipped, ('packages', 'layers', 'published')), sep='\\n')"
    folders = done(str(installed.with_name("python")), "-c", ask, folder=tmp_path).stdout.split()
    for name, folder in zip(("vagrant/packages", "vagrant/layers", "results/published"), folders, strict=True):
        ours = {path.name: path.read_bytes() for path in (PROJECT / name).iterdir()}
        assert ours
        assert {path.name: path.read_bytes() for path in Path(folder).iterdir()} == ours
        assert Path(folder).is_relative_to(installed.parents[1])


def test_the_shipped_runs_are_those_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    ask = "from runner.data.shipped import *; print(*(f'{run.run_id}:{len(trials)}' for run, trials in shipped_runs()))"
    said = done(str(installed.with_name("python")), "-c", ask, folder=tmp_path).stdout.split()
    assert said == [f"{run.run_id}:{len(trials)}" for run, trials in shipped_runs()] != []


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--version",), "vpneval"),
        (("list",), "wireguard_go"),
        (("list", "extinct", "--json"), "IEEE Communications Magazine"),
        (("recipe", "wireguard_go"), "ip route add 10.2.0.0/24 dev wg0"),
        (("plan", "transport", "--vpn", "none,wireguard_go", "--profile", "smallest"), "wireguard_go"),
    ],
)
def test_a_command_works(installed: Path, tmp_path: Path, argv: tuple[str, ...], says: str) -> None:
    assert says in done(str(installed), *argv, folder=tmp_path).stdout


def test_a_stored_run_is_reported(installed: Path, tmp_path: Path) -> None:
    (example,) = (PROJECT / "results" / "examples").iterdir()
    page = done(str(installed), "report", str(example), "--format", "html", folder=tmp_path).stdout
    assert "WireGuard" in page
    assert "<style>" in page
