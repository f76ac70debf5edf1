"""A hub and its spokes on paper: the inventory's mistakes, each at its line; and who knows which networks and keys."""

from ipaddress import ip_network
from itertools import combinations
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.cli.commands.recipe.work import star_sites
from runner.data.errors import UsageError
from runner.lab.places import check_spec
from runner.lab.places.hub import MOST_SPOKES, Hub, read_hub
from runner.lab.places.sites import read_sites
from runner.lab.shape.site import Site, pair_number, peers_of
from runner.vpn import deploy
from runner.vpn.recipe import KeyMaker

SPOKES = {name: load_vpn(name).hub_and_spokes for name in vpn_names()}


def inventory(spokes: int = 3, *, top: str = "", more: str = "", ipv6: bool = False) -> str:
    tables = {"hub": 0, **{f"spoke.site{n}": n for n in range(1, spokes + 1)}}
    text = f"{top}\n"
    for name, n in tables.items():
        text += f'[{name}]\naddress = "gw{n}.example.com"\nwan_address = "192.0.2.{n + 1}"\n'
        text += f'network = "10.{n + 60}.0.0/24"\n'
        text += f'network_ipv6 = "2001:db8:{n}::/56"\n' if ipv6 else ""
    return text + more


def written(folder: Path, text: str) -> Path:
    path = folder / "sites.toml"
    path.write_text(text)
    return path


def star(folder: Path, text: str) -> tuple[Site, ...]:
    hub = read_hub(written(folder, text))
    assert isinstance(hub, Hub)
    return star_sites(hub)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("10.62.0.0/24", "10.61.0.0/16", r":13: \[spoke.site2\] network: .*of spoke.site1 and 10.61.0.0/16"),
        ("10.62.0.0/24", "10.60.0.0/30", r":13: \[spoke.site2\] network: .*of hub and 10.60.0.0/30 of spoke.site2"),
        ("gw2.example.com", "gw1.example.com", r"\[spoke.site2\] address: spoke.site1 and spoke.site2 are the same"),
        ('"192.0.2.3"', '"2001:db8::3"', r"\[spoke.site2\] wan_address: the path has IPv4 or IPv6 addresses, not both"),
        ('network = "10.62.0.0/24"\n', "", r":10: \[spoke.site2\] network: is missing"),
        ("spoke.site2", 'spoke."a; id"', r":10: \[spoke.a; id\]: a spoke cannot be named 'a; id': its name has lower"),
        ("spoke.site2", "spoke.hub", "cannot be named 'hub'"),
        ("spoke.site2", "spoke.Rome", "cannot be named 'Rome'"),
        ("spoke.site2", "gw3", r":10: \[gw3\]: is not known. Valid here: hub, spoke, between_spokes"),
        ("[hub]", "[gw2]", r"\[hub\]: is missing"),
        ("[hub]\n", "[hub]\ndials = true\n", r":3: \[hub\] dials: the spokes dial the hub, so it needs an address"),
        ("[hub]\n", '[hub]\npublic_address = "203.0.113.1"\n', r":3: \[hub\] public_address: .* forwards nothing"),
        ("[hub]\n", "[hub]\ncolour = 1\n", r":3: \[hub\] colour: is not known. Valid here: address, user"),
        (
            "[spoke.site2]\n",
            '[spoke.site2]\nforwards = ["x"]\n',
            r":11: \[spoke.site2\] forwards.0: .*Valid here: address",
        ),
        ("[spoke.site2]\n", '[spoke.site2]\nnetwork_ipv6 = "fd02::/64"\n', r"\[hub\] network_ipv6: is missing, and"),
        ("between_spokes = true", "between_spokes = 3", ":1: between_spokes: "),
    ],
)
def test_a_mistake_is_named_at_its_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    text = inventory(top="between_spokes = true")
    assert old in text
    with pytest.raises(UsageError, match=complaint):
        read_hub(written(tmp_path, text.replace(old, new, 1)))


def test_too_many_spokes_and_three_gateways_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"at most {MOST_SPOKES}"):
        read_hub(written(tmp_path, inventory(MOST_SPOKES + 1)))
    three = "".join(f'[gw{n}]\naddress = "gw{n}"\n' for n in (1, 2, 3))
    with pytest.raises(UsageError, match=r"\[gw3\]: gw1 and gw2 are all .*name it \[hub\], and each other one \[spoke"):
        read_sites(written(tmp_path, three))
    assert read_hub(written(tmp_path, three.partition("[gw3]")[0])) is None


def test_what_is_measured_is_one_pair(tmp_path: Path) -> None:
    path = written(tmp_path, inventory(top="max_rate_bps = 2e6"))
    for spec, complaint in (
        (f"site:{path}", "is for two gateways. Name the spoke: .*sites.toml#site1 is that one and the hub"),
        (f"site:{path}#rome", "unknown spoke 'rome'. Valid in .*: site1, site2, site3"),
    ):
        with pytest.raises(UsageError, match=complaint):
            check_spec(spec)
    check_spec(f"site:{path}#site2")
    pair = read_sites(Path(f"{path}#site2"))
    assert (pair.gw1.address, pair.gw2.address, pair.max_rate_bps) == ("gw2.example.com", "gw0.example.com", 2e6)


@pytest.mark.parametrize("joined", [True, False])
def test_a_spoke_knows_the_hub_alone_and_the_hub_every_spoke(tmp_path: Path, joined: bool) -> None:
    sites = star(tmp_path, inventory(40, top=f"between_spokes = {'true' if joined else 'false'}", ipv6=True))
    *spokes, hub = sites
    assert [site.name for site in peers_of(hub, sites)] == [site.name for site in spokes]
    assert len({pair_number(hub, spoke) for spoke in spokes}) == len(spokes)
    for spoke in spokes:
        (peer,) = peers_of(spoke, sites)
        others = (
            {lan for other in spokes if other is not spoke for lan in other.networks(ipv6=True)} if joined else set()
        )
        assert {*peer.networks(ipv6=True)} == {*hub.networks(ipv6=True)} | others
    networks = [ip_network(lan) for site in sites for lan in site.networks(ipv6=True)]
    assert not any(one.overlaps(other) for one, other in combinations(networks, 2) if one.version == other.version)


@pytest.mark.parametrize("name", [name for name, able in SPOKES.items() if able])
@pytest.mark.parametrize("joined", [True, False])
def test_a_gateway_has_its_own_key_and_closes_every_other_network(tmp_path: Path, name: str, joined: bool) -> None:
    sites = star(tmp_path, inventory(top=f"between_spokes = {'true' if joined else 'false'}"))
    vpn = deploy.for_sites(load_vpn(name), sites)
    secrets = {key: f"<{key}>" for key in vpn.secrets(KeyMaker(), sites)}
    for me in sites:
        files = deploy.gateway_files(vpn, vpn.recommended, me, sites, secrets, None)
        text = "".join(content for content, _ in files.values())
        assert [site.name for site in sites if f"<{site.name}.key>" in text] == [me.name]
        closed = files["files/etc/vpneval/closed.ip"][0]
        assert [site.lan for site in sites if site.lan in closed] == [site.lan for site in sites if site is not me]


@pytest.mark.parametrize("name", [name for name, able in SPOKES.items() if not able])
def test_a_vpn_that_no_hub_was_tried_with_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"recipe of {name} is for two gateways, not for a hub"):
        deploy.for_sites(load_vpn(name), star(tmp_path, inventory()))
