"""Site mode without machines: the inventory, what stands against a machine, what a path allows."""

import json
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import CannotRunHere, LabError, UsageError
from runner.data.numbers import rate_bps
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked
from runner.instruments.traffic.ladder import rungs
from runner.lab import probes
from runner.lab.node import Completed
from runner.lab.places import check_spec, hosts, site
from runner.lab.places.addresses import collisions
from runner.lab.places.conflicts import PORTS, in_use, listeners
from runner.lab.places.ends import Looked, Turned, own_end
from runner.lab.places.gateways import MOST_NETWORKS, Gateway
from runner.lab.places.machines import own_image
from runner.lab.places.sites import Sites, describe_sites, read_sites, real, with_addresses
from runner.lab.probes import path as path_probe
from runner.lab.readings.path import nat_in_words, nats_in_words
from runner.lab.shape.site import BarePath, Site, peers_of
from runner.lab.shape.site_to_site import Lab
from runner.search import Loss
from runner.stages.examination import path_checks
from runner.sweep.request import Request, site_limits
from runner.sweep.seen import for_path, from_path, without_rate
from runner.tunnel.path import path_refusal
from tests.unit.asking import request
from tests.unit.helpers import named_secrets

TWO = """\
max_rate_bps = 200e6
between = "01:00-05:00"

[gw1]
address = "192.0.2.1"
public_address = "203.0.113.1"
wan = "eth0"
identity = "key"

[gw2]
address = "192.0.2.2"
port = 2200
lan = "10.20.0.0/16"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "sites.toml"
    path.write_text(text)
    return path


def sites_of(folder: Path, text: str = TWO) -> tuple[Site, ...]:
    own = {"gw1": "10.0.0.2", "gw2": "198.51.100.2"}
    return describe_sites(read_sites(written(folder, text)), dict.fromkeys(own, "eth0"), own)


# --- the inventory -------------------------------------------------------------------------------------------


def test_the_sites_are_described_with_their_own_addresses_and_seen_by_their_public_ones(tmp_path: Path) -> None:
    sites = read_sites(written(tmp_path, TWO))
    assert sites.gw1.identity == tmp_path / "key"
    one, two = sites_of(tmp_path)
    assert (one.lan, one.lan_address, one.host_address) == ("198.18.1.0/24", "198.18.1.1", "198.18.1.2")
    assert (two.lan, two.lan_prefix, two.host_address) == ("10.20.0.0/16", 16, "10.20.0.2")
    assert one.wan_address == "10.0.0.2"
    assert [peer.wan_address for peer in peers_of(two, (one, two))] == ["203.0.113.1"]
    assert peers_of(one, (one, two)) == [two]


def test_a_public_address_that_the_machine_has_itself_is_no_nat(tmp_path: Path) -> None:
    assert not sites_of(tmp_path, TWO.replace("203.0.113.1", "10.0.0.2"))[0].public_address


def test_every_wrong_line_is_named_at_once(tmp_path: Path) -> None:
    text = TWO.replace('address = "192.0.2.1"', 'adress = "192.0.2.1"').replace('"01:00-05:00"', '"1 to 5"')
    text = text.replace('wan = "eth0"', 'wan = "-x"').replace("10.20.0.0/16", "10.20.0.1/16").replace("2200", "0")
    with pytest.raises(UsageError) as wrong:
        check_spec(f"site:{written(tmp_path, text)}")
    said = str(wrong.value)
    assert ":2: between: must be hours like 01:00-05:00, or" in said
    assert "not '1 to 5'. Valid here: gw1, gw2, path_mtu, max_rate_bps, between, keep_image" in said
    assert ":5: [gw1] adress: is not known. Valid here: address, user, port" in said
    assert ":4: [gw1] address: is missing" in said
    assert ":7: [gw1] wan: cannot be '-x'" in said
    assert ":12: [gw2] port: " in said
    assert ":13: [gw2] lan: " in said


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"192.0.2.2"\nport = 2200', '"192.0.2.1"', r"gw1 and gw2 are the same machine \(192.0.2.1\)"),
        ("10.20.0.0/16", "198.18.0.0/16", "the networks of the sites overlap"),
        ("10.20.0.0/16", "10.20.0.0/30", "too small for a gateway and a host"),
        (
            "port = 2200",
            'public_address = "203.0.113.9"',
            "gw2 is behind a NAT that forwards nothing.* Name that gateway gw1",
        ),
        ("[gw2]", "[gw3]", r"\[gw2\]: is missing.*\n.*\[gw3\]: is not known. Valid here: gw1, gw2"),
        ("[gw2]", "[gw2", "is not TOML"),
    ],
)
def test_what_cannot_be_a_pair_of_sites(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    assert old in TWO
    with pytest.raises(UsageError, match=complaint):
        read_sites(written(tmp_path, TWO.replace(old, new, 1)))


HOSTS = """\
[host1]
address = "10.1.0.5"
lan_port = "eth1"
[host2]
address = "10.2.0.5"
lan_port = "eth1"
"""


def test_what_does_not_fit_together_is_named_at_once_each_at_its_line(tmp_path: Path) -> None:
    text = TWO.replace("port = 2200", 'public_address = "203.0.113.9"').replace("10.20.0.0/16", "198.18.1.0/30")
    text = text.replace("192.0.2.2", "192.0.2.1") + HOSTS.partition("[host2]")[0]
    with pytest.raises(UsageError) as wrong:
        read_sites(written(tmp_path, text))
    said = [line.partition("sites.toml:")[2].partition(". Valid here:")[0] for line in str(wrong.value).splitlines()]
    assert [line[:60] for line in said] == [
        "11: [gw2] address: gw1 and gw2 are the same machine (192.0.2",
        "13: [gw2] lan: the networks of the sites overlap: 198.18.1.0",
        "13: [gw2] lan: 198.18.1.0/30 is too small for a gateway and ",
        "4: [gw1] lan_port: is missing: the port of gw1 on the same n",
        "14: [host1]: [host2] is missing: name both hosts, or none",
        "12: [gw2] public_address: gw2 is behind a NAT that forwards ",
    ]


def test_wrong_lines_of_both_kinds_are_named_at_once_and_nothing_that_rests_on_one(tmp_path: Path) -> None:
    text = """\
