"""A node on which somebody else's build runs: root there is no root of this machine, and the VPN misses nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.store import load_run
from runner.lab.node.namespaces import FIRST_ID, NamespaceNode
from runner.lab.shape.site_to_site import namespace_lab
from runner.lab.software.image import Image
from tests.lab.commands import trials_of, vpneval
from tests.lab.test_builds import tree

pytestmark = pytest.mark.smoke

WRITABLE = "for file in /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness; do true >> $file && echo $file; done"


@pytest.fixture
def confined(image: Image, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[NamespaceNode]:
    """A gateway whose root is no root of this machine."""
    monkeypatch.setattr(NamespaceNode, "confined", True)
    with namespace_lab(image, logs=tmp_path) as lab:
        node = lab.gateway(lab.sites[0])
        assert isinstance(node, NamespaceNode)
        if not node.has_own_users():
            pytest.skip("this kernel has no idmapped image under an overlay")
        assert not [
            lab.host1.pid for host in (lab.host1, lab.host2, lab.wan) if _users(host.pid) != _users(os.getpid())
        ]
        yield node


def _users(pid: int) -> str:
    return os.readlink(f"/proc/{pid}/ns/user")


def said(node: NamespaceNode, script: str) -> str:
    return node.run("sh", "-c", script, check=False).stdout.strip()


def test_root_of_the_node_cannot_write_what_is_the_machine_s(confined: NamespaceNode, image: Image) -> None:
    assert said(confined, WRITABLE) == ""
    assert said(confined, "cat /proc/self/uid_map").split() == ["0", str(FIRST_ID), "65536"]
    assert int(Path(f"/proc/{confined.pid}/status").read_text().partition("Uid:")[2].split()[0]) == FIRST_ID
    free = NamespaceNode("host1", image.root)
    free.wait_ready()
    try:
        assert "core_pattern" in said(free, WRITABLE), "elsewhere root of a node is root of the machine"
    finally:
        free.stop()


def test_a_daemon_has_what_it_needs(confined: NamespaceNode) -> None:
    """Other users, setuid, devices, a firewall, folders of the image replaced; and the network of the lab."""
    assert "uid=65534" in said(confined, "su -s /bin/sh nobody -c id")
    assert said(confined, "chown 33:34 /etc/hostname && stat -c %u:%g /etc/hostname") == "33:34"
    assert said(confined, "stat -c %u:%a /bin/su") == "0:4755"
    assert said(confined, "rm -r /var/log && mkdir /var/log && touch /var/log/x && ls /var/log") == "x"
    assert said(confined, "nft add table inet t && nft list tables") == "table inet t"
    assert said(confined, "sysctl -n net.ipv4.ip_forward") == "1"
    assert "1 received" in said(confined, "ping -c 1 -W 2 192.168.0.2")
    if os.path.exists("/dev/net/tun"):
        assert "tun7" in said(confined, "ip tuntap add tun7 mode tun && ip -br link show tun7")
    for device in ("null", "ppp"):
        if os.path.exists(f"/dev/{device}"):
            assert said(confined, f"true < /dev/{device} && echo opened") == "opened"
    assert "uid=0(root)" in subprocess.run(confined.argv("id"), capture_output=True, text=True).stdout  # as a shell is
    assert (confined.cpu_s() or 0.0) > 0 or confined.cpu_s() is None


def test_where_the_kernel_refuses_the_node_is_made_as_without(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NamespaceNode, "confined", True)
    monkeypatch.setattr("runner.lab.node.namespaces.FIRST_ID", (1 << 32) - 1)  # no id (user_namespaces(7))
    node = NamespaceNode("gw1", image.root)
    try:
        node.wait_ready()
        assert not node.has_own_users()
        assert said(node, "id -u") == "0"
    finally:
        node.stop()


def test_a_build_is_measured_without_the_machine_s_root(image: Image, tmp_path: Path) -> None:
    build = tree(tmp_path / "build", f"{{ cat /proc/self/uid_map; {WRITABLE}; }} >&2\n")
    out = tmp_path / "run"
    argv = ("--profile", "smallest", "--set", "measure=idle", "--reps", 1, "--out", out)
    done = vpneval("run", "transport", "--vpn", "wireguard_go", "--build", f"wireguard_go={build}", *argv)
    assert done.returncode in (0, 6), done.stderr
    assert {trial.status for trial in load_run(out)[1]} == {"ok"}
    (log,) = [trial.log for trial in trials_of(out, "wireguard_go@new")][:1]
    told = "".join(path.read_text() for path in (out / log).glob("gw*.log"))
    if "as root of the gateways' machine" in done.stderr:  # where this kernel has no such namespace, it is said
        assert "core_pattern" in told
    else:
        assert str(FIRST_ID) in told
        assert "core_pattern: Permission denied" in told
