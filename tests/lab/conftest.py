"""Lab tests need root and the lab image; the image is built here if it is missing."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.image import Image, open_image
from runner.lab.site_to_site import Lab, check_machine, namespace_lab

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.lab)


@pytest.fixture(scope="session")
def image() -> Image:
    try:
        check_machine()
        return open_image(say=print)
    except CannotRunHere as lack:
        pytest.skip(str(lack))


@pytest.fixture
def lab(image: Image, tmp_path: Path) -> Iterator[Lab]:
    with namespace_lab(image, logs=tmp_path) as up:
        yield up


def parents() -> dict[int, int]:
    """The PIDs of this machine, each with its parent's (proc_pid_stat(5))."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # gone meanwhile
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    return found


def below(pids: set[int], above: Mapping[int, int]) -> set[int]:
    """All processes below ``pids`` in what ``parents`` has said."""
    found = set(pids)
    while more := {child for child, parent in above.items() if parent in found} - found:
        found |= more
    return found - pids


def descendants(pid: int) -> set[int]:
    """All processes below ``pid``. Not by /proc/PID/task/TID/children, which leaves some out while others end."""
    return below({pid}, parents())


def running(pids: set[int]) -> set[int]:
    """Those of ``pids`` that still run. A zombie that waits for init to look at it does not, unless other threads of
    its process do."""
    alive = set()
    for pid in pids:
        with suppress(OSError):  # gone
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            if fields[0] not in "ZX" or int(fields[17]) > 1:
                alive.add(pid)
    return alive


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))
