"""Lab tests need root and the lab image; the image is built here if it is missing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.errors import CannotRunHere
from runner.image import Image, open_image
from runner.lab import Lab, check_machine, namespace_lab

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


def processes() -> set[int]:
    """The PIDs of this machine."""
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))
