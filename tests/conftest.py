"""The order and the company of the tests: side by side with ``-n``, in the order of what lasts, and some alone.

Labs are isolated, so any two tests may run at once. Those that share something made once (a module's fixture, a guest)
are one group, which one worker runs. What needs the machine for itself waits until no other test is at work.
"""

import fcntl
import os
from collections.abc import Generator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ORDER = ("kernel", "vagrant", "browser", "lab", "unit")  # what lasts longest begins first, so that nothing long is last
IN_GROUPS = ("unit", "browser", "vagrant")  # of one file each: to hand out single tests would cost more than they do


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("alone"):
            item.add_marker(pytest.mark.xdist_group("alone"))
        elif folder_of(item) in IN_GROUPS:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
    items.sort(key=when)


def folder_of(item: pytest.Item) -> str:
    return item.path.relative_to(HERE).parts[0]


def when(item: pytest.Item) -> tuple[int, int]:
    """In the order of the folders, groups before single tests; then one at a time what is alone."""
    folder, grouped = folder_of(item), item.get_closest_marker("xdist_group") is not None
    if item.get_closest_marker("alone"):
        return len(ORDER), 0
    return ORDER.index(folder) if folder in ORDER else 0, 0 if grouped else 1


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """All tests hold a lock together, one that is alone holds it for itself (before its time limit begins)."""
    folder = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        return (yield)
    finally:
        os.close(folder)
