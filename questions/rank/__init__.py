"""How do these VPNs rank? The undecided pairs of VPNs go on, and those whose ratios are not known well enough, so that
the time that is left decides the most of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from questions.rank import blocks
from questions.rank.judge import rank
from questions.rank.judgement import Ranked
from questions.rank.onepage import onepage
from questions.rank.page import context, pairs
from questions.rank.verdict_words import decided_or_not
from runner.data.levels import BASELINE, outside_of_tunnel
from runner.data.trials import Cell
from runner.design.blocks import Block
from runner.design.question import Card, Evidence, Going, Page, Question, Said
from runner.evidence.model import Configuration
from runner.ranking.longer import seconds_more
from runner.ranking.model import Verdict

# Under a deadline such a metric goes on, whatever is decided, until the 95 % intervals of its ratios reach no farther
# than by this factor. Of other metrics the pairs are decided last, and known as well by then (decision 0055).
WIDTHS = {"tcp_throughput": 1.075}
TWICE = 0.5  # of a VPN's pairs in such a metric: where more are undecided or too wide, it has two slices in a round


@dataclass(frozen=True)
class Doubt:
    """A pair that needs more measuring. ``seconds``: about how much longer both VPNs would have to be measured; None
    where too little has been measured to tell. ``levels``: VPN -> its tunnel's levels; ``traffic``: of what would be
    measured. ``peers``: the number of other VPNs that each of the two is compared with in this metric. ``decided``: the
    verdict is decided, but the ratio is known less exactly than wanted."""

    metric: str
    configuration: str
    image: str
    a: str
    b: str
    seconds: float | None
    levels: Mapping[str, Mapping[str, str]]
    traffic: Mapping[str, str]
    peers: int = 1
    decided: bool = False

    @property
    def words(self) -> str:
        """``rtt: openvpn and ssh_tun (comparable)``."""
        where = self.configuration + (f", {self.image}" if self.image else "")
        return f"{self.metric}: {self.a} and {self.b} ({where})"

    def asks_for(self, cell: Cell) -> bool:
        """Would measuring this cell help? It must be a cell of either VPN, or of the baseline, with the same tunnel and
        traffic."""
        image = {"image": self.image} if self.image else {}
        tunnels = {vpn: {**levels, **image} for vpn, levels in self.levels.items()} | {BASELINE: {}}
        return (
            cell.vpn in tunnels
            and cell.params.items() >= tunnels[cell.vpn].items()
            and outside_of_tunnel(cell.params) == self.traffic
        )


class Rank(Question[Ranked]):
    """By weights that a user gives, or balanced ones."""

    name = "rank"
    looks_at = (0.35, 0.5, 0.65, 0.8, 0.9)  # the report is the sixth look

    def judge(self, evidence: Evidence) -> Ranked:
        """See ``judge.rank``."""
        return rank(evidence)

    def going(self, evidence: Evidence, judgement: Ranked, cells: Sequence[Cell], left_s: float) -> Going:
        """The cells of the undecided pairs that the time can decide, by what they have shown so far, or of all where it
        can decide none, and all cells of a run that has no pairs. Where the time is limited, also those of ratios that
        are not known to their WIDTHS."""
        if not judgement.verdicts:
            return Going(cells, [])
        in_doubt = doubts(judgement, WIDTHS if left_s < math.inf else {})
        undecided, wide = ([doubt for doubt in in_doubt if doubt.decided is decided] for decided in (False, True))
        on = cells_in_doubt(soon_decided(undecided, left_s) + wide, cells)
        twice = cells_with_two_turns(in_doubt, on) if left_s < math.inf else set[str]()
        return Going(on, [doubt.words for doubt in undecided], twice)

    def longer_s(self, evidence: Evidence, judgement: Ranked) -> float | None:
        """See ``runner.ranking.longer``; 0 where every pair is decided."""
        if all(verdict.decision != "undecided" for verdict in judgement.verdicts):
            return 0.0 if judgement.verdicts else None
        return seconds_more(evidence.run, judgement.verdicts, judgement.bases)

    def tell_open(self, evidence: Evidence, judgement: Ranked) -> str:
        """How many pairs are undecided, and what would decide them."""
        undecided = sum(verdict.decision == "undecided" for verdict in judgement.verdicts)
        seconds = self.longer_s(evidence, judgement)
        return decided_or_not(undecided, len(judgement.verdicts), seconds)

    def say(self, judgement: Ranked, where: str) -> Said:
        """See ``blocks.say``; where another answer leads, the verdicts alone."""
        return blocks.say(judgement, where)

    def card(self, judgement: Ranked, where: str, page: Page) -> Card:
        """See ``questions.rank.page``."""
        return Card(
            folder=Path(__file__).parent,
            macros="rank.html.j2",
            context=context(judgement, where, page),
            scripts=("rank.js",),
            data={"rankings": pairs(judgement)},
        )

    def onepage(self, judgement: Ranked) -> list[Block]:
        """See ``questions.rank.onepage``."""
        return onepage(judgement)


def doubts(judgement: Ranked, widths: Mapping[str, float]) -> list[Doubt]:
    """The undecided pairs for which more measuring may help, the soonest decided first. Pairs with too little data for
    an estimate come before all. ``widths``: metric -> the largest factor from the middle of a ratio's 95 % interval to
    its end. Decided pairs of the first configuration with a wider interval come last."""
    of = {(basis.configuration, basis.image): basis for basis in judgement.bases}
    undecided, wide = list[Doubt](), list[Doubt]()
    for verdict in judgement.verdicts:
        doubt = _doubt(of[verdict.configuration, verdict.image], verdict)
        if not doubt.decided:
            undecided.append(doubt)
        elif verdict.configuration == judgement.bases[0].configuration:
            wide += [doubt] if half_width(verdict) > widths.get(verdict.metric, math.inf) else []
    return sorted(undecided, key=lambda doubt: -1.0 if doubt.seconds is None else doubt.seconds) + wide


def half_width(verdict: Verdict) -> float:
    """The factor from the middle of a ratio's 95 % interval to its end; 1 where there is none."""
    return math.sqrt(verdict.high / verdict.low) if verdict.high and verdict.low else 1.0


