"""What ``vpneval doctor`` found, as few lines: what works in one, and of the rest each reason once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from runner.cli.examination import Check

Row = tuple[str, str, str]  # level, what, and what is said of it


def rows(checks: Sequence[Check]) -> Iterator[Row]:
    """The rows, in the order of the checks."""
    commands = [check for check in checks if check.what.startswith("command ")]
    if commands and all(check.level == "ok" for check in commands):
        yield "ok", "commands", ", ".join(check.what.removeprefix("command ") for check in commands)
        commands = []
    vpns = [check for check in checks if check.what.startswith("vpn ")]
    for check in checks:
        if check in commands or not check.what.startswith(("command ", "vpn ")):
            yield check.level, check.what, check.says
    works = dict.fromkeys(_name(check) for check in vpns)
    reasons: dict[str, dict[str, list[str]]] = {}
    for check in vpns:
        if check.level != "ok":
            works.pop(_name(check), None)
            reasons.setdefault(check.says, {}).setdefault(_name(check), []).append(_configuration(check))
    configurations = {name: sum(_name(check) == name for check in vpns) for name in map(_name, vpns)}
    if works:
        yield "ok", "VPNs", ", ".join(works)
    for says, names in reasons.items():
        refused = [
            name if len(of) == configurations[name] else f"{name} ({', '.join(of)})" for name, of in names.items()
        ]
        yield "warning", "VPNs", f"{', '.join(refused)}: {says}"


def none_of(checks: Sequence[Check]) -> bool:
    """Were VPNs asked, and is there none that works here?"""
    vpns = [check for check in checks if check.what.startswith("vpn ")]
    return bool(vpns) and all(check.level != "ok" for check in vpns)


def _name(check: Check) -> str:
    return check.what.split()[1]


def _configuration(check: Check) -> str:
    found = re.search(r"\((.*)\)$", check.what)
    return found[1] if found else ""
