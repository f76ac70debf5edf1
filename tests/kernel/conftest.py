"""Kernel tests boot real guests: they need root, the lab image, and User Mode Linux (or QEMU and virtme-ng)."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from runner import kernels
from runner.errors import CannotRunHere
from runner.image import open_image
from runner.lab import check_machine
from tests.kernel.inside import Inside, start

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


@pytest.fixture(scope="session")
def lab_inside(uml: kernels.Uml, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    at_work = start("tests.kernel.lab_inside", tmp_path_factory.mktemp("inside"))
    yield at_work
    at_work.process.kill()
    at_work.process.wait()


@pytest.fixture(scope="session", autouse=True)
def at_once(request: pytest.FixtureRequest) -> None:
    """A guest has one CPU: the one whose tests are looked at last works from the first kernel test on."""
    if any("lab_inside" in getattr(item, "fixturenames", ()) for item in request.session.items):
        with suppress(pytest.skip.Exception):  # to those who ask for it, it will say so
            request.getfixturevalue("lab_inside")
