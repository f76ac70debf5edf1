"""Builds: a VPN's own software in the place of the image's, so that two builds of one VPN are measured in one run.

A build is a file, which takes the place of one command of the plugin, or a directory, which goes over the gateway's
root. It is known by the digest of what is in it; its path is only where it was found.
"""

from __future__ import annotations

import base64
import hashlib
import io
import os
import platform
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from runner.data.errors import UsageError
from runner.lab.node import Node

NEW = "new"  # the name of a build that was given none
FORM = "--build takes VPN=PATH or VPN@NAME=PATH, as wireguard_go@new=./wireguard-go"
ELF, SCRIPT = b"\x7fELF", b"#!"
MACHINES = {"x86_64": 62, "aarch64": 183, "riscv64": 243, "armv7l": 40, "ppc64le": 21, "s390x": 22}  # elf(5), e_machine
# $0: the command. Its file is replaced at once, so that one that runs keeps its own (rename(2)).
REPLACE = (
    'to=$(command -v "$0" || echo "/usr/local/sbin/$0"); base64 -d > "$to.build" && chmod 755 "$to.build" '
    '&& mv -f "$to.build" "$to"'
)
LACKS = 'ldd "$(command -v "$0")" 2>&1 | grep "not found"'
UNPACK = "base64 -d | tar -x --no-same-owner -C /"


@dataclass(frozen=True)
class Build:
    """A build of a VPN. ``digest``: of what is in it; ``command``: the plugin's command that a file takes the place of,
    "" for a directory; ``data``: the file, or the directory as a tar archive."""

    name: str
    digest: str
    command: str
    data: bytes = field(repr=False)


def parse_build(text: str) -> tuple[str, str, Path]:
    """``wireguard_go@old=./a`` as VPN, name of the build, and path. Raises UsageError."""
    left, equals, path = text.partition("=")
    vpn, at, name = left.partition("@")
    if not (vpn and equals and path) or (at and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", name)):
        raise UsageError(f"{FORM}, not {text!r:.80}. A build's name has letters, digits, dots and hyphens")
    return vpn, name or NEW, Path(path)


def read(vpn: str, name: str, path: Path, commands: Sequence[str], daemons: Sequence[str]) -> Build:
    """The build at ``path``. ``commands``: those that the plugin runs; ``daemons``: those among them that carry its
    packets, of which a file with another name takes the place where there is one.

    Raises UsageError where nothing is there, a file cannot be run on this machine, or the VPN has no such command.
    """
    if path.is_dir():
        return _directory(vpn, name, path)
    if not path.exists():
        raise UsageError(f"--build {vpn}: there is no file or directory {path}")
    if not path.is_file():
        raise UsageError(f"--build {vpn}: {path} is neither a file nor a directory")
    if not path.stat().st_mode & 0o100:
        raise UsageError(f"--build {vpn}: {path} is not executable. Make it so: chmod +x {path}")
    data = path.read_bytes()
    if not data.startswith((ELF, SCRIPT)):
        raise UsageError(f"--build {vpn}: {path} is no program: neither ELF nor a script that begins with #!")
    _refuse_other_machine(vpn, path, data)
    return Build(name, hashlib.sha256(data).hexdigest()[:12], _command(vpn, path, commands, daemons), data)


def _directory(vpn: str, name: str, folder: Path) -> Build:
    files = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or path.is_file()]
    if not files:
        raise UsageError(f"--build {vpn}: the directory {folder} is empty. It needs files as they lie below /")
    digest, packed = hashlib.sha256(), io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in files:
            inside, mode = path.relative_to(folder), path.lstat().st_mode & 0o777
            data = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
            _refuse_other_machine(vpn, path, data)
            digest.update(f"{inside}\0{mode:o}\0{len(data)}\0".encode() + data)
            tar.add(path, str(inside), recursive=False)
    return Build(name, digest.hexdigest()[:12], "", packed.getvalue())


def put(node: Node, build: Build) -> str:
    """Put the build in its place on ``node``. Returns the libraries that a file then lacks, as ldd(1) says it; ""
    where it has all. Raises CommandError."""
    argv = ("sh", "-c", REPLACE, build.command) if build.command else ("sh", "-c", UNPACK)
    node.run(*argv, input=base64.b64encode(build.data).decode())
    if not build.command:
        return ""
    said = node.run("sh", "-c", LACKS, build.command, check=False).stdout
    return "; ".join(line.strip() for line in said.splitlines())


def _command(vpn: str, path: Path, commands: Sequence[str], daemons: Sequence[str]) -> str:
    names = [PurePosixPath(command).name for command in commands]
    if path.name in names:
        return commands[names.index(path.name)]
    own = [command for command, name in zip(commands, names, strict=True) if name in daemons] or commands
    if len(own) == 1:
        return own[0]
    raise UsageError(
        f"--build {vpn}: {vpn} has no command {path.name}. Give the file the name of the command that it takes the "
        f"place of ({', '.join(names) or 'it has none'}), or give a directory that goes over the image"
    )


def _refuse_other_machine(vpn: str, file: Path, data: bytes) -> None:
    """Raise UsageError for a program or library of another architecture."""
    if not data.startswith(ELF) or len(data) < 20:
        return
    theirs, ours = int.from_bytes(data[18:20], "little" if data[5] == 1 else "big"), MACHINES.get(platform.machine())
    if ours and theirs != ours:
        known = {number: name for name, number in MACHINES.items()}
        raise UsageError(
            f"--build {vpn}: {file} is built for {known.get(theirs, f'ELF machine {theirs}')}, and this machine is "
            f"{platform.machine()}. Build it for {platform.machine()}"
        )
