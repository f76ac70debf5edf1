"""What the commands share: their options, and where they write.

It imports little, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from runner.data.errors import UsageError
from runner.data.guest import inside
from runner.data.named import MUSTS, TRAFFICS, USUAL
from runner.data.numbers import seconds
from runner.data.streams import standard_error
from runner.lab.names import LAB_FORMS, image_names, kernel_names

if TYPE_CHECKING:
    from runner.data.asked import AskedRun
    from runner.data.needs import Needs

PROFILE_NAMES = "quick, site, thesis, smallest"  # runner.design.profile has them; a test compares
MOST_REPETITIONS = 30  # runner.sweep.repeating's; a test compares

Experiments = Annotated[
    list[str],
    typer.Argument(
        metavar="EXPERIMENT", help="names from `vpneval list experiments`, or a file of your own: ./mine.py"
    ),
]
Vpns = Annotated[
    list[str] | None,
    typer.Option(
        "--vpn", metavar="A,B", help="measure only these VPNs; a file of your own: ./mine.py. Default: all VPNs"
    ),
]
AskedVpns = Annotated[
    list[str] | None,
    typer.Option("--vpn", metavar="A,B", help="ask only these VPNs; a file of your own: ./mine.py. Default: all VPNs"),
]
Instruments = Annotated[
    list[str] | None, typer.Option("--instrument", metavar="FILE", help="use an instrument of your own: ./mine.py")
]
QuestionName = Annotated[
    str,
    typer.Option(
        "--question", metavar="NAME", help="what the run has to answer: choose, rank, or one of your own: ./mine.py"
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FACTOR=LEVEL,…", help="measure only these levels; `vpneval list factors` names them"
    ),
]
TunnelLevels = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FACTOR=LEVEL,…", help="levels of the tunnel; `vpneval list factors` names them"),
]
ProfileName = Annotated[
    str, typer.Option("--profile", metavar="NAME", help=f"how long and how often to measure: {PROFILE_NAMES}")
]
Reps = Annotated[
    int | None, typer.Option("--reps", metavar="N", help="number of repetitions (blocks); default: the profile's")
]
Duration = Annotated[
    int | None,
    typer.Option(
        "--duration",
        metavar="SECONDS",
        help="length of each throughput test, and of each trial of a search by iperf3; default: the profile's",
    ),
]
Rounds = Annotated[
    int | None,
    typer.Option("--rounds", metavar="N", help="rounds of slices in each tunnel, without --deadline; default: 8"),
]
SliceLength = Annotated[
    float | None,
    typer.Option("--slice", metavar="SECONDS", help="length of each slice of TCP, where VPNs take turns; default: 0.2"),
]
LabSpec = Annotated[str, typer.Option("--lab", metavar="LAB", help=f"where the lab is built: {LAB_FORMS}")]
ImageName = Annotated[
    str, typer.Option("--image", metavar="NAME", help=f"the software of the lab's nodes: {', '.join(image_names())}")
]
MaxRate = Annotated[
    str, typer.Option("--max-rate", metavar="RATE", help="site lab: no test sends faster than this, as 200M or 1.5G")
]
UplinkName = Annotated[
    str, typer.Option("--uplink", metavar="NAME", help="site lab: this one of the lines that its inventory names")
]
Between = Annotated[
    str,
    typer.Option(
        "--between",
        metavar="01:00-05:00",
        help="site lab: measure in these hours only, this machine's time, or: '01:00-05:00 UTC'",
    ),
]
SearchRates = Annotated[
    str,
    typer.Option(
        "--search-rates",
        metavar="1M-5G",
        help="site lab: the lowest and the highest rate that the throughput searches offer",
    ),
]
SiteFile = Annotated[
    Path | None, typer.Option("--site", metavar="SITES.toml", help="for these two machines, as --lab site:")
]
OfRun = Annotated[
    Path | None,
    typer.Option("--run", metavar="DIR", help="as this run measured it: its levels, and the versions of the software"),
]
WriteTo = Annotated[
    Path | None,
    typer.Option("--write", metavar="DIR", help="make a directory for each gateway, with keys, files and units"),
]
Days = Annotated[int, typer.Option("--days", metavar="N", help="validity of the certificates")]
Gateways = Annotated[
    str,
    typer.Option(
        "--gateway-image", metavar="A,B", help="compare these images on the gateways: the software version as a factor"
    ),
]
Builds = Annotated[
    list[str] | None,
    typer.Option(
        "--build",
        metavar="VPN[@NAME]=PATH",
        help="measure a build of your own: a file in the place of the VPN's command, or a directory that goes over the "
        "image. One is compared with the image's own, two with each other: wireguard_go@old=./a, wireguard_go@new=./b. "
        "It runs as a program on the gateways; whose it may be is in docs/commands.md, 'In CI'",
    ),
]
KernelNames = Annotated[
    str,
    typer.Option(
        "--kernel",
        metavar="A,B",
        help=f"run under this kernel: {', '.join(kernel_names())}. Several kernels get a run each",
    ),
]
KernelName = Annotated[
    str, typer.Option("--kernel", metavar="NAME", help=f"ask this kernel: {', '.join(kernel_names())}")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="the order of the trials is drawn from this number")]
Json = Annotated[bool, typer.Option("--json", help="print JSON, and nothing else, on standard output")]
Rest = Annotated[
    str,
    typer.Option(
        "--rest",
        metavar="KERNEL",
        help="afterwards, measure under KERNEL if this machine's kernel lacks VPNs: a second run with its own ranking",
    ),
]
Install = Annotated[
    bool,
    typer.Option(
        "--install",
        help="build the layers that the VPNs need, and install the Debian packages that --rest needs; upgrade nothing",
    ),
]
OnlyMachine = Annotated[bool, typer.Option("--machine", help="look at this machine only; start no lab, ask no VPN")]
OutDir = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="the run folder; the same folder again continues the run"),
]
Deadline = Annotated[
    str,
    typer.Option(
        "--deadline",
        metavar="TIME",
        help="time limit: 360, 90s, 6m or 2h. Trials that do not fit are left out, and the report says how many",
    ),
]
Farm = Annotated[
    str,
    typer.Option(
        "--farm",
        metavar="SCHEDULER",
        help="spread the repetitions over machines: the address of a Dask scheduler (tls://host:8786), or local:N",
    ),
]
FarmEqual = Annotated[
    str,
    typer.Option(
        "--farm-equal", metavar="A,B", help="what the machines must have in common: kernel, image, versions, cpu, cores"
    ),
]
FarmTimeout = Annotated[
    str,
    typer.Option(
        "--farm-timeout",
        metavar="TIME",
        help="how long a repetition may take on a machine; default: five times as long as expected, and 10 minutes",
    ),
]
FarmInsecure = Annotated[
    bool,
    typer.Option("--farm-insecure", help="the network is trusted: a scheduler without TLS beyond this machine is used"),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="measure the trials again that failed before")]
UntilSignificant = Annotated[
    bool | None,
    typer.Option(
        "--until-significant/--no-until-significant",
        help="repeat what is undecided until every pair of VPNs is decided in every metric that counts (by --weights), "
        f"the --deadline is reached, or, without one, after {MOST_REPETITIONS} repetitions; the profile site does so "
        "where no --reps are given",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="exit with 1 if any trial gave no number; that a VPN is slow is a result")
]
Weights = Annotated[
    str,
    typer.Option("--weights", metavar="PRESET|FILE|metric=w,…", help="the weights of the ranking; `list presets`"),
]
Margin = Annotated[
    str,
    typer.Option(
        "--margin", metavar="10%|metric=10%,…", help="two VPNs count as equal if they differ by no more than this"
    ),
]
Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="FILE|DIR",
        help="use this file, or what is below this directory, if the run asks for it; of a farm: the scheduler's "
        "address",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="print neither progress nor report; errors are printed")]

NeedsFile = Annotated[
    Path | None,
    typer.Option("--needs", metavar="FILE", help="your needs as TOML: line, path_rtt, path_loss, traffic, cores, must"),
]
Line = Annotated[str, typer.Option("--line", metavar="RATE", help="the rate of your line, each way: 100M or 1G")]
PathRtt = Annotated[str, typer.Option("--path-rtt", metavar="TIME", help="round trip of the path without VPN: 20ms")]
PathLoss = Annotated[
    str, typer.Option("--path-loss", metavar="SHARE", help="share of the packets that the path loses: 0.0005 or 0.05%")
]
Cores = Annotated[
    str, typer.Option("--cores", metavar="N", help="CPU cores of your gateway: costs within 5 % of them are equal")
]
TrafficName = Annotated[
    str, typer.Option("--traffic", metavar="NAME", help=f"what the line carries: {', '.join(TRAFFICS)}; default: mixed")
]
MustHaves = Annotated[
    list[str] | None,
    typer.Option(
        "--must",
        metavar="A,B",
        help=f"what the VPN must have: {', '.join(MUSTS)}. {' and '.join(USUAL)} are in force unless you write, for "
        f"example, -{USUAL[0]}",
    ),
]

Full = Annotated[bool, typer.Option("--full", help="print every table in the terminal, and the answer below them")]


def tell(text: str) -> None:
    """Print this on standard error, as it is."""
    from runner.cli.output import err

    err.print(text, highlight=False, soft_wrap=True)


def joined(given: Sequence[str] | None) -> str:
    """The values of a repeated option as one text: ``--vpn a --vpn b`` is ``--vpn a,b``; so is ``--set``.

    Raises UsageError for one that names nothing: an unset variable of a script would otherwise measure everything.
    """
    text = ",".join(given or ())
    if given and not text.strip(" ,"):
        raise UsageError("--vpn, --set or --must is given without a value; leave the option out instead")
    return text


def each_level(text: str) -> str:
    """One ``--set`` with the factor before each level: ``version=debian,2026`` as ``version=debian,version=2026``."""
    parts = list[str]()
    for part in text.split(","):
        factor = parts[-1].partition("=")[0] if parts else ""
        parts.append(f"{factor}={part.strip()}" if factor and part.strip() and "=" not in part else part)
    return ",".join(parts)


def asked_for(context: typer.Context) -> AskedRun:
    """What the options of ``run`` and ``plan`` ask for. Raises UsageError for a malformed time, or malformed needs."""
    from pydantic import ValidationError

    from runner.data.asked import AskedFarm, AskedRun

    given = context.params
    found = {name: given[name] for name in AskedRun.model_fields if name in given}
    found |= {"vpns": joined(given["vpns"]), "levels": joined([*map(each_level, given["levels"] or ())])}
    found |= {name: given[name] or () for name in ("instruments", "builds")}
    found["deadline_s"] = seconds(given["deadline"]) if given["deadline"] else None
    found["needs"] = needs_of(context, _needs_before(given["out"]))
    found["farm"] = None
    if given.get("farm"):
        names = {"equal": "farm_equal", "timeout": "farm_timeout", "insecure": "farm_insecure"}
        found["farm"] = AskedFarm(address=given["farm"], **{name: given[option] for name, option in names.items()})
    try:
        return AskedRun(**found)
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise UsageError(f"{str(first['input'])[:60]!r} cannot be {first['loc'][0]}: {first['msg']}") from None


def _needs_before(folder: Path | None) -> Needs:
    """What the earlier calls on this folder stated."""
    from runner.catalogue import read_run
    from runner.data.files import is_there
    from runner.data.needs import Needs

    with suppress(UsageError):  # whoever opens the folder says what is wrong with it
        if folder and is_there(folder / "run.json"):
            return read_run(folder / "run.json").needs
    return Needs()


def needs_of(context: typer.Context, before: Needs) -> Needs:
    """What the options of a command say of the needs; what they do not say is as ``before``. Raises UsageError."""
    from runner.choice.stated import Given, stated

    given = context.params
    return stated(
        Given(**{name: given[name] for name in Given._fields if name != "must"}, must=joined(given["must"])), before
    )


def begin(text: str) -> None:
    """Print the first line of a command that loads for a while, on a terminal: within 0.3 s."""
    if standard_error() is not None and standard_error().isatty() and not inside():
        tell(text)
