"""Vagrant tests need root, Vagrant with libvirt, and the local box; `make test-vagrant` gets them."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.vagrant import story

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
LAB = PROJECT / "vagrant" / "lab.yml"
TOOLS = {
    "vagrant": "vagrant vagrant-libvirt",
    "libvirtd": "libvirt-daemon-system",
    "virsh": "libvirt-clients",
    "qemu-system-x86_64": "qemu-system-x86",
    "dnsmasq": "dnsmasq-base",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.vagrant)
            if "results" in getattr(item, "fixturenames", ()):  # whichever is the first of them waits for the story
                item.add_marker(pytest.mark.timeout(story.WITHIN_S + 60))


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
    catalogue = PROJECT / "vagrant/box/catalogue.json"
    if not catalogue.exists():
        pytest.skip("the local box is not built: make box")
    return catalogue


def lab_file(folder: Path, **changed: object) -> Path:
    """The project's lab.yml with some entries changed."""
    text = LAB.read_text()
    for key, value in changed.items():
        text, found = re.subn(rf"^{key}: .*$", f"{key}: {value}", text, flags=re.MULTILINE)
        assert found == 1, key
    path = folder / "lab.yml"
    path.write_text(text)
    return path


def enclosed(*argv: str, lab: Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run a command beside a libvirtd of its own, in namespaces of their own."""
    return subprocess.run(
        [str(HERE / "enclosure.sh"), *argv],
        env={**os.environ, "VPNEVAL_LAB_YML": str(lab)},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.fixture(scope="session")
def results(box: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole story, told once: up, three experiments, report, a machine that dies, destroy."""
    folder = tmp_path_factory.mktemp("story")
    lab = lab_file(folder, driver="qemu", box="local", boot_timeout_s=1800)
    interfaces = sorted(os.listdir("/sys/class/net"))
    told = enclosed(str(HERE / "story.sh"), str(folder), lab=lab, timeout_s=story.WITHIN_S)
    (folder / "phases").write_text(told.stdout)
    print(told.stdout, told.stderr)
    assert sorted(os.listdir("/sys/class/net")) == interfaces, "an interface of the lab is on the host"
    return folder
