"""A block on the machine that measures it: a vpneval process of its own, and a spool that keeps what is finished.

All of this runs on a worker. A worker's machine has one lab at a time: a lock file in the spool says so.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter
from typing_extensions import TypedDict

from runner.data.cache import cache_dir
from runner.data.errors import VpnevalError
from runner.data.files import from_json, hold_lock, open_file, read_bytes, write_text
from runner.data.kinds import Count, Strict
from runner.data.own_program import again
from runner.data.trials import Machine
from runner.farm import machine

PACKED = ".block.gz"
FILES = ("run.json", "trials.jsonl", "slices.jsonl")
GRACE_S = 20  # in which a block that is ended may take its lab down
SAID = 2000  # characters of what a broken block said
# Bytes; a block of all VPNs has some 10 MB of files.
MOST_PACKED = 32 << 20
MOST_UNPACKED = 256 << 20
MOST_HEAD = 4 << 20  # of the files' names and sizes
HEAD = TypeAdapter(dict[str, Count])


class BlockError(VpnevalError):
    """A block came to nothing; the text says why. Another machine measures it."""


class ImageFacts(TypedDict):
    """A lab image of a machine. ``packages`` maps package names to versions."""

    digest: str
    packages: dict[str, str]


class Introduction(Strict):
    """What a machine says of itself: its name, which becomes a part of file names, its lab images, and the blocks that
    it ``has`` or measures."""

    name: Annotated[str, StringConstraints(pattern=r"^\w[\w.+-]{0,199}$")]
    machine: Machine
    images: dict[str, ImageFacts]
    has: set[int]


def spool() -> Path:
    """The folder in which a machine keeps what it has measured, for its owner alone: ``VPNEVAL_SPOOL``, else beside the
    images."""
    folder = Path(os.environ.get("VPNEVAL_SPOOL") or cache_dir() / "farm")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def introduce(run: str, images: Sequence[str], again: Mapping[int, str]) -> dict[str, Any]:
    """The answer to the first question of the coordinator of ``run``: what the machine is, and which blocks it has or
    measures.

    ``again``: blocks that are to be measured once more, each with the start time of a trial that the run folder has of
    it. A finished block with that trial is deleted. Raises CannotRunHere where the machine cannot have the lab images.
    """
    described, packages = machine.describe(images)
    _unlink(
        run, [number for number in _finished_blocks(run) if number in again and again[number] in _begins(run, number)]
    )
    return {
        "name": machine.name(),
        "machine": described.model_dump(),
        "images": packages,
        "has": sorted({*_finished_blocks(run), *_playing(run)}),
    }


def play(run: str, block: int, request: Mapping[str, Any], timeout_s: float, stored: Sequence[int] = ()) -> bytes:
    """The finished block, packed: measured now or earlier. ``request``: what ``vpneval run`` was asked for; ``stored``:
    blocks that the run folder has, which are deleted here. Raises BlockError."""
    home = spool() / run
    packed = home / f"{block}{PACKED}"
    _unlink(run, stored)
    with _lab(run, block):
        home.mkdir(exist_ok=True, mode=0o700)
        if not packed.exists():
            folder = home / str(block)
            shutil.rmtree(folder, ignore_errors=True)  # half a block is begun anew
            folder.mkdir()
            asked = folder / "request.json"
            write_text(asked, json.dumps({**request, "repetition": block, "out": str(folder / "run")}))
            try:
                _measure(run, asked, timeout_s)
                _write(pack(_files_of(folder / "run")), packed)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
        return packed.read_bytes()


def stop(run: str, stored: Sequence[int]) -> None:
    """After an interrupt by the user, end what this worker measures for the run, with its lab, and delete the
    ``stored`` blocks. Returns when that is done. Blocks that are finished and not stored are kept."""
    child = _children.get(run)
    if child is not None:
        _end(child)
    until = time.monotonic() + GRACE_S
    while any(path.is_dir() for path in (spool() / run).glob("*")) and time.monotonic() < until:
        time.sleep(0.05)  # the thread that waited for the child removes what it left
    drop(run, stored)


def drop(run: str, stored: Sequence[int]) -> None:
    """Delete these blocks, which are in the run folder."""
    _unlink(run, stored)
    with suppress(OSError):  # something finished is in it, or there is none
        (spool() / run).rmdir()


def forget(run: str) -> None:
    """Delete everything of a run that is complete."""
    shutil.rmtree(spool() / run, ignore_errors=True)


def _unlink(run: str, stored: Sequence[int]) -> None:
    for number in stored:
        (spool() / run / f"{number}{PACKED}").unlink(missing_ok=True)


def _finished_blocks(run: str) -> list[int]:
    return [int(path.name.removesuffix(PACKED)) for path in (spool() / run).glob(f"*{PACKED}")]


def _begins(run: str, block: int) -> set[str]:
    """The start times of the trials of a finished block."""
    with suppress(BlockError, OSError):  # it is told when the block is asked for
        lines = unpack((spool() / run / f"{block}{PACKED}").read_bytes())["trials.jsonl"].splitlines()
        return {from_json(line)["started_at"] for line in lines}
    return set()


def _playing(run: str) -> list[int]:
    """The block that another thread still measures, for a coordinator that is gone."""
    path = spool() / "lab.lock"
    if not path.exists():
        return []
    with open_file(path, "r") as file:
        if hold_lock(file, shared=True, wait=False):
            return []  # nobody measures
        text = file.read()
    try:
        playing = from_json(text)
    except ValueError:
        return []
    return [playing["block"]] if playing["run"] == run else []


@contextmanager
def _lab(run: str, block: int) -> Iterator[None]:
    """Wait for this machine's only lab, and hold it."""
    with open_file(spool() / "lab.lock", "a") as lock:
        hold_lock(lock)
        lock.truncate(0)
        lock.write(json.dumps({"run": run, "block": block}))
        lock.flush()
        yield


