"""Tampering: a bit of each outer packet's payload is flipped on the way, and its checksums are made anew.

The far host must get nothing that was not sent. The datagrams inside have no checksum of their own (RFC 768), so that
only the VPN can notice. Control: packets whose checksums were made anew in the same way, without a flip, are delivered;
the flipped ones arrived at the far gateway, and its UDP and TCP found no fault with them.
"""

import time

from runner.instruments.security.vantage import ProbeOutcome, Vantage, inconclusive, message
from runner.instruments.tools.counters import read_counter
from runner.lab.node import PATIENCE, LabNode

FLIPS = 12


def tampering(at: Vantage) -> ProbeOutcome:
    """Is a message delivered of which a bit was flipped on the WAN? It must not be."""
    gateway = at.lab.gateway(at.lab.sites[-1])
    untouched = [message() for _ in range(3)]
    at.interfere("touch", len(untouched[0]))
    for each in untouched:
        at.speak(each)
    if not all(at.count(untouched)):
        return inconclusive("packets with checksums made anew are not delivered: neither would changed ones be")
    before = bad_checksums(gateway)
    at.interfere("flip", len(untouched[0]))
    changed = [message() for _ in range(1 if at.stream_outside else FLIPS)]
    for each in changed:
        at.speak(each)
    frames: list[bytes] = []
    end = time.monotonic() + 2.0 * PATIENCE
    while len(frames) < len(changed) and time.monotonic() < end:
        time.sleep(0.02)
        frames += [bytes.fromhex(frame) for frame in at.interfere("flip", len(untouched[0]))["sent"]]
    frames += [bytes.fromhex(frame) for frame in at.interfere("pass")["sent"]]
    intact = sum(at.final_counts(changed))
    foreign = at.foreign()
    arrived = at.count_arrivals(frames)
    wrong = bad_checksums(gateway) - before
    detail = {
        "flipped": len(frames),
        "arrived": arrived,
        "checksum_errors": wrong,
        "delivered_altered": len(foreign),
        "delivered_intact": intact,
    }
    control = f"packets with new checksums were delivered, and {arrived} flipped ones arrived at the far gateway"
    if foreign:
        return ProbeOutcome("fail", f"{len(foreign)} altered messages were delivered", control, detail)
    if not frames or arrived < len(frames):
        return inconclusive(f"{arrived} of {len(frames)} flipped packets arrived", detail)
    if wrong:
        return inconclusive(f"the kernel refused {wrong} packets before the VPN saw them", detail)
    note = f"; {intact} were delivered as they had been said" if intact else ""
    return ProbeOutcome("pass", f"nothing altered was delivered{note}", control, detail)


def bad_checksums(gateway: LabNode) -> int:
    """How many packets the kernel has refused for their checksum so far."""
    return read_counter(gateway, "Udp", "InCsumErrors") + read_counter(gateway, "Tcp", "InCsumErrors")
