"""Kernel modules of a machine that is reached by ssh: which are not loaded, and the commands that load them."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

from runner.lab.node.answers import not_understood
from runner.lab.places.connection import Connection

FOLDER = "/lib/modules"
BOOT_FILE = "/etc/modules-load.d/vpneval.conf"  # modules-load.d(5)
# $1: the folder of all kernels' modules; then modules. For each: "loaded" (or built in), "there" to be loaded, or
# "absent"; then the kernel's release. A module's file may be called with - where its name has _.
LOOK = r"""
folder=$1/$(uname -r); shift
for module in "$@"; do
    file="/$(echo "$module" | sed 's/[-_]/[-_]/g')[.]ko"
    if test -e "/sys/module/$(echo "$module" | tr - _)" || grep -qs "$file" "$folder/modules.builtin" ||
        grep -qsw "$module" /proc/misc; then # of a kernel that tells of no built-in modules
        echo "$module loaded"
    elif grep -qs "$file[^ ]*:" "$folder/modules.dep"; then
        echo "$module there"
    else
        echo "$module absent"
    fi
done
uname -rm
"""
DEBIANS = {"x86_64": "amd64", "aarch64": "arm64"}  # names of the architectures


def absent_here(modules: Iterable[str]) -> dict[str, bool]:
    """Which of these modules this machine's kernel does not show -> whether it is sure to lack them: a kernel without
    lists of its modules may have them built in."""
    wanted = dict.fromkeys(modules)
    said = subprocess.run(["sh", "-c", LOOK, "sh", FOLDER, *wanted], capture_output=True, text=True, check=True).stdout
    sure = Path(FOLDER, os.uname().release, "modules.builtin").exists()
    return {module: sure for module in wanted if f"{module} absent" in said.splitlines()}


def lacking(connection: Connection, modules: Iterable[str], folder: str = FOLDER) -> str:
    """Sentences about those of ``modules`` that the machine has not loaded, with the commands that load them; empty
    where it has all. Raises CannotRunHere for an answer that is none."""
    said = connection.run("sh", "-c", LOOK, "sh", folder, *modules).stdout
    *lines, last = said.splitlines() or [""]
    kernel = re.fullmatch(r"([\w.+~-]+) (\w+)", last)
    if kernel is None or not all(re.fullmatch(r"[\w-]+ (loaded|there|absent)", line) for line in lines):
        raise not_understood(connection.name, f"sh and uname say {said.strip()[:80]!r}")
    release, machine = kernel.groups()
    states = [line.split() for line in lines]
    there = [module for module, how in states if how == "there"]
    absent = [module for module, how in states if how == "absent"]
    sentences = []
    if there:
        names = " ".join(there)
        sentences.append(
            f"not loaded: {names}. Load them there, as root: modprobe -a {names}. To load them at every start, too: "
            f"printf '%s\\n' {names} > {BOOT_FILE}"
        )
    if absent:
        sentences.append(
            f"its kernel {release} has no {' '.join(absent)}. On Debian, linux-image-{DEBIANS.get(machine, machine)} "
            f"has modules that the cloud kernels lack; on Ubuntu, linux-modules-extra-{release} has more"
        )
    return ". ".join(sentences)
