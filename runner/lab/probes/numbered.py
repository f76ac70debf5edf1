"""Numbered datagrams from a near end to a far one, in a closed loop: what arrived, how often, and how far overtaken.

usage: numbered.py hear PORT RTT_S              prints "hearing"
       numbered.py say ADDRESS PORT RTT_S       prints "saying"
RTT_S: the path's round trip, which everything that is waited for takes as well.
Each line of standard input, a JSON object, is answered by one.
hear: "got", different numbers since the last line; "twice", those that came more than once; "late", each number that
others had overtaken, with how far below the highest it was when it came; "missing", below the highest.
say {"count": N, "bytes": LENGTH, "window": PACKETS, "absent": [NUMBER, …]}: sends N numbers of so many bytes. It has
"window" of them on their way at most, without those of "absent", which a relay holds.
"""

import json
import selectors
import socket
import sys
import time
from contextlib import suppress

RTT_S = float(sys.argv[-1])
GIVE_UP_S = 1.5 + RTT_S  # what has not come by then is lost
QUIET_S = 0.25 + RTT_S  # nothing comes any more
REPEAT_S = 0.02  # the far end says again what it has when nothing comes for so long
SILENT = 2 * GIVE_UP_S / REPEAT_S  # times at most
EVERY = 12  # datagrams that it answers at once


class Heard:
    """What the far end has of one session."""

    def __init__(self) -> None:
        self.seen: set[int] = set()
        self.twice: set[int] = set()
        self.late: list[tuple[int, int]] = []
        self.highest = -1

    def take(self, number: int) -> None:
        """Another datagram has come."""
        if number in self.seen:
            self.twice.add(number)
        elif number < self.highest:
            self.late.append((number, self.highest - number))
        self.seen.add(number)
        self.highest = max(self.highest, number)

    @property
    def report(self) -> dict[str, object]:
        """The answer to who asks."""
        missing = sorted({*range(self.highest + 1)} - self.seen)
        return {"got": len(self.seen), "twice": len(self.twice), "late": self.late, "missing": missing}


def hear(port: int) -> None:
    """The far end. It answers the sender with how many different numbers it has, and the highest."""
    both = socket.has_dualstack_ipv6()
    end = socket.socket(socket.AF_INET6 if both else socket.AF_INET, socket.SOCK_DGRAM)
    if both:
        end.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**22)
    end.bind(("", port))
    heard, sender, answered, silent = Heard(), None, 0, 0
    ready = selectors.PollSelector()
    for each in (end, sys.stdin):
        ready.register(each, selectors.EVENT_READ)
    print("hearing", flush=True)
    while True:
        events = [key.fileobj for key, _ in ready.select(REPEAT_S)]
        silent = 0 if end in events else silent + 1
        if end in events:
            data, sender = end.recvfrom(70000)
            heard.take(int.from_bytes(data[:4], "big"))
        elif sys.stdin in events:  # what has arrived is told first
            if not sys.stdin.readline():
                return
            print(json.dumps(heard.report), flush=True)
            heard, sender, answered = Heard(), None, 0
        if sender and (len(heard.seen) - answered >= EVERY or 0 < silent < SILENT):
            answered = len(heard.seen)
            with suppress(OSError):
                end.sendto(answered.to_bytes(4, "big") + heard.highest.to_bytes(4, "big"), sender)


class NearEnd:
    """The near end of one session. ``there``: how many different numbers the far end has said that it has; ``highest``
    of them."""

    def __init__(self, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.end, self.there, self.highest = socket.socket(family, socket.SOCK_DGRAM), 0, -1
        self.end.connect((address, port))

    def send(self, number: int, length: int) -> None:
        """What this machine does not take is missing at the far end."""
        with suppress(OSError):
            self.end.settimeout(GIVE_UP_S)
            self.end.send(number.to_bytes(4, "big").ljust(length, b"n"))

    def look(self, wait_s: float = 0.0) -> None:
        """Take in what the far end has said, and wait so long for it to say anything."""
        self.end.settimeout(wait_s)
        with suppress(OSError):
            while True:
                said = self.end.recv(16)
                self.there = max(self.there, int.from_bytes(said[:4], "big"))
                self.highest = max(self.highest, int.from_bytes(said[4:], "big"))
                self.end.settimeout(0.0)

    def settle(self, last: int) -> None:
        """Wait until the far end gets nothing more: for long, where it has not got the ``last`` number."""
        before, since = -1, time.monotonic()
        while before != self.there or time.monotonic() - since < (QUIET_S if self.highest == last else GIVE_UP_S):
            if before != self.there:
                before, since = self.there, time.monotonic()
            self.look(QUIET_S)


def say(address: str, port: int) -> None:
    """The near end."""
    print("saying", flush=True)
    for text in sys.stdin:
        asked = json.loads(text)
        line = NearEnd(address, port)
        told = send_in_window(line, **asked)
        line.settle(asked["count"] - 1)
        line.end.close()
        print(json.dumps(told), flush=True)


def send_in_window(line: NearEnd, count: int, bytes: int, window: int, absent: list[int]) -> dict[str, float]:
    """Send no more than ``window`` beyond what the far end has."""
    began, lost, away = time.monotonic(), 0, {*absent}
    passed = 0  # of those that are away
    for number in range(count):
        line.send(number, bytes)
        passed += number in away
        line.look()
        until = time.monotonic() + GIVE_UP_S
        wanted = number + 1 - passed - window
        while line.there < wanted - lost:
            line.look(REPEAT_S)
            if time.monotonic() > until:
                if not line.there:  # nothing has ever arrived
                    return {"sent": number + 1, "seconds": time.monotonic() - began, "lost": number + 1}
                lost = number + 1 - passed - line.there  # all that were on their way
    return {"sent": count, "seconds": time.monotonic() - began, "lost": lost}


if __name__ == "__main__":
    if sys.argv[1] == "hear":
        hear(int(sys.argv[2]))
    else:
        say(sys.argv[2], int(sys.argv[3]))
