"""A parent folder of several runs, each under a kernel of its own or by a line of its own, and its index."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from runner.data.errors import UsageError
from runner.data.files import from_json, is_there, no_link, read_bytes, word, write_text

INDEX = "index.json"
FOLDER = re.compile(r"(?!\.)[\w.@+ -]+")  # what lies beside the index; never a way out of its folder


def check_parent(folder: Path) -> None:
    """Make the parent folder of several runs. Raises UsageError where something else is there already."""
    if (folder / "run.json").exists() and (folder.parent / INDEX).exists():
        again = f"--out {word(folder.parent)}"
        raise UsageError(f"{folder} is one run of a parent folder. To continue all of its runs: {again}")
    if (folder / "run.json").exists():
        raise UsageError(f"{folder} is a run folder, and several runs need a parent folder. Choose another --out")
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and not (folder / INDEX).exists())):
        raise UsageError(f"{folder} is neither empty nor a parent folder with an {INDEX}. Choose another --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {folder} cannot be made: {error.strerror}") from None


def folder_of(name: str) -> str:
    """The name of the run folder of a kernel or an uplink: ``qemu-trixie`` for ``qemu:trixie``."""
    return name.replace(":", "-")


def add_to_index(parent: Path, name: str, outcome: str, what: str = "kernel") -> None:
    """Write one run into the index of this parent folder: its kernel or uplink, its folder, how it ended."""
    path = no_link(parent / INDEX)
    index: dict[str, Any] = _index(path) if is_there(path) else {"schema_version": 1, "runs": []}
    runs = [run for run in index["runs"] if run["folder"] != folder_of(name)]
    index["runs"] = [*runs, {what: name, "folder": folder_of(name), "outcome": outcome}]
    written = path.with_suffix(".partial")
    write_text(written, json.dumps(index, indent=1) + "\n")
    written.rename(path)


def indexed_runs(folder: Path) -> list[Path] | None:
    """The run folders of a parent folder that are not empty; None if ``folder`` is no parent folder."""
    path = folder / INDEX
    if is_there(folder / "run.json") or not is_there(path):
        return None
    runs = [folder / run["folder"] for run in _index(path)["runs"]]
    return [run for run in runs if is_there(run / "run.json")]


def _index(path: Path) -> dict[str, Any]:
    """The index of a parent folder. Raises UsageError where it is none."""
    try:
        index: dict[str, Any] = from_json(read_bytes(path))
        names = [run["folder"] for run in index["runs"]]
    except (ValueError, KeyError, TypeError) as wrong:
        raise UsageError(f"{path} is not an index of runs: {type(wrong).__name__}: {wrong}") from None
    if odd := [name for name in names if not isinstance(name, str) or not FOLDER.fullmatch(name)]:
        raise UsageError(
            f"{path} is not an index of runs: {odd[0]!r:.60} is not the name of a folder beside it, like qemu-trixie"
        )
    return index
