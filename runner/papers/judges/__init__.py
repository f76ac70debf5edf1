"""The papers' findings and their judges: one file an experiment whose data they judge, under its name.

Each file has ``FINDINGS``. A judge is a pure function of a run's data.
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
