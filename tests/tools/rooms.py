"""The picture of the rooms in docs/README.md, drawn from the imports: ``make rooms``; ``--check``: is it current?
``--table`` prints the rooms' files, lines and imports instead.

A room is a folder of runner/, its catalogue.py, vpns/ or experiments/. It stands on the lowest floor that is above all
rooms that it imports from. What an arrow says that others say already is left out: who imports from `lab` reaches
`data`, too. Sizes are rounded, so that the picture changes when the house does.
"""

from __future__ import annotations

import argparse
import ast
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import combinations, pairwise, permutations
from pathlib import Path
from random import Random

import grimp

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "pictures" / "rooms.svg"
PACKAGES = ("runner", "vpns", "experiments", "questions")
BLOCK = 500  # lines that a square stands for, and that sizes are rounded to
WIDTH, HEIGHT, APART, BETWEEN = 296, 92, 26, 56  # of a box, and between boxes of a floor and of two, in pixels
LANE = 10  # the width that an arrow takes on a floor that it passes
MARGIN, HEAD = 28, 76
WRAP = 40  # characters of a job on one of its two lines

Floors = list[list[str]]  # the names of each floor's rooms from left to right, the ground floor first
Arrows = list[tuple[str, str]]  # from a room to one that it imports from
Ways = dict[tuple[str, str], list[str]]  # arrow -> what it passes from top to bottom, its ends included


@dataclass
class Room:
    """``job``: the first sentence of its docstring; ``lines`` of all its files; ``imports``: room -> import lines."""

    name: str
    job: str
    files: int = 0
    lines: int = 0
    imports: dict[str, int] = field(default_factory=dict)


def room_of(module: str) -> str:
    """``runner.lab.node`` -> ``lab``, ``vpns.tinc`` -> ``vpns``; empty for what is in no room (``runner.__main__``)."""
    package, *rest = module.split(".")
    return package if package != "runner" else rest[0] if rest and rest[0] != "__main__" else ""


def rooms(root: Path = ROOT) -> dict[str, Room]:
    """The rooms of the checkout, by name, with what they import. Raises SystemExit for one that has no docstring."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    found: dict[str, Room] = {}
    for module in sorted(graph.modules):
        if not (name := room_of(module)):
            continue
        room = found.setdefault(name, Room(name, _job(root, module)))
        room.files += 1
        room.lines += len(_path(root, module).read_text(encoding="utf-8").splitlines())
        for other in sorted(graph.find_modules_directly_imported_by(module)):
            if (target := room_of(other)) and target != name:
                room.imports[target] = room.imports.get(target, 0) + 1
    return found


def _path(root: Path, module: str) -> Path:
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _job(root: Path, module: str) -> str:
    path = _path(root, module)
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not told:
        raise SystemExit(f"{path.relative_to(root)} has no docstring: its first line is the room's job in the picture")
    return " ".join(told.split("\n\n")[0].split()).split(". ")[0].removesuffix(".").replace("``", "")


def floors_of(rooms: Mapping[str, Room]) -> dict[str, int]:
    """Room -> floor, 0 for the ground. Raises SystemExit where rooms import from each other in a circle."""
    floors: dict[str, int] = {}

    def floor(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            raise SystemExit(f"rooms in a circle: {' → '.join([*above[above.index(name) :], name])}")
        if name not in floors:
            floors[name] = 1 + max((floor(below, (*above, name)) for below in rooms[name].imports), default=-1)
        return floors[name]

    for name in rooms:
        floor(name, ())
    return floors


def arrows_of(rooms: Mapping[str, Room]) -> Arrows:
    """The imports between rooms, without those that others imply (the transitive reduction)."""

    def reached(name: str) -> set[str]:
        return set(rooms[name].imports).union(*(reached(below) for below in rooms[name].imports))

    return [
        (name, target)
        for name, room in rooms.items()
        for target in sorted(room.imports)
        if not any(target in reached(other) for other in room.imports)
    ]


def unlisted(rooms: Mapping[str, Room], pyproject: Path = ROOT / "pyproject.toml") -> list[str]:
    """The rooms that stand on no floor of import-linter's contract, so that nothing holds what they import."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    listed = {room_of(name.strip()) for layer in layers for name in layer.split("|")}
    return sorted(rooms.keys() - listed)


def placed(floor_of: Mapping[str, int], arrows: Arrows) -> tuple[Floors, dict[str, int], Ways]:
    """Where everything stands: the floors in an order with few crossings, name -> x of its centre, and arrow -> the
    names that it passes from top to bottom. On each floor between its ends an arrow has a lane, named after it."""
    floors: Floors = [[] for _ in range(max(floor_of.values()) + 1)]
    for name, floor in sorted(floor_of.items()):
        floors[floor].append(name)
    ways: Ways = {}
    for top, bottom in arrows:
        lanes = {floor: f"{top}→{bottom} {floor}" for floor in range(floor_of[top] - 1, floor_of[bottom], -1)}
        for floor, lane in lanes.items():
            floors[floor].append(lane)
        ways[top, bottom] = [top, *lanes.values(), bottom]
    steps = [step for way in ways.values() for step in pairwise(way)]
    found = min((_ordered(floors, steps, seed) for seed in range(20)), key=lambda order: _cost(order, steps))
    return found, _centres(found, steps), ways


