"""Everybody can read the pages: axe-core finds nothing to complain of in them, light, dark, and narrow."""

from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from questions.compare.runs import compare_runs
from questions.compare.trends import trends
from runner.data.needs import Needs
from runner.report.forms.html import html_text
from tests.browser.conftest import Open
from tests.unit.choice.runs import chosen_run
from tests.unit.comparisons import form_of, history_html
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    one, other = realistic_run(3, seed=1), realistic_run(3, seed=2)
    later = (other[0].model_copy(update={"run_id": "later", "created_at": "2026-02-01T00:00:00+00:00"}), other[1])
    texts = {
        "report": html_text(build(*one)),
        "choice": html_text(build(*chosen_run(needs=Needs(line_bps=1e8, path_rtt_ms=20)))),
        "compare": form_of(compare_runs(one, other)),
        "history": history_html(trends([one, later])),
    }
    folder = tmp_path_factory.mktemp("pages")
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text)
    return {name: folder / f"{name}.html" for name in texts}


def violations(page: Page) -> dict[str, list[str]]:
    """Rule -> the elements that break it; all plots drawn and everything unfolded."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate("document.querySelectorAll('[data-ranking]').forEach(one => one.hidden = false)")
    for plot in page.locator("figure").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:not([data-drawn])", state="detached")
    found = Axe().run(page, options=RULES).response
    assert found["passes"], "axe-core looked at nothing"
    return {one["id"]: [str(node["html"])[:200] for node in one["nodes"][:3]] for one in found["violations"]}


@pytest.mark.parametrize("name", ["report", "choice", "compare", "history"])
@pytest.mark.parametrize(("width", "dark"), [(1200, False), pytest.param(390, True, marks=pytest.mark.slow)])
def test_axe_finds_nothing(name: str, width: int, dark: bool, pages: dict[str, Path], open_page: Open) -> None:
    assert violations(open_page(pages[name], width=width, dark=dark)) == {}


def test_axe_would_find_something(pages: dict[str, Path], open_page: Open) -> None:
    """The control: a picture without words, and words that one cannot tell from the paper."""
    page = open_page(pages["history"])
    page.evaluate("document.querySelector('h1').style.color = '#cccccc'")
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    assert {"color-contrast", "image-alt"} <= violations(page).keys()
