"""Findings as they are read: in a report of every form, and on the page that sets runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from rich.console import Console

from runner.data.store import load_run
from runner.data.trials import Run, Trial
from runner.papers.published import names as published_papers
from runner.papers.published import paper
from runner.report.conclusions import outcome
from runner.report.findings import Findings, findings
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render
from runner.report.model import build
from runner.report.papers import findings_text, rows_of
from runner.report.plots.plots_findings import published_against_measured
from runner.report.plots.vega import svg
from tests.unit.findings_worlds import ROOT, made
from tests.unit.synthetic import make_trial


def rendered(run: Run, trials: Sequence[Trial]) -> dict[str, str]:
    report = build(run, trials)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    render(report, console, full=True)
    return {
        "term": console.export_text(),
        "html": html_text(report),
        "md": markdown_text(report),
        "json": json_text(report),
    }


def test_every_rendering_has_the_table_and_the_device_row() -> None:
    run, trials = made("devices")
    for form, text in rendered(run, trials).items():
        words = " ".join(text.split())
        assert "AES-256 costs speed against AES-128" in words, form
        assert "reproduced" in words, form
        assert "Made-up CPU @ 2.0 GHz" in words, form


def test_a_run_without_findings_has_no_section() -> None:
    run, trials = made("load")
    bare = run.model_copy(update={"experiments": [run.experiments[0].model_copy(update={"name": "gone"})]})
    assert findings(bare, trials) == Findings()
    for form, text in rendered(bare, [t.model_copy(update={"experiments": []}) for t in trials]).items():
        assert "not comparable:" not in text, form


def test_what_a_run_says_is_escaped() -> None:
    run, trials = made("thesis")
    bad = [
        make_trial(t.vpn, t.params, 1, status="failed", reason="<script>alert(1)</script>")
        for t in trials
        if t.vpn == "ipsec"
    ]
    text = rendered(run, [t for t in trials if t.vpn != "ipsec"] + bad)["html"]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_page_shows_runs_side_by_side_and_says_what_stands() -> None:
    crypto, thesis = (build(*made(name)) for name in ("crypto_matrix", "thesis"))
    page = findings_text([crypto, thesis, build(*made("crypto_matrix", False))])
    assert all(f"- **{run}**: `" in page for run in "ABC")
    lines = [line for line in page.splitlines() if line.startswith("| AES-GCM is the fastest ")]
    assert [line.split(" | ")[1] for line in lines] == ["A", "C"], "a row for each run that has a number"
    assert " reproduced |" in lines[0]
    assert " not reproduced |" in lines[1]
    assert "| ipsec (kernel); " in lines[0], "system, data plane and kernel"
    assert "yes (count)" in next(line for line in page.splitlines() if "doubles at 1500 bytes" in line and "|" in line)
    assert "no (share)" in next(line for line in page.splitlines() if line.startswith("| encryption costs most"))
    assert page.index("## In short") < page.index("**Reproduced**") < page.index("**Not reproduced**")


def opening(page: str) -> list[str]:
    head, _, _ = page.partition("![")
    return [line for line in head.splitlines()[1:] if line]


def test_the_page_opens_with_what_holds_and_what_does_not_in_twenty_lines() -> None:
    names = ("thesis", "oslv", "load", "crypto_matrix", "devices")
    good = opening(findings_text([build(*made(name)) for name in names]))
    bad = opening(findings_text([build(*made(name, False)) for name in names]))
    none = opening(findings_text([]))
    assert max(map(len, (good, bad, none))) <= 20
    told = sum(
        bool(one.by) for name in ("clusterip", "devices", "oslv", "router", "thesis") for one in paper(name).conclusions
    )
    assert good[0].startswith(f"Of {told} conclusions in 5 papers that can be put to the test, **")
    assert "**0 do not**" in good[0]
    assert good[0].endswith("1 of the papers' own open questions are answered.")
    assert "**0 still hold**" in bad[0]
    assert f"and {told} are open; 0 of" in none[0]
    (router,) = [line for line in good if "Quagga" in line]
    assert router.startswith(
        "- **These still hold**, the paper on the Quagga and strongSwan router: AES-GCM has the best"
    )
    assert "; run D)" in router
    (question,) = [line for line in good if line.startswith("- **Answered**")]
    assert "(yes, 1.0" in question
    assert any(line.startswith("- **These do not**, the thesis: ") for line in bad)


def test_one_run_that_contradicts_a_conclusion_is_enough() -> None:
    holds, fails = build(*made("crypto_matrix")), build(*made("crypto_matrix", False))
    (aes_gcm,) = [one for one in paper("router").conclusions if one.by == ["crypto_matrix/gcm-fastest"]]
    for reports, became in (([holds], "holds"), ([holds, fails], "does not hold"), ([], "open")):
        runs = {str(number): one for number, one in enumerate(reports)}
        assert outcome(aes_gcm, rows_of(runs)) == became


def test_a_conclusion_of_several_findings_holds_where_each_is_reproduced() -> None:
    (of_four,) = [one for one in paper("oslv").conclusions if "oslv/jitter" in one.by]
    rows = rows_of({"A": build(*made("oslv"))})
    assert outcome(of_four, rows) == "holds"
    less = [(run, row) for run, row in rows if row.id != "jitter"]
    assert outcome(of_four, less) == "open", "one of its findings was not measured"


def test_the_page_lists_every_sentence_of_the_conclusions() -> None:
    page = findings_text([build(*made("thesis"))])
    for name in published_papers():
        for one in paper(name).conclusions:
            assert page.count(f"| {escaped(f'{one.where}, {one.sentence}')} | ") >= 1, one
    assert "judged: thesis/tcp-udp reproduced (run A)" in page
    assert "answered: load/keeps-up-64 not in these runs" in page
    assert "left out: a plan of future work" in page


def escaped(text: str) -> str:
    return text.replace("&", "&amp;")


def test_published_ratios_are_drawn_against_measured_ones() -> None:
    rows = rows_of({"A": build(*made("thesis")), "B": build(*made("oslv"))})
    plot = published_against_measured(rows)
    points = {point["name"]: point for point in plot.spec["data"]["values"]}
    tun = points["thesis/ipsec-tun (A)"]
    assert tun["published"] == pytest.approx(165 / 95)
    assert float(tun["low"]) <= float(tun["value"]) <= float(tun["high"])
    assert "oslv/overhead (B)" in points
    assert "thesis/packed-ipsec-zeros (A)" not in points, "its number is in a figure only"
    assert f"{len(points)} findings" in plot.alt
    assert svg(plot.spec).startswith("<svg")
    assert svg(published_against_measured([]).spec).startswith("<svg"), "an empty one is a picture, too"


def test_the_committed_page_and_picture_are_those_of_the_committed_runs() -> None:
    """Made anew by the two commands on the page; ``results/papers/`` has the runs, each in a folder."""
    runs = sorted(path.parent for path in (ROOT / "results" / "papers").glob("*/run.json"))
    reports = [build(*load_run(run)) for run in runs]
    assert (ROOT / "docs" / "findings.md").read_text() == findings_text(reports)
    picture = svg(published_against_measured(rows_of({chr(65 + n): one for n, one in enumerate(reports)})).spec)
    assert (ROOT / "docs" / "findings.svg").read_text().rstrip() == picture.rstrip()
