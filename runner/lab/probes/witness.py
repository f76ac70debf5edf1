"""Far host: keep what arrives on a port, datagrams and streams, and tell it on demand.

usage: witness.py PORT
Prints "listening". Each line of standard input, a JSON object, is answered by one: "datagrams", each with its time of
arrival, [seconds, hex], and "streams", the bytes of each TCP connection so far, as hex. {"answer": HEX} is sent first,
in the newest connection, or as a datagram to where the last one came from.
"""

import json
import selectors
import socket
import sys
import time
from contextlib import suppress

port = int(sys.argv[1])
both = socket.has_dualstack_ipv6()
family = socket.AF_INET6 if both else socket.AF_INET
datagrams = socket.socket(family, socket.SOCK_DGRAM)
if both:
    datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    datagrams.setsockopt(socket.IPPROTO_UDP, 102, 1)  # UDP_NO_CHECK6_RX: takes them without a checksum (RFC 6935)
datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
datagrams.bind(("", port))
listener = socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=64)
heard: list[tuple[float, str]] = []
streams: dict[int, bytearray] = {}
open_ones: dict[int, socket.socket] = {}
last_from: tuple[str, int] | None = None

ends = selectors.PollSelector()
for end in (datagrams, listener, sys.stdin):
    ends.register(end, selectors.EVENT_READ)
print("listening", flush=True)
while True:
    ready = [key.fileobj for key, _ in ends.select()]
    if datagrams in ready:
        data, last_from = datagrams.recvfrom(70000)
        heard.append((time.time(), data.hex()))
    if listener in ready:
        connection = listener.accept()[0]
        number = len(streams)
        open_ones[number], streams[number] = connection, bytearray()
        ends.register(connection, selectors.EVENT_READ)
    for number, connection in list(open_ones.items()):
        if connection in ready:
            try:
                data = connection.recv(65536)
            except OSError:  # reset by a tunnel that broke
                data = b""
            streams[number] += data
            if not data:
                ends.unregister(connection)
                open_ones.pop(number).close()
    if sys.stdin in ready and datagrams not in ready:  # what has arrived is told first
        line = sys.stdin.readline()
        if not line:
            break
        answer = bytes.fromhex(json.loads(line).get("answer", ""))
        with suppress(OSError):  # what the tunnel does not take shows by what does not leave
            if answer and open_ones:
                open_ones[max(open_ones)].sendall(answer)
            elif answer and last_from:
                datagrams.sendto(answer, last_from)
        print(json.dumps({"datagrams": heard, "streams": [bytes(each).hex() for each in streams.values()]}), flush=True)
