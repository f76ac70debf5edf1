"""The page answers for other needs as runner/choice does, and says it in the same words, on the same draws."""

import base64
import gzip
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Page

from runner.choice.answer import answer, bands, changes
from runner.choice.devices import DRAWS, Curve, Device
from runner.choice.musts import State
from runner.choice.thresholds import USUAL
from runner.data.needs import MUSTS, TRAFFICS, Must, Needs, Traffic
from runner.ranking.intervals import Array
from runner.report import choice_words
from runner.report.choice import Choice
from runner.report.forms.choice_page import choice_page
from runner.report.forms.html import html_text
from runner.report.model import Report, build
from runner.report.plots.plotting import Samples
from tests.browser.conftest import Open
from tests.unit.choice.runs import TRUTHS, Truth, chosen_run

LINES = (2e7, 1e8, 5e8, 1e9, 3e9, 1e10)
MADE = TRUTHS | {"openvpn_tcp": Truth(7e8, 3e8, 21.0, rtt_ms=1.4, setup_s=3.0), "boringtun": Truth(9e8, 5e8, 45.0)}


def with_states(choice: Choice) -> Choice:
    """All four words among the musts, a VPN of which half is unknown, one with failed trials, one bounded from below,
    and gateways that would carry more if they had cores of their own."""
    words = ("no", "unknown", "declared", "shown")
    states = {
        vpn: {
            must: State(word="shown" if must in ("networks", "maintained") else words[(row + column) % 4], how="trial")
            for column, must in enumerate(MUSTS)
        }
        for row, vpn in enumerate(choice.devices)
    }
    made = {vpn: replace(device, growth={"tcp": 1.8, "udp": 1.3}) for vpn, device in choice.devices.items()}
    made["boringtun"] = replace(made["boringtun"], failed=3, growth={})
    made["openvpn_tcp"] = replace(made["openvpn_tcp"], at_least=frozenset({"tcp"}), tcp_in_tcp=True)
    made["ipsec_user"] = replace(made["ipsec_user"], rtt_added_ms=None)
    return choice.model_copy(update={"devices": made, "states": states})


@pytest.fixture(scope="module")
def report() -> Report:
    made = build(*chosen_run(MADE, needs=Needs(line_bps=1e8, path_rtt_ms=20), noise=0.25))
    assert made.choice
    return made.model_copy(update={"choice": with_states(made.choice)})


