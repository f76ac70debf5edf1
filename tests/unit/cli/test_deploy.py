"""``recipe --write``: two directories, whose scripts wait where the plugin waits, and whose keys nobody else reads."""

import ast
import itertools
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.cli.commands.recipe.work import levels_with_moves, real_sites, tunnel_page
from runner.data.errors import UsageError
from runner.lab.places.sites import read_sites
from runner.lab.places.translation import as_seen
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES as TEST_SITES
from runner.vpn import deploy
from runner.vpn.page import page
from runner.vpn.recipe import KeyMaker, NotedNode, script_of

ROOT = Path(__file__).parents[3]
SITES = """\
[gw1]
address = "a"
wan_address = "10.0.0.2"
public_address = "203.0.113.1"
network = "10.20.0.0/24"
network_address = "10.20.0.254"
[gw2]
address = "b"
wan_address = "198.51.100.2"
"""


def written(tmp_path: Path, name: str) -> Path:
    (tmp_path / "sites.toml").write_text(SITES)
    vpn, sites = load_vpn(name), real_sites(read_sites(tmp_path / "sites.toml"))
    secrets = {secret: f"<{secret}>" for secret in vpn.secrets(NotedNode("ca"), sites)}
    name = deploy.write(vpn, vpn.comparable, sites, secrets, tmp_path / "out")
    for gateway in ("gw1", "gw2"):
        (tmp_path / "out" / f"{name}-{gateway}").rename(tmp_path / "out" / gateway)
    return tmp_path / "out"


def own(out: Path, name: str, gateway: str = "gw1") -> str:
    """A file of the tunnel's own folder on a gateway."""
    (path,) = (out / gateway).glob(f"files/etc/vpneval/*/{name}")
    return path.read_text()


def test_the_real_networks_take_the_place_of_the_test_hosts(tmp_path: Path) -> None:
    out = written(tmp_path, "tinc")
    assert "Subnet = 10.20.0.0/24\n" in (out / "gw2/files/etc/tinc/vpneval/hosts/gw1").read_text()
    assert "Address = 203.0.113.1\n" in (out / "gw2/files/etc/tinc/vpneval/hosts/gw1").read_text()
    assert "src 10.20.0.254" in (out / "gw1/files/etc/tinc/vpneval/subnet-up").read_text()


@pytest.mark.parametrize(
    ("user", "scp", "runs"), [("", "root@a:", "ssh root@a "), ("u@corp", "u@corp@a:", "ssh -t u@corp@a sudo ")]
)
def test_a_directory_is_copied_to_where_the_inventory_reaches_the_gateway(
    tmp_path: Path, user: str, scp: str, runs: str
) -> None:
    """The NAT's public address may be another machine's sshd."""
    inventory = SITES.replace('address = "a"\n', f'address = "a"\nuser = "{user}"\n' if user else 'address = "a"\n', 1)
    (tmp_path / "sites.toml").write_text(inventory)
    vpn, sites = load_vpn("wireguard"), real_sites(read_sites(tmp_path / "sites.toml"))
    text = page(vpn, vpn.comparable, sites, written="wireguard-1")
    assert f"    scp -r wireguard-1-gw1 {scp}\n    {runs}wireguard-1-gw1/up.sh\n" in text
    keys = page(vpn, vpn.comparable, sites)
    assert "    ssh root@a mkdir -pm 700 keys\n" in keys, "who pastes the rest is root"
    assert "root@203.0.113.1" not in text + keys


def test_the_readers_ssh_gets_the_inventorys_port_key_and_options(tmp_path: Path) -> None:
    """Quoted for the shell, and for ssh_config(5); seen from any folder."""
    own = 'address = "a"\nport = 2222\nidentity = "my key"\noptions.ProxyCommand = "nc -x p:1 %h %p"\n'
    (tmp_path / "sites.toml").write_text(SITES.replace('address = "a"\n', own, 1))
    vpn, sites = load_vpn("wireguard"), real_sites(read_sites(tmp_path / "sites.toml"))
    text, keys = page(vpn, vpn.comparable, sites, written="wireguard-1"), page(vpn, vpn.comparable, sites)
    options = ["Port=2222", f'IdentityFile="{tmp_path}/my key"', "IdentitiesOnly=yes", "ProxyCommand=nc -x p:1 %h %p"]
    words = [word for option in options for word in ("-o", option)]
    reached = [shlex.split(line) for line in (text + keys).splitlines() if line.startswith(("    ssh", "    scp"))]
    mine = [argv for argv in reached if any(word.partition(":")[0] == "root@a" for word in argv)]
    assert [argv[0] for argv in mine] == ["scp", "ssh", "ssh", "ssh", "scp"], "up.sh, check.sh and the keys"
    for argv in mine:
        assert " ".join(words) in " ".join(argv)
        assert argv.count("-o") == len(options)
    others = [argv for argv in reached if argv not in mine]
    assert others
    assert not any("-o" in argv for argv in others), "the other gateway is reached as it was"


