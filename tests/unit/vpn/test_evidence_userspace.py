"""Evidence of the userspace VPNs, from what the real daemons said: only what was asked for passes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import PluginError, ProofError
from runner.data.levels import Params
from runner.design.experiment import matching_integrity
from tests.unit.helpers import GW1, GW2, Answers, captured
from vpns.nebula import handshakes
from vpns.tinc import nodes

CAPTURED = {  # plugin -> a gateway that says what was captured, and the cipher's name in the evidence
    "tinc": (Answers({"tincd": ""}, {"tincd": captured("tinc-trixie.txt")}), "aes-128-cbc"),
    "nebula": (Answers({"grep": "cipher: aes\n", "nebula": ""}, {"nebula": captured("nebula-trixie.txt")}), "aes"),
    "openconnect": (
        Answers({"openconnect": ""}, {"openconnect-gw2": captured("openconnect-trixie.txt")}),
        "(DTLS1.2)-(PSK)-(AES-128-CBC)-(SHA256)",
    ),
    "stunnel_forward": (Answers({}, {"stunnel": captured("stunnel_forward-trixie.txt")}), "ECDHE-ECDSA-AES128-SHA256"),
    "fastd": (Answers({"socat": captured("fastd-trixie.txt"), "fastd": "fastd v23"}), "aes128-gcm"),
    "vpncloud": (
        Answers({"vpncloud": "VpnCloud v2.3.0"}, {"vpncloud": captured("vpncloud-trixie.txt")}),
        "AES_128_GCM",
    ),
    "yggdrasil": (
        Answers({"yggdrasilctl": captured("yggdrasil-trixie.txt"), "yggdrasil": "Build version: 0.5.12\n"}),
        "XSalsa20-Poly1305",
    ),
    "softether": (Answers({"vpncmd": captured("softether-bookworm.txt")}), "TLS_AES_256_GCM_SHA384"),
}


def others(name: str) -> list[Params]:
    """The VPN's levels that were not asked for when this was captured."""
    vpn = load_vpn(name)
    ciphers: list[Params] = [
        {"cipher": cipher, "integrity": matching_integrity(vpn, cipher), "compression": "off"}
        for cipher in vpn.offers.ciphers
        if cipher != vpn.comparable["cipher"]
    ]
    return ciphers + [{**vpn.comparable, "compression": level} for level in vpn.offers.compressions if level != "off"]


@pytest.mark.parametrize("name", CAPTURED)
def test_what_was_asked_for_passes(name: str) -> None:
    vpn, (node, cipher) = load_vpn(name), CAPTURED[name]
    found = vpn.evidence(node, GW1, [GW2], vpn.comparable)
    assert found.cipher == cipher
    assert found.data_path.startswith("userspace: ")
    assert found.compression == "off"


@pytest.mark.parametrize(
    ("name", "params"),
    [(name, params) for name in CAPTURED for params in others(name)],
    ids=lambda value: value if isinstance(value, str) else "-".join(value.values()),
)
def test_anything_else_does_not(name: str, params: Params) -> None:
    with pytest.raises((ProofError, KeyError)) as failure:
        load_vpn(name).evidence(CAPTURED[name][0], GW1, [GW2], params)
    if failure.type is KeyError:
        assert name == "stunnel_forward", "only its table of suites lacks pairs"


@pytest.mark.parametrize("name", ["nebula", "openconnect", "stunnel_forward", "vpncloud", "yggdrasil"])
def test_a_daemon_that_has_said_nothing_is_no_evidence(name: str) -> None:
    silent = Answers({"grep": "cipher: aes\n"})
    with pytest.raises(ProofError):
        load_vpn(name).evidence(silent, GW1, [GW2], load_vpn(name).comparable)


def test_tinc_is_up_when_the_peers_key_has_come() -> None:
    tinc, dump = load_vpn("tinc"), captured("tinc-trixie.txt")
    found = nodes(dump)["gw2"]
    assert found["cipher"] == "419"
    assert found["mac_bytes"] == "32"
    assert tinc.is_up(Answers({"tincd": ""}, {"tincd": dump}), GW1, [GW2])
    early = dump.replace("status 001a", "status 0018")
    assert not tinc.is_up(Answers({"tincd": ""}, {"tincd": early}), GW1, [GW2])
    assert not tinc.is_up(Answers({"tincd": ""}, {"tincd": ""}), GW1, [GW2])


def test_easytier_tells_what_its_peers_came_by_and_no_cipher() -> None:
    easytier, log = load_vpn("easytier"), captured("easytier-trixie.txt")
    found = easytier.evidence(
        Answers({"easytier-node": "easytier 2.6.4"}, {"easytier": log}), GW1, [GW2], easytier.comparable
    )
    assert (found.cipher, found.data_path) == ("aes-gcm", "userspace: easytier on TUN")
    for other in (log.replace('"tunnel_type": "udp"', '"tunnel_type": "tcp"'), ""):
        with pytest.raises(ProofError, match="udp was asked for"):
            easytier.evidence(Answers({}, {"easytier": other}), GW1, [GW2], easytier.comparable)


