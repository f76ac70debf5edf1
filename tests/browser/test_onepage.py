"""The answer on one A4 page, as a PDF."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext

from runner.catalogue import load_run
from runner.data.needs import Needs
from runner.report.forms.html import html_text
from runner.report.forms.onepage import onepage_pdf
from runner.report.forms.pdf import pdf_bytes
from runner.report.model import Report
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

RESULTS = Path(__file__).parents[2] / "results"
A4 = (210 / 25.4 * 72, 297 / 25.4 * 72)  # points


def pages(pdf: bytes) -> list[tuple[float, float]]:
    """The width and height of each page, in points."""
    assert pdf.startswith(b"%PDF-")
    boxes = re.findall(rb"/MediaBox\s*\[\s*0 0 ([\d.]+) ([\d.]+)\s*\]", pdf)
    assert len(boxes) == len(re.findall(rb"/Type /Page\b", pdf))
    return [(float(width), float(height)) for width, height in boxes]


def stated(folder: Path, **needs: object) -> Report:
    run, trials = load_run(folder)
    return build(run.model_copy(update={"needs": Needs.model_validate(needs)}), trials)


def many() -> Report:
    """Forty VPNs: the table and the reasons have to be cut, and the text made smaller."""
    run, trials = realistic_run(3)
    names = [vpn for vpn in run.vpns if vpn != "none"]
    vpns, more = dict(run.vpns), list(trials)
    for number in range(40 // len(names)):
        for vpn in names:
            name = f"{vpn}_that_has_a_long_name_{number}"
            vpns[name] = run.vpns[vpn]
            more += [
                trial.model_copy(update={"vpn": name, "id": trial.id.replace(vpn, name)})
                for trial in trials
                if trial.vpn == vpn
            ]
    return build(run.model_copy(update={"vpns": vpns}), more)


@pytest.mark.parametrize("which", ["stated", "every line", "ranking", "many"])
def test_the_answer_fits_on_one_page(chromium: BrowserContext, which: str) -> None:
    """``chromium`` skips where there is none."""
    made = {
        "stated": lambda: stated(RESULTS / "choice" / "two-cores", line_bps=1e8, path_rtt_ms=20, traffic="calls"),
        "every line": lambda: stated(RESULTS / "choice" / "two-cores"),
        "ranking": lambda: build(*load_run(RESULTS / "examples" / "two-cores-quick")),
        "many": many,
    }[which]()
    assert pages(onepage_pdf(made, Path("results/x"))) == [pytest.approx(A4, abs=1)]


def test_the_whole_report_is_on_a4(chromium: BrowserContext) -> None:
    found = pages(pdf_bytes(html_text(stated(RESULTS / "choice" / "two-cores"))))
    assert len(found) > 2
    assert found == [pytest.approx(A4, abs=1)] * len(found)