def test_a_script_waits_where_the_plugin_waits_and_takes_no_running_daemons_socket(tmp_path: Path) -> None:
    lines = own(written(tmp_path, "ipsec_user"), "tunnel").splitlines()
    daemon = lines.index("daemon /usr/sbin/charon-systemd")
    assert lines[daemon - 1] == "unused /run/charon.pid /run/charon.vici"
    assert lines[daemon + 1] == "within 10 test -S /run/charon.vici"
    assert lines[-2].startswith("until swanctl --initiate --child to-gw2 --timeout 10 || swanctl --list-sas")
    assert lines[-1] == "end"
    assert "ip -4 rule del table 220" in own(tmp_path / "out", "undo")


def test_what_dials_once_only_is_repeated_because_its_plugin_says_so(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from dataclasses import replace\n"
        "from vpns.tinc import Tinc\n\n"
        "class Mine(Tinc):\n"
        "    software = replace(Tinc.software, dials={'call gw2': 'called gw2'})\n\n"
        "    def start(self, node, me, peers, params):\n"
        "        node.run('call', 'gw2', '--once')\n"
        "        node.run('call', 'gw20')\n"
    )
    mine = load_vpn(str(path))
    lines = page(mine, mine.comparable, TEST_SITES).splitlines()
    assert "until call gw2 --once || called gw2; do alive; sleep 2; done" in lines
    assert "call gw20" in lines


def test_a_process_of_the_gateways_own_is_not_ended_by_its_name(tmp_path: Path) -> None:
    assert "pkill" not in own(written(tmp_path, "ppp_ssh"), "undo")


@pytest.mark.parametrize("name", vpn_names())
def test_no_port_has_its_name_in_the_lab(tmp_path: Path, name: str) -> None:
    for path in (written(tmp_path, name) / "gw1/files").rglob("*"):
        assert not path.is_file() or not re.search(r"\b(wan|lan|eth)0\b", path.read_text()), path
        assert not path.is_file() or deploy.WAN_PORT not in path.read_text(), path
    if name == "macsec":
        assert 'ip link add link "$wan_port" macsec0 ' in own(tmp_path / "out", "tunnel")


def test_only_the_tunnel_leads_to_the_other_site(tmp_path: Path) -> None:
    assert "\nclosed=10.20.0.0/24 " in own(written(tmp_path, "tinc"), "gateway.sh", "gw2")


@pytest.mark.parametrize("name", sorted(path.name for path in deploy.GATEWAY.glob("*.sh")))
def test_a_script_is_one(name: str) -> None:
    subprocess.run(["bash", "-n", deploy.GATEWAY / name], check=True)
    if shellcheck := shutil.which("shellcheck"):
        subprocess.run([shellcheck, deploy.GATEWAY / name], check=True)


def test_the_core_knows_no_command_of_a_single_vpn() -> None:
    """openssl(1) apart, which says how fast this machine encrypts, ssh(1), by which a reader reaches a gateway, and
    ipsec(8), which is a word of nft(8), too."""
    tools = {tool for name in vpn_names() for tool in load_vpn(name).software.tools} - {"openssl", "ssh", "ipsec"}
    found = []
    for path in (file for room in ("vpn", "tunnel", "sweep") for file in (ROOT / "runner" / room).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            f"{path.name}:{node.lineno}: {node.value}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings
            if tools & {*re.findall(r"[\w/.-]+", node.value)}
        ]
    assert not found


