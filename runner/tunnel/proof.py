"""Proof before measure: a random marker goes through the tunnel both ways while the WAN is captured.

Both ends must get it; on the WAN it may be seen only where no confidentiality is promised. There it *must* be
seen, which shows that the capture works: the probe's positive control.
"""

from __future__ import annotations

import secrets
from contextlib import ExitStack
from typing import Any

from runner.data.errors import CommandError, InstrumentError, MeasurementError, ProofError
from runner.data.trials import Proof
from runner.lab import probes
from runner.lab.node import LabNode, Node, Process, wait_until
from runner.lab.node.held import how_it_ended
from runner.lab.node.probing import answer, probe
from runner.lab.shape.site import TCP_PORTS
from runner.lab.shape.site_to_site import Lab

MARKER_BYTES = 1024
ANSWER_PORT = TCP_PORTS[1]
COMPLEMENT = bytes(255 - byte for byte in range(256))
PROTOCOLS = {4: "ipip", 6: "tcp", 17: "udp", 47: "gre", 50: "esp", 51: "ah", 115: "l2tp"}  # IANA
CONNECT_RTTS = 2  # TCP's handshake, a byte and its answer
NO_ANSWER = 3  # ask.py's exit code, as the path's fault
CAPTURES = 3  # a busy machine may let the watcher wait while frames come: that capture proves nothing, the next one may


def prove(lab: Lab, address: str, *, confidential: bool, judged: bool = True) -> Proof:
    """Run the marker experiment from host1 to ``address``.

    Raises ProofError where the tunnel breaks its promise, MeasurementError where the probe itself did not work.
    """
    for _ in range(CAPTURES):
        proof, reports, complaint = send_marker(lab, address, confidential)
        if not proof.delivered and renew_answering(lab):
            raise InstrumentError("the far host's answering probe had died while the marker was on its way")
        lost = sum(report["lost"] for report in reports)
        if not lost or (confidential and proof.marker_on_wan):  # what was seen was there, however much was not
            break
    else:
        raise MeasurementError(
            f"the WAN capture lost frames because they came too fast, {CAPTURES} times, at last {lost} of them, so it "
            "proves nothing"
        )
    if judged or not proof.delivered:
        seen = [any(each) for each in zip(*(report["seen"] for report in reports), strict=True)]
        judge(proof, seen, complaint, next((place for report in reports for place in report["where"] if place), None))
    return proof


def send_marker(
    lab: Lab, address: str, confidential: bool, port: int = ANSWER_PORT
) -> tuple[Proof, list[dict[str, Any]], str]:
    """Send one marker both ways, to the answering probe at ``port``.

    Returns the proof, each watcher's report, and the sender's complaint.
    """
    marker = secrets.token_bytes(MARKER_BYTES)
    both = f"{marker.hex()} {marker.translate(COMPLEMENT).hex()}"
    with ExitStack() as stack:
        watchers = [
            stack.enter_context(probe(node, "watch", *where, ready="watching")) for node, where in watch_points(lab)
        ]
        ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "marker", address, str(port), "5")
        sent = lab.host1.run(*ask, input=marker.hex(), check=False, timeout=15)
        reports = [answer(watch, "watch", both, timeout_s=15) for watch in watchers]
    proof = Proof(
        confidential_promised=confidential,
        delivered=has_answer(lab.host1, sent.code),
        marker_on_wan=any(seen for report in reports for seen in report["seen"]),
        sent_bytes=2 * MARKER_BYTES,
        captured_bytes=sum(report["bytes"] for report in reports),
        captured_on=" and ".join(f"{node.name} {' '.join(where)}" for node, where in watch_points(lab)),
        outer=sorted({PROTOCOLS.get(each, f"protocol {each}") for report in reports for each in report["protocols"]})
        if lab.has_wan  # a port of a machine that has other work, too, tells nothing of the tunnel
        else [],
    )
    return proof, reports, sent.stderr


def start_answering(lab: Lab) -> Process:
    """Start the far host's answering probe."""
    lab.host2.write(f"{probes.FOLDER}/answer.py", probes.source("answer"), mode=0o644)
    return lab.host2.spawn("python3", "-IS", f"{probes.FOLDER}/answer.py", str(ANSWER_PORT), log="answer")


