"""Kernel tests boot real guests: they need root, the lab image, and User Mode Linux (or QEMU and virtme-ng).

What is only looked at in the end begins before the first test and goes on beside the others: see work.py.
"""

from collections.abc import Generator
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab import kernels
from runner.lab.site_to_site import check_machine
from tests.kernel.inside import Guests, Work, needed
from tests.kernel.work import work

HERE = Path(__file__).parent
GUESTS = pytest.StashKey[Guests]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)


def user_mode_linux() -> kernels.Uml:
    """Ready to boot. Raises CannotRunHere."""
    guest = kernels.Uml()
    check_machine()
    guest.prepare(print)
    return guest


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    guests = session.config.stash[GUESTS] = Guests()
    try:
        commands = work(guests.folder)
        wanted = [] if session.config.option.collectonly else needed(session.items, commands)
        try:
            if wanted:
                user_mode_linux()
        except CannotRunHere:
            wanted = []  # to those who ask for a guest, the fixture says so
        for name in wanted:
            guests.begin(name, commands[name])
        return (yield)
    finally:
        guests.stop()


@pytest.fixture(scope="session")
def uml() -> kernels.Uml:
    try:
        return user_mode_linux()
    except CannotRunHere as lack:
        pytest.skip(str(lack))


@pytest.fixture(scope="session")
def begun(uml: kernels.Uml, pytestconfig: pytest.Config) -> dict[str, Work]:
    """What guests work at beside the tests, by its fixture's name."""
    return pytestconfig.stash[GUESTS].work


@pytest.fixture(scope="session")
def some_vpns(begun: dict[str, Work]) -> dict[str, str]:
    return begun["some_vpns"].outcomes()


@pytest.fixture(scope="session")
def other_vpns(begun: dict[str, Work]) -> dict[str, str]:
    return begun["other_vpns"].outcomes()


@pytest.fixture(scope="session")
def lab_inside(begun: dict[str, Work]) -> Work:
    return begun["lab_inside"]