def ran_up(out: Path, commands: Path, **stand_ins: str) -> subprocess.CompletedProcess[str]:
    """What up.sh of gw1 does where apt-get and so on are these scripts, and the packages' commands are not there. It
    ends before it puts anything in place: the stand-in of systemctl says that there is no systemd."""
    commands.mkdir()
    noted = f'#!/bin/sh\necho "${{0##*/}} $*" >> {commands}/ran\n'
    usual = {
        "apt-get": "",
        "systemctl": "exit 1",
        "id": "echo 0",
        "flock": 'shift 2; exec "$@"',
        "ip": 'case "$*" in *198.51.100.2*) ;; *) echo 2: eth0;; esac',
    }
    for name, text in {**usual, **stand_ins}.items():
        if text == "missing":
            continue
        (commands / name).write_text(noted + text + "\n")
        (commands / name).chmod(0o755)
    for name in ("bash", "dirname", "find", "grep", "xargs"):
        (commands / name).symlink_to(shutil.which(name) or name)
    # Its own path has the places where this machine has these commands.
    script = (out / "gw1/up.sh").read_text().replace(":/usr/sbin:/sbin", "")
    (out / "gw1/up-here.sh").write_text(script)
    argv = ["/bin/bash", str(out / "gw1/up-here.sh")]
    return subprocess.run(argv, env={"PATH": str(commands)}, capture_output=True, text=True, check=False)


def aptitude(commands: Path) -> list[str]:
    """What apt-get was called with."""
    lines = (commands / "ran").read_text().splitlines()
    return [line.removeprefix("apt-get ") for line in lines if line.startswith("apt-get ")]


def test_up_installs_what_is_missing_by_one_line_and_renews_the_lists_if_it_must(tmp_path: Path) -> None:
    out = written(tmp_path, "tinc")
    quiet = 'case "$*" in satisfy*) test "$DEBIAN_FRONTEND" = noninteractive;; esac'
    done = ran_up(out, tmp_path / "bin", **{"apt-get": quiet})
    assert done.returncode == 1
    assert "There is no systemd here, which starts the tunnel at every boot. The tunnel was not set up." in done.stderr
    satisfies = "satisfy -y --no-install-recommends tinc, nftables, iputils-ping, procps"
    assert aptitude(tmp_path / "bin") == [satisfies]
    lists = f'case "$*" in update) : > {tmp_path}/lists;; *) test -e {tmp_path}/lists;; esac'
    ran_up(out, tmp_path / "old", **{"apt-get": lists})
    assert aptitude(tmp_path / "old") == [satisfies, "update", satisfies]
    ran_up(out, tmp_path / "there", **dict.fromkeys(("tincd", "nft", "ping", "sysctl"), ""))
    assert not aptitude(tmp_path / "there"), "nothing was missing"


def test_packages_that_cannot_be_installed_are_named(tmp_path: Path) -> None:
    done = ran_up(written(tmp_path, "tinc"), tmp_path / "bin", **{"apt-get": "exit 100"})
    assert done.returncode == 1
    assert "These packages could not be installed: tinc, nftables, iputils-ping, procps. The tunnel was" in done.stderr


def test_of_two_daemons_apt_takes_the_first_that_there_is(tmp_path: Path) -> None:
    ran_up(written(tmp_path, "ipsec_user"), tmp_path / "bin")
    (satisfied,) = aptitude(tmp_path / "bin")
    assert ", libcharon-extra-plugins," in satisfied
    assert satisfied.endswith(", charon-systemd|strongswan-charon")


@pytest.mark.parametrize(("name", "said"), [("ipsec_user", "strongswan-swanctl"), ("ssh_tun", "openssh-client")])
def test_without_apt_commands_are_asked_and_packages_named(tmp_path: Path, name: str, said: str) -> None:
    out = written(tmp_path, name)
    done = ran_up(out, tmp_path / "bin", **{"apt-get": "missing"})
    assert "These commands are missing here:" in done.stderr
    assert " nft " in done.stderr
    assert {said, "nftables", "iputils-ping"} <= {*re.findall(r"[\w-]+", done.stderr.partition("Debian")[2])}
    tools = dict.fromkeys({*load_vpn(name).software.tools, *deploy.TOOLS} - {"ip"}, "")
    done = ran_up(out, tmp_path / "there", **{"apt-get": "missing"}, **tools)
    assert "There is no systemd here" in done.stderr, "all of them are there"


def test_on_another_machine_nothing_is_installed(tmp_path: Path) -> None:
    done = ran_up(written(tmp_path, "tinc"), tmp_path / "bin", ip="")
    assert "This machine does not have the address 10.0.0.2 of gw1. The tunnel was not set up." in done.stderr
    assert not aptitude(tmp_path / "bin")


