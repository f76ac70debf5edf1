"""Looks at the bare path between two gateways: its MTU, its NAT, what it lets through. No VPN is there yet."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Required

from pydantic import Field, FiniteFloat, StringConstraints, TypeAdapter
from typing_extensions import TypedDict

from runner.data.errors import MeasurementError
from runner.lab import probes
from runner.lab.node import PATIENCE, LabNode
from runner.lab.node.answers import Address, not_understood, number, validate_answer
from runner.lab.node.lines import json_of
from runner.lab.node.probing import ask_probe, probe
from runner.lab.shape.site import Site, ip_version

HEADERS_BYTES = {4: 28, 6: 48}  # IP and ICMP
SHORTEST_MTU = {4: 576, 6: 1280}
RATE_S = 2.0
MOST_S = 120.0  # of the probe beside TCP: rates that double from 1 Mbit/s on, each way, on a path of seconds
BEGINS_WITHIN_S = 30.0 * PATIENCE


class PathFindings(TypedDict, total=False):
    """What the probe of the path says. Times in ms, the far clock's lead in s, rates in bit/s, those of one TCP
    connection apart; of DSCP and ECN whether they are kept each way."""

    open: Required[list[Annotated[str, StringConstraints(pattern=r"^(udp|tcp)/[0-9]{1,5}$")]]]
    seen_as: Address
    port_kept: bool
    mappings: int
    rtt_ms: list[FiniteFloat]
    loss_ratio: Annotated[FiniteFloat, Field(ge=0, le=1)]
    dscp_kept: list[bool]
    ecn_kept: list[bool]
    clock_ahead_s: FiniteFloat | None
    mtu_bytes: Annotated[int, Field(ge=0, le=65535)]
    forward_bps: FiniteFloat
    reverse_bps: FiniteFloat
    forward_tcp_bps: FiniteFloat
    reverse_tcp_bps: FiniteFloat


FINDINGS = TypeAdapter(PathFindings)


def path_mtu(near: LabNode, address: str, port: str, own: str = "") -> int | None:
    """The longest IP packet, bytes, that reaches ``address`` from ``own`` (empty: the kernel's choice) in one piece;
    None where no ping does."""

    family, longest = ip_version(address), port_mtu(near, port)
    ping = ("ping", "-c2", "-i0.2", "-W1", "-Mdo", *(("-I", own) if own else ()))

    def passes(mtu: int) -> bool:
        size = str(mtu - HEADERS_BYTES[family])
        # Twice: the first may only teach the kernel, or be lost.
        return near.run(*ping, f"-s{size}", address, check=False, timeout=10).code == 0

    if passes(longest):
        return longest
    # A router that drops it says what it would take (RFC 1191), and the kernel remembers.
    source = ("from", own) if own else ()
    shown = near.run("ip", "-o", "route", "get", address, *source, check=False).stdout
    known = re.search(r" mtu ([0-9]{1,6})\b", shown)
    if known and passes(int(known[1])):
        return int(known[1])
    if not passes(SHORTEST_MTU[family]):
        return None
    low, high = SHORTEST_MTU[family], longest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def port_mtu(node: LabNode, port: str) -> int:
    """The MTU of a node's port, bytes."""
    return number(node.name, "an MTU", node.run("cat", f"/sys/class/net/{port}/mtu").stdout)


def look(
    near: LabNode,
    far: LabNode,
    address: str,
    ports: Sequence[str],
    rate_s: float,
    max_bps: float,
    mtu_bytes: int = 0,
    longest_bytes: int = 0,
) -> PathFindings:
    """The findings of the probe ``runner/lab/probes/path.py`` on the path from ``near`` to ``far`` at ``address``; the
    near one's own may follow it after a comma. ``mtu_bytes``: the path's; 0: the probe seeks it, up to
    ``longest_bytes`` (0: not at all).

    Raises MeasurementError where the probe fails, CannotRunHere where a machine does not answer as it should.
    """
    near.write(f"{probes.FOLDER}/path.py", probes.source("path"), mode=0o644)
    with answering(far, address, *ports) as key:
        asking = ("python3", "-IS", f"{probes.FOLDER}/path.py", "ask", address, str(rate_s), str(max_bps))
        mtus = (mtu_bytes, SHORTEST_MTU[ip_version(address.partition(",")[0])], longest_bytes)
        done = near.run(*asking, *map(str, mtus), *ports, check=False, timeout=MOST_S + 2 * rate_s, input=key)
    if done.code != 0:
        why = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.code}"]
        raise MeasurementError(
            f"the probe of the path failed: {why[0][-200:]}. If the path carries shorter packets than "
            f"{mtu_bytes or longest_bytes} bytes, name the longest in the inventory: path_mtu = 1400"
        )
    try:
        said = json_of(done.stdout)
    except ValueError:
        raise not_understood(near.name, f"its probe of the path says {done.stdout[:80]!r}") from None
    return validate_answer(f"{near.name} or {far.name}", FINDINGS, said)


@contextmanager
def answering(far: LabNode, to: str, *ports: str) -> Iterator[str]:
    """Let the far end answer on these ports of its own network to those who know the key, a line, which is yielded."""
    key = secrets.token_hex(8)
    with probe(far, "path", "answer", f"{ip_version(to.partition(',')[0])}", *ports, ready="ready") as running:
        ask_probe(running, "path", {"key": key}, BEGINS_WITHIN_S)
        yield key + "\n"


def rate(near: LabNode, far: LabNode, to: str, port: str, max_bps: float, *, send: bool) -> float | None:
    """The rate of TCP from ``near`` to ``far`` (``send``) or back, in 1.5 × ``RATE_S``, bit/s; None where it broke.

    ``to``: the far address, and behind a comma the near one. ``port``: one that was found open."""
    near.write(f"{probes.FOLDER}/path.py", probes.source("path"), mode=0o644)
    seconds, way = 1.5 * RATE_S, "send" if send else "take"
    with answering(far, to, port) as key:
        asking = ("python3", "-IS", f"{probes.FOLDER}/path.py", "rate", to, str(seconds), str(max_bps), port, way)
        done = near.run(*asking, check=False, timeout=60 + seconds, input=key)
    return float(done.stdout) if done.code == 0 and re.fullmatch(r"[0-9.e+]{1,30}\s*", done.stdout) else None


def nats_in_words(findings: Mapping[str, object], near: Site, far: Site, forwards: Sequence[str]) -> str:
    """What the NATs before both gateways do, as far as the probe saw it; ``forwards``: the ports that the inventory
    says the far one forwards. Empty where there is none."""
    sentences = [nat_in_words(findings, near.wan_address)]
    if near.public_address and "seen_as" not in findings:
        unseen = "which kind of NAT that is was not seen, as no UDP port of the other gateway answers"
        sentences.append(f"{near.wan_address} is reached at {near.public_address}; {unseen}")
    if far.public_address:
        sentences.append(
            f"{far.name} {far.wan_address} is reached at {far.public_address}, whose NAT forwards {', '.join(forwards)}"
        )
    return "; ".join(filter(None, sentences))


def nat_in_words(findings: Mapping[str, object], own: str) -> str:
    """What a NAT before the near gateway does; empty where the far gateway sees the near one's own address."""
    seen = findings.get("seen_as", own)
    if seen == own:
        return ""
    ports = "keeps the port" if findings["port_kept"] else "changes the port"
    kind = "one mapping for all destination ports" if findings["mappings"] == 1 else "another mapping for each port"
    return f"{own} is seen as {seen}; the NAT {ports}; {kind}"