between = "never"
[gw1]
wan_address = "192.0.2.1"
public_address = "2001:db8::1"
lan = "10.8.0.0/24"
network = "10.1.0.1/31"
[gw2]
address = "192.0.2.2"
wan_address = "2001:db8::2"
forwards = ["udp/99999"]
network_address = "10.2.0.1"
public_address = "here"
lan_port = "a/b"
colour = "blue"
[host1]
address = "192.0.2.2"
lan_port = "eth0"
"""
    with pytest.raises(UsageError) as wrong:
        read_sites(written(tmp_path, text))
    said = [line.partition("sites.toml:")[2].partition(". Valid here:")[0] for line in str(wrong.value).splitlines()]
    assert [line[:47] for line in said] == [
        "2: [gw1] address: is missing",
        "6: [gw1] network: Input is not a valid IPv4 net",
        "12: [gw2] public_address: cannot be 'here': an ",
        "10: [gw2] forwards.0: cannot be 'udp/99999': th",
        "13: [gw2] lan_port: cannot be 'a/b'",
        "14: [gw2] colour: is not known",
        "1: between: must be hours like 01:00-05:00, or ",
        "16: [host1] address: gw2 and host1 are the same",
        "5: [gw1] lan: 10.8.0.0/24 overlaps 10.8.0.0/16,",
        "11: [gw2] network_address: is the gateway's add",
        "9: [gw2] wan_address: the path has IPv4 or IPv6",
        "4: [gw1] public_address: 2001:db8::1 is IPv6, a",
        "2: [gw1] lan_port: is missing: the port of gw1 ",
        "15: [host1]: [host2] is missing: name both host",
    ]


@pytest.mark.parametrize(
    ("of_gw1", "of_gw2", "complaint"),
    [
        ('network = "10.1.0.0/32"', "", r":4: \[gw1\] network: 10.1.0.0/32 is too small for a gateway and a host"),
        ('network = "127.1.0.0/16"', "", ":4: .*is no network that hosts can be in"),
        ('network = "10.8.3.0/24"', "", ":4: .*10.8.3.0/24 is in 10.8.0.0/16, where the tunnels have their own"),
        (
            'network = "10.1.0.0/24"',
            'network = "10.1.0.0/24"',
            r':7: \[gw2\] network: 10.1.0.0/24 overlaps 10.1.0.0/24 of gw1.* network_seen_as = "10.2.0.0/24"',
        ),
        ('network_address = "10.1.0.1"', "", ":4: .*is the gateway's address in network, which is missing"),
        ('network = "10.1.0.0/24"\nnetwork_address = "10.1.1.1"', "", ":5: .*10.1.1.1 is no address of a host in the"),
        ('network = "10.1.0.0/24"\nnetwork_address = "10.1.0.255"', "", ":5: .*10.1.0.255 is no address of a host in"),
        ('network = ["10.1.0.0/24", "10.1.0.0/16"]', "", ":4: .*10.1.0.0/24 and 10.1.0.0/16 of this site overlap"),
        ('network = ["10.1.0.0/24", "127.0.0.0/24"]', "", ":4: .*127.0.0.0/24 is no network that hosts can be in"),
        ('network = ["10.1.0.0/24", "x"]', "", ":4: .* network: Input is not a valid IPv4 network"),
        (
            'network = ["10.1.0.0/24", "10.4.0.0/24"]',
            'network = ["10.3.0.0/24", "10.4.0.0/16"]',
            r':4: .*10.4.0.0/24 overlaps .* network_seen_as = \["10.0.0.0/24", "10.2.0.0/24"\]',
        ),
        (
            'network = ["10.1.0.0/24", "10.4.0.0/24"]\nnetwork_address = "10.5.0.1"',
            "",
            ":5: .*10.5.0.1 is no address of",
        ),
        ('lan = "127.0.0.0/24"', "", ":4: .*127.0.0.0/24 is no network that hosts can be in"),
        ('lan = "10.56.0.0/16"', "", ":4: .*10.56.0.0/16 overlaps 10.56.0.0/15, where the tunnels have their own"),
        ('network_ipv6 = "2001:db8:a::/56"', "", r":5: \[gw2\] network_ipv6: is missing, and \[gw1\] has one"),
        (
            'network_ipv6 = "2001:db8:a::/56"',
            'network_ipv6 = "2001:db8:a:1::/64"',
            r":7: \[gw2\] network_ipv6: the sites' IPv6 networks overlap",
        ),
        ('network_ipv6 = "fe80::/64"', 'network_ipv6 = "fd02::/64"', ":4: .*fe80::/64 is no network that hosts can"),
        ('network_ipv6 = "fd01::/127"', 'network_ipv6 = "fd02::/64"', ":4: .*fd01::/127 is no network that hosts can"),
        ('address_ipv6 = "fd01::1"', "", ":4: .*fd01::1 is no address of a host in the network network_ipv6, which is"),
        ("", 'forwards = ["udp/4242"]', r":7: \[gw2\] forwards: is what a NAT forwards, and no NAT is named"),
        ("", 'forwards = ["udp/99999"]', ":7: .*cannot be 'udp/99999': the highest port is 65535"),
    ],
)
def test_what_a_recipe_or_a_lab_could_not_use_is_refused_at_its_line(
    tmp_path: Path, of_gw1: str, of_gw2: str, complaint: str
) -> None:
    tables = ("[gw1]", 'address = "a"', "", of_gw1, "[gw2]", 'address = "b"', of_gw2)
    with pytest.raises(UsageError, match=complaint):
        read_sites(written(tmp_path, "\n".join(tables)))


def test_a_site_may_have_several_networks_and_the_gateway_an_address_in_any(tmp_path: Path) -> None:
    networks = 'network = ["10.7.0.0/24", "10.2.0.0/24"]\nnetwork_address = "10.2.0.9"'
    text = TWO.replace('lan = "10.20.0.0/16"', networks)
    site = real(sites_of(tmp_path, text), read_sites(written(tmp_path, text)))[1]
    assert (site.lan, site.lan_address, site.lans) == ("10.2.0.0/24", "10.2.0.9", ("10.2.0.0/24", "10.7.0.0/24"))


SAME = 'network = "192.168.1.0/24"\n'


@pytest.mark.parametrize(
    ("of_gw1", "of_gw2", "complaint"),
    [
        ("10.1.1.0/24", "", ':9: .*192.168.1.0/24 overlaps 192.168.1.0/24 of gw1.* network_seen_as = "10.1.0.0/24"'),
        ("10.1.1.0/25", "10.2.1.0/24", ":5: .*10.1.1.0/25 is for 192.168.1.0/24, and must be of the same size: /24"),
        ("10.1.1.0/24", "10.1.1.0/24", ":10: .*10.1.1.0/24 overlaps 10.1.1.0/24, as which gw1 is seen"),
        ("192.168.1.0/24", "10.2.1.0/24", ":5: .*192.168.1.0/24 overlaps 192.168.1.0/24, a network of gw2"),
        ("192.168.0.0/24", "10.2.1.0/24", ""),
        ("10.8.1.0/24", "10.2.1.0/24", ":5: .*10.8.1.0/24 is no network that hosts can be in, or the tunnels"),
        ("fd01::/64", "10.2.1.0/24", ":5: .*Input is not a valid IPv4 network"),
        (["10.1.1.0/24", "10.3.1.0/24"], "10.2.1.0/24", ":5: .*names 2 for 1 in network: name one for each"),
    ],
)
def test_networks_that_overlap_are_seen_as_others_that_do_not(
    tmp_path: Path, of_gw1: str | list[str], of_gw2: str, complaint: str
) -> None:
    tables = [
        f'[gw{number}]\naddress = "{number}"\n\n{SAME}'
        + (f"network_seen_as = {json.dumps(chosen)}\n" if chosen else "")
        for number, chosen in ((1, of_gw1), (2, of_gw2))
    ]
    if not complaint:
        assert read_sites(written(tmp_path, "".join(tables)))
        return
    with pytest.raises(UsageError, match=complaint):
        read_sites(written(tmp_path, "".join(tables)))


def test_of_a_sites_networks_some_may_be_seen_as_others(tmp_path: Path) -> None:
    networks = 'network = ["10.7.0.0/24", "10.2.0.0/24"]\nnetwork_address = "10.2.0.9"\n'
    text = TWO.replace('lan = "10.20.0.0/16"', networks + 'network_seen_as = ["10.7.0.0/24", "10.3.0.0/24"]')
    site = real(sites_of(tmp_path, text), read_sites(written(tmp_path, text)))[1]
    assert (site.lan, site.lan_address, site.lans) == ("10.3.0.0/24", "10.3.0.9", ("10.3.0.0/24", "10.7.0.0/24"))
    plain = TWO.replace('lan = "10.20.0.0/16"', networks)
    assert site.at_home == real(sites_of(tmp_path, plain), read_sites(written(tmp_path, plain)))[1]


def test_a_line_that_is_told_is_a_line_that_does(tmp_path: Path) -> None:
    """For networks of any size; where none is free, smaller ones are asked for."""
    for network in ("192.168.1.0/24", "10.0.0.0/9", "10.0.0.0/30", "172.16.0.0/12"):
        gateways = [f'[gw{number}]\naddress = "{number}"\nnetwork = "{network}"\n' for number in (1, 2)]
        with pytest.raises(UsageError) as wrong:
            read_sites(written(tmp_path, "".join(gateways)))
        told = re.findall(r'for example: (network_seen_as = "[^"]+")', str(wrong.value))
        if network == "10.0.0.0/9":
            assert "No private network of this size is free: name smaller networks" in str(wrong.value)
            continue
        assert read_sites(
            written(tmp_path, "".join(f"{one}{line}\n" for one, line in zip(gateways, told, strict=True)))
        )


def test_a_gateway_may_have_any_address_in_its_network(tmp_path: Path) -> None:
    text = TWO.replace('lan = "10.20.0.0/16"', 'network = "10.2.0.0/30"\nnetwork_address = "10.2.0.2"')
    inventory = read_sites(written(tmp_path, text))
    site = real(sites_of(tmp_path, text), inventory)[1]
    assert (site.lan_address, site.host_address) == ("10.2.0.2", "10.2.0.1")


def test_hosts_of_their_own_are_machines_and_no_gateways(tmp_path: Path) -> None:
    text = TWO.replace('wan = "eth0"', 'wan = "eth0"\nlan_port = "eth1"') + 'lan_port = "eth2"\n' + HOSTS
    sites = read_sites(written(tmp_path, text))
    assert [*sites.machines] == ["gw1", "gw2"]
    assert [*sites.all_machines] == ["gw1", "gw2", "host1", "host2"]
    assert [*read_sites(written(tmp_path, TWO)).all_machines] == ["gw1", "gw2"]


def test_a_missing_inventory_is_named() -> None:
    with pytest.raises(UsageError, match=r"--lab site:FILE: the inventory nowhere.toml cannot be read"):
        check_spec("site:nowhere.toml")


def test_limits_of_the_command_line() -> None:
    assert site_limits("site:x.toml", "200M", "01:00-05:00") == {"max_rate_bps": 200e6, "between": "01:00-05:00"}
    assert site_limits("site:x.toml", "", "01:00-05:00 UTC") == {"between": "01:00-05:00 UTC"}
    assert [rate_bps(text) for text in ("500k", "1.5G", "1e6")] == [500e3, 1.5e9, 1e6]
    for lab, rate, hours, complaint in (
        ("netns", "200M", "", "--max-rate protects the path of a site lab"),
        ("site:x.toml", "fast", "", "--max-rate must be a rate"),
        ("site:x.toml", "1", "", "--max-rate must be a rate"),
        ("site:x.toml", "", "one to five", "--between must be hours like 01:00-05:00"),
        ("site:x.toml", "", "01:00-05:00 Europe/Atlantis", "--between has the time zone 'Europe/Atlantis', which"),
    ):
        with pytest.raises(UsageError, match=complaint):
            site_limits(lab, rate, hours)


# --- the machines --------------------------------------------------------------------------------------------


LINKS: list[Any] = [
    {"ifname": "lo", "flags": ["UP"], "addr_info": [{"family": "inet", "local": "127.0.0.1", "prefixlen": 8}]},
    {
        **{"ifname": "eth0", "address": "52:54:00:00:00:01", "flags": ["UP"]},
        "addr_info": [
            {"family": "inet", "local": "10.0.0.2", "prefixlen": 24},
            {"family": "inet6", "local": "fe80::1", "prefixlen": 64},
        ],
    },
]
ROUTES: list[Any] = [{"dst": "0.0.0.0/0", "gateway": "10.0.0.1", "dev": "eth0"}, {"dst": "10.0.0.0/24", "dev": "eth0"}]
SECOND: Any = {
    **{"ifname": "eth9", "address": "52:54:00:00:00:09", "flags": ["UP"]},
    "addr_info": [{"family": "inet", "local": "192.0.2.9", "prefixlen": 24}],
}
BACKUP: Any = {"dst": "0.0.0.0/0", "gateway": "192.0.2.1", "dev": "eth9"}
GETS = [{"dst": "203.0.113.9", "gateway": "10.0.0.1", "dev": "eth0", "prefsrc": "10.0.0.2"}]


class OneAnswer:
    """A connection to a machine whose way to any address is this."""

    name, client, server = "gw1", "192.0.2.77", "10.0.0.2"

    def __init__(self, gets: Any) -> None:
        self.gets = gets

    def run(self, *argv: str) -> Completed:
        return Completed(0, json.dumps(self.gets), "")


def looked(there: list[Any], ways: list[Any], gets: Any = (), **more: Any) -> Looked:
    return Looked(OneAnswer(gets), there, ways, [], more.pop("taken", {}), **more)  # type: ignore[arg-type]


def gateway(folder: Path, **keys: object) -> Gateway:
    return Gateway.model_validate({"address": "192.0.2.2", **keys})


def test_the_port_of_the_path_is_the_default_routes_while_nobody_knows_where_the_other_is(tmp_path: Path) -> None:
    own = own_end(gateway(tmp_path), looked(LINKS, ROUTES))
    assert (own.port, own.address, own.turned) == ("eth0", "10.0.0.2", None)
    with pytest.raises(CannotRunHere, match='it has no default route, so name the port of the path: wan = "eth0"'):
        own_end(gateway(tmp_path), looked(LINKS, []))


@pytest.mark.parametrize("more", [{"table": "100"}, {"metric": 200}, {"table": "default"}])
def test_of_two_default_routes_the_kernels_choice_counts(tmp_path: Path, more: dict[str, Any]) -> None:
    """The second one comes first in the list; it is of another table, or has a metric."""
    ways = [BACKUP | more, *ROUTES]
    assert own_end(gateway(tmp_path), looked([*LINKS, SECOND], ways)).port == "eth0"
    assert own_end(gateway(tmp_path), looked([*LINKS, SECOND], ways, GETS), "203.0.113.9").port == "eth0"
    by_rule = [GETS[0] | {"dev": "eth9", "prefsrc": "192.0.2.9"}]  # ip-rule(8) prefers the other table
    own = own_end(gateway(tmp_path), looked([*LINKS, SECOND], ways, by_rule), "203.0.113.9")
    assert (own.port, own.address) == ("eth9", "192.0.2.9")


@pytest.mark.parametrize("named", [{"wan": "eth9"}, {"wan": "52:54:00:00:00:09"}, {"wan_address": "192.0.2.9"}])
def test_the_path_is_turned_to_the_port_that_is_named(tmp_path: Path, named: dict[str, str]) -> None:
    ways = [*ROUTES, BACKUP | {"table": "5213"}]
    own = own_end(gateway(tmp_path, **named), looked([*LINKS, SECOND], ways, GETS), "203.0.113.9")
    assert own.turned == Turned("203.0.113.9", "eth9", "192.0.2.9", "192.0.2.1", "5214")
    its_own = [GETS[0] | {"dev": "eth9"}]
    assert own_end(gateway(tmp_path, **named), looked([*LINKS, SECOND], ways, its_own), "203.0.113.9").turned is None
    with pytest.raises(
        CannotRunHere, match=r"its route to 203\.0\.113\.9 leaves by another port; no route there is by eth9"
    ):
        own_end(gateway(tmp_path, **named), looked([*LINKS, SECOND], ROUTES, GETS), "203.0.113.9")


def test_a_route_by_several_ports_needs_a_name(tmp_path: Path) -> None:
    hops = [{"gateway": way["gateway"], "dev": way["dev"]} for way in (ROUTES[0], BACKUP)]
    seen = looked([*LINKS, SECOND], [{"dst": "0.0.0.0/0", "nexthops": hops}], GETS)
    with pytest.raises(CannotRunHere, match='goes by eth0 and eth9: name one of them, wan = "eth0"'):
        own_end(gateway(tmp_path), seen, "203.0.113.9")
    own = own_end(gateway(tmp_path, wan="eth0"), seen, "203.0.113.9")
    assert own.turned == Turned("203.0.113.9", "eth0", "10.0.0.2", "10.0.0.1", "5213")


@pytest.mark.parametrize(
    ("port", "complaint"),
    [
        ("eth7", r"no interface eth7 \(lan_port\); it has: eth0, eth1, eth2, br0$"),
        ("eth1", r"eth1 \(lan_port\) is down: ip link set eth1 up"),
        ("eth2", 'eth2 is a part of br0: give lan_port = "br0"'),
        ("eth0", "eth0 is the port of the path, so"),
        ("52:54:00:00:00:04", ""),
    ],
)
def test_the_port_to_a_host_of_its_own(tmp_path: Path, port: str, complaint: str) -> None:
    more: list[Any] = [
        {"ifname": "eth1", "flags": [], "addr_info": []},
        {"ifname": "eth2", "flags": ["UP"], "master": "br0", "addr_info": []},
        {"ifname": "br0", "flags": ["UP"], "address": "52:54:00:00:00:04", "addr_info": []},
    ]
    gateway = read_sites(written(tmp_path, TWO)).gw1
    assert hosts.lan_port(gateway, LINKS, "eth0") == "vpneval0"
    gateway = gateway.model_copy(update={"lan_port": port})
    if complaint:
        with pytest.raises(CannotRunHere, match=complaint):
            hosts.lan_port(gateway, [*LINKS, *more], "eth0")
    else:
        assert hosts.lan_port(gateway, [*LINKS, *more], "eth0") == "br0"


def tunnel(name: str, kind: str = "tun") -> Any:
    return {"ifname": name, "flags": ["UP"], "addr_info": [], "linkinfo": {"info_kind": kind}}


def test_what_is_in_use_is_named_with_what_to_do(tmp_path: Path) -> None:
    inventory = read_sites(written(tmp_path, TWO))
    assert in_use(looked(LINKS, ROUTES), {}, inventory) == ([], [])
    ways: list[Any] = [
        *ROUTES,
        {"dst": "10.20.7.0/24", "dev": "eth0"},
        {"dst": "10.9.0.1", "dev": "eth1"},
        {"dst": "10.0.0.0/8"},
    ]
    seen = looked([*LINKS, tunnel("wg7", "wireguard")], ways, policies="src 1.2.3.4 dst …", states="\t SAD count 2\n")
    said, notes = in_use(seen, {}, inventory)
    assert [line[:30] for line in said] == [
        "it has XFRM policies, so IPsec",
        "its route to 10.20.7.0/24 is w",
        "its route to 10.9.0.1/32 (eth1",
    ]
    assert [note[:29] for note in notes] == ["a tunnel is at work (wg7). It"]


def port(name: str, *addresses: str, kind: str = "") -> Any:
    entries = [
        dict(zip(("local", "prefixlen"), (a, int(b)), strict=True)) for a, _, b in (x.partition("/") for x in addresses)
    ]
    return {"ifname": name, "flags": ["UP"], "addr_info": entries, "linkinfo": {"info_kind": kind} if kind else {}}


@pytest.mark.parametrize(
    ("there", "ways", "said"),
    [
        (port("docker0", "172.17.0.1/16", kind="bridge"), [], "172.17.0.0/16 of its port docker0 .*172.16.0.0/12.*bip"),
        (port("eth1", "172.16.9.1/24"), [], "172.16.9.0/24 of its port eth1 overlaps .*: give eth1 another one"),
        (port("eth1", "172.16.9.1/8"), [], "172.0.0.0/8 of its port eth1 overlaps"),
        (port("eth1", "fd00:2::7/32"), [], "fd00:2::/32 of its port eth1 overlaps fd00:2:1::/48, a network of gw2"),
        (port("eth1"), [{"dst": "172.20.0.0/16", "dev": "eth1"}], "its route to 172.20.0.0/16 by eth1 .*remove the"),
        (port("wg7", kind="wireguard"), [{"dst": "172.16.0.0/12", "dev": "wg7"}], "by wg7 .*take that tunnel down"),
        (port("eth1"), [{"dst": "192.168.0.0/16", "gateway": "172.16.0.1", "dev": "eth1"}], "its router 172.16.0.1"),
        (port("eth1", "10.0.0.7/8"), [], "10.0.0.0/8 of its port eth1 has 10.8.0.0/16 in it, where tunnels"),
        (port("eth1", "198.18.0.1/15"), [], "198.18.0.0/15 of its port eth1 has 198.18.2.0/24 in it, where the test"),
        (port("eth1", "172.32.0.1/16"), [], ""),
        (port("eth1"), [{"dst": "172.0.0.0/8", "dev": "eth1"}], ""),
        (port("eth1"), [{"dst": "172.16.0.0/12", "type": "unreachable"}], ""),
        (port("eth1", "fe80::2/64", "::1/128"), [{"dst": "0.0.0.0/0", "dev": "eth1"}], ""),
    ],
)
def test_what_a_recipes_tunnel_would_cut_off_is_named(there: Any, ways: list[Any], said: str) -> None:
    far = {"address": "203.0.113.9", "network": "172.16.0.0/12", "network_ipv6": "fd00:2:1::/48"}
    near = {"address": "192.0.2.2", "network_ipv6": "fd00:1:1::/48"}
    inventory = Sites.model_validate({"gw1": near, "gw2": far})
    found = collisions("gw1", looked([*LINKS, there], [*ROUTES, *ways]), inventory)
    assert bool(found) is bool(said), found
    assert re.search(said, " ".join(found)), found


def test_who_is_logged_in_from_the_other_site_is_named() -> None:
    gateways = {"gw1": {"address": "192.0.2.2"}, "gw2": {"address": "203.0.113.9", "network": "192.0.2.0/24"}}
    (said,) = collisions("gw1", looked(LINKS, ROUTES), Sites.model_validate(gateways))
    assert said.startswith("the ssh client 192.0.2.77 overlaps 192.0.2.0/24, a network of gw2")


CUTS = re.compile(r"link set|link del|route del|remove it|end it first[^,]* \(|stop|systemctl|down\b")


@pytest.mark.parametrize(
    ("port", "kind"),
    [
        ("ppp0", "ppp"),
        ("dslite0", "ip6tnl"),
        ("tailscale0", "tun"),
        ("tap4", "tun"),
        ("wg0", "wireguard"),
        ("gre1", "gre"),
    ],
)
@pytest.mark.parametrize("carries", ["the default route", "the path", "the ssh connection from 192.0.2.77", ""])
def test_no_advice_takes_down_what_carries_the_connection(tmp_path: Path, port: str, kind: str, carries: str) -> None:
    inventory, carriers = read_sites(written(tmp_path, TWO)), {port: carries} if carries else {}
    inside: Any = {"dst": "10.8.0.0/24", "dev": port}  # where the VPNs have addresses: beside that, nobody can measure
    for ways in (ROUTES, [*ROUTES, inside]):
        problems, notes = in_use(looked([*LINKS, tunnel(port, kind)], ways), carriers, inventory)
        assert bool(problems) is (inside in ways)
        assert bool(notes) is not bool(carries)
        assert not CUTS.search(" ".join([*problems, *notes])), problems
    assert CUTS.search(in_use(looked(LINKS, [inside | {"dev": "eth1"}]), {}, inventory)[0][0]), "the positive control"


def test_ipsec_that_carries_the_connection_is_not_to_be_ended(tmp_path: Path) -> None:
    inventory = read_sites(written(tmp_path, TWO))
    for to, ends in (("192.0.2.0/24", False), ("10.8.0.0/24", True)):
        ((said,), _) = in_use(looked(LINKS, ROUTES, policies=f"src 10.0.0.0/24 dst {to} \n\tdir out"), {}, inventory)
        assert bool(CUTS.search(said)) is ends, said


def test_xfrm_states_without_policies_are_in_use_too(tmp_path: Path) -> None:
    """They may be made by hand, or belong to a program's own sockets. The undo could not put them back."""
    ((said,), _) = in_use(looked(LINKS, ROUTES, states="\t SAD count 10\n"), {}, read_sites(written(tmp_path, TWO)))
    assert said == "it has XFRM states, so IPsec is at work: end it first (ip xfrm state shows them)"