def test_a_directory_in_another_ones_is_refused(tmp_path: Path) -> None:
    out = written(tmp_path, "tinc")
    (out / "gw1/gw1").mkdir()
    (out / "gw1/gw1/up.sh").touch()
    done = ran_up(out, tmp_path / "bin")
    assert done.returncode == 1
    assert "gw1/gw1/up.sh. The tunnel was not set up" in done.stderr
    assert not (tmp_path / "bin/ran").exists() or "apt-get" not in (tmp_path / "bin/ran").read_text()


def test_a_peer_that_is_the_machine_itself_is_refused(tmp_path: Path) -> None:
    done = ran_up(written(tmp_path, "tinc"), tmp_path / "bin", ip="echo 2: eth0")
    assert "The other gateway's address 198.51.100.2 is this machine's own." in done.stderr


def test_two_recipes_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(SITES)
    vpn, sites = load_vpn("tinc"), real_sites(read_sites(tmp_path / "sites.toml"))
    names = set()
    for number in range(2):
        secrets = {secret: f"<{secret}{number}>" for secret in vpn.secrets(NotedNode("ca"), sites)}
        names.add(deploy.write(vpn, vpn.comparable, sites, secrets, tmp_path / f"{number}"))
    assert len(names) == 2
    assert all(re.fullmatch(r"tinc-[0-9a-f]{6}", name) for name in names)


HOSTILE = ("198.51.100.2$(id>OWNED)", "fe80::2%$(id)", "10.0.0.1\nid", "10.0.0.1; id", "$(id)", "`id`", "fe80::1%eth0")


@pytest.mark.parametrize("field", ["wan_address", "public_address", "lan", "lan_address", "host_address"])
def test_what_is_no_address_is_in_no_script(field: str) -> None:
    """Whoever has said it: an inventory, or a machine that was asked."""
    first, last = TEST_SITES
    for name, text in itertools.product(["wireguard", "macsec", "ssh_forward"], HOSTILE):
        vpn, sites = load_vpn(name), (first, replace(last, **{field: text}))  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=f"gw2: {field} is "):
            page(vpn, vpn.comparable, sites)


@pytest.mark.parametrize(
    ("lan", "wan", "named"),
    [
        ("10.0.0.0/8", "10.0.0.2", "the WAN address of gw1, 10.0.0.2"),
        ("192.168.0.0/30", "192.168.0.1", "the WAN address of gw1"),
        ("198.51.100.0/24", "192.168.0.1", "the address of gw2"),
        ("10.1.0.0/16", "192.168.0.1", "the network of gw1, 10.1.0.0/24"),
        ("10.1.0.128/25", "192.168.0.1", "the network of gw1"),
        ("10.2.0.0/15", "192.168.0.1", ""),
    ],
)
def test_a_network_that_would_cut_a_gateway_off_is_refused(lan: str, wan: str, named: str) -> None:
    """The control: beside all of these, there is a recipe."""
    first, last = TEST_SITES
    sites = (replace(first, wan_address=wan), replace(last, lan=lan, wan_address="198.51.100.7"))
    refuses(sites, lan, named)


@pytest.mark.parametrize(
    ("network", "named"),
    [
        ("2001:db8::/32", "the WAN address of gw1, 2001:db8::1"),
        ("2001:db8::8/125", "the address of gw2, 2001:db8::9"),
        ("2001:db8:2::/48", ""),
    ],
)
def test_an_ipv6_network_that_would_cut_a_gateway_off_is_refused(network: str, named: str) -> None:
    first, last = TEST_SITES
    sites = (
        replace(first, wan_address="2001:db8::1", network_ipv6="2001:db8:1::/48"),
        replace(last, wan_address="2001:db8::9", network_ipv6=network),
    )
    refuses(sites, network, named)


def refuses(sites: tuple[Site, ...], network: str, named: str) -> None:
    """There is no recipe because gw2's network has in it what is named; where nothing is, there is one."""
    vpn = load_vpn("wireguard")
    if not named:
        assert page(vpn, vpn.comparable, sites)
        return
    with pytest.raises(UsageError, match=f"gw2: its network {network} has in it .*{named}"):
        page(vpn, vpn.comparable, sites)


SEVERAL = tuple(replace(site, more_lans=(f"10.10{site.number}.0.0/24",)) for site in TEST_SITES)


