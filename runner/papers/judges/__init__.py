"""The papers' findings and their judges: one file an experiment whose data they judge, under its name.

Each file has ``FINDINGS``. A judge is a pure function of a run's data. Where there is something to say, a file has
more, by the findings' names:

- ``RUNS``: the arguments of ``vpneval run`` that measure a finding, or, under "", all others. Without, the experiment's
  name is enough.
- ``NO_RUN``: why no single run decides a finding.
- ``COUNTS``: what the number of a finding is, as a sentence with ``{}`` for the number; each finding has one. Under
  "finding: part", what it is where this part of the claim decides.
- ``TODAY``: why a finding is not reproduced today, by its name and by how the reason of its verdict begins.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from typing import Any

from runner.papers.findings import Finding


def findings_of(experiment: str) -> tuple[Finding, ...]:
    """The findings that the data of ``experiment`` is judged by, in their order; empty where no paper has any."""
    findings: tuple[Finding, ...] = _declared(experiment).get("FINDINGS", ())
    return findings


def run_for(experiment: str, finding: str) -> str:
    """The arguments of ``vpneval run`` that measure this finding."""
    runs: Mapping[str, str] = _declared(experiment).get("RUNS", {})
    return runs.get(finding, runs.get("", experiment))


def no_run(experiment: str, finding: str) -> str:
    """Why no single run decides this finding; empty where one does."""
    reasons: Mapping[str, str] = _declared(experiment).get("NO_RUN", {})
    return reasons.get(finding, "")


def counts(experiment: str, finding: str, part: str = "") -> tuple[str, str]:
    """What the number of this finding is, a sentence with ``{}`` for the number; and the ``part`` of the claim that it
    is of, empty where the sentence is about this part alone."""
    sentences: Mapping[str, str] = _declared(experiment).get("COUNTS", {})
    if of_part := sentences.get(f"{finding}: {part}"):
        return of_part, ""
    return sentences.get(finding, "{}"), part


def why_today(experiment: str, finding: str, reason: str) -> list[str]:
    """Why this finding is not reproduced today, as far as that is known, by the reason of its verdict."""
    known: Mapping[tuple[str, str], str] = _declared(experiment).get("TODAY", {})
    return [why for (name, begins), why in known.items() if name == finding and reason.startswith(begins)]


@cache
def _declared(experiment: str) -> Mapping[str, Any]:
    """What the file of this experiment declares; empty where there is none."""
    if experiment not in {module.name for module in pkgutil.iter_modules(__path__)}:
        return {}
    return vars(importlib.import_module(f"{__name__}.{experiment}"))
