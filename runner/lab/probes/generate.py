"""A host: UDP datagrams, trial after trial, each as it is told.

usage: generate.py [TRIAL]
Prints "ready". A trial is a line on standard input, a JSON object (or TRIAL is, and it is the only one):
    {"address": "10.2.0.2", "port": 9, "ip_bytes": [1328], "per_s": 20000.0, "seconds": 0.5, "burst": 16,
     "flows": 1, "sources": 1, "dscp": 0, "fragment": false, "segment": true, "cores": [],
     "send_buffer_bytes": 0}
The answer is a line, a JSON object: "sent" datagrams of "bytes" (IP packets, whole) in "seconds"; "wakes", how often
the sender began anew after a pause, so that sent / wakes is how many left back to back on average; "longest", the most
that did, of one process; "by", the system call; "processes". Or {"error": "…"}. It ends with its standard input.

"ip_bytes" are the lengths of the packets, one after another in turn: [40, 40, 576] is a mixture. DF is set, so that
nobody on the way may fragment them, unless "fragment". "burst": so many leave back to back at most. The sender sleeps
until they are due, and whoever woke up late catches up by bursts with half of the usual pauses. More leave at once
where the rate leaves no time for a sleep: what is due after PAUSE_S, or after two of the machine's shortest sleeps;
up to RUN_S of the rate where sending takes half of the time; and all that is due where it takes HURRY of it, or where
the sender has fallen behind by LATE_S, as on a busy machine. "longest" says how many it was. "flows" have a source
address and a source and destination port each: "sources" addresses from this host's own upwards, the host's own if 1.
"segment": hand a burst to the kernel as one (UDP_SEGMENT, udp(7)); whoever asks for it must see to it that it is cut
before the cable. "cores": a process on each of these, which share the rate and the flows; one process, wherever the
scheduler puts it, if empty. There are never more processes than flows: a flow that left from two cores would overtake
itself, and a tunnel's replay window would drop it. A sender that falls behind catches up with BEHIND_S and forgets the
rest: it then sends less than asked, and says so by its count.

"send_buffer_bytes": of each socket (SO_SNDBUF, socket(7)); 0 leaves the kernel's. A sender whose buffer is full waits.

"stamped": true sends each datagram by itself, with its number and the time when it was sent (struct "!Qq": ns, real
time clock) at the begin of its payload. "wait_s": so long after it was asked.
"""

import ctypes
import errno
import gc
import json
import os
import resource
import socket
import struct
import sys
import time
from contextlib import suppress
from ipaddress import ip_address
from math import ceil, inf
from typing import Any

UDP_BYTES, IPV4_BYTES, IPV6_BYTES = 8, 20, 40
IP_MTU_DISCOVER, IP_TOS, IP_TRANSPARENT = 10, 1, 19  # ip(7)
IPV6_MTU_DISCOVER, IPV6_TCLASS, IPV6_TRANSPARENT = 23, 67, 75  # ipv6(7)
DONT_SET_DF, PROBE = 0, 3  # PROBE sets DF and does not heed what PMTU was learnt
UDP_SEGMENT = 103  # udp(7)
MOST_SEGMENTS, MOST_BYTES = 64, 65000  # of one call
PR_SET_TIMERSLACK = 29  # prctl(2): a sleep ends when it should, not 50 us later
BATCH = 64
PAUSE_S = 0.0001  # between bursts: in less, a sleep that ends late costs the rate
RUN_S = 0.002  # so much of the rate leaves without a pause where sending takes most of the time
SHORTEST_S = 0.00001  # a pause
GAP = 0.5  # of the time that a burst has at this rate pass at least from its begin to that of the next
HURRY = 0.8  # of the time taken by sending: pauses would cost the rate
LEARNING = 4  # bursts and sleeps, until it is known what they take here: any of them may be interrupted
LATE_S = 0.015
BEHIND_S = 0.02
TOGETHER_S = 0.1  # what is forgotten in such a time is one entry of the answer, with the last moment
RING_BYTES = 2**18  # different payloads, more than a compressor in the tunnel remembers
USUAL: dict[str, Any] = {
    "burst": 1,
    "flows": 1,
    "sources": 1,
    "dscp": 0,
    "fragment": False,
    "segment": False,
    "cores": [],
    "send_buffer_bytes": 0,
}
PASSING = (errno.ECONNREFUSED, errno.ENOBUFS, errno.EAGAIN, errno.EINTR)
STAMP = struct.Struct("!Qq")

