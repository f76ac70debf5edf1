"""``vpneval tunnel``: what comes after the first day of a tunnel that ``recipe --write`` has made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.data.streams import document

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="what `vpneval recipe --write DIR` has made")]
Next = Annotated[
    Path, typer.Option("--write", metavar="DIR", help="a new folder, for the directories of both gateways")
]
Days = Annotated[
    int | None, typer.Option("--days", metavar="N", help="validity of the certificates; default: as before")
]


def renew(tunnel: Folder, folder: Next, days: Days = None) -> None:
    """Make new certificates by the same CA: the gateways accept old and new ones meanwhile."""
    options.begin("vpneval makes new certificates.")
    from runner.cli.commands.recipe.work import check_days
    from runner.cli.commands.tunnel.work import begin, renewal_of, write_next

    check_days(days or 1)
    begin()
    write_next(renewal_of(tunnel, days, options.tell), folder, options.tell)


def rekey(tunnel: Folder, folder: Next, days: Days = None) -> None:
    """Make all keys new, the CA's, too: old ones are refused once both gateways have the new tunnel."""
    options.begin("vpneval makes new keys.")
    from runner.cli.commands.recipe.work import check_days
    from runner.cli.commands.tunnel.work import begin, rekeying_of, write_next

    check_days(days or 1)
    begin()
    write_next(rekeying_of(tunnel, days, options.tell), folder, options.tell)


def upgrade(
    tunnel: Folder,
    folder: Next,
    site: Annotated[
        Path | None, typer.Option("--site", metavar="SITES.toml", help="between these gateways; new ones get keys")
    ] = None,
) -> None:
    """Make the tunnel as this vpneval has it, with the keys that it has."""
    options.begin("vpneval reads the plugin.")
    from runner.cli.commands.recipe.work import extension_of
    from runner.cli.commands.tunnel.work import begin, upgrade_of, write_next

    if site:
        begin()
    write_next(extension_of(tunnel, site, options.tell) if site else upgrade_of(tunnel), folder, options.tell)


def rollback(tunnel: Folder) -> None:
    """Print the commands that bring back the tunnel before this one."""
    options.begin("vpneval reads the folder.")
    from runner.cli.commands.tunnel.work import rollback as commands

    document("\n".join(commands(tunnel)) + "\n")
