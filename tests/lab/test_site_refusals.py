"""Site mode refuses a machine that is in use, or not as the inventory says. It says what to do, and changes nothing."""

import json
import platform
import re
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CannotRunHere
from runner.lab.node import wait_until
from runner.lab.places import open_rig
from runner.tunnel.bring_up import vpn_refusal
from tests.lab.commands import vpneval
from tests.lab.sites import BOXES, TwoSites
from tests.lab.test_site import tunnelled
from tests.lab.test_ssh_lab import as_before, settled

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize(
    ("make", "undo", "complaint"),
    [
        (
            "ip xfrm policy add src 10.7.0.0/24 dst 10.8.0.0/24 dir out tmpl src 1.2.3.4 dst 4.3.2.1 proto esp",
            "ip xfrm policy flush",
            "gw2: it has XFRM policies, so IPsec is at work",
        ),
        (
            "sysctl -qw net.core.xfrm_acq_expires=600; "
            "ip xfrm state allocspi src 1.2.3.4 dst 4.3.2.1 proto esp min 256 max 512",
            "ip xfrm state flush; sysctl -qw net.core.xfrm_acq_expires=30",
            "gw2: it has XFRM states, so IPsec is at work",
        ),
        (
            "ip tuntap add tun9 mode tun; ip addr add 10.9.7.1/24 dev tun9; ip link set tun9 up",
            "ip link del tun9",
            r"gw2: its route to 10.9.7.0/24 \(tun9\) is where the VPNs have addresses .*, so vpneval cannot measure",
        ),
        (
            "ip route add 10.8.0.0/24 dev ens0",
            "ip route del 10.8.0.0/24",
            r"its route to 10.8.0.0/24 \(ens0, which carries .*\) is where the VPNs",
        ),
        ("ip route add 198.18.2.0/25 dev ens0", "ip route del 198.18.2.0/25", "within the network of a test host"),
        (
            "nft -f - <<< 'table ip f { chain c { type filter hook forward priority 0; policy drop; }; }'",
            "nft delete table ip f",
            "its firewall drops what it forwards",
        ),
    ],
)
def test_a_machine_that_is_in_use_is_refused(unchanged: TwoSites, make: str, undo: str, complaint: str) -> None:
    unchanged.nodes["gw2"].run("bash", "-c", make)
    before = settled(unchanged)
    try:
        with pytest.raises(CannotRunHere, match=complaint), open_rig(f"site:{unchanged.sites()}", print):
            pass
        as_before(unchanged, before)
    finally:
        unchanged.nodes["gw2"].run("bash", "-c", undo)


def test_what_the_tunnel_of_a_recipe_would_cut_off_is_said_before_anything_is_changed(unchanged: TwoSites) -> None:
    box, said = unchanged.nodes["gw1"], list[str]()
    box.run(
        "bash", "-c", "ip tuntap add docker0 mode tap; ip addr add 10.2.64.1/20 dev docker0; ip link set docker0 up"
    )
    before = settled(unchanged)
    try:
        site = unchanged.sites({"gw2": {"network": "10.2.0.0/16"}})
        with open_rig(f"site:{site}", said.append):
            pass
        assert any(
            re.match(r"gw1: the network 10.2.64.0/20 of its port docker0 overlaps 10.2.0.0/16", line) for line in said
        )
        wrote = vpneval("recipe", "wireguard_go", "--site", site)
        assert "its port docker0 overlaps 10.2.0.0/16, a network of gw2" in " ".join(wrote.stderr.split())
        as_before(unchanged, before)
    finally:
        box.run("ip", "link", "del", "docker0")


