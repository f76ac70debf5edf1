"""The order of the tests. Guests work beside them (kernel/work.py); what needs the machine for itself comes last."""

from pathlib import Path

import pytest

from tests.installed import install

HERE = Path(__file__).parent
ORDER = ("unit", "browser", "lab", "kernel", "vagrant")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=when)


def when(item: pytest.Item) -> int:
    """First what is quick; what guests do meanwhile is looked at when they have done it; then one at a time."""
    folder = item.path.relative_to(HERE).parts[0]
    if item.get_closest_marker("alone"):
        return len(ORDER)
    return ORDER.index(folder) if folder in ORDER else 0


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``vpneval`` from a wheel in an environment of its own, see installed.py."""
    return install(tmp_path_factory.mktemp("installed"))