def test_listeners_are_those_that_others_can_reach() -> None:
    # Captured from ss -Hlntup (iproute2 6.15).
    shown = (
        'udp   UNCONN 0      0            0.0.0.0:500        0.0.0.0:*    users:(("charon",pid=9,fd=12))\n'
        'tcp   LISTEN 0      128        127.0.0.1:655        0.0.0.0:*    users:(("tincd",pid=8,fd=3))\n'
        "tcp   LISTEN 0      128             [::]:1194          [::]:*   \n"
    )
    assert listeners(shown) == {"udp/500": "charon", "tcp/1194": "somebody"}


# --- the path ------------------------------------------------------------------------------------------------


def test_the_ports_that_a_lab_tries_are_those_of_the_plugins() -> None:
    declared = {port for name in vpn_names() for port in load_vpn(name).ports.split()}
    assert declared == {*PORTS}


@pytest.mark.parametrize(
    ("vpn", "path", "reason"),
    [
        ("none", BarePath(1500, on_link=True), ""),
        ("none", BarePath(1500, on_link=False), "no router on this path knows"),
        ("macsec", BarePath(1500, on_link=False), "needs one Ethernet"),
        ("wireguard_go", BarePath(1400, on_link=False, tried=("udp/51820",), open=("udp/51820",)), ""),
        ("wireguard_go", BarePath(1400, on_link=False, tried=("udp/51820",)), "udp/51820 does not come through to gw2"),
        (
            "openconnect_tls",
            BarePath(1500, on_link=True, taken={"gw2": {"tcp/443": "nginx"}}),
            r"tcp/443 \(nginx\) is in use on gw2",
        ),
    ],
)
def test_what_a_path_allows(vpn: str, path: BarePath, reason: str) -> None:
    no = path_refusal(Lab({}, path=path), load_vpn(vpn))
    assert bool(no) == bool(reason)
    if no:
        assert re.search(reason, no.reason)


