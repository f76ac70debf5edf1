"""The bare path between two gateways: which ports come through, NAT, RTT, loss, DSCP and ECN, clocks, rate each way.

usage: path.py answer 4|6 PORT...                   "udp/51820" or "tcp/655"; says "ready", takes {"key": "…"} and says
                                                    so, ends with standard input
       path.py ask ADDRESS SECONDS MAX_BPS MTU LOW HIGH PORT...
       path.py rate ADDRESS SECONDS MAX_BPS tcp/PORT send|take  prints the rate of one way, bit/s
The others read the same key from the first line of standard input: everybody can reach the ports, and the far end
answers and sends nothing to those who do not know it. The second prints one JSON object. SECONDS of TCP each way, and
then rising rates of datagrams, up to the first that the path does not carry, 0: none. The rate is the higher of both,
of payload: a path that is long or loses packets has room for more than one TCP connection takes, and some let TCP pass
faster (after RFC 9097). What it loses is counted at half of that rate. MTU of the path in bytes; 0: it is sought from
LOW to HIGH (0: not at all), by datagrams with DF set and answers as long, so that no ICMP is needed. ADDRESS may have
the sender's own behind a comma.
Of the ports, each is tried; the first of each kind that answers carries the rest. A datagram is answered with what was
seen of it: the address and port that it came from, its TOS byte, and the time. TOS is RFC 2474 and RFC 3168. Behind the
key, LOAD begins one of a load, which is only counted, TELL asks for its rate, SEND asks for a load. Each load has a
number, by which a question can be repeated, and what comes late of another load is known.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

MARK = 0xB8 | 0x02  # DSCP EF, ECT(0)
PINGS, EVERY_S, PATIENCE_S = 100, 0.01, 1.5
HALF, COUNTED_PACKETS, COUNTS_S = 0.5, 1000, (0.2, 5.0)  # of the rate; so many tell what it loses, in so long
CONNECTS_S = 3.0  # the first SYN may be lost (RFC 6298 §2.1: another after 1 s), on a path of seconds
TCP_RTTS = 20  # of a test, at least: half of them are slow start
STANDSTILL_S = 6
CHUNK = bytes(1 << 16)
CUBIC = b"cubic"  # RFC 9438: that of the test hosts, whatever the gateway's own TCP has
SO_MAX_PACING_RATE = 47  # asm-generic/socket.h
STALLS_S = 15.0
MOST_LINE = 200
LEAST_WAIT_S = 0.1
LOAD, TELL, SEND = b"load", b"tell", b"send"
NUMBER, COUNTED = struct.Struct("!I"), struct.Struct("!Idd")  # of a load; its number, rate (bit/s) and share lost
PLACE = struct.Struct("!I")  # of a datagram in its load
TENTHS, FEWEST_PLACES = 10, 100  # of a load, as it was sent; fewer datagrams tell nothing of its parts
WANTED = struct.Struct("!IddH")  # number, bit/s, seconds, bytes of a datagram
TRIES = 8  # a question about a load: on a path that loses half of them, one of 256 has no answer
LEAST_BPS, MOST_BPS, STEP_S, LAST_S, MOST_STEPS = 1e6, 10e9, 0.4, 1.0, 20
CARRIED = 0.85  # of a rate: a path that loses a tenth carries it
BEYOND = 1.3  # of what came, in the last load, which fills the path
USUAL_MTU = 1280
TURN_S, TURN_PACKETS = 0.001, 64
BUFFER_BYTES = 1 << 22
V6 = sys.argv[2:3] == ["6"] or ":" in (sys.argv[2:3] or [""])[0]  # the path's family
FAMILY = socket.AF_INET6 if V6 else socket.AF_INET
TOS = (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if V6 else (socket.IPPROTO_IP, socket.IP_TOS)
# IP_MTU_DISCOVER and IPV6_MTU_DISCOVER, ip(7), linux/in6.h: set DF, and do not heed what ICMP has said before.
PROBES = (socket.IPPROTO_IPV6, 23, 3) if V6 else (socket.IPPROTO_IP, 10, 3)
KEY = ""  # of those who ask
WAYS = (("forward", True), ("reverse", False))  # whether the near end sends
NUMBERS = itertools.count(int(time.time()))  # of the loads; a later program has later ones
TELL_TOS = (socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS) if V6 else (socket.IPPROTO_IP, socket.IP_RECVTOS)


def udp(port: int) -> socket.socket:
    """A UDP socket on ``port`` (0: any) that tells the TOS byte of what comes."""
    made = socket.socket(FAMILY, socket.SOCK_DGRAM)
    made.setsockopt(*TELL_TOS, 1)
    made.setsockopt(*PROBES)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    made.bind(("", port))
    return made


def receive_datagram(end: socket.socket) -> tuple[bytes, int, Any]:
    """A datagram: text, TOS byte, sender."""
    text, extra, _, sender = end.recvmsg(1 << 16, 256)
    tos = [data[0] for level, kind, data in extra if (level, kind) == TOS]
    return text, (tos or [0])[0], sender


# --- the far gateway ------------------------------------------------------------------------------------------


def answer(ports: list[str]) -> None:
    """Answer on these ports, to those who know the key, until standard input ends."""
    ends: dict[int, socket.socket] = {}
    for kind, port in (text.split("/") for text in ports):
        end = udp(int(port)) if kind == "udp" else socket.create_server(("", int(port)), family=FAMILY)
        ends[end.fileno()] = end
    waiting = select.poll()
    for number in (0, *ends):
        waiting.register(number, select.POLLIN)
    print("ready", flush=True)
    if not (first := sys.stdin.readline()):
        return
    key = json.loads(first)["key"]
    loads = dict[Any, Load]()  # the last one, by sender
    print(json.dumps({"answering": True}), flush=True)
    while True:
        ready = [number for number, _ in waiting.poll()]
        if 0 in ready and not os.read(0, 1 << 16):
            return
        for end in (ends[number] for number in ready if number):
            if end.type == socket.SOCK_DGRAM:
                reply(end, key.encode(), loads)
            else:
                threading.Thread(target=stream, args=(end.accept()[0], key), daemon=True).start()


def reply(end: socket.socket, key: bytes, loads: dict[Any, Load]) -> None:
    """Tell the sender of a datagram that begins with the key what was seen of it, with the same TOS byte and at least
    as long; or count it, or begin, where it is of a load."""
    text, tos, sender = receive_datagram(end)
    if not text.startswith(key):
        return
    what, more = text[len(key) :][:4], text[len(key) + 4 :]
    if what in (LOAD, TELL, SEND):
        with suppress(OSError, struct.error):
            load(end, sender, key, loads.setdefault(sender, Load()), what, more)
        return
    end.setsockopt(*TOS, tos)
    number = text.removeprefix(key).decode(errors="replace")[:20]
    seen = {"number": number, "tos": tos, "from": sender, "at": time.time()}
    with suppress(OSError):
        end.sendto(json.dumps(seen).encode().ljust(len(text)), sender)


def load(end: socket.socket, sender: Any, key: bytes, last: Load, what: bytes, more: bytes) -> None:
    """Count a datagram of a load, tell the rate of one, or begin one, which is asked for again where it does not come.
    Raises struct.error where the request is too short."""
    (number,) = NUMBER.unpack_from(more)
    if what == LOAD:
        last.note(number, PLACE.unpack_from(more, NUMBER.size)[0], len(key) + 4 + len(more))
    elif what == TELL:
        told = (last.late_bps, last.loss_ratio) if number == last.number else (0.0, 1.0)
        end.sendto(COUNTED.pack(number, *told), sender)
    elif number > last.number:
        last.renew(number)
        _, bps, seconds, length = WANTED.unpack(more)
        if 0 < bps <= MOST_BPS and 0 < seconds <= COUNTS_S[1] and length:
            asked = (end, sender, key, number, bps, seconds, length)
            threading.Thread(target=offer, args=asked, daemon=True).start()


def stream(line: socket.socket, key: str) -> None:
    """One TCP test: the first line has the key, and says which way, for how long, how fast."""
    with suppress(OSError, ValueError, TypeError, KeyError), line:
        line.settimeout(STALLS_S)
        asked = json.loads(line.makefile("rb").readline(MOST_LINE))
        if asked["key"] != key:
            return
        if asked["send_s"]:
            send_bytes(line, asked["send_s"], asked["max_bps"])
        else:
            line.sendall(json.dumps(receive_rate_bps(line)).encode() + b"\n")


# --- both -----------------------------------------------------------------------------------------------------


class Load:
    """What has come of the last load of datagrams: its number, when they came, and how many bytes by then."""

    def __init__(self, number: int = -1) -> None:
        self.renew(number)

    def renew(self, number: int) -> None:
        """Forget what came: that was another load."""
        self.number, self.places, self.came = number, list[int](), list[tuple[float, int]]()

    def note(self, number: int, place: int, length: int) -> None:
        """One more datagram of so many bytes, at its ``place`` in the load; of a load with a higher number it is the
        first, of an earlier it is none."""
        if number > self.number:
            self.renew(number)
        if number == self.number:
            self.places.append(place)
            self.came.append((time.monotonic(), (self.came[-1][1] if self.came else 0) + length))

    @property
    def loss_ratio(self) -> float:
        """The share of the datagrams up to the last one that came which did not: in the middle of its tenths, because a
        sender that a busy machine held up makes up for it at once, and overflows a queue."""
        if not self.places:
            return 1.0
        sent = max(self.places) + 1
        came = [0] * TENTHS
        for place in self.places:
            came[place * TENTHS // sent] += 1
        kept = sorted(came)[TENTHS // 5 : -TENTHS // 5] if sent >= FEWEST_PLACES else came
        return max(0.0, 1 - sum(kept) / (sent * len(kept) / TENTHS))

    @property
    def late_bps(self) -> float:
        """The rate in the second half of its time, in which what a policer lets pass at first has passed; 0 where
        nothing came."""
        if len(self.came) < 2:
            return 0.0
        (begin, _), (end, total) = self.came[0], self.came[-1]
        middle, before = next((when, count) for when, count in self.came if when >= (begin + end) / 2)
        return (total - before) * 8 / max(1e-3, end - middle)


def offer(end: socket.socket, to: Any, key: bytes, number: int, bps: float, seconds: float, length: int) -> None:
    """Send datagrams of ``length`` bytes at this rate for so long."""
    head, sent, started = key + LOAD + NUMBER.pack(number), 0, time.monotonic()
    rest = bytes(max(0, length - len(head) - PLACE.size))
    while (now := time.monotonic() - started) < seconds:
        due = int(bps / 8 / length * now)
        for _ in range(min(TURN_PACKETS, due - sent)):
            with suppress(OSError):  # the port's queue is full
                end.sendto(head + PLACE.pack(sent) + rest, to)
            sent += 1
        if sent >= due:
            time.sleep(TURN_S)


def send_bytes(line: socket.socket, seconds: float, max_bps: float) -> None:
    """Send for so long, then say so."""
    with suppress(OSError):  # a kernel without it
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CUBIC)
    if max_bps:
        line.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("Q", int(max_bps / 8)))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        line.send(CHUNK)
    line.shutdown(socket.SHUT_WR)


def receive_rate_bps(line: socket.socket) -> float:
    """The rate at which bytes came until the other end stopped, bit/s, from the first on: what waits behind a lost
    segment comes all at once, so that a part of the time would tell less."""
    buffer = memoryview(bytearray(len(CHUNK)))
    line.recv_into(buffer)  # the clock starts with the first bytes, which are not counted
    total = 0
    started = time.monotonic()
    while got := line.recv_into(buffer):
        total += got
    return total * 8 / max(1e-3, time.monotonic() - started)


# --- the near gateway -----------------------------------------------------------------------------------------


def ask(
    address: str, seconds: float, max_bps: float, mtu: int, low: int, high: int, ports: list[str]
) -> dict[str, Any]:
    """Everything about the path to ``address``."""
    with ThreadPoolExecutor(len(ports) or 1) as threads:
        there = [*threads.map(partial(reaches, address), ports)]
    reached = [port for port, answers in zip(ports, there, strict=True) if answers]
    facts: dict[str, Any] = {"open": reached}
    datagrams = [int(port[4:]) for port in reached if port.startswith("udp/")]
    streams = [int(port[4:]) for port in reached if port.startswith("tcp/")]
    if datagrams:
        facts |= translation(address, datagrams) | pings(address, datagrams[0])
        if not mtu and high:
            wait_s = 4e-3 * (facts["rtt_ms"] or [0])[-1]
            facts["mtu_bytes"] = mtu = longest(address, datagrams[0], low, high, max(LEAST_WAIT_S, wait_s))
    if streams and seconds:
        seconds = long_enough_s(address, streams[0], seconds)
        for way, send in WAYS:
            facts[f"{way}_bps"] = facts[f"{way}_tcp_bps"] = rate(address, streams[0], seconds, max_bps, mtu, send=send)
    if datagrams and seconds:
        length, rtt_s = (mtu or USUAL_MTU) - (48 if V6 else 28), max(facts["rtt_ms"], default=0.0) / 1e3
        lost = []
        with udp(0) as line:
            for way, send in WAYS:
                offering = partial(offer_load, line, (address.partition(",")[0], datagrams[0]), length, rtt_s, send)
                found_bps = capacity_bps(offering, max_bps or MOST_BPS)
                facts[f"{way}_bps"] = max(facts.get(f"{way}_bps", 0.0), found_bps)
                counted_s = 8 * length * COUNTED_PACKETS / (HALF * max(found_bps, LEAST_BPS))
                lost.append(offering(HALF * found_bps, min(max(counted_s, COUNTS_S[0]), COUNTS_S[1]))[1])
        facts["loss_ratio"] = round(max(lost), 4)
    return facts


def capacity_bps(offering: Callable[[float, float], tuple[float, float]], max_bps: float) -> float:
    """The rate that the path carries: that of what comes while it is full, or the highest that was offered."""
    rate_bps = min(LEAST_BPS, max_bps)
    for _ in range(MOST_STEPS):
        came_bps = min(rate_bps, offering(rate_bps, STEP_S)[0])
        if came_bps < CARRIED * rate_bps:  # it is full, or was held up for a moment
            rate_bps = min(max(BEYOND * came_bps, LEAST_BPS), max_bps)
            came_bps = min(rate_bps, offering(rate_bps, LAST_S)[0])
            if came_bps < CARRIED * rate_bps:
                break
        if rate_bps >= max_bps:
            break
        rate_bps = min(2 * rate_bps, max_bps)
    return came_bps


def offer_load(
    line: socket.socket, to: Any, length: int, rtt_s: float, send: bool, rate_bps: float, seconds: float
) -> tuple[float, float]:
    """What comes of a load at this rate, bit/s, and the share that is lost; ``send``: of that which this end sends;
    else of the other end's."""
    line.settimeout(PATIENCE_S / 3 + 2 * rtt_s)
    key, came = KEY.encode(), Load(next(NUMBERS))
    number = NUMBER.pack(came.number)
    if send:
        offer(line, to, key, came.number, rate_bps, seconds, length)
    question = key + (TELL + number if send else SEND + WANTED.pack(came.number, rate_bps, seconds, length))
    for _ in range(TRIES):
        with suppress(OSError, struct.error):  # nothing came, or nothing more, or no datagram of ours
            line.sendto(question, to)
            while True:
                text = receive_datagram(line)[0]
                if send and text.startswith(number) and len(text) == COUNTED.size:
                    return COUNTED.unpack(text)[1:]
                if text.startswith(key + LOAD + number):
                    came.note(came.number, PLACE.unpack_from(text, len(key + LOAD + number))[0], len(text))
        if came.came:
            break
    return came.late_bps, came.loss_ratio


