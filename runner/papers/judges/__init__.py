"""The papers' findings and their judges: one file an experiment whose data they judge, under its name.

Each file has ``FINDINGS``. A judge is a pure function of a run's data; what else is to be said of a finding, it carries
itself (runner/papers/findings.py).
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from runner.papers.findings import Finding


@cache
def findings_of(experiment: str) -> tuple[Finding, ...]:
    """The findings that the data of ``experiment`` is judged by, in their order; empty where no paper has any."""
    if experiment not in {module.name for module in pkgutil.iter_modules(__path__)}:
        return ()
    findings: tuple[Finding, ...] = importlib.import_module(f"{__name__}.{experiment}").FINDINGS
    return findings


def finding(name: str) -> tuple[str, Finding]:
    """The experiment and the finding of ``experiment/finding``, a name that a paper's conclusion gives."""
    experiment, _, wanted = name.partition("/")
    (found,) = [one for one in findings_of(experiment) if one.id == wanted]
    return experiment, found