libc = ctypes.CDLL(None, use_errno=True)


class Iovec(ctypes.Structure):
    """struct iovec (writev(2))."""

    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Header(ctypes.Structure):
    """struct msghdr (sendmsg(2))."""

    _fields_ = [
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("iov", ctypes.POINTER(Iovec)),
        ("iov_length", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class Message(ctypes.Structure):
    """struct mmsghdr (sendmmsg(2))."""

    _fields_ = [("header", Header), ("sent", ctypes.c_uint32)]


RANDOM = ctypes.create_string_buffer(os.urandom(RING_BYTES + 2**16))
VIEW = memoryview(RANDOM)


class Segments:
    """Bursts of datagrams of one length, each burst one call: the kernel cuts it."""

    by = "UDP_SEGMENT"

    def __init__(self, sockets: list[socket.socket], length: int) -> None:
        self.sockets, self.length = sockets, length
        self.most = max(1, min(MOST_SEGMENTS, MOST_BYTES // length))
        for sock in sockets:
            sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, length)

    def send(self, flow: int, first: int, count: int) -> int:
        """Send up to ``count`` datagrams from the ``first``-th on. Returns how many were sent."""
        count = min(count, self.most)
        at = first * self.length % RING_BYTES
        self.sockets[flow].send(VIEW[at : at + count * self.length])
        return count


class Messages:
    """Datagrams of any lengths, up to BATCH a call."""

    by = "sendmmsg"

    def __init__(self, sockets: list[socket.socket], lengths: list[int]) -> None:
        self.numbers = [sock.fileno() for sock in sockets]
        # A ring whose size is a multiple of the pattern, and its first ones again at its end: no batch wraps around.
        self.ring = max(len(lengths), 1024 // len(lengths) * len(lengths))
        size = self.ring + BATCH
        self.parts, self.messages = (Iovec * size)(), (Message * size)()
        base, at = ctypes.addressof(RANDOM), 0
        for i in range(size):
            length = lengths[i % len(lengths)]
            self.parts[i].base, self.parts[i].length = base + at % RING_BYTES, length
            at += length
            self.messages[i].header.iov, self.messages[i].header.iov_length = ctypes.pointer(self.parts[i]), 1

    def send(self, flow: int, first: int, count: int) -> int:
        """As ``Segments.send``. Raises OSError."""
        message = ctypes.byref(self.messages[first % self.ring])
        done: int = libc.sendmmsg(self.numbers[flow], message, min(count, BATCH), 0)
        if done < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return done


class Stamped:
    """Datagrams of one length, each with its number and the time."""

    by = "send"

    def __init__(self, sockets: list[socket.socket], length: int) -> None:
        self.sockets, self.padding = sockets, os.urandom(max(0, length - STAMP.size))

    def send(self, flow: int, first: int, count: int) -> int:
        """Send the ``first``-th datagram. Returns 1."""
        self.sockets[flow].send(STAMP.pack(first, time.time_ns()) + self.padding)
        return 1


def connect_flow(trial: dict[str, Any], flow: int, address: str) -> socket.socket:
    """A socket for one flow of the trial; ``address`` is the source of the first flow."""
    v6 = ":" in trial["address"]
    sock = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
    level = socket.IPPROTO_IPV6 if v6 else socket.IPPROTO_IP
    sock.setsockopt(level, IPV6_MTU_DISCOVER if v6 else IP_MTU_DISCOVER, DONT_SET_DF if trial["fragment"] else PROBE)
    sock.setsockopt(level, IPV6_TCLASS if v6 else IP_TOS, trial["dscp"] << 2)
    if trial["send_buffer_bytes"]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, trial["send_buffer_bytes"])
    if trial["sources"] > 1:
        sock.setsockopt(level, IPV6_TRANSPARENT if v6 else IP_TRANSPARENT, 1)  # an address that is not this host's own
        sock.bind((str(ip_address(address) + flow % trial["sources"]), 0))
    sock.connect((trial["address"], trial["port"] + flow // trial["sources"]))
    return sock


def sender(trial: dict[str, Any], sockets: list[socket.socket], lengths: list[int]) -> Segments | Messages | Stamped:
    """The object that sends the trial's packets."""
    if trial.get("stamped"):
        return Stamped(sockets, lengths[0])
    if trial["segment"] and len(set(lengths)) == 1 and trial["burst"] > 1 and lengths[0]:
        with suppress(OSError):  # a kernel that does not know it
            return Segments(sockets, lengths[0])
    return Messages(sockets, lengths)


def run(trial: dict[str, Any]) -> dict[str, Any]:
    """Run one trial in this process."""
    v6 = ":" in trial["address"]
    headers = UDP_BYTES + (IPV6_BYTES if v6 else IPV4_BYTES)
    lengths = [ip_bytes - headers for ip_bytes in trial["ip_bytes"]]
    with socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM) as any_:
        any_.connect((trial["address"], trial["port"]))
        own = any_.getsockname()[0]
    flows = trial["flow_numbers"]
    sockets = [connect_flow(trial, flow, own) for flow in flows]
    try:
        time.sleep(trial.get("wait_s", 0.0))
        sending = sender(trial, sockets, lengths)
        try:
            result = send_paced(trial, sending, len(sockets))
        except OSError as error:
            # Longer than the route's MTU, or a port that cannot do checksums: one by one.
            if not isinstance(sending, Segments) or error.errno in PASSING:
                raise
            for sock in sockets:
                sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
            result = send_paced(trial, Messages(sockets, lengths), len(sockets))
    finally:
        for sock in sockets:
            sock.close()
    turns, rest = divmod(result["sent"], len(lengths))
    result["bytes"] = turns * sum(trial["ip_bytes"]) + sum(trial["ip_bytes"][:rest])
    return result


class Pace:
    """How many packets may leave back to back, and when the next may, as the trial's own bursts and sleeps show."""

    def __init__(self, per_s: float, burst: int) -> None:
        self.per_s, self.burst = per_s, burst
        self.packet_s = self.late_s = inf  # what sending a packet takes, and how late a sleep ends, at least
        self.bursts = self.sleeps = 0
        self.busy = 0.0  # how much of the time sending takes
        self.not_before = 0.0  # 0: at once

    def together(self) -> int:
        """How many packets are waited for, to leave back to back."""
        pause_s = max(PAUSE_S, 2 * self.late_s if self.sleeps > LEARNING else 0.0)
        return max(self.burst, ceil(self.per_s * pause_s))

    def packets_now(self, together: int, due: int) -> int:
        """How many of the packets that are ``due`` leave now."""
        if self.busy >= HURRY or due > max(together, self.per_s * LATE_S):
            return due
        return min(due, together if self.busy < GAP else max(together, ceil(self.per_s * RUN_S)))

    def slept(self, late_s: float) -> None:
        """Note that a sleep ended ``late_s`` too late."""
        self.sleeps += 1
        self.late_s = min(self.late_s, late_s)

    def note_burst(self, packets: int, took_s: float, ended: float, together: int) -> None:
        """Note a burst that has left: its packets, how long that took, and when it ended."""
        self.bursts += 1
        self.packet_s = min(self.packet_s, took_s / max(1, packets))
        self.busy = self.per_s * self.packet_s if self.bursts > LEARNING else 0.0
        gap_s = max(SHORTEST_S, together * (GAP - self.busy) / self.per_s)
        self.not_before = ended + gap_s if self.busy < HURRY else 0.0


def send_paced(trial: dict[str, Any], sending: Segments | Messages | Stamped, flows: int) -> dict[str, Any]:
    """Send at the trial's rate. Raises OSError where the kernel refuses for more than a moment."""
    per_s, seconds = trial["per_s"], trial["seconds"]
    total = max(1, round(per_s * seconds))
    behind = int(max(trial["burst"], BATCH, per_s * BEHIND_S))
    pace = Pace(per_s, trial["burst"])
    sent = forgotten = wakes = longest = flow = resumed_at = 0
    gave_up: list[list[float]] = []
    clock = time.monotonic
    start = clock()
    while sent + forgotten < total:
        now = clock() - start
        done = sent + forgotten
        due = min(total, int(now * per_s) + 1) - done
        if due > behind:
            if not gave_up or now // TOGETHER_S > gave_up[-1][0] // TOGETHER_S:
                gave_up.append([now, 0])
            gave_up[-1] = [now, gave_up[-1][1] + due - behind]
            forgotten, due = forgotten + due - behind, behind
            if now >= seconds:
                break
        burst = min(total - done, behind, pace.together())
        early = now < pace.not_before or due < burst
        if early or pace.not_before:  # the gap after the last burst is there, or will be
            wakes, longest, resumed_at = wakes + (sent > resumed_at), max(longest, sent - resumed_at), sent
        if early:
            wake = max(now, pace.not_before, (done + burst - 1) / per_s)
            time.sleep(wake - now)
            pace.slept(clock() - start - wake)
            continue
        first, left = sent, pace.packets_now(burst, due)
        while left > 0:
            gone = handed_over(sending, flow, sent, min(left, trial["burst"] if flows > 1 else left))
            if gone is None:
                break
            sent, left = sent + gone, left - gone
            flow = (flow + 1) % flows
            if clock() - start > seconds + BEHIND_S:
                break
        ended = clock() - start
        pace.note_burst(sent - first, ended - now, ended, burst)
    return {
        "sent": sent,
        "seconds": max(seconds, clock() - start),
        "wakes": wakes + (sent > resumed_at),
        "longest": max(longest, sent - resumed_at),
        "by": sending.by,
        "forgotten": gave_up,
    }


def handed_over(sending: Segments | Messages | Stamped, flow: int, first: int, count: int) -> int | None:
    """How many datagrams the kernel took; None where its queue is full. Raises OSError where it refuses for more than a
    moment."""
    try:
        return sending.send(flow, first, count)
    except OSError as error:
        if error.errno not in PASSING:
            raise
        return None if error.errno == errno.ENOBUFS else 0


def run_on_cores(trial: dict[str, Any]) -> dict[str, Any]:
    """Run one trial by a process on each of the trial's cores, as long as each has a flow."""
    trial = USUAL | trial
    cores = trial["cores"][: trial["flows"]]
    if not cores:
        return attempt({**trial, "flow_numbers": range(trial["flows"])}) | {"processes": 1}
    pipes, children = [], []
    for index, core in enumerate(cores):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with suppress(OSError):  # a core that this machine has taken away meanwhile
                    os.sched_setaffinity(0, {core})
                numbers = range(index, trial["flows"], len(cores))
                per_s = trial["per_s"] * len(numbers) / trial["flows"]  # each flow has the same, however many are here
                result = attempt({**trial, "per_s": per_s, "flow_numbers": numbers})
                os.write(writing, json.dumps(result).encode())
            finally:
                os._exit(0)
        os.close(writing)
        pipes.append(reading)
        children.append(child)
    results: list[dict[str, Any]] = []
    for reading, child in zip(pipes, children, strict=True):
        with os.fdopen(reading) as file:
            results.append(json.loads(file.read()))
        os.waitpid(child, 0)
    if failed := [result for result in results if "error" in result]:
        return failed[0]
    sums = {name: sum(result[name] for result in results) for name in ("sent", "bytes", "wakes")}
    most = {name: max(result[name] for result in results) for name in ("seconds", "longest", "by")}
    gave_up = sorted(entry for result in results for entry in result["forgotten"])
    return sums | most | {"processes": len(cores), "forgotten": gave_up}


def attempt(trial: dict[str, Any]) -> dict[str, Any]:
    """The trial's result, or the error that ended it."""
    try:
        return run(trial)
    except OSError as error:
        return {"error": f"{error.strerror}, errno {error.errno}"}


if __name__ == "__main__":
    with suppress(PermissionError):
        os.nice(-15)  # where CPU is short, it should be short for what is measured, and not for the instrument
    libc.prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    gc.disable()
    with suppress(ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if sys.argv[1:]:
        print(json.dumps(run_on_cores(json.loads(sys.argv[1]))), flush=True)
        sys.exit()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(run_on_cores(json.loads(line))), flush=True)
