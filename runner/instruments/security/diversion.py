"""Diversion: an attacker sends the far gateway packets from an address of his own, to have its answers go there.

They are captured packets as they were; and altered ones: with a flipped bit, or captured beginnings before random
bytes, as stranger.py makes them. A peer may move, but only a packet that is authentic and newer than all before may
say so (RFC 9146 §6, of DTLS). After each kind the far host answers, at once and when its gateway has had time to look
at them all: what its gateway sends must not go to the third address. A packet of the true peer may end a diversion, so
the first kind, of one packet, is tried more than once.
Controls: without the attacker the answers leave for the peer; all of the attacker's packets arrived at the far gateway;
what the gateway sends to the third address on purpose is seen to go there.
"""

import time
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any

from runner.instruments.security.stranger import KEPT, STRANGER, TCP, beginnings, build_frame, unused_address
from runner.instruments.security.vantage import (
    ETHERNET_BYTES,
    MESSAGE_BYTES,
    PORT,
    Frame,
    ProbeOutcome,
    Vantage,
    inconclusive,
    message,
    speaker_on,
)
from runner.lab.node import PATIENCE
from runner.lab.node.iproute import interface

ROUNDS = {"as captured": 5, "altered": 1}  # tinc looks at unknown addresses once a second only
HARDWARE = b"\x02\0\0\0\0" + bytes([STRANGER])  # the third party's Ethernet address, locally administered


def diversion(at: Vantage) -> ProbeOutcome:
    """Do the answers follow packets that an attacker sends from an address of his own? They must not."""
    messages = [message(), message()]
    for each in messages:
        at.speak(each)
        at.count([each])
    at.look()
    samples = [frame for frame in at.outer() if frame.packet_bytes >= MESSAGE_BYTES]
    if len(samples) < 2:
        return inconclusive("no packets of the tunnel were captured to forge others from")
    forged = forgeries(samples[-2], samples[-1])
    at.answer(message())
    undisturbed = len(sent_frames(at, third=False))
    far, gateway = at.lab.sites[-1], at.lab.gateway(at.lab.sites[-1])
    third = str(ip_address(unused_address(ip_address(far.wan_address).packed)))
    known = ("to", third, "lladdr", HARDWARE.hex(":"), "dev", interface(gateway, far.wan_interface))
    port = interface(at.lab.wan, far.name)
    gateway.run("ip", "neigh", "replace", *known, "nud", "permanent")  # in place of his answer to ARP
    tried: list[bytes] = []
    diverted: dict[str, int] = {}
    shown = message()
    try:
        with speaker_on(at.lab.wan) as attacker, speaker_on(gateway) as helper:
            for kind, frames in forged.items():
                before = len(sent_frames(at, third=True, within_s=0))
                for _ in range(ROUNDS[kind]):
                    at.speak(genuine := message(32))  # ends what the round before may have done
                    at.count([genuine])
                    for frame in frames:
                        attacker.say(raw=frame.hex(), on=port)
                    tried += frames
                    arrived = await_arrival(at, tried)
                    at.answer(message())
                    at.await_rest()
                    at.answer(message())
                at.await_rest()
                diverted[kind] = len(sent_frames(at, third=True, within_s=0)) - before
            helper.say(udp=shown.hex(), to=[third, PORT])
            seen = any(shown in frame.data for frame in sent_frames(at, third=True, awaited=shown))
    finally:
        gateway.run("ip", "neigh", "del", *known, check=False)
    answers = 2 * sum(ROUNDS[kind] for kind in forged)
    detail = {"forged": len(tried), "arrived": arrived, "answers": answers, "diverted": diverted}
    return diversion_outcome(diverted, answers, bool(undisturbed), arrived == len(tried), seen, detail)