def test_a_nat_refuses_what_cannot_pass_it_and_what_it_does_not_forward(tmp_path: Path) -> None:
    path = BarePath(1500, on_link=False, tried=("udp/4242",), open=("udp/4242",))
    text = TWO.replace("port = 2200", 'public_address = "203.0.113.9"\nforwards = ["udp/4242"]')
    lab = Lab({}, sites_of(tmp_path, text), path=path)
    assert path_refusal(lab, load_vpn("nebula")) is None
    assert "does not work through the NAT before gw1 and gw2" in path_refusal(lab, load_vpn("gre")).reason  # type: ignore[union-attr]
    said = path_refusal(lab, load_vpn("tinc")).reason  # type: ignore[union-attr]
    assert said == "the NAT before gw2 does not forward tcp/655, udp/655: list it in forwards of [gw2]"


def test_openvpn_accepts_the_port_that_a_nat_makes_of_its_own(tmp_path: Path) -> None:
    one, two = sites_of(tmp_path)
    openvpn, secrets = load_vpn("openvpn"), {f"{name}.{end}": "" for name in ("gw1", "gw2") for end in ("crt", "key")}
    secrets["ca.crt"] = ""
    texts = {
        me.name: "".join(openvpn.render(me, peers_of(me, (one, two)), openvpn.comparable, secrets).values())
        for me in (one, two)
    }
    assert "float\n" in texts["gw2"]
    assert "remote 203.0.113.1\n" in texts["gw2"]
    assert "local 10.0.0.2\n" in texts["gw1"]
    assert "float\n" not in texts["gw1"]


