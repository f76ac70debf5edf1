"""The report's page in a real browser: it shows what the run says, from the disk alone, for everybody."""

import json
import os
import re
import subprocess
from pathlib import Path
from shutil import which
from urllib.parse import unquote

import pytest
from playwright.sync_api import BrowserContext, Page

from questions.rank.judgement import of_ranking
from questions.rank.places import doubts, place_of, unit_of, unranked_vpns, weights_words
from questions.rank.words import verdict
from runner.catalogue import load_run
from runner.data.numbers import chance
from runner.data.trials import Run, Trial
from runner.ranking.weights import parse_weights
from runner.report import text
from runner.report.forms.html import html_text
from runner.report.forms.pdf import pdf_bytes
from tests.browser.conftest import Open
from tests.unit.synthetic import CBC, IDLE, METRICS, TCP, make_run, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of

EXAMPLE = Path(__file__).resolve().parents[2] / "results" / "examples" / "two-cores-quick"
CHOICE = EXAMPLE.parents[1] / "choice" / "two-cores" / "report.html"
LINE = "#line=100M&rtt=20ms"
SCREENSHOTS = os.environ.get("VPNEVAL_SCREENSHOTS")  # a folder to keep them in: docs/pictures for the README's
HOSTILE = '<script>alert("1")</script>'
A4 = (718, 1047)  # px between margins of 10 mm
FACTORS = "[...document.querySelectorAll('.ratio span')].map(one => one.textContent).join()"
WEIGHTS = ["", "realtime", "rtt=0.7,setup_time=0.1,cpu_per_gigabyte=0.35,jitter=2.25"]


def written(folder: Path, run: Run, trials: list[Trial]) -> Path:
    """A run folder of these, with its page."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(run.model_dump_json())
    (folder / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in trials))
    (folder / "report.html").write_text(html_text(build(run, trials)))
    return folder / "report.html"


@pytest.fixture(scope="module")
def report_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("runs") / "synthetic", *realistic_run(3))


def unfold(page: Page) -> None:
    """Every plot and table is to be seen, in both configurations."""
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    page.evaluate("document.querySelectorAll('[data-ranking]').forEach(one => one.hidden = false)")


def shown(page: Page, ranking: int) -> dict[str, dict[str, str]]:
    """VPN -> what the matrix says of it: place, chance, average, and the value of each metric that counts."""
    found: dict[str, dict[str, str]] = page.evaluate(
        """number => Object.fromEntries(
          [...document.querySelectorAll(`#ranking-${number} tr[data-vpn]`)].map((row) => [row.dataset.vpn, {
            place: row.querySelector(".place span").textContent, average: row.querySelector(".place small").textContent,
            chance: row.querySelector(".chance").textContent,
            ...Object.fromEntries([...row.querySelectorAll("td[data-metric]:not([hidden])")].map(
              (cell) => [cell.dataset.metric, cell.querySelector("b")?.textContent ?? ""])),
          }]))""",
        ranking,
    )
    return found


@pytest.mark.parametrize("weights", WEIGHTS)
def test_the_matrix_is_the_ranking(weights: str, tmp_path: Path, open_page: Open) -> None:
    run, trials = realistic_run(3)
    report = build(run, trials, weights=parse_weights(weights, METRICS) if weights else None)
    path = tmp_path / "report.html"
    path.write_text(html_text(report))
    page = open_page(path)
    for number, ranking in enumerate(ranked_of(report).rankings):
        matrix, places = shown(page, number), place_of(ranking)
        assert [vpn for vpn, row in matrix.items() if row["place"] != text.NONE] == list(places)
        for one in ranking.standings:
            if one.place:
                row = matrix[one.vpn]
                assert (row["place"], row["chance"]) == (places[one.vpn], chance(one.best_probability))
                assert float(row["average"]) == pytest.approx(one.average, abs=0.0051)
                assert list(ranking.weights.counted_metrics) == [*row][3:]
        card = page.locator(f"#answer-{number}")
        assert card.locator(".who").text_content() == verdict(ranking, of_ranking(ranked_of(report).verdicts, ranking))
        notes = page.locator(f"#ranking-{number} .unranked li").all_text_contents()
        assert notes == [f"{vpns}: not ranked: {why}" for vpns, why, _ in unranked_vpns(ranking)]
        assert page.locator(f"#ranking-{number} .doubts").text_content() == doubts(ranking)
        caption = page.locator(f"#ranking-{number} caption").first.text_content()
        assert caption == f"Weights: {weights_words(ranking, METRICS)}"


def test_a_value_in_the_matrix_is_the_runs(report_page: Path, open_page: Open) -> None:
    """Each cell: the median in the unit of its column's head."""
    report = build(*realistic_run(3))
    page = open_page(report_page)
    for number, ranking in enumerate(ranked_of(report).rankings):
        behind = {one.metric: one for one in ranked_of(report).behind[number]}
        matrix = shown(page, number)
        for metric in ranking.weights.counted_metrics:
            scale, _ = unit_of(behind[metric], report.metrics[metric].unit)
            for vpn, summary in behind[metric].summaries.items():
                said = float(matrix[vpn][metric].removeprefix("≥ "))
                assert said == pytest.approx(summary.median / scale, rel=0.006)


