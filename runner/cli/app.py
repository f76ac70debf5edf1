"""The commands, by name."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from runner.cli.commands.bisect import bisect
from runner.cli.commands.block import block
from runner.cli.commands.compare import compare
from runner.cli.commands.doctor import doctor
from runner.cli.commands.history import history
from runner.cli.commands.image import image
from runner.cli.commands.lab import lab_shell
from runner.cli.commands.list import list_
from runner.cli.commands.look import look
from runner.cli.commands.more import go_on
from runner.cli.commands.papers import papers
from runner.cli.commands.plan import plan
from runner.cli.commands.play import play
from runner.cli.commands.recipe import recipe
from runner.cli.commands.report import report
from runner.cli.commands.run import run
from runner.cli.commands.tunnel import rekey, renew, rollback, upgrade
from runner.cli.commands.watch import watch
from runner.cli.commands.why import why
from runner.cli.options import with_groups
from runner.cli.words import Once, Words

app = typer.Typer(
    help="Measure site-to-site VPNs against each other on this machine, and rank them.",
    cls=Words,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes a third of the time
)
lab_app = typer.Typer(
    help="Start a lab and work in it by hand.", cls=Words, no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(lab_app, name="lab")
tunnel_app = typer.Typer(
    help="Renew, rekey, upgrade or roll back a tunnel that `recipe --write` has made.",
    cls=Words,
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(tunnel_app, name="tunnel")
command = partial(app.command, cls=Once)


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="print without colours, as NO_COLOR=1 does")] = False,
) -> None:
    """The options before a command. ``--version`` prints and exits with 0."""
    if no_color:
        from runner.cli.output import err, out

        out.no_color = err.no_color = True
    if show_version:
        from importlib.metadata import version

        print(f"vpneval {version('vpneval')}")
        raise typer.Exit


command("list")(list_)
for command_function in (doctor, look, image, plan, run, go_on, report, papers, why, compare, bisect, history, watch):
    command("more" if command_function is go_on else None)(with_groups(command_function))
command(hidden=True)(block)
command(hidden=True)(play)
command()(with_groups(recipe))
for day_two in (renew, rekey, upgrade, rollback):
    tunnel_app.command(cls=Once)(day_two)
lab_app.command("shell", cls=Once)(lab_shell)
