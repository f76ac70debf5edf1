"""The rankings on the page: cards, the ranking as values, one VPN against another, and how each was set up."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from questions.rank import verdict_words
from questions.rank.blocks import NOTHING_TO_RANK
from questions.rank.judgement import Ranked, RankedNumber
from questions.rank.places import doubts, place_of, ranking_name, unit_of, unranked_vpns, weights_words
from questions.rank.values import ARROWS
from questions.rank.verdict_words import sentence
from questions.rank.words import MEANINGS, RankingAnswer, answers, change, go_on, missing, recipe, set_up, sure
from runner.data.files import word
from runner.data.invocation import asked_of
from runner.data.numbers import chance
from runner.design.blocks import Block, Heading, Hyperlink, Table, TableCell
from runner.design.question import Page
from runner.ranking.model import Standing
from runner.report import text
from runner.report.plots.drawing import wide

ABOUT = "Each VPN's median and 95 % interval, at the configuration's levels."
TITLE = "Each VPN's numbers"


def context(ranked: Ranked, where: str, page: Page) -> dict[str, Any]:
    """What the page shows. ``where``: the run folder, for the commands that continue the run."""
    every, run = answers(ranked), ranked.evidence.run
    shown = every if ranked.is_shown else []
    listed = {vpn for one in every for vpn in verdict_words.first_vpns(one.ranking)}
    compared = {vpn for pair in ranked.verdicts for vpn in (pair.a, pair.b)} & listed
    own = [standing.vpn for one in every[:1] for standing in one.ranking.standings]
    order = dict.fromkeys([*([] if shown else page.order), *own, *sorted(compared)])
    return {
        "shown": ranked.is_shown,
        "nothing": NOTHING_TO_RANK,
        "rankings": [(one.number, one.name, one.title, _sections_below(ranked, one, page)) for one in every],
        "cards": [_card(ranked, one, where) for one in shown],
        "matrices": [_matrix(ranked, one, page) for one in shown],
        "meanings": [(text.NAMES[name], MEANINGS[name]) for name in ("recommended", "comparable")],
        "by_weights": f"vpneval report {word(where)} --weights rtt=1,tcp_throughput=2",
        "compared": sorted(compared),
        "first_two": [vpn for vpn in order if vpn in compared][:2],
        "references": [name for name, record in run.vpns.items() if record.reference],
        "setups": _setups(ranked, page),
    }


def pairs(ranked: Ranked) -> list[dict[str, Any]]:
    """For the script: of each ranking the verdict on each pair in each metric, both ways: the ratio, and a sentence. Of
    very many VPNs the pairs of the first."""
    first = [{*verdict_words.first_vpns(made)} for made in ranked.rankings]
    return [
        {
            "name": ranking_name(made),
            "pairs": [
                {
                    "metric": pair.metric,
                    "a": pair.a,
                    "b": pair.b,
                    "ratio": None if pair.ratio is None else float(f"{pair.ratio:.4g}"),
                    "decision": pair.decision,
                    "says": sentence(ranked.metrics[pair.metric], pair),
                }
                for verdict in ranked.verdicts
                if (verdict.configuration, verdict.image) == (made.configuration, made.image)
                and verdict.a in listed
                and verdict.b in listed
                for pair in (verdict, verdict.other_way)
            ],
        }
        for made, listed in zip(ranked.rankings, first, strict=True)
    ]


def _card(ranked: Ranked, answer: RankingAnswer, where: str) -> dict[str, Any]:
    """The verdict card of one ranking."""
    return {
        "number": answer.number,
        "title": answer.title,
        "verdict": answer.verdict,
        "against": [sentence(ranked.metrics[pair.metric], pair) for pair in answer.against],
        "broke": answer.broke,
        "change": answer.change,
        "sure": sure(ranked, answer),
        "again": go_on(ranked, answer, where),
        "missing": missing(answer.absent),
        "recipe": set_up(ranked, answer),
        "leader": answer.groups[0][0] if answer.groups else "",
    }


def _sections_below(ranked: Ranked, answer: RankingAnswer, page: Page) -> list[list[Block]]:
    """The sections that unfold below a ranking: the verdict on each pair, and the numbers behind the ranks, as far as
    neither the ranking nor an experiment lists them."""
    verdicts = verdict_words.section(ranked.verdicts_of(answer.ranking), ranked.spreads, answer.ranking, ranked.metrics)
    tables = page.tables[answer.number]
    rest = [one for one in ranked.behind[answer.number] if not ranked.is_shown or one.metric not in tables]
    return [verdicts, _numbers(ranked, rest, answer.number, tables)]


def _numbers(ranked: Ranked, numbers: Sequence[RankedNumber], ranking: int, tables: Mapping[str, str]) -> list[Block]:
    """The section with the numbers of the ranking of this number; empty where it has none. ``tables``: metric -> the
    name of the table of an experiment that has its trials."""
    if not numbers:
        return []
    vpns = list(dict.fromkeys(vpn for number in numbers for vpn in number.summaries))
    rows: list[list[str | TableCell]] = []
    for number in numbers:
        known = ranked.metrics[number.metric]
        link = Hyperlink("", name=tables[number.metric]) if number.metric in tables else None
        about = f"{known.better} is better; {number.traffic}"
        metric = TableCell(known.title, small=about, name=_row_id(ranking, number.metric), link=link)
        rows.append([metric, *[_number(number, vpn, known.unit) for vpn in vpns]])
    table = Table(ABOUT, ["metric", *vpns], rows, numbers=range(1, len(vpns) + 1), named=True)
    return [Heading(TITLE, f"behind-{ranking}", level=3, fold=TITLE), table]


def _number(number: RankedNumber, vpn: str, unit: str) -> str:
    if vpn not in number.summaries:
        return text.NONE
    return text.with_interval(number.summaries[vpn], unit, vpn in number.at_least)


def _row_id(ranking: int, metric: str) -> str:
    return f"behind-{ranking}-{metric}"


def _matrix(ranked: Ranked, answer: RankingAnswer, page: Page) -> dict[str, Any]:
    """The ranking as values: columns are metrics, rows are VPNs in their order; VPNs without a place come last. A cell
    has its value, its interval, and the position of both on the column's axis."""
    ranking, numbers = answer.ranking, answer.numbers
    columns = []
    for metric in ranking.weights.counted_metrics:
        if not (number := numbers.get(metric)):
            continue
        known = ranked.metrics[metric]
        scale, unit = unit_of(number, known.unit)
        columns.append(
            {
                "metric": metric,
                "short": known.short or known.title,
                "unit": unit,
                "arrow": ARROWS[known.better],
                "link": page.tables[answer.number].get(metric) or _row_id(answer.number, metric),
                "cells": {standing.vpn: _cell(number, standing, scale) for standing in ranking.standings},
            }
        )
    places = place_of(ranking)
    measured = [
        standing
        for standing in ranking.standings
        if standing.place or any(standing.vpn in number.summaries for number in numbers.values())
    ]
    ordered = [[standing for standing in measured if standing.vpn in group] for group in answer.groups]
    ordered.append([standing for standing in measured if not standing.place])
    return {
        "number": answer.number,
        "name": answer.name,
        "configuration": ranking.configuration,
        "slack": change(ranking, most=None),
        "weights": weights_words(ranking, ranked.metrics),
        "columns": columns,
        "groups": [[_row(standing, places) for standing in group] for group in ordered if group],
        "nobody": not places,
        "doubts": doubts(ranking),
        "unranked": [{"vpns": vpns, "why": why} for vpns, why, _ in unranked_vpns(ranking)],
    }


