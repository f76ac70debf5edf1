"""``vpneval lab shell``: a lab to work in by hand."""

from __future__ import annotations

from typing import Annotated

import typer

from runner.cli import options
from runner.data.errors import require_known
from runner.data.options import join_values
from runner.lab.names import DEFAULT_IMAGE


def lab_shell(
    node: Annotated[str, typer.Argument(metavar="NODE", help="host1, gw1, wan, gw2 or host2")],
    vpn: Annotated[
        str,
        typer.Option(
            "--vpn",
            metavar="NAME",
            help="bring this VPN up first; a file of your own: ./mine.py",
            autocompletion=options.complete("vpns"),
        ),
    ] = "none",
    levels: options.TunnelLevels = None,
    image: options.ImageName = DEFAULT_IMAGE,
    where: options.LabSpec = "netns",
    max_rate: options.MaxRate = "",
    uplink: options.UplinkName = "",
    work: Annotated[
        str, typer.Option("--command", "-c", metavar="COMMAND", help="run this command instead of a shell")
    ] = "",
) -> None:
    """Open a shell on a node of a new lab in which the VPN is up. The lab is removed when the shell ends."""
    options.begin(f"vpneval starts a lab and brings {vpn} up in it.")
    from runner.catalogue import load_vpn
    from runner.cli.commands.lab.work import one_tunnel, shell
    from runner.lab.places import check_uplinks, rootless
    from runner.sweep.request import site_limits

    require_known("node", node, ["host1", "gw1", "wan", "gw2", "host2"])
    plugin = load_vpn(vpn)
    params = one_tunnel(plugin, join_values(levels))
    limits = site_limits(where, max_rate, "")
    check_uplinks(where, [uplink] * bool(uplink))
    rootless.enter(where)
    raise typer.Exit(shell(node, plugin, params, image, where, work, options.tell, limits, uplink))