KEEPS = {
    "boringtun": "PersistentKeepalive = 7\n",
    "ipsec_user": "    keep_alive = 7s\n",
    "libreswan": "    keep-alive=7\n",
    "nebula": "punchy:\n  punch: true\ntimers:\n  connection_alive_interval: 7\n",
    "openconnect": "dpd = 7\nkeepalive = 7\n",
    "openvpn_tcp": "keepalive 7 42\n",
    "ssh_tun": "ServerAliveInterval 7\n",
    "tinc": "PingInterval = 7\n",
    "wireguard": "PersistentKeepalive = 7\n",
    "wireguard_go": "PersistentKeepalive = 7\n",
    "wireguard_rosenpass": '"persistent-keepalive", "7"',
}


@pytest.mark.parametrize("name", KEEPS)
def test_the_inventory_says_how_often_a_tunnel_keeps_a_nat_open(tmp_path: Path, name: str) -> None:
    vpn = load_vpn(name)

    def rendered(top: str) -> str:
        sites = sites_of(tmp_path, top + TWO)
        secrets = named_secrets(vpn, sites)
        return "".join(
            text for me in sites for text in vpn.render(me, peers_of(me, sites), vpn.comparable, secrets).values()
        )

    assert KEEPS[name] in rendered("keepalive_s = 7\n")
    assert KEEPS[name] not in rendered("")


