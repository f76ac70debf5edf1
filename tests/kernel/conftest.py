"""Kernel tests boot real guests: they need root, the lab image, and User Mode Linux (or QEMU and virtme-ng).

What a guest does for several tests it does once, when the first of them asks; see work.py.
"""

from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere, LabError
from runner.lab import kernels
from runner.lab.kernels.boot import DoesNotStart, run_in
from runner.lab.shape.site_to_site import check_machine
from tests.kernel.inside import Work
from tests.kernel.work import work

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(scope="session")
def first_boot() -> str:
    """Why User Mode Linux does not start; nothing where it does. Skips where the machine lacks what it needs."""
    guest = kernels.Uml()
    try:
        check_machine()
        guest.prepare(print)
        return "" if (code := run_in(guest, ["true"])) == 0 else f"true ended with exit code {code} in the guest"
    except (DoesNotStart, LabError) as unknown:
        return str(unknown)
    except CannotRunHere as lack:
        pytest.skip(str(lack))


@pytest.fixture(scope="session")
def uml(first_boot: str) -> kernels.Uml:
    """Ready to boot, as it has once."""
    if first_boot:
        pytest.skip("the guest does not start, see test_the_guest_starts")
    return kernels.Uml()


@pytest.fixture(scope="session")
def begun(uml: kernels.Uml, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Work]:
    """What guests do for tests, by its fixture's name."""
    folder = tmp_path_factory.mktemp("guests")
    return {name: Work(argv, folder / name) for name, argv in work(folder).items()}


@pytest.fixture(scope="session")
def lab_inside(begun: dict[str, Work]) -> Work:
    return begun["lab_inside"]
