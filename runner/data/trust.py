"""What a run folder wants of this machine that is not vpneval's own: files of code, inventories, a farm's scheduler.

A run folder may come from anybody, so that none of it is used because the folder says so: the user names it on a
command line (``--trust``), or has used the same file before: ``run`` and ``more`` note each file that their command
line names, by its path and its content, in the cache. What lies in the run folder is never used.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from runner.data.asked import AskedRun
from runner.data.cache import cache_dir
from runner.data.errors import UsageError, VpnevalError
from runner.data.files import is_folder, is_there, read_bytes, word

NOTES = "trusted"  # a folder of the cache: an empty file for each thing that a command line has named
FILES = ("site:", "ssh:")  # labs whose inventory is a file


def wants(asked: AskedRun) -> list[str]:
    """The files, and the scheduler, that this call names and that are not vpneval's own."""
    builds = [build.partition("=") for build in asked.builds]
    named = [*asked.experiments, *asked.vpns, asked.question, *(vpn for vpn, _, _ in builds)]
    files = [file for name in named for file in _files_in(name)]
    files += [*asked.instruments, *(path for _, _, path in builds)]
    files += [asked.lab.partition(":")[2] for kind in FILES if asked.lab.startswith(kind)]
    files += [asked.weights] if asked.weights.endswith((".toml", ".json")) else []
    files += [asked.farm.address] if asked.farm and not asked.farm.address.startswith("local:") else []
    return list(dict.fromkeys(files))


def _files_in(name: str) -> list[str]:
    """The file that a name may stand for: ``./mine.py``, or ``./mine.py`` in a version, ``./mine.py@2``."""
    parts = name.split("@")
    return [begin for n in range(1, len(parts) + 1) if (begin := "@".join(parts[:n])).endswith(".py")]


def note(asked: AskedRun) -> None:
    """Write down that a command line of this user has named these. What cannot be written is asked for again."""
    with suppress(OSError, VpnevalError):
        folder = cache_dir() / NOTES
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in (name for name in wants(asked) if _is_address(name) or is_there(Path(name))):
            (folder / _digest(name)).touch(0o600)


def require_trusted(asked: AskedRun, folder: Path, trusted: Sequence[str]) -> None:
    """Raise UsageError, which lists them, unless all that the run in ``folder`` wants is in ``trusted``, which are
    files, folders and addresses of this command line, or was named by an earlier one."""
    wanted = wants(asked)
    inside = [name for name in wanted if _is_in(name, folder)]
    if inside:
        raise UsageError(
            f"{folder}/run.json asks for {_list_names(inside)}, in the run folder itself. vpneval uses no file of a "
            "run folder: whoever sent the folder would decide what runs here. Copy it elsewhere if you trust it, and "
            f"give the command of the run with that file and --out {word(folder)}"
        )
    left = [name for name in wanted if not _is_trusted(name, trusted) and not _is_noted(name)]
    if left:
        raise UsageError(
            f"{folder}/run.json asks for what is not vpneval's own: {_list_names(left)}. It may run any command on "
            "this machine, or on machines that it names. Look at it; if you trust it: vpneval more "
            f"{word(folder)} {' '.join(f'--trust {word(name)}' for name in left)}"
        )


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(map(word, names))


def _is_address(name: str) -> bool:
    return "://" in name


def _is_in(name: str, folder: Path) -> bool:
    if _is_address(name):
        return False
    with suppress(OSError, ValueError):
        return Path(name).resolve().is_relative_to(folder.resolve())
    return True


def _is_trusted(name: str, trusted: Sequence[str]) -> bool:
    """Is this one of what the command line names, or a file below a folder that it names?"""
    if name in trusted:
        return True
    with suppress(OSError, ValueError):
        own = Path(name).resolve()
        return any(own.is_relative_to(Path(given).resolve()) for given in trusted)
    return False


def _is_noted(name: str) -> bool:
    with suppress(OSError, VpnevalError):
        return is_there(cache_dir() / NOTES / _digest(name))
    return False


def _digest(name: str) -> str:
    """A digest of a file's path and content; of an address, and of a folder, of the name alone."""
    if _is_address(name):
        return hashlib.sha256(name.encode()).hexdigest()
    path = Path(name).resolve()
    content = read_bytes(path) if is_there(path) and not is_folder(path) else b""
    return hashlib.sha256(str(path).encode() + b"\0" + content).hexdigest()
