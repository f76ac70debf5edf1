"""The papers' findings by experiment; beside it, the judges that a row does not describe: one file an experiment, under
its name. Such a judge is a function of a run's data, and a row of results/published/ names it."""

from __future__ import annotations

from runner.papers.findings import Finding
from runner.papers.published import names
from runner.papers.rows import rows_of


def every_finding() -> list[Finding]:
    """The findings of all papers."""
    return [row for name in names() for row in rows_of(name)]


def findings_of(experiment: str) -> list[Finding]:
    """The findings that the data of ``experiment`` is judged by, in their order; empty where no paper has any."""
    return [one for one in every_finding() if one.experiment == experiment]


def finding(name: str) -> Finding:
    """The finding of ``experiment/finding``, a name that a paper's conclusion gives."""
    (found,) = [one for one in every_finding() if f"{one.experiment}/{one.id}" == name]
    return found
