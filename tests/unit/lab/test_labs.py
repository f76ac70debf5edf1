"""The inventory of an SSH lab, what puts a port back, and Vagrant's ports: without a machine."""

import re
from pathlib import Path
from typing import Any

import pytest

from runner.data.errors import CannotRunHere, UsageError
from runner.lab.places import check_spec, device_of, open_rig
from runner.lab.places.inventory import read_device, read_inventory
from runner.lab.places.labfile import read_lab_file
from runner.lab.places.machines import link_lines, neighbour_lines, route_lines, sysctl_lines
from runner.lab.places.sites import read_sites
from runner.lab.places.vagrant import inventory_of, vagrant_rig

ROOT = Path(__file__).resolve().parents[3]
FOUR = """
[host1]
address = "192.0.2.1"
lan = "eth1"
[gw1]
address = "192.0.2.2"
identity = "key"
lan = "eth1"
wan = "52:54:00:aa:bb:cc"
[gw2]
address = "192.0.2.3"
user = "operator"
port = 2222
options = {ProxyJump = "bastion"}
lan = "eth1"
wan = "eth2"
[host2]
address = "192.0.2.4"
lan = "eth1"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "lab.toml"
    path.write_text(text)
    return path


def test_an_inventory_of_four_machines(tmp_path: Path) -> None:
    inventory = read_inventory(written(tmp_path, FOUR))
    assert list(inventory.machines) == ["host1", "gw1", "gw2", "host2"]
    assert inventory.gw1.ports() == {"lan0": "eth1", "wan0": "52:54:00:aa:bb:cc"}
    assert inventory.gw1.options_of_ssh() == ["-o", f'IdentityFile="{tmp_path}/key"', "-o", "IdentitiesOnly=yes"]
    assert inventory.gw2.options_of_ssh() == ["-o", "Port=2222", "-o", "ProxyJump=bastion", "-l", "operator"]


def test_the_example_in_the_documentation_is_valid(tmp_path: Path) -> None:
    testbed, device, sites = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "labs.md").read_text(), re.DOTALL)
    assert list(read_inventory(written(tmp_path, testbed)).machines) == ["host1", "gw1", "wan", "gw2", "host2"]
    assert read_device(written(tmp_path, device)) is not None
    assert read_sites(written(tmp_path, sites)).gw2.forwards == ["udp/51820"]
    first, *_ = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "two-sites.md").read_text(), re.DOTALL)
    assert str(read_sites(written(tmp_path, first)).gw1.network_address) == "10.1.0.1"


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('lan = "eth1"\n[gw1]', "[gw1]", r"lab.toml:2: \[host1\] lan: is missing. Valid here: .*lan"),
        ('user = "operator"', 'usr = "operator"', r"lab.toml:12: \[gw2\] usr: is not known. Valid here: address, user"),
        ("port = 2222", "port = 99999", r"lab.toml:13: \[gw2\] port: .*65535"),
        ('"192.0.2.1"', '"-oProxyCommand=x"', r"lab.toml:3: \[host1\] address: cannot be '-oProxyCommand=x'"),
        ('lan = "eth1"\nwan = "eth2"', 'lan = "eth2"\nwan = "eth2"', r"gw2 has the same port twice: eth2"),
        ("192.0.2.4", "192.0.2.1", r"host1 and host2 are the same machine \(192.0.2.1\)"),
        ("[host2]", "[host3]", r"\[host2\]: is missing.*\n.*:17: \[host3\]: is not known. Valid here: host1"),
        ("[host1]", "[host1", r"lab.toml is not TOML: .*line 2"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_is_valid(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in FOUR
    with pytest.raises(UsageError, match=complaint):
        read_inventory(written(tmp_path, FOUR.replace(old, new, 1)))


def test_a_device_by_itself_is_no_lab(tmp_path: Path) -> None:
    path = written(tmp_path, '[device]\naddress = "192.0.2.7"\nidentity = "key"\n')
    found = device_of(f"ssh:{path}")
    assert found is not None
    assert (found.address, found.identity) == ("192.0.2.7", tmp_path / "key")
    check_spec(f"ssh:{path}")
    with pytest.raises(UsageError, match="names a device by itself, which is no lab"), open_rig(f"ssh:{path}", print):
        pass
    assert device_of(f"ssh:{written(tmp_path, FOUR)}") is None
    assert device_of("netns") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[device]\nlan = "eth1"\naddress = "a"\n', r":2: \[device\] lan: is not known. Valid here: address, user"),
        ('[device]\naddress = "-oProxyCommand=x"\n', r":2: \[device\] address: cannot be '-oProxyCommand=x'"),
        ('[device]\naddress = "a"\n[gw1]\naddress = "b"\n', r":3: \[gw1\]: is not known. Valid here: device"),
        ("device = 3\n", r":1: \[device\]: Input should be.*Valid here: address"),
    ],
)
def test_a_mistake_in_the_inventory_of_a_device(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        check_spec(f"ssh:{written(tmp_path, text)}")


@pytest.mark.parametrize("spec", ["ssh", "ssh:", "vagrant:down", "namespace", "netns:x"])
def test_an_unknown_lab_is_refused_with_the_valid_ones(spec: str) -> None:
    with pytest.raises(UsageError, match=r"Valid: netns, vagrant, vagrant:up, ssh:"):
        check_spec(spec)


def test_a_missing_inventory_is_named() -> None:
    with pytest.raises(UsageError, match=r"the inventory nowhere.toml cannot be read: No such file"):
        check_spec("ssh:nowhere.toml")


def test_a_port_gets_back_its_state_and_addresses_but_not_what_the_kernel_adds() -> None:
    # Captured from `ip -d -j addr show` (iproute2 6.15), shortened.
    link: Any = {
        "ifname": "eth1",
        "flags": ["BROADCAST", "MULTICAST", "UP", "LOWER_UP"],
        "mtu": 1400,
        "inet6_addr_gen_mode": "eui64",
        "addr_info": [
            {"local": "10.0.0.5", "prefixlen": 24, "broadcast": "10.0.0.255", "scope": "global", "label": "eth1:a"},
            {"local": "10.0.0.6", "prefixlen": 24, "scope": "global", "dynamic": True, "noprefixroute": True}
            | {"valid_life_time": 3000, "preferred_life_time": 2000},
            {"local": "10.9.0.1", "address": "10.9.0.2", "prefixlen": 32, "scope": "global", "label": "eth1"},
            {"local": "fe80::1", "prefixlen": 64, "scope": "link", "protocol": "kernel_ll"},
        ],
    }
    assert link_lines(link) == [
        "link set dev eth1 mtu 1400 addrgenmode eui64",
        "link set dev eth1 up",
        "addr replace 10.0.0.5/24 dev eth1 scope global brd 10.0.0.255 label eth1:a",
        "addr replace 10.0.0.6/24 dev eth1 scope global valid_lft 3000 preferred_lft 2000 noprefixroute",
        "addr replace 10.9.0.1 peer 10.9.0.2/32 dev eth1 scope global",
    ]
    assert link_lines(link | {"flags": ["BROADCAST"], "addr_info": []})[-1] == "link set dev eth1 down"


def test_a_port_gets_back_the_routes_that_somebody_made() -> None:
    # Captured from `ip -o route show table all dev eth1`.
    shown = (
        "172.30.0.0/16 via 172.16.1.254 metric 77 linkdown \n"
        "172.31.0.0/16 table 220 scope link src 172.16.1.1 \n"
        "172.16.1.0/24 proto kernel scope link src 172.16.1.1 \n"
        "local 172.16.1.1 table local proto kernel scope host src 172.16.1.1 \n"
        "default via fe80::1 proto ra metric 1024 expires 1784sec pref medium\n"
    )
    assert route_lines("eth1", shown) == [
        "route replace 172.31.0.0/16 table 220 scope link src 172.16.1.1 dev eth1",
        "route replace 172.30.0.0/16 via 172.16.1.254 metric 77 dev eth1",
    ]
    assert neighbour_lines("eth1", "172.16.1.254 lladdr 02:00:00:00:00:01 PERMANENT \n") == [
        "neigh replace 172.16.1.254 lladdr 02:00:00:00:00:01 nud permanent dev eth1"
    ]


def test_a_port_gets_back_the_sysctls_that_are_not_the_usual_ones() -> None:
    # Captured from grep -s . /proc/sys/net/ipv4/conf/{eth1,default}/*, shortened.
    folder = "/proc/sys/net/ipv4/conf"
    shown = (
        f"{folder}/eth1/forwarding:0\n{folder}/eth1/proxy_arp:1\n{folder}/eth1/tag:0\n"
        f"/proc/sys/net/ipv6/conf/eth1/mtu:1400\n"
        f"{folder}/default/forwarding:0\n{folder}/default/proxy_arp:0\n/proc/sys/net/ipv6/conf/default/mtu:1280\n"
    )
    assert sysctl_lines(shown) == [f"{folder}/eth1/proxy_arp 1"]


LAB_YML = ROOT / "vagrant" / "lab.yml"


def test_vagrants_machines_are_those_of_lab_yml() -> None:
    inventory = inventory_of(read_lab_file(LAB_YML), Path("/run/ssh-config"))
    assert list(inventory.machines) == ["host1", "gw1", "wan", "gw2", "host2"]
    assert inventory.gw2.ports() == {"lan0": "52:54:00:76:04:01", "wan0": "52:54:00:76:04:02"}
    assert inventory.gw2.options_of_ssh() == ["-F", "/run/ssh-config"]


def test_a_smaller_topology_and_emulation_are_honoured(tmp_path: Path) -> None:
    text = LAB_YML.read_text().replace("driver: auto", "driver: qemu")
    lines = [line for line in text.splitlines() if not line.startswith("  wan:")]
    (tmp_path / "lab.yml").write_text("\n".join(lines).replace("[lan2, wan2]", "[lan2, wan1]"))
    lab = read_lab_file(tmp_path / "lab.yml")
    assert lab.patience > 1
    inventory = inventory_of(lab, tmp_path / "ssh-config")
    assert inventory.wan is None
    assert inventory.gw2.ports() == {"lan0": "52:54:00:76:03:01", "wan0": "52:54:00:76:03:02"}


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("driver: auto", "driver: xen", r"lab.yml:\d+: unknown driver 'xen'. Valid: auto, kvm, qemu"),
        ("driver: auto", "", r"lab.yml:1: driver is missing. Valid here: driver, box"),
        ("cpus: 1", "cpu: 1", r"cpus is missing"),
        ("cpus: 1", "cpus: 1\ncolour: red", r"lab.yml:\d+: colour is not known. Valid here: driver, box"),
        ("memory_mib: 512", "memory_mib: much", r"memory_mib is a whole number from 1 on, not 'much'"),
        ("cpus: 1", "cpus 1", r"lab.yml:\d+: not understood: 'cpus 1'. Valid: 'key: value'"),
        ("  gw1:", "  gate:", r"the node gw1 is missing. The nodes are host1, gw1"),
        ("  host2:", "  host3: [lan2]\n  host2:", r"lab.yml:\d+: there is no node host3. Valid: host1"),
        ("cpus: 1", "cpus: [1", r"lab.yml:\d+: not understood: 'cpus: \[1'. Valid: 'key: value'"),
        ("cpus: 1", "cpus: yes", r"lab.yml:\d+: cpus is a whole number from 1 on, not True"),
        ("nodes:", "nodes: 5\nolder:", r"lab.yml:\d+: nodes are lines '  node: \[network, network\]', not 5"),
        ("driver: auto", "- driver", r"lab.yml:\d+: not understood: '- driver'"),
        ("host1: [lan1]", "host1: lan1", r"lab.yml:\d+: host1 needs 1 networks, for its lan"),
        ("host1: [lan1]", "host1: [lan1, lan3]", r"host1 needs 1 networks, for its lan"),
        ("host1: [lan1]", "host1: [lan9]", r"host1 lan is on lan9 and gw1 lan on lan1: they need the same one"),
    ],
)
def test_a_mistake_in_lab_yml_is_named_with_its_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = LAB_YML.read_text()
    assert old in text
    (tmp_path / "lab.yml").write_text(text.replace(old, new, 1))
    with pytest.raises(UsageError, match=complaint):
        read_lab_file(tmp_path / "lab.yml")


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo 'not yet ready for SSH' >&2; exit 1", r"start them with: vagrant up .*not yet ready for SSH"),
        ('[ "$1" = up ] && { echo no provider >&2; exit 1; }', r"vagrant up says: no provider"),
    ],
)
def test_vms_that_are_not_up_are_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, complaint: str
) -> None:
    tool = tmp_path / "vagrant"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(CannotRunHere, match=complaint), vagrant_rig("up says" in complaint, print):
        pass
