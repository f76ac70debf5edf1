"""Evidence that is not what was asked for is refused: another cipher, another data path, no tunnel at all."""

from __future__ import annotations

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import ProofError
from runner.data.levels import Params
from runner.data.trials import Evidence
from tests.unit.helpers import GW1, GW2, Answers, captured

CBC = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
GCM = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
SAS = captured("ipsec_user-trixie-aes-128-cbc.sas")
OPENVPN = captured("openvpn-trixie-aes-128-cbc.log")
SSH = captured("ssh_forward-trixie-aes-128-cbc.log")


def evidence(vpn: str, node: Answers, params: Params) -> Evidence:
    return load_vpn(vpn).evidence(node, GW1, [GW2], params)


def ipsec_node(sas: str = SAS, states: str = "\t SAD count 2\n") -> Answers:  # ip-xfrm(8): xfrm state count
    version = {"swanctl --version": "strongSwan swanctl 6.0.1\n"}
    return Answers({"swanctl --list-sas --raw": sas, "ip xfrm state count": states, **version})


WRONG_LEVELS = pytest.mark.parametrize(
    "params",
    [
        CBC | {"cipher": "aes-256-cbc"},
        CBC | {"integrity": "hmac-sha1"},
        CBC | {"compression": "on"},
        GCM,
    ],
    ids=["cipher", "integrity", "compression", "aead"],
)


def test_ipsec_evidence() -> None:
    found = evidence("ipsec", ipsec_node(), CBC)
    assert (found.cipher, found.data_path, found.version) == ("AES_CBC-128", "kernel: ESP", "strongSwan swanctl 6.0.1")


@WRONG_LEVELS
def test_ipsec_negotiated_something_else(params: Params) -> None:
    with pytest.raises(ProofError, match="asked for"):
        evidence("ipsec", ipsec_node(), params)


@pytest.mark.parametrize("states", ["\t SAD count 0\n", "\t SAD count 1\n", ""])
def test_ipsec_whose_esp_is_not_in_the_kernel(states: str) -> None:
    with pytest.raises(ProofError, match="not in the kernel"):
        evidence("ipsec", ipsec_node(states=states), CBC)


def test_ipsec_without_a_child() -> None:
    with pytest.raises(ProofError, match="negotiated none"):
        evidence("ipsec", ipsec_node("list-sas reply {}\n"), CBC)


def test_ipsec_user_evidence() -> None:
    node = Answers({"swanctl --list-sas --raw": SAS, "ip link show ipsec0": "4: ipsec0: <UP>\n"})
    assert evidence("ipsec_user", node, CBC).data_path == "userspace: kernel-libipsec on ipsec0"
    with pytest.raises(ProofError, match="asked for cipher AES_GCM_16-128, negotiated AES_CBC-128"):
        evidence("ipsec_user", node, GCM)


def test_ipsec_user_whose_esp_is_not_in_userspace() -> None:
    with pytest.raises(ProofError, match="no ipsec0"):
        evidence("ipsec_user", Answers({"swanctl --list-sas --raw": SAS}), CBC)


def test_openvpn_evidence() -> None:
    found = evidence("openvpn", Answers(logs={"openvpn-gw2": OPENVPN}), CBC)
    assert (found.cipher, found.integrity, found.data_path) == ("AES-128-CBC", "SHA256", "userspace: openvpn on TUN")


@WRONG_LEVELS
def test_openvpn_negotiated_something_else(params: Params) -> None:
    with pytest.raises(ProofError, match="asked for"):
        evidence("openvpn", Answers(logs={"openvpn-gw2": OPENVPN}), params)


def test_openvpn_offloaded_to_the_kernel() -> None:
    log = OPENVPN.replace("TUN/TAP device tun2 opened", "DCO device tun2 opened")  # edited: no DCO on this kernel
    with pytest.raises(ProofError, match="offloaded to the kernel"):
        evidence("openvpn", Answers(logs={"openvpn-gw2": log}), CBC)


def test_openvpn_whose_device_is_not_known_has_no_evidence_of_its_data_path() -> None:
    log = OPENVPN.replace("TUN/TAP device tun2 opened", "")
    assert evidence("openvpn", Answers(logs={"openvpn-gw2": log}), CBC).data_path == ""


@pytest.mark.parametrize("vpn", ["ssh_forward", "ssh_tun"])
def test_ssh_evidence(vpn: str) -> None:
    found = evidence(vpn, Answers(logs={"ssh-gw2": SSH}), CBC)
    assert found.cipher == "aes128-cbc"
    assert found.data_path.startswith("userspace: ssh and sshd")
    assert load_vpn(vpn).evidence(Answers(), GW2, [GW1], CBC).data_path == ""  # the listening side has none


@pytest.mark.parametrize("vpn", ["ssh_forward", "ssh_tun"])
@WRONG_LEVELS
def test_ssh_negotiated_something_else(vpn: str, params: Params) -> None:
    with pytest.raises(ProofError, match="asked for"):
        evidence(vpn, Answers(logs={"ssh-gw2": SSH}), params)


CHACHA = {"cipher": "chacha20-poly1305", "integrity": "aead", "compression": "off"}
TUN_LINK = captured("wireguard_go-trixie-link.txt")
# Written by hand after ip-link(8), because this kernel has no WireGuard.
KERNEL_LINK = """\
4: wg0: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1420 qdisc noqueue state UNKNOWN mode DEFAULT group default qlen 1000
    link/none  promiscuity 0 allmulti 0 minmtu 0 maxmtu 2147483552
    wireguard addrgenmode none numtxqueues 1 numrxqueues 1 gso_max_size 65536 gso_max_segs 65535
"""
VERSIONS = {"uname": "6.12.0\n", "wireguard-go --version": "wireguard-go v0.0.20230223\n\nUserspace\n"}


@pytest.mark.parametrize(
    ("vpn", "link", "data_path", "version"),
    [
        ("wireguard", KERNEL_LINK, "kernel: wireguard", "Linux 6.12.0"),
        ("wireguard_go", TUN_LINK, "userspace: wireguard-go on TUN", "wireguard-go v0.0.20230223"),
    ],
)
def test_wireguard_evidence(vpn: str, link: str, data_path: str, version: str) -> None:
    found = evidence(vpn, Answers({"ip -d link show wg0": link, **VERSIONS}), CHACHA)
    assert (found.data_path, found.version) == (data_path, version)


@pytest.mark.parametrize(("vpn", "link"), [("wireguard", TUN_LINK), ("wireguard_go", KERNEL_LINK)])
def test_the_other_wireguard_has_taken_its_place(vpn: str, link: str) -> None:
    with pytest.raises(ProofError, match="another WireGuard"):
        evidence(vpn, Answers({"ip -d link show wg0": link, **VERSIONS}), CHACHA)
