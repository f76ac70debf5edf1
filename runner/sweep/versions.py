"""The versions that a call asks for: which VPNs they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.catalogue import load_vpn
from runner.data.errors import require_known
from runner.data.levels import OWN_VERSION
from runner.vpn.plugin import Vpn


def in_versions(plugins: Mapping[str, Vpn], levels: Sequence[str]) -> list[Vpn]:
    """These VPNs, by the names asked for, at these levels of the factor ``version``: wireguard_go and
    wireguard_go@2026 for debian and 2026. One that has none of them, as plain IP, is measured as it is in the image;
    one whose name says its version stays that. Raises UsageError for a level that none of them has."""
    valid = [level for vpn in plugins.values() for level in (*vpn.versions, vpn.software.version) if level]
    for level in levels:
        require_known("version", level, [OWN_VERSION, *dict.fromkeys(valid)], where="for these VPNs")
    found = dict[str, Vpn]()
    for name, vpn in plugins.items():
        offered = (OWN_VERSION, *vpn.versions) if vpn.versions else ()
        for level in [level for level in levels if level in offered] or [OWN_VERSION]:
            at = name if level == OWN_VERSION else f"{name}@{level}"
            found.setdefault(at, vpn if at == name else load_vpn(at))
    return [*found.values()]
