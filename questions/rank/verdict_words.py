"""The verdict on each pair of VPNs, metric by metric, in the words of every rendering."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from questions.rank.judgement import Spread, of_ranking
from runner.data.metric import Metric
from runner.design.blocks import Block, Heading, Paragraph, Table, TableCell
from runner.ranking.model import NO_INTERVAL, Ranking, Verdict
from runner.report import text

SHOWN = 8  # undecided pairs of a metric that a terminal shows
COMPARED = 50  # VPNs of a ranking whose pairs are listed; of more, report.json has all
LONG_S = 2 * 3600  # longer times are written in hours
SAYS = {"better": "better", "worse": "worse", "same": "the same", "undecided": "undecided"}
TONES = {"better": "good", "worse": "bad", "same": "note", "undecided": "warn"}
TITLE = (
    "Each pair of VPNs: the value of the first over that of the second, the interval that decides, and the verdict on "
    "the first"
)


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """``Of 20 pairs of VPNs in 2 metrics, 14 are decided (better or worse 9, the same 5) and 6 undecided.``"""
    if not verdicts:
        return ""
    same, open_ = (sum(verdict.decision == decision for verdict in verdicts) for decision in ("same", "undecided"))
    metrics = text.count_noun(len({verdict.metric for verdict in verdicts}), "metric")
    return (
        f"Of {text.count_noun(len(verdicts), 'pair')} of VPNs in {metrics}, {len(verdicts) - open_} are decided "
        f"(better or worse {len(verdicts) - same - open_}, the same {same}) and {open_} undecided."
    )


def about(verdicts: Sequence[Verdict], titles: dict[str, str]) -> str:
    """What the verdicts mean, with the margins of these metrics, in words."""
    margins = {titles[verdict.metric]: f"{100 * (verdict.margin - 1):.3g} %" for verdict in verdicts}
    listed = ", ".join(f"{text.lower(title)} {margin}" for title, margin in margins.items())
    return (
        f"The same: the two surely differ by less than the margin ({listed}). A false verdict or more among all pairs "
        "of the run has a probability of at most 5 %. So the interval that decides a pair is "
        f"one at {confidence(verdicts)}."
    )


def confidence(verdicts: Sequence[Verdict]) -> str:
    """The level of the intervals that decide, ``99.96 %``: the highest of these verdicts'."""
    return f"{100 * (1 - min(verdict.level for verdict in verdicts)):.4g} %"


def words(verdict: Verdict) -> str:
    """``1.43 (1.36–1.51) better``, or ``1.02 (0.9–1.15) undecided, about 3 min more``: the first VPN beside the
    second."""
    said = f"{ratio(verdict)} {SAYS[verdict.decision]}"
    if verdict.decision != "undecided":
        return said
    return f"{said}, {_reason(verdict) if verdict.seconds is None else time_more(verdict.seconds)}"


def sentence(metric: Metric, verdict: Verdict) -> str:
    """The verdict as a sentence."""
    a, b, what = verdict.a, verdict.b, metric.title if metric.title[1:2].isupper() else metric.title.lower()
    if verdict.ratio is None:
        return (
            f"{a} is {verdict.decision} than {b} in {what}."
            if verdict.decision in ("better", "worse")
            else (f"{a} and {b} have the same {what}." if verdict.decision == "same" else f"{what}: {verdict.reason}.")
        )
    times = f"{verdict.ratio:.3g}"
    if verdict.decisive_low is not None and verdict.decisive_high is not None:
        times += f" ({interval(verdict)})"
    has = f"{a} has {times} times the {what} of {b}{_at_rates(verdict)}"
    if verdict.decision == "same":
        return f"{has}: for a user the same, as it is surely less than a factor of {verdict.margin:.3g} away."
    if verdict.decision == "undecided":
        more = (
            f"about {verdict.seconds / 60:.0f} more minutes of these two would decide it"
            if verdict.seconds and (verdict.seconds >= 90)
            else "a minute more of these two would decide it"
        )
        return f"{has}, which may be chance: {verdict.reason or more}."
    return f"{has}: {verdict.decision}."


def _at_rates(verdict: Verdict) -> str:
    """The rates of a cost: that of a byte changes with them."""
    if verdict.a_bps is None or verdict.b_bps is None:
        return ""
    a, b = (_rate(rate_bps) for rate_bps in (verdict.a_bps, verdict.b_bps))
    return f", both at {a}" if a == b else f", each at its full speed ({a} and {b})"


def _rate(rate_bps: float) -> str:
    scale, unit = text.prefix(rate_bps, "bit/s")
    return f"{rate_bps / scale:.3g} {unit}"


def _reason(verdict: Verdict) -> str:
    return verdict.reason or NO_INTERVAL


def decided_or_not(undecided: int, pairs: int, seconds: float | None) -> str:
    """How many of the pairs are undecided, and how much longer would decide most of them, in a sentence."""
    if not undecided:
        return "Every pair of VPNs is decided in every metric that counts."
    longer = f"; {time_more(seconds)} would decide most of them" if seconds else ""
    return f"{undecided} of {text.count_noun(pairs, 'pair')} are undecided{longer}."


