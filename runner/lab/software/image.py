"""The lab image: one Debian root file system with every VPN in it, built once, cached, checked when used.

The VPN software never goes onto the user's machine; mmdebstrap builds it into a folder of its own from the
package lists in ``vagrant/packages/``. Every lab's nodes have that folder as their root, read-only, under a
copy-on-write overlay.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from runner.data.cache import cache_dir, own_folder
from runner.data.errors import CannotRunHere, UsageError
from runner.data.files import await_lock, is_there, read_bytes
from runner.data.shipped import shipped_folder
from runner.lab import machine
from runner.lab.names import DEFAULT_IMAGE, SUITES, image_names

PACKAGES = shipped_folder("packages")
DEFAULT = DEFAULT_IMAGE
NODE_TOOLS = {  # what every node of a lab runs: command -> Debian package
    "bash": "bash",
    "ethtool": "ethtool",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "pkill": "procps",
    "python3": "python3",
    "ss": "iproute2",
    "sysctl": "procps",
    "tc": "iproute2",
}
MOST_LINKS = 40  # on the way to a file, as the kernel has it
IMAGES = "images"  # the folder of the cache
RECIPE = 2  # raise it when build() changes what ends up in the image


@dataclass(frozen=True)
class Image:
    """A root file system for nodes. ``packages`` maps package names to versions."""

    name: str
    root: Path
    digest: str
    packages: dict[str, str]

    def version(self, package: str) -> str:
        """The version of a Debian package in the image, or ``not installed``."""
        return self.packages.get(package, "not installed")


class Manifest(BaseModel):
    """What was built, in a file beside the image. ``packages`` maps package names to versions."""

    name: str
    packages: dict[str, str]
    dpkg_status_sha256: str


def package_list(suite: str) -> list[str]:
    """The packages of a suite: those of common.txt, then its own."""
    lines = [
        line.split("#")[0].strip()
        for name in ("common", suite)
        for line in (PACKAGES / f"{name}.txt").read_text().splitlines()
    ]
    return [line for line in lines if line]


def locate(name: str) -> Path:
    """The folder in which image ``name`` is, or would be: it changes with the package list."""
    wanted = f"{RECIPE} {name} {platform.machine()} {' '.join(package_list(name))}"
    return cache_dir() / IMAGES / f"{name}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}"


def open_image(name: str = DEFAULT, *, say: Callable[[str], None] | None = None, mirror: str = "") -> Image:
    """Image ``name``, built first if it is missing and ``say`` is given to tell of it; ``mirror``: not Debian's own.

    Raises UsageError for an unknown name, CannotRunHere where the image is missing, damaged or cannot be built.
    """
    if name == "host":
        return host_image()
    if name not in SUITES:
        raise UsageError(f"unknown image {name!r}; valid: {', '.join(image_names())}")
    root = locate(name)
    with suppress(OSError):  # it cannot be made: whoever builds the image says why
        own_folder(cache_dir() / IMAGES)
    if not is_there(root.with_suffix(".json")):
        if say is None:
            raise CannotRunHere(f"the lab image {name!r} is not built yet. Build it with: vpneval image {name}")
        build(name, root, say, mirror)
    return check(name, root)


def check(name: str, root: Path) -> Image:
    """The image at ``root``, if its package database is still the one that was recorded at the build."""
    try:
        manifest = Manifest.model_validate_json(read_bytes(root.with_suffix(".json")))
        whole = manifest.dpkg_status_sha256 == _digest(root / "var/lib/dpkg/status")
    except (UsageError, ValidationError):
        whole = False
    if not whole:
        raise CannotRunHere(
            f"the lab image at {root} was changed after it was built. Rebuild it with: vpneval image {name} --rebuild"
        )
    if damage := find_damage(root):
        raise CannotRunHere(
            f"the lab image at {root} is damaged: {'; '.join(damage)}. Rebuild it with: vpneval image {name} --rebuild"
        )
    return Image(name, root, manifest.dpkg_status_sha256[:12], manifest.packages)


def packages_of(name: str) -> dict[str, str] | None:
    """The packages of image ``name`` as they were recorded at its build; None where it is not built."""
    try:
        return Manifest.model_validate_json(read_bytes(locate(name).with_suffix(".json"))).packages
    except (UsageError, ValidationError, OSError):
        return None


def find_damage(root: Path) -> list[str]:
    """Sentences about the programs that every node needs, and that are missing in a root file system or are not what
    their package brought."""
    sentences, packed = [], _packed_md5(root)
    for tool, package in NODE_TOOLS.items():
        places = [resolve_inside(root, Path("/", folder, tool)) for folder in ("usr/bin", "usr/sbin", "bin", "sbin")]
        file = next((place for place in places if place and place.is_file()), None)
        if file is None or not file.stat().st_mode & 0o100:
            sentences.append(f"{tool} (package {package}) is missing")
            continue
        was = packed.get(str(file.relative_to(root)).removeprefix("usr/"))
        if was and was != hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest():
            sentences.append(f"{tool} (package {package}) is not the file that was installed")
    return sentences


def resolve_inside(root: Path, path: Path) -> Path | None:
    """The real place of ``path`` of a root file system, its links followed as a process in it would; None where there
    is none."""
    here, left, links = root, list(path.parts[1:]), 0
    while left:
        part = left.pop(0)
        here = here.parent if part == ".." and here != root else here if part == ".." else here / part
        if here.is_symlink():
            to = Path(os.readlink(here))
            here, left, links = (
                root if to.is_absolute() else here.parent,
                [*to.parts[to.is_absolute() :], *left],
                links + 1,
            )
        if links > MOST_LINKS:
            return None
    return here if here.exists() else None


def _packed_md5(root: Path) -> dict[str, str]:
    """The MD5 of each program as its Debian package brought it (dpkg(1), md5sums), by its name without ``usr/``."""
    digests = {}
    for sums in (root / "var/lib/dpkg/info").glob("*.md5sums"):
        for line in sums.read_text(errors="replace").splitlines():
            digest, _, name = line.partition("  ")
            if "bin/" in name:
                digests[name.removeprefix("usr/")] = digest
    return digests


def host_image() -> Image:
    """The host's own root as an image: it has the VPNs that the host has, and no others."""
    lacks = [tool for tool in NODE_TOOLS if shutil.which(tool) is None]
    if lacks:
        packages = " ".join(sorted({NODE_TOOLS[tool] for tool in lacks}))
        raise CannotRunHere(f"--image host: this machine has no {', '.join(lacks)}; apt-get install {packages}")
    return Image("host", Path("/"), "host", installed_packages(Path("/")))


