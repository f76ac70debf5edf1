"""What the commands share: their options, and where they write."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperOption

from runner.cli.output import err
from runner.data.errors import UsageError
from runner.data.streams import output_to
from runner.design.profile import PROFILES
from runner.lab import image as images
from runner.lab import kernels
from runner.lab.places import FORMS
from runner.sweep.until import MOST_REPETITIONS

Experiments = Annotated[
    list[str], typer.Argument(metavar="EXPERIMENT…", help="see: vpneval list experiments; or ./mine.py")
]
Vpns = Annotated[
    list[str] | None, typer.Option("--vpn", metavar="A,B", help="only these VPNs (or ./mine.py); default: all")
]
Instruments = Annotated[
    list[str] | None, typer.Option("--instrument", metavar="FILE", help="an instrument of your own: ./mine.py")
]
Levels = Annotated[list[str] | None, typer.Option("--set", metavar="FACTOR=LEVEL,…", help="see: vpneval list factors")]
ProfileName = Annotated[str, typer.Option("--profile", help=f"{', '.join(PROFILES)}")]
Reps = Annotated[int | None, typer.Option("--reps", help="repetitions (blocks); default: the profile's")]
Duration = Annotated[int | None, typer.Option("--duration", help="seconds of each throughput test")]
LabSpec = Annotated[str, typer.Option("--lab", metavar="LAB", help=FORMS)]
ImageName = Annotated[str, typer.Option("--image", help=f"{', '.join(images.names())}")]
Gateways = Annotated[str, typer.Option("--gateway-image", metavar="A,B", help="the gateways' software as a factor")]
KernelNames = Annotated[
    str, typer.Option("--kernel", metavar="A,B", help=f"{', '.join(kernels.names())}; several: side by side")
]
KernelName = Annotated[str, typer.Option("--kernel", metavar="NAME", help=", ".join(kernels.names()))]
Seed = Annotated[int, typer.Option("--seed", help="of the order of the trials")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, and nothing else, on standard output")]
Rest = Annotated[
    str,
    typer.Option("--rest", metavar="KERNEL", help="then, if this one lacks VPNs: all under that, ranked apart"),
]
OutDir = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="run folder; the same again resumes")]
Deadline = Annotated[str, typer.Option("--deadline", metavar="TIME", help="end by then (6m): trims what is last")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="measure failed trials again")]
UntilSignificant = Annotated[
    bool,
    typer.Option(
        "--until-significant",
        help="then repeat what may still change the ranking's order (by --weights; rtt=1 for one metric), "
        f"until the --deadline, or {MOST_REPETITIONS} blocks where there is none",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="exit code 1 if any measurement gave no number")]
WeightsAtTheEnd = Annotated[str, typer.Option("--weights", help="of the report at the end")]
Weights = Annotated[str, typer.Option("--weights", metavar="PRESET|FILE|metric=w,…", help="see: list presets")]
Margin = Annotated[
    str, typer.Option("--margin", metavar="10%|metric=10%,…", help="two VPNs are the same up to this difference")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress, no report")]


def tell(text: str) -> None:
    """Say it on standard error, as it is."""
    err.print(text, markup=False, highlight=False, soft_wrap=True)


def joined(given: Sequence[str] | None) -> str:
    """``--vpn a --vpn b`` is ``--vpn a,b``, and ``--set`` so, too.

    Raises UsageError for one that names nothing: an unset variable of a script would else measure everything.
    """
    text = ",".join(given or ())
    if given and not text.strip(" ,"):
        raise UsageError("--vpn and --set name something where they are given; leave them out for all there is")
    return text


class Once(TyperCommand):
    """A command that refuses an option given twice, of which the last would count and the others be forgotten.

    While it works, standard output is its alone: what a plugin prints goes to standard error.

    Raises UsageError, but not in a guest, whose command line is this one with another ``--out`` behind it.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What click makes of the arguments. Raises UsageError for an option that is given twice."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for given in order:
            once = isinstance(given, TyperOption) and not given.is_flag and not given.multiple
            if once and order.count(given) > 1 and not kernels.inside():
                raise UsageError(f"{given.opts[0]} is given {order.count(given)} times; it takes one value")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Do the command's work."""
        with output_to(sys.stdout):
            return super().invoke(ctx)
