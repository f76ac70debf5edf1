"""The core compares the evidence with what was asked, whoever wrote the plugin."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import ProofError
from runner.data.levels import AEAD, AES_CBC, NO_CIPHER, UNENCRYPTED
from runner.data.store import load_run
from runner.data.trials import Evidence
from runner.tunnel.contradiction import refuse_contradiction, refuse_other_exchange

NEGOTIATED = vars(import_module("vpns._esp"))["NEGOTIATED"]  # strongSwan's names
MINE = """from runner.data.levels import AES_CBC
from vpns.none import PlainIp
class Mine(PlainIp):
    dataplane = "userspace"
    comparable = recommended = AES_CBC
"""
GCM = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
PATH = "userspace: mined on TUN"
RESULTS = Path(__file__).parents[3] / "results"


def contradicted(folder: Path, params: dict[str, str], **said: str) -> bool:
    (folder / "mine.py").write_text(MINE)
    try:
        refuse_contradiction(load_vpn(str(folder / "mine.py")), params, Evidence(**{"data_path": PATH} | said))
    except ProofError:
        return True
    return False


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (NO_CIPHER, {"cipher": "aes-256-gcm"}),
        (NO_CIPHER, {"integrity": "HMAC_SHA2_256_128"}),
        (NO_CIPHER, {"compression": "lzo"}),
        (NO_CIPHER | {"compression": "on"}, {"compression": "none"}),
        (AES_CBC, {"cipher": "none"}),
        (AES_CBC, {"cipher": "NULL"}),
        (AES_CBC, {"cipher": "AES-256-CBC"}),
        (AES_CBC, {"cipher": "AES-128-GCM"}),
        (AES_CBC, {"cipher": "TLS_AES_256_GCM_SHA384"}),
        (AES_CBC, {"cipher": "ECDHE-RSA-AES256-SHA"}),
        (AES_CBC, {"cipher": "ChaCha20-Poly1305"}),
        (AES_CBC, {"cipher": "BF-CBC"}),
        (AES_CBC, {"integrity": "SHA1"}),
        (AES_CBC, {"integrity": "hmac-sha2-512-etm@openssh.com"}),
        (AES_CBC, {"integrity": "none"}),
        (GCM, {"cipher": "AES-128-CBC"}),
        (GCM, {"cipher": "aes256-gcm@openssh.com"}),
        (NO_CIPHER, {"data_path": "kernel: magic"}),
    ],
)
def test_a_contradiction_is_refused(tmp_path: Path, asked: dict[str, str], said: dict[str, str]) -> None:
    assert contradicted(tmp_path, asked, **said)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (NO_CIPHER, {"cipher": "none", "integrity": "none", "compression": "off"}),
        (NO_CIPHER | {"cipher": "null"}, {"cipher": "NULL"}),
        (NO_CIPHER, {"data_path": "magic"}),
        (AES_CBC, {"cipher": "AES-128-CBC", "integrity": "SHA256", "compression": "none"}),
        (AES_CBC, {"cipher": "(DTLS1.2)-(ECDHE-RSA)-(AES-128-CBC)-(SHA256)"}),
        (AES_CBC, {"cipher": "ECDHE-RSA-AES128-SHA256", "integrity": "hmac-sha2-256-etm@openssh.com"}),
        (AES_CBC, {"cipher": "toy", "integrity": "toy"}),
        (AES_CBC | {"compression": "on"}, {"compression": "zlib@openssh.com"}),
        (AES_CBC | {"cipher": "3des-cbc"}, {"cipher": "ECDHE-RSA-DES-CBC3-SHA"}),
        (AES_CBC | {"cipher": "blowfish-128-cbc"}, {"cipher": "BF-CBC"}),
        (GCM, {"cipher": "TLS_AES_128_GCM_SHA256", "integrity": "GMAC"}),
        (GCM | {"cipher": "chacha20-poly1305"}, {"cipher": "TLS_CHACHA20_POLY1305_SHA256"}),
        (GCM | {"cipher": "salsa2012-umac"}, {"cipher": "salsa2012+umac", "integrity": "UMAC"}),
        (AES_CBC | {"cipher": "rc4-128"}, {"cipher": "MPPE-128 (RC4)"}),
    ],
)
def test_a_daemons_own_names_are_none(tmp_path: Path, asked: dict[str, str], said: dict[str, str]) -> None:
    assert not contradicted(tmp_path, asked, **said)


@pytest.mark.parametrize(
    ("name", "asked", "told", "contradicts"),
    [
        ("openvpn", "X25519MLKEM768", "X25519MLKEM768", False),
        ("openvpn", "X25519MLKEM768", "X25519", True),
        ("openvpn", "X25519", "", True),
        ("openconnect_tls", "X25519", "ECDHE-X25519", False),
        ("ssh_tun", "curve25519-sha256", "mlkem768x25519-sha256", True),
        ("wireguard_go", "", "Curve25519", False),
    ],
)
def test_another_key_exchange_than_was_asked_for_is_refused(
    name: str, asked: str, told: str, contradicts: bool
) -> None:
    params = GCM | ({"key_exchange": asked} if asked else {})
    with pytest.raises(ProofError) if contradicts else nullcontext():
        refuse_other_exchange(load_vpn(name), params, told)


def test_what_leaves_it_to_the_other_gateway_says_nothing(tmp_path: Path) -> None:
    assert not contradicted(tmp_path, AES_CBC, cipher="none", data_path="")


CIPHERS = [level for level in NEGOTIATED if level not in UNENCRYPTED and not level.startswith("hmac")]
CIPHERS = [level for level in CIPHERS if level not in ("aead", "aes-cmac", "aes-xcbc")]


@pytest.mark.parametrize("asked", CIPHERS)
def test_every_cipher_of_strongswan_is_told_from_every_other(tmp_path: Path, asked: str) -> None:
    integrity = "aead" if asked in AEAD else "hmac-sha256"
    params = {"cipher": asked, "integrity": integrity, "compression": "off"}
    for other in CIPHERS:
        assert contradicted(tmp_path, params, cipher=NEGOTIATED[other]) is (other != asked), other


def test_nothing_that_was_measured_contradicts() -> None:
    checked = 0
    for path in sorted(RESULTS.glob("**/run.json")):
        for trial in load_run(path.parent)[1]:
            if trial.evidence and trial.status == "ok":
                refuse_contradiction(load_vpn(trial.vpn), trial.params, trial.evidence)
                checked += 1
    assert checked > 100


def test_what_cannot_be_switched_off_is_declared() -> None:
    """n2n 1 compresses always: its plugin says so, and its evidence, too."""
    vpn = load_vpn("n2n")
    said = Evidence(cipher="Twofish", integrity="none", compression="LZO", data_path="userspace: edge on TAP")
    refuse_contradiction(vpn, vpn.comparable, said)
