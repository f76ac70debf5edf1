"""The contract that every plugin keeps."""

import importlib
import re
from pathlib import Path
from typing import cast

import pytest

from runner.catalogue import factors, load_vpn, vpn_names
from runner.data.errors import UsageError
from runner.data.levels import AEAD, LEVELS, UNENCRYPTED, Params
from runner.lab.node import Node
from runner.lab.shape.site import Site, helper_site, pair_number
from runner.lab.shape.site_to_site import SITES, Lab
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.lifecycle import Rekeying
from runner.vpn.plugin import Vpn, confidential, entry
from runner.vpn.recipe import NotedNode
from tests.unit.helpers import GW1, GW2, THREE, Answers, named_secrets

EVERY = pytest.mark.parametrize("vpn", [load_vpn(name) for name in vpn_names()], ids=lambda vpn: vpn.name)
MESHES = (SITES, THREE)  # of two sites and of three


def configurations(vpn: Vpn) -> list[Params]:
    """Both ranked configurations, and one for every other cipher and compression."""
    found = [vpn.comparable, vpn.recommended]
    for cipher in vpn.offers.ciphers:
        integrity = "aead" if cipher in AEAD else next(iter(vpn.offers.integrities))
        found += [{"cipher": cipher, "integrity": integrity, "compression": level} for level in vpn.offers.compressions]
    return found


def files_of(vpn: Vpn, me: Site, sites: tuple[Site, ...], params: Params) -> dict[str, str]:
    return vpn.render(me, [site for site in sites if site is not me], params, named_secrets(vpn, sites))


def test_the_ten_plugins_are_there() -> None:
    assert set(vpn_names()) >= {
        *("none", "ipip", "ipsec", "ipsec_user", "gre_ipsec", "openvpn"),
        *("ssh_forward", "ssh_tun", "wireguard", "wireguard_go"),
    }


@EVERY
def test_its_attributes_and_levels_fit_one_another(vpn: Vpn) -> None:
    assert vpn.title
    assert importlib.import_module(f"vpns.{vpn.name}").__doc__
    assert set(vpn.offers.limits) <= {"cipher", "integrity", "compression", "key_exchange"}
    assert entry(vpn, SITES) == (GW1.lan_address if vpn.carries == "tcp" else GW2.host_address)
    if not vpn.reference:
        assert set(vpn.offers.ciphers) <= set(LEVELS["cipher"])
        assert set(vpn.offers.integrities) <= set(LEVELS["integrity"])
    assert set(vpn.offers.compressions) <= set(LEVELS["compression"])
    for params in (vpn.comparable, vpn.recommended):
        assert set(params) == {"cipher", "integrity", "compression"}
        assert params["cipher"] in vpn.offers.ciphers
        assert params["compression"] == "off"
        assert "off" in vpn.offers.compressions
        assert (params["integrity"] == "aead") == (params["cipher"] in AEAD)
        assert params["integrity"] == "aead" or params["integrity"] in vpn.offers.integrities
        assert vpn.reference == (not confidential(params))
    for params in configurations(vpn):
        assert confidential(params) == (params["cipher"] not in UNENCRYPTED)
    if "aes-128-cbc" in vpn.offers.ciphers:
        assert vpn.comparable["cipher"] == "aes-128-cbc"
        assert vpn.comparable["integrity"] == ("hmac-sha256" if "hmac-sha256" in vpn.offers.integrities else "none")


@EVERY
def test_a_timer_that_a_plugin_names_stands_in_its_files(vpn: Vpn) -> None:
    for sites, me in [(mesh, me) for mesh in MESHES for me in (mesh[0], mesh[-1])]:
        peers = [site for site in sites if site is not me]
        text = "\n".join(files_of(vpn, me, sites, vpn.comparable).values())
        paper = NotedNode(me.name)
        vpn.start(paper, me, peers, vpn.comparable)
        text = re.sub(r"[\"',]", "", "\n".join([text, *paper.lines]))  # rosenpass.toml has words in quotes
        here = "dialing" if me is sites[0] else "answering"
        for timer in vpn.lifecycle().timers:
            if timer.at not in ("both", here) or "(fixed)" in timer.lines:
                continue
            if timer.lines.startswith("no "):
                assert timer.lines.removeprefix("no ") not in text
            else:
                assert all(line in text for line in timer.lines.split("; ")), timer.lines
            assert f"{timer.lines} ({timer.source})" in vpn.lifecycle().timers_at(me, peers)


@EVERY
def test_what_renews_keys_says_how(vpn: Vpn) -> None:
    rekeying = vpn.lifecycle().rekeying
    assert set(rekeying.ways) <= set(factors()["rekey"].named)
    assert bool({"esp", "ike"} & {*rekeying.ways}) == (rekeying.renew is not Rekeying().renew)
    assert bool({"clock", "protocol"} & {*rekeying.ways}) == (rekeying.mark is not Rekeying().mark)


def test_titles_tell_the_plugins_apart() -> None:
    titles = [load_vpn(name).title for name in vpn_names()]
    assert len(set(titles)) == len(titles)


