"""Both hosts: short visits through a tunnel that stands, over connections that stay open between them.

usage: visit.py far PORT             serve; prints "ready" when it listens
       visit.py near ADDRESS PORT    prints "ready"; each line of standard input is a visit, answered by a line

    {"do": "tcp", "direction": "forward", "streams": 1, "warm_s": 0.1, "slice_s": 0.3}
        one transfer, also with "rate_bps" (paced) or "payload" ("random", "zeros", or a file's path on the sender).
        {"bytes": between two marks at the receiver, "seconds": between them, "carried_bytes": all of the visit,
         "retransmits": of the sender's segments}
    {"do": "rtt", "exchanges": 20}    one byte and its answer, one after another: {"ms": […]}

An answer {"error": "…"} says what went wrong; the next visit begins with new connections. What is in the sender's
buffers when a slice ends is not counted, and has arrived before the visit ends.
"""

import json
import os
import select
import socket
import sys
import threading
import time

BLOCK = 2**17  # as iperf3
UNSENT_BYTES = 2**18  # no more waits in the sender's socket, so that a visit ends soon after its slice
PATIENCE_S = 10.0
PACE_S = 0.002
TCP_NOTSENT_LOWAT = 25  # linux/tcp.h
RETRANSMITS = slice(100, 104)  # tcpi_total_retrans of struct tcp_info


class Line:
    """A connection that carries lines of JSON."""

    def __init__(self, connection):
        self.connection = connection
        self.file = connection.makefile("r")

    def say(self, **what):
        self.connection.sendall(json.dumps(what).encode() + b"\n")

    def hear(self):
        self.connection.settimeout(PATIENCE_S)
        said = json.loads(self.file.readline() or '{"error": "the far host closed the connection"}')
        if "error" in said:
            raise OSError(said["error"])
        return said

    def silent(self):
        return not select.select([self.connection], [], [], 0)[0]


class Streams:
    """The connections of a visit that carry payload, and what each has carried in its life."""

    def __init__(self, connections):
        self.connections = connections
        self.sent = [0] * len(connections)
        self.received = [0] * len(connections)
        self.buffer = bytearray(BLOCK)
        for connection in connections:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, UNSENT_BYTES)

    def retransmits(self):
        info = [c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192) for c in self.connections]
        return sum(int.from_bytes(one[RETRANSMITS], sys.byteorder) for one in info)

    def pump(self, payload, rate_bps, go_on):
        """Send while ``go_on`` says so."""
        view = memoryview(payload + payload[:BLOCK])
        poll = select.poll()
        for connection in self.connections:
            poll.register(connection, select.POLLOUT)
        numbers = {connection.fileno(): index for index, connection in enumerate(self.connections)}
        started, end = time.monotonic(), time.monotonic() + 3 * PATIENCE_S
        total = 0
        while go_on():
            if time.monotonic() > end:
                raise OSError("the receiver did not end the visit")
            length = BLOCK
            if rate_bps:
                length = min(BLOCK, int(rate_bps / 8 * (time.monotonic() - started)) - total)
                if length < 1448:
                    time.sleep(PACE_S)
                    continue
            for number, _ in poll.poll(20):
                index = numbers[number]
                at = self.sent[index] % len(payload)
                try:
                    count = self.connections[index].send(view[at : at + length])
                except BlockingIOError:
                    continue
                self.sent[index] += count
                total += count

    def sink(self, warm_s, slice_s):
        """Receive; bytes and seconds between the first arrivals after ``warm_s`` and after ``slice_s`` more."""
        begin = mark = None
        since = sum(self.received)
        end = time.monotonic() + PATIENCE_S + warm_s + slice_s
        while True:
            if not self._take(end):
                continue
            now = time.monotonic()
            begin = begin or now
            if mark is None:
                if now >= begin + warm_s:
                    mark = now, sum(self.received)
            elif now >= mark[0] + slice_s:
                return {"bytes": sum(self.received) - mark[1], "seconds": now - mark[0], "since": since}

    def drain(self, sent):
        """Receive what is still under way, until all that was ``sent`` has arrived."""
        end = time.monotonic() + PATIENCE_S
        while self.received != sent:
            self._take(end)

    def _take(self, end):
        ready = select.select(self.connections, [], [], 0.5)[0]
        for connection in ready:
            index = self.connections.index(connection)
            count = connection.recv_into(self.buffer)
            if not count:
                raise OSError("the connection ended in the middle of a visit")
            self.received[index] += count
        if time.monotonic() > end:
            raise OSError(f"no payload came for {PATIENCE_S:g} s, or its end did not come")
        return ready


def payload_of(name):
    """Random bytes again and again, longer than the window of any VPN's compression; zeros; or a file's text."""
    if name == "random":
        return os.urandom(BLOCK)
    if name == "zeros":
        return bytes(BLOCK)
    with open(name, "rb") as file:
        return file.read()


