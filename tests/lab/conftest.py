"""Lab tests need root and the lab image; the image is built here if it is missing."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.data.levels import Params
from runner.lab.shape.site_to_site import Lab, check_machine, namespace_lab
from runner.lab.software.image import Image, open_image
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.plugin import Vpn
from tests.lab.sites import TwoSites, two_sites

HERE = Path(__file__).parent
Supported = Callable[[Vpn, Params, Image], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
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


@pytest.fixture(scope="module")
def supported(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supported]:
    """Skips a test, with the plugin's own reason, before it makes a lab in which that VPN cannot be: about half of them
    on a kernel without IPsec. As a run does, it asks in one lab for each image of the gateways."""
    with ExitStack() as standing:
        labs: dict[Path, Lab] = {}

        def asked(vpn: Vpn, params: Params, gateways: Image) -> None:
            if gateways.root not in labs:
                logs = tmp_path_factory.mktemp("asked")
                labs[gateways.root] = standing.enter_context(namespace_lab(image, gateways, logs=logs))
            if no := vpn_refusal(labs[gateways.root], vpn, params):
                assert no.reason
                pytest.skip(f"{vpn.name}: {no.reason}")

        yield asked


@pytest.fixture(scope="module")
def boxes(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSites]:
    """Two machines of site mode, for the tests of one file; which may have its own."""
    with two_sites(image, tmp_path_factory.mktemp("sites")) as up:
        yield up


@pytest.fixture
def unchanged(boxes: TwoSites) -> Iterator[TwoSites]:
    """The machines, which must in the end be as they were."""
    from tests.lab.test_ssh_lab import as_before, settled

    before = settled(boxes)
    yield boxes
    as_before(boxes, before)


def parents() -> dict[int, int]:
    """The PIDs of this machine, each with its parent's (proc_pid_stat(5))."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):  # gone meanwhile
            found[int(pid)] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
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