def diversion_outcome(
    diverted: Mapping[str, int], answers: int, undisturbed: bool, reached: bool, seen: bool, detail: dict[str, Any]
) -> ProbeOutcome:
    """The outcome, from the number of answers diverted after each kind of packet, and from the controls."""
    control = "all packets arrived at the far gateway; what it sends to the third address on purpose is seen"
    if any(diverted.values()):
        astray = " and ".join(f"{count} after packets {kind}" for kind, count in diverted.items() if count)
        return ProbeOutcome(
            "fail", f"of {answers} answers some went to somebody without a key: {astray}", control, detail
        )
    if not undisturbed:
        return inconclusive("no answer of the far host left its gateway undisturbed either", detail)
    if not reached:
        return inconclusive("not all of the third party's packets arrived", detail)
    if not seen:
        return inconclusive("what the gateway sends to the third address is not seen", detail)
    return ProbeOutcome("pass", f"none of {answers} answers went to the third address", control, detail)


def sent_frames(at: Vantage, third: bool, awaited: bytes = b"", within_s: float = 1.0) -> list[Frame]:
    """The frames, as long as an answer or longer, that the far gateway's WAN port has sent: to the ``third`` party, or
    to others. Returns as soon as a frame contains ``awaited``, or after ``within_s``."""
    end = time.monotonic() + within_s * PATIENCE
    while True:
        at.look()
        frames = [
            frame
            for frame in at.captured["far"]
            if frame.way == "out" and len(frame.data) > MESSAGE_BYTES and (frame.data[:6] == HARDWARE) == third
        ]
        if any(awaited in frame.data for frame in frames) or time.monotonic() > end:
            return frames
        time.sleep(0.02)


def await_arrival(at: Vantage, frames: list[bytes]) -> int:
    """Wait up to two seconds until all frames have arrived at the far gateway; how many have."""
    end = time.monotonic() + 2.0 * PATIENCE
    while (arrived := at.count_arrivals(frames)) < len(frames) and time.monotonic() < end:
        time.sleep(0.02)
    return arrived


def forgeries(earlier: Frame, sample: Frame) -> dict[str, list[bytes]]:
    """Kind -> the frames that the third party sends of it, made of two captured packets. Of TCP the captured one alone:
    the kernel knows a connection by its addresses (RFC 9293 §3.10.7.1), whatever the segment contains."""
    if not sample.is_macsec and sample.protocol == TCP:
        return {"as captured": [readdress(sample)]}
    payload = sample.payload
    places = (len(payload) // 2, len(payload) - 1)
    flipped = [payload[:place] + bytes([payload[place] ^ 0x40]) + payload[place + 1 :] for place in places]
    begun = [each + message(len(payload) - len(each)) for each in beginnings(earlier.payload, payload)]
    contents = {"as captured": [payload], "altered": [*flipped, *begun, payload[: KEPT[0]]]}
    return {kind: [from_the_third(sample, content) for content in those] for kind, those in contents.items()}


def from_the_third(sample: Frame, content: bytes) -> bytes:
    """A frame like ``sample``, from the third address, with ``content``."""
    ethernet = sample.data[:6] + HARDWARE + sample.data[12:ETHERNET_BYTES]
    if sample.is_macsec:
        return ethernet + content
    header, (source, destination) = sample.data[sample.upper_at : sample.payload_at], sample.ends
    return build_frame(ethernet, sample.protocol, unused_address(source), destination, header + content)


def readdress(segment: Frame) -> bytes:
    """A TCP segment from the third address, its checksum brought up to date (RFC 1624 §3)."""
    source, destination = segment.ends
    content = segment.data[segment.upper_at : ETHERNET_BYTES + segment.packet_bytes]
    total = ~int.from_bytes(content[16:18], "big") & 0xFFFF
    for old, new in zip(words(source), words(unused_address(source)), strict=True):
        total += (~old & 0xFFFF) + new
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    content = content[:16] + (~total & 0xFFFF).to_bytes(2, "big") + content[18:]
    ethernet = segment.data[:6] + HARDWARE + segment.data[12:ETHERNET_BYTES]
    return build_frame(ethernet, TCP, unused_address(source), destination, content)


def words(address: bytes) -> list[int]:
    """The 16-bit words of an address, in the order in which a checksum adds them."""
    return [int.from_bytes(address[at : at + 2], "big") for at in range(0, len(address), 2)]
