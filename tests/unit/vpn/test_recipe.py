"""The page of a recipe: complete, without a secret in it, and with nothing that needs an answer typed."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import UsageError
from runner.lab.shape.site_to_site import SITES
from runner.vpn.page import PUT, page, recipe
from runner.vpn.recipe import KeyMaker, NotedNode

EVERY = pytest.mark.parametrize("name", vpn_names())


def text_of(name: str) -> str:
    vpn = load_vpn(name)
    return page(vpn, vpn.recommended, SITES, example=True)


def part(text: str, heading: str) -> str:
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


@EVERY
def test_every_key_has_a_file_that_is_made_and_copied_and_used(name: str) -> None:
    vpn, text = load_vpn(name), text_of(name)
    secrets = vpn.secrets(NotedNode("ca"), SITES)
    keys = part(text, "Keys")
    assert {name for name in secrets if f"keys/{name}\n" not in keys and f"keys/{name} <<" not in keys} == set()
    for site in SITES:
        gateway = part(text, f"Gateway {site.name}")
        used = set(re.findall(r"<([\w.]+\.(?:key|crt|pub))>", gateway))
        copies = re.findall(rf"^    scp (.*) root@{re.escape(site.wan_address)}:keys/$", keys, re.MULTILINE)
        assert {f"keys/{one}" for one in used} == {one for line in copies for one in line.split()}
        own = {secret for secret in secrets if secret.startswith(site.name) and secret.endswith(".key")}
        assert not own or used & own
    assert "BEGIN" not in text
    assert "<output" not in text


@EVERY
def test_each_block_is_a_program_that_no_terminal_has_to_answer(name: str) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```$", text_of(name), re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    for block in blocks:
        assert block.startswith("(\n")
        assert block.endswith("\n) < /dev/null\n")
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "the line before" not in block
        assert "\t" not in block


INNER = [name for name in vpn_names() if load_vpn(name).inner_ipv6 and not load_vpn(name).reference]


@pytest.mark.parametrize("name", INNER)
def test_a_tunnel_that_carries_ipv6_has_all_of_it(name: str) -> None:
    vpn = load_vpn(name)
    text = page(vpn, {**vpn.recommended, "inner": "both"}, SITES, example=True)
    gateway = part(text, "Gateway gw1")
    for line in ("lans6=fd02::/64", "here6=fd01::1", "there6=fd02::1", "closed6=fd02::/64"):
        assert line in gateway


def test_ipv6_is_refused_or_closed_where_a_vpn_does_not_carry_it() -> None:
    vpn = load_vpn("nebula")
    with pytest.raises(UsageError, match="Nebula does not carry IPv6 between the sites"):
        page(vpn, {**vpn.recommended, "inner": "both"}, SITES)
    named = [replace(site, network_ipv6=f"2001:db8:{site.number}::/56") for site in SITES]
    gateway = part(page(vpn, vpn.recommended, named), "Gateway gw1")
    assert "closed6=2001:db8:2::/56 # IPv6 networks of the other site: the tunnel does not carry them" in gateway
    assert "\nlans6='' " in gateway


@EVERY
def test_both_gateways_with_the_listening_one_first(name: str) -> None:
    text = text_of(name)
    assert re.findall(r"^## Gateway (.*)$", text, re.MULTILINE) == ["gw2", "gw1"]
    assert re.findall(r"^## (gw\d)$", recipe(load_vpn(name), load_vpn(name).comparable, SITES), re.MULTILINE) == [
        "gw2",
        "gw1",
    ]
    for words in ("Addresses to replace", "Check", "reboot", "undo", "root", "firewall"):
        assert words in text


def test_networks_of_the_tunnel_itself_are_named() -> None:
    for name, network in (("openvpn", "10.8.0.0/24"), ("nebula", "10.57.0.0/24"), ("ssh_tun", "10.9.0.0/24")):
        (line,) = [line for line in text_of(name).splitlines() if "networks that the tunnel has" in line]
        assert line.endswith(f": {network}")


def test_an_output_that_two_secrets_share_is_made_once() -> None:
    keys = KeyMaker()
    made = keys.run("rand").stdout.strip()
    assert keys.written({"a.key": made, "b.key": made}) == ["rand > keys/a.key", "cp keys/a.key keys/b.key"]


def test_what_one_command_says_can_be_part_of_what_another_reads() -> None:
    keys = KeyMaker()
    made = keys.run("one").stdout.strip()
    public = keys.run("two", input=f'secret "{made}" $x;\n').stdout
    lines = keys.written({"a.key": made, "a.pub": public})
    assert lines == ["one > keys/a.key", 'two > keys/a.pub << END\nsecret "$(cat keys/a.key)" \\$x;\nEND']


@pytest.mark.parametrize(("copied", "code"), [(("gw1.key", "gw2.pub"), 0), (("gw2.pub",), 1)])
def test_a_key_that_was_not_copied_stops_what_is_pasted(tmp_path: Path, copied: tuple[str, ...], code: int) -> None:
    for folder in ("keys", "tunnel"):
        (tmp_path / folder).mkdir()
    for name in copied:
        (tmp_path / "keys" / name).write_text(f"of {name}\n")
    pasted = f"(\nset -eu\n{PUT}put 600 files/wg.conf << 'EOF'\nPrivateKey = <gw1.key>\nPeer = <gw2.pub>\nEOF\n)"
    done = subprocess.run(["bash", "-c", pasted], cwd=tmp_path / "tunnel", capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    made = tmp_path / "tunnel/files/wg.conf"
    if code:
        assert "keys/gw1.key is missing" in done.stderr
        assert not made.exists()
    else:
        assert made.read_text() == "PrivateKey = of gw1.key\nPeer = of gw2.pub\n"


def test_where_the_far_host_is() -> None:
    assert "`ping 10.2.0.2` on 10.1.0.2" in text_of("openvpn")
    assert "10.2.0.2 at 10.1.0.1.\n" in text_of("ssh_forward")


def test_what_does_not_encrypt_is_said_first() -> None:
    vpn = load_vpn("openvpn")
    null = page(vpn, {**vpn.comparable, "cipher": "null"}, SITES)
    assert "does not encrypt at these levels" in null.partition("## What you need")[0]
    assert "does not encrypt at these levels" not in text_of("openvpn")


@pytest.mark.parametrize(
    ("name", "levels", "said"),
    [
        ("ssh_tun", {"cipher": "null"}, "(asked: cipher null; offered: aes-128-cbc"),
        ("ssh_tun", {"cipher": "blowfish-128-cbc"}, "OpenSSH has had no Blowfish since 7.6"),
        ("wireguard", {"cipher": "aes-128-cbc"}, "one cipher suite"),
        ("ipsec_user", {"compression": "on"}, "no IPComp (asked: compression on; offered: off)"),
        *((name, {"integrity": "aead"}, "aead") for name in ("openvpn", "ssh_forward", "ipsec")),
        ("wireguard", {"integrity": "hmac-sha1"}, "hmac-sha1"),
    ],
)
def test_a_level_that_the_vpn_lacks(name: str, levels: dict[str, str], said: str) -> None:
    vpn = load_vpn(name)
    for make in (page, recipe):
        with pytest.raises(UsageError) as error:
            make(vpn, {**vpn.comparable, **levels}, SITES)
        assert said in str(error.value)