@pytest.mark.parametrize("name", [name for name in vpn_names() if not load_vpn(name).reference])
def test_a_recipe_names_every_network_of_a_site_or_there_is_none(name: str) -> None:
    vpn = load_vpn(name)
    secrets = {key: f"<{key}>" for key in vpn.secrets(KeyMaker(), SEVERAL)}
    if not vpn.several_networks:
        with pytest.raises(UsageError, match=f"gw1 has several networks, and vpneval's recipe of {name} carries one"):
            deploy.gateway_files(vpn, vpn.comparable, SEVERAL[0], SEVERAL, secrets, None)
        return
    for me, far in (SEVERAL, SEVERAL[::-1]):
        files = {
            path: text
            for path, (text, _) in deploy.gateway_files(vpn, vpn.comparable, me, SEVERAL, secrets, None).items()
        }
        home = "files/etc/vpneval/"
        for rules in ("closed-ip.nft", "whole-ip.nft"):
            assert f"{{ {far.lan}, {far.more_lans[0]} }}" in files[home + rules]
            assert f"{{ {me.lan}, {me.more_lans[0]} }}" in files[home + rules]
        own = {path: text for path, text in files.items() if not path.startswith(home) or path == home + "tunnel"}
        named = "".join(own.values())
        if name not in ("tinc", "openconnect"):  # their daemons tell each other
            assert far.more_lans[0].partition("/")[0] in named
        firewall = files[home + "firewalls"]
        for mine, theirs in product(me.lans, far.lans):
            assert f"-s {mine} -d {theirs} -j ACCEPT" in firewall
        assert f"hosts='{me.host_address} {me.more_lans[0][:-4]}2'" in files[home + "gateway.sh"]


SAME = tuple(
    as_seen(
        replace(site, lan="192.168.1.0/24", lan_address="192.168.1.1", host_address="192.168.1.2"),
        {"192.168.1.0/24": site.lan},
    )
    for site in TEST_SITES
)


@pytest.mark.parametrize("name", [name for name in vpn_names() if load_vpn(name).carries == "ip"])
def test_a_vpn_has_nothing_of_the_addresses_that_the_gateways_translate(name: str) -> None:
    """Its files and commands are those of sites that have such networks."""
    vpn = load_vpn(name)
    secrets = {key: f"<{key}>" for key in vpn.secrets(KeyMaker(), SAME)}
    if vpn.devices == "*":
        with pytest.raises(UsageError, match="translates no addresses"):
            deploy.gateway_files(vpn, vpn.comparable, SAME[0], SAME, secrets, None)
        return
    for me, was in zip(SAME, TEST_SITES, strict=True):
        files, plain = (
            deploy.gateway_files(vpn, vpn.comparable, one, sites, secrets, None)
            for one, sites in ((me, SAME), (was, TEST_SITES))
        )
        assert [path for path in files if files[path] != plain[path]] == [
            f"files/etc/vpneval/{path}"
            for path in (
                *("undo", "gateway.sh"),
                *["closed.ip"] * ("xfrm" in plain["files/etc/vpneval/closed.ip"][0]),
                *("closed-ip.nft", "whole-ip.nft", "firewalls"),
            )
        ]
        far = next(site.lan for site in SAME if site is not me)
        assert f"-s 192.168.1.0/24 -d {far} -j ACCEPT" in files["files/etc/vpneval/firewalls"][0]


@pytest.mark.parametrize("port", ["up", "dev", "ip", "$(id)", "a'b"])
def test_a_port_of_any_name_changes_no_script(port: str) -> None:
    macsec = load_vpn("macsec")
    shown = [
        page(macsec, macsec.comparable, [replace(one, wan_interface=name) for one in TEST_SITES])
        for name in ("wan0", port)
    ]
    assert shown[0] == shown[1]


def test_private_keys_are_for_root_alone_and_a_directory_that_is_in_use_is_left(tmp_path: Path) -> None:
    out = written(tmp_path, "openvpn")
    key = out / "gw1/files/etc/openvpn/gw1.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    with pytest.raises(UsageError, match="the directory is not empty"):
        written(tmp_path, "openvpn")


