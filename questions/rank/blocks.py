"""The rankings as blocks: the answer of each in words, its values, its ranks, the verdicts on its pairs, and what to do
next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from questions.rank import machines, terminal, verdict_words
from questions.rank.caveats import caveats
from questions.rank.judgement import Ranked
from questions.rank.places import doubts, rank_rows, unranked_vpns, weights_words
from questions.rank.values import values
from questions.rank.verdict_words import sentence
from questions.rank.words import RankingAnswer, answers, change, go_on, missing, set_up, sure, surer
from runner.data.metric import Metric
from runner.design.blocks import Block, Heading, Note, Paragraph, Table
from runner.design.question import Next, Said
from runner.ranking.model import Ranking
from runner.report import text

NOTHING_TO_RANK = "Nothing to rank: no VPN measured anything in a named configuration."


def say(ranked: Ranked, where: str) -> Said:
    """The answer in words. ``where``: the run folder, as commands name it; empty: without these commands. Where another
    answer leads the report, the verdicts alone, and what a terminal shows with --full."""
    every = answers(ranked)
    compared = any(ranking.pairs for ranking in ranked.rankings)
    counted = {metric for ranking in ranked.rankings for metric in ranking.weights.counted_metrics}
    below, methods = list[Block](), dict[str, None]()
    for made in ranked.rankings:
        below += ranking(made, ranked.metrics) if ranked.is_shown else []
        below += verdict_words.section(ranked.verdicts_of(made), ranked.spreads, made, ranked.metrics)
        methods |= dict.fromkeys((made.method, made.probability_method)) if ranked.is_shown else {}
    shown = every if ranked.is_shown else []
    return Said(
        line=f"{shown[0].name}: {shown[0].verdict}" if shown else "",
        headline=shown[0].verdict if shown else "",
        brief=terminal.brief(ranked, shown) if ranked.is_shown else [],
        roomy=terminal.brief(ranked, shown, roomy=True) if ranked.is_shown else [],
        tables=terminal.tables(ranked),
        whole=[block for one in shown for block in answer(ranked, one, where)],
        below=below if ranked.rankings else [Paragraph(NOTHING_TO_RANK)],
        sections={"machines": machines.section(ranked.machines)},
        steps=_next_steps(ranked, shown, where),
        caveats=caveats(ranked),
        how=[f"Ranking: {method}." for method in methods],
        compares=counted if compared else (),
        asked=ranked.weighed,
    )


def _next_steps(ranked: Ranked, every: Sequence[RankingAnswer], where: str) -> list[Next]:
    """Set up the first VPN, and measure longer."""
    commands = [set_up(ranked, one) for one in every if one.groups]
    unsure = [(go_on(ranked, one, where), sure(ranked, one).rstrip(".")) for one in every if go_on(ranked, one, where)]
    return [
        *(Next("Set it up", command) for command in commands[:1]),
        *(Next("Be surer", command, why) for command, why in unsure[:1]),
    ]


def answer(ranked: Ranked, one: RankingAnswer, where: str = "") -> list[Block]:
    """The answer of one ranking: the verdict in words, the ranking as values, the first VPN against the second, the
    weights that would change the order, how much longer a sure answer takes, and the VPNs that are not ranked.
    ``where``: the run folder, for the command that continues the run; empty: without that command."""
    longer = [surer(ranked, one, where) if where else sure(ranked, one)] if one.pairs else []
    sentences = [
        *(sentence(ranked.metrics[pair.metric], pair) for pair in one.against),
        *one.broke,
        *([one.change] if one.change else []),
        *longer,
        *(f"Not ranked here: {words}" for words in missing(one.absent)),
    ]
    table = values(one.ranking, one.numbers, ranked.metrics)
    return [
        Heading(f"The answer, {one.name}"),
        Paragraph(one.verdict, "strong"),
        *([table] if table.rows else []),
        list(map(Note, sentences)),
        *([Paragraph(f"{one.title}: {one.meaning}.")] if one.meaning else []),
    ]


def ranking(made: Ranking, metrics: Mapping[str, Metric]) -> list[Block]:
    """The ranking as ranks: place, average rank and the rank in each metric of every ranked VPN; then the pairs whose
    order is not sure, and the VPNs that are not ranked."""
    rows = rank_rows(made)
    head = ["place", "VPN", "configuration", "average rank", "place (95 %)", "ranks first"]
    head += [f"{text.short(metric, metrics)} ×{weight:g}" for metric, weight in made.weights.counted_metrics.items()]
    notes = [Note(words) for words in (doubts(made), change(made, most=None)) if words]
    notes += [Note(f"not ranked: {why}", lead=f"{vpns}:") for vpns, why, _ in unranked_vpns(made)]
    title = Heading(f"Ranking: {made.configuration}" + (f", {made.image}" if made.image else ""))
    weights = f"Weights: {weights_words(made, metrics)}"
    if not rows:
        return [title, Paragraph(weights), Paragraph("No VPN could be ranked."), notes]
    return [title, Table("", head, rows, weights, notes, numbers=[0, *range(3, len(head))])]
