"""The answer in a terminal: the verdict in words, the ranking as a table of values, what to do next. Fits 80 x 24."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from runner.data.metric import Metric
from runner.ranking.ranking import Ranking, Standing
from runner.ranking.stats import Summary
from runner.ranking.verdicts import Verdict
from runner.ranking.words import chance
from runner.report import text
from runner.report.answer import (
    Answer,
    again,
    answers,
    longer,
    machine,
    minutes_for,
    missing,
    numbers_of,
    place_of,
    ranking_name,
    recipe,
    unit_of,
)
from runner.report.behind import RankedNumber
from runner.report.model import Report

WIDE = 110  # columns, from which on intervals stand beside the values
TALL = 40  # lines, from which on every ranking has its table
HALF = 1.0  # of the median: a wider half interval is told as a factor


def render_answer(report: Report, console: Console, folder: Path | None = None) -> None:
    """Print the answer. ``folder``: of the run, for the commands that go on with it."""
    where = str(folder or report.run_id)
    tall = console.height >= TALL or not console.is_terminal
    head = Text.assemble(("vpneval", "bold"), f" · {report.profile} profile · {_trials(report)}")
    console.print(Rule(head, style="cyan"))
    console.print(Text(machine(report), "dim"))
    found = answers(report)
    if not found:
        console.print("[bold red]Nothing to rank:[/] no VPN measured anything in a named configuration.")
    for at, answer in enumerate(found):
        if not answer.groups and any(other.groups for other in found):
            console.print(Text(f"{answer.name[:1].upper() + answer.name[1:]}: too little was measured for a ranking."))
        elif at == 0 or tall:
            _whole(report, answer, console, tall)
        else:
            console.print(_verdict(answer, tall))
    _next(report, found, where, console, tall)


def _verdict(answer: Answer, tall: bool) -> Text:
    meaning = f" ({answer.meaning})" if answer.meaning and tall else ""
    head = Text.assemble((answer.name[:1].upper() + answer.name[1:], "bold cyan"), (f"{meaning}: ", "dim"))
    return head.append(answer.verdict, "bold")


def _whole(report: Report, answer: Answer, console: Console, tall: bool) -> None:
    """One ranking's answer with its table."""
    ranking = report.rankings[answer.number]
    if tall:
        console.print()
    console.print(_verdict(answer, tall))
    if answer.against:
        first, second = answer.against[0].a, answer.against[0].b
        said = "; ".join(f"{_short(one.metric)} {_ratio(one)}" for one in answer.against)
        console.print(Text(f"{first} over {second}: {said}."))
    if answer.change and tall:
        console.print(Text(answer.change, "dim"))
    if answer.groups:
        console.print(values_table(ranking, numbers_of(report, answer.number), report.metrics, console.width))
    if answer.absent:
        console.print(Text.assemble(("Not ranked: ", "yellow"), " ".join(missing(answer))))