def test_a_site_without_its_real_network_is_said_with_the_line_to_add(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(SITES)
    said: list[str] = []
    tunnel_page(load_vpn("tinc"), load_vpn("tinc").comparable, (tmp_path / "sites.toml", ""), 3650, said.append)
    (line,) = said
    assert "names no network of gw2, so this recipe is for its test host's, 198.18.2.0/24" in line
    assert line.endswith('to [gw2], for example: network = "10.2.0.0/16"')


@pytest.mark.parametrize("name", ["ssh_forward", "wireguard"])
def test_who_forwards_ports_needs_no_other_addresses(tmp_path: Path, name: str) -> None:
    (tmp_path / "sites.toml").write_text(
        "".join(
            f'[gw{n}]\naddress = "{n}"\nwan_address = "192.0.2.{n}"\n'
            f'network = "192.168.1.0/24"\nnetwork_seen_as = "10.{n}.1.0/24"\n'
            for n in (1, 2)
        )
    )
    vpn = load_vpn(name)
    said = tunnel_page(vpn, vpn.recommended, (tmp_path / "sites.toml", ""), 3650, print)
    assert ("10.2.1.0/24" in said) == (vpn.carries == "ip")
    assert "192.168.1.1" in said


@pytest.mark.parametrize("path_mtu", [None, 1400])
def test_packets_are_made_to_fit_the_path(tmp_path: Path, path_mtu: int | None) -> None:
    (tmp_path / "sites.toml").write_text((f"path_mtu = {path_mtu}\n" if path_mtu else "") + SITES)
    vpn = load_vpn("openvpn")
    said = tunnel_page(vpn, vpn.recommended, (tmp_path / "sites.toml", ""), 3650, print)
    assert said.count(f"\nmtu={path_mtu or ''} # of the path") == 2
    assert "-days 3650 " in said
    assert "Addresses to replace" not in said, "they are the reader's own"


@pytest.mark.parametrize(
    "name", [name for name in vpn_names() if load_vpn(name).carries == "ip" and not load_vpn(name).beside]
)
def test_the_closing_lets_out_by_devices_that_the_recipe_itself_makes(name: str) -> None:
    """By their names; one that a daemon chooses itself would be shut out, or somebody else's let out."""
    vpn, (me, peer) = load_vpn(name), TEST_SITES
    secrets = {secret: f"<{secret}>" for secret in vpn.secrets(NotedNode("ca"), TEST_SITES)}
    script = script_of(vpn, vpn.comparable, me, TEST_SITES, secrets)
    made = "\n".join([*script.lines, *(text for text, _ in script.files.values())])
    devices = deploy.values_of(vpn, vpn.comparable, me, [peer], script)["tunnel"].split()
    chosen = {"ipsec_user": ["ipsec0"]}.get(name, [])  # charon's own: "ipsec" and the first number that is free
    assert [device for device in devices if not re.search(rf"\b{re.escape(device.rstrip('*'))}", made)] == chosen


@pytest.mark.parametrize("name", vpn_names())
def test_a_moving_gateways_recipe_has_no_address_of_it_or_is_refused(tmp_path: Path, name: str) -> None:
    """Neither in its own files nor in the other's; the other's name is no code in any of them."""
    inventory = SITES.replace('public_address = "203.0.113.1"', "dials = true")
    (tmp_path / "sites.toml").write_text(
        inventory.replace("[gw2]\n", '[gw2]\npublic_address = "hub.dyn.example.org"\n')
    )
    vpn, sites = load_vpn(name), real_sites(read_sites(tmp_path / "sites.toml"))
    if vpn.roams != "both":
        fixed = "gw1 and gw2" if vpn.roams == "none" else "gw2"
        with pytest.raises(UsageError, match=f"the recipe of {name} needs a fixed address of {fixed}: "):
            levels_with_moves(vpn, vpn.comparable, sites, ())
        return
    params = levels_with_moves(vpn, vpn.comparable, sites, ())
    assert params["roaming"] == "gw1 gw2"
    secrets = {secret: f"<{secret}>" for secret in vpn.secrets(NotedNode("ca"), sites)}
    for me in sites:
        text = "\n".join(text for text, _ in deploy.gateway_files(vpn, params, me, sites, secrets, None).values())
        assert "10.0.0.2" not in text
        assert "198.51.100.2" not in text
        assert ("hub.dyn.example.org" in text) == (me.name == "gw1")


def test_the_must_makes_the_dialing_gateways_recipe_movable(tmp_path: Path) -> None:
    vpn = load_vpn("fastd")
    assert levels_with_moves(vpn, vpn.comparable, TEST_SITES, ("no-fixed-address",))["roaming"] == "gw1"
    assert levels_with_moves(vpn, vpn.comparable, TEST_SITES, ("nat",)) == vpn.comparable
