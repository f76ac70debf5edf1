"""Parsers on outputs captured from the real tools; tests/unit/captured/README.md says from which, and how."""

import pytest

import vpns._esp
import vpns.openvpn
import vpns.ssh_forward
from runner.catalogue import load_vpn
from runner.instruments.traffic.tcp import check_duration
from runner.instruments.traffic.udp import udp_loss
from runner.lab.node.proc import counters
from tests.unit.helpers import GW1, GW2, Answers, captured, report
from vpns._esp import IKE, NEGOTIATED  # noqa: PLC2701  (the underscore says: no plugin)

IMAGES = pytest.mark.parametrize("image", ["trixie", "bookworm"])


@IMAGES
@pytest.mark.parametrize(
    ("level", "cipher", "integrity"),
    [
        ("aes-128-cbc", "AES_CBC-128", "HMAC_SHA2_256_128"),
        ("3des-cbc", "3DES_CBC", "HMAC_SHA2_256_128"),
        ("aes-128-gcm", "AES_GCM_16-128", ""),
        ("chacha20-poly1305", "CHACHA20_POLY1305", ""),
        ("null", "NULL", "HMAC_SHA2_256_128"),
    ],
)
def test_swanctl_list_sas(image: str, level: str, cipher: str, integrity: str) -> None:
    # The IKE SA above the child has AES-CBC in all of them: the child's own fields must be read.
    assert vpns._esp.parse_child_sa(captured(f"ipsec_user-{image}-{level}.sas")) == {
        "cipher": cipher,
        "integrity": integrity,
        "compression": "off",
        "mode": "TUNNEL",
        "protocol": "ESP",
        "encapsulation": "UDP",
        "ike": IKE["aes128-sha256-ecp256"],
        "key_exchange": "ECP_256",
    }
    assert NEGOTIATED[level] == cipher


def test_swanctl_list_sas_with_ipcomp_and_without_udp() -> None:
    # Edited: kernel ESP cannot run here. vici lists cpi-in and cpi-out with IPComp only, and encap with UDP only.
    raw = captured("ipsec_user-trixie-aes-128-cbc.sas").replace(" encap=yes", "")
    found = vpns._esp.parse_child_sa(
        raw.replace(
            " encr-alg=AES_CBC encr-keysize=128 integ-alg=HMAC_SHA2_256_128 bytes",
            " cpi-in=4f2a cpi-out=9c01 encr-alg=AES_CBC encr-keysize=128 integ-alg=HMAC_SHA2_256_128 bytes",
        )
    )
    assert found["compression"] == "on"
    assert found["encapsulation"] == "none"
    assert found["cipher"] == "AES_CBC-128"


def test_swanctl_with_a_second_key_exchange() -> None:
    raw = captured("ipsec_user-trixie-aes-128-gcm.sas").replace("dh-group=ECP_256", "dh-group=ECP_256 ake1=ML_KEM_768")
    assert vpns._esp.parse_child_sa(raw)["key_exchange"] == "ECP_256+ML_KEM_768"
    assert vpns._esp.parse_child_sa(raw)["ike"].endswith(" ECP_256+ML_KEM_768"), "so that the proof compares both"


def test_swanctl_without_a_child() -> None:
    raw = captured("ipsec_user-trixie-aes-128-cbc.sas").partition("child-sas {")[0] + "child-sas {}}}\n"
    assert vpns._esp.parse_child_sa(raw)["cipher"] == ""
    assert vpns._esp.parse_child_sa("")["cipher"] == ""


def test_swanctl_with_a_child_that_is_not_installed_before_the_one_that_is() -> None:
    raw = captured("ipsec_user-trixie-aes-128-gcm.sas")
    begun = "list-sa event {gw2 {uniqueid=2 version=2 state=CONNECTING encr-alg=AES_CTR child-sas {}}}\n"
    being_made = "child-sas {to-gw2-2 {name=to-gw2 uniqueid=2 reqid=1 state=CREATED mode=TUNNEL protocol=ESP} "
    found = vpns._esp.parse_child_sa(begun + raw.replace("child-sas {", being_made))
    assert found == vpns._esp.parse_child_sa(raw)
    assert found["cipher"] == "AES_GCM_16-128"
    assert found["ike"].startswith("AES_CBC 128")


