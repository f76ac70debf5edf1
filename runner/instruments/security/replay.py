"""Replay: packets that were valid once come again. The far host must get each message once.

In UDP, ESP and the like the captured packet is sent a second time at once, and a third time after others have gone by
(RFC 4303 §3.4.3). In TCP, where the kernel drops segments that it has, the attacker puts the bytes into the
stream once more, with numbers to fit, so that the VPN sees them. Control: the first was accepted and delivered; the
copies arrived at the far gateway, in TCP acknowledged by it.
"""

from runner.instruments.security.vantage import ProbeOutcome, Vantage, inconclusive, message, speaker_on
from runner.lab.node.iproute import interface

MESSAGES = 8
OTHERS = 70  # more than the 64 packets of the smallest usual window


def replay(at: Vantage) -> ProbeOutcome:
    """Is a message delivered again when its packets come again? It must not be."""
    return in_a_stream(at) if at.stream_outside else in_datagrams(at)


def in_datagrams(at: Vantage) -> ProbeOutcome:
    """The probe where each packet stands for itself (UDP, ESP): each comes twice at once, and a third time later."""
    messages = [message() for _ in range(MESSAGES)]
    at.interfere("repeat", len(messages[0]))
    for each in messages:
        at.speak(each)
        at.count([each])
    copies = [bytes.fromhex(frame) for frame in at.interfere("pass")["sent"]]
    others = [message(32) for _ in range(OTHERS)]
    for each in others:
        at.speak(each)
    at.count(others)
    with speaker_on(at.lab.wan) as attacker:
        for copy in copies:
            attacker.say(raw=copy.hex(), on=interface(at.lab.wan, at.lab.sites[-1].name))
    # The original, the copy of the relay, and the late one: the tap must have seen three of each.
    delivered = at.final_counts(messages)
    arrived = at.count_arrivals(copies * 3)
    control = f"all messages were delivered, and {2 * len(copies)} copies arrived at the far gateway"
    return replay_outcome(delivered, len(copies), len(copies) >= len(messages) and arrived == 3 * len(copies), control)


def in_a_stream(at: Vantage) -> ProbeOutcome:
    """The probe where the VPN is in TCP: the bytes come once more in the stream, with numbers that fit."""
    payload = message()
    at.interfere("record", len(payload))
    at.speak(payload)
    at.count([payload])  # before the copy comes: a daemon that gives up may take with it what it has not passed on
    at.interfere("insert")
    delivered = at.final_counts([payload])
    made = at.interfere("pass")
    control = "the message was delivered, and the far gateway's TCP acknowledged the repeated bytes"
    return replay_outcome(delivered, len(made["sent"]), bool(made["acknowledged"]), control)


def replay_outcome(delivered: list[int], copies: int, reached: bool, control: str) -> ProbeOutcome:
    """The outcome, from how often each message was delivered, and whether the copies were seen to arrive."""
    detail = {"messages": len(delivered), "copies": copies, "delivered": delivered}
    if max(delivered) > 1:
        again = sum(count > 1 for count in delivered)
        return ProbeOutcome("fail", f"{again} of {len(delivered)} messages were delivered again", control, detail)
    if min(delivered) == 0:
        return inconclusive("a message was not delivered even once", detail)
    if not reached:
        return inconclusive(f"{copies} copies were made and not all seen to arrive", detail)
    return ProbeOutcome("pass", "every message was delivered once", control, detail)