def test_the_path_in_words(tmp_path: Path) -> None:
    found = {"seen_as": "203.0.113.1", "port_kept": False, "mappings": 2}
    nat = nat_in_words(found, "10.0.0.2")
    assert nat == "10.0.0.2 is seen as 203.0.113.1; the NAT changes the port; another mapping for each port"
    assert nat_in_words({"seen_as": "10.0.0.2"}, "10.0.0.2") == ""
    path = BarePath(
        *(1400, False, nat, ("udp/500", "udp/4500"), ("udp/500",), (1.0, 2.0, 3.0), 0.01),
        *((True, False), (True, True), 0.25, (5e6, 4e7)),
    )
    said = {check.what: (check.level, check.says) for check in path_checks(path, sites_of(tmp_path))}
    assert said["path MTU"] == ("ok", "1400 bytes; the test hosts' packets are 120 bytes shorter")
    assert said["path loss"] == ("warning", "1.0% of the exchanges")
    assert said["path DSCP"] == ("warning", "the marks are removed from gw2 to gw1")
    assert said["path ECN"] == ("ok", "the marks survive")
    assert said["path clocks"] == ("ok", "they differ by 250.0 ms")
    assert said["path ports"] == ("warning", "these do not come through to gw2: udp/4500")
    assert said["path rate"][1].startswith("40 Mbit/s from gw2 to gw1")


