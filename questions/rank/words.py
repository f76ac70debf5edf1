"""The answer of a ranking, as data for every form: the first VPN and how sure that is, the runner-up, the weights that
would change the order, the VPNs that are not ranked and what would rank them, and how long a sure answer takes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from questions.rank.judgement import Ranked, RankedNumber
from questions.rank.places import PROBABLY, Unranked, groups, numbers_of, ranking_name, unranked_vpns
from questions.rank.verdict_words import decided_or_not
from runner.data.asked import AskedRun
from runner.data.files import word
from runner.data.invocation import asked_of
from runner.data.numbers import chance
from runner.evidence.ties import in_order
from runner.ranking.model import Ranking, Slack, Verdict
from runner.report import text
from runner.report.breakdowns import Breakdown

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
NAMED = 6  # VPNs that a verdict names
LONG = 160  # characters of a reason; only the tables have longer ones in full


class Absent(NamedTuple):
    """VPNs that are not ranked for the same reason: ``why`` in a few words; ``how``: what would rank them, empty where
    that is not known."""

    vpns: str
    why: str
    how: str


@dataclass(frozen=True)
class RankingAnswer:
    """The answer of one ranking. ``number``: the ranking's number in the report; ``numbers``: those behind it, by
    metric; ``groups``: the ranked VPNs in their
    order, where neighbours that cannot be told apart are one group; ``against``: the verdicts on the first VPN against
    the second, in the three metrics that count most; ``broke``: a sentence for each tunnel outside the first group that
    broke down under load, and for each VPN that failed in a metric; ``open``: how many of the ``pairs`` are
    undecided."""

    number: int
    ranking: Ranking
    numbers: Mapping[str, RankedNumber]
    groups: Sequence[Sequence[str]]
    verdict: str
    against: Sequence[Verdict]
    change: str
    broke: Sequence[str]
    absent: Sequence[Absent]
    open: int
    pairs: int

    @property
    def name(self) -> str:
        """``as recommended``."""
        return ranking_name(self.ranking)

    @property
    def title(self) -> str:
        """``As recommended``."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def meaning(self) -> str:
        """What its name says of each VPN; empty where that is not known."""
        return MEANINGS.get(self.ranking.configuration, "")


def answers(ranked: Ranked) -> list[RankingAnswer]:
    """The answer of every ranking. The first one is the one that a reader should see first."""
    every = [_answer(ranked, ranking, number) for number, ranking in enumerate(ranked.rankings)]
    order = {name: at for at, name in enumerate(FIRST)}

    def place(answer: RankingAnswer) -> tuple[bool, int]:
        return not answer.groups, order.get(answer.ranking.configuration, len(order))

    return sorted(every, key=place)


def verdict(ranking: Ranking, verdicts: Sequence[Verdict]) -> str:
    """The VPN that these weights rank first and how sure that is, in one or two sentences. ``verdicts``:
    ``of_ranking``."""
    placed = [standing for standing in ranking.standings if standing.place]
    if not placed:
        return "No VPN could be ranked."
    first, *others = placed
    names = [standing.vpn for standing in others if standing.vpn in first.ties]
    if first.best_probability is None:
        return f"{_few([first.vpn, *names])} cannot be told apart: too little was measured."
    if nobody := nobody_leads(ranking, verdicts):
        return nobody
    if not names:
        return (
            f"{first.vpn} ranks first by these weights (in {chance(first.best_probability)} of the simulated rankings)."
        )
    likely = max(placed, key=lambda standing: standing.best_probability or 0.0)
    rivals = [standing for standing in others if (standing.best_probability or 0.0) >= 0.01]
    rival_chances = _few([f"{standing.vpn} ({chance(standing.best_probability)})" for standing in rivals])
    if likely is first and first.best_probability >= PROBABLY and rivals:
        return (
            f"{first.vpn} probably ranks first (in {chance(first.best_probability)} of the simulated rankings). It may "
            f"also be {rival_chances}."
        )
    tied = sorted(
        [first, *(standing for standing in others if standing.vpn in first.ties)],
        key=lambda one: -(one.best_probability or 0.0),
    )
    chances = ", ".join(f"{standing.vpn} {chance(standing.best_probability)}" for standing in tied[:NAMED])
    return (
        f"{_few([standing.vpn for standing in tied])} cannot be told apart yet. "
        f"First in the simulated rankings: {chances}."
    )


