"""Near host, or whoever else: send one thing at a time.

usage: speak.py
Prints "speaking". Each line of standard input is a JSON object, answered by {} or {"error": why}:
    {"udp": HEX, "to": [ADDRESS, PORT]}     a datagram without a checksum, so that nothing but the VPN guards it; with
                                            "tos", the byte of DSCP and ECN
    {"connect": [ADDRESS, PORT]}            a TCP connection, in the place of the one before
    {"tcp": HEX}                            bytes into it
    {"raw": HEX, "on": INTERFACE}           an Ethernet frame, past the machine's own IP
"""

import json
import socket
import sys

# asm-generic/socket.h, linux/udp.h
NO_CHECK = {socket.AF_INET: (socket.SOL_SOCKET, 11), socket.AF_INET6: (socket.IPPROTO_UDP, 101)}
TIMEOUT_S = 3.0

TOS = {socket.AF_INET: (socket.IPPROTO_IP, socket.IP_TOS), socket.AF_INET6: (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)}
sockets: dict[int, socket.socket] = {}


def say(data: bytes, to: tuple[str, int], tos: int) -> None:
    """Send a datagram."""
    family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
    if family not in sockets:
        sockets[family] = socket.socket(family, socket.SOCK_DGRAM)
        sockets[family].setsockopt(*NO_CHECK[family], 1)
    sockets[family].setsockopt(*TOS[family], tos)
    sockets[family].sendto(data, to)


stream: socket.socket | None = None
print("speaking", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    answer = {}
    try:
        if "udp" in asked:
            say(bytes.fromhex(asked["udp"]), tuple(asked["to"]), asked.get("tos", 0))
        elif "connect" in asked:
            if stream is not None:
                stream.close()
            stream = None
            stream = socket.create_connection(tuple(asked["connect"]), timeout=TIMEOUT_S)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        elif "tcp" in asked:
            if stream is None:
                raise OSError("there is no connection")
            stream.sendall(bytes.fromhex(asked["tcp"]))
        else:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
                sock.bind((asked["on"], 0))
                sock.send(bytes.fromhex(asked["raw"]))
    except OSError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer), flush=True)
