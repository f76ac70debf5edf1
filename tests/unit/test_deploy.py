"""``recipe --write``: two directories, whose scripts wait where the plugin waits, and whose keys nobody else reads."""

import ast
import re
import stat
import subprocess
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.cli.deployed import readable, real_sites
from runner.data.errors import UsageError
from runner.lab.places.sites import read_sites
from runner.lab.site_to_site import SITES as TEST_SITES
from runner.vpn import deploy
from runner.vpn.recipe import Paper

ROOT = Path(__file__).parents[2]
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
    secrets = {secret: f"<{secret}>" for secret in vpn.secrets(Paper("ca"), sites)}
    deploy.write(vpn, vpn.comparable, sites, secrets, tmp_path / "out")
    return tmp_path / "out"


def test_the_real_networks_take_the_place_of_the_test_hosts(tmp_path: Path) -> None:
    out = written(tmp_path, "tinc")
    start = (out / "gw2/files/etc/vpneval/start").read_text()
    assert "ip route add 10.20.0.0/24 dev tinc0" in start
    assert "Address = 203.0.113.1\n" in (out / "gw2/files/etc/tinc/vpneval/hosts/gw1").read_text()
    assert "src 10.20.0.254" in (out / "gw1/files/etc/vpneval/start").read_text()


def test_a_script_waits_where_the_plugin_waits_and_ends_with_its_daemon(tmp_path: Path) -> None:
    lines = (written(tmp_path, "ipsec_user") / "gw1/files/etc/vpneval/start").read_text().splitlines()
    daemon = lines.index("/usr/sbin/charon-systemd &")
    assert lines[daemon + 1] == "until_there test -S /run/charon.vici"
    assert lines[-2].startswith("until swanctl --initiate --child to-gw2 --timeout 10 || swanctl --list-sas")
    assert lines[-1] == "wait -n"
    assert "ip rule del table 220" in (tmp_path / "out/gw1/files/etc/vpneval/stop").read_text()


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
    lines = deploy.printed(mine, mine.comparable, TEST_SITES).splitlines()
    assert "until call gw2 --once || called gw2; do sleep 2; done" in lines
    assert "call gw20" in lines


def test_the_core_knows_no_command_of_a_single_vpn() -> None:
    """openssl(1) apart, which says how fast this machine encrypts."""
    tools = {tool for name in vpn_names() for tool in load_vpn(name).software.tools} - {"openssl"}
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


def installed(out: Path, commands: Path, **stand_ins: str) -> subprocess.CompletedProcess[str]:
    """What ``install`` of gw1 does where dpkg-query, apt-get and so on are these scripts, and put nothing in place."""
    commands.mkdir()
    noted = f'#!/bin/sh\necho "$(basename $0) $*" >> {commands}/ran\n'
    usual = {"dpkg-query": "exit 1", "dpkg": "", "apt-get": "", "systemctl": "", "install": ""}
    for name, text in {**usual, **stand_ins}.items():
        (commands / name).write_text(noted + text + "\n")
        (commands / name).chmod(0o755)
    environment = {"PATH": f"{commands}:/usr/bin:/bin"}
    return subprocess.run([out / "gw1/install"], env=environment, capture_output=True, text=True, check=False)


def test_install_renews_the_lists_once_and_installs_what_is_missing(tmp_path: Path) -> None:
    out = written(tmp_path, "tinc")
    done = installed(out, tmp_path / "bin", **{"apt-get": 'test "$DEBIAN_FRONTEND" = noninteractive'})
    assert done.returncode == 0, done.stderr
    ran = [line for line in (tmp_path / "bin/ran").read_text().splitlines() if line.startswith(("apt-get", "install"))]
    assert ran[:4] == [
        "apt-get update",
        "apt-get install -y --no-install-recommends tinc",
        "apt-get install -y --no-install-recommends nftables",
        "apt-get install -y --no-install-recommends iputils-ping",
    ]
    assert "install -D -m 700 etc/vpneval/start /etc/vpneval/start" in ran
    there = installed(out, tmp_path / "there", **{"dpkg-query": 'echo "install ok installed"'})
    assert there.returncode == 0
    assert "apt-get" not in (tmp_path / "there/ran").read_text(), "nothing was missing"


