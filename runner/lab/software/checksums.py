"""Is the software still what its Debian packages brought? Asked when something in a lab has failed: a damaged file is
no fault of the VPN that runs it."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from runner.data.errors import LabError, VpnevalError
from runner.lab.software import layers
from runner.lab.software.image import NODE_TOOLS, Image, resolve_inside

STATUS = "var/lib/dpkg/status"
SHOWN = 3  # damaged files in a sentence
CHUNK = 1 << 20


def damage(images: Iterable[Image], packages: Iterable[str], layer: str = "") -> str:
    """The sentence about what is damaged of these packages, of what they depend on, and of a ``layer``, with the
    command that mends it; "" where nothing is. The host's own root is the user's, and is not looked at."""
    wanted = tuple(sorted({*packages, *NODE_TOOLS.values()}))
    for image in images:
        if image.root == Path("/") or not (image.root / STATUS).is_file():  # the latter: it is on another machine
            continue
        mended = f"Rebuild it with: vpneval image {image.name} --rebuild"
        if found := _find_damage(image.root, wanted):
            more = f", and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
            return f"the lab image at {image.root} is damaged: {'; '.join(found[:SHOWN])}{more}. {mended}"
        if layer and not _unpacks(tar := layers.locate(layer, image.name)):
            return f"the layer at {tar} is damaged. Remove it and run: vpneval image {image.name} --layer {layer}"
    return ""


@contextmanager
def damage_told(*images: Image | None) -> Iterator[None]:
    """For a block in a lab of these images, whose trials' failures do not leave it. Where it fails and an image is
    damaged, the LabError says that."""
    try:
        yield
    except VpnevalError as error:
        if why := damage(filter(None, images), ()):
            raise LabError(why) from error
        raise


@cache
def _find_damage(root: Path, packages: tuple[str, ...]) -> tuple[str, ...]:
    """What ``dpkg --verify`` would say of the packages and their dependencies, in sentences (dpkg(1), md5sums)."""
    diverted = _diverted_files(root / "var/lib/dpkg/diversions")
    return tuple(
        sentence for package in _with_dependencies(root, packages) for sentence in _of_package(root, package, diverted)
    )


@cache
def _of_package(root: Path, package: str, diverted: frozenset[str]) -> tuple[str, ...]:
    info, found = root / "var/lib/dpkg/info", []
    for sums in [*info.glob(f"{package}.md5sums"), *info.glob(f"{package}:*.md5sums")]:
        for line in sums.read_text(errors="replace").splitlines():
            digest, _, name = line.partition("  ")
            file = resolve_inside(root, Path("/", name))
            if f"/{name}" in diverted:
                continue
            if file is None or not file.is_file():
                found.append(f"{name} (package {package}) is missing")
            elif _md5(file) != digest:
                found.append(f"{name} (package {package}) is not the file that was installed")
    return tuple(found)


def _md5(file: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    try:
        with file.open("rb") as data:
            while part := data.read(CHUNK):
                digest.update(part)
    except OSError:  # a disk that cannot read it any more
        return ""
    return digest.hexdigest()


def _with_dependencies(root: Path, packages: Iterable[str]) -> list[str]:
    """The packages with all that they depend on, as far as it is installed (deb-control(5))."""
    needs, provides = {}, dict[str, set[str]]()
    for entry in (root / STATUS).read_text(errors="replace").split("\n\n"):
        fields = dict(re.findall(r"^(Package|Depends|Pre-Depends|Provides): (.*)$", entry, re.MULTILINE))
        if name := fields.get("Package"):
            needs[name] = {*_names(fields.get("Depends", "")), *_names(fields.get("Pre-Depends", ""))}
            for other in _names(fields.get("Provides", "")):
                provides.setdefault(other, set()).add(name)
    found, left = set[str](), {*packages}
    while left:
        name = left.pop()
        if name not in found and name in needs:
            found.add(name)
            left |= needs[name]
        left |= provides.get(name, set()) - found
    return sorted(found)


def _names(relations: str) -> Iterator[str]:
    """The packages in a list of relations; of alternatives, each."""
    for relation in re.split(r"[,|]", relations):
        if word := re.match(r"\s*([a-z0-9][a-z0-9+.-]*)", relation):
            yield word[1]


def _diverted_files(diversions: Path) -> frozenset[str]:
    """The files in the place of which a package has put its own (dpkg-divert(1)): original, new, package."""
    return frozenset(diversions.read_text().splitlines()[::3]) if diversions.exists() else frozenset()


def _unpacks(layer: Path) -> bool:
    """Is it whole? Its own checksum says so (RFC 1952). One that was never built is not damaged."""
    if not layer.exists():
        return True
    if not layer.stat().st_size:  # gzip(3) takes it for an archive of nothing
        return False
    try:
        with gzip.open(layer) as data:
            while data.read(CHUNK):
                pass
    except (OSError, EOFError, zlib.error):
        return False
    return True
