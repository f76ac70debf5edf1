"""The published JSON Schemas are those of the models. UPDATE_GOLDEN=1 writes them, and fails to say so."""

import json
import os
from pathlib import Path

import pytest
from pydantic import BaseModel

from runner.model import Run, Trial

SCHEMAS = Path(__file__).resolve().parents[2] / "docs" / "schema"


@pytest.mark.parametrize(("name", "model"), [("run", Run), ("trial", Trial)])
def test_published_schema_is_the_models(name: str, model: type[BaseModel]) -> None:
    path = SCHEMAS / f"{name}.schema.json"
    schema = json.dumps(model.model_json_schema(), indent=1) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(schema)
        pytest.fail(f"{path.name} written; run again without UPDATE_GOLDEN")
    assert path.read_text() == schema
