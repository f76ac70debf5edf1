"""The report as LaTeX and PDF, of a failure, and of a run that is too large for a page."""

import re
from pathlib import Path

import pytest

from questions.rank.verdict_words import sentence
from questions.rank.words import answers
from runner.data.errors import UsageError
from runner.data.trials import Event, LossGap, Timeline
from runner.report.failures import DRAWN, spread
from runner.report.forms.html import html_text
from runner.report.forms.latex import latex_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.pdf import pdf_bytes
from runner.report.forms.registry import FORMS
from runner.report.forms.tables import csv_text
from runner.report.plots import vega
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Samples
from runner.report.plots.thinning import ranges, thin_experiment
from tests.unit.reports import everywhere, one_experiment, realistic
from tests.unit.synthetic import CBC, PLAIN, TCP, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of


def test_latex_escapes_what_is_special_and_has_every_row() -> None:
    evil = r"a_b & 50% #1 {x} \input{/etc/passwd} $^~ <y>"
    trials = [make_trial("openvpn", CBC | TCP, block, {"tcp_throughput": 1e8 + block}) for block in range(3)]
    failed = make_trial("openvpn", CBC | TCP, 0, status="failed", reason="no")
    trials.append(failed.model_copy(update={"params": failed.params | {"payload": evil}}))  # what no file can hold
    text = latex_text(build(one_experiment(trials), trials))
    assert r"\input" not in text
    escaped = r"a\_b \& 50\% \#1 \{x\} \textbackslash{}input\{/etc/passwd\} "
    assert escaped + r"\$\textasciicircum{}\textasciitilde{} \textless{}y\textgreater{}" in text
    plain = re.sub(r"\\.|\$\\\w+\$|\$-\$", "", "\n".join(line for line in text.splitlines() if line.startswith("  ")))
    assert not set(plain) & set("%$#_^~")
    assert text.count(r"\begin{table*}") == text.count(r"\end{table*}") > 1
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert sum("openvpn" in row and "failed" in row for row in rows) == 1
    assert r"\par\noindent [1] failed: openvpn" in text
    assert text.split(r"\par\noindent [1] failed: ")[1].splitlines()[0].endswith(": no")


def test_markdown_and_latex_begin_with_the_answer_and_end_with_where_it_comes_from() -> None:
    report = realistic()
    md, tex = (re.sub(r"\\(.)", r"\1", form(report)) for form in (markdown_text, latex_text))
    for text, values, ranks in ((md, "| place | VPN |", "\n## Ranking: "), (tex, "place & VPN &", "caption{Ranking: ")):
        text = text.replace("textgreater{}", ">").replace("&gt;", ">").replace("textless{}", "<").replace("&lt;", "<")
        for answer in answers(ranked_of(report)):
            said = [
                answer.verdict,
                answer.change,
                *(sentence(report.metrics[one.metric], one) for one in answer.against),
            ]
            assert all(words in text for words in said)
            assert text.index(answer.verdict) < text.index(values) < text.index(ranks)
        assert text.index(ranks) < text.index("coefficient of variation") < text.index(report.command_line)


def test_markdown_and_latex_have_the_values_of_the_ranking() -> None:
    report = realistic()
    first = answers(ranked_of(report))[0]
    behind = {one.metric: one for one in ranked_of(report).behind[first.number]}
    for text, cell in ((markdown_text(report), "|"), (latex_text(report), "&")):
        for vpn in (vpn for group in first.groups for vpn in group):
            row = next(line for line in text.replace("\\_", "_").splitlines() if f" {cell} {vpn} {cell} " in line)
            said = float(row.split(cell)[5 if cell == "|" else 4].split("(")[0])
            assert said == pytest.approx(behind["tcp_throughput"].summaries[vpn].median / 1e6, rel=0.005)


def test_latex_columns_are_as_many_as_declared() -> None:
    for table in latex_text(realistic()).split(r"\begin{tabular}{")[1:]:
        columns, body = table.split("}", 1)
        body = body.split(r"\end{tabular}")[0]
        for row in (line for line in body.splitlines() if line.endswith(r"\\")):
            assert len(re.findall(r"(?<!\\)&", row)) == len(columns) - 1


def test_pdf_says_what_it_needs_where_there_is_no_chromium(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="apt-get install chromium"):
        pdf_bytes("<p>")
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be started: No such file"):
        pdf_bytes("<p>")


def test_a_pdf_that_was_not_made_is_an_error_with_the_browsers_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    browser = tmp_path / "chromium"
    browser.write_text("#!/bin/sh\necho no display >&2\nexit 7\n")
    browser.chmod(0o755)
    monkeypatch.setenv("CHROMIUM", str(browser))
    with pytest.raises(UsageError, match="ended with 7 and made no PDF: no display"):
        pdf_bytes("<p>")


