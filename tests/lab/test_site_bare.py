"""Machines that have Debian, sshd and Python, and nothing else: site mode measures between them, and a written recipe
installs its packages on them. ufw and firewalld themselves are refused while they are at work."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.node import LabNode, wait_until
from runner.lab.places import open_rig
from runner.lab.software.image import Image
from tests.lab.bare import bare_root
from tests.lab.by_hand import closing, copied, up
from tests.lab.commands import vpneval
from tests.lab.sites import BOXES, TwoSites, two_sites
from tests.lab.test_checked import checked, lines
from tests.lab.test_site import THROUGH_NAT, tunnelled
from tests.lab.test_site_deployed import behind, brings_up
from tests.lab.test_ssh_lab import as_before, settled

MANAGERS = ("firewalld", "ufw", "network-manager", "iptables")
INSTALL = "apt-get update && apt-get install -y --no-install-recommends"
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def root() -> str:
    """One root for all of them; its apt has the packages of the recipes and the managers."""
    return str(bare_root(THROUGH_NAT, *MANAGERS))


@pytest.fixture
def bare(image: Image, tmp_path: Path, root: str) -> Iterator[TwoSites]:
    """Two machines of site mode."""
    with two_sites(image, tmp_path, root=root) as boxes:
        yield boxes


def test_two_bare_machines_are_enough(bare: TwoSites, tmp_path: Path) -> None:
    before = settled(bare)
    with open_rig(f"site:{bare.sites(top='keep_image = false')}", print) as rig:
        image = rig.image("trixie", print)
        with rig.lab(image, logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "nebula", image) > 1e6
    as_before(bare, before)


def refused(boxes: TwoSites) -> list[str]:
    """Site mode refuses gw2, and leaves both machines as before; the commands that it says would let it in."""
    before = settled(boxes)
    with pytest.raises(CannotRunHere) as refusal, open_rig(f"site:{boxes.sites()}", print):
        pass
    as_before(boxes, before)
    said = str(refusal.value)
    assert "gw1: " not in said
    assert "vpneval changes no firewall rule" in said, said
    return re.findall(r"(?:ip6?tables -I|nft insert rule|firewall-cmd) [^;(\n]*(?:ACCEPT|accept|/24)", said)


def accepted(boxes: TwoSites) -> None:
    before = settled(boxes)
    with open_rig(f"site:{boxes.sites()}", print):
        pass
    as_before(boxes, before)


def test_ufw_at_work_is_refused_until_the_refusals_command_was_run(bare: TwoSites) -> None:
    box = bare.nodes["gw2"]
    box.run("sh", "-c", f"{INSTALL} ufw", timeout=120)
    accepted(bare)  # it is there, and not at work
    box.run("ufw", "allow", "22/tcp")
    box.run("ufw", "--force", "enable")
    box.run("sh", "-ec", "; ".join(refused(bare)))
    accepted(bare)
    assert "Status: active" in box.run("ufw", "status").stdout
    box.run("ufw", "disable")


def start_firewalld(box: LabNode) -> None:
    """The system bus, and firewalld on it; return when it is at work."""
    box.run("mkdir", "-p", "/run/dbus")
    box.spawn("dbus-daemon", "--system", "--nofork", "--nopidfile", log="dbus")
    wait_until(lambda: box.run("test", "-S", "/run/dbus/system_bus_socket", check=False).code == 0, "the system bus")
    box.spawn("firewalld", "--nofork", "--nopid", log="firewalld")
    running = ("firewall-cmd", "--state")
    wait_until(
        lambda: box.run(*running, check=False).code == 0, f"firewalld at work: {box.read_log('firewalld')}", 60, 0.5
    )


def test_firewalld_at_work_is_refused_until_the_refusals_command_was_run(bare: TwoSites, tmp_path: Path) -> None:
    """As on a gateway in use, which masquerades: to end its firewall would cut its site off."""
    box = bare.nodes["gw2"]
    box.run("sh", "-c", f"{INSTALL} firewalld", timeout=120)
    accepted(bare)  # it is there, and not at work
    start_firewalld(box)
    for option in ("--change-interface=ens0", "--add-masquerade", "--add-port=4242/udp"):
        box.run("firewall-cmd", "--zone=external", option)
    (line,) = refused(bare)
    box.run("sh", "-ec", line)
    with open_rig(f"site:{bare.sites()}", print) as rig:
        image = rig.image("trixie", print)
        with rig.lab(image, logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "nebula", image) > 1e6
    box.run("firewall-cmd", "--reload")
    assert refused(bare) == [line], "the control: firewalld has forgotten it"


def start_ufw(box: LabNode) -> None:
    """ufw as it comes, which lets the VPN's port in."""
    for words in ("allow 22/tcp", "allow 51820/udp", "--force enable"):
        box.run("ufw", *words.split())


