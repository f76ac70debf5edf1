"""WAN: stand between the gateways in the bridge's place, pass every frame on, and interfere when told to.

usage: relay.py NEAR FAR
Prints "relaying" when it does. Each line of standard input is a JSON object {"do": WHAT, "least": BYTES}, answered by
one: "sent" is what was made of the frames that it interfered with since the last line, as hex; "acknowledged" says
whether the far end's TCP has acknowledged repeated bytes. WHAT, for IP packets and MACsec frames from near to far of
BYTES or more:
    pass     nothing
    touch    make the checksums anew and nothing else: shows that those of "flip" are right
    flip     flip a bit of the payload, another place each time, and make the checksums anew
    repeat   send it twice
    record   nothing, but remember the last one, a TCP segment
    insert   put what was recorded into the stream a second time, now, with the numbers to fit (once)
    drop     both ways and of any length: IP and MACsec do not pass, ARP and ICMPv6, which is in its place, do
    mark     set its ECN to CE (RFC 3168 §5), whatever it was
    plan     count them from 0, and hold number N until N + "plan"[N] has left, or lose it where that is 0
"planned" counts what "plan" has held or lost.
"""

import json
import selectors
import socket
import struct
import sys
from contextlib import suppress

ETH_P_ALL, ETH_P_IP, ETH_P_IPV6, ETH_P_MACSEC = 3, b"\x08\x00", b"\x86\xdd", b"\x88\xe5"
PACKET_OUTGOING, ETHERNET, IPV6_BYTES = 4, 14, 40
OF_THE_NETWORK = (0, 58)  # of IPv6: the header before reports on groups (RFC 3810 §5), and ICMPv6
SECTAG = 14  # after the EtherType: flags, length, packet number, secure channel (IEEE 802.1AE §9.3)
HEADER = {socket.IPPROTO_UDP: 8, socket.IPPROTO_ESP: 8, socket.IPPROTO_GRE: 4}
PLACES = (0.4, 0.55, 0.7, 0.85, 0.95, 1.0)  # of the payload; the last is where a tag would be


def checksum(data: bytes) -> int:
    """RFC 1071."""
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip_protocol(frame: bytes | bytearray) -> int | None:
    """The protocol that IP carries; None of MACsec, and of what is the network's own and passes always."""
    if frame[12:14] == ETH_P_IPV6:
        return None if frame[ETHERNET + 6] in OF_THE_NETWORK else frame[ETHERNET + 6]
    return frame[ETHERNET + 9] if frame[12:14] == ETH_P_IP else None


def parts(frame: bytes | bytearray) -> tuple[int, int, int]:
    """Where the IP payload and the transport's payload begin, and where the packet ends; of MACsec, its content."""
    if frame[12:14] == ETH_P_MACSEC:
        return ETHERNET, ETHERNET + SECTAG, len(frame)
    if frame[12:14] == ETH_P_IPV6:
        upper = ETHERNET + IPV6_BYTES
        end = upper + int.from_bytes(frame[ETHERNET + 4 : ETHERNET + 6], "big")
    else:
        upper = ETHERNET + (frame[ETHERNET] & 15) * 4
        end = ETHERNET + int.from_bytes(frame[ETHERNET + 2 : ETHERNET + 4], "big")
    protocol = ip_protocol(frame)
    if protocol == socket.IPPROTO_TCP:
        return upper, upper + (frame[upper + 12] >> 4) * 4, end
    return upper, upper + HEADER.get(protocol or 0, 0), end


def fix_checksums(frame: bytearray) -> bytes:
    """The frame with its checksums of IPv4, UDP and TCP made anew; MACsec has none."""
    if frame[12:14] == ETH_P_MACSEC:
        return bytes(frame)
    upper, _, end = parts(frame)
    addresses = ETHERNET + (8 if frame[12:14] == ETH_P_IPV6 else 12)  # up to the payload: there are no options
    if frame[12:14] == ETH_P_IP:
        frame[ETHERNET + 10 : ETHERNET + 12] = b"\0\0"
        frame[ETHERNET + 10 : ETHERNET + 12] = checksum(bytes(frame[ETHERNET:upper])).to_bytes(2, "big")
    protocol = ip_protocol(frame)
    if protocol in (socket.IPPROTO_UDP, socket.IPPROTO_TCP):
        at = upper + (6 if protocol == socket.IPPROTO_UDP else 16)
        frame[at : at + 2] = b"\0\0"
        pseudo = bytes(frame[addresses:upper]) + struct.pack(
            "!II", protocol, end - upper
        )  # RFC 8200 §8.1; the same sum
        frame[at : at + 2] = (checksum(pseudo + bytes(frame[upper:end])) or 0xFFFF).to_bytes(2, "big")
    return bytes(frame)


def flip_bit(frame: bytes, turn: int) -> bytes:
    """The frame with one bit of its payload flipped."""
    _, start, end = parts(frame)
    changed = bytearray(frame)
    changed[min(end - 1, start + int((end - start) * PLACES[turn % len(PLACES)]))] ^= 0x40
    return fix_checksums(changed)


