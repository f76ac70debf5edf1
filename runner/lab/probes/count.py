"""Far host: count the datagrams of generate.py where they come in, trial after trial, and drop them there, before any
program or ICMP.

usage: count.py INTERFACE SOURCES PORT LAST_PORT STAMPED_PORT [fragments]
SOURCES is the network that they come from, PORT to LAST_PORT where they go. Prints "ready". A trial is two lines on
standard input: "begin", which it answers by "counting", and "end SENT STILL_S", which it answers, as soon as SENT
packets have come or none has for STILL_S, by a JSON object:
"first": packets and bytes of those that have the UDP header, "rest": those of later fragments, "stamped": those to
STAMPED_PORT, "beside": of TCP, which may run beside; "by": the packet filter
that counted them, nftables at the interface's ingress, or where the kernel has none of that, iptables' table raw, the
next place on their way; "interface": what the interface itself received meanwhile, in packets, at least and at most,
because the two cannot be read in one moment; "samples": [seconds, bytes] of the interface whenever its count had
changed, looked at every 2 ms; "unseen": [seconds, how long] of each look that came so long after the one before.
"stamps" on standard input, after the sender has sent such: the answer, {"stamps": [[number, sent_ns, came_ns], …]}, is
what has come to STAMPED_PORT since the last time; the kernel has stamped them when they came.
It ends with its standard input, and takes its filter with it. With "fragments" it counts those that are fragmented,
too; as nobody can tell later fragments of one stream from another's, the filter is then there during trials only.
"""

import gc
import json
import os
import re
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

LONGEST_S = 2.0  # RFC 2544 §23: two seconds for residual frames
LOOK_S, UNSEEN_S = 0.002, 0.02
SO_TIMESTAMPNS = 35  # socket(7)
NETLINK_NETFILTER, NFNL_SUBSYS_NFTABLES, NFT_MSG_GETOBJ, NFT_OBJECT_COUNTER, NFPROTO_NETDEV = 12, 10, 19, 1, 5
NLM_F_REQUEST, NLMSG_ERROR = 1, 2
STAMP, TIME = struct.Struct("!Qq"), struct.Struct("@qq")
interface, sources, port, last_port, stamped_port = sys.argv[1:6]
fragments = "fragments" in sys.argv[6:]
NAMES = ("first", "rest", "stamped", "beside")
FAMILY = "ip6" if ":" in sources else "ip"


def tool(*argv: str, text: str | None = None) -> str:
    """Run a command and return its output. Raises CalledProcessError."""
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of a netlink message (netlink(7))."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes of a netlink message by their kind."""
    by_kind = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        by_kind[kind & 0x3FFF] = data[4:length]
        data = data[length + -length % 4 :]
    return by_kind


