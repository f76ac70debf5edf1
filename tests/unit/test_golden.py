"""The rendered files and commands of every plugin, as a runbook, against tests/golden/.

UPDATE_GOLDEN=1 rewrites them; read the difference before you commit it.
"""

import os
import re
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.levels import Params
from runner.design.experiment import matching_integrity
from runner.lab.site_to_site import mesh_sites
from runner.vpn.recipe import recipe

GOLDEN = Path(__file__).parent.parent / "golden"
# Every VPN that says that it makes meshes; two sites are in the recipes of all. tests/lab/test_mesh.py brings some up.
MESHING = [name for name in vpn_names() if load_vpn(name).declared.abilities.mesh]
MESHES = [(name, number) for name in MESHING for number in (3, 5)]


def tunnel(name: str, cipher: str, compression: str = "off") -> Params:
    integrity = matching_integrity(load_vpn(name), cipher)
    return {"cipher": cipher, "integrity": integrity, "compression": compression}


def configurations() -> dict[str, tuple[str, Params]]:
    """File name -> VPN and levels: both ranked configurations of every VPN, and levels with files of their own."""
    found: dict[str, tuple[str, Params]] = {}
    for name in vpn_names():
        vpn = load_vpn(name)
        found[f"{name}-comparable"] = (name, vpn.comparable)
        if vpn.recommended != vpn.comparable:
            found[f"{name}-recommended"] = (name, vpn.recommended)
    for name, levels in {
        "ipsec": (("aes-128-cbc", "on"), ("3des-cbc", "off"), ("null", "off"), ("chacha20-poly1305", "off")),
        "gre_ipsec": (("aes-128-cbc", "on"), ("null", "off")),
        "openvpn": (("blowfish-128-cbc", "off"), ("aes-128-cbc", "on"), ("aes-128-cbc", "lz4")),
        "ssh_forward": (("aes-128-gcm", "off"), ("aes-128-cbc", "on")),
        "ssh_tun": (("aes-128-gcm", "off"),),
    }.items():
        for cipher, compression in levels:
            suffix = "" if compression == "off" else f"-compression-{compression}"
            found[f"{name}-{cipher}{suffix}"] = (name, tunnel(name, cipher, compression))
    return found


@pytest.mark.parametrize("file", configurations())
def test_recipe_is_as_it_was(file: str) -> None:
    name, params = configurations()[file]
    text, path = recipe(load_vpn(name), params), GOLDEN / f"{file}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path.name} was written, not compared: read the difference, then run without UPDATE_GOLDEN")
    assert path.is_file(), f"no {path}; write it with UPDATE_GOLDEN=1"
    assert text == path.read_text()


@pytest.mark.parametrize(("name", "number"), MESHES)
def test_mesh_recipe_is_as_it_was(name: str, number: int) -> None:
    vpn, path = load_vpn(name), GOLDEN / f"{name}-mesh-of-{number}.txt"
    text = recipe(vpn, vpn.comparable, mesh_sites(number))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text)
        pytest.fail(f"{path.name} was written, not compared: read the difference, then run without UPDATE_GOLDEN")
    assert text == path.read_text()


# What a gateway has for itself alone, on the whole (an address) or among its own (where it listens).
ADDRESS = re.compile(r"^(?:ip addr add (\S+?)(?:/24)? |ifconfig (\S+) )", re.M)
LISTENS = re.compile(
    r"^(?:accept = (\S+)|port (\d+)|ListenPort = (\d+)|LocalForward (\S+) .*|.*udp_sport (\d+) .*)$", re.M
)


@pytest.mark.parametrize("name", MESHING)
def test_a_mesh_leaves_nobody_out_and_gives_nothing_twice(name: str) -> None:
    vpn, sites = load_vpn(name), mesh_sites(5)
    sections = re.split(r"^## ", recipe(vpn, vpn.comparable, sites), flags=re.M)
    gateways = {text.split()[0]: text for text in sections if text.startswith("gw")}
    assert len(gateways) == 5
    addresses: list[str] = []
    for site in sites:
        text = gateways[site.name]
        others = [other for other in sites if other is not site]
        assert all(other.lan.removesuffix("/24") in text for other in others), "a LAN without a way to it"
        assert f"route add {site.lan}" not in text, "its own LAN, routed away"
        listening = [next(filter(None, found)) for found in LISTENS.findall(text)]
        assert len(listening) == len(set(listening)), f"{site.name} listens twice: {listening}"
        addresses += {next(filter(None, found)) for found in ADDRESS.findall(text)}
        keys = set(re.findall(r"<(gw\d(?:\.user|\.host)?\.key)>", text))
        assert not {key for key in keys if not key.startswith(f"{site.name}.")}, "a private key of somebody else"
    assert len(addresses) == len(set(addresses)), f"the same address twice: {sorted(addresses)}"


def test_no_golden_file_is_left_over() -> None:
    meshes = {f"{name}-mesh-of-{number}" for name, number in MESHES}
    assert {path.stem for path in GOLDEN.glob("*")} == set(configurations()) | meshes
