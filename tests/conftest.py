"""The order and the company of the tests: side by side with ``-n``, in the order of what lasts, and some alone.

Labs are isolated, so any two tests may run at once. Those that share something made once (a module's fixture, a guest)
are one group, which one worker runs. What needs the machine for itself waits until no other test is at work.
"""

import fcntl
import os
import signal
from collections.abc import Generator
from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from runner.data.errors import CannotRunHere
from runner.lab.names import SUITES
from runner.lab.shape.site_to_site import check_machine
from runner.lab.software.image import open_image
from tests.tools.installed import install
from tests.tools.touched import Touched, add_options

HERE = Path(__file__).parent
ORDER = ("kernel", "vagrant", "browser", "lab", "unit")  # what lasts longest begins first, so that nothing long is last
BY_FILE = ("vagrant", "browser", "unit")  # quick tests, or tests that look at one thing that took long
# One `make compare`; machines that stand for all tests of a file.
ONE_THING = (
    "lab/test_compare_end_to_end.py",
    "lab/test_site.py",
    "lab/test_site_refusals.py",
    "lab/test_ssh_keys.py",
    "lab/test_ssh_lab.py",
)
# Files that look at one thing: a wheel, the virtual machines.
TOGETHER = {
    **dict.fromkeys(("lab/test_installed.py", "unit/cli/test_installed.py"), "one wheel"),
    **dict.fromkeys(("vagrant/test_reboots.py", "vagrant/test_site.py", "vagrant/test_vagrant.py"), "one story"),
}
# Unit tests that compute for half a minute: each by itself, and before the others of their kind.
COMPUTE = (
    "unit/tools/test_campaign.py",
    "unit/search/test_search_population.py",
    "unit/search/test_search_posterior.py",
)
# Tests that look at what a fixture has measured once: the beginnings of their names.
LOOK_AT = (
    "lab/test_secrets.py::test_no_secret_leaves_the_process",  # a run of every VPN
    "lab/test_broken_vpns.py::test_a_broken_vpn",  # a run of plugins that are broken, some of which tell their keys
    "lab/test_turns.py::test_three_tunnels_stand_together",  # a run of three tunnels
)
# Guests take longest, and each has one CPU. Groups of tests with one guest at a time each, by the beginnings of their
# names; what is left is one more. Each takes about a quarter, so that no guest is at work when all else is done.
GUESTS = (
    ("test_abilities.py::test_what_is_declared_to_be_carried",),
    ("test_abilities.py::test_what_is_declared_of_the_way", "test_levels.py"),
    ("test_ha.py", "test_security.py", "test_vpns.py", "test_wan.py"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """A script starts what runs in its background with Ctrl-C ignored, and nohup with SIGHUP ignored; so would be all
    that the tests interrupt. A signal that has a handler here does what it usually does in the programs started."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)
    if config.getoption("--since"):
        config.pluginmanager.register(Touched(config))


def group_of(test: str) -> str:
    """The tests that one worker runs, one after the other: those of a guest, those of a file, or this test alone."""
    path, _, name = test.removeprefix("tests/").partition("::")
    folder, _, file = path.partition("/")
    if path in COMPUTE:
        return test
    if folder == "kernel":
        return f"guest {[f'{file}::{name}'.startswith(tests) for tests in (*GUESTS, '')].index(True)}"
    if path in TOGETHER:
        return TOGETHER[path]
    if folder in BY_FILE or path in ONE_THING:
        return path
    return next((each for each in LOOK_AT if f"{path}::{name}".startswith(each)), test)


class Groups(LoadScopeScheduling):  # type: ignore[misc]
    """Hands the groups to the workers, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=when)


def when(item: pytest.Item) -> tuple[int, int]:
    """In the order of the folders, groups before single tests, and what computes before both; then what is alone."""
    path = item.nodeid.removeprefix("tests/").partition("::")[0]
    folder = path.partition("/")[0]
    if item.get_closest_marker("alone"):
        return len(ORDER), 0
    single = -1 if path in COMPUTE else int(group_of(item.nodeid) == item.nodeid)
    return ORDER.index(folder) if folder in ORDER else 0, single


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """All tests hold a lock together, one that is alone holds it for itself. It waits for that, and for the images of
    labs, before its time limit begins."""
    of_labs = item.path.parent in (HERE / "kernel", HERE / "lab")
    if of_labs and item.path.name.startswith("test_"):  # the others run inside a guest
        make_images()
    folder = os.open(HERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH)
        return (yield)
    finally:
        os.close(folder)


@cache
def make_images() -> None:
    """Build the images that this machine lacks, or wait for who builds them. Tests skip where it cannot."""
    with suppress(CannotRunHere):
        check_machine()
        for name in SUITES:
            open_image(name, say=print)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``vpneval`` from a wheel in an environment of its own, see installed.py."""
    return install(tmp_path_factory.mktemp("installed"))
