"""vagrant/lab.yml as the runner needs it: the driver, and which node has which interface.

Vagrant reads the file as YAML. Here it is read as what it is, ``key: value`` and a list of nodes, a line each, so that
a mistake is named with its line before a machine is started.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from runner.data.errors import UsageError

DRIVERS = ("auto", "kvm", "qemu")
NUMBERS = ("memory_mib", "cpus", "boot_timeout_s")
KEYS = ("driver", "box", "public_box", *NUMBERS)
EMULATION_IS_SLOWER = 10.0  # the patience that software emulation needs, several machines on the cores of one
# Each node's ports in the order of its networks; the Vagrantfile gives the n-th port of the m-th node its MAC address.
PORTS = {"host1": ("lan",), "gw1": ("lan", "wan"), "wan": ("gw1", "gw2"), "gw2": ("lan", "wan"), "host2": ("lan",)}
# What must meet: the first port's network is the second's. With a WAN machine, and without.
CABLES = ("host1 lan", "gw1 lan"), ("host2 lan", "gw2 lan")
WITH_WAN = *CABLES, ("gw1 wan", "wan gw1"), ("gw2 wan", "wan gw2")
WITHOUT_WAN = *CABLES, ("gw1 wan", "gw2 wan")


@dataclass(frozen=True)
class LabFile:
    """What lab.yml says: ``nodes`` maps each node to its networks, in the file's order."""

    path: Path
    settings: dict[str, str]
    nodes: dict[str, tuple[str, ...]]

    @property
    def driver(self) -> str:
        """``kvm`` or ``qemu``; auto as the Vagrantfile decides it."""
        if self.settings["driver"] != "auto":
            return self.settings["driver"]
        return "kvm" if os.access("/dev/kvm", os.W_OK) else "qemu"

    @property
    def patience(self) -> float:
        """What every deadline is to be multiplied by, VPNEVAL_PATIENCE."""
        return EMULATION_IS_SLOWER if self.driver == "qemu" else 1.0

    def macs(self) -> dict[str, dict[str, str]]:
        """Node -> port -> MAC address."""
        return {
            name: {port: f"52:54:00:76:{number:02x}:{nth:02x}" for nth, port in enumerate(PORTS[name], 1)}
            for number, name in enumerate(self.nodes, 1)
        }


def read_lab_file(path: Path) -> LabFile:
    """The lab.yml at ``path``. Raises UsageError with the file, the line, and what is valid there."""
    settings: dict[str, str] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}

    def wrong(key: str, what: str) -> UsageError:
        return UsageError(f"{path}:{lines.get(key, 1)}: {what}")

    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the lab's file {path} cannot be read: {error}") from error
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*", "", line).rstrip()
        if not bare or bare in ("nodes:", "---"):
            continue
        if node := re.fullmatch(r" +(\w+): *\[([\w, -]*)\]", bare):
            nodes[node[1]] = tuple(name.strip() for name in node[2].split(",") if name.strip())
            lines[node[1]] = number
        elif setting := re.fullmatch(r"(\w+): *(\S.*)", bare):
            settings[setting[1]] = setting[2].strip("\"'")
            lines[setting[1]] = number
        else:
            lines[""] = number
            raise wrong("", f"not understood: {line.strip()!r}. Valid: 'key: value', or '  node: [network, network]'")
    for key in [*KEYS, *settings]:
        if key not in settings or key not in KEYS:
            said = "is missing" if key in KEYS else "is not known"
            raise wrong(key, f"{key} {said}. Valid here: {', '.join(KEYS)}, nodes")
    if settings["driver"] not in DRIVERS:
        raise wrong("driver", f"unknown driver {settings['driver']!r}. Valid: {', '.join(DRIVERS)}")
    for key in NUMBERS:
        if not re.fullmatch(r"[1-9]\d*", settings[key]):
            raise wrong(key, f"{key} is a whole number from 1 on, not {settings[key]!r}")
    for name in [*PORTS, *nodes]:
        if name not in nodes and name != "wan":
            raise wrong(name, f"the node {name} is missing. The nodes are {', '.join(PORTS)} (wan may be left out)")
        if name not in PORTS:
            raise wrong(name, f"there is no node {name}. Valid: {', '.join(PORTS)}")
        if name in nodes and len(nodes[name]) != len(PORTS[name]):
            raise wrong(name, f"{name} needs {len(PORTS[name])} networks, for its {' and '.join(PORTS[name])}")
    networks = {
        f"{name} {port}": network for name, own in nodes.items() for port, network in zip(PORTS[name], own, strict=True)
    }
    for here, there in WITH_WAN if "wan" in nodes else WITHOUT_WAN:
        if networks[here] != networks[there]:
            raise wrong(
                here.split()[0],
                f"{here} is on {networks[here]} and {there} on {networks[there]}: they need the same one",
            )
    return LabFile(path, settings, nodes)