# What dockerd 26 writes when it starts, and again when it starts anew; the daemon itself wants cgroups of version 1, or
# systemd's, which a container seldom has.
DOCKER = """\
*nat
:DOCKER - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -o ens0 -j MASQUERADE
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER -i docker0 -j RETURN
COMMIT
*filter
:FORWARD DROP [0:0]
:DOCKER - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-ISOLATION-STAGE-2 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A DOCKER-ISOLATION-STAGE-1 -i docker0 ! -o docker0 -j DOCKER-ISOLATION-STAGE-2
-A DOCKER-ISOLATION-STAGE-1 -j RETURN
-A DOCKER-ISOLATION-STAGE-2 -o docker0 -j DROP
-A DOCKER-ISOLATION-STAGE-2 -j RETURN
-A DOCKER-USER -j RETURN
COMMIT
"""


def start_docker(box: LabNode) -> None:
    """Docker's rules, on a gateway that masquerades."""
    box.write("/root/docker", DOCKER)
    for line in ("link add docker0 type bridge", "addr add 172.17.0.1/16 dev docker0", "link set docker0 up"):
        box.run("ip", *line.split())
    box.run("iptables-restore", "/root/docker")


NETWORK = """\
[connection]
id=wan
type=ethernet
interface-name=ens0
[ipv4]
method=manual
address1=10.0.0.2/24,10.0.0.1
"""
UNMANAGED = "[main]\nplugins=keyfile\n[keyfile]\nunmanaged-devices=none\n"
# It manages ports without udev where /sys may not be written, as in a container, and removes routes that it does not
# know.
MANAGE = "mount -o remount,bind,ro /sys; exec NetworkManager --no-daemon"


def start_network_manager(box: LabNode) -> None:
    """NetworkManager, which from now on has the WAN port."""
    box.run("ip", "route", "add", "10.77.0.0/16", "via", "10.0.0.1")
    box.write("/etc/NetworkManager/system-connections/wan.nmconnection", NETWORK)
    box.write("/etc/NetworkManager/conf.d/all.conf", UNMANAGED, 0o644)
    box.run("mkdir", "-p", "/run/dbus")
    box.spawn("dbus-daemon", "--system", "--nofork", "--nopidfile", log="dbus")
    wait_until(lambda: box.run("test", "-S", "/run/dbus/system_bus_socket", check=False).code == 0, "the system bus")
    box.spawn("unshare", "--mount", "sh", "-c", MANAGE, log="manager")
    takes = ("nmcli", "device", "set", "ens0", "managed", "yes")
    wait_until(lambda: box.run(*takes, check=False).code == 0, "NetworkManager at work", 30, 0.5)
    wait_until(lambda: box.run("nmcli", "connection", "up", "wan", check=False).code == 0, "its connection", 30, 1)


