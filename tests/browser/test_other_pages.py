"""The pages of ``vpneval compare`` and ``vpneval history`` in a real browser."""

from pathlib import Path

from questions.compare.runs import compare_runs
from questions.compare.trends import trends
from tests.browser.conftest import Open
from tests.unit.comparisons import form_of, history_html
from tests.unit.synthetic import realistic_run


def test_compare_draws_each_metric(tmp_path: Path, open_page: Open) -> None:
    before, after = realistic_run(3, seed=1), realistic_run(3, seed=2)
    path = tmp_path / "compare.html"
    path.write_text(form_of(compare_runs(before, after)))
    page = open_page(path, width=390)
    for plot in page.locator("figure").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:not([data-drawn])", state="detached")
    assert page.locator("figure svg").count() >= 5
    assert page.locator("tbody tr").count() > 50
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_history_draws_a_trend(tmp_path: Path, open_page: Open) -> None:
    runs = []
    for month in (1, 2, 3):
        run, trials = realistic_run(2, seed=month)
        update = {"run_id": f"run{month}", "created_at": f"2026-0{month}-01T00:00:00+00:00"}
        runs.append((run.model_copy(update=update), trials))
    path = tmp_path / "history.html"
    path.write_text(history_html(trends(runs)))
    page = open_page(path)
    for plot in page.locator("figure").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:not([data-drawn])", state="detached")
    assert page.locator("figure svg").count() == page.locator("figure").count() >= 6
    assert page.locator("figure").first.locator("svg path[aria-roledescription='line mark']").count() > 2
