"""Every plugin with its real daemon at its other levels: up, payload, ping, marker, evidence; secrets nowhere."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.errors import ProofError
from runner.data.levels import AEAD, UNENCRYPTED, Params
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import DEFAULT, Image, open_image
from runner.tunnel.bring_up import Tunnel, bring_up, equip, start_services, vpn_refusal
from tests.contract import CONTRACT, OLDER, tells_no_key, works
from tests.lab.conftest import Supported
from vpns._esp import RARE  # noqa: PLC2701  (the underscore says: no plugin)

NAMES = vpn_names()
SAME_CIPHERS = ("openvpn_tcp", "openvpn_tap", "ssh_tap", "openconnect_tls", "vtun_ppp")  # as their namesakes'

# What vtund.conf(5) has beyond the levels of the plugins. Blowfish in CBC, CFB or OFB carries nothing with OpenSSL 3.
VTUND_WORDS = (
    *("yes", "oldblowfish128ecb", "blowfish256ecb", "aes128cfb", "aes128ofb"),
    *("aes256ecb", "aes256cfb", "aes256ofb"),
)


@pytest.fixture
def gateways(request: pytest.FixtureRequest) -> Image:
    """The image of the gateways: the one that has the VPN of the test."""
    return open_image("bookworm" if request.node.callspec.params["name"] in OLDER else DEFAULT, say=print)


def levels_of(name: str, configuration: str = "", cipher: str = "", compression: str = "") -> Params:
    """What a test with these parameters asks of the VPN ``name``."""
    vpn = load_vpn(name)
    if cipher:
        integrity = "aead" if cipher in AEAD else vpn.comparable["integrity"]
        return {"cipher": cipher, "integrity": integrity, "compression": "off"}
    levels = vpn.recommended if configuration == "recommended" else vpn.comparable
    return {**levels, "compression": compression} if compression else levels


@pytest.fixture
def lab(
    request: pytest.FixtureRequest, image: Image, gateways: Image, supported: Supported, tmp_path: Path
) -> Iterator[Lab]:
    """Where the VPN of the test can be."""
    given = {**request.node.callspec.params}
    given.pop("word", None)
    supported(load_vpn(given["name"]), levels_of(**given), gateways)
    with namespace_lab(image, gateways, logs=tmp_path) as up:
        yield up


def tunnel_in(lab: Lab, name: str, params: Params, image: Image, commands: list[str]) -> Tunnel:
    """Bring ``name`` up in ``lab``, or skip with the reason that the plugin's own probe gives."""
    vpn = load_vpn(name)
    if no := vpn_refusal(lab, vpn, params):
        assert no.reason
        pytest.skip(f"{name}: {no.reason}")
    with NamespaceRig().alone(image, commands.append) as keys:
        if vpn.software.layer:
            equip(keys, vpn)
        secrets = vpn.secrets(keys, lab.sites)
    start_services(lab)
    tunnel = bring_up(lab, vpn, params, secrets)
    tells_no_key(lab, name, secrets, lab.host1.logs, [*lab.commands, *commands])
    return tunnel


@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        pytest.param(name, "recommended", marks=[pytest.mark.smoke] if name in CONTRACT else [])
        for name in NAMES
        if load_vpn(name).recommended != load_vpn(name).comparable
    ],
)
def test_works_at_its_recommended_levels(lab: Lab, gateways: Image, name: str, configuration: str) -> None:
    """At the comparable ones: test_contract.py."""
    params = levels_of(name, configuration)
    works(lab, load_vpn(name), params, tunnel_in(lab, name, params, gateways, []))


@pytest.mark.parametrize(
    ("name", "cipher"),
    [
        (name, cipher)
        for name in NAMES
        for cipher in load_vpn(name).offers.ciphers
        if name not in SAME_CIPHERS
        if cipher != "none" and (cipher not in RARE or name == "ipsec_user")  # the others of IPsec share its words
    ],
)
def test_every_cipher_is_negotiated_or_refused_in_the_tools_words(
    lab: Lab, gateways: Image, name: str, cipher: str
) -> None:
    tunnel = tunnel_in(lab, name, levels_of(name, cipher=cipher), gateways, [])
    assert tunnel.evidence.cipher
    assert tunnel.proof.marker_on_wan is (cipher in UNENCRYPTED)


@pytest.mark.parametrize(
    ("name", "compression"),
    [(name, level) for name in NAMES for level in load_vpn(name).offers.compressions if level != "off"],
)
def test_every_compression_is_negotiated(lab: Lab, gateways: Image, name: str, compression: str) -> None:
    tunnel = tunnel_in(lab, name, levels_of(name, compression=compression), gateways, [])
    assert tunnel.evidence.compression not in ("", "off", "none")


@pytest.mark.parametrize("name", NAMES)
def test_two_of_a_kind_in_two_labs_at_once(lab: Lab, image: Image, gateways: Image, tmp_path: Path, name: str) -> None:
    (tmp_path / "b").mkdir()
    with namespace_lab(image, gateways, logs=tmp_path / "b") as other:
        params = load_vpn(name).comparable
        first = tunnel_in(lab, name, params, gateways, [])
        assert tunnel_in(other, name, params, gateways, []).proof.delivered
        assert first.proof.delivered


@pytest.mark.parametrize(
    "name", [name for name in NAMES if load_vpn(name).dataplane == "userspace" and name not in OLDER]
)
def test_works_on_debian_12_as_well(tmp_path: Path, name: str, image: Image, supported: Supported) -> None:
    older = open_image("bookworm", say=print)
    supported(load_vpn(name), load_vpn(name).comparable, older)
    with namespace_lab(image, older, logs=tmp_path) as lab:
        tunnel = tunnel_in(lab, name, load_vpn(name).comparable, older, [])
        assert tunnel.proof.delivered
        assert tunnel.evidence.version


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["vtun", "vtun_tcp", "vtun_ppp"])
def test_a_level_of_vtun_that_does_not_encrypt_is_found_by_the_proof(
    lab: Lab, gateways: Image, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """VTun tells nobody what it does to the packets: here it is told not to encrypt, and the level promises AES."""
    vpn = load_vpn(name)
    cipher = vpn.comparable["cipher"]
    monkeypatch.setattr(type(vpn), "offers", replace(vpn.offers, ciphers={cipher: "no"}))
    monkeypatch.setattr("runner.tunnel.bring_up.refuse_contradiction", lambda *_: None)  # the evidence would tell first
    with pytest.raises(ProofError, match="plaintext on the WAN"):
        tunnel_in(lab, name, vpn.comparable, gateways, [])


@pytest.mark.parametrize("name", ["vtun_tcp"])
@pytest.mark.parametrize("word", VTUND_WORDS)
def test_what_else_vtund_calls_encryption_is_encryption(
    lab: Lab, gateways: Image, monkeypatch: pytest.MonkeyPatch, name: str, word: str
) -> None:
    vpn = load_vpn(name)
    cipher = vpn.comparable["cipher"]
    monkeypatch.setattr(type(vpn), "offers", replace(vpn.offers, ciphers={cipher: word}))
    monkeypatch.setattr(
        "runner.tunnel.bring_up.refuse_contradiction", lambda *_: None
    )  # it is not the cipher asked for
    assert tunnel_in(lab, name, vpn.comparable, gateways, []).proof.marker_on_wan is False