def test_install_gets_what_brings_no_command(tmp_path: Path) -> None:
    out = written(tmp_path, "ipsec_user")
    assert installed(out, tmp_path / "bin").returncode == 0
    assert "--no-install-recommends libcharon-extra-plugins\n" in (tmp_path / "bin/ran").read_text()


def test_an_install_that_fails_ends_with_a_code_and_starts_no_unit(tmp_path: Path) -> None:
    out = written(tmp_path, "tinc")
    done = installed(out, tmp_path / "bin", **{"apt-get": 'case "$*" in *tinc*|update) exit 100;; esac'})
    assert done.returncode == 1
    said = (
        "These packages could not be installed: tinc. The tunnel was not set up.\nInstall them, and run this again.\n"
    )
    assert done.stderr.endswith(said)
    ran = (tmp_path / "bin/ran").read_text()
    assert "apt-get install -y --no-install-recommends iputils-ping" in ran, "the others are installed"
    assert "\ninstall " not in ran


def test_of_two_daemons_install_takes_the_first_that_there_is(tmp_path: Path) -> None:
    out = written(tmp_path, "ipsec_user")
    done = installed(out, tmp_path / "bin", **{"apt-get": 'case "$*" in *charon-systemd*) exit 100;; esac'})
    assert done.returncode == 0, done.stderr
    assert "apt-get install -y --no-install-recommends strongswan-charon" in (tmp_path / "bin/ran").read_text()
    has_one = 'case "$*" in *strongswan-charon*) exit 1;; esac; echo "install ok installed"'
    done = installed(out, tmp_path / "there", **{"dpkg-query": has_one})
    assert done.returncode == 0
    assert "apt-get" not in (tmp_path / "there/ran").read_text()


def test_private_keys_are_for_root_alone_and_a_directory_that_is_in_use_is_left(tmp_path: Path) -> None:
    out = written(tmp_path, "openvpn")
    key = out / "gw1/files/etc/openvpn/gw1.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert "install -D -m 600 etc/openvpn/gw1.key /etc/openvpn/gw1.key" in (out / "gw1/install").read_text()
    with pytest.raises(UsageError, match="the directory is not empty"):
        written(tmp_path, "openvpn")


def test_a_site_without_its_real_network_is_said_with_the_line_to_add(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(SITES)
    said: list[str] = []
    readable(load_vpn("tinc"), load_vpn("tinc").comparable, tmp_path / "sites.toml", said.append)
    (line,) = said
    assert "names no network of gw2, so this recipe is for its test host's, 198.18.2.0/24" in line
    assert line.endswith('to [gw2], for example: network = "10.2.0.0/16"')


def test_a_recipe_to_read_has_packages_scripts_and_units(tmp_path: Path) -> None:
    (tmp_path / "sites.toml").write_text(SITES)
    said = readable(load_vpn("tinc"), load_vpn("tinc").comparable, tmp_path / "sites.toml", print)
    assert "apt-get install tinc nftables iputils-ping\n" in said
    for gateway in ("gw1", "gw2"):
        assert f"## {gateway}, instead of those commands" in said
    assert said.count("install -D -m 700 /dev/stdin /etc/vpneval/start <<'FILE'\n#!/bin/bash\n") == 2
    assert said.count("ExecStopPost=/etc/vpneval/stop\n") == 2


@pytest.mark.parametrize(("path_mtu", "finds"), [(None, True), (1400, False)])
def test_packets_are_made_to_fit_the_path(tmp_path: Path, path_mtu: int | None, finds: bool) -> None:
    (tmp_path / "sites.toml").write_text((f"path_mtu = {path_mtu}\n" if path_mtu else "") + SITES)
    said = readable(load_vpn("openvpn"), load_vpn("openvpn").comparable, tmp_path / "sites.toml", print)
    assert ("ping -4 -c 2 -i 0.2 -W 1 203.0.113.1 -M do" in said) is finds
    assert ("mtu=1400  # of the path, as the inventory says" in said) is not finds
    assert said.count("tcp option maxseg size set $((inner - 40))") == 4
    assert said.count("nft delete table inet vpneval_tunnel 2> /dev/null || true") == 2
