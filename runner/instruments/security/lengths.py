"""Traffic analysis: do lengths on the WAN tell the lengths of what is inside, or, by compression, its content?

Control: the tap reads the lengths of clear frames right, and every message was delivered.
"""

from __future__ import annotations

import random
import time

import numpy as np

from runner.instruments.security.vantage import ProbeOutcome, Vantage, clear_frame, inconclusive, message, speaker_on
from runner.lab.node import PATIENCE
from runner.lab.node.iproute import interface

LENGTHS = (64, 128, 200, 300, 400, 520, 640, 760, 880, 1000, 1100, 1150)  # bytes of payload
EACH = 3
FOLLOWS = 0.5  # from this correlation on, lengths are visible
SHORTER = 0.05  # a share of the length; by more, compression tells what is inside


def lengths(at: Vantage) -> ProbeOutcome:
    """Pearson's correlation of inner and outer lengths, one message at a time on the idle tunnel."""
    if not (reads := control(at)):
        return inconclusive("the tap misread the lengths of clear frames")
    order = [length for length in LENGTHS for _ in range(EACH)]
    random.Random(0).shuffle(order)
    messages = [message(length) for length in order]
    outer = [outer_bytes(at, each) for each in messages]
    if missing := sum(count == 0 for count in at.count(messages)):
        return inconclusive(f"{missing} of {len(messages)} messages were not delivered")
    if not all(outer):
        return inconclusive("the tap saw nothing of a message that was delivered")
    follows = float(np.corrcoef(order, outer)[0, 1]) if min(outer) < max(outer) else 0.0
    medians = {
        length: float(np.median([o for i, o in zip(order, outer, strict=True) if i == length])) for length in LENGTHS
    }
    detail = {
        "correlation": round(follows, 4),
        "inner_to_outer_bytes": {str(length): value for length, value in medians.items()},
        "lengths_told_apart": len(set(medians.values())),
    }
    if follows < FOLLOWS:
        return ProbeOutcome("pass", f"outer lengths do not follow the inner ones (r = {follows:.2f})", reads, detail)
    reason = f"{len(set(medians.values()))} of {len(LENGTHS)} lengths are told apart on the WAN (r = {follows:.3f})"
    return ProbeOutcome("fail", reason, reads, detail)


def content(at: Vantage) -> ProbeOutcome:
    """Messages of one length, random and repetitive: where the latter are shorter on the WAN, content leaks by length
    (as in CRIME, CVE-2012-4929, and VORACLE against compressing VPNs)."""
    if not (reads := control(at)):
        return inconclusive("the tap misread the lengths of clear frames")
    plain = [message(1000) for _ in range(5)]
    monotone = [message(16) + b"A" * 984 for _ in range(5)]
    outer = [outer_bytes(at, each) for each in (*plain, *monotone)]
    if missing := sum(count == 0 for count in at.count([*plain, *monotone])):
        return inconclusive(f"{missing} of 10 messages were not delivered")
    of_plain, of_monotone = float(np.median(outer[:5])), float(np.median(outer[5:]))
    detail = {"outer_bytes_random": of_plain, "outer_bytes_repetitive": of_monotone}
    if of_plain - of_monotone > SHORTER * 1000:
        less = f"repetitive content is {of_plain - of_monotone:.0f} bytes shorter on the WAN than random content"
        return ProbeOutcome("fail", less, reads, detail)
    return ProbeOutcome("pass", "the length on the WAN does not depend on the content", reads, detail)


def control(at: Vantage) -> str:
    """Check that the tap reads the lengths of two clear frames right. Returns what it read, in words; "" if wrong."""
    site = at.lab.sites[0]
    gateway = at.lab.gateway(site)
    sizes = (300, 900)
    markers = [message(size) for size in sizes]
    with speaker_on(gateway) as speaker:
        for each in markers:
            speaker.say(raw=clear_frame(each).hex(), on=interface(gateway, site.wan_interface))
    if not all(at.appears(each) for each in markers):
        return ""
    seen = [len(frame.data) for each in markers for frame in at.captured["near"] if each in frame.data]
    right = seen == [14 + size for size in sizes]
    return f"the tap read clear frames of {' and '.join(map(str, seen))} bytes right" if right else ""


def outer_bytes(at: Vantage, data: bytes) -> int:
    """Send ``data``, and add up the bytes of the packets that leave the near gateway until no more come."""
    at.look()
    before, before_outer = len(at.captured["near"]), len(at.outer())
    at.speak(data)
    end = time.monotonic() + 0.5 * PATIENCE
    while time.monotonic() < end:
        time.sleep(0.006)
        known = len(at.captured["near"])
        at.look()
        if len(at.captured["near"]) == known > before:
            break
    return sum(frame.packet_bytes for frame in at.outer()[before_outer:] if frame.payload)
