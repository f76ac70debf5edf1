"""The page answers for other needs as runner/choice does, and says it in the same words, with the same numbers."""

import math
import re
import shlex
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page

from questions.choose import must_words as musts_words
from questions.choose import words as choice_words
from questions.choose.judgement import Choice, Kin
from questions.choose.page import PATHS_MS, SHARES
from runner.choice.answer import answer, bands, changes
from runner.choice.device import Device, ManyTcp, OnPath
from runner.choice.devices import on_page
from runner.choice.model import RATES_BPS, State
from runner.choice.stated import state_needs
from runner.choice.thresholds import USUAL
from runner.data.named import MUSTS, TRAFFICS, Must, Traffic
from runner.data.needs import Needs
from runner.data.options import NeedsOptions
from runner.ranking.weights import PRESETS
from runner.report.forms.html import html_text
from runner.report.model import Report
from tests.browser.conftest import Open
from tests.unit.choice.made_up import watched
from tests.unit.choice.runs import TRUTHS, Truth, chosen_run
from tests.unit.whole_report import build, choice_of

LINES = (2e7, 1e8, 5e8, 1e9, 3e9, 1e10)
MADE = TRUTHS | {"openvpn_tcp": Truth(7e8, 3e8, 21.0, rtt_ms=1.4, setup_s=3.0), "boringtun": Truth(9e8, 5e8, 45.0)}

KIN = [
    Kin(vpn="boringtun", kernel="wireguard"),
    Kin(vpn="ipsec_user", kernel="ipsec", lacks=["udp-blocked"]),
    Kin(vpn="ipsec_user", kernel="libreswan"),
    Kin(vpn="wireguard_go", kernel="wireguard"),
]
ASSUMED = ("networks", "tried", "maintained")
ON_PATH = (OnPath(1.5e8, 20.0, 0.01, 1.3e8), OnPath(7.5e7, 20.0, 0.001, 2e7))


def with_states(choice: Choice) -> Choice:
    """All four words among the musts, a VPN of which half is unknown, one with failed trials, one bounded from below,
    and gateways that would carry more if they had cores of their own."""
    words = ("no", "unknown", "declared", "shown")
    states = {
        vpn: {
            must: State(word="shown" if must in ASSUMED else words[(row + column) % 4], how="trial")
            for column, must in enumerate(MUSTS)
        }
        for row, vpn in enumerate(choice.devices)
    }
    made = {vpn: replace(device, growth={"tcp": 1.8, "udp": 1.3}) for vpn, device in choice.devices.items()}
    made["boringtun"] = replace(made["boringtun"], failed=3, growth={})
    over_tcp = {"at_least": frozenset({"tcp"}), "one_connection": True, "on_path": ON_PATH}
    made["openvpn_tcp"] = replace(made["openvpn_tcp"], **over_tcp)  # type: ignore[arg-type]
    for vpn, many in {"openvpn": 1.5, "boringtun": math.inf, "openvpn_tcp": 1.0}.items():
        one_bps = made[vpn].tcp_bps
        assert one_bps is not None
        eight_bps, back_bps = on_page(one_bps * 1.4), on_page(one_bps[::-1] / 2)
        made[vpn] = replace(made[vpn], many=ManyTcp(eight_bps, back_bps if many > 1 else None, back_bps, many))
    made["ssh_tun"] = replace(made["ssh_tun"], window_bytes=4e5)
    made["ipsec_user"] = replace(made["ipsec_user"], rtt_added_ms=None)
    ipsec, boringtun = made["ipsec_user"], made["boringtun"]
    curves = {**ipsec.curves, "calls": ipsec.curves["datagrams"]}
    openvpn = made["openvpn"]
    assert openvpn.tcp_bps is not None
    assert openvpn.udp_bps is not None
    slow, both_bps = on_page(openvpn.udp_bps / 10), on_page(openvpn.tcp_bps * 0.9)
    made["openvpn"] = replace(
        openvpn, both_bps=both_bps, calls_bps=slow, curves={**openvpn.curves, "calls": openvpn.curves["datagrams"]}
    )
    made["ipsec_user"] = replace(ipsec, calls_bps=ipsec.udp_bps, at_least=frozenset({"calls"}), curves=curves)
    assert boringtun.tcp_bps is not None
    made["boringtun"] = replace(boringtun, down_bps=on_page(boringtun.tcp_bps[::-1] / 3))
    made["wireguard_go"] = replace(made["wireguard_go"], watched=watched(), plain_watched=watched(seconds=8, bad=1))
    made["openvpn"] = replace(made["openvpn"], watched=watched(8e7, bad=40, gap_s=3.0))
    return choice.model_copy(update={"devices": made, "states": states, "kin": KIN})


