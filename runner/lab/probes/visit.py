"""Both hosts: short visits through a tunnel that stands, over connections that stay open between them.

usage: visit.py far PORT             serve; prints "ready" when it listens
       visit.py near ADDRESS PORT    prints "ready"; each line of standard input is a visit, answered by a line

    {"do": "tcp", "direction": "forward", "streams": 1, "warm_s": 0.1, "slice_s": 0.3}
        one transfer ("both": one each way at once, added), also with "rate_bps" (paced), "payload" ("random", "zeros",
        or a file's path on the sender) or "control" (the streams' congestion control; "" is the host's).
        {"bytes": between two marks at the receiver, "seconds": between them, "carried_bytes": all of the visit,
         "retransmits": of the sender's segments, "congestion_control": of the sender's streams}
    {"do": "rtt", "exchanges": 20}    one byte and its answer, one after another: {"ms": […]}; with "seconds" in place
        of "exchanges" as many as this time has room for, and "pause_s" between them

An answer {"error": "…"} says what went wrong; the next visit begins with new connections. What is in the sender's
buffers when a slice ends is not counted, and has arrived before the visit ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

BLOCK = 2**17  # as iperf3
UNSENT_BYTES = 2**18  # no more waits in the sender's socket, so that a visit ends soon after its slice
PATIENCE_S = 10.0
PACE_S = 0.002  # between the pieces of a paced transfer, which are at least a segment, and UNSENT_BYTES at most
SEGMENT, LONGEST_S = 1448, 0.05
ECHO, LAST = b"\x55", b"\0"  # of the exchanges: the first is answered, the second ends them
TCP_NOTSENT_LOWAT = 25  # linux/tcp.h
SO_MAX_PACING_RATE, MOST_PACED = 47, 2**32 - 2  # asm-generic/socket.h; bytes/s, more than any connection carries
RETRANSMITS = slice(100, 104)  # tcpi_total_retrans of struct tcp_info


class Line:
    """A connection that carries lines of JSON."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.file = connection.makefile("r")

    def say(self, **what: Any) -> None:
        """Send a line. Raises OSError."""
        self.connection.sendall(json.dumps(what).encode() + b"\n")

    def hear(self) -> dict[str, Any]:
        """The next line. Raises OSError where none comes, or with the error that it reports."""
        self.connection.settimeout(PATIENCE_S)
        message: dict[str, Any] = json.loads(self.file.readline() or '{"error": "the far host closed the connection"}')
        if "error" in message:
            raise OSError(message["error"])
        return message

    def silent(self) -> bool:
        """Has the other end sent nothing yet?"""
        return not ready([self.connection], 0)


def ready(connections: list[socket.socket], within_s: float) -> list[socket.socket]:
    """Those of the connections that can be read within this time."""
    poll = select.poll()
    for connection in connections:
        poll.register(connection, select.POLLIN)
    numbers = {number for number, _ in poll.poll(1e3 * within_s)}
    return [connection for connection in connections if connection.fileno() in numbers]


