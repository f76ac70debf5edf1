"""The rankings in a terminal: the answer in 24 lines, with more words where there is room, and the tables behind it."""

from __future__ import annotations

from collections.abc import Sequence

from questions.rank import machines, places, verdict_words
from questions.rank.judgement import Ranked
from questions.rank.places import groups
from questions.rank.values import values
from questions.rank.words import BY_TCP, RankingAnswer, change, missing, order, verdict
from runner.design.blocks import Block, Paragraph, Table, TableCell
from runner.ranking.model import Ranking, Verdict
from runner.report import text
from runner.report.limits import LimitRow, changed_order, rows_of

NOTHING_TO_RANK = Paragraph("no VPN measured anything in a named configuration.", lead="Nothing to rank")
# Words for the kinds of limits whose names do not fit in a sentence.
KINDS = {"quota": "a CPU quota", "steal": "the hypervisor", "foreign": "other programs", "path": "the path"} | {
    "thread": "one thread",
    "process": "one process",
    "generator": "the generator of traffic",
    "kernel": "the kernel's work",
    "queue": "a queue",
    "none found": "nothing that was found",
}
LEGEND = (
    "Ranks are expected ones, of 20,000 simulated rankings; the lowest average wins. "
    "=: the order of this VPN and another is not certain (95 %)."
)


def brief(ranked: Ranked, every: Sequence[RankingAnswer], *, roomy: bool = False) -> list[Block]:
    """The answer of the first ranking with its values, and of each other one the verdict. ``roomy``: there is room for
    the values of all, and for all sentences."""
    blocks: list[Block] = [Paragraph(machines.holds(ranked.machines[0]))] if ranked.machines else []
    for at, answer in enumerate(every):
        if not answer.groups and any(other.groups for other in every):
            blocks.append(Paragraph(f"{answer.title}: too little was measured for a ranking."))
        elif at == 0 or roomy:
            blocks += _answer(ranked, answer, roomy, whole=roomy and at == 0)
        else:
            blocks.append(Paragraph(_first_sentence(answer.verdict), "strong", lead=answer.title))
    return blocks if every else [NOTHING_TO_RANK]


def _first_sentence(sentences: str) -> str:
    head, end, _ = sentences.partition(". ")
    return head + end.strip()


def _answer(ranked: Ranked, answer: RankingAnswer, roomy: bool, whole: bool) -> list[Block]:
    """One ranking's answer with its values. ``whole``: a sentence for each VPN on what limits it."""
    meaning = f" ({answer.meaning})" if answer.meaning and roomy else ""
    blocks: list[Block] = [Paragraph(answer.verdict, "strong", lead=answer.title + meaning)]
    if pairs := [pair for pair in answer.against if roomy or pair.decision != "undecided"]:
        ratios = "; ".join(f"{text.short(pair.metric, ranked.metrics)} {_ratio(pair)}" for pair in pairs)
        blocks.append(Paragraph(f"{pairs[0].a} over {pairs[0].b}: {ratios}."))
    blocks += [Paragraph(" ".join(answer.broke), "caveat")] if answer.broke else []
    blocks += [Paragraph(answer.change)] if answer.change and roomy else []
    if answer.groups:
        blocks += [values(answer.ranking, answer.numbers, ranked.metrics, brief=True), *_limits(ranked, answer, whole)]
    by_preset = ranked.by_tcp[answer.number]
    left = [absent for absent in answer.absent if roomy or not (by_preset and absent.how == BY_TCP)]
    blocks += [Paragraph(" ".join(missing(left)), "caveat", lead="Not ranked")] if left else []
    if by_preset:
        words = verdict(by_preset, ranked.verdicts_of(by_preset))
        words = f"{words} Order: {order(groups(by_preset))}." if whole else _first_sentence(words)
        blocks.append(Paragraph(words, lead="TCP only (--weights tcp)"))
    return blocks