def _row(standing: Standing, places: Mapping[str, str]) -> dict[str, str | bool]:
    return {
        "vpn": standing.vpn,
        "placed": standing.vpn in places,
        "levels": text.configuration(standing.levels),
        "place": places.get(standing.vpn, text.NONE),
        "chance": chance(standing.best_probability),
        "average": "" if standing.average is None else f"{standing.average:.2f}",
    }


def _cell(number: RankedNumber, standing: Standing, scale: float) -> dict[str, str]:
    """One cell: the value, its interval in words, the position of both on the column's axis in percent, and the
    expected rank. The value is empty where it is missing."""
    rank = standing.ranks.get(number.metric)
    cell = {"value": "", "rank": "" if rank is None else f"rank {rank:.1f}"}
    summary = number.summaries.get(standing.vpn)
    if summary is None:
        return cell
    ends = [end for each in number.summaries.values() for end in (each.low, each.median, each.high) if end is not None]
    at = _axis(ends)
    low, high = summary.low, summary.high
    left, right = at(summary.median if low is None else low), at(summary.median if high is None else high)
    return cell | {
        "value": "≥ " * (standing.vpn in number.at_least) + text.digits(summary.median / scale),
        "interval": text.spread(summary, scale),
        "whisker": f"--from:{left:.1f}%;--to:{right:.1f}%;--at:{at(summary.median):.1f}%",
    }


def _axis(ends: Sequence[float]) -> Callable[[float], float]:
    """The function from a value to its position in percent. The axis begins at zero, or at the lowest end in a column
    that spans much, and ends at the highest end."""
    top, bottom = max(ends, default=1.0), min(ends, default=0.0)
    if wide(ends):
        width = math.log(top / bottom)
        return lambda value: 100 * min(1.0, max(0.0, math.log(max(value, bottom) / bottom) / width))
    floor = min(0.0, bottom)
    span = top - floor or 1.0  # 1.0 where all are zero
    return lambda value: 100 * min(1.0, max(0.0, (value - floor) / span))


def _setups(ranked: Ranked, page: Page) -> list[dict[str, Any]]:
    """How each VPN that was measured was set up: the levels, the command that prints the recipe, a trial's commands."""
    asked = asked_of(ranked.evidence.run)
    logged = [trial for trial in ranked.evidence.trials if trial.status == "ok" and trial.id in page.logs]
    made = []
    for number, ranking in enumerate(ranked.rankings):
        for standing in ranking.standings:
            if not standing.blocks:
                continue
            mine = (one for one in logged if one.vpn == standing.vpn and standing.levels.items() <= one.params.items())
            log = next((page.logs[one.id] for one in mine), "")
            made.append(
                {
                    "number": number,
                    "vpn": standing.vpn,
                    "levels": ", ".join(f"{factor}={level}" for factor, level in standing.levels.items()),
                    "recipe": recipe(standing.vpn, standing.levels, asked),
                    "log": Hyperlink("commands", file=f"{log}/commands.log") if log else None,
                }
            )
    return made
