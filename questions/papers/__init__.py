"""Do the papers' findings still hold? It is answered by any run of their experiments, and none goes on for it."""

from __future__ import annotations

from collections.abc import Sequence

from questions.papers import findings, tables
from questions.papers.findings import Findings
from questions.papers.tables import PaperTable
from runner.data.kinds import Strict
from runner.data.trials import Cell
from runner.design.blocks import Paragraph
from runner.design.question import Evidence, Going, Question, Said
from runner.papers.judges import add_paper, every_finding
from runner.papers.published import paper


class Judged(Strict):
    """The papers' findings beside those of the run, and their tables; ``experiments``: the run's, in their order."""

    findings: Findings = Findings()
    tables: list[PaperTable] = []
    experiments: list[str] = []


class Papers(Question[Judged]):
    """Each finding is judged by its claim. ``paper``: the only one that is asked about, a name or a folder's path; its
    verdicts come first in the report."""

    name = "papers"
    looks_at = ()

    def __init__(self, paper: str = "") -> None:
        if paper:
            add_paper(paper)
        self.paper = paper
        self.leads = bool(paper)

    def judge(self, evidence: Evidence) -> Judged:
        """The verdicts and tables, of all experiments of the run that papers have."""
        run, trials = evidence.run, evidence.trials
        return Judged(
            findings=findings.findings(run, trials, [self.paper] if self.paper else []),
            tables=[] if self.paper else tables.paper_tables(run, trials),
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
        """Two sections of a report; of a single paper, the whole answer."""
        if self.paper:
            title, experiments = paper(self.paper).title, {one.experiment for one in every_finding([self.paper])}
            if not judgement.findings.rows:
                needed = f"{', '.join(sorted(experiments)) or 'none'}; this run has {', '.join(judgement.experiments)}"
                line = f"No finding of {title} was tested. Its findings are about the experiments: {needed}."
                return Said(line=line, brief=[Paragraph(line)])
            line = f"Findings of {title}: {judgement.findings.counts}"
            brief = [Paragraph(line, "strong"), *findings.brief(judgement.findings)]
            return Said(line=line, brief=brief, whole=findings.section(judgement.findings, judgement.experiments))
        sections = {
            "findings": findings.section(judgement.findings, judgement.experiments),
            "paper-tables": tables.section(judgement.tables),
        }
        found = {name: blocks for name, blocks in sections.items() if blocks}
        return Said(line=judgement.findings.counts, sections=found) if found else None
