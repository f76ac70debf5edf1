"""The ranking as a matrix of values: factors against a chosen VPN, grey where nothing can be told, groups in frames."""

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from questions.rank.judgement import of_ranking
from questions.rank.places import groups
from questions.rank.words import answers
from runner.ranking.model import Verdict
from runner.ranking.weights import parse_weights
from runner.report.forms.html import html_text
from runner.report.model import Report
from tests.browser.conftest import Open
from tests.unit.synthetic import METRICS, realistic_run
from tests.unit.whole_report import build, ranked_of

CELLS = """number => [...document.querySelectorAll(`#ranking-${number} tr[data-vpn]`)].flatMap(
  (row) => [...row.querySelectorAll("td[data-metric]:not([hidden])")].map((cell) => ({
    vpn: row.dataset.vpn, metric: cell.dataset.metric, times: cell.querySelector(".ratio span").textContent,
    kinds: [...cell.classList], colour: getComputedStyle(cell.querySelector(".ratio span")).color,
  })))"""
FRAMES = """number => [...document.querySelectorAll(`#ranking-${number} .matrix tbody`)].map((body) => ({
  vpns: [...body.querySelectorAll("tr[data-vpn]:not(.unplaced)")].map((row) => row.dataset.vpn),
  framed: body.classList.contains("group"),
  line: getComputedStyle(body.querySelector("tr").firstElementChild).borderLeftWidth,
}))"""


@pytest.fixture(scope="module")
def report() -> Report:
    return build(*realistic_run(3))


@pytest.fixture
def page(report: Report, tmp_path: Path, open_page: Open) -> Page:
    path = tmp_path / "report.html"
    path.write_text(html_text(report))
    return open_page(path, width=1400)


def against(report: Report, number: int, reference: str) -> dict[tuple[str, str], Verdict]:
    """(VPN, metric) -> the verdict on it against the reference."""
    found = of_ranking(ranked_of(report).verdicts, ranked_of(report).rankings[number])
    both = [one for pair in found for one in (pair, pair.other_way)]
    return {(one.a, one.metric): one for one in both if one.b == reference}


def cells(page: Page, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page.evaluate(CELLS, number)
    return found


@pytest.mark.parametrize("reference", ["openvpn", "wireguard_go"])
def test_a_cell_says_how_many_times_the_chosen_vpn_it_has(reference: str, page: Page, report: Report) -> None:
    number = answers(ranked_of(report))[0].number
    page.locator("#reference").select_option(reference)
    told = against(report, number, reference)
    seen = 0
    for cell in cells(page, number):
        verdict = told.get((cell["vpn"], cell["metric"]))
        if cell["vpn"] == reference:
            assert cell["times"] == "1×"
        elif verdict and verdict.ratio is not None:
            assert float(cell["times"].removesuffix("×")) == pytest.approx(verdict.ratio, rel=0.051)  # two digits
            seen += 1
        else:
            assert cell["times"] == ""
    assert seen > 10


def test_another_reference_gives_other_factors(page: Page, report: Report) -> None:
    number = answers(ranked_of(report))[0].number
    page.locator("#reference").select_option("openvpn")
    before = cells(page, number)
    page.locator("#reference").select_option("ssh_tun")
    assert [one["times"] for one in cells(page, number)] != [one["times"] for one in before]


def test_a_factor_is_grey_where_the_run_cannot_tell_the_two_apart(page: Page, report: Report) -> None:
    number = answers(ranked_of(report))[0].number
    grey: set[str] = set()
    coloured: set[str] = set()
    for reference in sorted({one.a for one in ranked_of(report).verdicts}):
        page.locator("#reference").select_option(reference)
        told = against(report, number, reference)
        for cell in cells(page, number):
            verdict = told.get((cell["vpn"], cell["metric"]))
            decided = verdict is not None and verdict.decision != "undecided"
            assert ("grey" in cell["kinds"]) is (not decided and cell["vpn"] != reference)
            assert ("good" in cell["kinds"]) is (verdict is not None and verdict.decision == "better")
            assert ("bad" in cell["kinds"]) is (verdict is not None and verdict.decision == "worse")
            if verdict and verdict.ratio is not None:
                (coloured if decided else grey).add(cell["colour"])
    assert grey
    assert coloured
    assert not grey & coloured  # and it is to be seen


@pytest.mark.parametrize("weights", ["", "rtt=1,jitter=1", "tcp_throughput=1"])
def test_vpns_that_cannot_be_told_apart_share_a_frame(weights: str, tmp_path: Path, open_page: Open) -> None:
    report = build(*realistic_run(3), weights=parse_weights(weights, METRICS) if weights else None)
    path = tmp_path / "report.html"
    path.write_text(html_text(report))
    page = open_page(path)
    seen = set()
    for number, ranking in enumerate(ranked_of(report).rankings):
        frames = [one for one in page.evaluate(FRAMES, number) if one["vpns"]]
        assert [one["vpns"] for one in frames] == groups(ranking)
        for one in frames:
            assert one["framed"] is (len(one["vpns"]) > 1)
            seen.add((one["framed"], one["line"]))
    assert {framed for framed, _ in seen} == {True, False} or weights
    assert not {line for framed, line in seen if framed} & {line for framed, line in seen if not framed}
