"""vagrant/lab.yml as the runner needs it: the driver, and which node has which interface.

A mistake is named with its line before a machine is started. The Vagrantfile has no rules of its own: it asks here,
``python -m runner.lab.places.labfile lab.yml``, which prints the driver, or says what is wrong and fails.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from runner.data.errors import UsageError
from runner.data.files import read_text
from runner.lab.kernels.kvm import kvm_runs_guests

DRIVERS = ("auto", "kvm", "qemu")
BOXES = ("box", "public_box")
NUMBERS = ("memory_mib", "cpus", "boot_timeout_s")
MOST_BYTES, DEEPEST = 1 << 16, 8  # of the file, and in it
KEYS = ("driver", *BOXES, *NUMBERS)
BOX, NETWORK = re.compile(r"\w[\w./+-]*(@[\w.+-]+)?"), re.compile(r"\w[\w.-]{0,39}")
EMULATION_IS_SLOWER = 10.0  # the patience that software emulation needs, several machines on the cores of one
# Each node's ports in the order of its networks; the Vagrantfile gives the n-th port of the m-th node its MAC address.
PORTS = {"host1": ("lan",), "gw1": ("lan", "wan"), "wan": ("gw1", "gw2"), "gw2": ("lan", "wan"), "host2": ("lan",)}
# What must meet: the first port's network is the second's. With a WAN machine, and without.
CABLES = ("host1 lan", "gw1 lan"), ("host2 lan", "gw2 lan")
WITH_WAN = *CABLES, ("gw1 wan", "wan gw1"), ("gw2 wan", "wan gw2")
WITHOUT_WAN = *CABLES, ("gw1 wan", "gw2 wan")


@dataclass(frozen=True)
class LabFile:
    """The contents of lab.yml: ``nodes`` maps each node to its networks, in the file's order."""

    path: Path
    settings: dict[str, Any]
    nodes: dict[str, tuple[str, ...]]

    @property
    def driver(self) -> str:
        """``kvm`` or ``qemu``; auto is KVM where a guest really runs under it."""
        if self.settings["driver"] != "auto":
            return str(self.settings["driver"])
        return "kvm" if kvm_runs_guests() else "qemu"

    @property
    def patience(self) -> float:
        """The factor of every deadline, VPNEVAL_PATIENCE."""
        return EMULATION_IS_SLOWER if self.driver == "qemu" else 1.0

    def macs(self) -> dict[str, dict[str, str]]:
        """Node -> port -> MAC address."""
        return {
            name: {port: f"52:54:00:76:{number:02x}:{nth:02x}" for nth, port in enumerate(PORTS[name], 1)}
            for number, name in enumerate(self.nodes, 1)
        }


def read_lab_file(path: Path) -> LabFile:
    """The lab.yml at ``path``. Raises UsageError with the file, the line, and what is valid there."""
    settings, lines = _load(path)

    def wrong(key: object, what: str) -> UsageError:
        return UsageError(f"{path}:{lines.get(str(key), 1)}: {what}")

    nodes = settings.pop("nodes", {})
    if not isinstance(nodes, dict):
        raise wrong("nodes", f"nodes are lines '  node: [network, network]', not {nodes!r}")
    _check_settings(settings, wrong)
    _check_nodes(nodes, wrong)
    return LabFile(path, settings, {name: tuple(map(str, own)) for name, own in nodes.items()})


def _check_settings(settings: dict[Any, Any], wrong: Callable[[object, str], UsageError]) -> None:
    """Raise ``wrong`` of the first key that is missing, not known, or of another kind."""
    for key in [*KEYS, *settings]:
        if key not in settings or key not in KEYS:
            problem = "is missing" if key in KEYS else "is not known"
            raise wrong(key, f"{key} {problem}. Valid here: {', '.join(KEYS)}, nodes")
    if settings["driver"] not in DRIVERS:
        raise wrong("driver", f"unknown driver {settings['driver']!r}. Valid: {', '.join(DRIVERS)}")
    for key in BOXES:
        if not isinstance(settings[key], str) or not BOX.fullmatch(settings[key]):
            raise wrong(key, f"{key} is the name of a box, as debian/trixie64 or NAME@VERSION, not {settings[key]!r}")
    for key in NUMBERS:
        if type(settings[key]) is not int or settings[key] < 1:
            raise wrong(key, f"{key} is a whole number from 1 on, not {settings[key]!r}")