@EVERY
def test_a_level_it_lacks_is_unsupported_with_a_reason(vpn: Vpn) -> None:
    for factor, offered in {"cipher": vpn.offers.ciphers, "compression": vpn.offers.compressions}.items():
        for level in set(LEVELS[factor]) - set(offered):
            no = Vpn.supports(vpn, Answers(), {**vpn.comparable, factor: level})
            assert no is not None
            assert level in no.reason
            assert vpn.offers.limits.get(factor, vpn.title) in no.reason
            assert all(known in no.reason for known in offered)
    assert Vpn.supports(vpn, Answers(), vpn.comparable) is None


NO_TUN = (
    "/dev/net/tun cannot be used: no such thing; mknod /dev/net/tun c 10 200; a container needs --device /dev/net/tun"
)


@pytest.mark.parametrize(
    ("name", "reason"),
    {
        "ipip": "the kernel has no IPIP: no such thing",
        "ipsec": "the kernel has no ESP with aes-128-cbc and hmac-sha256: no such thing",
        "gre_ipsec": "the kernel has no ESP with aes-128-cbc and hmac-sha256: no such thing",
        "wireguard": "the kernel has no WireGuard: no such thing",
        "ipsec_user": "strongSwan has no kernel-libipsec here (Debian: libcharon-extra-plugins)",
        "openvpn": NO_TUN,
        "ssh_tun": NO_TUN,
        "wireguard_go": NO_TUN,
        "ssh_forward": "ssh: no such thing",
    }.items(),
)
def test_a_failing_probe_is_unsupported_in_the_tools_own_words(name: str, reason: str) -> None:
    vpn = load_vpn(name)
    no = vpn.supports(Answers(), vpn.comparable)  # a gateway where every command fails with "no such thing"
    assert no is not None
    assert no.reason == reason


@EVERY
def test_render_is_pure_and_its_files_are_texts_with_absolute_paths(vpn: Vpn) -> None:
    for sites in MESHES:
        secrets = named_secrets(vpn, sites).values()
        for params, me in [(params, me) for params in configurations(vpn) for me in sites]:
            files = files_of(vpn, me, sites, params)
            assert files == files_of(vpn, me, sites, dict(params))
            for path, text in files.items():
                assert re.fullmatch(r"/[\w./-]+", path)
                assert text.endswith("\n") or text in secrets, path
                assert "None" not in text
                braces = (
                    r"(connections|charon|kernel-libipsec|options) \{|^mode tun;|%\{[DR]\}|^\{\n"  # their own syntax
                )
                assert "{" not in text or re.search(braces, text), path


@EVERY
def test_private_keys_stay_with_their_gateway(vpn: Vpn) -> None:
    for sites, me in [(mesh, me) for mesh in MESHES for me in mesh]:
        private = {name for name in named_secrets(vpn, sites) if name.endswith(".key")}
        text = "".join(files_of(vpn, me, sites, vpn.comparable).values())
        there = {name for name in private if f"[secret {name}]" in text}
        assert all(me.name in name.split(".")[:-1] for name in there), there  # gw1.gw2.key belongs to both
        assert bool(there) == bool(private), f"{me.name} has no key of its own"


@EVERY
def test_start_reaches_every_peer_with_interfaces_of_its_own(vpn: Vpn) -> None:
    for sites, me in [(mesh, me) for mesh in MESHES for me in mesh]:
        peers = [site for site in sites if site is not me]
        paper = NotedNode(me.name)
        for path, text in files_of(vpn, me, sites, vpn.comparable).items():
            paper.write(path, text)
        vpn.start(paper, me, peers, vpn.comparable)
        said = "\n".join(paper.lines)
        if vpn.beside:
            assert helper_site(me, vpn.beside).wan_address in said, "which tells of the peers"
            continue
        for peer in peers:
            if vpn.name == "tinc" and abs(peer.number - me.number) > 1:
                assert peer.lan not in said, "told of a site that its daemon is to learn"
                continue
            if vpn.name == "easytier":  # whoever is dialled tells of its network
                assert (peer.wan_address in said) is (peer.number > me.number)
                continue
            assert any(word in said for word in (peer.lan, peer.lan_netmask[0], peer.host_address, f"{peer.name}.")), (
                peer.name
            )
            words = rf"\b{re.escape(peer.wan_address)}\b|\b{peer.name}\b|\.{peer.number} "
            assert re.search(words, said), f"{peer.name} on {me.name}"
        made = re.findall(r"^ip (?:link|tuntap) add (\S+)", said, re.MULTILINE)
        assert len(set(made)) == len(made)
        assert all(len(name) <= 15 for name in made)  # IFNAMSIZ less its end


