"""The ranking on one page, for a reader who was told nothing: which VPN ranks first and how sure that is, by which
weights, the values of each VPN, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from questions.rank.judgement import Ranked
from questions.rank.places import weights_words
from questions.rank.values import values
from questions.rank.verdict_words import confidence
from questions.rank.words import RankingAnswer, answers, missing, sure
from runner.design.blocks import Block, Heading, Note, Paragraph, Table, cell
from runner.ranking.model import Verdict
from runner.report import text

MOST_ROWS, MOST_METRICS = 10, 6


def onepage(ranked: Ranked) -> list[Block]:
    """All of it as sections, of the first ranking; empty where nothing could be ranked."""
    one = next((one for one in answers(ranked) if one.groups), None)
    if one is None:
        return []
    weights = f"{weights_words(one.ranking, ranked.metrics)}. More weight counts more; change it with --weights."
    assumed = [
        Note("none. This page ranks; which VPN suits a line, `vpneval run choose` says.", "Line:"),
        Note(weights, "Weights:"),
        Note(f"{one.name}{f': {one.meaning}' * bool(one.meaning)}.", "Tunnels:"),
    ]
    return [
        Heading(one.verdict),
        Paragraph(" ".join(filter(None, [sure(ranked, one) if one.pairs else "", one.change]))),
        Heading("What was assumed"),
        assumed,
        Heading("The numbers of each VPN"),
        _numbers(ranked, one),
        Heading("Why not another one?"),
        list(_reasons(ranked, one)),
    ]


def _numbers(ranked: Ranked, one: RankingAnswer) -> Table:
    """The values by the first weights that count, without the configuration, which all of them share by name."""
    whole = values(one.ranking, one.numbers, ranked.metrics)
    kept = [0, 1, *range(3, 4 + MOST_METRICS)]
    head, *rows = [[row[at] for at in kept if at < len(row)] for row in (whole.head, *whole.rows)]
    more = len(rows) - MOST_ROWS
    notes = [Note(f"{text.count_noun(more, 'VPN')} more: see the whole report.")] if more > 0 else []
    about = "Median (95 % interval); ↑: more is better, ↓: less is."
    numbers = [0, *range(2, len(head))]
    for row in rows:
        row[1] = replace(cell(row[1]), small=ranked.evidence.run.vpns[cell(row[1]).words].title)
    return Table("", [cell(name).words for name in head], rows[:MOST_ROWS], about, notes, numbers=numbers)


def _reasons(ranked: Ranked, one: RankingAnswer) -> Iterator[Note]:
    """A remark for each VPN behind the first: in what it is worse, better, or not told apart; then those that are not
    ranked."""
    placed = [vpn for group in one.groups for vpn in group]
    pairs = ranked.verdicts_of(one.ranking)
    for vpn in placed[1:MOST_ROWS]:
        mine = [pair for pair in pairs if (pair.a, pair.b) == (placed[0], vpn)]
        yield Note(f"beside {placed[0]}, it {'; it '.join(_clauses(ranked, mine))}.", f"{vpn}:")
    if pairs:
        yield Note(f"“Better”, “worse” and “the same” are sure at {confidence(pairs)}; “may differ” is not decided.")
    yield from (Note(words, "Not ranked:") for words in missing(one.absent))


def _clauses(ranked: Ranked, pairs: list[Verdict]) -> list[str]:
    """What the verdicts say of the second VPN of these pairs."""
    kinds = {"better": "is worse in", "worse": "is better in", "same": "is the same in", "undecided": "may differ in"}
    metrics = {
        words: [text.lower(ranked.metrics[pair.metric].title) for pair in pairs if pair.decision == decision]
        for decision, words in kinds.items()
    }
    return [f"{words} {text.join_names(named)}" for words, named in metrics.items() if named] or ["has no verdict"]
