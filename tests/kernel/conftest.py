"""Kernel tests boot real guests: they need root, the lab image, and User Mode Linux (or QEMU and virtme-ng)."""

from pathlib import Path

import pytest

from runner import kernels
from runner.errors import CannotRunHere
from runner.image import open_image
from runner.lab import check_machine

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="session")
def uml() -> kernels.Uml:
    guest = kernels.Uml()
    try:
        check_machine()
        guest.prepare(print)
        open_image(say=print)
    except CannotRunHere as lack:
        pytest.skip(str(lack))
    return guest
