"""What a public box gets: the packages of the one list, by apt, and no service of theirs enabled."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.lab.software.image import PACKAGES, installed_packages, package_list

PROVISION = PACKAGES.parent / "provision.sh"
# What a public box has before, in its bare bones: an init and apt.
BARE = "iproute2,systemd-sysv"
ENCLOSE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain Debian 13 without the lab's packages, and the project's package lists in /tmp/packages."""
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        pytest.skip("needs root and mmdebstrap")
    root = tmp_path_factory.mktemp("machine") / "root"
    made = subprocess.run(
        [*ENCLOSE, "mmdebstrap", "--variant=minbase", f"--include={BARE}", "trixie", str(root)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no plain Debian to be had: {made.stderr[-300:]}")
    shutil.copytree(PACKAGES, root / "tmp/packages")
    shutil.copy(PROVISION, root / "tmp/provision.sh")
    return root


def on(machine: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the machine's root file system."""
    inside = ("env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C", *argv)
    # Nothing that a package starts would survive the PID namespace, nor be able to listen outside of it.
    mounted = 'mount -t proc proc "$0/proc"; mount --rbind /dev "$0/dev"; exec chroot "$0" "$@"'
    return subprocess.run(
        [*ENCLOSE, "sh", "-c", mounted, str(machine), *inside],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def enabled(machine: Path) -> set[str]:
    listed = on(machine, "systemctl", "list-unit-files", "--state=enabled", "--no-legend", "--no-pager")
    assert listed.returncode == 0, listed.stderr
    return {line.split()[0] for line in listed.stdout.splitlines()}


@pytest.mark.timeout(1800)
def test_all_packages_and_no_service(machine: Path) -> None:
    before = enabled(machine)
    done = on(machine, "bash", "/tmp/provision.sh", "/tmp/packages")
    assert done.returncode == 0, done.stderr
    assert set(package_list("trixie")) <= set(installed_packages(machine))
    assert "strongswan.service" in done.stderr, "the control: a package did enable its service"
    fresh = enabled(machine) - before
    assert all(unit.startswith("ssh") for unit in fresh), fresh
    assert not (machine / "usr/sbin/policy-rc.d").exists()


def test_another_debian_is_refused_in_a_sentence(machine: Path) -> None:
    (machine / "tmp/empty").mkdir()
    done = on(machine, "bash", "/tmp/provision.sh", "/tmp/empty")
    assert done.returncode == 3
    assert "no package list for Debian GNU/Linux 13" in done.stderr
