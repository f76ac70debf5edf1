"""Runs of schema version 1 are read as they were: the same trials, numbers and levels, in today's words."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from runner.data.errors import UsageError
from runner.data.levels import TRAFFIC_ORDER, TUNNEL_FACTORS
from runner.data.store import load_run, open_store, read_slices
from runner.data.trials import SCHEMA_VERSION, Slice, trial_id
from runner.report.forms.tables import SUMMARY, csv_text
from runner.report.model import build

EXAMPLE = Path(__file__).parent / "data" / "version1"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "old"))


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def test_every_number_and_level_is_there(old: Path) -> None:
    run, trials = load_run(old)
    assert run.schema_version == SCHEMA_VERSION == 2
    for trial, before in zip(trials, lines(old), strict=True):
        assert (trial.vpn, trial.repetition, trial.status) == (before["vpn"], before["repetition"], before["status"])
        params = dict(trial.params)
        assert params.pop("measure") == before["params"]["transport"]  # type: ignore[index]
        assert params.items() < before["params"].items()  # type: ignore[attr-defined]
        measurements = [found | {"rounds": []} for found in before["measurements"]]  # type: ignore[attr-defined]
        assert [m.model_dump() for m in trial.measurements] == measurements
        assert trial.id == trial_id(trial.vpn, trial.params, trial.repetition, trial.position)
    assert "transport" not in {factor for record in run.experiments for cell in record.cells for factor in cell.params}


def test_its_report_has_the_numbers_of_then() -> None:
    """Of every cell and metric, as vpneval printed them when version 1 was today's (version1-report.csv)."""
    levels = [*TUNNEL_FACTORS, *TRAFFIC_ORDER]
    now: dict[tuple[str, str, str], dict[str, float]] = {}
    for line in csv.DictReader(io.StringIO(csv_text(build(*load_run(EXAMPLE))))):
        if line["kind"] in SUMMARY:
            cell = " ".join(sorted(f"{factor}={line[factor]}" for factor in levels if line[factor]))
            now.setdefault((line["vpn"], cell, line["metric"]), {})[line["kind"]] = float(line["value"] or "nan")
    with (EXAMPLE.parent / "version1-report.csv").open(encoding="utf-8") as file:
        then = {
            (line["vpn"], " ".join(sorted(line["levels"].split())), line["metric"]): pytest.approx(
                {kind: float(line[kind] or "nan") for kind in SUMMARY}, rel=1e-9, nan_ok=True
            )
            for line in csv.DictReader(file)
        }
    assert len(then) == 116
    assert now == then


def test_its_metrics_are_defined(old: Path) -> None:
    run, trials = load_run(old)
    measured = {found.metric: found for trial in trials for found in trial.measurements}
    assert measured
    for name, found in measured.items():
        assert (run.metrics[name].unit, run.metrics[name].better) == (found.unit, found.better)


def test_it_goes_on_in_version_2(old: Path) -> None:
    with open_store(old) as store:
        again = store.trials[0].model_copy(update={"reason": "again"})
        store.append_slices([Slice(trial=again.id, number=1, at_s=0, duration_s=1, values={"rate_bps": 2e6})])
        store.append(again)
    assert lines(old)[-1]["schema_version"] == 2
    assert {trial.id: trial for trial in load_run(old)[1]}[again.id].reason == "again"
    assert [one.values for one in read_slices(old)[again.id]] == [{"rate_bps": 2e6}]


def test_what_is_broken_in_it_is_named(old: Path) -> None:
    path = old / "trials.jsonl"
    path.write_text(path.read_text().replace('"status":"ok"', '"status":"fine"', 1))
    with pytest.raises(UsageError, match=r"trials\.jsonl, line \d+: status: Input should be"):
        load_run(old)
    (old / "run.json").write_text('{"schema_version": 1, "experiments": [{}]}')
    with pytest.raises(UsageError, match=r"run\.json: "):
        load_run(old)
