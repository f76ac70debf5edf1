"""AMX, and what User Mode Linux needs on a CPU that has it: ``xstate.c``, compiled here and preloaded into it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.data.errors import CannotRunHere

CPUINFO = Path("/proc/cpuinfo")
SOURCE = Path(__file__).with_name("xstate.c")
COMPILERS = ("tcc", "gcc", "cc")
PACKAGE = "tcc"  # Debian's smallest


def has_amx() -> bool:
    """Does this CPU have AMX? Sapphire Rapids and later Xeons do."""
    return CPUINFO.exists() and "amx_tile" in CPUINFO.read_text().split()


def compiler() -> str | None:
    """The C compiler of this machine."""
    return next(filter(None, map(shutil.which, COMPILERS)), None)


def compile_library(source: Path, folder: Path) -> Path:
    """The shared library of ``source``, which is kept in ``folder`` under its content's name. Raises CannotRunHere."""
    library = folder / f"{source.stem}-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}.so"
    if library.exists():
        return library
    tool = compiler()
    if tool is None:
        raise CannotRunHere(f"{source.name} needs a C compiler; get one with: apt-get install {PACKAGE}")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=folder) as partial:
        made = Path(partial) / library.name
        argv = [tool, "-shared", "-fPIC", "-nostdlib", "-o", str(made), str(source)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise CannotRunHere(f"{' '.join(argv)} failed: {done.stderr.strip()[-1000:]}")
        made.chmod(0o644)
        made.rename(library)  # whole or not at all, whoever else compiles it now
    return library
