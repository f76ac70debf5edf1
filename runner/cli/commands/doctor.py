"""``vpneval doctor``: which VPNs this machine can run, and how to get what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from runner.cli import options
from runner.data.errors import require_known
from runner.data.guest import guest_name
from runner.data.named import HOST
from runner.data.options import join_values
from runner.data.streams import document
from runner.lab.names import DEFAULT_IMAGE, image_names, kernel_names

if TYPE_CHECKING:
    from runner.stages.examination import Check

MARKS = {"ok": ("ok", "green"), "warning": ("unsupported", "yellow"), "error": ("missing", "red")}
Row = tuple[str, str, str]  # level, what, and what is said of it


def doctor(
    image: options.ImageName = DEFAULT_IMAGE,
    lab: options.LabSpec = "netns",
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAME", help=f"ask this kernel: {', '.join(kernel_names())}")
    ] = HOST,
    vpns: Annotated[
        list[str] | None,
        typer.Option(
            "--vpn",
            metavar="A,B",
            help="ask only these VPNs; a file of your own: ./mine.py. Default: all VPNs",
            autocompletion=options.complete("vpns"),
        ),
    ] = None,
    max_rate: options.MaxRate = "",
    uplink: options.UplinkName = "",
    only_machine: Annotated[
        bool, typer.Option("--machine", help="look at this machine only; start no lab, ask no VPN")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Check which VPNs this machine can run.

    Every VPN is asked in a lab. The answer says what is missing and how to get it. --lab asks another lab instead,
    and --kernel a guest kernel.
    """
    more = "" if only_machine else " It then starts a lab and asks each VPN in it, which takes some seconds."
    if lab.startswith("site:"):
        more = " It then asks both gateways, which takes a minute; the first time, it sends them the lab image."
    options.begin(f"vpneval looks at this machine.{more}")
    from rich.table import Table
    from rich.text import Text

    from runner.cli.output import out
    from runner.lab import kernels
    from runner.stages.examination import examine, this_machine
    from runner.stages.guests import this_command_under

    (under,) = kernels.parse(kernel, lab, several=False)
    require_known("image", image, image_names())
    if under and not guest_name():
        raise typer.Exit(this_command_under(under, image, options.tell))
    checks = this_machine() if only_machine else examine(image, lab, join_values(vpns), max_rate, options.tell, uplink)
    if as_json:
        document(json.dumps([vars(check) for check in checks], indent=1) + "\n")
    else:
        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for _ in range(3):
            table.add_column(overflow="fold")
        for level, what, says in rows(checks):
            table.add_row(Text(*MARKS[level]), what, says)
        out.print(table)
    if any(check.level == "error" for check in checks) or none_of(checks):
        raise typer.Exit(3)


def rows(checks: Sequence[Check]) -> Iterator[Row]:
    """What was found, as few lines: what works in one, and of the rest each reason once. In the order of the checks."""
    commands = [check for check in checks if check.tool]
    if commands and all(check.level == "ok" for check in commands):
        yield "ok", "commands", ", ".join(check.tool for check in commands)
        commands = []
    vpns = [check for check in checks if check.vpn]
    for check in checks:
        if check in commands or not (check.vpn or check.tool):
            yield check.level, check.what, check.says
    works = dict.fromkeys(check.vpn for check in vpns)
    reasons: dict[str, dict[str, list[str]]] = {}
    for check in vpns:
        if check.level != "ok":
            works.pop(check.vpn, None)
            reasons.setdefault(check.says, {}).setdefault(check.vpn, []).append(check.configuration)
    configurations = {name: sum(check.vpn == name for check in vpns) for name in {check.vpn for check in vpns}}
    if works:
        yield "ok", "VPNs", ", ".join(works)
    for says, names in reasons.items():
        refused = [
            name if len(of) == configurations[name] else f"{name} ({', '.join(of)})" for name, of in names.items()
        ]
        yield "warning", "VPNs", f"{', '.join(refused)}: {says}"


def none_of(checks: Sequence[Check]) -> bool:
    """Were VPNs asked, and is there none that works here?"""
    vpns = [check for check in checks if check.vpn]
    return bool(vpns) and all(check.level != "ok" for check in vpns)