def test_ipsec_is_up_when_every_child_is_installed() -> None:
    node = Answers({"swanctl --list-sas --raw": captured("ipsec_user-trixie-aes-128-cbc.sas")})
    assert load_vpn("ipsec_user").is_up(node, GW1, [GW2])
    assert not load_vpn("ipsec_user").is_up(node, GW1, [GW2, GW2])
    assert not load_vpn("ipsec_user").is_up(Answers({"swanctl": "list-sas reply {}\n"}), GW1, [GW2])


@pytest.mark.parametrize(
    ("log", "cipher", "integrity", "compression"),
    [
        ("trixie-aes-128-cbc", "AES-128-CBC", "SHA256", ""),
        ("bookworm-aes-128-cbc", "AES-128-CBC", "SHA256", ""),
        ("trixie-aes-256-gcm", "AES-256-GCM", "", ""),
        ("trixie-aes-128-cbc-on", "AES-128-CBC", "SHA256", "lzo"),
        ("trixie-blowfish-128-cbc", "BF-CBC", "SHA256", ""),
    ],
)
def test_openvpn_log(log: str, cipher: str, integrity: str, compression: str) -> None:
    assert vpns.openvpn.parse_log(captured(f"openvpn-{log}.log")) == {
        "cipher": cipher,
        "integrity": integrity,
        "compression": compression,
        # With ML-KEM the dialing end does not say it; these logs are of that end.
        "key_exchange": "X25519" if log.startswith("bookworm") else "",
        "data_path": "userspace: openvpn on TUN",
        "version": "OpenVPN 2.6.14",
    }


def test_openvpn_key_exchange_at_the_answering_end() -> None:
    log = captured("openvpn-bookworm-aes-128-cbc.log")
    hybrid = log.replace("253 bits X25519", "768 bits X25519MLKEM768")
    assert hybrid != log
    assert vpns.openvpn.parse_log(hybrid)["key_exchange"] == "X25519MLKEM768"
    # The last one counts; and one whose length OpenSSL does not know is told without it.
    renewed = hybrid + log.replace("peer temporary key: 253 bits X25519", "peer temporary key: X448")
    assert vpns.openvpn.parse_log(renewed)["key_exchange"] == "X448"


def test_openvpn_after_a_renegotiation_the_last_data_channel_counts() -> None:
    log = captured("openvpn-trixie-aes-128-cbc.log") + captured("openvpn-trixie-aes-256-gcm.log")
    assert vpns.openvpn.parse_log(log)["cipher"] == "AES-256-GCM"
    assert vpns.openvpn.parse_log(log)["integrity"] == ""


def test_openvpn_is_up_when_its_log_says_so() -> None:
    log = captured("openvpn-trixie-aes-128-cbc.log")
    assert load_vpn("openvpn").is_up(Answers(logs={"openvpn-gw2": log}), GW1, [GW2])
    before = log.partition("Initialization Sequence Completed")[0]
    assert not load_vpn("openvpn").is_up(Answers(logs={"openvpn-gw2": before}), GW1, [GW2])


