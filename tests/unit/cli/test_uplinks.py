"""Several lines of one site: what the inventory says of each, and that each is a run with an answer of its own."""

import json
import shutil
from pathlib import Path

import pytest

from questions.compare.runs import compare_runs
from runner.cli import several
from runner.cli.commands.recipe.work import uplink_of
from runner.cli.commands.run import work as measuring
from runner.cli.options import Shown
from runner.data.asked import AskedRun
from runner.data.errors import UsageError
from runner.data.merge import merge_runs
from runner.data.store import load_run
from runner.lab.places import check_uplinks, rootless
from runner.lab.places.sites import read_sites
from runner.report.closing import by_uplink
from runner.sweep.request import Request, resolve
from runner.sweep.run_record import describe
from tests.unit.cli.test_cli import vpneval
from tests.unit.whole_report import build, choice_of

CHOICE = Path(__file__).parents[3] / "results" / "choice" / "two-cores"
INVENTORY = """\
max_rate_bps = 200e6

[gw1]
address = "192.0.2.1"
public_address = "203.0.113.1"

[gw2]
address = "192.0.2.2"

[uplink.fibre]
gw1.wan = "eth0"

[uplink.lte]
gw1.wan = "eth1"
gw1.public_address = "203.0.113.7"
path_mtu = 1428
max_rate_bps = 20e6
"""
BOTH = ("uplink=fibre", "uplink=lte")


@pytest.fixture
def spec(tmp_path: Path) -> str:
    (tmp_path / "sites.toml").write_text(INVENTORY)
    return f"site:{tmp_path / 'sites.toml'}"


def asked(spec: str, *levels: str, **more: object) -> Request:
    return resolve(AskedRun(experiments=("latency",), vpns=("openvpn",), lab=spec, levels=levels).with_changes(**more))


