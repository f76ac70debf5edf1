"""The versions that a call asks for: which VPNs they make."""

from __future__ import annotations

from collections.abc import Sequence

from runner.catalogue import load_vpn
from runner.data.errors import require_known
from runner.data.levels import OWN_VERSION


def in_versions(names: Sequence[str], levels: Sequence[str]) -> list[str]:
    """The VPNs ``names`` at these levels of the factor ``version``: wireguard_go and wireguard_go@2026 for debian and
    2026. One that has none of them, as plain IP, is measured as it is in the image; one whose name says its version
    stays that. Raises UsageError for a level that none of them has."""
    plugins = {name: load_vpn(name) for name in names}
    valid = [level for vpn in plugins.values() for level in (*vpn.versions, vpn.software.version) if level]
    for level in levels:
        require_known("version", level, [OWN_VERSION, *dict.fromkeys(valid)], where="for these VPNs")
    found = list[str]()
    for name, vpn in plugins.items():
        offered = (OWN_VERSION, *vpn.versions) if vpn.versions else ()
        found += [_at(name, level) for level in levels if level in offered] or [name]
    return list(dict.fromkeys(found))


def _at(name: str, level: str) -> str:
    return name if level == OWN_VERSION else f"{name}@{level}"
