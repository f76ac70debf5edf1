"""The commands for who works by hand: a tunnel's recipe, and a shell in a lab.

What they work with is imported where they begin their work, as in `commands`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli.options import Days, ImageName, LabSpec, Levels, MaxRate, OfRun, SiteFile, WriteTo, begin, joined, tell
from runner.data.errors import require_known
from runner.data.streams import document
from runner.lab.names import DEFAULT_IMAGE


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


def lab_shell(
    node: Annotated[str, typer.Argument(metavar="NODE", help="host1, gw1, wan, gw2 or host2")],
    vpn: Annotated[
        str, typer.Option("--vpn", metavar="NAME", help="bring this VPN up first; a file of your own: ./mine.py")
    ] = "none",
    levels: Levels = None,
    image: ImageName = DEFAULT_IMAGE,
    where: LabSpec = "netns",
    max_rate: MaxRate = "",
    work: Annotated[
        str, typer.Option("--command", "-c", metavar="COMMAND", help="run this command instead of a shell")
    ] = "",
) -> None:
    """Open a shell on a node of a new lab in which the VPN is up. The lab is removed when the shell ends."""
    begin(f"vpneval starts a lab and brings {vpn} up in it.")
    from runner.catalogue import load_vpn
    from runner.cli.shell import one_tunnel, shell
    from runner.lab.places import rootless
    from runner.sweep.request import site_limits

    require_known("node", node, ["host1", "gw1", "wan", "gw2", "host2"])
    plugin = load_vpn(vpn)
    params = one_tunnel(plugin, joined(levels))
    limits = site_limits(where, max_rate, "")
    rootless.enter(where)
    raise typer.Exit(shell(node, plugin, params, image, where, work, tell, limits))
