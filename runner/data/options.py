"""The options of ``vpneval run``, and those that state needs: each once, as it is typed.

A command takes them as one parameter (runner/cli/options.py). runner/data/asked.py keeps what they ask for, and
runner/data/invocation.py makes a command line of that. Nothing large is imported, so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

from runner.data.errors import UsageError
from runner.data.named import HOST, IMAGE, MUSTS, TRAFFICS, USUAL


class Option(NamedTuple):
    """An option that a group has as a field: its type, how it is written, and its help, in which names that are known
    above this room only stand in braces."""

    type: Any
    flag: str
    metavar: str  # empty for a switch
    help: str


def option(default: Any, written: str, help_text: str) -> Any:
    """A field of a group: an option that is ``written`` as ``--flag VALUE``, or a switch ``--flag``."""
    return field(default=default, metadata={"written": written, "help": help_text})


@cache
def options_of(group: type) -> Mapping[str, Option]:
    """The options of a group, a dataclass: its fields that ``option`` has made."""
    types, found = get_type_hints(group), dict[str, Option]()
    for one in fields(group):
        if one.metadata:
            flag, _, metavar = one.metadata["written"].partition(" ")
            found[one.name] = Option(types[one.name], flag, metavar, one.metadata["help"])
    return found


@dataclass(frozen=True)
class NeedsOptions:
    """The options that state needs (runner/choice/stated.py reads them); empty where they were not given."""

    needs: Path | None = option(
        None, "--needs FILE", "your needs as TOML: line, path_rtt, path_loss, traffic, connections, cores, must"
    )
    line: str = option("", "--line RATE", "the rate of your line, each way: 100M; or to gw1 and from it: 100M/20M")
    path_rtt: str = option("", "--path-rtt TIME", "round trip of the path without VPN: 20ms")
    path_loss: str = option("", "--path-loss SHARE", "share of the packets that the path loses: 0.0005 or 0.05%")
    traffic: str = option("", "--traffic NAME", f"what the line carries: {', '.join(TRAFFICS)}; default: mixed")
    connections: str = option("", "--connections N", "TCP connections that share the line: 1 (default) or 8")
    cores: str = option("", "--cores N", "CPU cores of your gateway: costs within 5 % of them are equal")
    must: list[str] | None = option(
        None,
        "--must A,B",
        f"what the VPN must have: {', '.join(MUSTS)}. {' and '.join(USUAL)} are in force unless you write, for "
        f"example, -{USUAL[0]}",
    )


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, beside the needs. A field has the name of that of AskedRun that it fills; ``rest``,
    ``install`` and ``strict`` are about this call alone."""

    vpns: list[str] | None = option(
        None, "--vpn A,B", "measure only these VPNs; a file of your own: ./mine.py. Default: all VPNs"
    )
    builds: list[str] | None = option(
        None,
        "--build VPN[@NAME]=PATH",
        "measure a build of your own: a file in the place of the VPN's command, or a directory that goes over the "
        "image. One is compared with the image's own, two with each other: wireguard_go@old=./a, wireguard_go@new=./b. "
        "It runs as a program on the gateways; whose it may be is in docs/commands.md, 'In CI'",
    )
    at_least: str = option(
        "",
        "--at-least 5%|metric=5%,…",
        "of builds: where nothing was found, a change as small as this must have been visible; else exit code 6",
    )
    instruments: list[str] | None = option(None, "--instrument FILE", "use an instrument of your own: ./mine.py")
    question: str = option(
        "", "--question NAME", "what the run has to answer: choose, rank, or one of your own: ./mine.py"
    )
    levels: list[str] | None = option(
        None, "--set FACTOR=LEVEL,…", "measure only these levels; `vpneval list factors` names them"
    )
    profile: str = option("quick", "--profile NAME", "how long and how often to measure: {profiles}")
    repetitions: int | None = option(None, "--reps N", "number of repetitions (blocks); default: the profile's")
    duration_s: int | None = option(
        None,
        "--duration SECONDS",
        "length of each throughput test, and of each trial of a search by iperf3; default: the profile's",
    )
    rounds: int | None = option(None, "--rounds N", "rounds of slices in each tunnel, without --deadline; default: 8")
    slice_s: float | None = option(
        None, "--slice SECONDS", "length of each slice of TCP, where VPNs take turns; default: 0.2"
    )
    lab: str = option("netns", "--lab LAB", "where the lab is built: {labs}")
    kernel: str = option(HOST, "--kernel A,B", "run under this kernel: {kernels}. Several kernels get a run each")
    rest: str = option(
        HOST,
        "--rest KERNEL",
        "afterwards, measure under KERNEL if this machine's kernel lacks VPNs: a second run with its own ranking",
    )
    install: bool = option(
        False,
        "--install",
        "build the layers that the VPNs need, and install the Debian packages that --rest needs; upgrade nothing",
    )
    image: str = option(IMAGE, "--image NAME", "the software of the lab's nodes: {images}")
    gateway_images: str = option(
        "", "--gateway-image A,B", "compare these images on the gateways: the software version as a factor"
    )
    seed: int = option(1, "--seed N", "the order of the trials is drawn from this number")
    out: Path | None = option(None, "--out DIR", "the run folder; the same folder again continues the run")
    deadline_s: str = option(
        "",
        "--deadline TIME",
        "time limit: 360, 90s, 6m or 2h. Trials that do not fit are left out, and the report says how many",
    )
    retry_failed: bool = option(False, "--retry-failed", "measure the trials again that failed before")
    strict: bool = option(False, "--strict", "exit with 1 if any trial gave no number; that a VPN is slow is a result")
    until_significant: bool | None = option(
        None,
        "--until-significant/--no-until-significant",
        "repeat what is undecided until every pair of VPNs is decided in every metric that counts (by --weights), the "
        "--deadline is reached, or, without one, after {most} repetitions; the profile site does so where no --reps "
        "are given",
    )
    weights: str = option("", "--weights PRESET|FILE|metric=w,…", "the weights of the ranking; `list presets`")
    farm: str = option(
        "",
        "--farm SCHEDULER",
        "spread the repetitions over machines: the address of a Dask scheduler (tls://host:8786), or local:N",
    )
    farm_equal: str = option(
        "kernel,image,versions",
        "--farm-equal A,B",
        "what the machines must have in common: kernel, image, versions, cpu, cores",
    )
    farm_timeout: str = option(
        "",
        "--farm-timeout TIME",
        "how long a repetition may take on a machine; default: five times as long as expected, and 10 minutes",
    )
    farm_insecure: bool = option(
        False, "--farm-insecure", "the network is trusted: a scheduler without TLS beyond this machine is used"
    )
    max_rate: str = option("", "--max-rate RATE", "site lab: no test sends faster than this, as 200M or 1.5G")
    between: str = option(
        "",
        "--between 01:00-05:00",
        "site lab: measure in these hours only, this machine's time, or: '01:00-05:00 UTC'",
    )
    search_rates: str = option(
        "", "--search-rates 1M-5G", "site lab: the lowest and the highest rate that the throughput searches offer"
    )


def join_values(given: Sequence[str] | None) -> str:
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