class Streams:
    """The connections that carry a visit's payload, and what each has carried in its life."""

    def __init__(self, connections: list[socket.socket]) -> None:
        self.connections = connections
        self.sent = [0] * len(connections)
        self.received = [0] * len(connections)
        self.buffer = bytearray(BLOCK)
        self.own_control = self.control() if connections else ""
        for connection in connections:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)

    def retransmits(self) -> int:
        """How many segments these connections have retransmitted so far."""
        info = [c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192) for c in self.connections]
        return sum(int.from_bytes(tcp_info[RETRANSMITS], sys.byteorder) for tcp_info in info)

    def control(self) -> str:
        """The congestion control of these connections."""
        name = self.connections[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        return name.rstrip(b"\0").decode()

    def take_control(self, name: str) -> None:
        """Give the connections this congestion control; "" is the one that they began with. Raises OSError."""
        if self.control() != (wanted := name or self.own_control):
            for connection in self.connections:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, wanted.encode())

    def pace(self) -> None:
        """Let the kernel pace them from now on, as the queue discipline fq does: after a rest the whole window would
        leave at once, and overflow the queue of a long path."""
        for connection in self.connections:
            connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("I", MOST_PACED))

    def pump(self, payload: bytes, rate_bps: float | None, go_on: Callable[[], bool]) -> None:
        """Send while ``go_on`` returns True, at ``rate_bps`` in pieces of PACE_S, between which the sender sleeps. What
        a stall held back follows at once, as data of an application would. Raises OSError where no payload is taken any
        more, or the receiver does not end the visit."""
        view = memoryview(payload + payload[:BLOCK])
        poll = select.poll()
        for connection in self.connections:
            poll.register(connection, select.POLLOUT)
        numbers = {connection.fileno(): index for index, connection in enumerate(self.connections)}
        piece = min(UNSENT_BYTES, max(SEGMENT, int((rate_bps or 0) / 8 * PACE_S)))
        started = moved = time.monotonic()
        total = 0
        while go_on():
            now = time.monotonic()
            if now > started + 3 * PATIENCE_S:
                raise OSError("the receiver did not end the visit")
            if now > moved + PATIENCE_S:
                raise OSError(f"no payload was taken for {PATIENCE_S:g} s")
            length = BLOCK
            if rate_bps:
                due = int(rate_bps / 8 * (now - started)) - total
                if due < piece:
                    time.sleep(min(LONGEST_S, 8 * (piece - due) / rate_bps))
                    continue
                length = min(BLOCK, due)
            for number, _ in poll.poll(20):
                index = numbers[number]
                at = self.sent[index] % len(payload)
                try:
                    count = self.connections[index].send(view[at : at + length])
                except BlockingIOError:
                    continue
                self.sent[index] += count
                total += count
                moved = time.monotonic()

    def sink(self, warm_s: float, slice_s: float) -> dict[str, Any]:
        """Receive. Returns the bytes and seconds between the first arrivals after ``warm_s`` and after ``slice_s``
        more. Raises OSError where nothing comes."""
        begin: float | None = None
        mark: tuple[float, int] | None = None
        since = sum(self.received)
        end = time.monotonic() + PATIENCE_S + warm_s + slice_s
        while True:
            if not self.take(end):
                continue
            now = time.monotonic()
            if begin is None:
                begin = now
            if mark is None:
                if now >= begin + warm_s:
                    mark = now, sum(self.received)
            elif now >= mark[0] + slice_s:
                return {"bytes": sum(self.received) - mark[1], "seconds": now - mark[0], "since": since}

    def drain(self, sent: list[int]) -> None:
        """Receive until all that was ``sent`` has arrived. Raises OSError where it does not."""
        end = time.monotonic() + PATIENCE_S
        while self.received != sent:
            self.take(end)

    def take(self, end: float) -> bool:
        """Receive what has come. Returns False where nothing came within half a second. Raises OSError after
        ``end``."""
        came = ready(self.connections, 0.5)
        for connection in came:
            index = self.connections.index(connection)
            count = connection.recv_into(self.buffer)
            if not count:
                raise OSError("the connection ended in the middle of a visit")
            self.received[index] += count
        if time.monotonic() > end:
            raise OSError(f"no payload came for {PATIENCE_S:g} s, or its end did not come")
        return bool(came)


def payload_of(name: str) -> bytes:
    """Random bytes again and again, longer than the window of any VPN's compression; zeros; or a file's text."""
    if name == "random":
        return os.urandom(BLOCK)
    if name == "zeros":
        return bytes(BLOCK)
    with open(name, "rb") as file:
        return file.read()


