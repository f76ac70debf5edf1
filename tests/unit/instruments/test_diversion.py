"""What somebody sends from an address of his own, to divert a tunnel: whole packets, from that address."""

import struct

import pytest

from runner.instruments.security.diversion import HARDWARE, diversion_outcome, forgeries, readdress
from runner.instruments.security.stranger import GRE, TCP, UDP, build_frame, pack_address
from runner.instruments.security.vantage import Frame

ETHERNET = b"\x02" * 6 + b"\x04" * 6 + b"\x08\0"
PEER, GATEWAY, THIRD = (pack_address(f"192.168.0.{last}") for last in (1, 2, 77))
PORTS = struct.pack("!HH", 1194, 1195)


def packet_of(protocol: int, content: bytes) -> Frame:
    return Frame(0.0, "in", build_frame(ETHERNET, protocol, PEER, GATEWAY, content))


def in_udp(payload: bytes) -> Frame:
    return packet_of(UDP, PORTS + bytes(4) + payload)


def ones_complement_sum(data: bytes) -> int:
    """RFC 1071: all ones, where the checksum within is right."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    return (total & 0xFFFF) + (total >> 16)


@pytest.mark.parametrize("protocol", [UDP, GRE])
def test_the_captured_packet_comes_first_and_as_it_was(protocol: int) -> None:
    header = PORTS + bytes(4) if protocol == UDP else b""
    one, sample = (packet_of(protocol, header + bytes([number]) + b"payload" * 90) for number in (6, 7))
    forged = forgeries(one, sample)
    assert [*forged] == ["as captured", "altered"]
    (again,) = (Frame(0.0, "in", data) for data in forged["as captured"])
    assert again.data[:12] == sample.data[:6] + HARDWARE
    assert again.data[26:34] == THIRD + GATEWAY
    assert (again.payload, again.protocol) == (sample.payload, protocol)
    assert again.data[34 : again.payload_at] == sample.data[34 : sample.payload_at], "UDP's ports are the peer's"
    altered = [Frame(0.0, "in", data) for data in forged["altered"]]
    assert all(each.data[26:34] == THIRD + GATEWAY and each.payload != sample.payload for each in altered)
    lengths = [len(each.payload) for each in altered]
    assert lengths == [len(sample.payload)] * (len(altered) - 1) + [32]


def test_a_flipped_packet_differs_in_one_bit() -> None:
    sample = in_udp(b"\x07" + b"payload" * 90)
    flipped = [Frame(0.0, "in", data).payload for data in forgeries(in_udp(b"\x06" * 631), sample)["altered"][:2]]
    for each in flipped:
        differing = int.from_bytes(each, "big") ^ int.from_bytes(sample.payload, "big")
        assert differing.bit_count() == 1
    assert flipped[1][-1] != sample.payload[-1], "where a tag would be"


@pytest.mark.parametrize("payload", [b"segment!" * 80, b"odd"])
def test_a_segment_from_another_address_has_a_right_checksum(payload: bytes) -> None:
    header = PORTS + struct.pack("!IIBBHHH", 1, 2, 5 << 4, 0x18, 500, 0, 0)
    even = payload + b"\0" * (len(payload) % 2)
    pseudo = PEER + GATEWAY + struct.pack("!HH", TCP, len(header + payload))
    checksum = ~ones_complement_sum(pseudo + header + even) & 0xFFFF
    whole = header[:16] + checksum.to_bytes(2, "big") + header[18:] + payload
    segment = packet_of(TCP, whole)
    (data,) = forgeries(segment, segment)["as captured"]
    assert data == readdress(segment)
    moved = Frame(0.0, "in", data)
    assert (moved.data[26:34], moved.payload) == (THIRD + GATEWAY, payload)
    there = THIRD + GATEWAY + struct.pack("!HH", TCP, len(whole))
    assert ones_complement_sum(there + moved.data[34:] + b"\0" * (len(payload) % 2)) == 0xFFFF


def test_of_macsec_the_ethernet_address_is_another() -> None:
    one, sample = (Frame(0.0, "in", ETHERNET[:12] + b"\x88\xe5" + bytes([number]) + b"c" * 640) for number in (6, 7))
    forged = forgeries(one, sample)
    (again,) = forged["as captured"]
    assert again == sample.data[:6] + HARDWARE + sample.data[12:]
    assert all(data[:14] == again[:14] and data != again for data in forged["altered"])


@pytest.mark.parametrize(
    ("diverted", "controls", "result"),
    [
        (0, (True, True, True), "pass"),
        (0, (False, True, True), "inconclusive"),
        (0, (True, False, True), "inconclusive"),
        (0, (True, True, False), "inconclusive"),
        (1, (True, True, True), "fail"),
    ],
)
def test_a_diversion_is_judged_by_where_answers_went_and_the_controls(
    diverted: int, controls: tuple[bool, bool, bool], result: str
) -> None:
    found = diversion_outcome({"as captured": 0, "altered": diverted}, 8, *controls, {})
    assert found.result == result
    assert ("1 after packets altered" in found.reason) == (result == "fail")
