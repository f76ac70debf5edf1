"""Where a marker was seen on the WAN, in words."""

import pytest

from runner.tunnel.proof import describe_packet

ETHERNET = "02" * 12
ADDRESSES = "c0a80001c0a80002"


def ipv4(protocol: int, ports: str, ether: str = "0800") -> str:
    return f"{ETHERNET}{ether}450000540000400040{protocol:02x}0000{ADDRESSES}{ports}" + "00" * 26


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (ipv4(17, "11941194"), "in a packet 192.168.0.1 > 192.168.0.2, UDP 4500 > 4500, 86 bytes in"),
        (ipv4(6, "00161f90"), "in a packet 192.168.0.1 > 192.168.0.2, TCP 22 > 8080, 86 bytes in"),
        (ipv4(47, "00000800"), "in a packet 192.168.0.1 > 192.168.0.2, protocol 47, 86 bytes in"),
        (ipv4(17, "00000000", "88e5"), "100 bytes into a frame that begins with 02020202020202020202020288e5"),
        ("0202", "100 bytes into a frame that begins with 0202"),
    ],
)
def test_the_packet_is_named(head: str, says: str) -> None:
    assert describe_packet(100, head) == says
