"""Do the papers' findings still hold? It is answered by any run of their experiments, and none goes on for it."""

from __future__ import annotations

from collections.abc import Sequence

from questions.papers import findings, tables
from questions.papers.findings import Findings
from questions.papers.tables import PaperTable
from runner.data.kinds import Strict
from runner.data.trials import Cell
from runner.design.question import Evidence, Going, Question, Said


class Judged(Strict):
    """The papers' findings beside those of the run, and their tables; ``experiments``: the run's, in their order."""

    findings: Findings = Findings()
    tables: list[PaperTable] = []
    experiments: list[str] = []


class Papers(Question[Judged]):
    """Each finding is judged by its claim."""

    name = "papers"
    looks_at = ()
    leads = False

    def judge(self, evidence: Evidence) -> Judged:
        """The verdicts and tables, of all experiments of the run that papers have."""
        return Judged(
            findings=findings.findings(evidence.run, evidence.trials),
            tables=tables.paper_tables(evidence.run, evidence.trials),
            experiments=[record.name for record in evidence.run.experiments],
        )

    def going(self, evidence: Evidence, judgement: Judged, cells: Sequence[Cell], left_s: float) -> Going:
        """All cells: what an experiment plans is what its paper measured."""
        return Going(cells, [], tests_pairs=False)

    def longer_s(self, evidence: Evidence, judgement: Judged) -> float | None:
        """Not known: the page of the findings says what each open one needs."""
        return None

    def tell_open(self, evidence: Evidence, judgement: Judged) -> str:
        """How many findings have each verdict."""
        return f"{judgement.findings.counts or 'No finding of a paper was tested'}."

    def say(self, judgement: Judged, where: str) -> Said | None:
        """Two sections of a report."""
        sections = {
            "findings": findings.section(judgement.findings, judgement.experiments),
            "paper-tables": tables.section(judgement.tables),
        }
        found = {name: blocks for name, blocks in sections.items() if blocks}
        return Said(line=judgement.findings.counts, sections=found) if found else None