class Far:
    """The far host's part of each visit. A connection says first whose it is: [visitor, streams, number]."""

    def __init__(self, port: int) -> None:
        self.waiting: dict[tuple[str, int], socket.socket] = {}
        self.changed = threading.Condition()
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        listener = socket.create_server(("", port), family=family, dualstack_ipv6=both, backlog=64)
        print("ready", flush=True)
        threading.Thread(target=self.listen, args=(listener,), daemon=True).start()
        sys.stdin.read()
        os._exit(0)

    def listen(self, listener: socket.socket) -> None:
        """Take connections, each in a thread of its own."""
        while True:
            threading.Thread(target=self.accept, args=(listener.accept()[0],), daemon=True).start()

    def accept(self, connection: socket.socket) -> None:
        """Take one connection. A visitor's line is served; its other connections wait for that."""
        first_line = b""
        while not first_line.endswith(b"\n"):
            part = connection.recv(1)
            if not part:
                return
            first_line += part
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        visitor, streams, number = json.loads(first_line)
        if number is None:
            self.serve(Line(connection), visitor, streams)
            return
        with self.changed:
            self.waiting[visitor, number] = connection
            self.changed.notify_all()

    def serve(self, line: Line, visitor: str, streams: int) -> None:
        """The visits of one visitor, until the line ends or a visit fails."""
        try:
            mine = self.streams(visitor, streams)
            line.say(ready=True)
            while (asked := self.next_visit(line)) is not None:
                self.visit(line, mine, asked)
        except (OSError, ValueError) as error:
            with contextlib.suppress(OSError):
                line.say(error=f"far host: {error}")
        finally:
            line.connection.close()

    def streams(self, visitor: str, streams: int) -> Streams:
        """The visitor's other connections. Raises OSError where they do not come."""
        with self.changed:
            if not self.changed.wait_for(lambda: all((visitor, n) in self.waiting for n in range(streams)), 5):
                raise OSError("not all connections of the visit came")
            return Streams([self.waiting.pop((visitor, n)) for n in range(streams)])

    def next_visit(self, line: Line) -> dict[str, Any] | None:
        """The next visit, however long it takes to come; None at the end of the line."""
        line.connection.settimeout(None)
        asked: dict[str, Any] | None = json.loads(line.file.readline() or "null")
        return asked

    def visit(self, line: Line, mine: Streams, asked: dict[str, Any]) -> None:
        """This host's part of one visit. Raises OSError."""
        if asked["do"] == "sink":
            line.say(**mine.sink(asked["warm_s"], asked["slice_s"]))
            mine.drain(line.hear()["sent"])
            line.say(received=mine.received)
        elif asked["do"] == "pump":
            before = mine.retransmits()
            mine.take_control(asked["control"])
            if asked["paced"]:
                mine.pace()
            mine.pump(payload_of(asked["payload"]), asked["rate_bps"], line.silent)
            line.hear()
            line.say(sent=mine.sent, retransmits=mine.retransmits() - before, control=mine.control())
        else:
            line.say(go=True)  # only now may single bytes follow: what is a line and what is not stays clear
            line.connection.settimeout(PATIENCE_S)
            while line.connection.recv(1) == ECHO:
                line.connection.sendall(ECHO)