def test_a_page_of_very_many_cells_shows_some_of_each_vpn_and_the_range_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.report.plots.thinning.ROWS", 20)
    trials = [
        make_trial(vpn, CBC | TCP | {"payload": str(number)}, block, {"tcp_throughput": 1e6 * number + 2e4 * block})
        for vpn in ("none", "openvpn")
        for number in range(1, 31)
        for block in range(3)
    ]
    report = build(one_experiment(trials), trials)
    (experiment,) = report.experiments
    assert [len(table.rows) for table in experiment.tables] == [60]
    (table,) = thin_experiment(report, experiment).tables
    assert {row.vpn for row in table.rows} == {"none", "openvpn"}
    assert len(table.rows) == 20
    for text in (html_text(report), markdown_text(report), latex_text(report)):
        assert "of each VPN, one cell of 3 is shown" in text
    assert "all cells of each VPN" in html_text(report)
    assert ranges(experiment.tables[0])[0] == ("none", "30", "1.02 Mbit/s", "15.5 Mbit/s", "30.0 Mbit/s")
    assert csv_text(report).count(",median,") == 60
    monkeypatch.undo()
    assert "one cell of" not in html_text(realistic())


@pytest.mark.parametrize("never", [False, True])
def test_the_timeline_of_a_failure_is_drawn_from_the_break_to_the_first_packet_after(never: bool) -> None:
    cell = PLAIN | {"measure": "recovery", "failure": "wan_cut"}
    trials = []
    for block, outage_s in enumerate((3.0, 9.0, 0.1)):
        trial = make_trial("none", cell, block, {"outage_ms": 1e3 * outage_s})
        detail = {"unrecovered": int(never and outage_s == 9.0)}
        outage = trial.measurements[0].model_copy(update={"samples": [1e3 * outage_s], "detail": detail})
        line = Timeline(
            rate=1000.0,
            events=[Event(at_s=1.5, what="the WAN is cut"), Event(at_s=2.0, what="the WAN is whole again")],
            gaps=[
                LossGap(direction="forward", start_s=0.2, end_s=0.3, lost=100),  # before the break: none of it
                LossGap(direction="forward", start_s=1.6, end_s=1.6 + outage_s, lost=int(1e3 * outage_s)),
            ],
        )
        trials.append(trial.model_copy(update={"measurements": [outage], "timelines": [line]}))
    run = one_experiment(trials)
    record = run.experiments[0].model_copy(update={"metrics": ["outage_ms"]})
    report = build(run.model_copy(update={"experiments": [record]}), trials)
    (plot,) = [one for one in plots_of(report, report.experiments[0], Samples(report)) if "timelines" in one.key]
    bars, points = (layer["data"]["values"] for layer in plot.spec["layer"])
    assert [(bar["from"], bar["to"]) for bar in bars] == [(0.1, 0.2), (0.1, 3.1), (0.1, 9.1)]  # by their outage
    last = [(0.5, "given up")] if never else [(0.5, "what was done or seen"), (9.1, "first packet after")]
    assert [(p["at"], p["kind"]) for p in points if p["failure"] == 3] == [(0.0, "the break"), *last]
    assert (3.1, "first packet after") in [(p["at"], p["kind"]) for p in points if p["failure"] == 2], "control"
    assert "WAN is whole" in vega.svg(plot.spec)
    assert plot.title in html_text(report)


def test_a_failure_that_cost_nothing_has_no_first_packet_after_it_and_the_cells_stand_as_in_the_table() -> None:
    trials = []
    for vpn in ("openvpn", "none"):  # as they were measured
        trial = make_trial(vpn, PLAIN | {"measure": "recovery", "failure": "wan_cut"}, 0, {"outage_ms": 0.0})
        outage = trial.measurements[0].model_copy(update={"samples": [0.0]})
        early = LossGap(direction="reverse", start_s=0.2, end_s=0.3, lost=100)
        line = Timeline(rate=1000.0, events=[Event(at_s=1.5, what="the WAN is cut")], gaps=[early])
        trials.append(trial.model_copy(update={"measurements": [outage], "timelines": [line]}))
    run = one_experiment(trials)
    record = run.experiments[0].model_copy(update={"metrics": ["outage_ms"]})
    report = build(run.model_copy(update={"experiments": [record]}), trials)
    (plot,) = [one for one in plots_of(report, report.experiments[0], Samples(report)) if "timelines" in one.key]
    bars, points = (layer["data"]["values"] for layer in plot.spec["layer"])
    assert bars == []
    assert [(point["cell"].split()[0], point["kind"]) for point in points] == [
        ("none", "the break"),
        ("openvpn", "the break"),
    ]


@pytest.mark.parametrize("number", [1, 4, 5, 6, 30])
def test_the_drawn_failures_are_few_and_have_both_ends(number: int) -> None:
    found = spread(number)
    assert found == sorted(set(found))
    assert len(found) == min(number, DRAWN)
    assert {0, number - 1} <= set(found)


def test_every_form_says_how_to_cite_the_run() -> None:
    """By what another needs to find code, software and order again: version, commit, image and seed."""
    run, trials = realistic_run()
    image = {"name": "trixie", "digest": "0123456789ab"}
    cited = run.model_copy(update={"commit": "fedcba987654+", "image": image, "seed": 46})
    report = build(cited, trials)
    assert report.citation == (
        f"vpneval {run.vpneval_version}, commit fedcba987654+, run {run.run_id} of {run.created_at[:10]}, "
        "image trixie 0123456789ab, seed 46"
    )
    others = {name: form.text(report, None) for name, form in FORMS.items()}
    for form, text in (everywhere(report) | others).items():
        assert all(part in " ".join(text.split()) for part in ("fedcba987654", "0123456789ab", "seed 46")), form
    older = build(run.model_copy(update={"image": {}}), trials)
    assert "commit" not in older.citation
    assert "image" not in older.citation
