"""A gateway in use, as it is seen without changing anything: by the probe ``runner/lab/probes/seen.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import StringConstraints, TypeAdapter
from typing_extensions import TypedDict

from runner.data.errors import CannotRunHere
from runner.lab import probes
from runner.lab.node.answers import Interface, Link, Route, Word, not_understood, validate_answer
from runner.lab.node.lines import json_of

Line = Annotated[str, StringConstraints(max_length=4096)]


class Program(TypedDict):
    """A process of a VPN, or one that holds a tunnel's device. ``sockets``: "udp OWN PEER"; ``told``: of its options
    and its configuration what is no secret; ``closed``: what of it could not be read."""

    pid: int
    name: Line
    devices: list[Interface]
    sockets: list[Line]
    told: list[Line]
    closed: list[Line]


class DaemonAnswer(TypedDict):
    """What a command said of a ``device`` ("" for none), that belongs to the program or kind ``name``."""

    argv: list[Line]
    device: str
    name: Line
    told: list[Line]


class Counters(TypedDict):
    """Since boot: fragments (RFC 1213's names), of each port's policers the packets taken and dropped, errors of the
    kernel's IPsec, and of each port packets received and sent, bytes received and sent."""

    ip: dict[str, int]
    policed: dict[str, list[int]]
    xfrm: dict[str, int]
    packets: dict[str, list[int]]


class Seen(TypedDict):
    """The gateway. ``states`` and ``policies``: of the kernel's IPsec, one a line, without keys; ``listening``:
    "udp/1194"; ``lacks``: why something was not seen."""

    host: Line
    kernel: Word
    cpu: dict[str, str]
    cores: int
    root: bool
    links: list[Link]
    routes: list[Route]
    processes: list[Program]
    answers: list[DaemonAnswer]
    states: list[Line]
    policies: list[Line]
    listening: list[Word]
    lacks: list[Line]
    counters: Counters


SEEN, COUNTERS = TypeAdapter(Seen), TypeAdapter(Counters)


def everything(node: Any, signs: Mapping[str, Any]) -> Seen:
    """The gateway ``node``, by the ``signs`` of the VPNs (see the probe). Raises CannotRunHere."""
    return validate_answer(node.name, SEEN, _answer(node, "everything", json.dumps(signs)))


def counters(node: Any) -> Counters:
    """The counters of ``node`` now. Raises CannotRunHere."""
    return validate_answer(node.name, COUNTERS, _answer(node, "counters"))


def _answer(node: Any, *argv: str) -> Any:
    node.write(f"{probes.FOLDER}/seen.py", probes.source("seen"))
    done = node.run("python3", "-IS", f"{probes.FOLDER}/seen.py", *argv, check=False, timeout=60)
    if done.code != 0:
        last = (done.stderr.strip().splitlines() or ["no answer"])[-1]
        raise CannotRunHere(
            f"{node.name} cannot be looked at: {last[:200]}. vpneval needs python3 (3.10 or newer) and ip there; get "
            "them with: apt-get install python3-minimal iproute2"
        )
    try:
        return json_of(done.stdout)
    except ValueError:
        raise not_understood(node.name, f"the look at it says {done.stdout[:80]!r}") from None
