"""The published JSON Schemas are those of the models, and what is in a run folder fits them. UPDATE_GOLDEN=1 writes
them, and fails to say so."""

import json
import os
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from questions.rank.judgement import Ranked
from runner.catalogue import load_run
from runner.data.trials import Run, Slice, Trial
from runner.report.forms.tables import json_text
from runner.report.model import Report
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

ROOT = Path(__file__).resolve().parents[3]
SCHEMAS = ROOT / "docs" / "schema"
EXAMPLES = sorted(path.parent for path in (ROOT / "results" / "examples").glob("*/run.json"))
MODELS: list[tuple[str, type[BaseModel], Literal["validation", "serialization"]]] = [
    ("run", Run, "validation"),
    ("trial", Trial, "validation"),
    ("slice", Slice, "validation"),
    ("report", Report, "serialization"),
    ("rank", Ranked, "serialization"),
]


def published(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize(("name", "model", "mode"), MODELS)
def test_published_schema_is_the_models(
    name: str, model: type[BaseModel], mode: Literal["validation", "serialization"]
) -> None:
    path = SCHEMAS / f"{name}.schema.json"
    schema = json.dumps(model.model_json_schema(mode=mode), indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(schema)
        pytest.fail(f"{path.name} written; run again without UPDATE_GOLDEN")
    assert path.read_text() == schema


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda folder: folder.name)
def test_a_real_run_fits_the_schemas(folder: Path) -> None:
    published("run").validate(json.loads((folder / "run.json").read_text()))
    lines = (folder / "trials.jsonl").read_text().splitlines()
    assert len(lines) > 50
    trial = published("trial")
    for line in lines:
        trial.validate(json.loads(line))
    report = json.loads(json_text(build(*load_run(folder))))
    published("report").validate(report)
    published("rank").validate(report["judgements"]["rank"])


@pytest.mark.parametrize(
    ("update", "where"),
    [
        ({"status": "fine"}, "status"),
        ({"repetition": "1"}, "repetition"),
        ({"surprise": 1}, ""),
        ({"vpn": None}, "vpn"),
    ],
)
def test_what_is_wrong_does_not_fit(update: dict[str, Any], where: str) -> None:
    """The control: the schema refuses what the models refuse."""
    _, trials = realistic_run(1)
    good = json.loads(trials[0].model_dump_json())
    assert list(published("trial").iter_errors(good)) == []
    [error] = published("trial").iter_errors(good | update)
    assert ".".join(map(str, error.path)) == where