def _ordered(floors: Floors, steps: Sequence[tuple[str, str]], seed: int) -> Floors:
    """The floors, shuffled, and then each in turn in its best order between its neighbours', until nothing gains."""
    order = [sorted(floor) for floor in floors]
    chance = Random(seed)
    for floor in order:
        chance.shuffle(floor)
    cost = _cost(order, steps)
    while True:
        for at in range(len(order)):
            near = range(max(0, at - 1), min(len(order), at + 2))
            own = [step for step in steps if {*step} & {*order[at]}]
            options = ([order[f] if f != at else [*option] for f in near] for option in permutations(order[at]))
            order[at] = min(options, key=lambda option: _cost(option, own))[at - near.start]
        if (now := _cost(order, steps)) >= cost:
            return order
        cost = now


def _cost(floors: Floors, steps: Sequence[tuple[str, str]]) -> tuple[int, float]:
    """Of these floors: how many arrows cross, and how far they go sideways."""
    place = {name: (at + 0.5) / len(floor) for floor in floors for at, name in enumerate(floor)}
    level = {name: at for at, floor in enumerate(floors) for name in floor}
    spans = [(level[a], place[a], place[b]) for a, b in steps]
    crossings = sum(f == g and (a - c) * (b - d) < 0 for (f, a, b), (g, c, d) in combinations(spans, 2))
    return crossings, sum(abs(a - b) for _, a, b in spans)


