"""The attacker's place on the WAN, between the gateways: it sees, holds, changes, repeats and makes packets.

    host1 ──── gw1 ════ near │ relay │ far ════ gw2 ──── host2
    speaker            tap                 tap         witness

A relay program takes the place of the WAN node's bridge. The hosts behind the gateways send and receive.
"""

from __future__ import annotations

import json
import re
import secrets
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from runner.data.errors import MeasurementError
from runner.data.files import open_file, write_text
from runner.instruments.tools.between import Talker, talking, wan_relay
from runner.instruments.tools.counters import Counters, counter_increases, counters
from runner.lab.node import PATIENCE, LabNode
from runner.lab.node.iproute import interface
from runner.lab.node.logs import settle
from runner.lab.shape.site import TCP_PORTS
from runner.lab.shape.site_to_site import Lab
from runner.vpn.plugin import Vpn

PORT = TCP_PORTS[2]
MESSAGE_BYTES = 600
ETHERNET_BYTES = 14
SETTLE_S = 0.25  # and a round trip: how long is waited in the end before something counts as not delivered
EVIDENCE_FRAMES = 500
IPV4, IPV6, IPV6_BYTES = b"\x08\x00", b"\x86\xdd", 40  # EtherTypes, and IPv6's header (RFC 8200 §3)
OF_THE_NETWORK = (0, 58)  # the header before IPv6's reports on groups (RFC 3810 §5), and ICMPv6
MACSEC = b"\x88\xe5"  # IEEE 802.1AE: a tunnel without IP
EXPERIMENTAL = b"\x88\xb5"  # EtherType for experiments (IEEE 802), which no gateway's IP looks at

Result = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class ProbeOutcome:
    """The result of a probe. ``control``: what showed that the probe would have seen a failure."""

    result: Result
    reason: str
    control: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


def inconclusive(reason: str, detail: dict[str, Any] | None = None) -> ProbeOutcome:
    """The outcome of a probe that tells nothing, for this reason."""
    return ProbeOutcome("inconclusive", reason, detail=detail or {})


@dataclass(frozen=True)
class Frame:
    """An Ethernet frame that a tap has seen; ``way`` as the interface sees it."""

    time: float
    way: str
    data: bytes

    @property
    def is_ip(self) -> bool:
        """Is it IP, by its EtherType? ICMPv6, which is in ARP's place, and its reports on groups do not count."""
        return self.data[12:14] == IPV4 or (self.is_ipv6 and self.protocol not in OF_THE_NETWORK)

    @property
    def is_ipv6(self) -> bool:
        """Is it IPv6, by its EtherType?"""
        return self.data[12:14] == IPV6

    @property
    def is_macsec(self) -> bool:
        """Is it MACsec, by its EtherType?"""
        return self.data[12:14] == MACSEC

    @property
    def packet_bytes(self) -> int:
        """The length of the IP packet (RFC 791 §3.1, RFC 8200 §3), or of what MACsec has behind its EtherType."""
        if self.is_macsec:
            return len(self.data) - ETHERNET_BYTES
        return IPV6_BYTES + self._word(4) if self.is_ipv6 else self._word(2)

    def _word(self, at: int) -> int:
        return int.from_bytes(self.data[ETHERNET_BYTES + at : ETHERNET_BYTES + at + 2], "big")

    @property
    def protocol(self) -> int:
        """The protocol number in its IP header."""
        return self.data[ETHERNET_BYTES + (6 if self.is_ipv6 else 9)]

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """Source and destination in its IP header."""
        first, length = (8, 16) if self.is_ipv6 else (12, 4)
        at = ETHERNET_BYTES + first
        return self.data[at : at + length], self.data[at + length : at + 2 * length]

    @property
    def upper_at(self) -> int:
        """Where the payload of IP begins; of MACsec, its tag."""
        if self.is_macsec:
            return ETHERNET_BYTES
        return ETHERNET_BYTES + (IPV6_BYTES if self.is_ipv6 else (self.data[ETHERNET_BYTES] & 15) * 4)

    @property
    def payload_at(self) -> int:
        """Where the payload of UDP, TCP or another protocol of IP begins; of MACsec, its tag."""
        upper = self.upper_at
        if self.is_macsec:
            return upper
        if self.protocol == 6:
            return upper + (self.data[upper + 12] >> 4) * 4
        return upper + (8 if self.protocol == 17 else 0)

    @property
    def payload(self) -> bytes:
        """What is from ``payload_at`` on, without the padding of a short frame."""
        return self.data[self.payload_at : ETHERNET_BYTES + self.packet_bytes]


