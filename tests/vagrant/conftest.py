"""Vagrant tests need root, Vagrant with libvirt, and the local box; `make test-vagrant` gets them."""

import os
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TOOLS = {
    "vagrant": "vagrant vagrant-libvirt",
    "libvirtd": "libvirt-daemon-system",
    "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86",
    "dnsmasq": "dnsmasq-base",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.vagrant)


@pytest.fixture(scope="session")
def libvirt() -> None:
    """What the enclosure needs; skips with what is missing."""
    if os.geteuid() != 0:
        pytest.skip("a libvirtd of its own needs root")
    if missing := [tool for tool in TOOLS if shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]:
        pytest.skip(f"{', '.join(missing)} missing: apt-get install {' '.join(TOOLS[tool] for tool in missing)}")


@pytest.fixture(scope="session")
def box(libvirt: None) -> Path:
    """The catalogue of the local box."""
    catalogue = HERE.parent.parent / "vagrant/box/catalogue.json"
    if not catalogue.exists():
        pytest.skip("the local box is not built: make box")
    return catalogue
