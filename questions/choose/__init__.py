"""Which VPN suits my line? A run goes on until every line that was asked for has a sure answer, or depends on
the gateways; then it tries what the answer takes on trust, brings in others that may suit, and watches what it
names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from questions.choose import blocks, steps
from questions.choose.judge import FEWEST_INSTANCES, choice
from questions.choose.judgement import Choice
from questions.choose.onepage import onepage
from questions.choose.page import context, data
from questions.choose.plots import ladders
from runner.choice.candidates import candidates
from runner.choice.machine import FEWEST_ROUNDS
from runner.choice.musts import SHOWN_BY
from runner.data.asked import AskedRun
from runner.data.levels import BASELINE, BY_PROFILE, TCP, WAYS
from runner.data.needs import Needs
from runner.data.trials import Cell, VpnRecord
from runner.design.blocks import Block
from runner.design.question import Card, Evidence, Going, Left, Page, Question, Said, Step

UDP_BACK = {"measure": "udp", "payload_bytes": BY_PROFILE, "fragmentation": BY_PROFILE, WAYS: "reverse"}
LADDER = "ladder"  # the instrument that it needs
LEAST_S = 180.0  # that a run goes on for, where a line has no sure answer: else as long as it has taken


class Choose(Question[Choice]):
    """By grades of what each VPN carries, loses, delays and costs at each rate, and what it must have."""

    name = "choose"
    looks_at = tuple(share / 50 for share in range(50))  # it tests no pairs: before each round
    tunnels = FEWEST_INSTANCES
    latecomers = True

    def is_asked(self, instruments: Collection[str]) -> bool:
        """Does the run measure the ladders that a choice is made from?"""
        return LADDER in instruments

    def candidates(self, records: Mapping[str, VpnRecord], needs: Needs, *, tries: bool = False) -> list[str]:
        """Those that have the musts, then those that lack networks alone."""
        return candidates(records, needs, ports=True, tryable=SHOWN_BY if tries else ())

    def more_traffic(self, asked: AskedRun) -> list[Mapping[str, str]]:
        """The packets that calls send, more TCP connections than one, the way back, where it may be another, and in a
        lab of one's own both ways at once. Between sites also that of datagrams: TCP may not fill the path."""
        between_sites = asked.lab.startswith("site:")
        other_way = asked.needs.line_up_bps is not None or between_sites
        more = [{"measure": LADDER, "carried": "calls"}] * (asked.needs.traffic == "calls")
        tcp = TCP | {"streams": str(asked.needs.connections)}
        more += [tcp] * (asked.needs.connections > 1)
        ways = ["reverse"] * other_way + ["both"] * (asked.needs.line_up_bps is not None and not between_sites)
        more += [UDP_BACK] * between_sites
        return [*more, *(tcp | {"direction": way} for way in ways)]

    def judge(self, evidence: Evidence) -> Choice:
        """See ``choice``."""
        return choice(evidence.run, evidence.trials)

    def going(self, evidence: Evidence, judgement: Choice, cells: Sequence[Cell], left_s: float) -> Going:
        """All cells as long as a line that was asked for has no sure answer; when every line has one, those of VPNs
        that have just come in."""
        fresh = [cell for cell in cells if cell.vpn in (BASELINE, *judgement.fresh)]
        came_in = fresh if any(cell.vpn != BASELINE for cell in fresh) else []
        return Going(
            cells if judgement.unsettled else came_in,
            names_of(judgement.unsettled),
            first={cell.key for cell in cells if cell.params["measure"] == LADDER} if judgement.early else set(),
            first_rounds=-(-FEWEST_ROUNDS // FEWEST_INSTANCES),
            tests_pairs=False,
        )

    def longer_s(self, evidence: Evidence, judgement: Choice) -> float | None:
        """As long as the run has taken, where a line has no sure answer; the least where somebody is to be watched."""
        if judgement.unsettled:
            return max(LEAST_S, round(sum(call.elapsed_s for call in evidence.run.invocations)))
        return LEAST_S if steps.watch_list(judgement, evidence) else 0.0

    def tell_open(self, evidence: Evidence, judgement: Choice) -> str:
        """Which of the asked lines have no sure answer."""
        if judgement.unsettled:
            return f"No sure answer yet for {', '.join(names_of(judgement.unsettled))}."
        return "Every line that was asked for has its answer."

    def kept_s(self, asked: AskedRun, left_s: float) -> float:
        """See ``steps.kept_s``."""
        return steps.kept_s(asked, left_s)

    def steps(self, evidence: Evidence, judgement: Choice, left: Left) -> Iterator[Step]:
        """See ``steps.steps``."""
        return steps.steps(judgement, evidence, left)

    def plan(self, asked: AskedRun, left: Left) -> list[str]:
        """See ``steps.plan``."""
        return steps.plan(asked, left)

    def say(self, judgement: Choice, where: str) -> Said | None:
        """See ``blocks.say``."""
        return blocks.say(judgement, where) if judgement.is_made else None

    def card(self, judgement: Choice, where: str, page: Page) -> Card | None:
        """See ``questions.choose.page``."""
        if not judgement.is_made:
            return None
        return Card(
            folder=Path(__file__).parent,
            macros="choice.html.j2",
            context=context(judgement, where),
            scripts=("choice.js", "needs.js"),
            data=data(judgement, where, page.logs, page.colours),
            costs=ladders(judgement.devices, page.colours),
        )

    def onepage(self, judgement: Choice) -> list[Block]:
        """See ``questions.choose.onepage``."""
        return onepage(judgement)


def names_of(lines_bps: Sequence[float]) -> list[str]:
    """``100 Mbit/s``."""
    return [f"{line_bps / 1e6:g} Mbit/s" for line_bps in lines_bps]