@pytest.fixture(scope="module")
def report() -> Report:
    made = build(*chosen_run(MADE, needs=Needs(line_bps=1e8, path_rtt_ms=20), noise=0.25))
    return with_choice(made, with_states(choice_of(made)))


def with_choice(report: Report, choice: Choice) -> Report:
    """The report with another answer for a line; the other questions' stay."""
    judged = [replace(one, judgement=choice) if isinstance(one.judgement, Choice) else one for one in report.judged]
    return report.model_copy(update={"judged": judged})


def between_gateways(choice: Choice, *, by_datagrams: bool = False) -> Choice:
    """The same VPNs between the user's own gateways, on a path that two of them fill, with a busy core in one.
    ``by_datagrams``: one TCP connection does not fill it."""
    site = {
        vpn: replace(
            device,
            own_gateways=True,
            path_bps=7.5e8,
            path_down_bps=4e8,
            full_core_bps=5e8,
            growth={"tcp": 1.0, "udp": 1.0},
            by_datagrams=by_datagrams,
        )
        for vpn, device in choice.devices.items()
    }
    site["openvpn"] = replace(site["openvpn"], full_core_bps=8e8, path_bps=None)
    site["wireguard_go"] = replace(site["wireguard_go"], full_core_bps=None)
    return choice.model_copy(update={"devices": site})