def _check_nodes(nodes: dict[Any, Any], wrong: Callable[[object, str], UsageError]) -> None:
    """Raise ``wrong`` of the first node that is missing, not known, or not cabled to what it has to meet."""
    for name in [*PORTS, *nodes]:
        if name not in nodes and name != "wan":
            raise wrong(name, f"the node {name} is missing. The nodes are {', '.join(PORTS)} (wan may be left out)")
        if name not in PORTS:
            raise wrong(name, f"there is no node {name}. Valid: {', '.join(PORTS)}")
        if name in nodes and (not isinstance(nodes[name], list) or len(nodes[name]) != len(PORTS[name])):
            raise wrong(name, f"{name} needs {len(PORTS[name])} networks, for its {' and '.join(PORTS[name])}")
        if name in nodes and not all(NETWORK.fullmatch(str(network)) for network in nodes[name]):
            raise wrong(
                name, f"a network's name is at most 40 letters, digits and . _ -, not one of {nodes[name]!r:.80}"
            )
    networks = {
        f"{name} {port}": network for name, own in nodes.items() for port, network in zip(PORTS[name], own, strict=True)
    }
    for here, there in WITH_WAN if "wan" in nodes else WITHOUT_WAN:
        if networks[here] != networks[there]:
            raise wrong(
                here.split()[0],
                f"{here} is on {networks[here]} and {there} on {networks[there]}: they need the same one",
            )


def _load(path: Path) -> tuple[dict[Any, Any], dict[str, int]]:
    """The file's contents, and the line of each key and of each node's name. Raises UsageError for what is not YAML."""
    valid = "Valid: 'key: value', and under 'nodes:' '  node: [network, network]'"
    try:
        text = read_text(path, MOST_BYTES)
        _simple(path, text)
        root, content = yaml.compose(text, yaml.SafeLoader), yaml.safe_load(text)
    except UsageError as error:
        raise UsageError(f"the lab's file {error}") from None
    except yaml.MarkedYAMLError as error:
        mark = error.context_mark or error.problem_mark
        number = mark.line if mark else 0
        line = "".join(text.splitlines()[number : number + 1]).strip()
        raise UsageError(f"{path}:{number + 1}: not understood: {line!r}. {valid} ({error.problem})") from error
    except yaml.YAMLError as error:
        raise UsageError(f"{path}: not understood: {error}. {valid}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8; a date or a number that is none; nested too deep
        raise UsageError(f"the lab's file {path} cannot be read: {error}. {valid}") from None
    if not isinstance(content, dict) or not isinstance(root, yaml.MappingNode):
        raise UsageError(f"{path}:1: not a lab. {valid}")
    lines: dict[str, int] = {}
    for key, value in root.value:
        lines[key.value] = key.start_mark.line + 1
        if key.value == "nodes" and isinstance(value, yaml.MappingNode):
            lines |= {name.value: name.start_mark.line + 1 for name, _ in value.value}
    return content, lines


def _simple(path: Path, text: str) -> None:
    """Raise UsageError for an alias, of which a few lines make a billion nodes, and for what is nested deeper than any
    lab's file."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent):
            raise UsageError(f"{path}:{line}: *{event.anchor!s:.40} is an alias; a lab's file has none. Write it out")
        if depth > DEEPEST:
            raise UsageError(f"{path}:{line}: it is nested too deep for a lab's file")


def main() -> None:
    """For the Vagrantfile: check the file and print the driver, or end with the sentence that says what is wrong."""
    try:
        print(read_lab_file(Path(sys.argv[1])).driver)
    except UsageError as wrong:
        sys.exit(f"vpneval: {wrong}")


if __name__ == "__main__":
    main()
