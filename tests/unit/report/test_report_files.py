"""The report as files: tidy, escaped, whole, and honest about a poor run."""

import csv
import io
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from questions.compare.runs import compare_runs
from runner.catalogue import load_run
from runner.cli.main import main
from runner.data import streams
from runner.data.errors import UsageError
from runner.data.guest import GUEST
from runner.data.trials import Run, Trial
from runner.ranking.model import Ranking
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.registry import FORMS
from runner.report.forms.tables import csv_text, json_text, parquet_bytes
from runner.report.forms.write import write_everything, write_reports
from runner.report.model import Report
from runner.report.plots import vega
from tests.unit.reports import (
    everywhere,
    one_experiment,
    realistic,
    terminal,
)
from tests.unit.synthetic import CBC, IDLE, TCP, UDP, make_run, make_trial, realistic_run, record
from tests.unit.whole_report import build, ranked_of


def bare_runs() -> dict[str, tuple[Run, list[Trial]]]:
    failed = [make_trial("openvpn", CBC | t, 0, status="failed", reason="no route\nto host") for t in (TCP, UDP, IDLE)]
    refused = [make_trial("openvpn", CBC | TCP, 0, status="unsupported", reason="no such cipher")]
    broken = [make_trial("openvpn", CBC | TCP, 0, status="lab_error", reason="the lab is gone")]
    alone = [make_trial("openvpn", CBC | TCP, 0, {"tcp_throughput": 1e8})]
    return {
        "only failed": (one_experiment(failed), failed),
        "only unsupported": (one_experiment(refused), refused),
        "lab error": (one_experiment(broken), broken),
        "one repetition": (one_experiment(alone), alone),
        "nothing yet": (one_experiment(failed), []),
        "no experiment": (make_run(()), []),
        "bare": (make_run(()).model_copy(update={"invocations": [], "lab": {}, "image": {}, "seed": 0}), []),
    }


@pytest.mark.parametrize("name", bare_runs())
def test_a_poor_run_still_makes_a_report_that_says_so(name: str) -> None:
    run, trials = bare_runs()[name]
    report = build(run, trials)
    for form in FORMS.values():
        assert form.text(report, None)
    for text in everywhere(report).values():
        if name == "one repetition":
            assert "100 (no interval) Mbit/s" in text
            assert "There was one repetition" in text
        else:
            assert "No trial ended ok" in text
            assert "Nothing to rank" in text
        for trial in trials:
            assert " ".join(trial.reason.split()) in text
        if name == "nothing yet":
            assert "not run" in text


HOSTILE = '<script>alert("1")</script>|[bold red]x[/]\x1b[31m\\u001b\x9b\x7f\u202e\r`\x1b'
READABLE = streams.visible_text(HOSTILE)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.scripts = self.data = 0
        self.within = ""
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.within = tag
        self.scripts += tag == "script"
        self.data += tag == "script" and ("type", "application/json") in attrs

    def handle_data(self, data: str) -> None:
        if self.within == "script" and data.startswith(("{", "[")):
            assert not streams.CONTROL.search(json.dumps(json.loads(data), ensure_ascii=False))
        self.text += data if self.within not in ("script", "style") else ""


def test_every_field_is_text_never_markup() -> None:
    trials = [
        make_trial("x", {**CBC, **TCP}, block, {"tcp_throughput": 1e8 + block}, warnings=(HOSTILE,)) for block in (0, 1)
    ]
    trials += [make_trial("x", CBC | UDP, 0, status="failed", reason=HOSTILE)]
    # No file can hold these; forms escape them all the same.
    ciphers = [HOSTILE, HOSTILE, CBC["cipher"]]
    trials = [
        trial.model_copy(update={"vpn": HOSTILE, "params": trial.params | {"cipher": cipher}})
        for trial, cipher in zip(trials, ciphers, strict=True)
    ]
    run = one_experiment(trials)
    vpn = record("openvpn").model_copy(update={"configurations": {HOSTILE: {"cipher": HOSTILE}}, "reference": False})
    reference = vpn.model_copy(update={"reference": True})
    experiment = run.experiments[0].model_copy(update=dict.fromkeys(("name", "question", "method", "source"), HOSTILE))
    run = run.model_copy(
        update={
            **dict.fromkeys(("run_id", "profile", "profile_note", "created_at", "vpneval_version"), HOSTILE),
            "vpns": {HOSTILE: vpn, HOSTILE + "2": reference, "other" + HOSTILE: vpn},
            "experiments": [experiment],
            "lab": {"kind": HOSTILE, HOSTILE: [HOSTILE]},
            "image": {"name": HOSTILE},
            "invocations": [run.invocations[0].model_copy(update={"command_line": [HOSTILE], "outcome": HOSTILE})],
        }
    )
    report = build(run, trials)
    page = Tags()
    page.feed(html_text(report))
    assert page.scripts == 4 + page.data  # Vega's, the page's own, the ranking's; and data, which does not run
    assert page.text.count(READABLE) > 20
    assert "\\u202e" in page.text
    for name, form in FORMS.items():
        said = re.sub(r"<script>.*?</script>", "", form.text(report, None), flags=re.S)
        assert streams.CONTROL.search(said) is None or name == "json", name
    assert json.loads(json_text(report))["run_id"] == HOSTILE  # raw data for programs
    assert "<script" not in markdown_text(report)
    rows = [line for line in markdown_text(report).splitlines() if line.startswith("|") and "alert" in line]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows if "Mbit/s" in row} == {8}  # seven columns
    shown = terminal(report)
    assert "[bold red]" in shown
    assert "\x1b" not in shown  # no log may steer the reader's terminal
    assert next(csv.DictReader(io.StringIO(csv_text(report))))["vpn"] == READABLE