def renew_answering(lab: Lab) -> bool:
    """Where the answering probe does not answer on the far host itself, start another. Returns whether it was needed.

    Where it answers there, and not through the tunnel, the tunnel is to blame. Raises TimeoutError where the new one
    does not listen.
    """
    lab.host2.write(f"{probes.FOLDER}/ask.py", probes.source("ask"), mode=0o644)
    if answers(lab.host2, "127.0.0.1"):
        return False
    lab.host2.run("pkill", "-KILL", "-f", f"answer.py {ANSWER_PORT}", check=False)
    wait_until(lambda: not answering(lab), "the end of the hung answering probe")
    start_answering(lab)
    wait_until(lambda: answering(lab), "a new answering probe listening")
    return True


def answers(host: Node, address: str, rtt_s: float = 0.0) -> bool:
    """Does the far host's answering probe answer ``host`` at this address, within a second and the round trips that a
    connection takes? Raises InstrumentError where the program that asks has died."""
    within_s = 1 + CONNECT_RTTS * rtt_s
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", address, str(ANSWER_PORT), f"{within_s:g}")
    try:
        return has_answer(host, host.run(*ask, check=False, timeout=10 + within_s).code)
    except CommandError as stuck:  # it ends by itself, if nobody stops it
        raise InstrumentError(f"the probe ask does not work: {stuck}") from stuck


def has_answer(host: Node, code: int) -> bool:
    """What ask.py's exit code on ``host`` says: was there an answer? Raises InstrumentError where it has died, which
    says nothing of the path."""
    if code not in (0, NO_ANSWER):
        raise InstrumentError(
            f"the probe ask on {host.name} has died ({how_it_ended(code)}): it says nothing of the path"
        )
    return code == 0


def answering(lab: Lab) -> bool:
    """Does the far host's answering probe listen?"""
    return bool(lab.host2.run("ss", "-Hltn", f"sport = :{ANSWER_PORT}").stdout)


def watch_points(lab: Lab) -> list[tuple[LabNode, tuple[str, ...]]]:
    """Where the WAN is captured, as nodes and arguments of the watcher: on the WAN node, where there is one.

    gw1's cable carries both directions of the WAN; the watcher needs no promiscuous bridge. Without a WAN node:
    what each gateway sends out of its WAN port.
    """
    if lab.has_wan:
        return [(lab.wan, ("gw1",))]
    return [(lab.gateway(site), ("--sent", site.wan_interface)) for site in lab.sites]


def judge(proof: Proof, seen: list[bool], complaint: str = "", where: tuple[int, str] | None = None) -> None:
    """Raise unless the marker experiment came out as promised, and the capture can be believed. ``where``: at which
    byte of a frame the marker was seen, and the frame's beginning as hex."""
    if not proof.delivered:
        raise ProofError(
            f"the marker did not come through the tunnel: {complaint.strip()[-200:] or 'no answer'}", proof
        )
    if proof.captured_bytes < proof.sent_bytes:
        raise MeasurementError(
            f"the WAN capture saw {proof.captured_bytes} of {proof.sent_bytes} sent bytes, so it proves nothing"
        )
    if proof.confidential_promised and proof.marker_on_wan:
        place = f", {describe_packet(*where)}" if where else ""
        raise ProofError(
            f"plaintext on the WAN: the marker was seen although confidentiality is promised{place}", proof
        )
    if not proof.confidential_promised and not all(seen):
        raise MeasurementError("the WAN capture missed a marker that was sent without encryption, so it proves nothing")


def describe_packet(offset: int, head: str) -> str:
    """In which packet the marker was: ``in a packet 10.1.0.2 > 10.2.0.2, UDP 500 > 4500, 42 bytes in``."""
    frame = bytes.fromhex(head)
    if len(frame) < 38 or frame[12:14] != b"\x08\x00":
        return f"{offset} bytes into a frame that begins with {head[:28]}"
    source, destination = (".".join(map(str, frame[at : at + 4])) for at in (26, 30))
    header = 14 + 4 * (frame[14] & 15)
    protocol = {6: "TCP", 17: "UDP"}.get(frame[23], f"protocol {frame[23]}")
    ports = [int.from_bytes(frame[at : at + 2], "big") for at in (header, header + 2)]
    transport = f"{protocol} {ports[0]} > {ports[1]}" if frame[23] in (6, 17) else protocol
    return f"in a packet {source} > {destination}, {transport}, {offset - 14} bytes in"