@dataclass
class Vantage:
    """The relay, the taps and the hosts' ends. ``captured`` is what both taps have seen since ``begin``."""

    lab: Lab
    vpn: Vpn
    address: str
    speaker: Talker
    witness: Talker
    relay: Talker
    taps: dict[str, Talker]
    captured: dict[str, list[Frame]] = field(default_factory=lambda: {"near": [], "far": []})
    said: list[bytes] = field(default_factory=list)
    _earlier: tuple[int, int] = (0, 0)  # datagrams and streams that the witness had when the probe began
    _logged: dict[Path, int] = field(default_factory=dict)
    _counted: dict[str, Counters] = field(default_factory=dict)
    _began: float = 0.0

    @property
    def stream_outside(self) -> bool:
        """Does the tunnel travel in TCP?"""
        return self.vpn.transport == "tcp"

    def begin(self) -> None:
        """Begin a new probe: forget what was sent and seen; open a connection where only TCP is carried."""
        self._began = time.monotonic()
        self.interfere("pass")
        self.look()
        self.captured = {"near": [], "far": []}
        self.said = []
        heard = self.witness.say()
        self._earlier = len(heard["datagrams"]), len(heard["streams"])
        self._logged = log_sizes(self.lab.wan.logs)
        self._counted = {site.name: counters(self.lab.gateway(site)) for site in self.lab.sites}
        if self.vpn.carries == "tcp":
            self.connect()

    def connect(self) -> None:
        """Open the TCP connection that the messages will go through. Raises MeasurementError."""
        if error := self.speaker.say(connect=[self.address, PORT]).get("error"):
            raise MeasurementError(f"the near host cannot connect through the tunnel: {error}")
        self.said = []

    def interfere(self, what: str, least: int = 0) -> dict[str, Any]:
        """Make the relay do ``what`` from now on (see runner/lab/probes/relay.py). Returns what it has made so far."""
        return self.relay.say(do=what, least=least)

    def speak(self, message: bytes) -> None:
        """The near host sends ``message`` to the far one, in one datagram or at one go."""
        self.said.append(message)
        if self.vpn.carries == "tcp":
            self.speaker.say(tcp=message.hex())  # an error shows by what is not delivered
        else:
            self.speaker.say(udp=message.hex(), to=[self.address, PORT])

    def answer(self, message: bytes) -> None:
        """The far host sends ``message`` to the near one: to where its last datagram came from, or in its stream."""
        self.witness.say(answer=message.hex())

    def look(self) -> None:
        """Take over what the taps have seen."""
        for name, tap in self.taps.items():
            answer = tap.say()
            if answer["lost"]:
                raise MeasurementError(f"the tap {name} lost {answer['lost']} frames")
            self.captured[name] += [Frame(when, way, bytes.fromhex(data)) for when, way, data in answer["frames"]]

    def heard(self) -> tuple[list[bytes], list[bytes]]:
        """The datagrams and the streams that the far host has got since ``begin``."""
        heard = self.witness.say()
        datagrams, streams = self._earlier
        return (
            [bytes.fromhex(data) for _, data in heard["datagrams"][datagrams:]],
            [bytes.fromhex(data) for data in heard["streams"][streams:]],
        )

    def count(self, messages: list[bytes], at_least: int = 1, within_s: float = 2.0) -> list[int]:
        """How often each message was delivered, as soon as each was ``at_least`` times, or after ``within_s``."""
        end = time.monotonic() + within_s * PATIENCE
        while True:
            datagrams, streams = self.heard()
            counts = [datagrams.count(each) + sum(stream.count(each) for stream in streams) for each in messages]
            if min(counts, default=at_least) >= at_least or time.monotonic() > end:
                return counts
            time.sleep(0.02)

    def final_counts(self, messages: list[bytes]) -> list[int]:
        """How often each message was delivered, after waiting for what may still come. A last message follows them:
        when it has arrived, a busy gateway has done with them. Where the tunnel is broken, the wait is one second."""
        last = message(32)
        self.speak(last)
        self.count([last], within_s=1.0)
        self.await_rest()
        return self.count(messages, 0)

    def await_rest(self) -> None:
        """Wait for what may still be on its way."""
        time.sleep(SETTLE_S * PATIENCE + self.lab.rtt_s)

    def foreign(self) -> list[bytes]:
        """What the far host got that was never sent: datagrams, and a stream that differs from what was sent."""
        datagrams, streams = self.heard()
        stream = streams[-1] if streams and self.vpn.carries == "tcp" else b""
        altered = [] if b"".join(self.said).startswith(stream) else [stream]
        return [data for data in datagrams if data not in self.said] + altered

    def count_arrivals(self, frames: list[bytes]) -> int:
        """How many of these frames the far gateway's WAN port has received, by their IP payload."""
        self.look()
        received = (frame for frame in self.captured["far"] if frame.way == "in")
        seen = [frame.data[frame.upper_at :].rstrip(b"\0") for frame in received if frame.is_ip or frame.is_macsec]
        missing = 0
        for data in frames:
            payload = data[Frame(0.0, "in", data).upper_at :].rstrip(b"\0")
            if payload in seen:
                seen.remove(payload)
            else:
                missing += 1
        return len(frames) - missing

    def outer(self) -> list[Frame]:
        """The IP and MACsec frames that the near gateway has sent since ``begin``."""
        return [frame for frame in self.captured["near"] if frame.way == "in" and (frame.is_ip or frame.is_macsec)]

    def visible(self, marker: bytes, within: list[Frame] | None = None) -> bool:
        """Was any 32-byte part of ``marker`` in the clear at the near tap?"""
        frames = self.captured["near"] if within is None else within
        parts = [marker[at : at + 32] for at in range(0, len(marker) - 31, 32)]
        return any(part in frame.data for frame in frames for part in parts)

    def appears(self, marker: bytes, *, outer: bool = False, within_s: float = 1.0) -> bool:
        """Is ``marker`` in the clear at the near tap, or in one of its ``outer`` frames, before the time is over?

        For controls: what was sent a moment ago may still be on its way through the relay.
        """
        end = time.monotonic() + within_s * PATIENCE
        while True:
            self.look()
            if self.visible(marker, self.outer() if outer else None):
                return True
            if time.monotonic() > end:
                return False
            time.sleep(0.02)

    def took_s(self) -> float:
        """Seconds since ``begin``."""
        return round(time.monotonic() - self._began, 2)

    def evidence(self, name: str) -> list[str]:
        """Write the capture, what the gateways' kernels have counted and their new log lines into the trial's folder;
        the files' names."""
        with_frames = self.lab.wan.logs / f"security-{name}.pcap"
        frames = sorted((frame for seen in self.captured.values() for frame in seen), key=lambda frame: frame.time)
        write_pcap(with_frames, frames[:EVIDENCE_FRAMES])
        counted = {
            site.name: counter_increases(self._counted.get(site.name, {}), counters(self.lab.gateway(site)))
            for site in self.lab.sites
        }
        with_counters = self.lab.wan.logs / f"security-{name}.json"
        write_text(with_counters, json.dumps({"counted_by_the_kernel": counted}, indent=1) + "\n")
        with_lines = self.lab.wan.logs / f"security-{name}.log"
        write_lines(with_lines, self._logged)
        return [with_frames.name, with_counters.name, with_lines.name]