@pytest.mark.parametrize(
    ("log", "cipher", "mac", "compression", "version"),
    [
        ("trixie-aes-128-cbc", "aes128-cbc", "hmac-sha2-256-etm@openssh.com", "none", "OpenSSH_10.0p2"),
        ("trixie-aes-128-gcm", "aes128-gcm@openssh.com", "<implicit>", "none", "OpenSSH_10.0p2"),
        ("trixie-chacha20-poly1305", "chacha20-poly1305@openssh.com", "<implicit>", "none", "OpenSSH_10.0p2"),
        ("trixie-aes-128-cbc-on", "aes128-cbc", "hmac-sha2-256-etm@openssh.com", "zlib@openssh.com", "OpenSSH_10.0p2"),
        ("bookworm-aes-128-cbc", "aes128-cbc", "hmac-sha2-256-etm@openssh.com", "none", "OpenSSH_9.2p1"),
        ("bookworm-aes-128-cbc-on", "aes128-cbc", "hmac-sha2-256-etm@openssh.com", "zlib@openssh.com", "OpenSSH_9.2p1"),
    ],
)
def test_ssh_log(log: str, cipher: str, mac: str, compression: str, version: str) -> None:
    assert vpns.ssh_forward.parse_log(captured(f"ssh_forward-{log}.log")) == {
        "cipher": cipher,
        "integrity": mac,
        "compression": compression,
        "key_exchange": "mlkem768x25519-sha256" if log.startswith("trixie") else "sntrup761x25519-sha512",
        "version": version,
    }


def test_ssh_whose_directions_differ_has_no_cipher() -> None:
    log = captured("ssh_forward-trixie-aes-128-cbc.log")
    weaker = log.replace("client->server cipher: aes128-cbc", "client->server cipher: 3des-cbc")
    assert weaker != log
    assert vpns.ssh_forward.parse_log(weaker)["cipher"] == ""


def test_ssh_is_up_when_the_last_port_listens() -> None:
    log = captured("ssh_forward-trixie-aes-128-cbc.log")
    vpn = load_vpn("ssh_forward")
    assert vpn.is_up(Answers(logs={"ssh-gw2": log}), GW1, [GW2])
    before = log.partition("Local forwarding listening on 10.1.0.1 port 5203")[0]
    assert before != log
    assert not vpn.is_up(Answers(logs={"ssh-gw2": before}), GW1, [GW2])


def test_wireguard_is_up_after_a_handshake_with_every_peer() -> None:
    shown = captured("wireguard_go-trixie-handshakes.txt")
    vpn = load_vpn("wireguard_go")
    assert vpn.is_up(Answers({"wg show": shown}), GW1, [GW2])
    never = shown.split()[0] + "\t0\n"
    assert not vpn.is_up(Answers({"wg show": never}), GW1, [GW2])
    assert not vpn.is_up(Answers({"wg show": shown + never}), GW1, [GW2, GW2])
    assert not vpn.is_up(Answers({"wg show": ""}), GW1, [GW2])


@pytest.mark.parametrize(
    ("file", "counter", "value"),
    [
        ("proc-net-snmp-drops.txt", "UdpRcvbufErrors", 30518),
        ("proc-net-snmp-drops.txt", "UdpInDatagrams", 33269),
        ("proc-net-snmp.txt", "UdpRcvbufErrors", 0),
        ("proc-net-snmp.txt", "IpFragCreates", 0),
        ("proc-net-snmp.txt", "IpForwarding", 2),
    ],
)
def test_snmp(file: str, counter: str, value: int) -> None:
    assert counters(captured(file))[counter] == value


def test_iperf3_udp_without_loss() -> None:
    loss = udp_loss(report("udp"), 1300)
    assert loss.received == loss.sent == 482
    assert loss.offered_rate_bps == pytest.approx(5e6, rel=0.01)


def test_iperf3_udp_with_loss() -> None:
    loss = udp_loss(report("udp-loss"), 1300)  # half of it fits the WAN; iperf3 itself counts 458 lost of 963
    assert (loss.sent, loss.received) == (963, 504)
    assert loss.offered_rate_bps == pytest.approx(10e6, rel=0.01)


@pytest.mark.parametrize("name", ["tcp", "tcp-reverse-4"])
def test_iperf3_tcp_that_ran_its_whole_time(name: str) -> None:
    found = report(name)
    check_duration(found, found["start"]["test_start"]["duration"])