def _limits(ranked: Ranked, answer: RankingAnswer, whole: bool) -> list[Block]:
    """What limits the ranked VPNs in the first throughput that counts, and what separate gateways would change.
    ``whole``: a sentence for each VPN, else the kinds of limits in a line."""
    compared = answer.ranking.as_configured
    placed = {vpn for group in answer.groups for vpn in group}
    known = [row for row in rows_of(ranked.limits, compared) if row.vpn in placed]
    limited = {row.metric for row in known}
    metric = next((metric for metric in answer.ranking.weights.counted_metrics if metric in limited), "")
    if not metric:
        return []
    rows = [row for row in known if row.metric == metric]
    title = ranked.metrics[metric].title
    changed = changed_order(ranked.limits, compared, title)
    if not whole:
        sentence = f"{text.short(metric, ranked.metrics)} is limited by {_kinds(rows)}."
        return [Paragraph(sentence + (" Separate gateways might change the order." if changed else ""))]
    table = Table(f"What limits {text.lower(title)}", [], [[row.vpn, row.says] for row in rows])
    return [table, *([Paragraph(f"{changed[:1].upper()}{changed[1:]}")] if changed else [])]


def _kinds(rows: Sequence[LimitRow]) -> str:
    """The kinds of limits with their VPNs: ``shared cores (openvpn, ssh_tun), a queue (ipsec_user)``."""
    vpns: dict[str, list[str]] = {}
    for row in rows:
        vpns.setdefault(KINDS.get(row.limit.kind, row.limit.kind), []).append(row.vpn)
    return ", ".join(f"{kind} ({', '.join(names)})" for kind, names in vpns.items())


def _ratio(pair: Verdict) -> str:
    ratio = f"{pair.ratio:.3g}"
    if pair.decisive_low is not None and pair.decisive_high is not None:
        ratio += f" ({verdict_words.interval(pair)})"
    return f"{ratio}, {pair.decision}"


def tables(ranked: Ranked) -> list[Block]:
    """Each ranking as ranks, how many pairs are decided, and who is not ranked."""
    if not ranked.rankings:
        return [NOTHING_TO_RANK]
    blocks: list[Block] = []
    previous: list[places.Unranked] = []
    for ranking in ranked.rankings:
        blocks += _ranks(ranked, ranking)
        if mine := ranked.verdicts_of(ranking):
            undecided = [[*row] for row in verdict_words.not_decided(mine, ranked.metrics)]
            spread = verdict_words.spread_words(ranked.spreads, ranking, ranked.metrics)
            blocks.append(Paragraph(verdict_words.count_verdicts(mine)))
            blocks += [Table("", [], undecided)] if undecided else []
            blocks += [Paragraph(spread)] if spread else []
        unranked = places.unranked_vpns(ranking)
        if unranked and unranked == previous:
            blocks.append(Paragraph("not ranked: the same VPNs, for the same reasons"))
        else:
            blocks += [Paragraph(f"{vpns}: {why}", "caveat", lead="Not ranked") for vpns, why, _ in unranked]
        previous = unranked
    return [*blocks, Paragraph(LEGEND)]


def _ranks(ranked: Ranked, ranking: Ranking) -> list[Block]:
    """The ranked VPNs, a row for each, and what is not sure of their order."""
    name = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    counted = ranking.weights.counted_metrics
    head = ["#", "VPN, as configured", "average\nrank", "place\n95 %", "chance\nof best"]
    head += [f"{text.short(metric, ranked.metrics)}\n×{weight:g}" for metric, weight in counted.items()]
    rows: list[list[str | TableCell]] = []
    for place, vpn, configuration, average, *others in places.rank_rows(ranking):
        tone = "good" if place.rstrip("=") == "1" else ""
        rows.append([place, TableCell(vpn, small=configuration, tone=tone), average, *others])
    doubts = (places.doubts(ranking), change(ranking, most=None))
    numbers = [0, *range(2, len(head))]
    table = Table(f"Ranking: {name}", head, rows, about=f"weights: {ranking.weights.name}", numbers=numbers)
    nobody = [] if rows else [Paragraph("No VPN could be ranked.", "bad")]
    return [table, *nobody, *(Paragraph(f"· {words}") for words in doubts if words)]