class Far:
    """The far host: what it does of each visit. A connection says first whose it is: [visitor, streams, number]."""

    def __init__(self, port):
        self.waiting = {}
        self.changed = threading.Condition()
        listener = socket.create_server(("0.0.0.0", port), backlog=64)
        print("ready", flush=True)
        threading.Thread(target=self.listen, args=(listener,), daemon=True).start()
        sys.stdin.read()
        os._exit(0)

    def listen(self, listener):
        while True:
            threading.Thread(target=self.accept, args=(listener.accept()[0],), daemon=True).start()

    def accept(self, connection):
        said = b""
        while not said.endswith(b"\n"):
            part = connection.recv(1)
            if not part:
                return
            said += part
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        visitor, streams, number = json.loads(said)
        if number is None:
            self.serve(Line(connection), visitor, streams)
            return
        with self.changed:
            self.waiting[visitor, number] = connection
            self.changed.notify_all()

    def serve(self, line, visitor, streams):
        try:
            with self.changed:
                if not self.changed.wait_for(lambda: all((visitor, n) in self.waiting for n in range(streams)), 5):
                    raise OSError("not all connections of the visit came")
                mine = Streams([self.waiting.pop((visitor, n)) for n in range(streams)])
            line.say(ready=True)
            while True:
                line.connection.settimeout(None)
                asked = json.loads(line.file.readline() or "null")
                if asked is None:
                    return
                if asked["do"] == "sink":
                    line.say(**mine.sink(asked["warm_s"], asked["slice_s"]))
                    mine.drain(line.hear()["sent"])
                    line.say(received=mine.received)
                elif asked["do"] == "pump":
                    before = mine.retransmits()
                    mine.pump(payload_of(asked["payload"]), asked["rate_bps"], line.silent)
                    line.hear()
                    line.say(sent=mine.sent, retransmits=mine.retransmits() - before)
                else:
                    line.say(go=True)  # only now may single bytes follow: what is a line and what is not stays clear
                    line.connection.settimeout(PATIENCE_S)
                    for _ in range(asked["exchanges"]):
                        line.connection.sendall(line.connection.recv(1))
        except (OSError, ValueError) as error:
            try:
                line.say(error=f"far host: {error}")
            except OSError:
                pass
        finally:
            line.connection.close()


class Near:
    """The near host: the visits, one after another."""

    def __init__(self, address, port):
        self.to = address, port
        self.open = {}  # number of streams -> the line and the streams
        self.opened = 0

    def lines(self, streams):
        """The connections of a visit with so many streams."""
        if streams not in self.open:
            self.opened += 1
            control, *data = [socket.create_connection(self.to, timeout=5) for _ in range(streams + 1)]
            for number, connection in zip([None, *range(streams)], [control, *data]):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(json.dumps([f"{os.getpid()}-{self.opened}", streams, number]).encode() + b"\n")
            line = Line(control)
            line.hear()
            self.open[streams] = line, Streams(data)
        return self.open[streams]

    def tcp(self, asked):
        """One transfer."""
        line, mine = self.lines(asked["streams"])
        payload, rate_bps = asked.get("payload", "random"), asked.get("rate_bps")
        if asked["direction"] == "forward":
            before = sum(mine.sent), mine.retransmits()
            line.say(do="sink", warm_s=asked["warm_s"], slice_s=asked["slice_s"])
            mine.pump(payload_of(payload), rate_bps, line.silent)
            found = line.hear()
            line.say(sent=mine.sent)
            line.hear()
            carried, again = sum(mine.sent) - before[0], mine.retransmits() - before[1]
        else:
            line.say(do="pump", payload=payload, rate_bps=rate_bps)
            found = mine.sink(asked["warm_s"], asked["slice_s"])
            line.say(stop=True)
            told = line.hear() if not mine.connections else self.stopped(line, mine)
            carried, again = sum(mine.received) - found["since"], told["retransmits"]
        return {"bytes": found["bytes"], "seconds": found["seconds"], "carried_bytes": carried, "retransmits": again}

    def stopped(self, line, mine):
        """Take what is under way until the sender says how much it was, then the rest."""
        end = time.monotonic() + PATIENCE_S
        while line.silent():
            if select.select([*mine.connections, line.connection], [], [], 0.5)[0] != [line.connection]:
                mine._take(end)
        told = line.hear()
        mine.drain(told["sent"])
        return told

    def rtt(self, asked):
        """Exchanges of one byte."""
        line, _ = self.lines(0)
        line.say(do="rtt", exchanges=asked["exchanges"])
        line.hear()
        line.connection.settimeout(5)
        times = []
        for _ in range(asked["exchanges"]):
            started = time.perf_counter()
            line.connection.sendall(b"\x55")
            if not line.connection.recv(1):
                raise OSError("the far host closed the connection")
            times.append(round((time.perf_counter() - started) * 1e3, 4))
            time.sleep(0.002)  # one packet at a time on an idle tunnel, not a flood
        return {"ms": times}

    def visit(self, asked):
        """One visit; after a failure the connections are made anew."""
        try:
            return self.tcp(asked) if asked["do"] == "tcp" else self.rtt(asked)
        except (OSError, ValueError) as error:
            for line, mine in self.open.values():
                for connection in [line.connection, *mine.connections]:
                    connection.close()
            self.open = {}
            return {"error": str(error)}


if sys.argv[1] == "far":
    Far(int(sys.argv[2]))
near = Near(sys.argv[2], int(sys.argv[3]))
print("ready", flush=True)
for question in sys.stdin:
    print(json.dumps(near.visit(json.loads(question))), flush=True)
os._exit(0)