def test_the_site_profile_searches_beyond_what_the_path_carries() -> None:
    profile = from_path(PROFILES["site"], BarePath(1500, on_link=True, rates_bps=(3e6, 4e7)))
    assert {profile.udp.max_rate_bps, profile.packets.max_rate_bps, profile.duplex.max_rate_bps} == {6e7}
    assert set(profile.searches) == {"udp", "packets", "duplex"}
    assert {search.max_rate_bps for search in profile.searches.values()} == {6e7}
    assert from_path(PROFILES["site"], BarePath(1500, on_link=True)) == PROFILES["site"]


def test_without_a_measured_rate_the_searches_go_by_the_limit(tmp_path: Path) -> None:
    bare = BarePath(1500, on_link=True, tried=("udp/51820",), open=("udp/51820",))
    assert from_path(PROFILES["site"], bare, 5e7).udp.max_rate_bps == 5e7
    says = {check.what: (check.level, check.says) for check in path_checks(bare, sites_of(tmp_path))}
    level, said = says["path rate"]
    assert level == "warning"
    assert said.startswith("not measured, so --profile site searches up to --max-rate, if you give it, and up to 10")
    assert said.endswith("To measure it, forward one and list it in forwards of [gw2]")
    assert "path RTT" in says
    tcp = BarePath(1500, on_link=True, tried=("udp/500", "tcp/655"), rates_bps=(1e9, 1e9), open=("tcp/655",))
    says = {check.what: (check.level, check.says) for check in path_checks(tcp, sites_of(tmp_path))}
    assert says["path RTT"][1].endswith("no UDP port of gw2 comes through. To measure it, let one of these in: udp/500")
    assert says["path rate"][0] == "ok"


def asked_on_a_path(rates_bps: tuple[float, ...]) -> tuple[Request, str]:
    """What is asked of a site lab whose path carries that, once the path was looked at; and what the user is told."""
    asked, path = request("choose", vpns="wireguard_go", profile="site"), BarePath(1500, True, rates_bps=rates_bps)
    return for_path(asked, path), without_rate(asked, path)


def test_what_the_path_carries_limits_the_searches_and_the_ladder() -> None:
    asked, said = asked_on_a_path((8e6, 30e6))
    assert asked.profile.udp.max_rate_bps == 45e6
    (params, *_) = (cell.params for cell in asked.cells if cell.params["measure"] == "ladder")
    climbed = rungs(Asked(load_vpn("wireguard_go"), params, asked.profile, 1))
    assert climbed[-1] == pytest.approx(1.25 * 0.93 * 8e6), "of the line, which is the slower way"
    assert (asked.needs.line_bps, asked.needs.line_up_bps) == (30e6, 8e6)
    assert asked.asked.needs.line_bps is None, "it was not asked for"
    assert not said


def test_the_searches_rates_can_be_set_and_then_the_path_does_not_change_them(tmp_path: Path) -> None:
    inventory = written(tmp_path, TWO)
    asked = request("transport", vpns="wireguard_go", profile="site", lab=f"site:{inventory}", search_rates="2M-50M")
    asked = for_path(asked, BarePath(1500, on_link=True, rates_bps=(9e9, 9e9)))
    for search in (asked.profile.udp, asked.profile.packets, asked.profile.duplex):
        assert (search.min_rate_bps, search.max_rate_bps) == (2e6, 50e6)
    assert asked.profile.note.endswith("; changed: the searches offer from 2 to 50 Mbit/s")
    offered: list[float] = []

    def lossy(rate_bps: float, duration_s: float) -> Loss:
        offered.append(rate_bps)
        return Loss(100, 0)

    asked.profile.packets.find(lossy, 1e5, 0.0, 1e5)  # the instrument's own lowest rate
    assert min(offered) == 2e6


def test_a_rate_that_was_not_measured_is_said() -> None:
    asked, said = asked_on_a_path(())
    assert said.startswith("The rate of the bare path was not measured, because no port of gw2 comes through.")
    assert asked.profile == PROFILES["site"]


def test_a_path_that_loses_what_asks_for_the_nat_says_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [{}, {"from": ("203.0.113.1", 7)}]
    monkeypatch.setattr(path_probe, "ask_far_end", lambda *_: answers.pop(0))
    assert path_probe.translation("192.0.2.1", [500, 4500])["seen_as"] == "203.0.113.1"
    monkeypatch.setattr(path_probe, "ask_far_end", lambda *_: {})
    assert path_probe.translation("192.0.2.1", [500, 4500]) == {}


def test_the_nat_before_either_gateway_is_told(tmp_path: Path) -> None:
    one, two = sites_of(tmp_path)
    bare = replace(one, public_address="")
    behind = replace(two, public_address="203.0.113.9")
    seen = {"seen_as": one.wan_address, "port_kept": True, "mappings": 1}
    assert nats_in_words(seen, bare, two, []) == ""
    told = "gw2 198.51.100.2 is reached at 203.0.113.9, whose NAT forwards udp/51820"
    assert nats_in_words(seen, bare, behind, ["udp/51820"]) == told
    found = {"seen_as": "203.0.113.1", "port_kept": True, "mappings": 1}
    assert nats_in_words(found, one, behind, ["udp/51820"]) == f"{nat_in_words(found, one.wan_address)}; {told}"
    assert nats_in_words({}, one, two, []).startswith("10.0.0.2 is reached at 203.0.113.1; which kind of NAT")


