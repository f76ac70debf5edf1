"""The wheel, installed into an empty environment: everything that needs no lab, from an empty folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from runner.cli.app import app
from runner.data.shipped_runs import shipped_runs
from tests.tools.installed import PROJECT, done


def test_the_packages_are_those_of_the_environment(installed: Path, tmp_path: Path) -> None:
    """The control: without it the commands below might run from the checkout."""
    ask = "import experiments, runner, vpns; print(experiments.__file__, runner.__file__, vpns.__file__)"
    said = done(str(installed.with_name("python")), "-c", ask, folder=tmp_path).stdout.split()
    assert len(said) == 3
    for path in said:
        assert Path(path).is_relative_to(installed.parents[1])


def test_every_shipped_file_is_the_one_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    each = "map(shipped_folder, ('packages', 'layers', 'published'))"
    ask = f"from runner.data.shipped import *; print(*{each}, sep='\\n')"
    folders = done(str(installed.with_name("python")), "-c", ask, folder=tmp_path).stdout.split()
    for name, folder in zip(("vagrant/packages", "vagrant/layers", "results/published"), folders, strict=True):
        ours = {path.name: path.read_bytes() for path in (PROJECT / name).iterdir() if path.is_file()}
        assert ours
        assert {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.is_file()} == ours
        assert Path(folder).is_relative_to(installed.parents[1])


def test_the_shipped_runs_are_those_of_the_checkout(installed: Path, tmp_path: Path) -> None:
    counted = "f'{run.run_id}:{len(trials)}' for run, trials in shipped_runs()"
    ask = f"from runner.data.shipped_runs import shipped_runs; print(*({counted}))"
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


def test_only_what_a_use_needs_is_there(installed: Path) -> None:
    """The control of the tests here: what single commands, tests or linters need is not found."""
    ask = "from importlib.util import find_spec; print(*filter(find_spec, %r))"
    extras = ("bokeh", "distributed", "duckdb", "mypy", "pandas", "playwright", "polars", "MLRsearch", "scipy")
    assert done(str(installed.with_name("python")), "-c", ask % (extras,)).stdout.split() == ["scipy"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [*typer.main.get_command(app).commands])  # type: ignore[attr-defined]
def test_every_command_helps_itself(installed: Path, tmp_path: Path, command: str) -> None:
    assert f"Usage: vpneval {command}" in done(str(installed), command, "--help", folder=tmp_path).stdout


def test_a_farm_names_what_it_lacks_and_how_to_get_it(installed: Path, tmp_path: Path) -> None:
    argv = (installed, "run", "transport", "--farm", "local:2", "--out", "run")
    ended = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    command = f"{installed.with_name('python')} -m pip install distributed bokeh cryptography"
    assert command in " ".join(ended.stderr.split())


@pytest.mark.slow
def test_every_form_but_parquet_is_written(installed: Path, tmp_path: Path) -> None:
    (example,) = (PROJECT / "results" / "examples").iterdir()
    for name in ("run.json", "trials.jsonl", "slices.jsonl"):
        shutil.copy(example / name, tmp_path)
    ended = subprocess.run(
        [installed, "report", tmp_path, "--write"], capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0
    assert (tmp_path / "report.md").exists()
    assert not (tmp_path / "report.parquet").exists()
    assert f"{installed.with_name('python')} -m pip install polars" in " ".join(ended.stderr.split())


def test_a_stored_run_is_reported(installed: Path, tmp_path: Path) -> None:
    (example,) = (PROJECT / "results" / "examples").iterdir()
    page = done(str(installed), "report", str(example), "--format", "html", folder=tmp_path).stdout
    assert "WireGuard" in page
    assert "<style>" in page
