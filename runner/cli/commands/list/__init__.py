"""``vpneval list``: the VPNs, experiments, metrics, presets and factors."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from runner.cli.options import Json, begin, tell
from runner.data.errors import require_known
from runner.data.streams import document

WORD = 17  # characters: a column of such words stays whole


def list_(
    what: Annotated[
        str,
        typer.Argument(
            metavar="[WHAT]",
            help="vpns, extinct, absent, experiments, metrics, presets, factors or profiles; default: vpns",
        ),
    ] = "vpns",
    as_json: Json = False,
) -> None:
    """List the VPNs, experiments, metrics, presets and factors.

    With --json it prints all that is known of them: every cipher, sources, and what a VPN carries and declares.
    """
    begin("vpneval reads the plugins and the experiments.")
    from rich.table import Table

    from runner.cli.commands.list.work import tables
    from runner.cli.output import out

    listings = tables(whole=as_json)
    require_known("listing", what, list(listings))
    if as_json:
        document(json.dumps(listings[what], indent=1) + "\n")
        return
    table = Table(box=None, header_style="bold", padding=(0, 1), pad_edge=False, collapse_padding=True)
    for column in listings[what][0]:
        longest = max(len(row[column]) for row in listings[what])
        table.add_column(column.replace(" ", "\n"), overflow="fold", no_wrap=column == "name" or longest <= WORD)
    for row in listings[what]:
        table.add_row(*row.values())
    out.print(table)
    if what == "vpns":
        names = ", ".join(row["name"] for row in listings["absent"])
        tell(f"Not here: {names}. `vpneval list absent` says why; docs/add-a-vpn.md says how to bring your own.")