def time_more(seconds: float) -> str:
    """``about 40 s more``, ``about 3 min more``, ``about 5 h more``: one digit or two, as it is an estimate."""
    if seconds > LONG_S:
        return f"about {math.ceil(seconds / 3600)} h more"
    if seconds < 90:
        return f"about {max(1, math.ceil(seconds))} s more"
    return f"about {math.ceil(seconds / 60)} min more"


def ratio(verdict: Verdict) -> str:
    """The ratio and its interval: ``1.43 (1.36–1.51)``; a dash where there is no ratio."""
    if verdict.ratio is None:
        return text.NONE
    return f"{verdict.ratio:.3g} ({interval(verdict, '–')})"


def interval(verdict: Verdict, to: str = " to ") -> str:
    """The interval that decides: ``1.36 to 1.51``; words where there is none, or where it tells nothing."""
    if not verdict.decisive_low or not verdict.decisive_high:
        return "no interval"
    if verdict.decisive_high / verdict.decisive_low > text.HUGE**2:
        return "too little is known yet"
    return f"{verdict.decisive_low:.3g}{to}{verdict.decisive_high:.3g}"


def table(verdicts: Sequence[Verdict], titles: dict[str, str]) -> Table:
    """A row for each pair, a column for each metric."""
    metrics = list(dict.fromkeys(verdict.metric for verdict in verdicts))
    pairs: dict[str, dict[str, TableCell]] = {}
    for verdict in verdicts:
        cell = TableCell(words(verdict), tone=TONES[verdict.decision])
        pairs.setdefault(f"{verdict.a} beside {verdict.b}", {})[verdict.metric] = cell
    rows = [[pair, *(cells.get(metric, text.NONE) for metric in metrics)] for pair, cells in pairs.items()]
    return Table(TITLE, ["pair", *(titles[metric] for metric in metrics)], rows, named=True)


def spread_words(spread: Sequence[Spread], ranking: Ranking, metrics: Mapping[str, Metric]) -> str:
    """Where the spread of each metric that counts comes from, in a sentence; empty where none was measured by
    rounds."""
    phrases = []
    counts = ranking.weights.counted_metrics
    for row in spread:
        if (row.configuration, row.image) == (ranking.configuration, ranking.image) and row.metric in counts:
            parts = row.components
            instance = "" if parts.instance is None else f", {row.between} {100 * parts.instance:.1f} %"
            name = text.short(row.metric, metrics)
            phrases.append(f"{name} slices {100 * parts.slice:.0f} %, rounds {100 * parts.round:.0f} %{instance}")
    return f"Where the spread comes from (standard deviations): {'; '.join(phrases)}." if phrases else ""


def section(
    verdicts: Sequence[Verdict], spread: Sequence[Spread], ranking: Ranking, metrics: Mapping[str, Metric]
) -> list[Block]:
    """The section below a ranking; empty where the ranking has no pairs."""
    mine, first = of_ranking(verdicts, ranking), first_vpns(ranking)
    if not mine:
        return []
    few = [pair for pair in mine if pair.a in first and pair.b in first]
    left_out = f"Listed are the pairs of the first {len(first)} VPNs; report.json has all."
    return [
        Heading("Verdicts", "verdicts", level=3, fold="The verdict on each pair"),
        Paragraph(f"{about(mine, ranking.titles)} {spread_words(spread, ranking, metrics)}".rstrip()),
        Paragraph(count_verdicts(mine), "strong"),
        *([Paragraph(left_out)] if len(few) < len(mine) else []),
        table(few, ranking.titles),
    ]


def first_vpns(ranking: Ranking) -> list[str]:
    """The VPNs whose pairs are listed, in the ranking's order: all, or the first of very many."""
    return [standing.vpn for standing in ranking.standings][:COMPARED]


def not_decided(mine: Sequence[Verdict], metrics: Mapping[str, Metric]) -> list[tuple[str, str]]:
    """For each metric its short name, and in words the pairs that are the same and those that are undecided. ``mine``:
    the verdicts of one ranking."""
    lines = []
    for metric in dict.fromkeys(verdict.metric for verdict in mine):
        own = [verdict for verdict in mine if verdict.metric == metric]
        same = [f"{verdict.a} and {verdict.b}" for verdict in own if verdict.decision == "same"]
        phrases = [f"the same: {', '.join(same)}"] if same else []
        reasons: dict[str, list[str]] = {}
        for verdict in own:
            if verdict.decision == "undecided":
                reasons.setdefault(_reason(verdict) if verdict.seconds is None else "", []).append(
                    _undecided_words(verdict)
                )
        for reason, pairs in reasons.items():
            left = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
            phrases.append(f"undecided{f' ({reason})' if reason else ''}: {', '.join(pairs[:SHOWN])}{left}")
        if phrases:
            lines.append((text.short(metric, metrics), "; ".join(phrases)))
    return lines


def _undecided_words(verdict: Verdict) -> str:
    pair = f"{verdict.a} or {verdict.b}"
    return pair if verdict.seconds is None else f"{pair} {ratio(verdict)}, {time_more(verdict.seconds)}"
