"""An emulated machine is no gateway: what ranking, choice, papers, limits and the first line make of it."""

from __future__ import annotations

import io
from html import unescape
from typing import Any

import pytest
from rich.console import Console

from questions.choose.words import headline
from runner.data.needs import Needs
from runner.data.trials import Run, Trial
from runner.papers.scales import one_scale
from runner.report.closing import closing
from runner.report.forms.html import html_text
from runner.report.forms.latex import latex_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.terminal import render
from runner.report.model import Report
from runner.report.scale import above
from tests.unit.choice.runs import TRUTHS, Truth, chosen_run
from tests.unit.data.test_scale import LABS
from tests.unit.whole_report import build, choice_of, ranked_of

KERNEL = {"ipsec": Truth(3e8, 2e8), "gre_ipsec": Truth(2.5e8, 1.8e8)}
USERSPACE = {name: TRUTHS[name] for name in ("wireguard_go", "openvpn")}
PLAIN = {"none": TRUTHS["none"]}


def measured(lab: str, truths: dict[str, Truth], needs: Needs | None = None) -> tuple[Run, list[Trial]]:
    run, trials = chosen_run(truths, absent=(), needs=needs)
    return run.model_copy(update={"lab": LABS[lab][0]}), trials


def screen(report: Report) -> list[str]:
    console = Console(width=200, file=io.StringIO(), record=True)
    render(report, console)
    return console.export_text().splitlines()


def compared(report: Report) -> set[str]:
    placed = {
        standing.vpn for ranking in ranked_of(report).rankings for standing in ranking.standings if standing.place
    }
    pairs = {name for pair in ranked_of(report).verdicts for name in (pair.a, pair.b)}
    return placed | pairs | choice_of(report).named_vpns | {*choice_of(report).devices}


@pytest.mark.parametrize("lab", ["--kernel uml", "--kernel qemu without, an older run", "ssh, one emulated"])
def test_where_data_planes_have_no_scale_the_kernels_vpns_are_compared_alone(lab: str) -> None:
    run, trials = measured(lab, PLAIN | KERNEL | USERSPACE)
    report = build(run, trials)
    assert report.scale == LABS[lab][1]
    assert compared(report) == {*KERNEL}
    assert choice_of(report).others == []
    assert any(all(name in caveat for name in USERSPACE) for caveat in report.caveats)
    assert not one_scale(run, ["ipsec", "openvpn"])
    assert one_scale(run, [*KERNEL])


@pytest.mark.parametrize("lab", ["namespaces", "--kernel qemu with KVM", "vagrant with KVM"])
def test_where_they_have_one_all_are_compared(lab: str) -> None:
    run, trials = measured(lab, PLAIN | KERNEL | USERSPACE)
    report = build(run, trials)
    assert report.scale is None
    assert compared(report) == {*KERNEL, *USERSPACE}
    assert one_scale(run, ["ipsec", "openvpn"])


def test_it_is_said_before_anything_else() -> None:
    report = build(*measured("ssh, one emulated", PLAIN | KERNEL, Needs(line_bps=1e8, path_rtt_ms=20)))
    for found in [found for _, found in LABS.values() if found]:
        told = report.model_copy(update={"scale": found})
        said = above(found)
        assert all(name in said for name in found.machines)
        assert screen(told)[1].startswith(said[:100])
        assert said in markdown_text(told).partition("Which VPN for your line")[0]
        assert closing({"": told})[0].startswith(said)
    assert "gw2" in unescape(html_text(report).partition("<nav")[0])
    assert "no scale" in latex_text(report).partition("Which VPN for your line")[0]


def test_on_a_scale_nothing_is_said() -> None:
    report = build(*measured("vagrant with KVM", PLAIN | KERNEL))
    for text in ("\n".join(screen(report)), markdown_text(report), html_text(report)):
        assert "no scale" not in text


@pytest.mark.parametrize("lab", ["vagrant emulated", "--kernel qemu without"])
def test_where_only_programs_were_measured_nothing_is_compared_and_the_cause_is_said(lab: str) -> None:
    report = build(*measured(lab, PLAIN | USERSPACE))
    assert "choose" not in report.judgements
    assert not any(standing.place for ranking in ranked_of(report).rankings for standing in ranking.standings)
    assert report.scale is not None
    assert screen(report)[1].startswith(above(report.scale)[:100])


def site(run: Run, **more: Any) -> Run:
    path = {"rtt_ms": [19.0, 20.0, 21.0], "loss_ratio": 0.0}
    return run.model_copy(update={"lab": {**run.lab, "kind": "site", "path": path, **more}})


@pytest.mark.parametrize("lab", ["vagrant emulated", "ssh, one emulated"])
def test_what_an_emulated_gateway_does_not_carry_another_may(lab: str) -> None:
    needs = Needs(line_bps=1e9, path_rtt_ms=20)
    for of_site in (False, True):
        answers = {}
        for name in (lab, "ssh"):
            run, trials = measured(name, PLAIN | KERNEL, needs)
            report = build(site(run) if of_site else run, trials)
            said = choice_of(report).answer
            assert said is not None
            answers[name] = said.candidate_of("ipsec").carries
            assert "Sure" not in headline(choice_of(report))
        assert answers[lab] == "depends"
        assert answers["ssh"] == ("no" if of_site else "depends")
