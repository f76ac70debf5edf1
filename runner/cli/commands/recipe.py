"""``vpneval recipe``: how a tunnel is set up on two gateways, without vpneval."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.options import Days, Levels, OfRun, SiteFile, WriteTo, begin, joined, tell
from runner.data.streams import document


def recipe(
    vpn: Annotated[str, typer.Argument(metavar="VPN", help="a name from `vpneval list`, or a file: ./mine.py")],
    levels: Levels = None,
    site: SiteFile = None,
    of_run: OfRun = None,
    folder: WriteTo = None,
    days: Days = 3650,
) -> None:
    """Print how to set a tunnel up on two gateways, without vpneval.

    It is at the levels that the VPN's makers recommend, unless --set names others.
    """
    begin(f"vpneval reads the plugin {vpn}.")
    from runner.catalogue import load_vpn
    from runner.cli.deployed import deploy, measured, readable
    from runner.cli.shell import one_tunnel

    plugin = load_vpn(vpn)
    params, versions = one_tunnel(plugin, joined(levels), plugin.recommended), dict[str, str]()
    if of_run is not None:
        params, versions = measured(of_run, plugin, params if levels else None, tell)
    if folder is not None:
        return deploy(plugin, params, site, folder, days, versions, tell)
    document(readable(plugin, params, site, days, versions, tell))
