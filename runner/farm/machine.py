"""The description that a machine of a farm gives of itself, and whether it may take part."""

from __future__ import annotations

import hashlib
import os
import platform
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import runner
from runner.data.errors import UsageError
from runner.data.trials import Machine
from runner.lab.node import proc
from runner.lab.readings.hardware import cpu_name
from runner.lab.software.image import open_image

EQUAL = ("kernel", "image", "versions")  # what machines must have in common, unless the user says otherwise
MAY_BE_EQUAL = (*EQUAL, "cpu", "cores", "memory_bytes")
SAME_IMAGE = "images built on different days differ; docs/farm.md, 'The same image everywhere', says how to copy one"


def name() -> str:
    """The name of this machine: ``VPNEVAL_MACHINE``, else its host name."""
    return os.environ.get("VPNEVAL_MACHINE") or platform.node()


def describe(images: Sequence[str]) -> tuple[Machine, dict[str, Any]]:
    """This machine, and of each image its digest and packages; an image that is missing is built, in minutes.

    Raises CannotRunHere where an image cannot be built or is damaged.
    """
    opened = [open_image(image, say=lambda text: None) for image in images]
    cpuinfo, meminfo = Path("/proc/cpuinfo").read_text(), Path("/proc/meminfo").read_text()
    machine = Machine(
        cpu=cpu_name(proc.first_processor(cpuinfo)),
        cores=len(os.sched_getaffinity(0)),
        memory_bytes=proc.memory_of(meminfo, "MemTotal"),
        kernel=platform.release(),
        image=" ".join(f"{image.name} {image.digest}" for image in opened),
        versions=f"{version('vpneval')} {code_digest()}",
    )
    return machine, {image.name: {"digest": image.digest, "packages": image.packages} for image in opened}


def code_digest() -> str:
    """A digest of all Python files of vpneval. Machines with different code do not measure the same."""
    digest = hashlib.sha256()
    root = Path(runner.__path__[0]).parent
    for package in ("runner", "vpns", "experiments", "questions"):
        for path in sorted((root / package).rglob("*.py")):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def parse_equal(text: str) -> list[str]:
    """``cpu,kernel`` as names of facts. Raises UsageError for others."""
    names = [fact.strip() for fact in text.split(",") if fact.strip()]
    if wrong := [fact for fact in names if fact not in MAY_BE_EQUAL]:
        raise UsageError(f"--farm-equal {wrong[0]!r}: machines can be held to {', '.join(MAY_BE_EQUAL)}")
    return names


def most_frequent(machines: Collection[Machine], equal: Sequence[str]) -> Machine:
    """One of the machines that agree with the most others in what must be equal."""
    kinds = Counter(_facts(machine, equal) for machine in machines)
    wanted = max(sorted(kinds), key=lambda kind: kinds[kind])
    return next(machine for machine in machines if _facts(machine, equal) == wanted)


def differences(machine: Machine, reference: Machine, equal: Sequence[str]) -> str:
    """Why a machine may not take part, as a clause; empty where it may."""
    ours, theirs = machine.model_dump(), reference.model_dump()
    return "; ".join(
        f"its {what} is {ours[what]}, and the run's is {theirs[what]}" + (f" ({SAME_IMAGE})" if what == "image" else "")
        for what in equal
        if ours[what] != theirs[what]
    )


def _facts(machine: Machine, equal: Sequence[str]) -> tuple[str, ...]:
    known: Mapping[str, Any] = machine.model_dump()
    return tuple(str(known[what]) for what in equal)
