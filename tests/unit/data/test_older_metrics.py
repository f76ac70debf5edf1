"""A run that was made before a metric had all its fields is read with those of today, and nothing else changes."""

import json
from pathlib import Path
from typing import Any

import pytest

from runner import catalogue
from runner.data import store
from runner.data.errors import MeasurementError, UsageError
from runner.data.metric import Metric
from runner.instruments.result import Measured, measurement
from runner.sweep.records import measurements_of
from tests.unit.synthetic import METRICS, realistic_run
from tests.unit.whole_report import build, ranked_of

LATER = ("margin", "short", "bounds", "plot", "absolute", "aside", "limited", "secondary")


def older(folder: Path, without: tuple[str, ...] = LATER) -> dict[str, Any]:
    """A run folder whose run.json has metrics without these fields, and one that nobody measures any more."""
    run, trials = realistic_run(2)
    with store.open_store(folder) as made:
        made.save_run(run)
        for trial in trials:
            made.append(trial)
    written: dict[str, Any] = json.loads((folder / "run.json").read_text())
    gone = {"name": "gone", "title": "Gone", "unit": "1", "better": "lower", "definition": "", "source": ""}
    written["metrics"]["gone"] = {**Metric.model_validate(gone).model_dump(mode="json"), "title": "As it was"}
    for metric in written["metrics"].values():
        for field in without:
            del metric[field]
    (folder / "run.json").write_text(json.dumps(written))
    return written


@pytest.mark.parametrize("without", [LATER, LATER[1:], ("bounds",)])
def test_what_an_older_run_does_not_tell_is_as_it_is_today(tmp_path: Path, without: tuple[str, ...]) -> None:
    written = older(tmp_path, without)
    run, trials = catalogue.load_run(tmp_path)
    assert [*run.metrics] == [*written["metrics"]]
    assert {name: run.metrics[name] for name in run.metrics if name != "gone"} == realistic_run(2)[0].metrics
    assert (run.metrics["gone"].title, run.metrics["gone"].short) == ("As it was", "")
    assert ranked_of(build(run, trials)).rankings == ranked_of(build(*realistic_run(2))).rankings


def test_what_an_older_run_tells_stays(tmp_path: Path) -> None:
    written = older(tmp_path, ("short",))
    written["metrics"]["rtt"] |= {"margin": 1.4, "title": "Round trip", "bounds": [0.0, 7.0]}
    (tmp_path / "run.json").write_text(json.dumps(written))
    rtt = catalogue.read_run(tmp_path / "run.json").metrics["rtt"]
    assert (rtt.margin, rtt.title, rtt.bounds, rtt.short) == (1.4, "Round trip", (0.0, 7.0), METRICS["rtt"].short)


def test_the_bounds_of_today_hold_for_an_older_run(tmp_path: Path) -> None:
    older(tmp_path)
    line = json.loads((tmp_path / "trials.jsonl").read_text().splitlines()[0])
    del line["crc32"]
    line["measurements"] = [{"metric": "rtt", "value": 3.0, "unit": "ms", "better": "lower"}]
    (tmp_path / "trials.jsonl").write_text(json.dumps(line) + "\n")
    assert len(catalogue.load_run(tmp_path)[1]) == 1
    written = json.loads((tmp_path / "run.json").read_text())
    written["metrics"]["rtt"]["bounds"] = [0.0, 2.0]
    (tmp_path / "run.json").write_text(json.dumps(written))
    with pytest.raises(UsageError, match=r"trials\.jsonl, line 1: rtt is 3; it is from 0 to 2"):
        catalogue.load_run(tmp_path)


def test_an_instrument_gives_nothing_beyond_the_bounds() -> None:
    flows = catalogue.instruments()["flows"]
    assert measurements_of(Measured([measurement("fairness", 1.0)], 1.0), flows)
    with pytest.raises(MeasurementError, match=r"flows returned a fairness of 1\.01; it is from 0 to 1"):
        measurements_of(Measured([measurement("fairness", 1.01)], 1.0), flows)


def test_no_name_is_of_a_metric_of_today_and_of_a_retired_one() -> None:
    retired = [metric.name for instrument in catalogue.instruments().values() for metric in instrument.retired]
    assert retired
    assert not {*retired} & catalogue.metrics().keys()