class Near:
    """The near host: the visits, one after another."""

    def __init__(self, address: str, port: int) -> None:
        self.to = address, port
        self.open: dict[tuple[int, str], tuple[Line, Streams]] = {}  # by the number of streams, and for which use
        self.opened = 0

    def lines(self, streams: int, use: str = "") -> tuple[Line, Streams]:
        """The connections of a visit with so many streams. Raises OSError."""
        if (streams, use) not in self.open:
            self.opened += 1
            control, *data = [socket.create_connection(self.to, timeout=5) for _ in range(streams + 1)]
            for number, connection in zip([None, *range(streams)], [control, *data], strict=True):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(json.dumps([f"{os.getpid()}-{self.opened}", streams, number]).encode() + b"\n")
            line = Line(control)
            line.hear()
            self.open[streams, use] = line, Streams(data)
        return self.open[streams, use]

    def add_both_ways(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A transfer each way at once, added: as many bytes in these seconds. Raises OSError."""
        ways = [asked | {"direction": way, "use": way} for way in ("forward", "reverse")]
        for way in ways:  # so that both begin at once
            self.lines(way["streams"], way["use"])
        with ThreadPoolExecutor(2) as pool:
            there, back = pool.map(self.tcp, ways)
        added = {name: there[name] + back[name] for name in ("carried_bytes", "retransmits")}
        bytes_back = round(back["bytes"] * there["seconds"] / back["seconds"])
        return there | added | {"bytes": there["bytes"] + bytes_back}

    def tcp(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One transfer. Raises OSError."""
        line, mine = self.lines(asked["streams"], asked.get("use", ""))
        payload, rate_bps, control = asked.get("payload", "random"), asked.get("rate_bps"), asked.get("control", "")
        if asked["direction"] == "forward":
            before = sum(mine.sent), mine.retransmits()
            mine.take_control(control)
            if asked.get("paced"):
                mine.pace()
            line.say(do="sink", warm_s=asked["warm_s"], slice_s=asked["slice_s"])
            mine.pump(payload_of(payload), rate_bps, line.silent)
            counts = line.hear()
            line.say(sent=mine.sent)
            line.hear()
            carried, again, used = sum(mine.sent) - before[0], mine.retransmits() - before[1], mine.control()
        else:
            paced = bool(asked.get("paced"))
            line.say(do="pump", payload=payload, rate_bps=rate_bps, control=control, paced=paced)
            counts = mine.sink(asked["warm_s"], asked["slice_s"])
            line.say(stop=True)
            totals = self.receive_rest(line, mine)
            carried, again, used = sum(mine.received) - counts["since"], totals["retransmits"], totals["control"]
        told = {"carried_bytes": carried, "retransmits": again, "congestion_control": used}
        return {"bytes": counts["bytes"], "seconds": counts["seconds"]} | told

    def receive_rest(self, line: Line, mine: Streams) -> dict[str, Any]:
        """Receive until the sender says how much it has sent, then receive the rest. Returns what the sender said."""
        end = time.monotonic() + PATIENCE_S
        while line.silent():
            if ready([*mine.connections, line.connection], 0.5) != [line.connection]:
                mine.take(end)
        totals = line.hear()
        mine.drain(totals["sent"])
        return totals

    def rtt(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Exchanges of one byte. Raises OSError."""
        line, _ = self.lines(0)
        line.say(do="rtt")
        line.hear()
        line.connection.settimeout(5)
        times: list[float] = []
        began = time.monotonic()
        while len(times) < asked["exchanges"] if "exchanges" in asked else time.monotonic() < began + asked["seconds"]:
            started = time.perf_counter()
            line.connection.sendall(ECHO)
            if not line.connection.recv(1):
                raise OSError("the far host closed the connection")
            times.append(round((time.perf_counter() - started) * 1e3, 4))
            time.sleep(asked.get("pause_s", 0.002))  # one packet at a time on an idle tunnel, not a flood
        line.connection.sendall(LAST)
        return {"ms": times}

    def visit(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One visit; after a failure the connections are made anew."""
        try:
            if asked["do"] == "rtt":
                return self.rtt(asked)
            return self.add_both_ways(asked) if asked["direction"] == "both" else self.tcp(asked)
        except (OSError, ValueError) as error:
            for line, mine in self.open.values():
                for connection in [line.connection, *mine.connections]:
                    connection.close()
            self.open = {}
            return {"error": str(error)}


if __name__ == "__main__":
    if sys.argv[1] == "far":
        Far(int(sys.argv[2]))
    near = Near(sys.argv[2], int(sys.argv[3]))
    print("ready", flush=True)
    for question in sys.stdin:
        print(json.dumps(near.visit(json.loads(question))), flush=True)
    os._exit(0)