def test_a_line_has_its_own_keys_in_the_place_of_the_inventorys(spec: str) -> None:
    path = Path(spec.removeprefix("site:"))
    every, fibre, lte = (read_sites(path, name) for name in ("", "fibre", "lte"))
    assert (every.gw1.wan, fibre.gw1.wan, lte.gw1.wan) == (None, "eth0", "eth1")
    assert [str(line.gw1.public_address) for line in (fibre, lte)] == ["203.0.113.1", "203.0.113.7"]
    assert [(line.path_mtu, line.max_rate_bps) for line in (fibre, lte)] == [(None, 200e6), (1428, 20e6)]
    assert lte.gw2 == every.gw2


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('gw1.wan = "eth1"', 'gw1.vlan = "eth1"', r":14: \[uplink.lte\] gw1.vlan: is not known. Valid here: wan, wan_"),
        (
            "path_mtu = 1428",
            "path_mtu = 14",
            r":16: \[uplink.lte\] path_mtu: .* Valid here: gw1, gw2, path_mtu, max",
        ),
        ("path_mtu", "rate", r":16: \[uplink.lte\] rate: is not known. Valid here: gw1, gw2, path_mtu, max_rate_bps"),
        (
            "gw1.public_address = ",
            "gw2.public_address = ",
            r":13: \[uplink.lte\]: \[gw2\] public_address gw2 is beh",
        ),
        ("[uplink.lte]", '[uplink."../x"]', r"uplink\.\.\./x"),
    ],
)
def test_what_is_wrong_about_a_line_is_told_with_its_place(
    spec: str, tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    (tmp_path / "sites.toml").write_text(INVENTORY.replace(old, new))
    with pytest.raises(UsageError, match=complaint):
        read_sites(tmp_path / "sites.toml")


@pytest.mark.parametrize(
    ("lab", "name", "complaint"),
    [
        ("", "lta", "unknown uplink 'lta'; did you mean lte. Valid in the inventory: fibre, lte"),
        ("netns", "lte", "an uplink is a line of a site lab"),
    ],
)
def test_an_uplink_that_is_not_there(spec: str, lab: str, name: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        asked(lab or spec, f"uplink={name}")
    with pytest.raises(UsageError, match=complaint):
        check_uplinks(lab or spec, [name])


def test_an_inventory_without_lines_says_how_to_name_one(spec: str, tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(INVENTORY.partition("[uplink.fibre]")[0])
    with pytest.raises(UsageError, match=r"names no uplink. Add a table \[uplink.lte\]"):
        check_uplinks(spec, ["lte"])


def test_trials_carry_the_line(spec: str) -> None:
    assert {cell.params["uplink"] for cell in asked(spec, *BOTH).cells} == {"fibre", "lte"}
    assert {cell.params["uplink"] for cell in asked(spec, "uplink=lte").cells} == {"lte"}
    assert not any("uplink" in cell.params for cell in asked(spec).cells)


def test_each_line_is_a_run_in_an_equal_share_of_the_deadline(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[AskedRun] = []

    def measured(request: Request, shown: Shown) -> int:
        played.append(request.asked)
        assert request.asked.out
        shutil.copytree(CHOICE, request.asked.out)
        return 1 if len(played) == 1 else 0

    monkeypatch.setattr(several, "measure_and_report", measured)
    monkeypatch.setattr(rootless, "enter", lambda lab: None)
    whole = asked(spec, "cipher=aes-256-gcm", *BOTH, deadline_s=600, out=tmp_path / "out").asked
    assert measuring.measure(whole, Shown(quiet=True)) == 1, "the worst of both"
    assert [(one.levels, one.deadline_s) for one in played] == [
        (("cipher=aes-256-gcm", f"uplink={name}"), 300.0) for name in ("fibre", "lte")
    ]
    assert [one.out for one in played] == [tmp_path / "out" / name for name in ("fibre", "lte")]
    index = json.loads((tmp_path / "out" / "index.json").read_text())["runs"]
    assert [(run["uplink"], run["folder"]) for run in index] == [("fibre", "fibre"), ("lte", "lte")]


def on_line(name: str) -> tuple[object, ...]:
    run, trials = load_run(CHOICE)
    on = [one.model_copy(update={"params": {**one.params, "uplink": name}}) for one in trials]
    return run.model_copy(update={"run_id": name, "lab": {**run.lab, "uplink": name}}), on


def test_lines_are_never_in_one_ranking_and_compare_pairs_them() -> None:
    fibre, lte = on_line("fibre"), on_line("lte")
    with pytest.raises(UsageError, match=r"lab uplink differs \(fibre and lte\)"):
        merge_runs([fibre, lte])  # type: ignore[list-item]
    compared = compare_runs(fibre, lte)  # type: ignore[arg-type]
    assert compared.differences == ["lab uplink: fibre → lte"]
    assert compared.changes
    assert not compared.only_before


def test_the_answers_of_all_lines_stand_together_at_the_end() -> None:
    alone = build(*load_run(CHOICE))
    reports = [build(*on_line(name)) for name in ("fibre", "lte")]  # type: ignore[arg-type]
    assert by_uplink([alone, alone]) == []
    said = by_uplink(reports)
    assert [line.partition(":")[0] for line in said] == ["Uplink fibre", "Uplink lte"]
    bands = [choice_of(report).bands for report in (alone, *reports)]
    assert bands[0]
    assert bands == [bands[0]] * 3, "a line is no other traffic: the choice is made as ever"


def test_a_folder_goes_on_with_its_own_line_only(spec: str, tmp_path: Path) -> None:
    """And a recipe of a run is for the line that the run has measured."""
    from runner.data.store import open_store

    run, _ = load_run(CHOICE)
    shutil.copytree(CHOICE, tmp_path / "run")
    kept = run.model_copy(update={"lab": {**run.lab, "uplink": "fibre"}})
    (tmp_path / "run" / "run.json").write_text(kept.model_dump_json())
    assert (uplink_of(tmp_path / "run"), uplink_of(CHOICE)) == ("fibre", "")
    image = type("Image", (), {"name": run.image["name"], "digest": run.image["digest"], "packages": {}})()
    request = asked(spec, "uplink=lte", profile=run.profile)
    with open_store(tmp_path / "run") as store, pytest.raises(UsageError, match="with uplink 'fibre', not 'lte'"):
        describe(request, store, {**run.lab, "uplink": "lte"}, image, {})


def test_a_recipe_needs_the_inventory_of_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = vpneval(capsys, "recipe", "wireguard", "--uplink", "lte")
    assert code == 2
    assert "--uplink is a line of an inventory: give --site SITES.toml, too" in err
