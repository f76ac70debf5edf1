"""``vpneval plan``: the cells, the number of trials and their time, as a table or as JSON."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from typing import Any, NamedTuple

from rich.table import Table

from runner.catalogue import load_run
from runner.cli.ending import NOTHING_MEASURED
from runner.cli.options import tell
from runner.cli.output import out
from runner.data.asked import AskedRun
from runner.data.errors import VpnevalError
from runner.data.files import is_there
from runner.data.levels import TUNNEL_FACTORS, UPLINK
from runner.data.numbers import roughly
from runner.data.streams import document
from runner.data.trials import Trial
from runner.design.question import Evidence, Left
from runner.instruments.traffic.udp import search_of
from runner.lab.places.hours import Hours
from runner.lab.software.image import packages_of
from runner.report.text import wan
from runner.search.settings import LOSS_RATIO, UdpSearch
from runner.sweep.plan import any_turns
from runner.sweep.repeating import MOST_REPETITIONS
from runner.sweep.request import Request, resolve, shows
from runner.sweep.rest import with_seen_needs
from runner.sweep.run import ask_vpns
from runner.sweep.supported import lost_levels, sentences_on

ONE_AT_A_TIME = (
    "One tunnel stands at a time in this lab. The turns of two VPNs are minutes apart, so that what the machines do in "
    "the meantime does not cancel: on two shared cores it moved throughput by 7 % and round-trip times by 12 % from "
    "one round to the next. This error shrinks with the root of the number of repetitions (--reps)."
)


class Open(NamedTuple):
    """What has no sure answer yet: how many, for how long to go on, and both in words."""

    undecided: int
    longer_s: float | None
    words: str


def show(request: Request, as_json: bool) -> None:
    """Print what ``request`` would measure, and how long that takes if every VPN can run here. For a folder that has a
    run, print what that lacks, and how long a sure answer takes."""
    still_open, seen = so_far(request)
    trials, expected_s = request.expected_time(seen)
    if as_json:
        figures: dict[str, Any] = {"trials": trials, "expected_s": round(expected_s)}
        if still_open:
            longer_s = still_open.longer_s
            figures |= {"undecided": still_open.undecided, "minutes_more": round(longer_s / 60) if longer_s else None}
        document(json.dumps(figures | {"cells": [cell.model_dump() for cell in request.cells]}, indent=1) + "\n")
        return
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("vpn", "tunnel", "traffic"):
        table.add_column(column, overflow="fold")
    for cell in request.cells:
        tunnel = [cell.params[f] for f in ("cipher", "integrity", "compression", "image", UPLINK) if f in cell.params]
        tunnel += filter(None, [wan(cell.params)])
        traffic = [
            f"{f} {level}" if level.isdigit() or f == "fragmentation" else level
            for f, level in cell.params.items()
            if f not in TUNNEL_FACTORS
        ]
        table.add_row(cell.vpn, ", ".join(tunnel), ", ".join(traffic))
    out.print(table)
    lacks = f" that {request.asked.out} lacks" if seen else ""
    out.print(
        f"\n{len(request.cells)} cells × {request.repetitions} repetitions, with the baseline: {trials} trials{lacks}, "
        f"about {roughly(expected_s)} if every VPN can run here. {request.profile.note}.",
        highlight=False,
    )
    for sentence in limits(request):
        out.print(sentence, highlight=False)
    if still_open:
        out.print(still_open.words, highlight=False)


def tell_lost(request: Request) -> int:
    """Print which cells this machine cannot measure, where levels are asked for and it can be asked: as root, with the
    images built. Returns the exit code, that of the run."""
    images = [request.asked.image, *request.asked.gateway_images]
    if not request.chosen or request.asked.lab != "netns" or os.geteuid() or None in map(packages_of, images):
        return 0
    refused = ask_vpns(request)
    for sentence in sentences_on(refused, request.cells):
        tell(sentence)
    levels = lost_levels(request.chosen, request.cells, {cell.key for cell, _ in refused})
    if levels:
        tell(f"No VPN can be measured with {', '.join(levels)}.")
    return NOTHING_MEASURED if levels else 0


def expected_time(asked: AskedRun) -> tuple[int, float] | None:
    """The trials of a run that is asked for so, and their seconds, if every VPN can run; None where it cannot be
    planned here, as one that names a file of another machine."""
    try:
        return resolve(asked).expected_time()
    except VpnevalError:
        return None


def so_far(request: Request) -> tuple[Open | None, list[Trial]]:
    """The trials of the run in the folder of ``request``, and what is open of its question if the run goes on until it
    is answered."""
    if request.asked.out is None or not is_there(request.asked.out / "run.json"):
        return None, []
    run, trials = load_run(request.asked.out)
    if not request.until_significant:
        return None, trials
    question, evidence = request.question, Evidence(run, trials, request.weights)
    judgement = question.judge(evidence)
    undecided = question.going(evidence, judgement, request.cells, math.inf).undecided
    longer_s = question.longer_s(evidence, judgement)
    return Open(len(undecided), longer_s or None, question.tell_open(evidence, judgement)), trials


def searches(request: Request) -> list[str]:
    """How the UDP throughput is going to be searched for, a sentence for each search that there is."""
    profile = request.profile
    cells = [cell for cell in request.cells if cell.params["measure"] == "udp"]
    in_turns = "in turns, " * any_turns(cells, profile)
    return [
        _describe_search(search, in_turns)
        for search in dict.fromkeys(search_of(cell.params, profile) for cell in cells)
    ]


def _describe_search(search: UdpSearch, in_turns: str) -> str:
    """How this search finds the UDP throughput."""
    each = f"{search.trial_s:g} s"
    if search.engine == "binary":
        return (
            f"UDP throughput by iperf3, a binary search: from {search.max_rate_bps / 1e6:g} Mbit/s, or where the "
            f"last repetition ended, {search.trials} trials of {each} at each rate. A mean loss of at most "
            f"{LOSS_RATIO:.0%} passes. It ends within ±{search.relative_width:.1%}, after the rate that failed was "
            "tried once more."
        )
    if search.engine == "rounds":
        return (
            f"UDP throughput by the packet generator: trials of {each}, {in_turns}at rates around the one whose median "
            f"trial loses {LOSS_RATIO:.0%}."
        )
    at_each = f", {search.trials} at each rate" if search.trials > 1 else ""
    return f"UDP throughput by iperf3, searched by {search.engine} in trials of {each}{at_each} (docs/search.md)."


def limits(request: Request) -> list[str]:
    """Sentences on how the options change that time."""
    deadline_s = request.asked.deadline_s
    sentences = [ONE_AT_A_TIME] if request.asked.lab != "netns" and any_turns(request.cells, request.profile) else []
    if request.until_significant:
        most = MOST_REPETITIONS if deadline_s is None else request.repetitions
        _, longest_s = replace(request, repetitions=max(most, request.repetitions)).expected_time()
        end = "until the deadline" if deadline_s else f"up to {most} repetitions, at most {roughly(longest_s)}"
        sentences.append(f"--until-significant then repeats what is undecided: {end}.")
    if deadline_s:
        sentences.append(f"--deadline ends the run after {roughly(deadline_s)}; trials that do not fit are left out.")
    left = Left([vpn.name for vpn in request.later], own_lab=shows(request.asked))
    sentences += request.question.plan(with_seen_needs(request), left)
    sentences += searches(request)
    if rate_bps := request.limits.get("max_rate_bps"):
        sentences.append(f"--max-rate: no test sends faster than {rate_bps / 1e6:g} Mbit/s.")
    if between := request.limits.get("between"):
        begin, _, end = between.partition("-")
        zone = "" if " " in end else f" {Hours(between).zone}"
        sentences.append(
            f"--between: tests run from {begin} to {end}{zone} only. The run waits until then, and the deadline counts "
            "from then. No tunnel begins that would last longer than these hours."
        )
    return sentences