def test_openvpn_ends_agree_on_port_and_addresses() -> None:
    vpn = load_vpn("openvpn")

    def end(me: Site, peer: Site) -> dict[str, str]:
        config = files_of(vpn, me, THREE, vpn.comparable)[f"/etc/openvpn/{peer.name}.conf"]
        return dict(line.split(" ", 1) for line in config.splitlines() if " " in line)

    ports = set()
    for low, high in ((0, 1), (0, 2), (1, 2)):
        ours, theirs = end(THREE[low], THREE[high]), end(THREE[high], THREE[low])
        assert ours["port"] == theirs["port"]
        assert ours["ifconfig"].split() == theirs["ifconfig"].split()[::-1]
        assert (ours["remote-cert-tls"], theirs["remote-cert-tls"]) == ("server", "client")
        assert (ours["local"], ours["remote"]) == (theirs["remote"], theirs["local"])
        ports.add(ours["port"])
    assert len(ports) == 3


def test_ssh_tun_ends_agree_on_devices() -> None:
    vpn = load_vpn("ssh_tun")
    client = files_of(vpn, GW1, THREE, vpn.comparable)["/etc/ssh/vpneval/ssh_config"]
    assert re.findall(r"TunnelDevice (\S+)", client) == ["2:1", "3:1"]
    server = files_of(vpn, THREE[2], THREE, vpn.comparable)["/etc/ssh/vpneval/authorized_keys"]
    assert re.findall(r'tunnel="(\d)" \[secret (gw\d)', server) == [("1", "gw1"), ("2", "gw2")]


def test_wireguard_allows_only_the_peers_lan() -> None:
    vpn = load_vpn("wireguard")
    config = files_of(vpn, THREE[1], THREE, vpn.comparable)["/etc/wireguard/wg0.conf"]
    assert re.findall(r"AllowedIPs = (\S+)", config) == ["10.1.0.0/24", "10.3.0.0/24"]
    assert config.count("PersistentKeepalive") == 1  # towards gw3, which gw2 dials


def test_pair_numbers_are_distinct_and_symmetric() -> None:
    sites = [Site(number, f"gw{number}", "", "", "10.0.0.0/24", "", "") for number in range(1, 7)]
    pairs = {pair_number(a, b): {a.number, b.number} for a in sites for b in sites if a.number < b.number}
    assert sorted(pairs) == list(range(15))
    assert pair_number(sites[0], sites[1]) == 0
    assert all(pair_number(a, b) == pair_number(b, a) for a in sites for b in sites if a is not b)


# --- plugins outside the tree, and those that are none -------------------------------------------------------

MINE = '''\
"""A VPN of one's own."""

from vpns.none import PlainIp


class Mine(PlainIp):
    title = "mine"
'''


def test_a_plugin_outside_the_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    vpn = load_vpn("./mine.py")
    assert (vpn.name, vpn.title) == ("mine", "mine")
    assert load_vpn("none").name == "none"


def test_of_a_plugins_classes_that_are_made_of_one_another_the_last_is_taken(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE + "class Better(Mine):\n    title = 'better'\nAlso = Better\n")
    assert load_vpn(str(tmp_path / "mine.py")).title == "better"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Broken(:\n", "cannot be loaded: line 1: SyntaxError: invalid syntax"),
        ("import no_such_module\n", "cannot be loaded: line 1: ModuleNotFoundError: No module"),
        ("from vpns.none import PlainIp\nx = 1\n", "defines no subclass of runner.vpn.plugin.Vpn"),
        (
            "from vpns.none import PlainIp\nclass A(PlainIp): pass\nclass B(A): pass\nclass C(A): pass\n",
            r"bad\.py defines several subclasses of runner\.vpn\.plugin\.Vpn: B, C\. Put each into a file of its own",
        ),
    ],
)
def test_a_file_that_is_no_plugin(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(UsageError, match=said):
        load_vpn(str(tmp_path / "bad.py"))


def test_an_unfinished_plugin_is_named(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("from runner.vpn.plugin import Vpn\n\n\nclass Half(Vpn):\n    title = 'half'\n")
    with pytest.raises(UsageError, match="half"):
        load_vpn(str(tmp_path / "half.py"))


def test_what_a_gateway_must_have_is_a_list_of_packages() -> None:
    assert load_vpn("vtun").software.packages == ["openssl", "vtun"]
    assert "strongswan-charon" in load_vpn("ipsec").software.packages


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no plugin file"):
        load_vpn(str(tmp_path / "absent.py"))


def test_an_unknown_name_gives_near_matches_and_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="did you mean wireguard") as error:
        load_vpn("wiregard")
    assert all(name in str(error.value) for name in vpn_names())
    with pytest.raises(UsageError, match=r"unknown VPN 'zzz'\. Valid: "):
        load_vpn("zzz")
    with pytest.raises(UsageError):
        load_vpn("_certificates")


@pytest.mark.parametrize("name", [name for name in vpn_names() if load_vpn(name).software.tools])
def test_a_missing_tool_is_named_with_its_package(name: str) -> None:
    vpn = load_vpn(name)

    class Bare:
        sites = (GW1,)
        path = None
        images = ()
        plug_in = str

        def gateway(self, site: Site) -> Node:
            return cast(Node, Answers())

    no = vpn_refusal(cast(Lab, Bare()), vpn, vpn.comparable)
    assert no is not None
    for tool, package in vpn.software.tools.items():
        assert tool in no.reason
        assert package in no.reason
