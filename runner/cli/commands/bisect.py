"""``vpneval bisect``: which commit made a VPN slower."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from runner.cli import options
from runner.data.numbers import seconds
from runner.data.options import join_values


def bisect(
    build: Annotated[str, typer.Argument(metavar="VPN=PATH", help="the VPN, and what the command makes of it")],
    good: Annotated[str, typer.Option("--good", metavar="REV", help="a commit that is not slow")],
    bad: Annotated[str, typer.Option("--bad", metavar="REV", help="a later commit that is")],
    command: Annotated[str, typer.Option("--build", metavar="CMD", help="the command that builds PATH, for sh")],
    levels: options.Levels = None,
    deadline: options.Deadline = "5m",
    out: options.OutDir = None,
) -> None:
    """Find the commit that made a VPN slower, in the git work tree of its sources.

    git bisect chooses commits; each is built and takes turns with the good and the bad one, until it is clear to which
    it is nearer, for --deadline at most. What cannot be built or told is passed over. The same --out again goes on.
    Exit code 0: found. 6: not.
    """
    options.begin("vpneval looks at the commits.")
    from runner.cli import bisecting
    from runner.lab.places import rootless
    from runner.lab.software import builds

    vpn, _, path = builds.parse_build(build)
    folder = (out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-bisect").resolve()
    rootless.enter("netns")
    asked = bisecting.Bisection(
        vpn=vpn,
        product=path.resolve(),
        command=command,
        levels=tuple(level for level in join_values(levels).split(",") if level),
        deadline_s=seconds(deadline),
        folder=folder,
    )
    raise typer.Exit(bisecting.bisect(asked, good, bad))