FORMULAS = ["=1+1", "+1+1", "-1+1", "@SUM(1)", " =1+1", "\t=1+1", "-", "-x", "=cmd|' /C calc'!A0"]
NUMBERS = ["-5", "+5", "-0.5", "-1e-9", "5", "-inf"]


def with_payload(trial: Trial, word: str) -> Trial:
    """The trial with a level that no file can hold."""
    return trial.model_copy(update={"params": trial.params | {"payload": word}})


def test_no_cell_is_a_formula_and_a_negative_number_is_one() -> None:
    trials = [
        with_payload(make_trial(f"vpn{number}", CBC | TCP, 1, {"tcp_throughput": 1e8}, warnings=()), word)
        for number, word in enumerate([*FORMULAS, *NUMBERS, "fast", "a=b"])
    ]
    failed = [make_trial(f"vpn{at}", CBC | UDP, 1, status="failed", reason=word) for at, word in enumerate(FORMULAS)]
    vpns = tuple({trial.vpn for trial in trials})
    report = build(one_experiment([*trials, *failed], vpns), [*trials, *failed])
    rows = list(csv.DictReader(io.StringIO(csv_text(report), newline="")))
    levels = {row["vpn"]: row["payload"] for row in rows if row["payload"]}
    assert [levels[f"vpn{at}"] for at in range(len(trials))] == [
        *(f"'{word}" for word in FORMULAS),
        *NUMBERS,
        "fast",
        "a=b",
    ]
    reasons = {row["reason"] for row in rows if row["reason"] and row["kind"] != "citation"}
    assert reasons == {f"'{word}" for word in FORMULAS}
    polars = pytest.importorskip("polars")
    table = polars.read_parquet(io.BytesIO(parquet_bytes(report) or b""))
    assert set(FORMULAS) <= set(table["payload"].to_list()), "Parquet has the levels as they are"