@pytest.mark.parametrize("whole", [True, False])
def test_of_an_image_that_does_not_arrive_whole_nothing_stays(tmp_path: Path, whole: bool) -> None:
    (tmp_path / "from").mkdir()
    (tmp_path / "from/file").write_bytes(bytes(100_000))
    archive = subprocess.run(["tar", "-C", tmp_path / "from", "-cf", "-", "."], capture_output=True, check=True).stdout
    receive = [sys.executable, "-IS", "-c", probes.source("receive"), f"{tmp_path}/to"]
    sent = archive if whole else archive[:50_000]
    done = subprocess.run(receive, input=sent, capture_output=True, check=False, timeout=30)
    assert (done.returncode == 0) is whole
    assert (tmp_path / "to").exists() is whole


def test_who_is_not_root_is_told_what_to_do_and_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = site.SiteRig({}, read_sites(written(tmp_path, TWO)), {})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(CannotRunHere, match=r"only root .* Run vpneval as root .* or use --image host"):
        rig.image("trixie")
    rig.check_user("host")


def test_the_versions_of_both_gateways_are_in_the_image() -> None:
    class PaperConnection:
        def __init__(self, shown: str) -> None:
            self.shown = shown

        def run(self, *argv: str) -> Completed:
            return Completed(0, self.shown, "")

    both = {"gw1": PaperConnection("openvpn 2.6\ntinc 1.0\n"), "gw2": PaperConnection("openvpn 2.7\ntinc 1.0\nn2n 3\n")}
    assert own_image(both, "site", "host").packages == {  # type: ignore[arg-type]
        "openvpn": "2.6 on gw1, 2.7 on gw2",
        "tinc": "1.0",
        "n2n": "not installed on gw1, 3 on gw2",
    }


def test_a_machine_that_does_not_forget_its_image_does_not_keep_the_others_connection_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_ones: list[str] = []

    class PaperConnection:
        def __init__(self, name: str, machine: object, folder: Path, say: object) -> None:
            self.name = name

        def close(self) -> None:
            closed_ones.append(self.name)

    def forget(connection: PaperConnection) -> None:
        raise LabError(f"{connection.name} did not answer within 60 s")

    monkeypatch.setattr(site, "Connection", PaperConnection)
    monkeypatch.setattr(site, "_fit", lambda connection, name, *_: looked(LINKS, ROUTES))
    monkeypatch.setattr(site, "forget", forget)
    inventory = read_sites(written(tmp_path, "keep_image = false\n" + TWO))
    with pytest.raises(LabError, match="did not answer"), site.site_rig(inventory):
        pass
    assert sorted(closed_ones) == ["gw1", "gw2"]


@pytest.mark.parametrize(
    "name", ["branch.dyn.example.org", "BRANCH.Example.org", "xn--bcher-kva.example", "4.ex-1.org"]
)
def test_a_gateway_without_a_fixed_address_has_a_name_or_dials(tmp_path: Path, name: str) -> None:
    """Nobody is asked for the name's address until something is measured."""
    text = TWO.replace('"203.0.113.1"', f'"{name}"')
    one, two = described = sites_of(tmp_path, text)
    assert one.moves
    assert not two.moves
    assert [peer.wan_address for peer in peers_of(two, described)] == [name]
    inventory = read_sites(written(tmp_path, TWO.replace("[gw1]\n", "[gw1]\ndials = true\n")))
    one, two = real(sites_of(tmp_path, TWO), inventory)
    assert one.moves
    assert [peer.wan_address for peer in peers_of(two, (one, two))] == [""]


@pytest.mark.parametrize(
    "name",
    [
        "here",
        "10.0.0.300",
        "a..b.org",
        "-a.org",
        "a_b.org",
        "a.org;id",
        "$(id).org",
        "a.org\\n",
        f"{'a' * 64}.org",
        "é.org",
    ],
)
def test_what_is_no_host_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"public_address: cannot be .* or a name as branch.dyn.example.org"):
        read_sites(written(tmp_path, TWO.replace('"203.0.113.1"', f'"{name}"')))


def test_gw1_dials_so_gw2_can_be_reached(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="gw1 dials gw2, so gw2 needs an address or a name"):
        read_sites(written(tmp_path, TWO.replace("[gw2]\n", "[gw2]\ndials = true\n")))


def test_a_name_without_an_address_cannot_be_measured(tmp_path: Path) -> None:
    known = with_addresses(read_sites(written(tmp_path, TWO)))
    assert str(known.gw1.public_address) == "203.0.113.1"
    with pytest.raises(UsageError, match=r"nowhere\.invalid has no address now"):
        with_addresses(read_sites(written(tmp_path, TWO.replace("203.0.113.1", "nowhere.invalid"))))


@pytest.mark.parametrize(
    ("known", "complaint"),
    [("2001:db8::1", "has no address of IPv4, as wan_address has"), ("fe80::1%1", "has no address of IPv4")],
)
def test_a_names_address_is_of_the_paths_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str, complaint: str
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET6, 2, 17, "", (known, 0, 0, 1))])
    named = TWO.replace('public_address = "203.0.113.1"', 'public_address = "branch.example.org"')
    with pytest.raises(UsageError, match=complaint):
        with_addresses(read_sites(written(tmp_path, named.replace("[gw1]\n", '[gw1]\nwan_address = "10.0.0.2"\n'))))


def test_a_name_at_an_address_with_a_scope_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET6, 2, 17, "", ("fe80::1%1", 0, 0, 1))])
    with pytest.raises(UsageError, match=r"branch\.example\.org is at an address that cannot be 'fe80::1%1'"):
        with_addresses(read_sites(written(tmp_path, TWO.replace("203.0.113.1", "branch.example.org"))))


def test_a_site_has_so_many_networks_and_no_more(tmp_path: Path) -> None:
    def sites(number: int) -> Path:
        networks = ", ".join(f'"10.{at}.0.0/24"' for at in range(20, 20 + number))
        return written(tmp_path, TWO.replace("[gw2]\n", f"[gw2]\nnetwork = [{networks}]\n"))

    assert len(read_sites(sites(MOST_NETWORKS)).gw2.network) == MOST_NETWORKS
    with pytest.raises(UsageError, match=rf"{MOST_NETWORKS + 1} networks: at most {MOST_NETWORKS}"):
        read_sites(sites(MOST_NETWORKS + 1))