def test_masque_tells_what_was_negotiated_with_the_peer() -> None:
    masque, told = load_vpn("masque"), '{"tls":"TLS 1.3","cipher":"%s","exchange":"X25519MLKEM768"}'
    node = Answers({"cat": told % "TLS_AES_128_GCM_SHA256", "masque": "connect-ip-go v0.7.0\nquic-go v0.65.0\n"})
    found = masque.evidence(node, GW1, [GW2], masque.comparable)
    assert (found.key_exchange, found.version) == ("X25519MLKEM768", "connect-ip-go v0.7.0")
    with pytest.raises(ProofError, match="MASQUE uses TLS_CHACHA20"):
        masque.evidence(Answers({"cat": told % "TLS_CHACHA20_POLY1305_SHA256"}), GW1, [GW2], masque.comparable)


GENKEY = """#!/bin/sh
echo "$1" >> calls
[ -s fails ] && exit 3
[ "$(wc -l < calls)" = 1 ] && short=42
printf 'Private key: %043d\\nPublic key: %0*d\\n\\nAttention: keep it\\n' 1 ${short:-43} 2
"""


class Here:
    """A node whose keys are made here, in ``folder``, by a stand-in of vpncloud."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "vpncloud").write_text(GENKEY)
        (folder / "vpncloud").chmod(0o755)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        words = [word.replace("/root/vpneval-ca", "keys") for word in argv]
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        return subprocess.run(words, cwd=self.folder, env=path, capture_output=True, text=True, check=True, timeout=20)


def test_vpncloud_makes_no_key_that_it_cannot_read_again(tmp_path: Path) -> None:
    vpncloud, here = load_vpn("vpncloud"), Here(tmp_path)
    found = vpncloud.secrets(here, [GW1, GW2])  # type: ignore[arg-type]
    assert {len(found[f"{site.name}.{end}"]) for site in (GW1, GW2) for end in ("key", "pub")} == {43}
    assert (tmp_path / "calls").read_text() == "genkey\n" * 3, "the first pair was too short"
    (tmp_path / "fails").write_text("now")
    with pytest.raises(PluginError, match="secrets in vpncloud"):
        vpncloud.secrets(here, [GW1, GW2])  # type: ignore[arg-type]


def test_vpncloud_is_up_when_the_peer_was_added() -> None:
    vpncloud, log = load_vpn("vpncloud"), captured("vpncloud-trixie.txt")
    assert vpncloud.is_up(Answers({}, {"vpncloud": log}), GW1, [GW2])
    assert not vpncloud.is_up(Answers({}, {"vpncloud": log.replace("Added", "Lost")}), GW1, [GW2])


def test_yggdrasil_is_up_when_it_has_a_session() -> None:
    yggdrasil, told = load_vpn("yggdrasil"), captured("yggdrasil-trixie.txt")
    assert yggdrasil.is_up(Answers({"yggdrasilctl": told}), GW1, [GW2])
    assert not yggdrasil.is_up(Answers({"yggdrasilctl": '{"sessions": null}'}), GW1, [GW2])
    assert not yggdrasil.is_up(Answers({"yggdrasilctl": "no such socket"}), GW1, [GW2])


def test_nebula_names_the_peers_of_its_handshakes() -> None:
    assert handshakes(captured("nebula-trixie.txt")) == ["gw2"]
    assert handshakes("") == []


DIRECT = "pong from gw2 (100.64.0.1) via 192.168.0.2:41641 in 1ms"
RELAYED = "pong from gw2 (100.64.0.1) via DERP(lab) in 1ms"


@pytest.mark.parametrize(
    ("name", "pong", "up"),
    [
        ("tailscale", DIRECT, True),
        ("tailscale", RELAYED, False),
        ("tailscale", "", False),
        ("tailscale_relayed", RELAYED, True),
        ("tailscale_relayed", DIRECT, False),
    ],
)
def test_tailscale_is_up_on_the_way_that_was_asked_for(name: str, pong: str, up: bool) -> None:
    vpn, status = load_vpn(name), captured("tailscale-status.json")
    told = {
        "tailscale status": status,
        "tailscale ping --c=1 --timeout=2s 100.64.0.1": pong,
        "ip -d": "tailscale0: … tun type tun",
        "tailscale version": "1.98.10\n  long\n",
    }
    assert vpn.is_up(Answers(told), GW1, [GW2]) is up
    if up:
        assert vpn.evidence(Answers(told), GW1, [GW2], vpn.comparable).facts == {"way": pong}
    else:
        with pytest.raises(ProofError, match="was asked for"):
            vpn.evidence(Answers(told), GW1, [GW2], vpn.comparable)
    never = status.replace("2026-11-26T22:56:31", "0001-01-01T00:00:00")
    with pytest.raises(ProofError):
        vpn.evidence(Answers(told | {"tailscale status": never}), GW1, [GW2], vpn.comparable)
    assert not vpn.is_up(Answers({"tailscale status": status.replace("gw2", "gw3")}), GW1, [GW2]), "it is not known yet"
