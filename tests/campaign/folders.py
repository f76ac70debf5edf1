"""Run folders to which something happens: another value, other bytes, other lines, something else in a file's place."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

BYTES = [b"\xff\xfe", b"\0", b"\n", b"{", b"]" * 9, b"\x1b[2J", b"[" * 200_000, b"\xef\xbb\xbf"]
JUNK: list[Any] = [
    *(None, True, False, 0, -1, 1, 0.5, -0.5, 1e308, -1e308, 5e-324, float("nan"), float("inf"), 10**30, -(10**30)),
    *(
        "",
        " ",
        "x",
        "ok",
        "none",
        "\x1b[31m",
        "\x9b",
        "\u202e",
        "é",
        "a" * 5000,
        "/etc/passwd",
        "../x",
        "<b>",
        "[/x]",
        "|",
    ),
    *([], {}, [[]], [None], {"": {}}, {"x": 1}, [1, 2, 3], ["a", "b"]),
]


def mutate(rng: random.Random, folder: Path) -> str:
    """Let something happen to a file of ``folder``; says what."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"]
    likely = [path for path in files if path.suffix in (".json", ".jsonl")]
    path = rng.choice(likely if rng.random() < 0.9 else files)
    how = rng.choice((*[in_json] * 8, in_bytes, in_bytes, in_lines, in_place))
    return f"{path.relative_to(folder)}: {how(rng, path)}"


def in_json(rng: random.Random, path: Path) -> str:
    """Another value somewhere in a line of it."""
    try:
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        number = rng.randrange(len(lines))
        at = found = json.loads(lines[number])
    except (ValueError, RecursionError):  # something has happened to it before
        return in_bytes(rng, path)
    way: list[Any] = []
    while isinstance(at, dict | list) and at and (not way or rng.random() < 0.8):
        parent, key = at, rng.choice(list(at)) if isinstance(at, dict) else rng.randrange(len(at))
        way.append(key)
        at = at[key]
    if not way:
        return "nothing in it"
    what = rng.choice(("value", "value", "value", "gone", "added", "deep"))
    value = rng.choice(JUNK)
    if what == "gone":
        del parent[key]
    elif what == "added" and isinstance(parent, dict):
        parent[rng.choice(("x", "", "schema_version", "\x1b"))] = value
    else:
        parent[key] = value
    lines[number] = json.dumps(found)
    if what == "deep":
        lines[number] = lines[number].replace(json.dumps(value), "[" * 5000 + "]" * 5000, 1)
    path.write_text("\n".join(lines) + "\n")
    return f"line {number + 1}, {'.'.join(map(str, way))}: {what} {str(value)[:30]!r}"


def in_bytes(rng: random.Random, path: Path) -> str:
    """Bytes changed, cut off or put in."""
    data, at = bytearray(path.read_bytes()), rng.randrange(max(1, path.stat().st_size))
    what = rng.choice(("flipped", "cut", "inserted", "emptied", "zeros"))
    if what == "flipped" and data:
        data[at] ^= 1 << rng.randrange(8)
    elif what == "inserted":
        data[at:at] = rng.choice(BYTES)
    elif what == "zeros":
        data[at:] = bytes(len(data) - at)
    else:
        del data[at if what == "cut" else 0 :]
    path.write_bytes(data)
    return f"{what} at {at}"


def in_lines(rng: random.Random, path: Path) -> str:
    """Lines in another order, twice, or left out."""
    lines = path.read_bytes().splitlines(keepends=True)
    what = rng.choice(("shuffled", "twice", "thinned"))
    if what == "shuffled":
        rng.shuffle(lines)
    lines = lines * 2 if what == "twice" else [line for line in lines if what != "thinned" or rng.random() < 0.5]
    path.write_bytes(b"".join(lines))
    return f"lines {what}"


def in_place(rng: random.Random, path: Path) -> str:
    """Something else where the file was."""
    path.unlink()
    makers: dict[str, Callable[[], Any]] = {
        "gone": lambda: None,
        "folder": path.mkdir,
        "FIFO": lambda: os.mkfifo(path),
        "dangling link": lambda: path.symlink_to("nowhere"),
        "link to itself": lambda: path.symlink_to(path.name),
        "device": lambda: path.symlink_to("/dev/zero"),
    }
    what = rng.choice([*makers])
    makers[what]()
    return what


def state(folder: Path) -> str:
    """A digest of all that is in it."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(
            f"{path.relative_to(folder)} {path.lstat().st_mode} {path.lstat().st_size}".encode(errors="replace")
        )
        if path.is_file() and not path.is_symlink():
            found.update(path.read_bytes())
    return found.hexdigest()