def test_html_is_self_contained_and_accessible() -> None:
    page = re.sub(r"<script>.*?</script>", "", html_text(realistic()), flags=re.S)  # tests/browser looks at those
    assert not re.search(r"(src|href)=[\"']?(https?:|//)|@import|url\(", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    assert page.count("<table>") == page.count("<caption>") == page.count("</table>")
    assert 'scope="col"' in page
    assert 'scope="row"' in page
    ids = re.findall(r'id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_csv_is_tidy() -> None:
    run, trials = realistic_run()
    rows = list(csv.DictReader(io.StringIO(csv_text(build(run, trials)))))
    measurements = [m for t in trials for m in t.measurements]
    bare = sum(not t.measurements for t in trials)
    of_trials = [row for row in rows if row["trial"]]
    assert len(of_trials) == len(measurements) + sum(len(m.samples) for m in measurements) + bare
    assert {row["trial"] for row in of_trials} == {t.id for t in trials}  # nothing is dropped
    values = [float(row["value"]) for row in rows if row["kind"] == "value"]
    assert values == [m.value for m in measurements]
    assert {row["cipher"] for row in rows} >= {"none", "aes-128-cbc", "aes-256-gcm"}


@pytest.mark.parametrize("level", ["null", "NA", "None", "aes-128-cbc"])
def test_no_level_is_a_missing_value_for_pandas(level: str) -> None:
    """Which takes ``null`` for none, quoted or not; R takes ``NA``."""
    pandas = pytest.importorskip("pandas")
    run, trials = realistic_run()
    named = [
        one.model_copy(update={"params": one.params | {"cipher": level}}) for one in trials if one.vpn == "openvpn"
    ]
    text = csv_text(build(run, named))
    ciphers = pandas.read_csv(io.StringIO(text)).query("kind != 'citation'")["cipher"]
    assert not ciphers.isna().any()
    assert {*ciphers} == {level if level == "aes-128-cbc" else f"'{level}"}
    quoted = pandas.read_csv(io.StringIO(text.replace(f"'{level}", f'"{level}"'))).query("kind != 'citation'")["cipher"]
    assert quoted.isna().any() == (level != "aes-128-cbc"), "it would be seen"


def test_every_column_of_a_level_has_levels_and_numbers_are_numbers_in_parquet() -> None:
    polars = pytest.importorskip("polars")
    levels = [{"streams": "4", "gw2_cpu": "0.5"}, {"streams": "16", "gw2_cpu": "1"}, {"payload": "random"}]
    trials = [make_trial("openvpn", CBC | TCP | own, 1, {"tcp_throughput": 1e8}) for own in levels]
    report = build(one_experiment(trials, ("openvpn",)), trials)
    rows = list(csv.DictReader(io.StringIO(csv_text(report))))
    factors = [*rows[0]][4 : [*rows[0]].index("repetition")]
    assert {"cipher", "streams", "gw2_cpu"} <= {*factors}
    assert [name for name in factors if not any(row[name] for row in rows)] == []
    table = polars.read_parquet(io.BytesIO(parquet_bytes(report) or b""))
    assert {*table.filter(polars.col("kind") == "value")["streams"]} >= {4, 16}
    assert table["gw2_cpu"].drop_nulls().max() == 1.0
    assert table["cipher"].dtype == polars.String


def test_csv_ends_with_the_summary_of_each_cell_once() -> None:
    report = realistic()
    rows = [row for row in csv.DictReader(io.StringIO(csv_text(report))) if not row["trial"]]
    assert {row["kind"] for row in rows} == {"n", "median", "mean", "low", "high", "variation", "citation"}
    shown = {
        (row.vpn, str(row.params), table.metric): row.summary.variation
        for experiment in report.experiments
        for table in experiment.tables
        for row in table.measured_rows
        if row.summary
    }
    variations = [row for row in rows if row["kind"] == "variation"]
    assert sorted(float(row["value"]) for row in variations) == sorted(v for v in shown.values() if v is not None)
    assert {row["unit"] for row in variations} == {"1"}
    shared = next(r for r in variations if r["vpn"] == "openvpn" and r["metric"] == "tcp_throughput")
    assert len(shared["experiments"].split()) > 1


def test_json_is_the_report_again() -> None:
    report = realistic()
    again = Report.model_validate_json(json_text(report))
    assert json_text(again) == json_text(report)
    written = again.judgements["rank"]
    assert [Ranking.model_validate(one) for one in written["rankings"]] == ranked_of(report).rankings
    assert written.keys() == json.loads(ranked_of(report).model_dump_json()).keys()
    assert html_text(again).count("<figure>") > 10


def test_files_are_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = realistic(1)
    assert [path.name for path in write_reports(tmp_path, report)] == [
        "report.html",
        "report.md",
        "report.json",
        "report.csv",
    ]
    before = (tmp_path / "report.html").read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_reports(tmp_path, realistic(3))
    assert (tmp_path / "report.html").read_text() == before
    assert len(list(tmp_path.iterdir())) == 4  # and no debris


def test_the_commands_of_a_page_name_the_whole_run_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last part of its path is not enough: after a second run under a guest kernel it is `host` or `uml`."""
    folder = tmp_path / "results" / "both" / "host"
    folder.mkdir(parents=True)
    run, trials = realistic_run(3)
    (folder / "run.json").write_text(run.model_dump_json())
    (folder / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in trials))
    write_reports(folder, build(run, trials))
    with pytest.raises(SystemExit):
        main(["report", str(folder), "--format", "html"])
    for page in ((folder / "report.html").read_text(), capsys.readouterr().out):
        assert f"vpneval report {folder} --weights" in page
        assert f"vpneval more {folder}" in page


def test_everything_is_written_with_pictures_that_the_markdown_shows(tmp_path: Path) -> None:
    run, trials = realistic_run(2)
    one = run.model_copy(update={"experiments": run.experiments[1:2]})
    paths = {path.relative_to(tmp_path).as_posix() for path in write_everything(tmp_path, build(one, trials))}
    assert {"report.html", "report.md", "report.json", "report.csv"} < paths
    shown = re.findall(r"\]\((report-plots/[^)]+\.svg)\)", (tmp_path / "report.md").read_text())
    assert len(shown) >= 3
    assert {path for path in paths if path.endswith(".svg")} == set(shown)
    for picture in shown:
        assert (tmp_path / picture).read_text().startswith("<svg")
        assert (tmp_path / picture).with_suffix(".png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / picture).with_suffix(".pdf").read_bytes().startswith(b"%PDF-")


def test_parquet_is_the_csv_with_types(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    report = realistic()
    path = tmp_path / "report.parquet"
    path.write_bytes(parquet_bytes(report) or b"")
    table = polars.read_parquet(path)
    rows = list(csv.DictReader(io.StringIO(csv_text(report))))
    assert table.height == len(rows)
    assert table.columns == list(rows[0])
    values = table.filter(polars.col("kind") == "value")["value"].to_list()
    assert values == [float(row["value"]) for row in rows if row["kind"] == "value"]
    assert table.schema["encrypted"] == polars.Boolean


BAD = {
    "empty": ({}, "it has no run.json"),
    "half a run.json": ({"run.json": b'{"schema_version": 1, "vpneval'}, "run.json: Invalid JSON"),
    "another version": ({"run.json": b"VERSION 7"}, "schema version 7; this vpneval reads 2"),
    "a wrong type": ({"run.json": b"RUN", "trials.jsonl": b"TYPE\n"}, "trials.jsonl, line 2: repetition"),
    "no text": ({"run.json": b"RUN", "trials.jsonl": b"\xff\xfe\n"}, "trials.jsonl, line 1"),
    "an unknown field": ({"run.json": b"RUN", "trials.jsonl": b"FIELD\n"}, "line 2: speed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_run_folder_is_refused_with_the_place(name: str, tmp_path: Path) -> None:
    files, says = BAD[name]
    run, trials = realistic_run(1)
    line = trials[0].model_dump_json()
    known = {
        b"RUN": run.model_dump_json(),
        b"VERSION 7": run.model_copy(update={"schema_version": 7}).model_dump_json(),
        b"TYPE\n": line + "\n" + line.replace('"repetition":0', '"repetition":"often"') + "\n",
        b"FIELD\n": line + "\n" + line.replace('"repetition":0', '"repetition":0,"speed":9') + "\n",
    }
    for file, content in files.items():
        (tmp_path / file).write_bytes(known[content].encode() if content in known else content)
    with pytest.raises(UsageError, match=re.escape(says)):
        load_run(tmp_path)


def test_a_torn_last_line_is_not_a_trial(tmp_path: Path) -> None:
    run, trials = realistic_run(1)
    (tmp_path / "run.json").write_text(run.model_dump_json())
    whole = "".join(trial.model_dump_json() + "\n" for trial in trials)
    (tmp_path / "trials.jsonl").write_text(whole + trials[0].model_dump_json()[:50])
    assert load_run(tmp_path)[1] == trials


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"metric": "speed"}, "unknown metric 'speed'"),
        ({"unit": "furlong"}, "is in furlong"),
        ({"value": float("nan")}, "not a finite number"),
        ({"samples": [float("inf")]}, "not a finite number"),
    ],
)
def test_what_no_trial_can_have_measured_is_refused_with_the_trial(change: dict[str, object], says: str) -> None:
    run, trials = realistic_run(1)
    at = next(index for index, trial in enumerate(trials) if trial.measurements)
    wrong = trials[at].model_copy(update={"measurements": [trials[at].measurements[0].model_copy(update=change)]})
    broken = [*trials[:at], wrong, *trials[at + 1 :]]
    with pytest.raises(UsageError, match=re.escape(says)) as refused:
        build(run, broken)
    assert wrong.id in str(refused.value)
    with pytest.raises(UsageError, match=re.escape(says)):
        compare_runs((run, trials), (run, broken))


def test_a_level_that_is_no_number_is_refused() -> None:
    run, trials = realistic_run(1)
    trials[0] = trials[0].model_copy(update={"params": trials[0].params | {"wan_rate_bps": "fast"}})
    with pytest.raises(UsageError, match="'fast' of wan_rate_bps is not a number"):
        build(run, trials)


def test_odd_details_are_left_out_not_guessed() -> None:
    run, trials = realistic_run(1)
    at = next(index for index, trial in enumerate(trials) if trial.measurements)
    odd = {"trials": [3, {"offered_rate_bps": "fast"}, {"offered_rate_bps": 5, "loss_ratio": 0.5}], "interval_bps": 7}
    found = [trials[at].measurements[0].model_copy(update={"detail": odd})]
    trials[at] = trials[at].model_copy(update={"measurements": found})
    report = build(run, trials)
    assert next(one.search for one in report.observations if one.search) == [(5.0, 0.5)]
    for form in FORMS.values():
        assert form.text(report, None)


def test_vega_is_kept_and_a_guest_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path))
    monkeypatch.setenv(GUEST, "uml")
    vega.script.cache_clear()
    assert "made in a guest kernel" in vega.script()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv(GUEST)
    vega.script.cache_clear()
    made = vega.script()
    assert len(made) > 500_000
    (kept,) = tmp_path.iterdir()
    assert kept.read_text(encoding="utf-8") == made
    monkeypatch.setenv(GUEST, "uml")
    vega.script.cache_clear()
    assert vega.script() == made  # the guest uses what is kept
    vega.script.cache_clear()