def cells_in_doubt(in_doubt: Sequence[Doubt], cells: Sequence[Cell]) -> list[Cell]:
    """The cells that go on, in their order: those of the pairs in doubt, and their baseline's."""
    asked = [cell for cell in cells if any(doubt.asks_for(cell) for doubt in in_doubt)]
    return asked if any(cell.vpn != BASELINE for cell in asked) else []


def _doubt(basis: Configuration, verdict: Verdict) -> Doubt:
    return Doubt(
        metric=verdict.metric,
        configuration=verdict.configuration,
        image=verdict.image,
        a=verdict.a,
        b=verdict.b,
        seconds=verdict.seconds,
        levels={vpn: basis.levels[vpn] for vpn in (verdict.a, verdict.b)},
        traffic=basis.traffic[verdict.metric],
        peers=len(basis.values[verdict.metric]) - 1,
        decided=verdict.decision != "undecided",
    )


def cells_with_two_turns(in_doubt: Sequence[Doubt], cells: Sequence[Cell]) -> set[str]:
    """The keys of those of these cells of which most ratios, in a metric of WIDTHS, are undecided or too wide. One
    slice in each round is not enough for them; a second slice of one VPN makes all its ratios narrower."""
    waiting = Counter(
        (cell.key, doubt.configuration, doubt.image, doubt.peers)
        for doubt in in_doubt
        for cell in cells
        if doubt.metric in WIDTHS and cell.vpn in (doubt.a, doubt.b) and doubt.asks_for(cell)
    )
    return {key for (key, *_, peers), pairs in waiting.items() if pairs > TWICE * peers}


def soon_decided(in_doubt: Sequence[Doubt], left_s: float) -> list[Doubt]:
    """The pairs that so many seconds may decide; all pairs where they decide none."""
    soon = [doubt for doubt in in_doubt if doubt.seconds is None or doubt.seconds <= left_s]
    return soon or list(in_doubt)
