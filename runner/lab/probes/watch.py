"""WAN: capture everything on one interface until a line of hex arrives, then say whether it was seen.

usage: watch.py [--sent] INTERFACE [FILE]
With --sent, only what leaves by the interface: a gateway with kernel IPsec shows what it has decrypted as received.
Prints "watching" when the socket is open. Reads one line "HEX HEX …" of markers. Prints a JSON object with
the frames and bytes captured, the frames "lost" because they came too fast, and, for each marker, whether any 32-byte
part of it was on the wire, and the first frame that had one: at which byte, and its beginning as hex; and the numbers
of the protocols that IP carried (IANA), without ICMP, ICMPv6 and IGMP.
With FILE, the frames are also written there as a pcap, for evidence.

The kernel copies each frame into a ring (packet_mmap, Documentation/networking/packet_mmap.rst) as it passes. Read from
the socket, a frame is a reference to the packet's memory: where all nodes share one kernel and a router on the way has
copied the headers (a NAT does), the far gateway decrypts ESP in that very memory, and the capture would show plaintext
within ESP that never was on the wire.
"""

import json
import mmap
import selectors
import socket
import struct
import sys
from collections.abc import Iterator

ETH_P_ALL, PACKET_OUTGOING = 3, 4
SOL_PACKET, PACKET_RX_RING, PACKET_STATISTICS = 263, 5, 6  # linux/if_packet.h
SLOT, SLOTS = 18 * 4096, 128  # the longest frame with offloads is 64 KiB; proof traffic is a few dozen frames
# tpacket_hdr: status, length, bytes kept, offset of the frame, of its network header, seconds, microseconds
HEADER = struct.Struct("@LIIHHII")
ADDRESS = -(-struct.calcsize("@LIIHHII0L") // 16) * 16  # where sockaddr_ll follows; the kind of packet is its byte 10
PART, HEAD = 32, 64
IP_PROTOCOL = {b"\x08\x00": 23, b"\x86\xdd": 20}  # EtherType -> the byte of a frame with the protocol's number
HOP_BY_HOP = 0  # RFC 8200 §4.3
OF_THE_NETWORK = {1, 2, 58}  # ICMP, IGMP, ICMPv6
MAXIMUM = 64 * 2**20  # bytes; proof traffic is a few kilobytes

sent_only = sys.argv[1] == "--sent"
if sent_only:
    del sys.argv[1]
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
packets.setsockopt(SOL_PACKET, PACKET_RX_RING, struct.pack("@IIII", SLOT, SLOTS, SLOT, SLOTS))
ring = mmap.mmap(packets.fileno(), SLOT * SLOTS)
packets.bind((sys.argv[1], ETH_P_ALL))
ends = selectors.PollSelector()
for end in (packets, sys.stdin):
    ends.register(end, selectors.EVENT_READ)
print("watching", flush=True)

frames: list[tuple[float, bytes]] = []
captured = cut = slot = 0


def waiting() -> Iterator[tuple[float, bytes]]:
    """Time and bytes of each frame that waits in the ring; its slot is the kernel's again afterwards."""
    global slot, cut
    while True:
        at = slot * SLOT
        status, length, kept, offset, _, second, fraction = HEADER.unpack_from(ring, at)
        if not status & 1:
            return
        outgoing = ring[at + ADDRESS + 10] == PACKET_OUTGOING
        frame = ring[at + offset : at + offset + kept]
        cut += kept < length
        struct.pack_into("@L", ring, at, 0)
        slot = (slot + 1) % SLOTS
        if outgoing or not sent_only:
            yield second + fraction / 1e6, frame


def ip_protocol(frame: bytes) -> int:
    """The protocol that IP carries in this frame. Before ICMPv6's reports on groups stands a hop-by-hop header (RFC
    3810 §5)."""
    protocol = frame[IP_PROTOCOL[frame[12:14]]]
    return frame[54] if protocol == HOP_BY_HOP and len(frame) > 54 else protocol


while captured < MAXIMUM:
    ready = [key.fileobj for key, _ in ends.select()]
    new = list(waiting())
    frames += new
    captured += sum(len(frame) for _, frame in new)
    if sys.stdin in ready and not new:
        break

markers = [bytes.fromhex(word) for word in sys.stdin.readline().split()]
where = [
    next(
        (
            [frame.index(part), frame[:HEAD].hex()]
            for _, frame in frames
            for part in (marker[start : start + PART] for start in range(0, len(marker) - PART + 1, PART))
            if part in frame
        ),
        None,
    )
    for marker in markers
]
if len(sys.argv) > 2:
    with open(sys.argv[2], "wb") as file:  # https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 70000, 1))
        for when, frame in frames:
            second, fraction = divmod(when, 1)
            file.write(struct.pack("<IIII", int(second), int(fraction * 1e6), len(frame), len(frame)) + frame)
_, dropped = struct.unpack("@II", packets.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
seen = [place is not None for place in where]
in_ip = {ip_protocol(frame) for _, frame in frames if frame[12:14] in IP_PROTOCOL and len(frame) > 23}
found = {"frames": len(frames), "bytes": captured, "lost": dropped + cut, "seen": seen, "where": where}
print(json.dumps({**found, "protocols": sorted(in_ip - OF_THE_NETWORK)}))
