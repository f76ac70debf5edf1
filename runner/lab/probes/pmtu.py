"""Near host: which lengths of IP packets reach the far host and are answered, by ICMP echo that nobody fragments.

usage: pmtu.py search ADDRESS WAIT_S LOW HIGH   the largest length from LOW to HIGH that is answered; 0 where not even
                                                LOW is
       pmtu.py echo   ADDRESS WAIT_S LENGTH COUNT [fragment]   how many of COUNT packets are answered; without DF if
                                                               "fragment"
Prints the number. A packet that is too long is given up at once where a router says so (ICMP type 3 code 4,
RFC 1191 §4; ICMPv6 type 2, RFC 8201 §4), else after two times WAIT_S.
"""

import os
import socket
import struct
import sys
import time

V6 = ":" in sys.argv[2]
MTU_DISCOVER = (socket.IPPROTO_IPV6, 23) if V6 else (socket.IPPROTO_IP, 10)  # ip(7), linux/in6.h
DONT_SET_DF, PROBE = 0, 3  # PROBE sets DF and does not heed what PMTU was learnt
ECHO, ECHO_REPLY, TOO_BIG = (128, 129, b"\2\0") if V6 else (8, 0, b"\3\4")  # RFC 4443, RFC 792
HEADERS_BYTES = 48 if V6 else 28
WAIT_S, ATTEMPTS = float(sys.argv[3]), 2

ICMP = (socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
sock = socket.socket(*ICMP) if V6 else socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
sock.setsockopt(*MTU_DISCOVER, DONT_SET_DF if "fragment" in sys.argv[6:] else PROBE)
identity = os.getpid() & 0xFFFF
sequence = 0


def checksum(data: bytes) -> int:
    """RFC 1071."""
    total: int = sum(struct.unpack(f"!{(len(data) + 1) // 2}H", data + bytes(len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total


def header_bytes(packet: bytes) -> int:
    """The length of the IP header at the packet's beginning."""
    return 40 if V6 else (packet[0] & 15) * 4


def echo_passes(address: str, length: int) -> bool:
    """Is one echo in an IP packet of ``length`` bytes answered?"""
    global sequence
    sequence = sequence % 0xFFFF + 1
    payload = os.urandom(length - HEADERS_BYTES)
    message = struct.pack("!BBHHH", ECHO, 0, 0, identity, sequence) + payload
    message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]  # the kernel makes ICMPv6's
    try:
        sock.sendto(message, (address, 0))
    except OSError:
        return False  # EMSGSIZE: longer than the MTU of our own interface
    end = time.monotonic() + WAIT_S
    while (left := end - time.monotonic()) > 0:
        sock.settimeout(left)
        try:
            packet = sock.recv(70000)
        except TimeoutError:
            break
        except OSError:
            return False
        icmp = packet if V6 else packet[header_bytes(packet) :]  # ipv6(7): raw sockets get no header
        if icmp[0] == ECHO_REPLY and struct.unpack("!HH", icmp[4:8]) == (identity, sequence):
            return icmp[8:] == payload
        if icmp[:2] == TOO_BIG:
            inner = icmp[8:]
            if inner[header_bytes(inner) + 4 :][:4] == struct.pack("!HH", identity, sequence):
                return False
    return False


if sys.argv[1] == "echo":
    print(sum(echo_passes(sys.argv[2], int(sys.argv[4])) for _ in range(int(sys.argv[5]))))
else:
    address, low, high = sys.argv[2], int(sys.argv[4]), int(sys.argv[5])
    if not any(echo_passes(address, low) for _ in range(2 * ATTEMPTS)):
        print(0)
        sys.exit()
    while low < high:
        middle = (low + high + 1) // 2
        if any(echo_passes(address, middle) for _ in range(ATTEMPTS)):
            low = middle
        else:
            high = middle - 1
    print(low)