def test_the_keyboard_is_enough(report_page: Path, open_page: Open) -> None:
    page = open_page(report_page)
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
        if reached[-1] == "reference":
            before = page.evaluate(FACTORS)
            page.keyboard.press("ArrowUp")
            page.wait_for_function(f"before => ({FACTORS}) !== before", arg=before)
        if reached[-1] == "other":
            break
    assert {"reference", "one", "other"} <= {*reached}


@pytest.mark.parametrize(
    ("width", "dark", "name"),
    [(1400, False, "desk"), (390, False, "phone"), pytest.param(1400, True, "dark", marks=pytest.mark.slow)],
)
def test_all_plots_are_drawn_and_nothing_overflows(
    width: int, dark: bool, name: str, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(CHOICE, LINE, width=width, dark=dark)
    kept = Path(SCREENSHOTS or tmp_path)
    page.screenshot(path=kept / f"report-{name}.png")
    unfold(page)
    for plot in page.locator("figure").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:not([data-drawn])", state="detached")
    assert page.locator("figure").count() > 10
    widths = page.eval_on_selector_all("figure", "all => all.map(one => one.querySelector('svg').clientWidth)")
    assert min(widths) > 0.6 * min(width, 640)  # one of no width is drawn, too, and shows nothing
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("document.querySelector('section[id^=experiment]').scrollIntoView()")
    page.screenshot(path=kept / f"plots-{name}.png")


def test_printed_the_answer_is_two_pages_before_the_appendix(
    report_page: Path, open_page: Open, tmp_path: Path
) -> None:
    example = open_page(CHOICE, f"?print{LINE}", width=A4[0])
    example.emulate_media(media="print")
    example.screenshot(path=Path(SCREENSHOTS or tmp_path) / "report-print.png", full_page=False)
    page = open_page(report_page, "?print", width=A4[0])
    page.emulate_media(media="print")
    assert page.evaluate("document.getElementById('setup').getBoundingClientRect().top") < 2 * A4[1]
    assert page.evaluate("getComputedStyle(document.getElementById('limits')).breakBefore") == "page"
    assert page.locator("#ranking-0 tbody tr").first.is_visible()
    assert page.locator("#ranking-1 tbody tr").first.is_visible()  # what the toggle hides is in the appendix


def test_on_paper_each_value_stands_under_its_head(report_page: Path, open_page: Open) -> None:
    """Every row of a table, the baseline's among them, has as many cells as the table has heads."""
    page = open_page(report_page, "?print", width=A4[0])
    page.emulate_media(media="print")
    counts = page.locator(".experiment table:visible").evaluate_all(
        """all => all.map((table) => [...table.rows].map(
          (row) => [...row.cells].filter((cell) => getComputedStyle(cell).display !== "none").length))"""
    )
    assert len(counts) > 5
    assert [rows for rows in counts if len(set(rows)) > 1] == []


@pytest.mark.parametrize("width", [390, 1400])
def test_a_table_that_is_wider_than_the_page_says_so(width: int, report_page: Path, open_page: Open) -> None:
    page = open_page(report_page, width=width)
    seen = page.locator(".matrix:visible").evaluate_all(
        """all => all.map((box) => [
          box.scrollWidth > box.clientWidth + 1, getComputedStyle(box, "::before").content])"""
    )
    assert seen
    assert all(("sideways" in said) is wider for wider, said in seen)
    assert any(wider for wider, _ in seen) is (width < 1000)


@pytest.fixture(scope="module")
def pdf(chromium: BrowserContext, report_page: Path) -> bytes:
    """The report's page, printed. ``chromium`` skips where there is none."""
    return pdf_bytes(report_page.read_text())


@pytest.mark.parametrize("example", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_pdf_has_the_answer_on_two_pages(example: bool, pdf: bytes, report_page: Path) -> None:
    """The verdict and the ranking; the appendix begins with what limits each VPN."""
    if example and not EXAMPLE.exists():
        pytest.skip("no example run beside the source")
    page = html_text(build(*load_run(EXAMPLE))) if example else report_page.read_text()
    answer = page.replace("</style></head>", "#limits, #limits ~ * { display: none }</style></head>", 1)
    assert answer != page
    whole, two = (made.count(b"/Type /Page\n") for made in (pdf_bytes(page) if example else pdf, pdf_bytes(answer)))
    assert 1 <= two <= 2
    assert whole > two + 2


def test_the_page_is_a_third_of_what_it_was(open_page: Open) -> None:
    """It was 41,000 px high, of a run of six minutes."""
    if not EXAMPLE.exists():
        pytest.skip("no example run beside the source")
    page = open_page(EXAMPLE / "report.html", width=1400)
    for plot in page.locator("figure:visible").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:visible:not([data-drawn])", state="detached")
    assert page.evaluate("document.documentElement.scrollHeight") < 41_000 / 3


def test_the_pdf_is_the_page_with_its_plots(tmp_path: Path, pdf: bytes) -> None:
    assert pdf.startswith(b"%PDF-")
    without = pdf_bytes("<!doctype html><title>empty</title>")
    assert pdf.count(b"/Type /Page\n") > 5 > without.count(b"/Type /Page\n") > 0
    if which("pdftotext"):
        (tmp_path / "report.pdf").write_bytes(pdf)
        said = subprocess.run(["pdftotext", tmp_path / "report.pdf", "-"], capture_output=True, text=True, check=True)
        assert "Ranking: comparable" in said.stdout
        assert "share of exchanges at most this" in said.stdout  # the axis of a plot


def test_every_link_into_the_run_folder_leads_somewhere(open_page: Open) -> None:
    if not EXAMPLE.exists():
        pytest.skip("no example run beside the source")
    page = open_page(EXAMPLE / "report.html")
    links = page.eval_on_selector_all("a", "all => all.map(one => one.getAttribute('href'))")
    into = {unquote(link) for link in links if not link.startswith("#")}
    assert len(into) > 50
    assert [link for link in into if not (EXAMPLE / link).exists()] == []
    for link in {link for link in links if link.startswith("#")}:
        assert page.locator(link).count() == 1, link


def test_the_question_of_rate_and_cpu(report_page: Path, open_page: Open) -> None:
    """Two cores, 7.1 CPU seconds a gigabyte: 1 Gbit/s takes 0.89 of them, 44 %, and ssh_forward reaches 2.4 Gbit/s."""
    page = open_page(report_page)
    page.locator("#rate").fill("1000")
    page.locator("#share").fill("60")
    rows = page.locator("#capacity tbody tr").all_inner_texts()
    yes = [row for row in rows if row.endswith("yes")]
    assert yes
    assert len({row.split()[0] for row in rows}) == len(rows), "a row a VPN"
    assert all(row.startswith("ssh_forward") for row in yes)
    assert page.locator("#sustained").inner_text() == "Surely: ssh_forward."
    (share,) = [float(share) for row in yes for share in re.findall(r"\t([\d.]+) %\t", row)]
    assert 25 < share < 60
    page.locator("#share").fill("1")
    assert page.locator("#sustained").inner_text() == "Surely: none."


def test_it_reads_without_a_script(report_page: Path, chromium: BrowserContext) -> None:
    page = chromium.new_page()
    chromium.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
    page.goto(report_page.as_uri())
    assert page.locator("#weights").is_hidden()
    assert page.locator("#question").is_hidden()
    assert page.locator("#ranking-0 tbody tr").count() > 4
    page.close()


def test_what_a_run_holds_stays_text(tmp_path: Path, open_page: Open) -> None:
    names = ("constructor", "openvpn", "toString")  # a folder can hold no worse ones
    trials = [
        make_trial(vpn, CBC | traffic, block, {metric: (number + 2) * (1 + 0.01 * ((block + number) % 3))})
        for number, vpn in enumerate(names)
        for traffic, metric in ((TCP, "tcp_throughput"), (TCP, "cpu_per_gigabyte"), (IDLE, "rtt"))
        for block in range(3)
    ]
    trials = [trial.model_copy(update={"log": "javascript:alert(1)//" + HOSTILE}) for trial in trials]
    run, _ = realistic_run(1)
    run = make_run(names, tuple(run.experiments)).model_copy(update={"run_id": HOSTILE, "profile_note": HOSTILE})
    extra = [trial.model_copy(update={"experiments": ["transport", "recommended"]}) for trial in trials]
    page = open_page(written(tmp_path / "run", run, extra))
    assert HOSTILE in page.locator("header").inner_text()
    assert page.locator("#ranking-0 tbody th").first.inner_text().startswith(names)
    assert "constructor" in page.locator("#ranking-0").inner_text()
    unfold(page)
    for plot in page.locator("figure").all():
        plot.scroll_into_view_if_needed()
    page.wait_for_selector("figure:not([data-drawn])", state="detached")
    hrefs = page.eval_on_selector_all("a", "all => all.map(one => one.href.baseVal ?? one.href)")
    assert hrefs
    assert [href for href in hrefs if not href.startswith(("file:", "./"))] == []
    assert page.evaluate("document.querySelectorAll('script:not([type])').length") == 4


def test_a_report_without_draws_still_answers(tmp_path: Path, open_page: Open) -> None:
    """One repetition: no probability; and a run of nothing but failures."""
    page = open_page(written(tmp_path / "one", *realistic_run(1)))
    assert {row["chance"] for row in shown(page, 0).values()} == {text.NONE}
    failed = [make_trial("openvpn", CBC | TCP, 0, status="failed", reason="no route")]
    page = open_page(written(tmp_path / "none", make_run(("openvpn",)), failed))
    assert "Nothing to rank" in page.locator("main").inner_text()


def test_the_page_is_the_same_every_time(report_page: Path) -> None:
    assert html_text(build(*realistic_run(3))) == report_page.read_text()


def test_report_json_has_no_draws(report_page: Path) -> None:
    run, trials = realistic_run(1)
    written = json.loads(build(run, trials).model_dump_json())
    assert not {"bases", "evidence"} & {*written, *written["judgements"]["rank"]}
