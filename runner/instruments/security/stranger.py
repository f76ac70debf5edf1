"""A stranger: somebody on the WAN without any key makes packets in the clear, and the far host must get none of them.

Each carries an inner packet to the far host with a marker of its own: in the place of a message that a captured packet
shows in the clear; behind 0 to 32 bytes of a captured packet's own beginning, as they are, and with what counts in them
counted on, as long as the captured one, so that a length in them is right; where GRE carries the tunnel, once more as
PPP, in the clear; in IPIP (RFC 2003) and GRE (RFC 2784); in VXLAN (RFC 7348), to the far gateway's own segment and
address in it, which are no secrets; in L2TP (RFC 2661), to the far gateway's own tunnel and session, of 16 bits each;
each from the near gateway's address, and in UDP from an address that nobody has.
Control: all of them arrived at the far gateway, and such an inner packet is delivered when the
far gateway's LAN port sends it. Bare IP to the far LAN is tried as well and told, but not counted: that is the
gateway's packet filter's task.
"""

import re
import struct
from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal

from runner.instruments.security.vantage import (
    ETHERNET_BYTES,
    IPV4,
    PORT,
    Frame,
    ProbeOutcome,
    Vantage,
    hardware,
    inconclusive,
    message,
    speaker_on,
)
from runner.lab.node import LabNode
from runner.lab.node.iproute import interface

KEPT = range(32, -1, -4)  # bytes of a captured packet that a forged one begins with
IPIP, GRE, UDP, TCP = 4, 47, 17, 6
VXLAN_PORT, L2TP_PORT = 4789, 1701
HEADERS_BYTES = 28  # of IPv4 and UDP
PPP = b"\xff\x03\x00\x21"  # address, control, and the protocol number of IPv4 (RFC 1661 §2, RFC 1662 §3.1)
Order = Literal["big", "little"]
BIG: Order = "big"
LITTLE: Order = "little"
SECTAG_BYTES = 14  # with the secure channel's identifier, behind the EtherType
STRANGER = 77  # the last byte of the address that nobody has


def stranger(at: Vantage) -> ProbeOutcome:
    """Is a packet delivered that somebody without any key made in the clear? It must not be."""
    near, far = at.lab.sites[0], at.lab.sites[-1]
    messages = [message(), message()]
    for each in messages:
        at.speak(each)
        at.count([each])
    at.look()
    samples = [frame for frame in at.outer() if frame.packet_bytes >= len(messages[0])]
    if len(samples) < 2:
        return inconclusive("no packets of the tunnel were captured to forge others from")
    sample = samples[-1]
    links = (b"", PPP) if sample.is_ip and sample.protocol == GRE else (b"",)
    forged = forgeries(at, sample, beginnings(samples[-2].payload, sample.payload, links), messages[-1])
    bare_marker = message(128)
    bare = sample.data[: ETHERNET_BYTES - 2] + IPV4 + inner(near.host_address, far.host_address, bare_marker)
    open_marker = message(128)
    gateway = at.lab.gateway(far)
    lan = hardware(at.lab.host2, interface(at.lab.host2, "eth0")) + hardware(gateway, "lan0") + IPV4
    with speaker_on(at.lab.wan) as attacker, speaker_on(gateway) as helper:
        port = interface(at.lab.wan, far.name)
        for frame in forged.values():
            attacker.say(raw=frame.hex(), on=port)
        attacker.say(raw=bare.hex(), on=port)
        helper.say(raw=(lan + inner(near.host_address, far.host_address, open_marker)).hex(), on="lan0")
    delivered = at.final_counts([*forged, bare_marker, open_marker])
    arrived = at.count_arrivals(list(forged.values()))
    accepted = sum(count > 0 for count in delivered[:-2])
    detail = {"forged": len(forged), "arrived": arrived, "delivered": accepted, "bare_ip_forwarded": delivered[-2] > 0}
    control = f"{arrived} forged packets arrived at the far gateway; the far host takes such packets from its LAN"
    if accepted:
        return ProbeOutcome("fail", f"{accepted} packets of somebody without a key were delivered", control, detail)
    if arrived < len(forged):
        return inconclusive(f"{arrived} of {len(forged)} forged packets arrived", detail)
    if not delivered[-1]:
        return inconclusive("the far host does not even take such a packet from its own LAN", detail)
    return ProbeOutcome(
        "pass", f"none of {len(forged)} packets of somebody without a key was delivered", control, detail
    )