def _centres(floors: Floors, steps: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Name -> x of its centre: near those it is joined to, and nothing on a floor overlaps."""
    joined: dict[str, list[str]] = {}
    for a, b in steps:
        joined.setdefault(a, []).append(b)
        joined.setdefault(b, []).append(a)
    x = {name: (at - len(floor) / 2) * WIDTH for floor in floors for at, name in enumerate(floor)}
    for _ in range(60):
        for floor in floors:
            wanted = [
                sum(x[other] for other in joined.get(name, [name])) / len(joined.get(name, [name])) for name in floor
            ]
            x |= zip(floor, _apart(floor, wanted), strict=True)
    left = min(x[name] - _width(name) / 2 for name in x)
    return {name: round(at - left) + MARGIN for name, at in x.items()}


def _width(name: str) -> int:
    return LANE if "→" in name else WIDTH


def _apart(floor: Sequence[str], wanted: Sequence[float]) -> list[float]:
    """The places nearest to those ``wanted`` (least squares) in which neighbours keep their distance."""
    gaps = [0.0] + [(_width(a) + _width(b)) / 2 + APART for a, b in pairwise(floor)]
    offset = [sum(gaps[: at + 1]) for at in range(len(gaps))]
    groups: list[list[float]] = []  # isotonic regression: pool neighbours that would overlap
    for want, shift in zip(wanted, offset, strict=True):
        groups.append([want - shift])
        while len(groups) > 1 and sum(groups[-2]) / len(groups[-2]) > sum(groups[-1]) / len(groups[-1]):
            groups[-2:] = [groups[-2] + groups[-1]]
    means = [sum(group) / len(group) for group in groups for _ in group]
    return [mean + shift for mean, shift in zip(means, offset, strict=True)]


STYLE = """
text { font-family: system-ui, "Segoe UI", "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #1f2933; }
.title { font-size: 21px; font-weight: 700; } .note { font-size: 12.5px; fill: #52606d; }
.name { font-size: 15.5px; font-weight: 700; } .size { font-size: 11.5px; fill: #616e7c; text-anchor: end; }
.job { font-size: 12.5px; fill: #323f4b; } .box { stroke-width: 1.5; } .floor { fill: #f5f7f9; }
.arrow { fill: none; stroke: #7b8794; stroke-width: 1.6; } .head { fill: #7b8794; }
"""
COLOURS = {"runner": ("#eaf3fb", "#3e7cb1"), "open": ("#fff6e3", "#c77d17")}  # fill, line; open: users add files here


def svg(rooms: Mapping[str, Room]) -> str:
    """The picture: floors from the ground up, boxes with their job and a square for each 500 lines, arrows down."""
    floors, x, ways = placed(floors_of(rooms), arrows_of(rooms))
    width = max(x[name] + _width(name) // 2 for name in x) + MARGIN
    tops = [HEAD + (len(floors) - 1 - at) * (HEIGHT + BETWEEN) for at in range(len(floors))]
    height = tops[0] + HEIGHT + MARGIN
    top = {name: tops[at] for at, floor in enumerate(floors) for name in floor}
    note = (
        f"Drawn from the imports by make rooms. Arrows that follow from others are left out. A square: {BLOCK} lines. "
        "Yellow: folders beside runner/, for files of your own."
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>The rooms of vpneval, and what each imports</title><style>{STYLE}</style>',
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="head" d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{MARGIN}" y="34">The rooms, and what they import</text>',
        f'<text class="note" x="{MARGIN}" y="54">{note}</text>',
    ]
    for y in tops:
        parts.append(f'<rect class="floor" x="8" y="{y - 9}" width="{width - 16}" height="{HEIGHT + 18}" rx="9"/>')
    parts += _drawn(ways, x, top)
    for name, room in rooms.items():
        parts += _box(room, x[name] - WIDTH // 2, top[name])
    return "\n".join([*parts, "</svg>", ""])


def _drawn(ways: Ways, x: Mapping[str, int], top: Mapping[str, int]) -> Iterator[str]:
    """The arrows: each leaves and enters a box at a place of its own, in the order of where it goes."""
    leaving: dict[str, list[str]] = {}
    entering: dict[str, list[str]] = {}
    for first, second, *_ in ways.values():
        leaving.setdefault(first, []).append(second)
    for *_, second, last in ways.values():
        entering.setdefault(last, []).append(second)

    def port(box: str, others: Sequence[str], other: str) -> int:
        place = sorted(others, key=lambda name: x[name]).index(other) - (len(others) - 1) / 2
        return x[box] + round(place * 44)

    for way in ways.values():
        first, last = way[0], way[-1]
        points = [(port(first, leaving[first], way[1]), top[first] + HEIGHT)]
        for lane in way[1:-1]:
            points += [(x[lane], top[lane] - 9), (x[lane], top[lane] + HEIGHT + 9)]
        points.append((port(last, entering[last], way[-2]), top[last] - 2))
        path = f"M{points[0][0]} {points[0][1]}"
        for (x1, y1), (x2, y2) in pairwise(points):
            bend = round((y2 - y1) * 0.6)
            path += f" L{x2} {y2}" if x1 == x2 else f" C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
        yield f'<path class="arrow" d="{path}" marker-end="url(#head)"/>'


def _box(room: Room, left: int, top: int) -> Iterator[str]:
    fill, line = COLOURS["open" if room.name in PACKAGES else "runner"]
    place = f'x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}"'
    blocks = round(room.lines / BLOCK)
    size = f"about {blocks * BLOCK:,} lines" if blocks else f"under {BLOCK // 2} lines"
    job = textwrap.wrap(room.job, WRAP)
    if len(job) > 2:
        raise SystemExit(f"{room.name}: the first sentence of its docstring is its job in the picture, and too long")
    yield f'<rect class="box" {place} rx="7" fill="{fill}" stroke="{line}"/>'
    yield f'<text class="name" x="{left + 14}" y="{top + 23}">{room.name}{".py" if room.files == 1 else "/"}</text>'
    yield f'<text class="size" x="{left + WIDTH - 14}" y="{top + 23}">{size}</text>'
    for number, words in enumerate(job):
        yield f'<text class="job" x="{left + 14}" y="{top + 43 + 16 * number}">{escape(words)}</text>'
    for number in range(blocks):
        place = f'x="{left + 14 + 11 * number}" y="{top + HEIGHT - 17}" width="8" height="8"'
        yield f'<rect {place} rx="1.5" fill="{line}"/>'


def table(rooms: Mapping[str, Room]) -> str:
    """Files, lines, and imports of and from each room, the largest first, as Markdown."""
    imported = {name: sum(room.imports.get(name, 0) for room in rooms.values()) for name in rooms}
    lines = ["| room | files | lines | imports from | imports of it |", "|---|---|---|---|---|"]
    for room in sorted(rooms.values(), key=lambda room: (-room.files, room.name)):
        counts = (room.files, room.lines, sum(room.imports.values()), imported[room.name])
        lines.append(f"| `{room.name}` | {' | '.join(f'{count:,}' for count in counts)} |")
    pairs, imports = sum(len(room.imports) for room in rooms.values()), sum(imported.values())
    return "\n".join([*lines, "", f"{imports:,} imports between {pairs} pairs of rooms."])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 where the picture is not what the imports are")
    parser.add_argument("--table", action="store_true", help="print each room's files, lines and imports")
    asked = parser.parse_args(argv)
    found = rooms()
    if asked.table:
        print(table(found))
        return
    if missing := unlisted(found):
        sys.exit(f"pyproject.toml, contract floors: says nothing of {', '.join(missing)}; name the floor of each")
    made = svg(found)
    if not asked.check:
        PICTURE.write_text(made, encoding="utf-8")
    elif not PICTURE.exists() or PICTURE.read_text(encoding="utf-8") != made:
        sys.exit(f"{PICTURE.name} is not what the imports are now: run make rooms, and commit it")


if __name__ == "__main__":
    main()