def counter(table: str, name: str) -> list[int]:
    """Packets and bytes of a named counter of a table for network devices (linux/netfilter/nf_tables.h)."""
    asked = attribute(1, table.encode() + b"\0") + attribute(2, name.encode() + b"\0")
    asked += attribute(3, struct.pack("!I", NFT_OBJECT_COUNTER))
    kind = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETOBJ
    header = struct.pack("=IHHII", 20 + len(asked), kind, NLM_F_REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
        netlink.send(header + struct.pack("!BBH", NFPROTO_NETDEV, 0, 0) + asked)
        answer = netlink.recv(8192)
    if struct.unpack_from("=H", answer, 4)[0] == NLMSG_ERROR:
        number = -struct.unpack_from("=i", answer, 16)[0]
        raise OSError(number, f"the counter {name} cannot be read: {os.strerror(number)}")
    data = attributes(attributes(answer[20:])[4])
    return [int.from_bytes(data[2], "big"), int.from_bytes(data[1], "big")]


class Nftables:
    """nft(8). It counts what the interface hands over, in bytes of IP."""

    name = "nftables"
    rest = f"ip saddr {sources} ip protocol udp ip frag-off & 0x1fff != 0 counter name rest drop"
    rules = f"""
add table netdev vpneval_count
delete table netdev vpneval_count
table netdev vpneval_count {{
    counter first {{}}
    counter rest {{}}
    counter stamped {{}}
    counter beside {{}}
    chain sink {{
        type filter hook ingress device "{interface}" priority 0
        {rest if fragments else ""}
        {FAMILY} saddr {sources} udp dport {port}-{last_port} counter name first drop
        {FAMILY} saddr {sources} udp dport {stamped_port} counter name stamped
        {FAMILY} saddr {sources} meta l4proto tcp counter name beside
    }}
}}
"""

    def start(self) -> None:
        """Make the table; one that a killed sink has left goes first."""
        tool("nft", "-f", "-", text=self.rules)

    def read_counters(self) -> dict[str, list[int]]:
        """NAMES -> [packets, bytes]. Asked by netlink: nft takes some 10 ms for it."""
        return {name: counter("vpneval_count", name) for name in NAMES}

    def stop(self) -> None:
        """Remove the table."""
        tool("nft", "delete", "table", "netdev", "vpneval_count")


class Iptables:
    """iptables(8) of the legacy kind. Its table raw sees a packet before routing and before fragments are joined."""

    name = "iptables"
    jump = f"PREROUTING -i {interface} -s {sources} -j vpneval_count"
    rules = f"""
*raw
:vpneval_count - [0:0]
-A vpneval_count -p udp --dport {port}:{last_port} -j DROP
-A vpneval_count -p udp {"-f -j DROP" if fragments else "-f -j RETURN"}
-A vpneval_count -p udp --dport {stamped_port} -j RETURN
-A vpneval_count -p tcp -j RETURN
-I {jump}
COMMIT
"""

    def start(self) -> None:
        """Make the chain; one that a killed sink has left goes first."""
        with suppress(subprocess.CalledProcessError):  # the rest of a sink that was killed
            self.stop()
        tool("iptables-legacy-restore", "--noflush", text=self.rules)

    def read_counters(self) -> dict[str, list[int]]:
        """NAMES -> [packets, bytes]."""
        listed = tool("iptables-legacy-save", "--counters", "--table", "raw")
        rows = re.findall(r"^\[(\d+):(\d+)\] -A vpneval_count ", listed, re.MULTILINE)
        return {name: [int(count) for count in counts] for name, counts in zip(NAMES, rows, strict=True)}

    def stop(self) -> None:
        """Remove the chain and the jump to it."""
        tool("iptables-legacy", "-t", "raw", *f"-D {self.jump}".split())
        tool("iptables-legacy", "-t", "raw", "-F", "vpneval_count")
        tool("iptables-legacy", "-t", "raw", "-X", "vpneval_count")


def open_filter() -> Nftables | Iptables:
    """The first packet filter that works here, already counting. Ends the probe with the error of each where none
    works."""
    refusals = []
    for candidate in (Nftables(), Iptables()):
        try:
            candidate.start()
            return candidate
        except FileNotFoundError as missing:
            refusals.append(f"{candidate.name}: {missing.filename} is missing")
        except subprocess.CalledProcessError as refused:
            refusals.append(f"{candidate.name}: {(refused.stderr.strip().splitlines() or ['refused'])[0]}")
    sys.exit("no packet filter that counts: " + "; ".join(refusals))


class Counter:
    """A counter of the interface."""

    def __init__(self, name: str) -> None:
        self._file = os.open(f"/sys/class/net/{interface}/statistics/{name}", os.O_RDONLY)

    def read(self) -> int:
        """The count so far."""
        return int(os.pread(self._file, 32, 0))


def next_words() -> list[str]:
    """The words of the next line on standard input; none at its end."""
    return sys.stdin.readline().split()


def trial() -> dict[str, Any]:
    """One trial, with the filter in its place."""
    if not fragments:
        return counting()
    packet_filter.start()
    try:
        return counting()
    finally:
        packet_filter.stop()


def counting() -> dict[str, Any]:
    """Count until told to end, and until the last packet has come."""
    least_before = packets.read()
    earlier = packet_filter.read_counters()
    packets_before, bytes_before = packets.read(), octets.read()
    samples, unseen, looked = list[tuple[float, int]](), list[tuple[float, float]](), 0.0
    started = changed = time.monotonic()
    last, end, still_s, sent = bytes_before, None, 0.0, 0
    asked = select.poll()
    asked.register(sys.stdin, select.POLLIN)
    print("counting", flush=True)
    while True:
        now, seen = time.monotonic(), octets.read()
        if looked and now > looked + UNSEEN_S:
            unseen.append((round(now - started, 4), round(now - looked, 4)))
        looked = now
        if seen != last:
            last, changed = seen, now
            samples.append((round(now - started, 4), seen - bytes_before))
        if end is None and asked.poll(0):
            words = next_words()
            end, sent, still_s = (now, int(words[1]), float(words[2])) if words else (now, 0, 0.0)
        if end is not None and (
            packets.read() - packets_before >= sent
            or now > max(end, changed) + still_s
            or now > end + LONGEST_S + still_s
        ):
            break
        time.sleep(LOOK_S)
    least = packets.read() - packets_before
    counted = packet_filter.read_counters()
    difference = {name: [n - m for n, m in zip(counted[name], earlier[name], strict=True)] for name in counted}
    interface_packets = [least, packets.read() - least_before]
    found = {"by": packet_filter.name, "interface": interface_packets, "samples": samples, "unseen": unseen}
    return difference | found


def stamps() -> list[tuple[int, int, int]]:
    """The datagrams that have come to the port for stamped ones: number, when sent and when received, in ns."""
    arrivals = []
    with suppress(BlockingIOError):
        while True:
            data, control, _, _ = stamped.recvmsg(2048, 64)
            came = next(TIME.unpack(value) for _, kind, value in control if kind == SO_TIMESTAMPNS)
            number, sent_ns = STAMP.unpack_from(data)
            arrivals.append((number, sent_ns, came[0] * 10**9 + came[1]))
    return arrivals


packet_filter = open_filter()
if fragments:
    packet_filter.stop()
gc.disable()
with suppress(PermissionError):
    os.nice(-15)  # as generate.py
packets, octets = Counter("rx_packets"), Counter("rx_bytes")
stamped = socket.socket(socket.AF_INET6 if FAMILY == "ip6" else socket.AF_INET, socket.SOCK_DGRAM)
stamped.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
stamped.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
stamped.bind(("::" if FAMILY == "ip6" else "0.0.0.0", int(stamped_port)))
stamped.setblocking(False)
try:
    print("ready", flush=True)
    while words := next_words():
        print(json.dumps({"stamps": stamps()} if words[0] == "stamps" else trial()), flush=True)
finally:
    if not fragments:
        packet_filter.stop()
