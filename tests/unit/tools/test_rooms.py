"""The rooms: their picture, and that nobody reaches behind another module's door."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

import pytest

from tests.tools import rooms
from tests.tools.rooms import Room

ROOT = Path(__file__).parents[3]


def house(**imports: tuple[str, ...]) -> dict[str, Room]:
    return {name: Room(name, f"{name} works", 2, 700, dict.fromkeys(below, 1)) for name, below in imports.items()}


HOUSE = house(data=(), lab=("data",), search=("data",), sweep=("lab", "data"), cli=("sweep", "search", "data"))


def test_a_room_stands_above_all_that_it_imports() -> None:
    assert rooms.floors_of(HOUSE) == {"data": 0, "lab": 1, "search": 1, "sweep": 2, "cli": 3}


def test_a_circle_of_rooms_has_no_floors() -> None:
    with pytest.raises(SystemExit, match="in a circle: lab → vpn → lab"):
        rooms.floors_of(house(data=(), lab=("data", "vpn"), vpn=("lab",)))


def test_arrows_that_follow_from_others_are_left_out() -> None:
    assert set(rooms.arrows_of(HOUSE)) == {
        *(("lab", "data"), ("search", "data"), ("sweep", "lab"), ("cli", "sweep"), ("cli", "search")),
    }


def test_nothing_overlaps_and_arrows_go_down_and_pass_no_box() -> None:
    floor = rooms.floors_of(HOUSE)
    floors, x, ways = rooms.placed(floor, rooms.arrows_of(HOUSE))
    for names in floors:
        assert all(x[b] - x[a] >= rooms.LANE for a, b in pairwise(names))
        boxes = [x[name] for name in names if name in HOUSE]
        assert all(b - a > rooms.WIDTH for a, b in pairwise(boxes))
    assert len(ways["cli", "search"]) == 3, "it has a lane beside sweep"
    level = {name: at for at, names in enumerate(floors) for name in names}
    assert all(level[a] == level[b] + 1 for way in ways.values() for a, b in pairwise(way))


def test_the_picture_has_every_room_with_its_job_and_is_the_same_each_time() -> None:
    made = rooms.svg(HOUSE)
    assert made == rooms.svg(HOUSE)
    for name in HOUSE:
        assert f">{name}/</text>" in made
        assert f">{name} works</text>" in made
    assert made.count('class="arrow"') == 5


def test_a_room_that_the_contract_does_not_name_is_told() -> None:
    assert rooms.unlisted({**rooms.rooms(), **house(cellar=())}) == ["cellar"]


def test_a_check_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = tmp_path / "rooms.svg"
    monkeypatch.setattr(rooms, "PICTURE", picture)
    monkeypatch.setattr(rooms, "rooms", lambda: HOUSE)
    with pytest.raises(SystemExit, match="not what the imports are now"):
        rooms.main(["--check"])
    assert not picture.exists()
    rooms.main([])
    picture.chmod(0o444)
    before = picture.stat().st_mtime_ns
    rooms.main(["--check"])
    assert picture.stat().st_mtime_ns == before
    picture.chmod(0o644)
    picture.write_text("another picture")
    with pytest.raises(SystemExit, match="not what the imports are now"):
        rooms.main(["--check"])
    assert picture.read_text() == "another picture"


def test_the_table_counts_files_and_imports(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "rooms", lambda: HOUSE)
    rooms.main(["--table"])
    said = capsys.readouterr().out.splitlines()
    assert "| `sweep` | 2 | 700 | 2 | 1 |" in said
    assert said[-1] == "7 imports between 7 pairs of rooms."


def test_no_module_imports_a_private_name_of_another() -> None:
    """PLC2701 says so of other packages only. A file of vpns/ whose name begins with _ is shared by plugins."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} imports {name.name} of {node.module}"
        for folder in (*rooms.PACKAGES, "tests")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module != "vpns"
        for name in node.names
        if name.name.startswith("_")
    ]
    assert not found