@pytest.fixture(scope="module")
def path(report: Report, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("choice") / "report.html"
    made.write_text(html_text(report))
    return made


def unpacked(report: Report) -> dict[str, Device]:
    """The devices that the page has, each of its draws ten times."""
    assert report.choice
    data = choice_page(report, report.choice, Samples(report), "x")["data"]
    planes = np.frombuffer(gzip.decompress(base64.b64decode(data["packed"])), np.uint8).reshape(3, -1).astype("<u4")
    whole = (planes[0] << 24 | planes[1] << 16 | planes[2] << 8).view("<f4").astype(float).reshape(-1, data["draws"])

    def drawn(at: int | None) -> Array | None:
        return None if at is None else np.tile(whole[at], DRAWS // data["draws"])

    def curve(vpn: str, kind: str, given: dict[str, Any]) -> Curve:
        known = report.choice.devices[vpn].curves[kind] if report.choice else None
        assert known
        columns = {
            name: np.column_stack([np.tile(whole[at], DRAWS // data["draws"]) for at in given[name]])
            for name in ("cores", "loss_ratio", "delay_ms")
        }
        return replace(known, **columns)

    return {
        vpn: replace(
            report.choice.devices[vpn],
            **{name: drawn(given[name]) for name in ("tcp_bps", "udp_bps", "rtt_added_ms", "setup_s")},
            curves={kind: curve(vpn, kind, one) for kind, one in given["curves"].items()},
        )
        for vpn, given in data["devices"].items()
    }


def close(ours: Any, theirs: Any) -> bool:
    """The same structure, with numbers that differ by a millionth at most."""
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(close(ours[key], theirs[key]) for key in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(close, ours, theirs))
    return bool(ours == (pytest.approx(theirs, rel=1e-6, abs=1e-9) if isinstance(theirs, float) else theirs))


def told(report: Report, devices: dict[str, Device], needs: Needs, share: float | None = None) -> dict[str, Any]:
    """What Python says of these needs, in numbers and in words."""
    assert report.choice
    thresholds = USUAL if share is None else replace(USUAL, mixed=share)
    words = {vpn: {must: state.word for must, state in own.items()} for vpn, own in report.choice.states.items()}
    said = answer(devices, words, needs, calm=report.choice.calm, thresholds=thresholds)
    made = report.choice.model_copy(update={"needs": needs, "answer": said})
    return {
        "answer": said.model_dump(mode="json", exclude={"needs"}),
        "headline": choice_words.headline(made),
        "whyNot": choice_words.why_not(said),
        "kin": choice_words.kin(made),
        "failed": choice_words.failed(made),
    }


def told_of_every_line(report: Report, devices: dict[str, Device], needs: Needs) -> dict[str, Any]:
    """What Python says of all lines, and of what would change the answer."""
    assert report.choice
    words = {vpn: {must: state.word for must, state in own.items()} for vpn, own in report.choice.states.items()}
    every = bands(devices, words, needs)
    found = changes(devices, words, answer(devices, words, needs), every)
    made = report.choice.model_copy(update={"needs": needs, "bands": every, "changes": found})
    return {
        "lines": [row._asdict() for row in choice_words.lines(made)],
        "changed": choice_words.changed(made),
        "headline": choice_words.headline(made.model_copy(update={"answer": None})),
    }


SAID = """needs => { const {rule, say} = window.vpnevalChoice, said = rule.answer(needs);
  const {needs: _, ...answer} = said;
  return {answer, headline: say.headline(said, needs), whyNot: say.whyNot(said), kin: say.kin(said.named),
    failed: say.failed(said)}; }"""
SAID_OF_EVERY_LINE = """needs => { const {rule, say} = window.vpnevalChoice, bands = rule.bands(needs);
  return {lines: say.lines(bands), changed: say.changed(rule.changes(rule.answer(needs), bands)),
    headline: say.headline(null, needs)}; }"""


def asked(page: Page, needs: Needs, share: float | None = None, script: str = SAID) -> dict[str, Any]:
    given = needs.model_dump(mode="json") | ({} if share is None else {"share": share})
    found: dict[str, Any] = page.evaluate(script, given)
    return found


def musts(*more: Must) -> tuple[Must, ...]:
    return ("networks", *more, "maintained")


def test_the_page_answers_as_the_rule_does_in_the_same_words(report: Report, path: Path, open_page: Open) -> None:
    page, devices = open_page(path), unpacked(report)
    grid = [
        *product(("files", "mixed", "calls", "transactions"), LINES, (None, 0.5, 40.0), (None,), (musts(),)),
        *product(("mixed",), (1e8, 1e9), (20.0,), (0.0, 0.01), (musts("udp-blocked"), musts("post-quantum", "nat"))),
        *product(("calls",), (2e7,), (400.0,), (None,), (musts(), (), ("kernel", "mesh"), MUSTS)),
    ]
    seen: set[Any] = set()
    for traffic, line_bps, rtt_ms, loss, asked_for in grid:
        needs = Needs(line_bps=line_bps, path_rtt_ms=rtt_ms, path_loss_ratio=loss, traffic=traffic, must=asked_for)
        ours, theirs = asked(page, needs), told(report, devices, needs)
        for part, said in theirs.items():
            assert close(ours[part], said), (needs, part, ours[part], said)
        said = theirs["answer"]
        seen |= {said["certainty"], said["grade"], *(one["carries"] for one in said["candidates"])}
    assert seen >= {"sure", "open", "yes", "depends", "no", 0, 1, 2, 4}  # the grid meets all kinds of answers


@pytest.mark.parametrize("traffic", TRAFFICS)
def test_so_it_does_for_every_line_and_for_what_changes_it(
    traffic: Traffic, report: Report, path: Path, open_page: Open
) -> None:
    needs = Needs(line_bps=1e8, path_rtt_ms=20, traffic=traffic)
    ours = asked(open_page(path), needs, script=SAID_OF_EVERY_LINE)
    theirs = told_of_every_line(report, unpacked(report), needs)
    assert len(theirs["lines"]) > 2
    assert ours == theirs


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_the_share_of_datagrams_is_a_threshold(share: float, report: Report, path: Path, open_page: Open) -> None:
    page, devices, needs = open_page(path), unpacked(report), Needs(line_bps=5e8, path_rtt_ms=20)
    ours, theirs = asked(page, needs, share), told(report, devices, needs, share)
    assert close(ours["answer"], theirs["answer"])


def test_other_needs_give_another_answer(report: Report, path: Path, open_page: Open) -> None:
    """The control: what is compared above does not agree because it is always the same."""
    page = open_page(path)
    headlines = {asked(page, Needs(line_bps=line_bps, path_rtt_ms=20))["headline"] for line_bps in LINES}
    assert len(headlines) == len(LINES)