def values_table(
    ranking: Ranking, numbers: Mapping[str, RankedNumber], metrics: Mapping[str, Metric], width: int
) -> Table:
    """A row a VPN, a column a metric that counts: the value and its 95 % interval, or half of that in % where the
    terminal is narrow. VPNs that cannot be told apart share a place."""
    counted = [metric for metric in ranking.weights.counted if metric in numbers]
    wide = width >= WIDE
    table = Table(box=box.SIMPLE_HEAD, padding=(0, int(wide), 0, 0), show_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("VPN", no_wrap=True, min_width=11)
    table.add_column("best", justify="right", no_wrap=True)
    units = {}
    for metric in counted:
        units[metric] = unit_of(numbers[metric], metrics[metric].unit)
        weight = ranking.weights.counted[metric]
        head = _short(metric) + (f" ×{weight:g}" if weight != 1 else "")
        table.add_column(f"{head}\n{units[metric][1]}", justify="right", no_wrap=wide, overflow="fold")
    best = {metric: _best(numbers[metric], metrics[metric]) for metric in counted}
    places = place_of(ranking)
    for standing in ranking.standings:
        if not any(standing.vpn in numbers[metric].summaries for metric in counted):
            continue
        leads = places.get(standing.vpn, "").split("–")[0] == "1"
        row = [Text(places.get(standing.vpn, text.NONE)), Text(standing.vpn, "bold green" if leads else "bold")]
        row.append(Text(chance(standing.best_probability)))
        row += [_value(numbers[metric], standing, units[metric][0], wide, best[metric]) for metric in counted]
        table.add_row(*row, style="" if standing.place else "dim")
    return table


def ranking_so_far(
    ranking: Ranking, numbers: Sequence[RankedNumber], metrics: Mapping[str, Metric], width: int, ended: bool = False
) -> list[RenderableType]:
    """A ranking while it forms: the table, who is not in it yet, and what one repetition cannot tell."""
    blocks = max((count for standing in ranking.standings for count in standing.blocks.values()), default=0)
    waiting = ", ".join(vpns for vpns, _ in text.unranked(ranking))
    parts: list[RenderableType] = [Text(f"Ranking{'' if ended else ' so far'} {ranking_name(ranking)}", "bold cyan")]
    if any(standing.place for standing in ranking.standings):
        parts.append(values_table(ranking, {one.metric: one for one in numbers}, metrics, width))
    if blocks == 1:
        parts.append(Text("one repetition: all tie" + ("" if ended else ", the next ones will tell some apart"), "dim"))
    return parts + ([Text(f"not ranked{'' if ended else ' (yet)'}: {waiting}", "dim")] if waiting else [])


def _value(numbers: RankedNumber, standing: Standing, scale: float, wide: bool, best: str) -> Text:
    summary = numbers.summaries.get(standing.vpn)
    if summary is None:
        return Text(text.NONE, "dim")
    value = Text(text.digits(summary.median / scale), "green" if standing.vpn == best else "")
    if standing.vpn in numbers.at_least:
        value = Text("≥ ").append_text(value)
    return value.append(_spread(summary, scale, wide), "dim")


def _spread(summary: Summary, scale: float, wide: bool) -> str:
    if summary.low is None or summary.high is None:
        return " (no interval)" if wide else "?"
    if wide:
        return f" ({text.digits(summary.low / scale)}–{text.digits(summary.high / scale)})"
    half = (summary.high - summary.low) / 2 / summary.median if summary.median else 0.0
    if half <= HALF or summary.low <= 0:
        return f"±{100 * half:.0f}%"
    return f"×÷{math.sqrt(summary.high / summary.low):.2g}"


def _best(numbers: RankedNumber, metric: Metric) -> str:
    """Who has the best median."""
    sign = -1 if metric.better == "higher" else 1
    return min(numbers.summaries, key=lambda vpn: sign * numbers.summaries[vpn].median)


def _ratio(one: Verdict) -> str:
    said = f"{one.ratio:.3g}"
    if one.low is not None and one.high is not None:
        said += f" ({one.low:.3g} to {one.high:.3g})"
    return f"{said}, {one.decision}"


def _next(report: Report, found: Sequence[Answer], where: str, console: Console, tall: bool) -> None:
    """What to do next: the page, the recipe, more time, and everything else."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("Read", f"{where}/report.html")
    leader = next((answer.groups[0][0] for answer in found if answer.groups), "")
    if leader:
        levels = next(one.levels for one in report.rankings[found[0].number].standings if one.vpn == leader)
        grid.add_row("Set it up", recipe(leader, levels))
    more = next((answer for answer in found if minutes_for(report, answer)), None)
    if more:
        minutes = minutes_for(report, more) or 0
        said = f"{more.open} of {text.counted(more.pairs, 'pair')} are undecided; {longer(more.all_s)} would do:"
        command = again(report.command_line if tall else "the same command with", where, minutes)
        grid.add_row("Be surer", f"{said} {command}")
    grid.add_row("See all", f"vpneval report {where} --full")
    console.print(grid)


def _trials(report: Report) -> str:
    counts = ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in report.trials.items() if number)
    return f"{counts or 'no trials'} in {text.duration(report.elapsed_s)}"


def _short(metric: str) -> str:
    return text.SHORT.get(metric, metric)