def reaches(address: str, port: str) -> bool:
    """Does that port of the far end answer?"""
    kind, number = port.split("/")
    return bool(ask_far_end(address, int(number))) if kind == "udp" else connects(address, int(number))


def longest(address: str, port: int, low: int, high: int, wait_s: float) -> int:
    """The longest packet, bytes, from ``low`` to ``high`` that comes through and whose answer, as long, comes back; 0:
    not even ``low``."""

    def passes(length: int) -> bool:
        return bool(ask_far_end(address, port, length=length - (48 if V6 else 28), wait_s=wait_s))

    if passes(high):
        return high
    if not passes(low):
        return 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def ask_far_end(
    address: str, port: int, end: socket.socket | None = None, length: int = 0, wait_s: float = PATIENCE_S / 3
) -> dict[str, Any]:
    """What the far end saw of a datagram of at least ``length`` bytes; empty where it answers none of three."""
    here = end or udp(0)
    here.settimeout(wait_s)
    for _ in range(3):
        with suppress(OSError):  # longer than the port's MTU, refused, or nothing came
            here.sendto(KEY.encode().ljust(length, b"\0"), (address, port))
            while True:  # what was asked for at another port may be late
                text, _, sender = receive_datagram(here)
                if sender[1] == port and (seen := seen_there(text)):
                    return seen
    return {}


