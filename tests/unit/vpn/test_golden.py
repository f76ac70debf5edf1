"""The rendered files and commands of every plugin, as a runbook, against tests/golden/: two for each VPN.

UPDATE_GOLDEN=1 rewrites them; read the difference before you commit it. Two gateways, comparably configured, and a mesh
of three; of what makes no mesh, the recommended configuration. What other levels change is in LEVELS.
"""

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn, version_names, vpn_names
from runner.data.levels import Params
from runner.design.experiment import matching_integrity
from runner.lab.shape.site_to_site import SITES, mesh_sites
from runner.vpn.page import recipe as whole_recipe

GOLDEN = Path(__file__).parents[2] / "golden"
# Every VPN that says that it makes meshes; two sites are in the recipes of all. tests/lab/test_mesh.py brings some up.
MESHING = [name for name in vpn_names() if load_vpn(name).declared.abilities.mesh]
AES, GCM, CHACHA = "aes128-sha256-ecp256", "aes128gcm16-ecp256", "chacha20poly1305-ecp256"
OPENSSH = "aes128-cbc MACs hmac-sha2-256-etm@openssh.com"
# (VPN, level) -> the words of the comparable configuration that are gone, and those that are new.
LEVELS = {
    ("fastd", "recommended"): ("aes128-gcm", "salsa2012+umac"),
    **{(name, "recommended"): (AES, GCM) for name in ("ipsec", "gre_ipsec", "ipsec_ikev1", "ipsec_user")},
    **{(name, "recommended"): (AES, GCM) for name in ("l2tp_ipsec", "vxlan_ipsec")},
    ("ipsec", "3des-cbc"): (AES, "3des-sha256-ecp256"),
    ("ipsec", "null"): (AES, "null-sha256-ecp256"),
    ("ipsec", "chacha20-poly1305"): (AES, CHACHA),
    ("ipsec", "compression on"): ("no", "yes"),
    ("gre_ipsec", "null"): (AES, "null-sha256-ecp256"),
    ("gre_ipsec", "compression on"): ("no", "yes"),
    ("libreswan", "recommended"): ("aes128-sha2_256", "aes_gcm256"),
    **{
        (name, "recommended"): ("+AES-128-CBC +SHA256", "+AES-256-GCM +AEAD")
        for name in ("openconnect", "openconnect_tls")
    },
    **{
        (name, "recommended"): ("AES-128-CBC auth SHA256", "AES-256-GCM")
        for name in ("openvpn", "openvpn_tap", "openvpn_tcp")
    },
    ("openvpn_dco", "recommended"): ("AES-128-GCM", "AES-256-GCM"),
    ("openvpn", "blowfish-128-cbc"): ("AES-128-CBC", "BF-CBC providers legacy default"),
    ("openvpn", "compression on"): ("", "compress lzo allow-compression yes"),
    ("openvpn", "compression adaptive"): ("", "comp-lzo adaptive allow-compression yes verb 4"),
    ("openvpn", "compression lz4"): ("", "compress lz4 allow-compression yes"),
    **{
        (name, "recommended"): (OPENSSH, "chacha20-poly1305@openssh.com")
        for name in ("ppp_ssh", "ssh_forward", "ssh_tap", "ssh_tun")
    },
    ("ssh_forward", "aes-128-gcm"): (OPENSSH, "aes128-gcm@openssh.com"),
    ("ssh_forward", "compression on"): ("no", "yes"),
    ("ssh_tun", "aes-128-gcm"): (OPENSSH, "aes128-gcm@openssh.com"),
    **{
        (name, "recommended"): (
            "sslVersion TLSv1.2 ciphers ECDHE-ECDSA-AES128-SHA256",
            "ciphersuites TLS_AES_256_GCM_SHA384",
        )
        for name in ("ppp_stunnel", "stunnel_forward")
    },
    ("tinc", "recommended"): ("aes-128-cbc", "aes-256-cbc"),
    ("vtun", "recommended"): ("aes128ecb", "blowfish128ecb"),
    ("vtun_ppp", "recommended"): ("aes128cbc", "blowfish128ecb"),
    ("vtun_tcp", "recommended"): ("aes128cbc", "blowfish128ecb"),
}


def recipe(*of: Any) -> str:
    """The recipe without the rules of nftables and the lines for firewalls: what is in them is in gateway.sh, too."""
    left_out = re.compile(r"^put 644 \S*(?:[.]nft|/firewalls) << 'EOF'\n.*?^EOF\n", re.MULTILINE | re.DOTALL)
    return left_out.sub("", whole_recipe(*of))


def configurations() -> dict[str, tuple[str, Params]]:
    """File name -> VPN and levels: the two gateways of every VPN."""
    found: dict[str, tuple[str, Params]] = {}
    for name in vpn_names():
        vpn = load_vpn(name)
        found[f"{name}-comparable"] = (name, vpn.comparable)
        if name not in MESHING and vpn.recommended != vpn.comparable:
            found[f"{name}-recommended"] = (name, vpn.recommended)
    return found | {f"{name}-comparable": (name, load_vpn(name).comparable) for name in version_names()}


@pytest.mark.parametrize("file", configurations())
def test_recipe_is_as_it_was(file: str) -> None:
    name, params = configurations()[file]
    text, path = recipe(load_vpn(name), params, SITES), GOLDEN / f"{file}.txt"
    if os.environ.get("UPDATE_GOLDEN") == "1":
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path.name} was written, not compared: read the difference, then run without UPDATE_GOLDEN")
    assert path.is_file(), f"no {path}; write it with UPDATE_GOLDEN=1"
    assert text == path.read_text()


@pytest.mark.parametrize("name", MESHING)
def test_mesh_recipe_is_as_it_was(name: str) -> None:
    vpn, path = load_vpn(name), GOLDEN / f"{name}-mesh-of-3.txt"
    text = recipe(vpn, vpn.comparable, mesh_sites(3))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text)
        pytest.fail(f"{path.name} was written, not compared: read the difference, then run without UPDATE_GOLDEN")
    assert text == path.read_text()


def words(name: str, params: Params) -> Counter[str]:
    """All words of a recipe but its title's, which names the levels."""
    return Counter(re.split(r'[\s:="]+', recipe(load_vpn(name), params, SITES).split("\n", 1)[1].replace(";", "")))


def params_at(name: str, level: str) -> Params:
    vpn = load_vpn(name)
    if level == "recommended":
        return vpn.recommended
    if level.startswith("compression "):
        return {**vpn.comparable, "compression": level.removeprefix("compression ")}
    return {**vpn.comparable, "cipher": level, "integrity": matching_integrity(vpn, level)}


@pytest.mark.parametrize(("name", "level"), LEVELS)
def test_a_level_changes_these_words_on_both_gateways_and_no_others(name: str, level: str) -> None:
    before, after = words(name, load_vpn(name).comparable), words(name, params_at(name, level))
    gone, new = LEVELS[name, level]
    assert (set(before - after), set(after - before)) == (set(gone.split()), set(new.split()))
    assert all(count % 2 == 0 for count in ((before - after) + (after - before)).values()), "one gateway differs"


def test_every_recommended_configuration_that_differs_is_told() -> None:
    differing = {name for name in vpn_names() if load_vpn(name).recommended != load_vpn(name).comparable}
    assert {name for name, level in LEVELS if level == "recommended"} == differing


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
    meshes = {f"{name}-mesh-of-3" for name in MESHING}
    assert {path.stem for path in GOLDEN.glob("*")} == set(configurations()) | meshes