@pytest.mark.parametrize(
    ("make", "undo"),
    [
        ("iptables -P FORWARD DROP", "iptables -P FORWARD ACCEPT; nft flush chain ip filter FORWARD"),
        (
            "nft -f - <<< 'table inet f { chain c { type filter hook forward priority 0; policy drop; }; }'",
            "nft delete table inet f",
        ),
        (
            "nft -f - <<< 'table inet f { chain c { type filter hook forward priority 10; policy accept; "
            "ct state established accept; reject with icmpx admin-prohibited; }; }'",
            "nft delete table inet f",
        ),
    ],
    ids=["iptables", "nft", "a last rule"],
)
def test_a_firewall_that_drops_is_accepted_once_the_refusals_commands_were_run(
    boxes: TwoSites, tmp_path: Path, make: str, undo: str
) -> None:
    box = boxes.nodes["gw2"]
    box.run("bash", "-c", make)
    try:
        with pytest.raises(CannotRunHere) as refusal, open_rig(f"site:{boxes.sites()}", print):
            pass
        box.run("bash", "-c", str(refusal.value).partition("Allow it meanwhile: ")[2])
        before = settled(boxes)
        with open_rig(f"site:{boxes.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert tunnelled(rig, lab, "wireguard_go") > 1e6
        as_before(boxes, before)
    finally:
        box.run("bash", "-c", undo)


@pytest.mark.smoke
@pytest.mark.parametrize("gateway", ["gw1", "gw2"])
def test_a_port_in_use_refuses_the_vpns_that_need_it_and_no_other(
    unchanged: TwoSites, tmp_path: Path, gateway: str
) -> None:
    listener = unchanged.nodes[gateway].spawn("socat", "UDP-LISTEN:1194", "STDOUT", log="listener")
    try:
        wait_until(lambda: ":1194" in unchanged.nodes[gateway].run("ss", "-Hlun").stdout, "the listener")
        with open_rig(f"site:{unchanged.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            refused, free = (
                vpn_refusal(lab, load_vpn(name), load_vpn(name).comparable) for name in ("openvpn", "wireguard_go")
            )
            assert refused
            assert refused.reason.startswith(f"udp/1194 (socat) is in use on {gateway}, and OpenVPN (UDP) would listen")
            assert free is None
    finally:
        listener.stop()


def test_the_doctor_says_which_modules_are_missing(unchanged: TwoSites) -> None:
    release = platform.release()
    if Path("/sys/module/wireguard").exists():
        pytest.skip("this kernel has WireGuard")
    spec = f"site:{unchanged.sites()}"
    done = vpneval("doctor", "--lab", spec, "--image", "host", "--vpn", "wireguard,wireguard_go,gre", "--json")
    assert done.returncode == 0, done.stderr
    said = {check["what"]: check["says"] for check in json.loads(done.stdout)}
    for name in BOXES:
        assert re.match(rf"(not loaded: wireguard\.|its kernel {release} has no wireguard\.) ", said[f"modules {name}"])
        assert "ip_gre" not in said[f"modules {name}"], "no module makes GRE pass a NAT"


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"gw1": {"public_address": None}}, 'Add to .gw1. of the inventory: public_address = "203.0.113.1"'),
        (
            {"gw2": {"public_address": "198.51.100.77", "forwards": ["udp/4242"]}},
            "gw1 does not reach gw2 at 198.51.100.77",
        ),
        ({"gw2": {"wan": "ens7"}}, "gw2: no interface ens7; it has: ens0"),
        ({"gw2": {"wan_address": "198.51.100.9"}}, "gw2: ens0 has no address 198.51.100.9; it has: 198.51.100.2"),
    ],
)
def test_an_inventory_that_is_not_so_is_refused(
    unchanged: TwoSites, changes: dict[str, dict[str, object]], complaint: str, tmp_path: Path
) -> None:
    spec = f"site:{unchanged.sites(changes)}"
    with (
        pytest.raises(CannotRunHere, match=complaint),
        open_rig(spec, print) as rig,
        rig.lab(rig.image("host"), logs=tmp_path),
    ):
        pass


def test_a_firewall_manager_at_work_is_refused_and_a_recipe_is_not(boxes: TwoSites) -> None:
    """A stand-in for firewall-cmd, in the place of a daemon that needs systemd; and a tunnel at work."""
    box = boxes.nodes["gw2"]
    box.write("/usr/local/sbin/firewall-cmd", "#!/bin/sh\necho running\n", 0o755)
    box.run("bash", "-c", "ip tuntap add tun9 mode tun; ip link set tun9 up")
    try:
        complaint = "gw2: firewalld is at work"
        with pytest.raises(CannotRunHere, match=complaint), open_rig(f"site:{boxes.sites()}", print):
            pass
        before = settled(boxes)
        shown = vpneval("recipe", "tinc", "--site", boxes.sites(top="keep_image = false"))
        assert shown.returncode == 0, shown.stderr
        assert "Address = 198.51.100.2" in shown.stdout
        assert 'Add the site\'s real network to [gw1], for example: network = "10.1.0.0/16"' in shown.stderr
        as_before(boxes, before)
    finally:
        box.run("bash", "-c", "ip link del tun9; rm /usr/local/sbin/firewall-cmd")
