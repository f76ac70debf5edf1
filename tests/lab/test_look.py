"""``vpneval look``: it recognises what runs between two gateways, says what limits it, and changes nothing there."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.lab.node import LabNode, wait_until
from runner.lab.software.image import Image
from tests.lab.commands import vpneval
from tests.lab.sites import BOXES, TwoSites, two_sites
from tests.lab.standing import LANS, stands, with_lans
from tests.lab.test_ssh_lab import as_before, settled

pytestmark = pytest.mark.timeout(300)
RECOGNISED = (
    *("wireguard_go", "openvpn", "openvpn_tcp", "openvpn_tap", "ipsec_user", "tinc", "nebula", "ssh_tun", "ssh_tap"),
    *("openconnect", "openconnect_tls", "fastd", "n2n"),
)
FORWARDS = ("ssh_forward", "stunnel_forward")
# A tunnel of somebody's: it carries packets between a TUN and UDP in the clear, by a program that no plugin knows.
FOREIGN = r"""
import fcntl, os, select, socket, struct, sys
name, own, peer = sys.argv[1:4]
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1001))
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
line.bind((own, 7001))
line.connect((peer, 7001))
poll = select.poll()
for one in (tun, line.fileno()):
    poll.register(one, select.POLLIN)
while True:
    for fd, _ in poll.poll():
        try:
            os.write(tun, line.recv(65535)) if fd != tun else line.send(os.read(tun, 65535))
        except OSError:
            pass
