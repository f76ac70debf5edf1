"""A metric that only the run itself defines, because its instrument is a file outside of the tree: reported, ranked by
weights, exported and compared as any other."""

import csv
import io
from pathlib import Path

import pytest
from pydantic import ValidationError

from questions.compare.runs import compare_runs
from questions.compare.trends import trends
from runner import catalogue
from runner.cli.main import main
from runner.data.errors import UsageError
from runner.data.merge import merge_runs
from runner.data.metric import Metric
from runner.data.trials import Cell, ExperimentRecord, Measurement, Run, Trial, measured_metrics
from runner.ranking.weights import parse_weights
from runner.report.forms.html import html_text
from runner.report.forms.registry import FORMS
from runner.report.forms.tables import csv_text, json_text
from runner.report.model import Report
from runner.sweep.run_record import metrics_of
from tests.unit.asking import request
from tests.unit.comparisons import form_of, history_html
from tests.unit.reports import everywhere
from tests.unit.synthetic import CBC, make_run, make_trial
from tests.unit.whole_report import build, ranked_of

OURS = Metric(
    name="wake_ms",
    title="Time to wake",
    unit="ms",
    better="lower",
    definition="From the first packet to the tunnel's answer.",
    source="ours",
    measure="wake",
)
INSTRUMENT = """
from runner.data.metric import Metric
from runner.instruments.instrument import Instrument

class Wake(Instrument):
    name = "wake"
    metrics = (Metric(name="wake_ms", title="Time to wake", unit="ms", better="lower", definition="", source=""),)

    def expected_s(self, params, profile, *, first):
        return 1.0

    def measure(self, bench, asked):
        raise NotImplementedError
        yield
"""
VPNS = {"openvpn": 8.0, "ssh_tun": 2.0, "ipsec_user": 4.0}


def run_of(factor: float = 1.0, ours: Metric = OURS, run_id: str = "before") -> tuple[Run, list[Trial]]:
    """Three VPNs in three blocks; their values times ``factor``."""
    params = CBC | {"measure": "wake"}
    trials = []
    for block in range(3):
        for shift, (vpn, value) in enumerate(VPNS.items()):
            found = Measurement(
                metric=ours.name,
                value=value * factor * (0.99, 1.0, 1.01)[(block + shift) % 3],
                unit=ours.unit,
                better=ours.better,
            )
            trials.append(make_trial(vpn, params, block).model_copy(update={"measurements": [found]}))
    experiment = ExperimentRecord(
        name="waking",
        question="How soon?",
        method="Asked.",
        source="ours",
        factors={},
        metrics=[ours.name],
        cells=[Cell(vpn=vpn, params=params) for vpn in VPNS],
    )
    run = make_run(tuple(VPNS), (experiment,))
    return run.model_copy(update={"metrics": {ours.name: ours}, "run_id": run_id}), trials


def report_of(run: Run, trials: list[Trial]) -> Report:
    return build(run, trials, weights=parse_weights("wake_ms=1", run.metrics, measured_metrics(trials)))


def test_it_is_ranked_shown_and_exported() -> None:
    run, trials = run_of()
    report = report_of(Run.model_validate_json(run.model_dump_json()), trials)
    first = ranked_of(report).rankings[0]
    assert [standing.vpn for standing in first.standings] == ["ssh_tun", "ipsec_user", "openvpn"]
    assert [standing.place for standing in first.standings] == [1, 2, 3]
    assert first.titles == {"wake_ms": "Time to wake"}
    for text in everywhere(report).values():
        assert "Time to wake" in text
        assert "2.00 (1.95–2.05) ms" in text
    rows = list(csv.DictReader(io.StringIO(csv_text(report))))
    assert len([row for row in rows if row["metric"] == "wake_ms" and row["kind"] == "value"]) == 9
    assert Report.model_validate_json(json_text(report)).metrics == {"wake_ms": OURS}
    for form in FORMS.values():
        assert form.text(report, None)


def test_two_runs_of_it_are_compared_merged_and_followed() -> None:
    before, after = run_of(), run_of(2.0, run_id="after")
    comparison = compare_runs(before, after)
    assert {change.verdict for change in comparison.changes} == {"regression"}
    assert "Time to wake (lower is better)" in form_of(comparison)
    assert "Time to wake (lower is better)" in history_html(trends([before, after]))
    merged, trials = merge_runs([before, after])
    assert merged.metrics == {"wake_ms": OURS}
    assert ranked_of(report_of(merged, trials)).rankings[0].standings[0].blocks == {"wake_ms": 6}


@pytest.mark.parametrize("change", [{"unit": "s"}, {"better": "higher"}, {"measure": "sleep"}])
def test_runs_that_mean_other_things_by_it_are_not_set_side_by_side(change: dict[str, str]) -> None:
    before, after = run_of(), run_of(ours=OURS.model_copy(update=change), run_id="after")
    for together in (lambda: compare_runs(before, after), lambda: merge_runs([before, after])):
        with pytest.raises(
            UsageError, match="runs before and after mean different things by the metric wake_ms: ms by"
        ):
            together()
    with pytest.raises(UsageError, match="mean different things"):
        trends([before, after])


def test_a_metric_that_the_run_does_not_define_is_refused() -> None:
    run, trials = run_of()
    with pytest.raises(UsageError, match=r"experiment waking: unknown metric 'wake_ms'; run\.json defines none"):
        build(run.model_copy(update={"metrics": {}}), trials)
    with pytest.raises(UsageError, match="the metric 'awake' calls itself 'wake_ms'"):
        build(run.model_copy(update={"metrics": {"awake": OURS}}), trials)


def test_a_weight_for_what_the_run_lacks_ranks_nobody() -> None:
    run, trials = run_of()
    ranking = ranked_of(build(run, trials, weights=parse_weights("jitter=1", {"jitter"}))).rankings[0]
    assert ranking.titles == {"wake_ms": "Time to wake", "jitter": "jitter"}
    assert len(ranking.standings) == len(VPNS)
    assert all(standing.missing == {"jitter": "not measured"} for standing in ranking.standings)


def test_a_run_of_some_traffic_defines_all_that_its_experiments_name() -> None:
    asked = request("transport", vpns="openvpn", levels="measure=tcp")
    assert {name for experiment in asked.experiments for name in experiment.metrics} <= metrics_of(asked).keys()


def test_weights_before_a_run_may_name_what_its_instrument_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The negative weight is refused, and not the metric."""
    monkeypatch.setattr(catalogue, "_ADDED", {})
    own = tmp_path / "wake.py"
    own.write_text(INSTRUMENT)
    options = ["--vpn", "openvpn", "--instrument", str(own), "--weights", "wake_ms=-1"]
    with pytest.raises(SystemExit) as ended:
        main(["run", "transport", *options])
    assert ended.value.code == 2
    assert "the weight of wake_ms is -1" in capsys.readouterr().err


def test_its_words_cannot_steer_a_page_and_its_name_no_file() -> None:
    runs = [run_of(ours=OURS.model_copy(update={"title": "<b>Wake", "unit": "<i>ms"}), run_id=one) for one in "ab"]
    pages = [html_text(report_of(*runs[0])), form_of(compare_runs(*runs)), history_html(trends(runs))]
    for page in pages:
        assert "&lt;b&gt;Wake" in page
        assert "<b>Wake" not in page
        assert "<i>ms" not in page
    with pytest.raises(ValidationError, match="name"):
        Metric.model_validate(OURS.model_dump() | {"name": "../wake"})