@pytest.fixture(scope="module")
def path(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("choice") / "report.html"
    made.write_text(html_text(report))
    return made


def drawn(report: Report) -> dict[str, Device]:
    """The devices from which the terminal's answer is made."""
    return choice_of(report).devices


def close(ours: Any, theirs: Any) -> bool:
    """The same structure, with numbers that differ by a millionth at most."""
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(close(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    return bool(ours == (pytest.approx(theirs, rel=1e-6, abs=1e-9) if isinstance(theirs, float) else theirs))


def told(report: Report, devices: dict[str, Device], needs: Needs, share: float | None = None) -> dict[str, Any]:
    """What Python says of these needs, in numbers and in words."""
    thresholds = USUAL if share is None else replace(USUAL, mixed=share)
    words = {vpn: {must: state.word for must, state in own.items()} for vpn, own in choice_of(report).states.items()}
    said = answer(devices, words, needs, state=choice_of(report).machine, thresholds=thresholds)
    made = choice_of(report).model_copy(update={"needs": needs, "answer": said})
    return {
        "answer": said.model_dump(mode="json", exclude={"needs"}),
        "headline": choice_words.headline(made),
        "whyNot": choice_words.why_not(said),
        "kin": choice_words.kin(made),
        "failed": choice_words.failure_sentences(made),
    }


def told_of_every_line(report: Report, devices: dict[str, Device], needs: Needs) -> dict[str, Any]:
    """What Python says of all lines, and of what would change the answer."""
    words = {vpn: {must: state.word for must, state in own.items()} for vpn, own in choice_of(report).states.items()}
    every = bands(devices, words, needs, state=choice_of(report).machine)
    found = changes(devices, words, answer(devices, words, needs), every)
    made = choice_of(report).model_copy(update={"needs": needs, "bands": every, "changes": found})
    return {
        "lines": [row._asdict() for row in choice_words.lines(made)],
        "changed": choice_words.change_clauses(made),
        "headline": choice_words.page_headline(made.model_copy(update={"answer": None})),
    }


SAID = """needs => { const {rule, say} = window.vpnevalChoice, said = rule.answer(needs);
  const {needs: _, ...answer} = said;
  return {answer, headline: say.headline(said, needs), whyNot: say.whyNot(said), kin: say.kin(said.named, needs),
    failed: say.failed(said)}; }"""
SAID_OF_EVERY_LINE = """needs => { const {rule, say} = window.vpnevalChoice, bands = rule.bands(needs);
  return {lines: say.lines(bands), changed: say.changed(rule.changes(rule.answer(needs), bands)),
    headline: say.byLine(bands)}; }"""


def asked(page: Page, needs: Needs, share: float | None = None, script: str = SAID) -> dict[str, Any]:
    given = needs.model_dump(mode="json") | ({} if share is None else {"share": share})
    found: dict[str, Any] = page.evaluate(script, given)
    return found


def musts(*more: Must) -> tuple[Must, ...]:
    return ("networks", *more, "tried", "maintained")


def test_the_page_answers_as_the_rule_does_in_the_same_words(report: Report, path: Path, open_page: Open) -> None:
    page, devices = open_page(path), drawn(report)
    grid = [
        *product(("files", "mixed", "calls", "transactions"), LINES, (None, 0.5, 40.0), (None,), (musts(),)),
        *product(("mixed",), (1e8, 1e9), (20.0,), (0.0, 0.01), (musts("udp-blocked"), musts("post-quantum", "nat"))),
        *product(("files",), (5e7, 1e8, 1e9), (20.0,), (0.001, 0.01), (musts("udp-blocked"),)),
        *product(("calls",), (2e7,), (400.0,), (None,), (musts(), (), ("kernel", "mesh"), MUSTS)),
    ]
    seen: set[Any] = set()
    for at, (traffic, line_bps, rtt_ms, loss, asked_for) in enumerate(grid):
        needs = Needs(line_bps=line_bps, path_rtt_ms=rtt_ms, path_loss_ratio=loss, traffic=traffic, must=asked_for)
        needs = needs.model_copy(
            update={"line_up_bps": line_bps / 5 if at % 3 else None, "connections": 1 if at % 4 else 8}
        )
        ours, theirs = asked(page, needs), told(report, devices, needs)
        for part, said in theirs.items():
            assert close(ours[part], said), (needs, part, ours[part], said)
        said = theirs["answer"]
        seen |= {said["certainty"], said["grade"], *(one["carries"] for one in said["candidates"])}
    assert seen >= {"sure", "open", "yes", "depends", "no", 0, 1, 2, 4}  # the grid meets all kinds of answers


def test_many_connections_are_a_need_of_the_page(report: Report, path: Path, open_page: Open) -> None:
    page, devices = open_page(path, "#line=500M&connections=8"), drawn(report)
    needs = Needs(line_bps=5e8, path_rtt_ms=20, connections=8)
    assert page.locator("#said").inner_text() == told(report, devices, needs)["headline"]
    assert stated_by(page.locator("#ask code").inner_text(), report).connections == 8
    page.get_by_role("button", name="1", exact=True).click()
    one = needs.model_copy(update={"connections": 1})
    assert page.locator("#said").inner_text() == told(report, devices, one)["headline"]
    assert "connections" not in page.evaluate("location.hash")


@pytest.mark.parametrize("by_datagrams", [False, True])
def test_so_it_does_between_two_sites(report: Report, tmp_path: Path, open_page: Open, by_datagrams: bool) -> None:
    site = with_choice(report, between_gateways(choice_of(report), by_datagrams=by_datagrams))
    (tmp_path / "report.html").write_text(html_text(site))
    page, devices, limits = open_page(tmp_path / "report.html"), drawn(site), set[str | None]()
    for traffic, line_bps, up_bps in product(TRAFFICS, (2e7, 5e8, 7.8e8, 3e9), (None, 1e8)):
        loss = None if up_bps else 0.01
        needs = Needs(line_bps=line_bps, line_up_bps=up_bps, path_rtt_ms=20, path_loss_ratio=loss, traffic=traffic)
        ours, theirs = asked(page, needs), told(site, devices, needs)
        for part, said in theirs.items():
            assert close(ours[part], said), (needs, part, ours[part], said)
        limits |= {one["limit"] for one in theirs["answer"]["candidates"]}
    assert limits == {"path", "packets", "cores", "window", None}
    needs = Needs(line_bps=1e8, path_rtt_ms=20)
    assert asked(page, needs, script=SAID_OF_EVERY_LINE) == told_of_every_line(site, devices, needs)


@pytest.mark.parametrize(
    "traffic", [pytest.param(one, marks=[pytest.mark.slow] if one != "mixed" else []) for one in TRAFFICS]
)
def test_so_it_does_for_every_line_and_for_what_changes_it(
    traffic: Traffic, report: Report, path: Path, open_page: Open
) -> None:
    needs = Needs(line_bps=1e8, path_rtt_ms=20, traffic=traffic)
    ours = asked(open_page(path), needs, script=SAID_OF_EVERY_LINE)
    theirs = told_of_every_line(report, drawn(report), needs)
    assert len(theirs["lines"]) > 2
    assert ours == theirs


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_the_share_of_datagrams_is_a_threshold(share: float, report: Report, path: Path, open_page: Open) -> None:
    page, devices, needs = open_page(path), drawn(report), Needs(line_bps=5e8, path_rtt_ms=20)
    ours, theirs = asked(page, needs, share), told(report, devices, needs, share)
    assert close(ours["answer"], theirs["answer"])


def test_other_needs_give_another_answer(report: Report, path: Path, open_page: Open) -> None:
    """The control: what is compared above does not agree because it is always the same."""
    page = open_page(path)
    headlines = {asked(page, Needs(line_bps=line_bps, path_rtt_ms=20))["headline"] for line_bps in LINES}
    assert len(headlines) == len(LINES)


def test_the_address_carries_the_needs(report: Report, path: Path, open_page: Open) -> None:
    page, devices = open_page(path, "#line=1G&rtt=5ms&traffic=files&must=udp-blocked"), drawn(report)
    needs = Needs(line_bps=1e9, path_rtt_ms=5, traffic="files", must=musts("udp-blocked"))
    assert page.locator("#said").inner_text() == told(report, devices, needs)["headline"]
    assert page.locator("#need-line").input_value() == "1G"
    assert page.get_by_role("button", name="udp-blocked", exact=True).get_attribute("aria-pressed") == "true"
    page.get_by_role("button", name="calls").click()
    page.locator("#line-slider").focus()
    page.keyboard.press("Home")
    again = open_page(path, page.evaluate("location.hash"))
    later = Needs(line_bps=1e7, path_rtt_ms=5, traffic="calls", must=musts("udp-blocked"))
    for one in (page, again):
        assert one.locator("#said").inner_text() == told(report, devices, later)["headline"]
    assert stated_by(again.locator("#ask code").inner_text(), report) == later


def test_a_line_may_have_two_rates(report: Report, path: Path, open_page: Open) -> None:
    page, devices = open_page(path, "#line=100M/20M"), drawn(report)
    needs = Needs(line_bps=1e8, line_up_bps=2e7, path_rtt_ms=20)
    assert page.locator("#said").inner_text() == told(report, devices, needs)["headline"]
    assert stated_by(page.locator("#ask code").inner_text(), report).up_bps == 2e7
    lock = page.locator("#line-lock")
    assert lock.get_attribute("aria-pressed") == "false"
    lock.click()
    assert page.evaluate("window.vpnevalChoice.needs().line_up_bps") is None
    page.locator("#up-slider").focus()
    page.keyboard.press("Home")
    assert page.locator("#need-line").input_value() == "10M", "locked, one slider moves both"
    lock.click()
    page.locator("#line-slider").focus()
    page.keyboard.press("End")
    assert page.locator("#need-line").input_value() == "10G/10M"


def stated_by(command: str, report: Report) -> Needs:
    """The needs that a command of the page states, as vpneval reads it."""
    program, name, folder, *options = shlex.split(command)
    assert (program, name, folder) == ("vpneval", "report", report.run_id)
    words = [word for option in options for word in option.split("=", 1)]
    given = dict(zip(words[::2], words[1::2], strict=True))
    must = [given.pop("--must")] if "--must" in given else []
    stated: dict[str, Any] = {option.removeprefix("--").replace("-", "_"): value for option, value in given.items()}
    return state_needs(NeedsOptions(**stated, must=must), choice_of(report).needs)


@pytest.mark.parametrize(
    "fragment",
    ["#rtt=", "#loss=0.05%", "#line=155M&loss=0", "#must=-networks,nat", "#must=", "#traffic=transactions&rtt=0.5ms"],
)
def test_the_command_states_what_the_page_does(fragment: str, report: Report, path: Path, open_page: Open) -> None:
    page = open_page(path, fragment)
    needs = page.evaluate("window.vpnevalChoice.needs()")
    asked_for = stated_by(page.locator("#ask code").inner_text(), report)
    same = asked_for.model_dump(mode="json") | {"path_rtt_ms": asked_for.path_rtt_ms or None}
    assert {name: needs[name] for name in same} == same  # a path of 0 ms is judged as one that nobody stated


def test_the_run_s_own_needs_are_answered_as_printed(report: Report, path: Path, open_page: Open) -> None:
    page = open_page(path)
    assert page.locator("#said").inner_text() == choice_words.headline(choice_of(report))
    page.get_by_role("button", name="files").click()
    page.get_by_role("button", name="as the run was asked").click()
    assert page.locator("#said").inner_text() == choice_words.headline(choice_of(report))
    assert page.evaluate("location.hash") == ""


def test_without_a_line_there_are_bands_and_nobody_is_named(report: Report, path: Path, open_page: Open) -> None:
    page = open_page(path, "#line=")
    theirs = told_of_every_line(report, drawn(report), Needs(path_rtt_ms=20, line_bps=1e8))
    page.wait_for_function(
        "rows => document.querySelectorAll('#lines tbody tr').length === rows", arg=len(theirs["lines"])
    )
    assert page.locator("#said").inner_text() == theirs["headline"]
    rows = page.locator("#lines tbody tr").all_inner_texts()
    assert rows == [f"{row['lines']}\t{row['vpns']}" for row in theirs["lines"]]
    assert page.title() == theirs["headline"]
    assert page.locator("[data-fact=why-not]").is_hidden()


@pytest.mark.parametrize(
    ("fragment", "says"),
    [
        ("#line=fast", "fast is not a rate"),
        ("#traffic=video", "no traffic video"),
        ("#must=cheap", "no must cheap"),
        ("#rtt=-1", "is not a round-trip time"),
        ("#loss=2", "is not a share"),
        ("#line=%3Cscript%3E", "<script> is not a rate"),
    ],
)
def test_a_bad_link_is_said_and_not_guessed(fragment: str, says: str, path: Path, open_page: Open) -> None:
    page = open_page(path, fragment)
    assert says in page.locator("#wrong-needs").inner_text()
    assert page.locator("#need-line").input_value() == "100M"


def test_a_cell_of_the_map_is_the_answer_for_its_needs(report: Report, path: Path, open_page: Open) -> None:
    page, devices = open_page(path), drawn(report)
    page.wait_for_selector("html[data-mapped]", state="attached")
    seen = set()
    for table, rows in (("map-share", SHARES), ("map-path", PATHS_MS)):
        cells = page.locator(f"#{table} tbody tr")
        for at, value in enumerate(reversed(rows)):
            found = cells.nth(at).locator("td").evaluate_all("all => all.map((one) => [one.className, one.innerText])")
            for (kind, words), line_bps in list(zip(found, RATES_BPS, strict=True))[::3]:
                share = value if table == "map-share" else None
                needs = (
                    Needs(line_bps=line_bps, path_rtt_ms=20)
                    if share is not None
                    else Needs(line_bps=line_bps, path_rtt_ms=value, traffic="transactions")
                )
                said = told(report, devices, needs, share)["answer"]
                first = said["candidates"][0]
                nobody = not said["named"] or (said["grade"] >= 2 and first["carries"] == "no")
                depends = not nobody and first["carries"] == "depends"
                assert ("nobody" in kind, "hatched" in kind) == (nobody, depends)
                if not nobody:
                    assert words.replace("\u00a0", " ").split(" ")[0] == said["named"][0]
                    assert ("?" in words) is (not depends and said["certainty"] != "sure")
                seen.add((nobody, depends, "?" in words))
    assert len(seen) >= 3


def test_a_click_on_the_map_states_its_needs(path: Path, open_page: Open) -> None:
    page = open_page(path)
    page.wait_for_selector("html[data-mapped]", state="attached")
    page.locator("#map-path tbody tr").nth(0).locator("td").nth(1).click()
    assert page.evaluate("location.hash") == "#line=20M&rtt=50ms&traffic=transactions"
    page.locator("#map-share tbody tr").nth(1).locator("td").nth(0).click()
    assert "share=60%" in page.evaluate("location.hash")
    assert page.locator("#share-words").inner_text() == "60 %"


def test_a_click_on_a_must_says_what_shows_it(report: Report, path: Path, open_page: Open) -> None:
    page = open_page(path)
    vpn = page.locator("[data-fact=musts] button").first.get_attribute("data-vpn") or ""
    page.get_by_role("button", name="networks shown").click()
    said = page.locator("[data-fact=musts] .shows").inner_text()
    assert musts_words.sentence(vpn, "networks", choice_of(report).states[vpn]["networks"]) in said
    page.get_by_role("button", name="networks shown").click()
    assert page.locator("[data-fact=musts] .shows").count() == 0


def test_ranks_are_shown_where_they_count_alone(path: Path, tmp_path: Path, open_page: Open) -> None:
    page = open_page(path)
    assert page.locator("#ranking").count() == 0
    assert page.locator("#pair li").count() > 2  # one against another stays
    run, trials = chosen_run(MADE, needs=Needs(line_bps=1e8))
    weighed = tmp_path / "weighed.html"
    weighed.write_text(html_text(build(run, trials, weights=PRESETS["balanced"])))
    both = open_page(weighed, "#line=1G")
    assert both.locator("#ranking tbody tr").count() > 2
    for one in (path, weighed):
        assert "the best" not in re.sub(r"<script.*?</script>", "", one.read_text(), flags=re.DOTALL)


def test_the_card_reads_without_a_script(report: Report, path: Path, chromium: BrowserContext) -> None:
    said = choice_of(report).answer
    assert said
    page = chromium.new_page()
    chromium.new_cdp_session(page).send("Emulation.setScriptExecutionDisabled", {"value": True})
    page.goto(path.as_uri())
    assert page.locator("#said").inner_text() == choice_words.headline(choice_of(report))
    assert page.locator("[data-fact=why-not] li").all_inner_texts() == choice_words.why_not(said)
    assert page.locator("#needs").is_hidden()
    assert page.locator("#map").is_hidden()
    page.close()


def test_it_fits_a_phone_and_paper(path: Path, open_page: Open) -> None:
    page = open_page(path, width=360)
    page.wait_for_selector("html[data-mapped]", state="attached")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.locator("#map-share td .code").first.is_visible()
    lines = page.locator(".map .code").evaluate_all("all => all.map((one) => one.getClientRects().length)")
    assert {*lines} == {1}, "no code is broken into lines"
    paper = open_page(path, "?print", width=718)
    paper.emulate_media(media="print")
    paper.wait_for_selector("html[data-mapped]", state="attached")
    assert paper.locator("#map-share td .code").first.is_visible()
    assert paper.evaluate("document.querySelector('#map-share').scrollWidth") <= 718
    assert paper.locator("#needs").is_hidden()