@contextmanager
def vantage(lab: Lab, vpn: Vpn, address: str) -> Iterator[Vantage]:
    """Take the place between the gateways of ``lab``, in which ``vpn`` is up; afterwards the bridge is there again.

    Raises MeasurementError where the lab has no WAN node, or a program of the probes cannot start.
    """
    wan, far_gateway = lab.wan, lab.gateway(lab.sites[-1])
    with wan_relay(lab) as relay, ExitStack() as stack:
        start = [
            (wan, "tap", [interface(wan, lab.sites[0].name)], "tapping"),
            (far_gateway, "tap", [interface(far_gateway, lab.sites[-1].wan_interface)], "tapping"),
            (lab.host1, "speak", [], "speaking"),
            (lab.host2, "witness", [str(PORT)], "listening"),
        ]
        talkers = [stack.enter_context(talking(node, name, *argv, ready=ready)) for node, name, argv, ready in start]
        near, far, speaker, witness = talkers
        yield Vantage(lab, vpn, address, speaker, witness, relay, {"near": near, "far": far})


@contextmanager
def speaker_on(node: LabNode) -> Iterator[Talker]:
    """The program speak.py on another node."""
    with talking(node, "speak", ready="speaking") as talker:
        yield talker


def message(length: int = MESSAGE_BYTES) -> bytes:
    """Random bytes, which no compression shrinks and nothing else on the wire equals."""
    return secrets.token_bytes(length)


def hardware(node: LabNode, port: str) -> bytes:
    """The Ethernet address of a node's interface."""
    shown = node.run("ip", "-o", "link", "show", "dev", port).stdout
    match = re.search(r"link/ether (\S+)", shown)
    if match is None:
        raise MeasurementError(f"{port} of {node.name} has no Ethernet address")
    return bytes.fromhex(match[1].replace(":", ""))


def clear_frame(content: bytes) -> bytes:
    """A broadcast frame with ``content`` in the clear, for the controls."""
    return b"\xff" * 6 + b"\x02" + b"\0" * 5 + EXPERIMENTAL + content


def log_sizes(logs: Path) -> dict[Path, int]:
    """How much the gateways' daemons have logged so far (bytes)."""
    settle()
    return {path: path.stat().st_size for path in logs.glob("gw*.log")}


def write_lines(target: Path, before: dict[Path, int]) -> None:
    """What the gateways' daemons have logged since ``log_sizes`` was ``before``, into a file beside their logs."""
    settle()
    lines = [
        f"{path.name}: {line}"
        for path in sorted(target.parent.glob("gw*.log"))
        for line in path.read_bytes()[before.get(path, 0) :].decode(errors="replace").splitlines()
    ]
    write_text(target, "\n".join(lines) + "\n" if lines else "(the gateways' daemons have logged nothing)\n")


def write_pcap(path: Path, frames: list[Frame]) -> None:
    """draft-ietf-opsawg-pcap, link type Ethernet."""
    with open_file(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 70000, 1))
        for frame in frames:
            second, fraction = divmod(frame.time, 1)
            length = len(frame.data)
            file.write(struct.pack("<IIII", int(second), int(fraction * 1e6), length, length) + frame.data)
