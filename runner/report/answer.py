"""The answer of a ranking, as data for every form: the first VPN and how sure that is, the runner-up, the weights that
would change the order, the VPNs that are not ranked and what would rank them, and how long a sure answer takes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence

from runner.data.asked import AskedRun
from runner.data.files import word
from runner.data.numbers import chance
from runner.data.trials import Strict
from runner.evidence.ties import in_order
from runner.ranking.ranking import Ranking, weigh
from runner.ranking.verdicts import Verdict
from runner.ranking.weights import PRESETS, Slack, of_run
from runner.report import text
from runner.report.breakdowns import of_lost, of_ranked
from runner.report.facts import FARM
from runner.report.model import Report
from runner.report.ranked_numbers import RankedNumber
from runner.report.verdicts import decided_or_not, of_ranking

NAMES = {"recommended": "as recommended", "comparable": "on equal terms"}
MEANINGS = {
    "recommended": "every VPN with the cipher that its makers recommend today",
    "comparable": "every VPN with AES-128-CBC, HMAC-SHA-256 and no compression, or the nearest that it has",
}
FIRST = ("recommended", "comparable")  # the configurations whose answer comes first
AGAINST = 3  # verdicts against the runner-up that an answer has
CHANGES = 2  # weights of which an answer says what they change
MORE_MACHINES = "On a farm, more machines decide them soonest, then more repetitions"
BY_TCP = "--weights tcp ranks it"
BY_KERNEL = {"uml": "--kernel qemu has it", "qemu-kvm": "", "qemu-tcg": ""}  # by the guest that the run was in
BY_ANY_KERNEL = "--kernel uml or qemu has it"
BY_THEIRS = "the machines' kernels need its modules: vpneval doctor --lab names them"
LONG = 160  # characters of a reason; only the tables have longer ones in full


class Absent(Strict):
    """VPNs that are not ranked for the same reason: ``why`` in full and ``short`` in a few words; ``how``: what would
    rank them, empty where that is not known."""

    vpns: str
    why: str
    short: str
    how: str


class RankingAnswer(Strict):
    """The answer of one ranking. ``number``: the ranking's number in the report; ``groups``: the ranked VPNs in their
    order, where neighbours that cannot be told apart are one group; ``against``: the verdicts on the first VPN against
    the second, in the three metrics that count most; ``broke``: a sentence for each tunnel outside the first group that
    broke down under load, and for each VPN that failed in a metric; ``open``: how many of the ``pairs`` are
    undecided."""

    number: int
    name: str
    meaning: str
    groups: list[list[str]]
    verdict: str
    against: list[Verdict]
    change: str
    broke: list[str]
    absent: list[Absent]
    open: int
    pairs: int


def answers(report: Report) -> list[RankingAnswer]:
    """The answer of every ranking. The first one is the one that a reader should see first."""
    unsorted = [_answer(report, ranking, number) for number, ranking in enumerate(report.rankings)]
    order = {name: at for at, name in enumerate(FIRST)}

    def place(answer: RankingAnswer) -> tuple[bool, int]:
        return not answer.groups, order.get(report.rankings[answer.number].configuration, len(order))

    return sorted(unsorted, key=place)


def ranking_name(ranking: Ranking) -> str:
    """``as recommended``, with the gateways' software where that is a factor."""
    name = NAMES.get(ranking.configuration, ranking.configuration)
    return name + (f", {ranking.image}" if ranking.image else "")


def groups(ranking: Ranking) -> list[list[str]]:
    """The ranked VPNs in their order. Neighbours whose order is not sure are one group."""
    grouped: list[list[str]] = []
    unsure = {frozenset((pair.first, pair.second)) for pair in ranking.pairs if not pair.separated}
    for standing in ranking.standings:
        if standing.place is None:
            continue
        if grouped and frozenset((grouped[-1][-1], standing.vpn)) in unsure:
            grouped[-1].append(standing.vpn)
        else:
            grouped.append([standing.vpn])
    return grouped


def place_of(ranking: Ranking) -> dict[str, str]:
    """VPN -> its place: ``2``, or ``1–3`` for all of a group that cannot be told apart."""
    places: dict[str, str] = {}
    before = 0
    for group in groups(ranking):
        place = f"{before + 1}" + (f"–{before + len(group)}" if len(group) > 1 else "")
        places |= dict.fromkeys(group, place)
        before += len(group)
    return places


