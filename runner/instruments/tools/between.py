"""The place between the gateways: programs on nodes that answer line by line, and the relay in the bridge's place."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from runner.lab.node import PATIENCE, LabNode
from runner.lab.node.commands import Dialogue
from runner.lab.node.iproute import interface
from runner.lab.node.probing import hear, hear_object, probe, tell
from runner.lab.shape.site_to_site import Lab

CABLE = ("to-bridge", "from-relay")  # from the relay to the bridge


@dataclass
class Talker:
    """A program on a node that answers every line with a line."""

    node: LabNode
    process: Dialogue
    name: str = "between"  # of the probe, for a sentence

    def tell(self, line: str) -> None:
        """Say a line to it. Raises MeasurementError where it is dead."""
        tell(self.process, self.name, line)

    def hear(self, timeout_s: float) -> str:
        """The next line that it says. Raises MeasurementError where none comes in time."""
        return hear(self.process, self.name, timeout_s * PATIENCE)

    def hear_object(self, timeout_s: float) -> dict[str, Any]:
        """The next line, a JSON object. Raises as ``hear``."""
        return hear_object(self.process, self.name, timeout_s * PATIENCE)

    def say(self, timeout_s: float = 10.0, /, **what: Any) -> dict[str, Any]:
        """Its answer to a line, both JSON. Raises MeasurementError where it is dead or does not answer."""
        self.tell(json.dumps(what))
        return self.hear_object(timeout_s)

    def end(self) -> None:
        """Let it go: it puts everything back before it ends."""
        self.process.tell_no_more()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(2)


@contextmanager
def talking(node: LabNode, name: str, *argv: str, ready: str) -> Iterator[Talker]:
    """A probe of ``runner/lab/probes/`` on a node, beside the block. Raises MeasurementError where it cannot start."""
    with probe(node, name, *argv, ready=ready) as process:
        yield Talker(node, process, name)


@contextmanager
def wan_relay(lab: Lab) -> Iterator[Talker]:
    """The relay (see runner/lab/probes/relay.py) in the place of the WAN node's bridge, which is there again
    afterwards; or between the near gateway and the bridge, where helpers are there for both gateways. Raises
    MeasurementError where the lab has no WAN node, or the relay cannot start.
    """
    wan = lab.wan
    near, far = (interface(wan, site.name) for site in (lab.sites[0], lab.sites[-1]))
    for site in (*lab.sites, *lab.helpers):
        # Frames that are captured and sent again need whole checksums, and one packet each (ethtool(8)).
        gateway, port = lab.nodes[site.name], interface(lab.nodes[site.name], site.wan_interface)
        gateway.run("ethtool", "-K", port, "tx", "off", "tso", "off", "gso", "off", check=False)
        gateway.defer("ethtool", "-K", port, "tx", "on", "tso", "on", "gso", "on")
    with ExitStack() as stack:
        if lab.helpers:
            wan.run("ip", "link", "add", CABLE[0], "type", "veth", "peer", "name", CABLE[1])
            stack.callback(wan.run, "ip", "link", "del", CABLE[0], check=False)
            for end, joins in zip(CABLE, ((), ("master", "br0")), strict=True):
                wan.run("ip", "link", "set", end, "addrgenmode", "none", *joins, "up")
        for port in (near,) if lab.helpers else (near, far):
            wan.run("ip", "link", "set", port, "nomaster")
            wan.defer("ip", "link", "set", port, "master", "br0")
            stack.callback(wan.run, "ip", "link", "set", port, "master", "br0", check=False)
        beyond = CABLE[0] if lab.helpers else far
        yield stack.enter_context(talking(wan, "relay", near, beyond, ready="relaying"))
