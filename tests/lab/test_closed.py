"""A deployed tunnel on a gateway that does other things, too: nothing leaves in the clear while somebody else's NAT,
rules, firewall and restarts are at work, and the tunnel carries again, or check.sh says which line to add.

A host has sent since before the tunnel was there; that its packets were seen on the WAN then is the control.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.lab.node import PATIENCE, LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image, open_image
from tests.contract import OLDER
from tests.lab.by_hand import (
    answers,
    bare_packets,
    closing,
    copied,
    daemons,
    name_of,
    script,
    two_gateways,
    up,
    write_and_run,
    written,
)
from tests.lab.test_recipe_by_hand import NAMES, Tunnel

CARRYING = [name for name in NAMES if load_vpn(name).carries == "ip"]
# Some kernels have only the older of the two iptables (--kernel uml).
IPTABLES = "if ! nft -c 'add table ip probe' 2> /dev/null; then iptables() { iptables-legacy \"$@\"; }; fi\n"
DEFAULT_ROUTE = "ip route replace default via 192.168.0.2"
# It manages the WAN port of a machine without udev, as in a container, and removes routes that it does not know.
NETWORKD = """
    cat > /etc/systemd/network/10-wan.network << END
[Match]
Name=wan0
[Network]
Address=192.168.0.1/24
Gateway=192.168.0.2
LinkLocalAddressing=no
IPv6AcceptRA=no
END
    echo 0123456789abcdef0123456789abcdef > /etc/machine-id
    mkdir -p /run/systemd/netif
    chown -R systemd-network:systemd-network /run/systemd/netif
    manage='mount -o remount,bind,ro /sys; exec timeout SECONDS /lib/systemd/systemd-networkd'
    unshare --mount sh -c "$manage" || test $? = 124
    rm -r /run/systemd
    ip addr replace 192.168.0.1/24 dev wan0
    ip route replace default via 192.168.0.2
""".replace("SECONDS", f"{4 * PATIENCE:g}")
# What happens on the near gateway -> the commands.
EVENTS = {
    "masquerading": "iptables -t nat -A POSTROUTING -o wan0 -j MASQUERADE",
    "masquerading of everything": "iptables -t nat -I POSTROUTING -j MASQUERADE",
    "policy routing": f"{DEFAULT_ROUTE} table 100; ip rule add iif lan0 lookup 100",
    "routes flushed": f"""
        for protocol in boot static; do ip route flush table all proto $protocol 2> /dev/null || true; done
        for rule in $(ip rule | cut -d: -f1 | grep -vxE '0|32766|32767'); do ip rule del priority $rule; done
        {DEFAULT_ROUTE}
    """,
    "daemons killed": "true",  # below
    "device deleted": """
        . /etc/vpneval/*/gateway.sh
        cd /sys/class/net
        for device in $tunnel; do ip link del $device; done
    """,
    "firewall loaded anew": """
        nft flush ruleset
        nft 'table inet mine { chain nat { type nat hook postrouting priority 100; oifname "wan0" masquerade; }; }'
    """,
    "networkd started anew": NETWORKD,
    "closing killed": "kill -KILL $(pgrep -x nft)",
    "rebooted": "true",  # below
}
# What a machine has forgotten when it boots. The network comes after the closing, as its unit says; the old rules
# and a sysctl of the gateway's own are there before.
FORGOTTEN = """
    for port in wan0 lan0; do
        address=$(ip -o -4 addr show dev $port | grep -o 'inet [^ ]*' | cut -c6-)
        ip link set $port down
        ip addr flush dev $port
        ip addr add $address dev $port
    done
    kill -KILL -1
    rm -f /run/vpneval*
    . /etc/vpneval/*/gateway.sh
    for device in $(cd /sys/class/net; echo $tunnel); do ip link del $device || true; done
    nft flush ruleset || true
    ip xfrm state flush || true
    ip xfrm policy flush || true
    for rule in $(ip rule | cut -d: -f1 | grep -vxE '0|32766|32767'); do ip rule del priority $rule; done
    ip route flush table main
    iptables -t nat -F
    iptables -t nat -A POSTROUTING -o wan0 -j MASQUERADE
    sysctl -qw net.ipv4.ip_forward=1