def verdict(ranking: Ranking, verdicts: Sequence[Verdict]) -> str:
    """The VPN that these weights rank first and how sure that is, in one or two sentences. ``verdicts``: on the pairs
    of the run."""
    placed = [standing for standing in ranking.standings if standing.place]
    if not placed:
        return "No VPN could be ranked."
    first, *others = placed
    names = [standing.vpn for standing in others if standing.vpn in first.ties]
    if first.best_probability is None:
        return f"{_join_names([first.vpn, *names])} cannot be told apart: too little was measured."
    if nobody := nobody_leads(ranking, verdicts):
        return nobody
    if not names:
        return (
            f"{first.vpn} ranks first by these weights (in {chance(first.best_probability)} of the simulated rankings)."
        )
    likely = max(placed, key=lambda standing: standing.best_probability or 0.0)
    rivals = [standing for standing in others if (standing.best_probability or 0.0) >= 0.01]
    rival_chances = _join_names([f"{standing.vpn} ({chance(standing.best_probability)})" for standing in rivals])
    if likely is first and first.best_probability >= text.PROBABLY and rivals:
        return (
            f"{first.vpn} probably ranks first (in {chance(first.best_probability)} of the simulated rankings). It may "
            f"also be {rival_chances}."
        )
    tied = sorted(
        [first, *(standing for standing in others if standing.vpn in first.ties)],
        key=lambda one: -(one.best_probability or 0.0),
    )
    chances = ", ".join(f"{standing.vpn} {chance(standing.best_probability)}" for standing in tied)
    return (
        f"{_join_names([standing.vpn for standing in tied])} cannot be told apart yet. "
        f"First in the simulated rankings: {chances}."
    )


def nobody_leads(ranking: Ranking, verdicts: Sequence[Verdict]) -> str:
    """The sentence where all pairs of the first VPN are undecided or the same in all metrics that count; else empty,
    also where there is no verdict on one of these metrics."""
    mine = of_ranking(verdicts, ranking)
    placed = [standing.vpn for standing in ranking.standings if standing.place]
    alike = [pair.decision in ("undecided", "same") for pair in mine if {pair.a, pair.b} <= {*placed}]
    of_first = [pair.decision in ("undecided", "same") for pair in mine if pair.a == placed[0] and pair.b in placed]
    if {pair.metric for pair in mine} < ranking.weights.counted_metrics.keys() or not of_first or not all(of_first):
        return ""
    return (
        f"No VPN leads by these weights: every pair{'' if all(alike) else f' of {placed[0]}'} is undecided or the same."
    )


def order(ranked_groups: Sequence[Sequence[str]]) -> str:
    """The groups in words: ``a and b (not told apart), then c``."""
    parts = [_join_names(group) + (" (not told apart)" if len(group) > 1 else "") for group in ranked_groups]
    return ", then ".join(parts)


def by_tcp(report: Report, answer: RankingAnswer) -> Ranking | None:
    """The ranking by the preset ``tcp``, which has every VPN, where the default weights leave out a VPN that carries
    TCP only. None where no VPN is left out for that reason, or where the run did not measure what the preset counts."""
    ranking = report.rankings[answer.number]
    if (
        not report.bases
        or ranking.weights.name != "balanced"
        or not any(absent.how == BY_TCP for absent in answer.absent)
    ):
        return None
    basis = report.bases[answer.number]
    weights = of_run(PRESETS["tcp"], basis.values)
    return weigh(basis, weights) if weights.counted_metrics.keys() <= basis.values.keys() else None


def change(ranking: Ranking, most: int | None = CHANGES) -> str:
    """The weights that would make another VPN lead, in sentences, the nearest ones first: at most ``most`` of them, or
    all for None, together with the weights that change nothing. Empty where nothing is known of that."""
    if not ranking.slack:
        return ""
    near: list[tuple[float, str]] = []
    for slack in ranking.slack:
        name = text.lower(ranking.titles[slack.metric])
        if slack.high is not None:
            times = slack.high / slack.weight
            near.append((times, f"{_lead(slack.above)} if {name} counts more than {_times(times)} as much"))
        if slack.below:
            near.append(_less_weight(slack, name))
    if not near:
        return "No single weight, however small or large, makes another VPN lead."
    sentences = [f"{words}." for _, words in sorted(near)[:most]]
    free = [
        text.lower(ranking.titles[slack.metric]) for slack in ranking.slack if slack.high is None and not slack.below
    ]
    if free and most is None:
        sentences.append(f"No weight of {_join_names(free)} alone, however small or large, changes who leads.")
    return " ".join(sentences)


def _less_weight(slack: Slack, name: str) -> tuple[float, str]:
    """Distance and sentence for a weight whose decrease changes the leader."""
    times = slack.low / slack.weight
    how = f"counts less than {_times(times)} as much" if times else "does not count"
    return (1 / times if times else math.inf), f"{_lead(slack.below)} if {name} {how}"


def _lead(names: Sequence[str]) -> str:
    return f"{_join_names(names)} {'leads' if len(names) == 1 else 'lead'}"


def _times(factor: float) -> str:
    return f"{factor:.2g} times"


def against(verdicts: Sequence[Verdict], ranking: Ranking) -> list[Verdict]:
    """The verdicts on the first VPN against the second, in the metrics with the largest weights. Of metrics with equal
    weights, those come first that are decided, and then those whose ratio is farthest from 1."""
    placed = [standing.vpn for standing in ranking.standings if standing.place]
    mine = [pair for pair in of_ranking(verdicts, ranking) if [pair.a, pair.b] == placed[:2] and pair.ratio]
    weights = ranking.weights.counted_metrics
    undecided = {"undecided": 1}

    def telling(pair: Verdict) -> tuple[float, int]:
        return -weights[pair.metric], undecided.get(pair.decision, 0)

    farthest_first = in_order(mine, [-abs(math.log(pair.ratio or 1.0)) for pair in mine], scale=1.0)
    return sorted(farthest_first, key=telling)[:AGAINST]


