"""Is what came after a change worse than what was before it? One comparison, of two runs, or of the builds of a run."""

from __future__ import annotations

from collections.abc import Sequence

from questions.compare.blocks import say
from questions.compare.builds import compare_builds
from questions.compare.judgement import Comparisons
from questions.compare.runs import compare_kinds
from questions.compare.words import answer
from runner.data.trials import Cell
from runner.design.question import Evidence, Going, Question, Said


class Compare(Question[Comparisons]):
    """The run with a later one; where there is none, its builds with the first of each VPN."""

    name = "compare"
    looks_at = ()
    leads = False

    def judge(self, evidence: Evidence) -> Comparisons:
        """The comparisons. Raises UsageError for runs that cannot be compared."""
        run, trials = evidence.run, evidence.trials
        made = compare_kinds((run, trials), evidence.after) if evidence.after else compare_builds(run, trials)
        return Comparisons(comparisons=made)

    def going(self, evidence: Evidence, judgement: Comparisons, cells: Sequence[Cell], left_s: float) -> Going:
        """All cells: a run goes on by its pairs (``rank``), and what is before it or after it is another run's."""
        return Going(cells, [], tests_pairs=False)

    def longer_s(self, evidence: Evidence, judgement: Comparisons) -> float | None:
        """Not known."""
        return None

    def tell_open(self, evidence: Evidence, judgement: Comparisons) -> str:
        """The answers."""
        return " ".join(f"{answer(one)}." for one in judgement.comparisons) or "There are no two builds to compare."

    def say(self, judgement: Comparisons, where: str) -> Said | None:
        """The changes first, then how many measurements did not change. A report has it as data only."""
        return say(judgement) if judgement.comparisons else None
