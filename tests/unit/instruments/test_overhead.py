"""Overhead: each protocol's closed form against lengths worked out by hand, and what is made of the counts."""

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.data.packet import overhead_of
from runner.instruments.traffic.overhead import disagreements, of_the_stream
from runner.lab import probes
from runner.vpn import closed_form
from tests.unit.helpers import overhead_bytes

CBC, GCM, CHACHA = ("aes-128-cbc", "hmac-sha256"), ("aes-128-gcm", "aead"), ("chacha20-poly1305", "aead")

# Inner length, levels, and the outer IPv4 packet as its parts add up.
ESP_TUNNEL = [
    # outer header, SPI and sequence, IV, encrypted (inner + 2, rounded up), ICV
    (64, CBC, 20 + 8 + 16 + 80 + 16),
    (62, CBC, 20 + 8 + 16 + 64 + 16),
    (63, CBC, 20 + 8 + 16 + 80 + 16),
    (1400, CBC, 20 + 8 + 16 + 1408 + 16),
    (64, ("aes-256-cbc", "hmac-sha1"), 20 + 8 + 16 + 80 + 12),
    (64, ("3des-cbc", "hmac-sha256"), 20 + 8 + 8 + 72 + 16),
    (64, GCM, 20 + 8 + 8 + 68 + 16),
    (65, GCM, 20 + 8 + 8 + 68 + 16),
    (1400, CHACHA, 20 + 8 + 8 + 1404 + 16),
    (512, ("null", "hmac-sha256"), 20 + 8 + 0 + 516 + 16),
]
OPENVPN = [
    # outer header, UDP, opcode and peer id, HMAC, IV, encrypted (4 + inner, PKCS#7); AEAD: packet id and tag
    (64, CBC, 20 + 8 + 4 + 32 + 16 + 80),
    (75, CBC, 20 + 8 + 4 + 32 + 16 + 80),
    (76, CBC, 20 + 8 + 4 + 32 + 16 + 96),
    (1400, CBC, 20 + 8 + 4 + 32 + 16 + 1408),
    (64, ("blowfish-128-cbc", "hmac-sha1"), 20 + 8 + 4 + 20 + 8 + 72),
    (64, GCM, 20 + 8 + 4 + 4 + 16 + 64),
    (1400, CHACHA, 20 + 8 + 4 + 4 + 16 + 1400),
    (64, ("null", "hmac-sha256"), 20 + 8 + 4 + 32 + 4 + 64),
]
WIREGUARD = [
    # outer header, UDP, header, padded, tag
    (64, 20 + 8 + 16 + 64 + 16),
    (65, 20 + 8 + 16 + 80 + 16),
    (1400, 20 + 8 + 16 + 1408 + 16),
    (1420, 20 + 8 + 16 + 1420 + 16),  # 1424 would be more than the interface's MTU
]
TINC = [
    # outer header, UDP, encrypted (sequence number, Ethernet header, inner, PKCS#7), digest
    (64, CBC, 20 + 8 + 96 + 32),
    (77, CBC, 20 + 8 + 96 + 32),
    (78, CBC, 20 + 8 + 112 + 32),
    (1400, CBC, 20 + 8 + 1424 + 32),
    (64, ("blowfish-128-cbc", "hmac-sha1"), 20 + 8 + 88 + 20),
    (64, ("null", "hmac-sha256"), 20 + 8 + 4 + 14 + 64 + 32),
]
SSH_TUN = [
    # IP and TCP with timestamps, packet length, padding length + message + packet, padding (4 at least), MAC or tag
    (64, CBC, 52 + 4 + (1 + 13 + 64 + 18) + 32),
    (62, CBC, 52 + 4 + (1 + 13 + 62 + 4) + 32),
    (64, GCM, 52 + 4 + (1 + 13 + 64 + 18) + 16),
    (64, CHACHA, 52 + 4 + (1 + 13 + 64 + 10) + 16),
    (64, ("3des-cbc", "hmac-sha1"), 52 + 4 + (1 + 13 + 64 + 10) + 20),
    (1400, CBC, 2 * 52 + 4 + (1 + 13 + 1400 + 10) + 32),  # 1460 bytes of stream are more than a segment's 1448
    (1400, GCM, 52 + 4 + (1 + 13 + 1400 + 10) + 16),
]


@pytest.mark.parametrize(("inner", "levels", "outer"), TINC)
def test_tinc(inner: int, levels: tuple[str, str], outer: int) -> None:
    assert overhead_of(closed_form.tinc(inner, *levels)) == outer - inner


def test_vpncloud() -> None:
    assert overhead_of(closed_form.vpncloud(64)) == overhead_of(closed_form.vpncloud(1400)) == 53


@pytest.mark.parametrize(("inner", "levels", "outer"), ESP_TUNNEL)
def test_esp(inner: int, levels: tuple[str, str], outer: int) -> None:
    assert overhead_of(closed_form.esp(inner, *levels)) == outer - inner
    assert overhead_of(closed_form.esp(inner, *levels, udp=True)) == outer + 8 - inner


def test_gre_in_esp_transport_mode() -> None:
    # outer header, SPI and sequence, IV, encrypted (GRE header + inner + 2 = 70, rounded up), ICV
    assert overhead_of(closed_form.esp(64, *CBC, gre=True)) == 20 + 8 + 16 + 80 + 16 - 64
    assert overhead_of(closed_form.esp(75, *CBC, gre=True)) == 20 + 8 + 16 + 96 + 16 - 75