def on_farm(report: Report) -> bool:
    """Whether the run was measured on a farm, where more machines decide what takes more time elsewhere."""
    return any(fact.name == FARM for fact in report.facts)


def go_on(report: Report, answer: RankingAnswer, where: str) -> str:
    """The command that continues the run in the folder ``where``. Empty where nothing is undecided, and where the time
    that it takes cannot be estimated."""
    return f"vpneval more {word(where)}" if answer.open and (on_farm(report) or report.seconds_more) else ""


def surer(report: Report, answer: RankingAnswer, where: str) -> str:
    """The sentence of ``sure``, and the command that continues the run in the folder ``where``."""
    command = go_on(report, answer, where)
    return f"{sure(report, answer).rstrip('.')}: {command}" if command else sure(report, answer)


def sure(report: Report, answer: RankingAnswer) -> str:
    """How many pairs are undecided and what would decide them, in a sentence that is the same in every form."""
    if answer.open and on_farm(report):
        return f"{answer.open} of {text.count_noun(answer.pairs, 'pair')} are undecided. {MORE_MACHINES}."
    return decided_or_not(answer.open, answer.pairs, report.seconds_more)


def numbers_of(report: Report, number: int) -> dict[str, RankedNumber]:
    """Metric -> the numbers behind the ranks of ranking ``number``. First come the metrics that count, in the order of
    the weights."""
    behind = {numbers.metric: numbers for numbers in (report.behind[number] if report.behind else [])}
    weights = report.rankings[number].weights.counted_metrics
    counted = {metric: behind[metric] for metric in weights if metric in behind}
    return counted | behind


def unit_of(numbers: RankedNumber, unit: str) -> tuple[float, str]:
    """The scale and unit in which the middle one of the VPNs' medians reads best."""
    medians = sorted(summary.median for summary in numbers.summaries.values())
    return text.prefix(medians[len(medians) // 2], unit)


def recipe(vpn: str, levels: Mapping[str, str], asked: AskedRun | None = None) -> str:
    """The command that prints how this tunnel is set up. For a run between two sites, the command that writes the
    tunnel's files for these sites."""
    usual = {"image": levels.get("image"), "integrity": "aead", "compression": "off"}
    settings = ",".join(f"{factor}={level}" for factor, level in levels.items() if usual.get(factor) != level)
    sites = asked.sites if asked else ""
    command = ["vpneval", "recipe", vpn, *(["--set", settings] if settings else [])]
    return shlex.join([*command, *(["--site", sites, "--write", "tunnel"] if sites else [])])


def _answer(report: Report, ranking: Ranking, number: int) -> RankingAnswer:
    mine = of_ranking(report.verdicts, ranking)
    facts = {fact.name: fact.value for fact in report.facts}
    # Only the namespace lab has guests: the machines of the others have kernels of their own.
    own = facts.get("lab kind", "netns") != "netns"
    by_kernel = BY_THEIRS if own else BY_KERNEL.get(facts.get("lab guest", ""), BY_ANY_KERNEL)
    ordered = groups(ranking)
    leaders = ordered[0] if ordered else []
    nobody = leaders and nobody_leads(ranking, report.verdicts)
    others = [standing.vpn for standing in ranking.standings if standing.vpn not in leaders]
    return RankingAnswer(
        number=number,
        name=ranking_name(ranking),
        meaning=MEANINGS.get(ranking.configuration, ""),
        groups=ordered,
        verdict=" ".join([verdict(ranking, report.verdicts), *of_ranked(report.breakdowns, ranking, leaders)]),
        against=against(report.verdicts, ranking),
        change="" if nobody else change(ranking),
        broke=of_ranked(report.breakdowns, ranking, others) + of_lost(ranking),
        absent=[_absent_vpn(one, by_kernel) for one in text.unranked_vpns(ranking)],
        open=sum(pair.decision == "undecided" for pair in mine),
        pairs=len(mine),
    )


def missing(answer: RankingAnswer) -> list[str]:
    """The VPNs that are not ranked, why in a few words, and what would rank them: a sentence for each reason."""
    vpns: dict[tuple[str, str], list[str]] = {}
    for absent in answer.absent:
        vpns.setdefault((absent.short, absent.how), []).append(absent.vpns)
    return [f"{', '.join(names)}: {short}{f' ({how})' if how else ''}." for (short, how), names in vpns.items()]


def _absent_vpn(one: text.Unranked, by_kernel: str) -> Absent:
    vpns, why, cause = one
    flat = " ".join(why.split())
    if cause == "tcp only":
        return Absent(vpns=vpns, why=flat, short="carries TCP only", how=BY_TCP)
    if cause == "no kernel":
        return Absent(vpns=vpns, why=flat, short="this kernel lacks what it needs", how=by_kernel)
    return Absent(vpns=vpns, why=flat, short=" ".join(text.beginning(why, LONG).split()), how="")


def _join_names(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1]))) if names else ""
