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

    The good commit is built and kept. git bisect then chooses commits; each is built and measured beside the good one,
    turn by turn, for --deadline at most. What cannot be built or told is passed over. Exit code 0: found. 6: not.
    """
    options.begin("vpneval looks at the commits.")
    from runner.cli.bisecting import Bisection
    from runner.cli.bisecting import bisect as search
    from runner.lab.places import rootless
    from runner.lab.software import builds

    vpn, name, path = builds.parse_build(build)
    folder = (out or Path("results") / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-bisect").resolve()
    rootless.enter("netns")
    asked = Bisection(
        build=f"{vpn}@{name}={path.resolve()}",
        good=folder / "good" / path.name,
        command=command,
        levels=[level for level in join_values(levels).split(",") if level],
        deadline_s=seconds(deadline),
        folder=folder,
    )
    raise typer.Exit(search(asked, good, bad))


def bisect_step(asked: Annotated[Path, typer.Argument(metavar="FILE", help="what bisect asked for")]) -> None:
    """A step of git bisect, for the vpneval that began it."""
    from runner.cli.bisecting import step_of
    from runner.lab.places import rootless

    rootless.enter("netns")
    raise typer.Exit(step_of(asked))