"""
CHANGING = ("masquerading of everything", "firewall loaded anew", "policy routing", "routes flushed")
NO_PERSIST = '#!/bin/sh\ncase "$*" in *persist*) exit 1 ;; esac\nexec /usr/sbin/nft "$@"\n'  # Linux before 6.9
LEAKING = ("policy routing", "routes flushed", "networkd started anew")  # where a route alone closes the way
BACK = "ip rule del iif lan0; ip rule del to 10.2.0.0/24 || true"  # of policy routing
pytestmark = pytest.mark.timeout(900)


@contextmanager
def in_use(
    image: Image, folder: Path, name: str, files: Mapping[str, str] | None = None
) -> Iterator[tuple[Lab, LabNode]]:
    """Both gateways with these ``files``, the near one masquerading, and a host that sends; then the tunnel."""
    gateways = open_image("bookworm", say=print) if name in OLDER else None
    with two_gateways(image, folder, gateways) as lab:
        near = lab.nodes["gw1"]
        near.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        happens(near, "masquerading")
        lab.host1.spawn("ping", "-i", "0.1", "10.2.0.2", log="pinging")
        wait_until(lambda: bare_packets(lab) > 0, "a packet in the clear: the control", 10)
        for path, text in (files or {}).items():
            for gateway in ("gw1", "gw2"):
                lab.nodes[gateway].write(path, text)
        write_and_run(lab, name, folder)
        yield lab, near


def happens(near: LabNode, event: str) -> None:
    """Let it happen on the gateway."""
    if event == "daemons killed" and (killed := daemons(near)):
        near.run("kill", "-KILL", *killed)
    if event == "rebooted":
        reboots(near)
    near.run("bash", "-ec", f"exec < /dev/null; {IPTABLES}{EVENTS[event]}", timeout=60)


def reboots(near: LabNode) -> None:
    """Let the gateway forget what is not in a file, and begin anew as systemd would: the closing, the network, the
    tunnel."""
    near.run("bash", "-ec", f"exec < /dev/null; {IPTABLES}{FORGOTTEN}", timeout=60)
    up(near)
    closed = (f"nft list chain ip {closing(near)} past", "ip route show exact 10.2.0.0/24 type unreachable")
    wait_until(lambda: any(near.run(*line.split(), check=False).stdout for line in closed), "the closing", 30)
    near.run("sh", "-ec", f"ip link set lan0 up; ip link set wan0 up; {DEFAULT_ROUTE}")


def stays_closed(lab: Lab, near: LabNode, name: str, event: str) -> None:
    """Something happens, nothing leaves, and the tunnel carries again, where check.sh says so after its lines were
    run."""
    seen = bare_packets(lab)
    happens(near, event)
    time.sleep(1)
    try:
        if (
            event == "policy routing"
            and near.run("sh", "-c", ". /etc/vpneval/*/gateway.sh; echo $tunnel").stdout.strip()
        ):
            said = near.run("/root/tunnel/check.sh", check=False, timeout=60)
            assert "iif lan0 lookup 100" in said.stderr, said
            near.run("sh", "-ec", "\n".join(line for line in said.stderr.splitlines() if line.startswith("    ")))
        Tunnel(lab, name).works(80)
    finally:
        assert bare_packets(lab) == seen, f"{event}: in the clear"
    print(f"{name}, {event}: nothing in the clear", flush=True)
    if event == "policy routing":
        near.run("sh", "-c", BACK)


def holds(lab: Lab, near: LabNode, name: str, events: Sequence[str] = tuple(EVENTS)) -> None:
    """The tunnel carries, and nothing leaves beside it, whatever happens."""
    Tunnel(lab, name).works(80)
    for event in events:
        stays_closed(lab, near, name, event)
    stays_closed_while_stopped(lab, near, events)


def stop(near: LabNode) -> None:
    """Stop the tunnel, as systemctl does, and not the closing."""
    near.run("bash", "-ec", "kill -TERM -- -$(cat /run/vpneval-tunnel@*.pid); /etc/vpneval/*/undo")
    wait_until(lambda: not script(near), "the tunnel's end", 20)


def stays_closed_while_stopped(lab: Lab, near: LabNode, events: Sequence[str]) -> None:
    """The tunnel is stopped, and all of it happens; then, without the closing, the control."""
    seen = bare_packets(lab)
    stop(near)
    for event in (event for event in events if event not in ("daemons killed", "device deleted", "rebooted")):
        happens(near, event)
        time.sleep(0.5)
        assert bare_packets(lab) == seen, f"stopped, {event}: in the clear"
    assert not answers(lab)
    near.run("/root/tunnel/down.sh")
    wait_until(lambda: bare_packets(lab) > seen, "a packet in the clear: the control", 10)


@pytest.mark.parametrize("name", CARRYING)
def test_nothing_leaves_in_the_clear_whatever_happens(image: Image, tmp_path: Path, name: str) -> None:
    with in_use(image, tmp_path, name) as (lab, near):
        holds(lab, near, name)


@pytest.mark.smoke
def test_a_gateway_that_masquerades_routes_by_input_and_loads_its_firewall(image: Image, tmp_path: Path) -> None:
    with in_use(image, tmp_path, "wireguard_go") as (lab, near):
        holds(lab, near, "wireguard_go", ("policy routing", "firewall loaded anew"))


@pytest.mark.parametrize("event", LEAKING)
def test_without_the_table_it_leaves(image: Image, tmp_path: Path, event: str) -> None:
    """The control of each event: a route alone closes the way, and does not hold."""
    with in_use(image, tmp_path, "wireguard_go") as (lab, near):
        Tunnel(lab, "wireguard_go").works()
        stop(near)
        near.run("bash", "-ec", "kill -KILL -- -$(cat /run/vpneval-closed@*.pid)")
        gone = ("nft", "delete", "table", "ip", closing(near))
        wait_until(lambda: near.run(*gone, check=False).code == 0, "an owner's end", 10, 0.1)
        seen = bare_packets(lab)
        time.sleep(1)
        assert bare_packets(lab) == seen, "the route closes it"
        happens(near, event)
        wait_until(lambda: bare_packets(lab) > seen, f"a packet in the clear after: {event}", 10)


@pytest.mark.parametrize(
    ("old", "new"), [("wireguard_go", "openvpn"), ("ssh_tun", "tinc"), ("ipsec_user", "fastd"), ("n2n", "nebula")]
)
def test_nothing_leaves_while_one_takes_the_place_of_another(image: Image, tmp_path: Path, old: str, new: str) -> None:
    """Others change the gateway all the time meanwhile."""
    with in_use(image, tmp_path, old) as (lab, near):
        Tunnel(lab, old).works(80)
        seen, name = bare_packets(lab), name_of(near)
        changes = "\n".join(f"({EVENTS[event]}) || true; sleep 0.1" for event in CHANGING)
        changing = near.spawn("bash", "-c", f"exec < /dev/null; while true; do\n{changes}\ndone", log="changes")
        written(new, tmp_path / "new")
        for gateway in ("gw2", "gw1"):
            node = lab.nodes[gateway]
            copied(tmp_path / "new" / "out", node, "new")
            up(node, "new", f"--replace {name}")
            node.run("sh", "-c", "rm -r /root/tunnel; mv /root/new /root/tunnel")
        assert bare_packets(lab) == seen, "in the clear"
        changing.stop()
        happens(near, "routes flushed")
        Tunnel(lab, new).works(80)
        assert bare_packets(lab) == seen, "in the clear"
        near.run("/root/tunnel/down.sh")
        wait_until(lambda: bare_packets(lab) > seen, "a packet in the clear: the control", 10)


def test_an_owner_without_persist_has_no_open_moment_when_its_rules_change(image: Image, tmp_path: Path) -> None:
    """Where a rule of the gateway's own passes the route by."""
    with two_gateways(image, tmp_path) as lab:
        near = lab.nodes["gw1"]
        near.write("/usr/local/sbin/nft", NO_PERSIST, mode=0o755)
        near.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        write_and_run(lab, "wireguard_go", tmp_path)
        Tunnel(lab, "wireguard_go").works()
        assert "flags owner\n" in near.run("nft", "list", "table", "ip", closing(near)).stdout
        happens(near, "policy routing")
        lab.host1.spawn("ping", "-i", "0.01", "10.2.0.2", log="pinging")
        seen = bare_packets(lab)
        for number in range(5):
            rules = f"/root/tunnel/files/etc/vpneval/{name_of(near)}/closed-ip.nft"
            near.run("sed", "-i", f"s/    chain to_me {{/    chain mark{number} {{}}\\n&/", rules)
            up(near)
            assert f"mark{number}" in near.run("nft", "list", "table", "ip", closing(near)).stdout
        assert bare_packets(lab) == seen, "in the clear"
        near.run("bash", "-ec", "kill -KILL -- -$(cat /run/vpneval-closed@*.pid)")
        wait_until(lambda: bare_packets(lab) > seen, "a packet in the clear: the control", 10)