def _few(names: Sequence[str]) -> str:
    """The first of the names, and how many more there are."""
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return text.join_names([*names[:NAMED], *more])


def nobody_leads(ranking: Ranking, verdicts: Sequence[Verdict]) -> str:
    """The sentence where all pairs of the first VPN are undecided or the same in all metrics that count; else empty,
    also where there is no verdict on one of these metrics."""
    placed = dict.fromkeys(standing.vpn for standing in ranking.standings if standing.place)
    first = next(iter(placed))
    alike = [pair.decision in ("undecided", "same") for pair in verdicts if pair.a in placed and pair.b in placed]
    of_first = [pair.decision in ("undecided", "same") for pair in verdicts if pair.a == first and pair.b in placed]
    if {pair.metric for pair in verdicts} < ranking.weights.counted_metrics.keys() or not of_first or not all(of_first):
        return ""
    return f"No VPN leads by these weights: every pair{'' if all(alike) else f' of {first}'} is undecided or the same."


def order(ranked_groups: Sequence[Sequence[str]]) -> str:
    """The groups in words: ``a and b (not told apart), then c``."""
    parts = [text.join_names(group) + (" (not told apart)" if len(group) > 1 else "") for group in ranked_groups]
    return ", then ".join(parts)


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
        sentences.append(f"No weight of {text.join_names(free)} alone, however small or large, changes who leads.")
    return " ".join(sentences)


def _less_weight(slack: Slack, name: str) -> tuple[float, str]:
    """Distance and sentence for a weight whose decrease changes the leader."""
    times = slack.low / slack.weight
    how = f"counts less than {_times(times)} as much" if times else "does not count"
    return (1 / times if times else math.inf), f"{_lead(slack.below)} if {name} {how}"


def _lead(names: Sequence[str]) -> str:
    return f"{text.join_names(names)} {'leads' if len(names) == 1 else 'lead'}"


def _times(factor: float) -> str:
    return f"{factor:.2g} times"


def against(verdicts: Sequence[Verdict], ranking: Ranking) -> list[Verdict]:
    """The verdicts on the first VPN against the second, in the metrics with the largest weights. Of metrics with equal
    weights, those come first that are decided, and then those whose ratio is farthest from 1."""
    placed = [standing.vpn for standing in ranking.standings if standing.place]
    mine = [pair for pair in verdicts if [pair.a, pair.b] == placed[:2] and pair.ratio]
    weights = ranking.weights.counted_metrics
    undecided = {"undecided": 1}

    def telling(pair: Verdict) -> tuple[float, int]:
        return -weights[pair.metric], undecided.get(pair.decision, 0)

    farthest_first = in_order(mine, [-abs(math.log(pair.ratio or 1.0)) for pair in mine], scale=1.0)
    return sorted(farthest_first, key=telling)[:AGAINST]


def go_on(ranked: Ranked, answer: RankingAnswer, where: str) -> str:
    """The command that continues the run in the folder ``where``. Empty where nothing is undecided, and where the time
    that it takes cannot be estimated."""
    decides = ranked.evidence.run.machines or ranked.seconds_more
    return f"vpneval more {word(where)}" if answer.open and decides else ""


def surer(ranked: Ranked, answer: RankingAnswer, where: str) -> str:
    """The sentence of ``sure``, and the command that continues the run in the folder ``where``."""
    command = go_on(ranked, answer, where)
    return f"{sure(ranked, answer).rstrip('.')}: {command}" if command else sure(ranked, answer)


def sure(ranked: Ranked, answer: RankingAnswer) -> str:
    """How many pairs are undecided and what would decide them, in a sentence that is the same in every form."""
    if answer.open and ranked.evidence.run.machines:
        return f"{answer.open} of {text.count_noun(answer.pairs, 'pair')} are undecided. {MORE_MACHINES}."
    return decided_or_not(answer.open, answer.pairs, ranked.seconds_more)


