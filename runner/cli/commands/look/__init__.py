"""``vpneval look``: what runs between two gateways in use, and what limits it. Nothing is changed there."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.cli.folders import without_run
from runner.data.errors import UsageError
from runner.data.streams import document

GatewayAddress = Annotated[
    str, typer.Argument(metavar="GATEWAY", help="one gateway alone: gw1 of --lab, or as ssh knows it, root@10.0.0.1")
]
Sites = Annotated[
    str, typer.Option("--lab", metavar="site:SITES.toml", help="the two gateways, as doctor and run take")
]
PastRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="the run of these gateways; default: the last such in results/"),
]


def look(
    gateway: GatewayAddress = "",
    last: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="a run folder, as --run")] = None,
    lab: Sites = "",
    max_rate: options.MaxRate = "",
    uplink: options.UplinkName = "",
    run: PastRun = None,
    as_json: options.Json = False,
) -> None:
    """Look at two gateways in use and at the tunnel between them, and change nothing there.

    It says which VPN it is, its parameters, its MTU, whether packets travel in fragments, and what limits it. With
    --max-rate it sends TCP for some seconds on the path and in the tunnel, no faster than that; without it, only pings.
    """
    options.begin("vpneval connects to the gateways.")
    from runner.cli.commands.look.work import instead, lines_of_look, look_at_gateways
    from runner.cli.output import out

    gateway, run = without_run(gateway, last, run)
    if not gateway and not lab:
        raise UsageError(
            "look needs the gateways: --lab site:SITES.toml for two (docs/two-sites.md), or one by itself: "
            "vpneval look root@gw.example.com"
        )
    found = look_at_gateways(gateway, lab, max_rate, lambda text: None if as_json else options.tell(text), uplink)
    other = instead(found, run)
    if as_json:
        document(found.model_copy(update={"instead": other}).model_dump_json(indent=1) + "\n")
        return
    for line in lines_of_look(found, other):
        out.print(line, highlight=False)