def installed_packages(root: Path) -> dict[str, str]:
    """Package versions from a root's dpkg database; empty where there is none."""
    status = root / "var/lib/dpkg/status"
    if not status.exists():
        return {}
    versions: dict[str, str] = {}
    package = ""
    for line in status.read_text(errors="replace").splitlines():
        if line.startswith("Package: "):
            package = line[9:]
        elif line.startswith("Version: "):
            versions[package] = line[9:]
    return versions


def check_mirror(mirror: str) -> None:
    """Raise UsageError for what mmdebstrap(1) does not take as a mirror."""
    is_file = mirror.startswith("/") and is_there(Path(mirror))
    if not is_file and not re.fullmatch(r"(https?|ftp|file|copy)://\S+", mirror):
        raise UsageError(
            f"--mirror {mirror!r:.80} is no mirror. Valid: a URL, as http://mirror.example/debian, or the whole path "
            "of a file with the lines of sources.list(5)"
        )


def build(name: str, root: Path, say: Callable[[str], None], mirror: str = "") -> None:
    """Build the image atomically: in a mount namespace of its own, renamed when whole.

    Killed at any point it leaves a ``.partial`` folder, which the next build removes, and no mount or process.
    """
    if os.geteuid() != 0:
        own = Path(sys.argv[0])  # not ours in a worker of a farm
        program = own if own.name.startswith("vpneval") else "vpneval"
        raise CannotRunHere(f"building the lab image needs root. Once: sudo {program} image {name}")
    if wrong := machine.no_capability(machine.CAPABILITIES | machine.TO_BUILD):
        raise CannotRunHere(f"the lab image cannot be built: {wrong}")
    if shutil.which("mmdebstrap") is None:
        raise CannotRunHere("mmdebstrap is missing; get it with: apt-get install mmdebstrap")
    try:
        own_folder(cache_dir() / IMAGES)
    except OSError as error:
        why = f"{error.strerror}; VPNEVAL_CACHE names another folder for it"
        raise CannotRunHere(f"the lab image cannot be stored in {root.parent}: {why}") from None
    with _one_at_a_time(root.parent / ".lock", say):
        if root.with_suffix(".json").exists():
            return  # somebody else built it while we waited
        partial = root.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
        say(
            f"vpneval builds the lab image {name} "
            f"({SUITES[name]}, {len(package_list(name))} packages and their dependencies)"
        )
        started = time.monotonic()
        log = root.with_suffix(".log")
        if _mmdebstrap(name, partial, mirror, log) != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
            other = "" if mirror else f"\nTo use another Debian mirror: vpneval image {name} --mirror URL"
            raise CannotRunHere(f"mmdebstrap could not build the image {name} (whole log: {log}):\n{tail}{other}")
        for key in (partial / "etc/ssh").glob("ssh_host_*"):
            key.unlink()  # host keys are made fresh for each run
        manifest = Manifest(
            name=name,
            packages=installed_packages(partial),
            dpkg_status_sha256=_digest(partial / "var/lib/dpkg/status"),
        )
        partial.rename(root)
        written = root.with_suffix(".json.partial")
        written.write_text(manifest.model_dump_json(indent=1))
        written.rename(root.with_suffix(".json"))
        say(f"lab image {name} built in {time.monotonic() - started:.0f} s: {root}")


def _mmdebstrap(name: str, folder: Path, mirror: str, log: Path) -> int:
    """Unpack the image's packages into ``folder``. Returns the exit code."""
    with log.open("wb") as out:
        done = subprocess.run(
            [
                *("setpriv", "--pdeathsig", "KILL"),
                *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *("mmdebstrap", "--variant=minbase", "--include=" + ",".join(package_list(name))),
                *(name, str(folder), *([mirror] if mirror else [])),
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
            start_new_session=True,
            umask=0o022,  # the caller may have another
        )
    return done.returncode


def remove(name: str) -> None:
    """Remove a built image, so that the next use builds it anew."""
    root = locate(name)
    root.with_suffix(".json").unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)


def _digest(path: Path) -> str:
    return hashlib.sha256(read_bytes(path)).hexdigest()


@contextmanager
def _one_at_a_time(lock: Path, say: Callable[[str], None]) -> Iterator[None]:
    with lock.open("w") as file:
        await_lock(file, say)
        yield