class Splice:
    """Bytes that were put into a TCP stream: later numbers move by as many, acknowledgements back by as many."""

    def __init__(self, frame: bytes, at: int) -> None:
        upper, start, end = parts(frame)
        self.ports, self.added, self.at = frame[upper : upper + 4], end - start, at
        self.copy = self.renumber(frame, 4, at)
        self.acknowledged = False

    @staticmethod
    def renumber(frame: bytes, field: int, number: int) -> bytes:
        """The frame with another number (32 bits) at this offset of its TCP header, and checksums to fit."""
        upper, _, _ = parts(frame)
        changed = bytearray(frame)
        changed[upper + field : upper + field + 4] = (number % 2**32).to_bytes(4, "big")
        return fix_checksums(changed)

    def after(self, number: int) -> int:
        """How far a number is behind the place where bytes were put in; negative before it (RFC 9293 §3.4)."""
        return (number - self.at + 2**31) % 2**32 - 2**31

    def forward(self, frame: bytes) -> bytes:
        """A segment to the far end: its sequence number is raised from the insertion on."""
        upper, _, _ = parts(frame)
        number = int.from_bytes(frame[upper + 4 : upper + 8], "big")
        mine = frame[upper : upper + 4] == self.ports
        return self.renumber(frame, 4, number + self.added) if mine and self.after(number) >= 0 else frame

    def back(self, frame: bytes) -> bytes:
        """A segment from the far end: its acknowledgement is lowered, and noted once it covers what was put in."""
        upper, _, _ = parts(frame)
        number = int.from_bytes(frame[upper + 8 : upper + 12], "big")
        if frame[upper : upper + 4] != self.ports[2:] + self.ports[:2] or self.after(number) <= 0:
            return frame
        self.acknowledged |= self.after(number) >= self.added
        return self.renumber(frame, 8, max(self.at, number - self.added))


def open_socket(interface: str) -> socket.socket:
    """A packet(7) socket that gets every frame of the interface."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
    sock.bind((interface, 0))
    return sock


near, far = open_socket(sys.argv[1]), open_socket(sys.argv[2])
what, least, turn = "pass", 0, 0
plan: dict[str, int] = {}
held: dict[int, bytes] = {}  # by the number that it waits for
number = planned = 0
sent: list[str] = []
recorded, end_of_stream = b"", 0
splice: Splice | None = None


def mark_ce(frame: bytes) -> bytes:
    """The IP packet with CE."""
    changed = bytearray(frame)
    changed[ETHERNET + 1] |= 0x30 if frame[12:14] == ETH_P_IPV6 else 3
    return fix_checksums(changed)


def by_plan(frame: bytes) -> list[bytes]:
    """What leaves in the place of the next frame of the plan: nothing, itself, or what has waited for it, too."""
    global number, planned
    depth, mine = plan.get(str(number)), number
    number += 1
    if depth is None:
        return [frame, held.pop(mine)] if mine in held else [frame]
    planned += 1
    if depth:
        held[mine + depth] = frame
    return []


def forward(frame: bytes) -> list[bytes]:
    """What goes on to the far end for a frame from the near one."""
    global recorded, end_of_stream, turn
    protocol = ip_protocol(frame)
    if protocol is None and frame[12:14] != ETH_P_MACSEC:
        return [frame]
    tcp = protocol == socket.IPPROTO_TCP
    upper, start, end = parts(frame)
    long = end - ETHERNET >= least and end > start
    if tcp and what == "record" and long:
        recorded = frame
    if tcp and recorded and end > start:
        end_of_stream = (int.from_bytes(frame[upper + 4 : upper + 8], "big") + end - start) % 2**32
    if tcp and splice:
        frame = splice.forward(frame)
    if what == "drop":
        return []
    if what in ("pass", "record", "insert") or not long:
        return [frame]
    if what == "plan":
        return by_plan(frame)
    if what == "mark":
        return [frame if protocol is None else mark_ce(frame)]
    if what == "repeat":
        sent.append(frame.hex())
        return [frame, frame]
    changed = flip_bit(frame, turn) if what == "flip" else fix_checksums(bytearray(frame))
    turn += 1
    sent.append(changed.hex())
    return [changed]


def back(frame: bytes) -> list[bytes]:
    """The same for a frame from the far end to the near one."""
    protocol = ip_protocol(frame)
    if what == "drop" and (protocol is not None or frame[12:14] == ETH_P_MACSEC):
        return []
    return [splice.back(frame) if splice and protocol == socket.IPPROTO_TCP else frame]


ends = selectors.PollSelector()
for end in (near, far, sys.stdin):
    ends.register(end, selectors.EVENT_READ)
print("relaying", flush=True)
while True:
    ready = [key.fileobj for key, _ in ends.select()]
    for here, there, made in ((near, far, forward), (far, near, back)):
        if here in ready:
            frame, origin = here.recvfrom(70000)
            if origin[2] == PACKET_OUTGOING:
                continue
            for each in made(frame):
                with suppress(OSError):  # the port is down: lost, as on any cable
                    there.send(each)
    if sys.stdin in ready:
        line = sys.stdin.readline()
        if not line:
            break
        asked = json.loads(line)
        told = {"sent": sent, "planned": planned, "acknowledged": bool(splice and splice.acknowledged)}
        print(json.dumps(told), flush=True)
        what, least, sent = asked["do"], asked.get("least", 0), []
        plan, held, number, planned = asked.get("plan", {}), {}, 0, 0
        if what == "insert" and recorded:
            splice = Splice(recorded, end_of_stream)
            far.send(splice.copy)
            sent.append(splice.copy.hex())
