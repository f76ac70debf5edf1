"""User Mode Linux: a Linux kernel that is an ordinary program, with the machine's own files as its root.

Its kernel and each program in it are processes of this machine, and a system call or a page fault is handed from one to
the other and back by ptrace(2). On one core that is a switch; between two it wakes the other core each time: a guest
that may use two cores starts a process in 110 ms, and a guest that is held on one core in 35.

The guest's kernel sets the registers of its processes by ptrace(2), too. On a CPU with AMX this machine's kernel
refuses that, and the guest panics at its first process, unless `xstate.c` is preloaded (decision 0056).

Debian: user-mode-linux, kmod. Sources: linux.uml --help; the kernel's
Documentation/virt/uml/user_mode_linux_howto_v2.rst.
"""

from __future__ import annotations

import itertools
import os
import platform
import random
import shutil
import socket
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.data.cache import cache_dir
from runner.data.errors import CannotRunHere
from runner.lab.kernels import xstate
from runner.lab.kernels.boot import AGENT, Attempt, Say, getting

ARCHITECTURES = ("x86_64", "i686")  # that the kernel has it for (arch/um)
MODULES = Path("/usr/lib/uml/modules")
MEMORY_MIB = 2048
SEATS = 16  # more guests than have the memory for it
TOOLS = {"linux.uml": "user-mode-linux", "modprobe": "kmod"}  # command -> Debian package
AMX = "this CPU has AMX, which User Mode Linux does not know"
REFUSED = "fatal_sigsegv"  # in its call trace, where it could not set the registers of a process


class Uml:
    """One CPU, 100 clock ticks a second; boots in about 2 s."""

    name = "uml"
    modules = MODULES

    def prepare(self, say: Say) -> None:
        """Compile what it needs on a CPU with AMX. Raises CannotRunHere as ``describe`` does, or if it fails."""
        self.describe()
        self.libraries_to_preload()

    def describe(self) -> str:
        """What there is, in a few words. Raises CannotRunHere with what is missing and how to get it."""
        if platform.machine() not in ARCHITECTURES:
            raise CannotRunHere(
                f"User Mode Linux exists for {' and '.join(ARCHITECTURES)} only, and this machine is "
                f"{platform.machine()}: use --kernel qemu"
            )
        missing = self.missing_packages()
        if commands := getting(missing):
            why = f" ({AMX}: vpneval compiles what completes it)" if xstate.PACKAGE in missing else ""
            raise CannotRunHere(
                f"User Mode Linux needs what this machine lacks{why}; get it with: {' && '.join(commands)}"
            )
        versions = sorted(path.name for path in MODULES.glob("*"))
        if not versions:
            raise CannotRunHere(
                f"{MODULES} is empty; get User Mode Linux's modules with: apt-get install --reinstall user-mode-linux"
            )
        completed = f"; {AMX}: vpneval completes it" if xstate.has_amx() else ""
        return f"{shutil.which('linux.uml')}, Linux {versions[-1]}{completed}"

    def missing_packages(self) -> list[str]:
        """The Debian packages that it needs and this machine lacks; none where there are none for this machine."""
        if platform.machine() not in ARCHITECTURES:
            return []
        missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
        return missing + [xstate.PACKAGE] * (xstate.has_amx() and xstate.compiler() is None)

    def libraries_to_preload(self) -> list[Path]:
        """The libraries that linux.uml, and nothing else, is started with. Raises CannotRunHere if one is not made, or
        if its path has what LD_PRELOAD takes for the end of a path (ld.so(8))."""
        if not xstate.has_amx():
            return []
        library = xstate.compile_library(xstate.SOURCE, cache_dir() / "kernels")
        if set(" :") & set(str(library)):
            raise CannotRunHere(
                f"{AMX}: the library that completes it is {library}, and LD_PRELOAD takes no path with a blank or a "
                "colon; set VPNEVAL_CACHE to a folder without them"
            )
        return [library]

    def attempts(self, fd: int, folders: Sequence[Path]) -> Generator[Attempt, None, None]:
        """The ways to start it: the channel is the socket ``fd``, all files are read-only but ``folders``."""
        libraries = " ".join(map(str, self.libraries_to_preload()))
        uml = [
            *(["env", f"LD_PRELOAD={libraries}"] if libraries else []),
            *("linux.uml", f"mem={MEMORY_MIB}M", "uml_dir=/dev/shm", "rootfstype=hostfs", "rootflags=/", "ro", "quiet"),
            # The kernel's console goes to the log; the channel is a line of its own.
            *("con=null", "con0=null,fd:1", f"con1=fd:{fd}"),
            *(f"init={sys.executable}", "--", "-IS", AGENT, "uml"),
        ]
        panics = {REFUSED: f"{AMX}, and what vpneval adds to it does not help"} if xstate.has_amx() else {}
        with own_cpu() as cpu:
            for boots_within_s in (60, 180):  # takes 2 s; on a machine with much else to do, once more
                argv = ["taskset", "--cpu-list", str(cpu), *uml]
                yield Attempt("uml", argv, boots_within_s, patience=4, panics=panics)


@contextmanager
def own_cpu() -> Iterator[int]:
    """Of the CPUs that this process may use, the one that the fewest other guests of this machine have.

    Each CPU has ``SEATS``. A guest has a seat while the seat's name is bound: an abstract socket's, which is freed when
    its process ends (unix(7)).
    """
    cpus = sorted(os.sched_getaffinity(0))
    for seat, cpu in itertools.product(range(SEATS), cpus):
        with socket.socket(socket.AF_UNIX) as claim:
            try:
                claim.bind(f"\0vpneval-uml-cpu-{cpu}-{seat}")
            except OSError:
                continue
            yield cpu
            return
    yield random.choice(cpus)
