"""Runs of schema version 1, read as they were measured and told in today's words.

Version 1 called the factor ``measure`` ``transport``, and kept no definitions of its metrics in run.json.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

from runner.data.files import from_json
from runner.data.metric import Metric
from runner.data.trials import ExperimentRecord, Run, Trial, trial_id

LINE = b'{"schema_version":1,'  # how each of its trials begins


def metrics() -> dict[str, Metric]:
    """The metrics of all runs of version 1, by their names: a frozen table."""
    table = resources.files("runner.data").joinpath("metrics_of_version_1.json").read_text(encoding="utf-8")
    return {one["name"]: Metric.model_validate(one) for one in json.loads(table)}


def trial(line: bytes) -> Trial | None:
    """A trial of version 1; None where ``line`` is none. Raises pydantic's ValidationError for what is not valid.

    Its name follows from its levels, so that the run can go on.
    """
    found = _loaded(line) if line.startswith(LINE) else None
    if found is None:
        return None
    if isinstance(found.get("params"), dict):
        found["params"] = _levels(found["params"])
    old = Trial.model_validate(found | {"schema_version": 2})
    return old.model_copy(update={"id": trial_id(old.vpn, old.params, old.repetition, old.position)})


def run(text: bytes) -> Run | None:
    """A run.json of version 1; None where ``text`` is none. Raises pydantic's ValidationError for what is not valid."""
    found = _loaded(text)
    if found is None or found.get("schema_version") != 1:
        return None
    new = Run.model_validate(found | {"schema_version": 2, "metrics": metrics()})
    return new.model_copy(update={"experiments": [_experiment(record) for record in new.experiments]})


def _experiment(record: ExperimentRecord) -> ExperimentRecord:
    cells = [cell.model_copy(update={"params": _levels(cell.params)}) for cell in record.cells]
    return record.model_copy(update={"factors": _levels(record.factors), "cells": cells})


def _loaded(text: bytes) -> dict[str, Any] | None:
    try:
        found = from_json(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _levels(params: dict[str, Any]) -> dict[str, Any]:
    return {"measure" if factor == "transport" else factor: level for factor, level in params.items()}
