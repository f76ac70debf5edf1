"""Is what came after a change worse than what was before it? One comparison, of two runs, or of the builds of a run."""

from __future__ import annotations

import math
from collections.abc import Sequence

from questions.compare.blocks import say
from questions.compare.builds import builds_of, compare_builds
from questions.compare.judgement import Comparisons, MetricChange
from questions.compare.runs import compare_kinds
from questions.compare.words import answer
from runner.data.trials import Cell
from runner.design.question import Evidence, Going, Question, Said


class Compare(Question[Comparisons]):
    """The run with a later one; where there is none, its builds with the first of each VPN."""

    name = "compare"
    looks_at = (0.1, 0.25, 0.5, 0.75, 0.9)  # the report is the sixth look
    leads = False

    def judge(self, evidence: Evidence) -> Comparisons:
        """The comparisons. Raises UsageError for runs that cannot be compared."""
        run, trials = evidence.run, evidence.trials
        if evidence.after:
            return Comparisons(comparisons=compare_kinds((run, trials), evidence.after))
        return Comparisons(comparisons=compare_builds(run, trials, evidence.share))

    def going(self, evidence: Evidence, judgement: Comparisons, cells: Sequence[Cell], left_s: float) -> Going:
        """The cells of the undecided pairs of builds, with twice their turns in the metric that scatters least; all
        cells while there are no pairs."""
        changes = [change for one in judgement.comparisons for change in one.changes]
        if not changes:
            return Going(cells, [])
        first = {name: names[0] for names in builds_of(evidence.run).values() for name in names}
        undecided = [change for change in changes if change.verdict == "not separable"]

        def cells_of(changes: Sequence[MetricChange]) -> list[Cell]:
            asked = {
                (evidence.run.metrics[change.metric].measure, name)
                for change in changes
                for name in (change.vpn, first[change.vpn])
            }
            return [cell for cell in cells if (cell.params["measure"], cell.vpn) in asked]

        best = min((change.visible or math.inf for change in undecided), default=math.inf)
        finest = [change for change in undecided if change.visible == best]
        words = [f"{change.metric}: {first[change.vpn]} and {change.vpn}" for change in undecided]
        return Going(cells_of(undecided), words, twice={cell.key for cell in cells_of(finest)})

    def longer_s(self, evidence: Evidence, judgement: Comparisons) -> float | None:
        """Not known."""
        return None

    def tell_open(self, evidence: Evidence, judgement: Comparisons) -> str:
        """The answers."""
        return " ".join(f"{answer(one)}." for one in judgement.comparisons) or "There are no two builds to compare."

    def say(self, judgement: Comparisons, where: str) -> Said | None:
        """The changes first, then how many measurements did not change. A report has it as data only."""
        return say(judgement) if judgement.comparisons else None
