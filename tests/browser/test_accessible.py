"""Everybody can read the pages, each headed by its answer: axe-core finds nothing to complain of in them, light, dark,
and narrow; and a phone shows all of them."""

from pathlib import Path
from typing import NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from questions import questions
from questions.compare.runs import compare_runs
from questions.compare.trends import trends
from questions.compare.words import heading
from questions.papers import Papers
from questions.rank.words import answers
from runner.catalogue import load_run
from runner.data.needs import Needs
from runner.report.forms.html import html_text
from runner.report.model import Report
from tests.browser.conftest import Open
from tests.unit.choice.runs import chosen_run
from tests.unit.comparisons import form_of, history_html
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build, ranked_of

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}
THESIS = Path(__file__).parents[2] / "results" / "papers" / "thesis-link"
PHONE, SMALLEST, FINGER = 360, 12, 24  # px: its width, the height of its letters, and of what one touches (WCAG 2.5.8)
WIDER = """width => [...document.querySelectorAll("body *")].filter((one) => !one.closest(".scroll, .unseen, nav, svg"))
  .filter((one) => one.getBoundingClientRect().right > width + 1).map((one) => one.outerHTML.slice(0, 120))"""
SMALL = """least => [...document.querySelectorAll("body *")].filter((one) => one.checkVisibility()
  && !one.closest("svg") && [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim())
  && parseFloat(getComputedStyle(one).fontSize) < least).map((one) => one.outerHTML.slice(0, 120))"""
LOW = """least => [...document.querySelectorAll("input, select, button")].filter((one) => one.checkVisibility()
  && one.getBoundingClientRect().height < least).map((one) => one.outerHTML.slice(0, 120))"""


class Written(NamedTuple):
    """A page; the heading that it must have; the VPNs that it must open one against another, if any."""

    path: Path
    heading: str
    pair: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Written]:
    one, other = realistic_run(3, seed=1), realistic_run(3, seed=2)
    later = (other[0].model_copy(update={"run_id": "later", "created_at": "2026-02-01T00:00:00+00:00"}), other[1])
    folder = tmp_path_factory.mktemp("pages")
    compared = compare_runs(one, other)
    reports = {
        "report": build(*one),
        "choice": build(*chosen_run(needs=Needs(line_bps=1e8, path_rtt_ms=20))),
        "every line": build(*chosen_run()),
        "papers": build(*load_run(THESIS), questions=[Papers("thesis"), questions()["rank"]]),
    }
    made = {name: _of_report(folder / f"{name}.html", report) for name, report in reports.items()}
    made["compare"] = Written(folder / "compare.html", heading(compared))
    made["compare"].path.write_text(form_of(compared))
    made["history"] = Written(folder / "history.html", "vpneval history")
    made["history"].path.write_text(history_html(trends([one, later])))
    return made


def _of_report(path: Path, report: Report) -> Written:
    path.write_text(html_text(report))
    said = report.lead()[0]
    ranked = [standing.vpn for standing in answers(ranked_of(report))[0].ranking.standings]
    pair = [*dict.fromkeys([*said.order, *ranked])][:2]
    return Written(path, said.headline or said.line, tuple(pair) if len(pair) > 1 else ())


def unfold(page: Page) -> None:
    """Everything is to be seen, and all plots are drawn."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate("document.querySelectorAll('[data-ranking]').forEach(one => one.hidden = false)")
    for plot in page.locator("figure").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:not([data-drawn])", state="detached")


def violations(page: Page) -> dict[str, list[str]]:
    """Rule -> the elements that break it."""
    unfold(page)
    found = Axe().run(page, options=RULES).response
    assert found["passes"], "axe-core looked at nothing"
    return {one["id"]: [str(node["html"])[:200] for node in one["nodes"][:3]] for one in found["violations"]}


NAMES = ("report", "choice", "every line", "papers", "compare", "history")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("width", "dark"), [(1200, False), pytest.param(390, True, marks=pytest.mark.slow)])
def test_axe_finds_nothing(name: str, width: int, dark: bool, pages: dict[str, Written], open_page: Open) -> None:
    assert violations(open_page(pages[name].path, width=width, dark=dark)) == {}


def test_axe_would_find_something(pages: dict[str, Written], open_page: Open) -> None:
    """The control: a picture without words, and words that one cannot tell from the paper."""
    page = open_page(pages["history"].path)
    page.evaluate("document.querySelector('h1').style.color = '#cccccc'")
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    assert {"color-contrast", "image-alt"} <= violations(page).keys()


@pytest.mark.parametrize("name", NAMES)
def test_the_heading_is_the_answer_and_its_first_two_vpns_are_compared(
    name: str, pages: dict[str, Written], open_page: Open
) -> None:
    page, asked = open_page(pages[name].path), pages[name]
    assert page.locator("h1").all_inner_texts() == [asked.heading]
    assert page.title() == asked.heading
    assert page.locator("h1").bounding_box()["y"] < 300  # type: ignore[index]
    pair = [page.locator(box).input_value() for box in ("#one", "#other") if page.locator(box).count()]
    assert pair == [*asked.pair]
    assert not pair or page.locator("#pair li").count() > 1


@pytest.mark.parametrize("name", NAMES)
def test_a_phone_shows_all_of_it(name: str, pages: dict[str, Written], open_page: Open) -> None:
    page = open_page(pages[name].path, width=PHONE)
    unfold(page)
    assert page.evaluate(WIDER, PHONE) == []
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE
    assert page.evaluate(SMALL, SMALLEST) == []
    assert page.evaluate(LOW, FINGER) == []


def test_a_phone_would_show_too_little(pages: dict[str, Written], open_page: Open) -> None:
    """The control: a wide box, small letters, and a low slider."""
    page = open_page(pages["history"].path, width=PHONE)
    style = "display: block; font-size: 8px; width: 500px; height: 4px; min-height: 0"
    page.evaluate("(style) => document.querySelector('main').innerHTML += `<button style='${style}'>x</button>`", style)
    assert all(len(page.evaluate(found, limit)) == 1 for found, limit in ((WIDER, PHONE), (SMALL, 12), (LOW, 24)))
    assert page.evaluate("document.scrollingElement.scrollWidth") > PHONE
