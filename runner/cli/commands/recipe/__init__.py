"""``vpneval recipe``: how a tunnel is set up on two gateways, without vpneval."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.cli.folders import without_run
from runner.data.errors import UsageError
from runner.data.files import word
from runner.data.options import NeedsOptions, join_values
from runner.data.streams import document


def recipe(
    *,
    vpn: Annotated[
        str,
        typer.Argument(
            metavar="[VPN]",
            help="a name from `vpneval list`, or a file; default: what the run names",
            autocompletion=options.complete("vpns"),
        ),
    ] = "",
    last: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="a run folder, as --run")] = None,
    levels: options.TunnelLevels = None,
    site: Annotated[
        Path | None, typer.Option("--site", metavar="SITES.toml", help="for these two machines, as --lab site:")
    ] = None,
    uplink: options.UplinkName = "",
    of_run: Annotated[
        Path | None,
        typer.Option(
            "--run", metavar="DIR", help="as this run measured it: its levels, and the versions of the software"
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--write", metavar="DIR", help="make a directory for each gateway, with keys, files and units"),
    ] = None,
    days: Annotated[int, typer.Option("--days", metavar="N", help="validity of the certificates")] = 3650,
    needs: NeedsOptions,
) -> None:
    """Print how to set a tunnel up on two gateways, without vpneval.

    It is at the levels that the VPN's makers recommend, unless --set names others. With a run folder it is as that run
    measured it; without a VPN it is the one that the run names for your needs. What showed a must is in the recipe.
    """
    vpn, of_run = without_run(vpn, last, of_run)
    vpn = vpn or _named_vpn(needs, of_run)
    options.begin(f"vpneval reads the plugin {vpn}.")
    from runner.catalogue import load_vpn, read_run
    from runner.choice.stated import state_needs
    from runner.cli.commands.lab.work import one_tunnel
    from runner.cli.commands.recipe.work import Measured, levels_of_run, tunnel_page, uplink_of

    plugin = load_vpn(vpn)
    params, run = one_tunnel(plugin, join_values(levels), plugin.recommended, ["inner"]), Measured()
    inner = {factor: params.pop(factor) for factor in ("inner",) if factor in params}
    musts = state_needs(needs, read_run(of_run / "run.json").needs if of_run else None).must
    if of_run is not None:
        asked = params if len(join_values(levels).split(",")) > len(inner) else None
        params, run = levels_of_run(of_run, plugin, asked if levels else None, options.tell, musts)
        uplink = uplink or uplink_of(of_run) * bool(site)
    if uplink and site is None:
        raise UsageError("--uplink is a line of an inventory: give --site SITES.toml, too")
    sites = (site, uplink) if site else None
    text = tunnel_page(plugin, params | inner, sites, days, options.tell, run, folder, musts)
    if folder is None:
        document(text)


def _named_vpn(needs: NeedsOptions, of_run: Path | None) -> str:
    """The VPN that a run names for the stated needs. Raises UsageError where there is none."""
    if of_run is None:
        raise UsageError("name a VPN, or a run that names one: vpneval recipe --run DIR --line 100M")
    from questions.choose.judge import choice
    from questions.choose.words import headline, kin
    from runner.catalogue import load_run
    from runner.choice.stated import state_needs
    from runner.data.scale import no_scale
    from runner.report.scale import above

    run, trials = load_run(of_run)
    made = choice(run.model_copy(update={"needs": state_needs(needs, run.needs)}), trials)
    said = made.answer if made else None
    if made is None or said is None:
        raise UsageError(f"{of_run} does not say for which line. State yours: --line 100M, or name a VPN")
    if found := no_scale(run):
        options.tell(above(found))
    options.tell(headline(made))
    if kernels := kin(made, *said.named):
        options.tell(kernels)
    if not said.named:
        raise UsageError("no VPN is named, so there is no recipe. Name a VPN to see its recipe all the same")
    from runner.catalogue import version_names, vpn_names

    name = said.named[0]
    if name not in (*vpn_names(), *version_names()):
        raise UsageError(
            f"{word(of_run)} names {name}, which is no VPN of this vpneval. If it is a plugin of your own, name its "
            f"file: vpneval recipe ./{name}.py --run {word(of_run)}"
        )
    return name