def beginnings(earlier: bytes, later: bytes, links: Sequence[bytes] = (b"",)) -> list[bytes]:
    """The beginnings of forged payloads, made of the first bytes of ``later``, a captured payload.

    The first field in which ``later`` differs from ``earlier`` is counted on: by one more for each beginning, by 256
    and more, in network byte order and in the other. Then the bytes as they are. Each of ``links`` follows each of
    them, with a number of its own, because a receiver refuses a number that has come before, whatever follows it.

    The nearest numbers and the longest beginnings come first: a number far ahead, once accepted, makes the receiver
    refuse all smaller ones.
    """
    longest = later[: KEPT[0]]
    changed = next((at for at in range(min(len(earlier), len(longest))) if earlier[at] != longest[at]), 0)
    whole = range(max(0, changed - 7), changed + 1)
    before, after = whole[:-1], range(changed + 1, min(changed + 4, len(longest)))
    ends = list(enumerate(product(KEPT, links), 1))
    begun = [
        add_to_field(longest, field, order, turn)[:kept] + link
        for field, order in ((whole, BIG), (before, BIG), (after, LITTLE))
        for turn, (kept, link) in ends
    ]
    return begun + [longest[:kept] + link for _, (kept, link) in ends]


def add_to_field(data: bytes, field: range, order: Order, by: int) -> bytes:
    """``data`` with ``by`` added to the number in the bytes of ``field``; unchanged where the field is empty."""
    if not field:
        return data
    number = int.from_bytes(data[field.start : field.stop], order) + by
    return data[: field.start] + (number % (1 << 8 * len(field))).to_bytes(len(field), order) + data[field.stop :]


def forgeries(at: Vantage, sample: Frame, begun: list[bytes], payload: bytes) -> dict[bytes, bytes]:
    """Marker -> the forged frame that carries it."""
    near, far = at.lab.sites[0], at.lab.sites[-1]
    if sample.is_macsec:
        return without_ip(sample, begun, inner_for=lambda marker: inner(near.host_address, far.host_address, marker))
    frames: dict[bytes, bytes] = {}
    if payload in sample.data:
        marker = message(len(payload))
        place = sample.data.index(payload)
        whole = sample.data[:place] + marker + sample.data[place + len(payload) :]
        frames[marker] = build_frame(
            whole[:ETHERNET_BYTES],
            sample.protocol,
            *sample.ends,
            whole[sample.upper_at : ETHERNET_BYTES + sample.packet_bytes],
        )
    ends = sample.ends
    nobody = unused_address(ends[0])
    header = sample.data[sample.upper_at : sample.payload_at]
    for source in (ends[0], nobody) if sample.protocol == UDP else (ends[0],):
        for beginning in begun if sample.protocol != TCP else ():
            marker = message(len(sample.payload) - len(beginning) - HEADERS_BYTES)
            content = header + beginning + inner(near.host_address, far.host_address, marker)
            frames[marker] = build_frame(sample.data[:ETHERNET_BYTES], sample.protocol, source, ends[1], content)
    for protocol, header in ((IPIP, b""), (GRE, struct.pack("!HH", 0, 0x0800))):
        marker = message(128)
        content = header + inner(near.host_address, far.host_address, marker)
        frames[marker] = build_frame(sample.data[:ETHERNET_BYTES], protocol, *ends, content)
    for header in (in_vxlan(at.lab.gateway(far)), in_l2tp(at.lab.gateway(far))):
        for source in (ends[0], nobody):
            marker = message(128)
            content = header + inner(near.host_address, far.host_address, marker)
            frames[marker] = build_frame(sample.data[:ETHERNET_BYTES], UDP, source, ends[1], content)
    return frames


