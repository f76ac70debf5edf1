"""The unit of a written recipe, under a systemd of each gateway's own: it starts the tunnel now and at every boot,
starts it again when a daemon ends; stopped, the way to the other site is closed, and down.sh takes all of it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.lab.node import Completed, LabNode, wait_until
from runner.lab.software.image import Image
from tests.lab.by_hand import closing, copied, name_of
from tests.lab.commands import vpneval
from tests.lab.sites import BOXES, OWN_FIREWALL, TwoSites, two_sites
from tests.lab.test_ssh_lab import settled

LANS = {"gw1": "10.20.0.1", "gw2": "10.30.0.1"}
DAEMONS = {"wireguard_go": "wireguard-go", "openvpn": "openvpn", "ipsec_user": "charon-systemd"}
# A systemd that manages this box's processes and nothing else: in a control group of its own, and with the machine's
# sysctls out of reach, but for those of the network, which are the box's own.
# $1: the control group's name.
BOOT = """
mkdir -p /run/groups && mount -t cgroup2 none /run/groups
mkdir "/run/groups/$1" && echo 0 > "/run/groups/$1/cgroup.procs"
exec unshare --cgroup --pid --mount --fork --kill-child --mount-proc sh -ec '
    mount -t cgroup2 none /sys/fs/cgroup
    mount --bind /proc/sys /proc/sys
    mount --bind /proc/sys/net /proc/sys/net
    mount -o remount,bind,ro /proc/sys
    mount -t tmpfs tmpfs /run
    mkdir -p /run/lock
    exec env -i container=other PATH="$PATH" /lib/systemd/systemd --show-status=no
'
"""
UNUSED = """
rm -rf /etc/systemd/system/*.wants
cd /usr/lib/systemd/system
ls -d *.target.wants/* | sed 's|.*/||' | grep -v '^systemd-journald' | while read -r unit; do
    ln -sf /dev/null "/etc/systemd/system/$unit"
done
"""
pytestmark = pytest.mark.timeout(300)


class Booted:
    """A box with a systemd, and the box's own ``node``."""

    def __init__(self, node: LabNode) -> None:
        self.node, self.group = node, f"vpneval-{node.name}-{node.pid}"
        node.run("bash", "-c", UNUSED)
        self.boot()

    def boot(self) -> None:
        """Start the machine; return when its systemd answers."""
        self._process = self.node.spawn("bash", "-ec", BOOT, "boot", self.group, log="systemd")
        wait_until(self._answers, f"systemd of {self.node.name}: {self.node.read_log('systemd')}", 60, 0.2)

    def _answers(self) -> bool:
        assert self._process.alive(), self.node.read_log("systemd")
        return bool(self._pid()) and self.run("systemctl", "is-system-running").stdout.strip() in (
            "running",
            "degraded",
        )

    def _pid(self) -> str:
        # The oldest: a child has its name until it is another program.
        return self.node.run("pgrep", "-o", "-x", "systemd", check=False).stdout.strip()

    def run(self, *argv: str) -> Completed:
        """Run a command beside that systemd, as a login would."""
        return self.node.run("nsenter", "-t", self._pid(), "-m", "-p", "-C", *argv, check=False, timeout=60)

    def off(self) -> None:
        """Switch the machine off, at once; its disk stays."""
        self._process.stop()
        wait_until(lambda: not self._pid(), "its end")
        self.node.run(
            "bash", "-c", f"find /run/groups/{self.group} -depth -type d -exec rmdir {{}} +; umount /run/groups"
        )

    def unit(self, kind: str = "tunnel") -> str:
        """The tunnel's unit, or that of its closing."""
        return f"vpneval-{kind}@{name_of(self.node)}.service"

    def says(self) -> str:
        """What the unit has said, for a failure's text."""
        return self.run("systemctl", "status", "--no-pager", "--lines=30", self.unit()).stdout


@contextmanager
def booted(boxes: TwoSites) -> Iterator[tuple[Booted, Booted]]:
    """Both gateways with a systemd."""
    up: list[Booted] = []
    try:
        for name in BOXES:
            up.append(Booted(boxes.nodes[name]))
        yield up[0], up[1]
    finally:
        for box in up:
            box.off()


@pytest.mark.parametrize("name", sorted(DAEMONS))
def test_the_unit_of_a_written_recipe(image: Image, tmp_path: Path, name: str) -> None:
    with two_sites(image, tmp_path) as boxes:
        own: dict[str, dict[str, object]] = {
            gateway: {"wan_address": BOXES[gateway], "network": f"{lan[:-1]}0/24"} for gateway, lan in LANS.items()
        }
        wrote = vpneval("recipe", name, "--site", boxes.sites(own), "--write", tmp_path / "out")
        assert wrote.returncode == 0, wrote.stderr
        for gateway, lan in LANS.items():
            node = boxes.nodes[gateway]
            copied(tmp_path / "out", node)
            node.run("ip", "link", "add", "lan0", "up", "type", "bridge")
            node.run("ip", "addr", "add", f"{lan}/24", "dev", "lan0")
        settled(boxes)
        before = {gateway: network(boxes.nodes[gateway]) for gateway in BOXES}
        with booted(boxes) as (near, far):

            def answered() -> bool:
                ping = ("ping", "-c1", "-W1", "-I", LANS["gw1"], LANS["gw2"])
                return near.node.run(*ping, check=False).code == 0

            def up(what: str) -> None:
                try:
                    wait_until(answered, what, 60, 0.2)
                except TimeoutError as late:
                    raise AssertionError(f"{late}\n{near.says()}\n{far.says()}") from late

            for box in (near, far):
                done = box.run("/root/tunnel/up.sh")
                assert done.code == 0, done.stderr
                judged = box.run("systemd-analyze", "verify", box.unit(), box.unit("closed"))
                assert (judged.code, judged.stderr) == (0, ""), judged.stderr
            up("the tunnel, now")
            assert near.run("systemctl", "is-enabled", near.unit()).stdout.strip() == "enabled"

            near.node.run("pkill", "-KILL", "-x", DAEMONS[name])
            restarts = ("systemctl", "show", "--property=NRestarts", "--value", near.unit())
            wait_until(lambda: near.run(*restarts).stdout.strip() not in ("", "0"), near.says(), 30, 0.2)
            up("the tunnel, after its daemon was killed")

            for box in (near, far):
                box.off()
                box.boot()
            up("the tunnel, after a start of both machines")
            near.node.run("nft", "-f", "-", input=f"flush ruleset\n{OWN_FIREWALL}")
            assert "flags owner" in near.node.run("nft", "list", "table", "ip", closing(near.node)).stdout
            assert near.run("systemctl", "kill", "--signal=KILL", near.unit("closed")).code == 0
            held = ("nft", "list", "table", "ip", closing(near.node))
            wait_until(lambda: "flags owner" in near.node.run(*held, check=False).stdout, "its closing, anew", 20, 0.2)

            for box in (near, far):
                assert box.run("systemctl", "stop", box.unit()).code == 0, box.says()
            assert not answered()
            assert "unreachable 10.30.0.0/24" in near.node.run("ip", "route").stdout, "stopped means closed"
            for box in (near, far):
                assert box.run("/root/tunnel/down.sh").code == 0
            for gateway in BOXES:
                assert network(boxes.nodes[gateway]) == before[gateway], "down takes it back"


def network(node: LabNode) -> str:
    """A machine's addresses, routes, rules, policies and firewall."""
    looks = ("ip -br addr", "ip route show table all", "ip rule", "ip xfrm policy", "nft list tables")
    return "\n".join(node.run(*look.split()).stdout for look in looks)