_children: dict[str, subprocess.Popen[bytes]] = {}  # what this worker measures now, by the key of its run


def _measure(run: str, asked: Path, timeout_s: float) -> None:
    """Run ``vpneval block``, which dies with this worker. Raises BlockError where it fails or takes too long."""
    argv = ["setpriv", "--pdeathsig", "KILL", *again("block", str(asked))]
    log = asked.with_name("said")
    with open_file(log, "w") as output:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        _children[run] = child
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise BlockError(f"it did not end within {timeout_s:.0f} s") from None
        finally:
            _end(child)
            del _children[run]
    if code:
        tail = log.read_text(errors="replace")[-SAID:].strip()
        raise BlockError(f"vpneval ended with exit code {code}: {tail}")


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the process if it still runs: with SIGTERM first, so that it takes its lab down."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is None:
            child.send_signal(sign)
            try:
                child.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                continue


def _files_of(folder: Path) -> dict[str, bytes]:
    """The data and the logs of a run folder."""
    paths = [folder / name for name in FILES] + sorted((folder / "logs").rglob("*"))
    there = [path for path in paths if path.is_file() and not path.is_symlink()]
    return {str(path.relative_to(folder)): read_bytes(path) for path in there}


def _write(content: bytes, packed: Path) -> None:
    """Write a file that is either whole or not there. Raises BlockError for what no coordinator takes."""
    if len(content) > MOST_PACKED:
        raise BlockError(f"it has {len(content) >> 20} MiB of data and logs; at most {MOST_PACKED >> 20} are sent")
    partial = packed.with_suffix(".partial")
    with open_file(partial, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(packed)


def pack(files: Mapping[str, bytes]) -> bytes:
    """The files as one piece for ``unpack``: their names and sizes, a line of JSON, and behind it their bytes."""
    head = json.dumps({name: len(content) for name, content in files.items()})
    return gzip.compress(b"".join([head.encode(), b"\n", *files.values()]), compresslevel=3)


LOG = re.compile(r"logs/[\w.,:+=-]+(/[\w.,:+=-]+)*")  # what a block may bring besides FILES; no hidden way up


def unpack(packed: object) -> dict[str, bytes]:
    """The files of a worker's answer: their names, relative to a run folder, and their bytes. Raises BlockError for
    what is no packed block, and for a file that no block has."""
    if not isinstance(packed, bytes):
        raise BlockError(f"its answer is no packed block, but {packed!r:.80}")
    try:
        with gzip.open(io.BytesIO(packed)) as file:
            head, _, content = file.read(MOST_HEAD + MOST_UNPACKED + 1).partition(b"\n")
        sizes = HEAD.validate_json(head[:MOST_HEAD], strict=True)
    except (OSError, EOFError, zlib.error, ValueError) as wrong:
        raise BlockError(f"its answer cannot be unpacked: {wrong!s:.200}") from None
    if len(content) > MOST_UNPACKED:
        raise BlockError(f"its answer has more than {MOST_UNPACKED >> 20} MiB of files")
    if sum(sizes.values()) != len(content):
        raise BlockError(f"its answer has {len(content)} bytes of files, and says that it has {sum(sizes.values())}")
    if odd := [name for name in sizes if name not in FILES and not _is_log(name)]:
        raise BlockError(f"its answer has {odd[0]!r:.100}, which is no file of a run")
    if missing := [name for name in FILES[:2] if name not in sizes]:
        raise BlockError(f"its answer has no {missing[0]}")
    files, begin = dict[str, bytes](), 0
    for name, size in sizes.items():
        files[name] = content[begin : begin + size]
        begin += size
    return files


def _is_log(name: str) -> bool:
    return bool(LOG.fullmatch(name)) and ".." not in name.split("/")
