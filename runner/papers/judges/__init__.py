"""The papers' findings by experiment; beside it, the judges that a row does not describe: one file an experiment, under
its name. Such a judge is a function of a run's data, and a row of results/published/ names it."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.errors import UsageError
from runner.papers.findings import Finding
from runner.papers.published import file_of, is_outside, names, paper
from runner.papers.rows import rows_of


def every_finding(papers: Sequence[str] = ()) -> list[Finding]:
    """The findings of these papers (none: of all in results/published/), and those of others that their conclusions
    name."""
    papers = papers or names()
    found = dict[str, Finding]()
    for name in dict.fromkeys([*papers, *names()]):
        for row in rows_of(name):
            found.setdefault(f"{row.experiment}/{row.id}", row)
    by = {name for of in papers for conclusion in paper(of).conclusions for name in conclusion.by}
    return [row for name, row in found.items() if row.paper in papers or name in by]


def findings_of(experiment: str, papers: Sequence[str] = ()) -> list[Finding]:
    """The findings that the data of ``experiment`` is judged by, in their order; empty where no paper has any."""
    return [one for one in every_finding(papers) if one.experiment == experiment]


def finding(name: str) -> Finding:
    """The finding of ``experiment/finding``, a name that a paper's conclusion gives; of an added paper first."""
    return next(one for one in every_finding([*_ADDED, *names()]) if f"{one.experiment}/{one.id}" == name)


def add_paper(name: str) -> None:
    """Check the paper ``name``, or the one in a folder, and its findings. Those of a folder are added for this process.

    Raises UsageError for any error that can be seen in it."""
    known = {f"{one.experiment}/{one.id}" for one in every_finding([name])}
    for conclusion in paper(name).conclusions:
        if unknown := [by for by in conclusion.by if by not in known]:
            raise UsageError(
                f"{file_of(name, 'json')}, {conclusion.where}, sentence {conclusion.sentence}: no finding is called "
                f"{unknown[0]!r}. The paper has: {', '.join(sorted(known)) or 'none'}"
            )
    if is_outside(name) and name not in _ADDED:
        _ADDED.append(name)


_ADDED: list[str] = []  # the folders of papers from outside the tree
