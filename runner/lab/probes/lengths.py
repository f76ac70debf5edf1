"""WAN: the lengths of the IP packets that pass an interface, until a line arrives on standard input.

usage: lengths.py INTERFACE
Prints "watching" when it does, then a JSON object: "in" and "out", each with the "lengths" of the packets (whole
length -> how many), how many of them are "fragments" (RFC 791 §3.1: more to come, or an offset; RFC 8200 §4.5), and the
"other_bytes" of frames that are not IP, and of the network's own ICMPv6, without their Ethernet header; and "counted":
packets and bytes, with
Ethernet headers, that the interface's root queueing discipline has sent meanwhile (tc(8)). A TCP segment that
offloading has not cut yet is longer than the interface's MTU, and is counted as what it will be cut into.
"""

import json
import re
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

ETH_P_ALL, ETH_P_IP, ETH_P_IPV6 = 3, 0x0800, 0x86DD
IPV6_BYTES, FRAGMENT = 40, 44  # the header, and the next one of a fragment (RFC 8200 §3, §4.5)
OF_THE_NETWORK = (0, 58)  # the hop-by-hop header that reports on groups begin with (RFC 3810 §5), and ICMPv6
PACKET_OUTGOING = 4  # packet(7)
ETHERNET_BYTES = 14


def counters() -> tuple[int, int]:
    """Packets and bytes that the root queueing discipline has sent so far."""
    argv = ["tc", "-statistics", "qdisc", "show", "dev", sys.argv[1]]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    root = next(
        section for section in re.split("^(?=qdisc )", shown, flags=re.M) if " root " in section.partition("\n")[0]
    )
    sent = re.search(r"Sent (\d+) bytes (\d+) pkt", root)
    assert sent is not None
    return int(sent[2]), int(sent[1])


def on_the_wire(packet: bytes, mtu: int) -> list[int]:
    """The lengths of the packets that an IP packet becomes on the wire."""
    v6 = packet[0] >> 4 == 6
    length = IPV6_BYTES + int.from_bytes(packet[4:6], "big") if v6 else int.from_bytes(packet[2:4], "big")
    header = IPV6_BYTES if v6 else (packet[0] & 15) * 4
    if length <= mtu or packet[6 if v6 else 9] != socket.IPPROTO_TCP:
        return [length]
    header += (packet[header + 12] >> 4) * 4
    full, rest = divmod(length - header, mtu - header)
    return [mtu] * full + ([header + rest] if rest else [])


packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 * 2**20)
packets.bind((sys.argv[1], 0))
with open(f"/sys/class/net/{sys.argv[1]}/mtu") as file:
    mtu = int(file.read())
packets.setblocking(False)
lengths: dict[str, dict[int, int]] = {"in": {}, "out": {}}
fragments = {"in": 0, "out": 0}
other_bytes = {"in": 0, "out": 0}


def discard() -> int:
    """Drop the frames that wait in the socket. Returns how many they were."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            packets.recv(1)
            count += 1
    return count


def drain() -> int:
    """Note the lengths of the frames that wait in the socket. Returns how many they were."""
    count = 0
    with suppress(BlockingIOError):
        while True:
            frame, (_, protocol, kind, *_) = packets.recvfrom(70000)
            count += 1
            way = "out" if kind == PACKET_OUTGOING else "in"
            packet = frame[ETHERNET_BYTES:]
            of_network = protocol == ETH_P_IPV6 and packet[6] in OF_THE_NETWORK
            if of_network or protocol not in (ETH_P_IP, ETH_P_IPV6):
                other_bytes[way] += len(packet)
                continue
            for length in on_the_wire(packet, mtu):
                lengths[way][length] = lengths[way].get(length, 0) + 1
            v6 = protocol == ETH_P_IPV6
            fragments[way] += packet[6] == FRAGMENT if v6 else bool(int.from_bytes(packet[6:8], "big") & 0x3FFF)
    return count


def counters_between_frames(take: Callable[[], int]) -> tuple[int, int]:
    """The counters at a moment around which no frame came, so that capture and counters begin and end alike."""
    take()
    read = counters()
    for _ in range(20):
        if not take():
            break
        read = counters()
    return read


before = counters_between_frames(discard)
ends = selectors.PollSelector()
for end in (packets, sys.stdin):
    ends.register(end, selectors.EVENT_READ)
print("watching", flush=True)
while sys.stdin not in [key.fileobj for key, _ in ends.select()]:
    drain()
after = counters_between_frames(drain)
seen = {way: {"lengths": lengths[way], "fragments": fragments[way], "other_bytes": other_bytes[way]} for way in lengths}
print(json.dumps({**seen, "counted": [after[0] - before[0], after[1] - before[1]]}))