def set_up(ranked: Ranked, answer: RankingAnswer) -> str:
    """The command that prints how the first VPN is set up; empty where there is none."""
    leader = answer.groups[0][0] if answer.groups else ""
    mine = (standing.levels for standing in answer.ranking.standings if standing.vpn == leader)
    return next((recipe(leader, levels, asked_of(ranked.evidence.run)) for levels in mine), "")


def recipe(vpn: str, levels: Mapping[str, str], asked: AskedRun | None = None) -> str:
    """The command that prints how this tunnel is set up. For a run between two sites, the command that writes the
    tunnel's files for these sites."""
    usual = {"image": levels.get("image"), "integrity": "aead", "compression": "off"}
    settings = ",".join(f"{factor}={level}" for factor, level in levels.items() if usual.get(factor) != level)
    sites = asked.sites if asked else ""
    command = ["vpneval", "recipe", vpn, *(["--set", settings] if settings else [])]
    return shlex.join([*command, *(["--site", sites, "--write", "tunnel"] if sites else [])])


def _answer(ranked: Ranked, ranking: Ranking, number: int) -> RankingAnswer:
    mine, lab = ranked.verdicts_of(ranking), ranked.evidence.run.lab
    # Only the namespace lab has guests: the machines of the others have kernels of their own.
    own = str(lab.get("kind", "netns")) != "netns"
    by_kernel = BY_THEIRS if own else BY_KERNEL.get(str(lab.get("guest", "")), BY_ANY_KERNEL)
    ordered = groups(ranking)
    leaders = ordered[0] if ordered else []
    nobody = leaders and nobody_leads(ranking, mine)
    others = [standing.vpn for standing in ranking.standings if standing.vpn not in leaders]
    broke, others_broke = (breakdown_sentences(ranked.breakdowns, ranking, vpns) for vpns in (leaders, others))
    return RankingAnswer(
        number=number,
        ranking=ranking,
        numbers=numbers_of(ranked, number),
        groups=ordered,
        verdict=" ".join([verdict(ranking, mine), *broke]),
        against=against(mine, ranking),
        change="" if nobody else change(ranking),
        broke=others_broke + loss_sentences(ranking),
        absent=[_absent_vpn(one, by_kernel) for one in unranked_vpns(ranking)],
        open=sum(pair.decision == "undecided" for pair in mine),
        pairs=len(mine),
    )


def missing(absent: Sequence[Absent]) -> list[str]:
    """The VPNs that are not ranked, why in a few words, and what would rank them: a sentence for each reason."""
    vpns: dict[tuple[str, str], list[str]] = {}
    for names, why, how in absent:
        vpns.setdefault((why, how), []).append(names)
    return [f"{', '.join(names)}: {why}{f' ({how})' if how else ''}." for (why, how), names in vpns.items()]


def _absent_vpn(one: Unranked, by_kernel: str) -> Absent:
    if one.cause == "tcp only":
        return Absent(one.vpns, "carries TCP only", BY_TCP)
    if one.cause == "no kernel":
        return Absent(one.vpns, "this kernel lacks what it needs", by_kernel)
    return Absent(one.vpns, " ".join(text.beginning(one.why, LONG).split()), "")


def breakdown_sentences(rows: Sequence[Breakdown], ranking: Ranking, vpns: Sequence[str]) -> list[str]:
    """A sentence for each breakdown of these VPNs with the levels that a ranking compares."""
    levels = {standing.vpn: standing.levels for standing in ranking.standings if standing.vpn in vpns}
    return [row.sentence for row in rows if (row.image, row.levels) == (ranking.image, levels.get(row.vpn))]


def loss_sentences(ranking: Ranking, vpns: Sequence[str] = ()) -> list[str]:
    """A sentence for each ranked VPN (of ``vpns``, if given) that failed in repetitions of a metric that counts."""
    return [
        f"{standing.vpn} gave no number in "
        + " and in ".join(
            f"{text.count_noun(times, 'repetition')} of {ranking.titles[name]}" for name, times in failed.items()
        )
        + ", so it stands behind the others there."
        for standing in ranking.standings
        if standing.place and (standing.vpn in vpns or not vpns)
        if (failed := {name: times for name, times in standing.lost.items() if name in ranking.weights.counted_metrics})
    ]