def in_l2tp(gateway: LabNode) -> bytes:
    """The headers of UDP, L2TP (RFC 2661 §3.1: version 2, data, nothing optional) and PPP before an IPv4 packet for
    that gateway; one without L2TP gets tunnel 1 and session 1."""
    shown = gateway.run("cat", "/proc/net/pppol2tp", check=False).stdout
    match = re.search(r"([0-9A-F]{4})/(?!0000)([0-9A-F]{4}) ->", shown)  # session 0 is the tunnel's own
    tunnel, session = (int(match[1], 16), int(match[2], 16)) if match else (1, 1)
    udp = struct.pack("!HHHH", L2TP_PORT, L2TP_PORT, 0, 0)
    return udp + struct.pack("!HHH", 0x0002, tunnel, session) + PPP


def in_vxlan(gateway: LabNode) -> bytes:
    """The headers of UDP, VXLAN (RFC 7348 §5) and Ethernet before an IPv4 packet for that gateway; one without VXLAN
    gets segment 1 and everybody's address."""
    shown = gateway.run("ip", "-d", "-o", "link", "show", "type", "vxlan", check=False).stdout
    match = re.search(r"link/ether (\S+) .* vxlan id (\d+)", shown)
    address, segment = (match[1], int(match[2])) if match else ("ff:ff:ff:ff:ff:ff", 1)
    udp = struct.pack("!HHHH", VXLAN_PORT, VXLAN_PORT, 0, 0)
    vxlan = struct.pack("!II", 0x08 << 24, segment << 8)
    return udp + vxlan + bytes.fromhex(address.replace(":", "")) + b"\x02" + bytes(5) + IPV4


def without_ip(sample: Frame, begun: list[bytes], inner_for: Callable[[bytes], bytes]) -> dict[bytes, bytes]:
    """The same for MACsec: behind a captured tag as it is, counted on, shortened, and with the flags "encrypted" and
    "changed" cleared (IEEE 802.1AE §9.5), which declare that what follows is in the clear. 16 zero bytes stand for the
    ICV."""
    tag = sample.payload[:SECTAG_BYTES]
    clear = bytes([tag[0] & ~0x0C]) + tag[1:]
    frames: dict[bytes, bytes] = {}
    for beginning in [*begun, tag, clear, *[clear[:1] + each[1:SECTAG_BYTES] for each in begun[: len(KEPT)]]]:
        marker = message(128)
        content = beginning + IPV4 + inner_for(marker) + bytes(16)
        frames[marker] = sample.data[:ETHERNET_BYTES] + content
    return frames


def unused_address(address: bytes) -> bytes:
    """The address of the same network that no machine has."""
    return address[:-1] + bytes([STRANGER])


def inner(source: str, destination: str, content: bytes) -> bytes:
    """An IPv4 packet with a UDP datagram without a checksum (RFC 768)."""
    datagram = struct.pack("!HHHH", PORT, PORT, 8 + len(content), 0) + content
    return packet(UDP, pack_address(source), pack_address(destination), datagram)


def build_frame(ethernet: bytes, protocol: int, source: bytes, destination: bytes, content: bytes) -> bytes:
    """An Ethernet frame with an IP packet; in UDP with the right length, and over IPv4 without a checksum."""
    if protocol == UDP:
        content = content[:4] + struct.pack("!HH", len(content), 0) + content[8:]
    if len(source) == 4:
        return ethernet + packet(protocol, source, destination, content)
    if protocol == UDP:  # IPv6 wants a checksum (RFC 8200 §8.1)
        pseudo = source + destination + struct.pack("!II", len(content), protocol)
        content = content[:6] + (checksum(pseudo + content) or 0xFFFF).to_bytes(2, "big") + content[8:]
    header = struct.pack("!IHBB", 6 << 28, len(content), protocol, 64)
    return ethernet + header + source + destination + content


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(protocol: int, source: bytes, destination: bytes, content: bytes) -> bytes:
    """An IPv4 packet without options (RFC 791 §3.1)."""
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(content), 0, 0, 64, protocol, 0, source, destination)
    return header[:10] + checksum(header).to_bytes(2, "big") + header[12:] + content


def pack_address(address: str) -> bytes:
    """An IPv4 address in its four bytes."""
    return bytes(int(part) for part in address.split("."))
