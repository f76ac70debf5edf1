"""What ip(8) and tc(8) say, in the versions that machines have.

ip(8) of 4.9 writes no JSON; that of 4.20 breaks it at routes, and leaves empty objects for what it passes over; up to
6.0 it escapes a single quote, which JSON does not know. tc(8) breaks its JSON at a token bucket until 5.3, so its text
is read, whose counters are the same in all of them. Versions 4.9, 4.20, 5.5 and 6.1 were built and asked.
"""

from __future__ import annotations

import re
from typing import Any, Protocol

from runner.data.errors import CannotRunHere, CommandError
from runner.lab.node import Completed, Node
from runner.lab.node.lines import MOST_ANSWER, json_of

NEEDED = "5.0"
SHOWN = 80  # characters of an answer in a sentence


class Commandable(Protocol):
    """A node, or the connection to a machine."""

    name: str

    def run(self, *argv: str) -> Completed:
        """Run a command to its end."""


def objects(node: Node, *argv: str) -> list[dict[str, Any]]:
    """The objects that ip(8) lists for ``argv``, which ask for JSON. Raises CannotRunHere where this ip(8) writes no
    JSON, CommandError where it fails."""
    done = node.run(*argv, check=False)
    if done.code != 0 and not re.search(r"is unknown|(unrecognized|invalid) option", done.stderr):
        raise CommandError(node.name, argv, done.code, done.stderr)
    return parse_objects(node, done.stdout or done.stderr)


def parse_objects(node: Commandable, output: str) -> list[dict[str, Any]]:
    """The objects in the JSON ``output`` of ip(8) on ``node``. Raises CannotRunHere, with ip's version, where it is no
    JSON."""
    try:
        listed = len(output) <= MOST_ANSWER and json_of(re.sub(r"(?<!\\)((?:\\\\)*)\\'", r"\1'", output))
        if isinstance(listed, list) and all(isinstance(entry, dict) for entry in listed):
            return [entry for entry in listed if entry]
    except ValueError:
        pass
    version = " ".join(node.run("ip", "-V").stdout[:SHOWN].split()) or "ip without a version"
    raise CannotRunHere(
        f"{node.name}: its ip(8) writes no JSON that can be read ({version}: {output[:SHOWN].strip()!r}). Install "
        f"iproute2 {NEEDED} or newer there; BusyBox's ip will not do"
    )


def root_discipline(shown: str) -> tuple[str, int, int] | None:
    """The port's root queueing discipline, from the output of ``tc -statistics qdisc show dev PORT``: its kind, and the
    packets and bytes that it has sent. None where there is none."""
    for section in re.split(r"^(?=qdisc )", shown, flags=re.MULTILINE):
        sent = re.search(r"^ Sent (\d+) bytes (\d+) pkt", section, flags=re.MULTILINE)
        if sent and " root " in section.partition("\n")[0] + " ":
            return section.split()[1], int(sent[2]), int(sent[1])
    return None


def interface(node: Node, port: str) -> str:
    """The kernel's own name of a port of the lab, which on a real machine may have another."""
    return node.run("ip", "-o", "link", "show", "dev", port).stdout.split(":")[1].strip().partition("@")[0]