def seen_there(text: bytes) -> dict[str, Any]:
    """What an answer of the far end says; empty where this is none."""
    with suppress(ValueError, TypeError, KeyError, IndexError, OverflowError, RecursionError):
        seen = json.loads(text)
        sender = str(seen["from"][0]), int(seen["from"][1])
        return {"number": str(seen["number"]), "tos": int(seen["tos"]), "from": sender, "at": float(seen["at"])}
    return {}


def connects(address: str, port: int) -> bool:
    """Does the port accept a TCP connection?"""
    with suppress(OSError), connect_tcp(address, port):
        return True
    return False


def connect_tcp(address: str, port: int, mtu: int = 0) -> socket.socket:
    """A TCP connection, from the address behind the comma if there is one, of packets of at most ``mtu`` bytes (0: of
    any). Raises OSError."""
    to, _, own = address.partition(",")
    line = socket.socket(FAMILY, socket.SOCK_STREAM)
    try:
        if mtu:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, mtu - (60 if V6 else 40))
        if own:
            line.bind((own, 0))
        line.settimeout(CONNECTS_S)
        line.connect((to, port))
    except OSError:
        line.close()
        raise
    return line


def translation(address: str, ports: list[int]) -> dict[str, Any]:
    """What a NAT makes of one socket's address and port, seen from two ports of the far end; empty where every datagram
    was lost."""
    with udp(0) as end:
        answers = [ask_far_end(address, port, end) for port in ports[:2]]
        seen = [answer["from"] for answer in answers if answer]
        if not seen:
            return {}
        return {
            "seen_as": seen[0][0],
            "port_kept": seen[0][1] == end.getsockname()[1],
            "mappings": len({*seen}),
        }


