"""What ``vpneval doctor`` found, as few lines: what works in one, and of the rest each reason once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from runner.stages.examination import Check

Row = tuple[str, str, str]  # level, what, and what is said of it


def rows(checks: Sequence[Check]) -> Iterator[Row]:
    """The rows, in the order of the checks."""
    commands = [check for check in checks if check.tool]
    if commands and all(check.level == "ok" for check in commands):
        yield "ok", "commands", ", ".join(check.tool for check in commands)
        commands = []
    vpns = [check for check in checks if check.vpn]
    for check in checks:
        if check in commands or not (check.vpn or check.tool):
            yield check.level, check.what, check.says
    works = dict.fromkeys(check.vpn for check in vpns)
    reasons: dict[str, dict[str, list[str]]] = {}
    for check in vpns:
        if check.level != "ok":
            works.pop(check.vpn, None)
            reasons.setdefault(check.says, {}).setdefault(check.vpn, []).append(check.configuration)
    configurations = {name: sum(check.vpn == name for check in vpns) for name in {check.vpn for check in vpns}}
    if works:
        yield "ok", "VPNs", ", ".join(works)
    for says, names in reasons.items():
        refused = [
            name if len(of) == configurations[name] else f"{name} ({', '.join(of)})" for name, of in names.items()
        ]
        yield "warning", "VPNs", f"{', '.join(refused)}: {says}"


def none_of(checks: Sequence[Check]) -> bool:
    """Were VPNs asked, and is there none that works here?"""
    vpns = [check for check in checks if check.vpn]
    return bool(vpns) and all(check.level != "ok" for check in vpns)