# Program -> its package, what starts it, and what loads its settings anew.
RELOADS = {
    "firewalld": ("firewalld", start_firewalld, "firewall-cmd --complete-reload"),
    "ufw": ("ufw", start_ufw, "ufw reload"),
    "NetworkManager": ("network-manager", start_network_manager, "nmcli connection down wan; nmcli connection up wan"),
    "Docker": ("iptables", start_docker, "iptables-restore --noflush /root/docker"),
}
SENDS = "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
SENDS += "while True: s.sendto(b'x', ('10.30.0.2', 9)); time.sleep(0.1)"  # a bare machine has no ping
ON_WAN = "table ip bare { chain seen { type filter hook prerouting priority -300; ip daddr 10.30.0.2 counter; }; }"


@pytest.mark.parametrize("manager", RELOADS)
def test_check_says_the_line_that_lets_hosts_through(bare: TwoSites, tmp_path: Path, manager: str) -> None:
    """A tunnel stands; then the gateway gets a firewall, or a manager of its network. What check.sh says mends it, and
    no reload opens the way past the tunnel: a host sends all the time."""
    lans = {"gw1": "10.20.0.1", "gw2": "10.30.0.1"}
    own: dict[str, dict[str, object]] = {
        name: {"wan_address": BOXES[name], "network": f"{lan[:-1]}0/24"} for name, lan in lans.items()
    }
    wrote = vpneval("recipe", "wireguard_go", "--site", bare.sites(own), "--write", tmp_path / "out")
    assert wrote.returncode == 0, wrote.stderr
    near, wan = bare.nodes["gw1"], bare.between["nat"]
    wan.run("nft", "-f", "-", input=ON_WAN)

    def seen() -> str:
        return str(re.findall(r"packets \d+", wan.run("nft", "list", "table", "ip", "bare").stdout)[0])

    for box in (bare.nodes["gw2"], near):
        copied(tmp_path / "out", box)
        behind(box, lans[box.name])
    near.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    near.spawn("ip", "netns", "exec", "pc", "python3", "-c", SENDS, log="sends")
    wait_until(lambda: seen() != "packets 0", "a packet in the clear: the control", 10)
    for box in (bare.nodes["gw2"], near):
        up(box)
    wait_until(lambda: checked(near).code == 0, "the tunnel", 30, 1)
    # ufw lets pings through. Nobody listens there: who is reached refuses at once.
    to = ": < /dev/tcp/10.30.0.2/7777"
    connects = ("ip", "netns", "exec", "pc", "timeout", "2", "bash", "-c", to)

    def reached() -> bool:
        return "refused" in near.run(*connects, check=False).stderr

    assert reached()
    before = seen()
    package, start, reload = RELOADS[manager]
    near.run("sh", "-c", f"{INSTALL} {package}", timeout=120)
    start(near)
    if manager != "NetworkManager":
        assert not reached()
        said = checked(near)
        assert said.code == 9, said
        near.run("sh", "-ec", "\n".join(lines(said.stderr)))
        wait_until(reached, said.stderr, 10, 0.5)
    if manager == "firewalld":
        to_gateway = (*connects[:-1], ": < /dev/tcp/10.20.0.1/7777")
        assert "No route to host" in near.run(*to_gateway, check=False).stderr, "the gateway is shut as before"
    near.run("sh", "-ec", reload, timeout=60)
    assert "flags owner" in near.run("nft", "list", "table", "ip", closing(near)).stdout
    if manager == "NetworkManager":
        assert "10.77.0.0" not in near.run("ip", "route").stdout, "the control: it removes what it does not know"
    if manager == "Docker":  # it has made its chains anew
        near.run("sh", "-ec", "\n".join(lines(said.stderr)))
    wait_until(lambda: checked(near).code == 0, "the tunnel, after a reload", 30, 1)
    wait_until(reached, "a host through the tunnel, after a reload", 30, 1)
    assert seen() == before, "in the clear"


@pytest.mark.parametrize("name", THROUGH_NAT)
def test_a_written_recipe_installs_what_it_needs(image: Image, tmp_path: Path, root: str, name: str) -> None:
    brings_up(image, tmp_path, name, root)