def pings(address: str, port: int) -> dict[str, Any]:
    """RTTs in ms, loss, TOS bytes both ways, and how far the far clock is ahead, by the quickest exchange."""
    sent_at: dict[str, tuple[float, float]] = {}
    rtts: list[tuple[float, float]] = []
    there = back = -1
    with udp(0) as end:
        end.setsockopt(*TOS, MARK)
        end.settimeout(EVERY_S)
        until = time.monotonic() + PINGS * EVERY_S + PATIENCE_S
        while len(rtts) < PINGS and time.monotonic() < until:
            if len(sent_at) < PINGS:
                number = str(len(sent_at))
                sent_at[number] = time.monotonic(), time.time()
                end.sendto((KEY + number).encode(), (address, port))
            try:
                text, back, _ = receive_datagram(end)
            except TimeoutError:
                continue
            now, heard = time.monotonic(), seen_there(text)
            if heard.get("number") not in sent_at:
                continue
            began, wall = sent_at[heard["number"]]
            there = heard["tos"]
            rtts.append((1e3 * (now - began), heard["at"] - wall - (now - began) / 2))
    sorted_ms = sorted(ms for ms, _ in rtts)
    return {
        "rtt_ms": [round(sorted_ms[int(share * (len(rtts) - 1))], 3) for share in (0, 0.5, 0.95)] if rtts else [],
        "loss_ratio": round(1 - len(rtts) / PINGS, 4),
        "dscp_kept": [tos >> 2 == MARK >> 2 for tos in (there, back)],
        "ecn_kept": [tos & 3 == MARK & 3 for tos in (there, back)],
        "clock_ahead_s": round(min(rtts)[1], 6) if rtts else None,
    }