def test_what_esp_protects_in_transport_mode() -> None:
    # outer header, SPI and sequence, IV, encrypted, ICV; VXLAN: UDP 8, VXLAN 8, Ethernet 14; L2TP: UDP 8, L2TP 6, PPP 4
    assert overhead_of(closed_form.esp(64, *CBC, vxlan=True)) == 20 + 8 + 16 + 96 + 16 - 64  # 30 + 64 + 2 = 96
    assert overhead_of(closed_form.esp(65, *CBC, vxlan=True)) == 20 + 8 + 16 + 112 + 16 - 65
    assert overhead_of(closed_form.esp(64, *GCM, l2tp=True)) == 20 + 8 + 8 + 84 + 16 - 64  # 18 + 64 + 2 = 84


def test_encapsulation_alone() -> None:
    assert overhead_of(closed_form.gre(64)) == 20 + 4
    assert overhead_of(closed_form.l2tp(64)) == 20 + 8 + 6 + 4
    assert overhead_of(closed_form.l2tpv3(64)) == 20 + 8 + 4 + 4 + 4 + 14
    assert overhead_of(closed_form.ah(64, "hmac-sha256")) == 20 + 12 + 16
    assert overhead_of(closed_form.ah(64, "hmac-sha1")) == 20 + 12 + 12


@pytest.mark.parametrize(("inner", "levels", "outer"), OPENVPN)
def test_openvpn(inner: int, levels: tuple[str, str], outer: int) -> None:
    assert overhead_of(closed_form.openvpn(inner, *levels)) == outer - inner


def test_openvpn_marks_what_it_could_not_compress() -> None:
    assert overhead_of(closed_form.openvpn(64, *GCM, "lz4")) == overhead_of(closed_form.openvpn(64, *GCM)) + 1


@pytest.mark.parametrize(("inner", "outer"), WIREGUARD)
def test_wireguard(inner: int, outer: int) -> None:
    assert overhead_of(closed_form.wireguard(inner)) == outer - inner


@pytest.mark.parametrize(("inner", "levels", "outer"), SSH_TUN)
def test_ssh_tun(inner: int, levels: tuple[str, str], outer: int) -> None:
    assert overhead_of(closed_form.ssh_tun(inner, *levels)) == outer - inner


def test_every_packet_carrier_knows_its_closed_form() -> None:
    expected = {"none": 0, "ipip": 20, "ipsec": 76, "ipsec_user": 84, "gre_ipsec": 76, "openvpn": 96}
    expected |= {"wireguard": 60, "wireguard_go": 60, "ssh_tun": 120, "gre": 24, "l2tp": 38, "l2tpv3": 54}
    expected |= {
        "ipsec_ah": 48,
        "ipsec_ah_esp": 88,
        "ipsec_ikev1": 76,
        "libreswan": 76,
        "l2tp_ipsec": 92,
        "vxlan_ipsec": 92,
    }
    for name in set(vpn_names()) & set(expected):
        assert overhead_bytes(load_vpn(name), load_vpn(name).comparable, 64) == expected[name], name


def test_no_closed_form_is_guessed() -> None:
    assert overhead_bytes(load_vpn("ssh_forward"), load_vpn("ssh_forward").comparable, 64) is None
    assert overhead_bytes(load_vpn("ipsec"), {**load_vpn("ipsec").comparable, "compression": "on"}, 64) is None


def test_rare_short_packets_are_not_the_streams() -> None:
    assert of_the_stream({160: 200, 100: 1, 52: 2}, 200) == (32000, 204)
    assert of_the_stream({1500: 200, 64: 200}, 200) == (312800, 0)  # each in two segments
    assert of_the_stream({1496: 196, 1500: 4, 1480: 1, 52: 1}, 200) == (1496 * 196 + 1500 * 4 + 1480, 52)
    assert of_the_stream({}, 200) == (0, 0)


def test_a_handshake_is_not_the_streams_where_that_is_all_there() -> None:
    """WireGuard's first message of a rekey has 148 bytes, 176 with UDP and IPv4: more than the stream's short packets,
    and 0.88 byte a packet of 200."""
    assert of_the_stream({124: 200, 176: 1}, 200) == (124 * 200, 176)
    assert of_the_stream({124: 200, 1500: 2}, 200) == (124 * 200, 3000)
    assert of_the_stream({156: 202}, 200) == (156 * 200, 312)
    assert of_the_stream({124: 198, 248: 1}, 200) == (124 * 200, 0)  # two of them in one segment: none can be missed


def test_disagreement_is_told() -> None:
    assert disagreements(96.0, 96.0, 96) == []
    assert disagreements(96.3, 96.0, None) == []
    assert "counters say 97.0 byte/packet, the capture 96.0" in disagreements(97.0, 96.0, None)[0]
    assert disagreements(99.0, 99.0, 96, repeated_bytes=3.0) == []
    assert len(disagreements(93.0, 93.0, 96, repeated_bytes=3.0)) == 1
    assert "the protocol's closed form is 88" in disagreements(96.0, 96.0, 88)[0]


def test_segments_are_counted_as_they_will_be_cut() -> None:
    text = probes.source("lengths")
    scope: dict[str, object] = {}
    exec(text[text.index("import json") : text.index("packets = socket")], scope)  # noqa: S102 (a program of our own)
    on_the_wire = scope["on_the_wire"]
    assert callable(on_the_wire)
    tcp = bytes([0x45, 0]) + (3000).to_bytes(2, "big") + bytes(5) + bytes([6]) + bytes(10)
    tcp += bytes(12) + bytes([0x80]) + bytes(19)  # 32 bytes of TCP header
    assert on_the_wire(tcp, 1500) == [1500, 1500, 52 + (3000 - 52 - 2 * 1448)]
    udp = tcp[:9] + bytes([17]) + tcp[10:]
    assert on_the_wire(udp, 1500) == [3000]
    assert on_the_wire(tcp, 9000) == [3000]