"""


@pytest.fixture
def boxes(image: Image, tmp_path: Path) -> Iterator[TwoSites]:
    with two_sites(image, tmp_path) as up:
        with_lans(up)
        yield up


def looked(boxes: TwoSites, *argv: str, changes: dict[str, dict[str, object]] | None = None) -> dict[str, Any]:
    done = vpneval("look", "--lab", f"site:{boxes.sites(changes)}", "--json", *argv)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recognised(found: dict[str, Any]) -> set[str]:
    return {tunnel["vpn"] for tunnel in found["tunnel"].values()}


# --- nothing is changed ----------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_a_look_changes_nothing_and_tells_no_secret(boxes: TwoSites) -> None:
    with stands(boxes, "wireguard_go") as secrets:
        for box in boxes.nodes.values():
            box.run("ip", "link", "set", "wg0", "mtu", "1300")
        before = settled(boxes)
        boxes.nodes["gw1"].run("ip", "addr", "add", "192.0.2.77/32", "dev", "ens0")
        assert boxes.snapshot() != before, "the comparison sees an address"
        boxes.nodes["gw1"].run("ip", "addr", "del", "192.0.2.77/32", "dev", "ens0")
        boxes.nodes["gw2"].write("/run/somebody", "")
        assert boxes.snapshot() != before, "and a file"
        boxes.nodes["gw2"].run("rm", "/run/somebody")
        done = vpneval("look", "--lab", f"site:{boxes.sites()}")
        assert done.returncode == 0, done.stderr
        as_before(boxes, before)
    first = " ".join(done.stdout.split())
    assert first.startswith(
        "The tunnel between gw1 and gw2 is WireGuard (wireguard-go) on wg0, MTU 1300, no fragments."
    )
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "endpoint: 198.51.100.2:51820" in done.stdout
    assert not [name for name, text in secrets.items() if name.endswith(".key") and text in done.stdout + done.stderr]


def test_a_key_in_a_command_line_or_a_configuration_is_not_told(boxes: TwoSites) -> None:
    key, gw2 = "hushhush4711", boxes.nodes["gw2"]
    gw2.run("openvpn", "--genkey", "secret", "/root/office.key")
    psk = gw2.run("cat", "/root/office.key").stdout
    config = "dev office1\ndev-type tun\nproto udp\nport 1999\ncipher AES-256-CBC\nifconfig 10.67.0.1 10.67.0.2\n"
    gw2.write("/etc/openvpn/office.conf", f"{config}<secret>\n{psk}</secret>\n")
    edge = ("edge", "-f", "-d", "office", "-a", "10.66.0.2", "-c", "office", "-l", "127.0.0.1:7654", "-M", "1300")
    running = [
        gw2.spawn("supernode", "-l", "7654", log="supernode"),
        gw2.spawn(*edge, "-k", key, log="edge"),
        gw2.spawn("openvpn", "--config", "/etc/openvpn/office.conf", log="openvpn"),
    ]
    try:
        own = ("10.66.0.2/", "10.67.0.1 ")
        wait_until(lambda: all(one in gw2.run("ip", "-br", "addr").stdout for one in own), "both tunnels")
        done = vpneval("look", "gw2", "--lab", f"site:{boxes.sites()}", "--json")
    finally:
        for process in running:
            process.stop()
    assert done.returncode == 0, done.stderr
    assert '"n2n"' in done.stdout
    assert "M 1300" in done.stdout, "the control: words of the command line are told"
    assert "port 1999" in done.stdout, "and lines of the configuration"
    of_psk = [line for line in psk.splitlines() if line.isalnum()]
    assert len(of_psk) == 16
    assert not [secret for secret in (key, *of_psk) if secret in done.stdout + done.stderr]


# --- which VPN -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECOGNISED)
def test_a_vpn_is_recognised_by_its_own_signs(boxes: TwoSites, name: str) -> None:
    with stands(boxes, name):
        found = looked(boxes)
    assert recognised(found) == {name}
    assert load_vpn(name).title == next(iter(found["tunnel"].values()))["title"]
    assert found["to"], "an address of the other gateway is behind it"
    assert found["inside"]["rtt_ms"], "and answers"
    assert found["inside"]["mtu_bytes"] > 1000
    assert [end for end, tunnel in found["tunnel"].items() if tunnel["told"]] == ["gw1", "gw2"], "its parameters"


@pytest.mark.parametrize("name", FORWARDS)
def test_a_forward_of_ports_is_recognised_where_it_dials(boxes: TwoSites, name: str) -> None:
    with stands(boxes, name):
        found = looked(boxes)
    assert recognised(found) == {name}
    assert found["tunnel"]["gw1"]["told"]
    assert not found["tunnel"]["gw1"]["device"]


def test_somebody_elses_tunnel_is_found_and_has_no_name(boxes: TwoSites) -> None:
    with foreign(boxes):
        found = looked(boxes)
        done = vpneval("look", "--lab", f"site:{boxes.sites()}")
    assert recognised(found) == {""}
    assert found["tunnel"]["gw1"]["program"] == "python3"
    assert found["inside"]["rtt_ms"]
    what = "a tunnel of the program python3 on office0 that no plugin recognises (tun), MTU 1500"
    assert " ".join(done.stdout.split()).startswith(f"The tunnel between gw1 and gw2 is {what}")


def test_two_gateways_without_a_tunnel(boxes: TwoSites) -> None:
    done = vpneval("look", "--lab", f"site:{boxes.sites()}")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("No tunnel was found between gw1 and gw2.\n")
    assert "path: MTU 1400, round trip" in done.stdout


def test_one_gateway_alone_tells_its_end(boxes: TwoSites) -> None:
    with stands(boxes, "wireguard_go"):
        found = looked(boxes, "gw2")
    assert recognised(found) == {"wireguard_go"}
    assert list(found["gateways"]) == ["gw2"]
    assert "endpoint: 203.0.113.1:51820" in found["tunnel"]["gw2"]["told"]


def test_without_root_it_says_what_it_cannot_see(boxes: TwoSites) -> None:
    for box in boxes.nodes.values():
        box.run("useradd", "-m", "-s", "/bin/sh", "watcher")
        box.write("/home/watcher/.ssh/authorized_keys", box.run("cat", "/root/.ssh/authorized_keys").stdout)
        box.run("chown", "-R", "watcher", "/home/watcher/.ssh")
        box.run("usermod", "-p", "*", "watcher")
    with stands(boxes, "wireguard_go"):
        found = looked(boxes, changes={name: {"user": "watcher"} for name in BOXES})
    assert all("not root" in gateway["lacks"][0] for gateway in found["gateways"].values())
    assert found["tunnel"]["gw1"]["device"] == "wg0"
    assert found["path"]["rtt_ms"] or "gw1 cannot ping" in found["unmeasured"][0], "nobody else is blamed"


# --- what limits it --------------------------------------------------------------------------------------------


def foreign(boxes: TwoSites, mtu: int = 1500) -> Any:
    from contextlib import contextmanager

    @contextmanager
    def up() -> Iterator[None]:
        ends = {"gw1": ("10.0.0.2", "198.51.100.2"), "gw2": ("198.51.100.2", "203.0.113.1")}
        running = []
        try:
            for name, (own, peer) in ends.items():
                box: LabNode = boxes.nodes[name]
                running.append(box.spawn("python3", "-IS", "-c", FOREIGN, "office0", own, peer, log="foreign"))
                wait_until(lambda box=box: box.run("ip", "link", "show", "office0", check=False).code == 0, "its port")  # type: ignore[misc]
                box.run("ip", "link", "set", "office0", "mtu", str(mtu), "up")
                to = LANS["gw2" if name == "gw1" else "gw1"]
                box.run("ip", "route", "add", f"{to[:-1]}0/24", "dev", "office0", "src", LANS[name])
            boxes.nodes["gw1"].run("ping", "-c1", "-W2", "-I", LANS["gw1"], LANS["gw2"])  # opens the NAT
            yield
        finally:
            for process in running:
                process.stop()

    return up()


def test_a_shaper_and_a_core_are_told_apart(boxes: TwoSites) -> None:
    gw1 = boxes.nodes["gw1"]
    shape = ("dev", "ens0", "root", "tbf", "rate", "20mbit", "burst", "16000", "latency", "20ms")
    with foreign(boxes, 1300):
        gw1.run("tc", "qdisc", "add", *shape)
        shaped = looked(boxes, "--max-rate", "2G")
        gw1.run("tc", "qdisc", "del", "dev", "ens0", "root")
        free = looked(boxes, "--max-rate", "2G")
    assert shaped["limit"]["kind"] == "path"
    assert "ens0" in shaped["limit"]["sentence"] or "without the tunnel" in shaped["limit"]["sentence"]
    assert 5e6 < min(shaped["inside"]["rates_bps"]) < 20e6
    assert free["limit"]["kind"] in ("thread", "process", "shared cores", "foreign", "steal")
    assert min(free["inside"]["rates_bps"]) > 2 * 20e6
    assert not free["pieces"]["longest"]


def test_fragments_are_named_and_the_mtu_that_fits(boxes: TwoSites) -> None:
    with foreign(boxes, 1500):
        cut = looked(boxes)
    with foreign(boxes, 1372):  # 20 bytes of IP and 8 of UDP below the path's 1400
        whole = looked(boxes)
    assert cut["pieces"]["longest"]
    assert cut["inside"]["whole_bytes"] == 1372
    assert whole["pieces"]["longest"] is False


def test_the_rate_that_was_allowed_is_no_limit_of_the_tunnel(boxes: TwoSites) -> None:
    with foreign(boxes, 1300):
        before = settled(boxes)
        found = looked(boxes, "--max-rate", "5M")
        as_before(boxes, before)
    assert found["limit"]["sentence"].startswith("nothing up to 5 Mbit/s")
    assert max(found["inside"]["rates_bps"] + found["path"]["rates_bps"]) < 5e6