def long_enough_s(address: str, port: int, seconds: float) -> float:
    """Seconds for a TCP test: ``seconds``, or TCP_RTTS by how long the quicker of two connections takes to open."""
    opened_s = []
    for _ in range(2):
        begun = time.monotonic()
        connects(address, port)
        opened_s.append(time.monotonic() - begun)
    return max(seconds, TCP_RTTS * min(opened_s))


def rate(address: str, port: int, seconds: float, max_bps: float, mtu: int = 0, *, send: bool) -> float:
    """The rate of one TCP connection, bit/s, as the receiver counted it. Its segments fit ``mtu``, both ways: no router
    has to say that they are too long."""
    with connect_tcp(address, port, mtu) as line:
        line.settimeout(STALLS_S)
        asked = {"key": KEY, "send_s": 0 if send else seconds, "max_bps": max_bps}
        line.sendall(json.dumps(asked).encode() + b"\n")
        if not send:
            return receive_rate_bps(line)
        send_bytes(line, seconds, max_bps)
        return float(line.makefile("rb").readline(MOST_LINE))


if __name__ == "__main__":
    KEY = "" if sys.argv[1] == "answer" else sys.stdin.readline().strip()  # the far end gets it later
    if sys.argv[1] == "answer":
        answer(sys.argv[3:])
    elif sys.argv[1] == "rate":
        to, (seconds, max_bps), (port, way) = sys.argv[2], map(float, sys.argv[3:5]), sys.argv[5:]
        seconds = long_enough_s(to, int(port.partition("/")[2]), seconds)
        signal.alarm(math.ceil(seconds) + STANDSTILL_S)  # it ends, whatever has become of the connection
        print(rate(to, int(port.partition("/")[2]), seconds, max_bps, send=way == "send"))
    else:
        to, ports = sys.argv[2], sys.argv[8:]
        (seconds, max_bps), (mtu, low, high) = map(float, sys.argv[3:5]), map(int, sys.argv[5:8])
        try:
            print(json.dumps(ask(to, seconds, max_bps, mtu, low, high, ports)))
        except OSError as stalled:
            sys.exit(f"a TCP connection to {to} stalled ({stalled})")
