"""Every plugin with its real daemon: up, payload, ping, marker, evidence; secrets nowhere, nothing left."""

from pathlib import Path

import pytest

from runner.image import Image, open_image
from runner.lab import Lab, namespace_lab
from runner.plugin import AEAD, UNENCRYPTED, Params, load_vpn, vpn_names
from runner.tunnel import Tunnel, bring_up, start_services, unsupported
from vpns._esp import RARE

NAMES = vpn_names()
SAME_CIPHERS = ("openvpn_tcp", "openvpn_tap", "ssh_tap", "openconnect_tls", "vtun_ppp")  # as their namesakes'


def tunnel_in(lab: Lab, name: str, params: Params, image: Image, commands: list[str]) -> Tunnel:
    """Bring ``name`` up in ``lab``, or skip with the reason that the plugin's own probe gives."""
    vpn = load_vpn(name)
    if no := unsupported(lab, vpn, params):
        assert no.reason
        pytest.skip(f"{name}: {no.reason}")
    with namespace_lab(image, log=commands.append) as keys:
        secrets = vpn.secrets(keys.host1, lab.sites)
    start_services(lab)
    tunnel = bring_up(lab, vpn, params, secrets)
    said = "\n".join([*lab.commands, *commands, *(path.read_text() for path in lab.host1.logs.glob("*.log"))])
    running = "\n".join(node.run("ps", "axo", "args").stdout for node in lab.nodes.values())
    for secret, text in secrets.items():
        if secret.endswith(".key"):
            assert text.strip() not in said, f"{secret} is in a log"
            assert text.strip() not in running, f"{secret} is in an argument vector"
    return tunnel


@pytest.mark.parametrize("configuration", ["comparable", "recommended"])
@pytest.mark.parametrize("name", NAMES)
def test_comes_up_and_carries_payload(lab: Lab, image: Image, name: str, configuration: str) -> None:
    vpn = load_vpn(name)
    if configuration == "recommended" and vpn.recommended == vpn.comparable:
        pytest.skip(f"{name} has one configuration")
    params = vpn.comparable if configuration == "comparable" else vpn.recommended
    tunnel = tunnel_in(lab, name, params, image, [])
    assert tunnel.proof.delivered
    assert tunnel.proof.marker_on_wan is not vpn.confidential(params)
    assert tunnel.proof.captured_bytes >= tunnel.proof.sent_bytes
    assert tunnel.evidence.data_path.startswith(vpn.dataplane)
    assert 0 < tunnel.setup_s < 15
    ping = lab.host1.run("ping", "-c", "2", "-i", "0.1", "-W", "1", "10.2.0.2", check=False)
    assert (ping.code == 0) is (vpn.carries == "ip")


@pytest.mark.parametrize(
    ("name", "cipher"),
    [
        (name, cipher)
        for name in NAMES
        for cipher in load_vpn(name).ciphers
        if name not in SAME_CIPHERS
        if cipher != "none" and (cipher not in RARE or name == "ipsec_user")  # the others of IPsec share its words
    ],
)
def test_every_cipher_is_negotiated_or_refused_in_the_tools_words(
    lab: Lab, image: Image, name: str, cipher: str
) -> None:
    integrity = "aead" if cipher in AEAD else load_vpn(name).comparable["integrity"]
    params = {"cipher": cipher, "integrity": integrity, "compression": "off"}
    tunnel = tunnel_in(lab, name, params, image, [])
    assert tunnel.evidence.cipher
    assert tunnel.proof.marker_on_wan is (cipher in UNENCRYPTED)


@pytest.mark.parametrize(
    ("name", "compression"),
    [(name, level) for name in NAMES for level in load_vpn(name).compressions if level != "off"],
)
def test_every_compression_is_negotiated(lab: Lab, image: Image, name: str, compression: str) -> None:
    tunnel = tunnel_in(lab, name, {**load_vpn(name).comparable, "compression": compression}, image, [])
    assert tunnel.evidence.compression not in ("", "off", "none")


@pytest.mark.parametrize("name", NAMES)
def test_two_of_a_kind_in_two_labs_at_once(image: Image, tmp_path: Path, name: str) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    with namespace_lab(image, logs=tmp_path / "a") as one, namespace_lab(image, logs=tmp_path / "b") as other:
        params = load_vpn(name).comparable
        assert tunnel_in(one, name, params, image, []).proof.delivered
        assert tunnel_in(other, name, params, image, []).proof.delivered


@pytest.mark.parametrize("name", [name for name in NAMES if load_vpn(name).dataplane == "userspace"])
def test_works_on_debian_12_as_well(tmp_path: Path, name: str, image: Image) -> None:
    older = open_image("bookworm", say=print)
    with namespace_lab(image, older, logs=tmp_path) as lab:
        tunnel = tunnel_in(lab, name, load_vpn(name).comparable, older, [])
        assert tunnel.proof.delivered
        assert tunnel.evidence.version
