"""A tunnel that breaks down under load is told of where its VPN is named."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from questions.rank.why import why
from questions.rank.words import answers
from runner.data.remarks import Remark
from runner.data.trials import Run, Trial
from runner.report.breakdowns import breakdowns
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.terminal_answer import render_answer
from tests.unit.synthetic import PLAIN, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of

LOST = Remark(kind="no payload")


def under_udp(mbps: float) -> Remark:
    return Remark(kind="breakdown", subject="UDP", value=1e6 * mbps, unit="bit/s")


def broken(vpn: str, *remarks: Remark) -> tuple[Run, list[Trial]]:
    """A run in which the first trials of each tunnel of ``vpn``, of what measures TCP, have these remarks."""
    run, trials = realistic_run(3)
    left: dict[str, list[Remark]] = {}
    found = []
    for trial in trials:
        mine = trial.vpn == vpn and trial.params.get("measure") == "tcp"
        texts = left.setdefault(trial.cell, list(remarks)) if mine else []
        found.append(trial.model_copy(update={"remarks": [texts.pop(0)]}) if texts else trial)
    return run, found


def forms(run: Run, trials: list[Trial]) -> list[str]:
    """The terminal's answer, the page, Markdown, and what `why` says of the first two VPNs."""
    report = build(run, trials)
    console = Console(file=io.StringIO(), width=200)
    render_answer(report, console)
    first, second = (standing.vpn for standing in ranked_of(report).rankings[0].standings[:2])
    of_console = console.file.getvalue()  # type: ignore[attr-defined]
    return [of_console, html_text(report), markdown_text(report), "\n".join(why(run, trials, first, second))]


@pytest.mark.parametrize("place", [0, -1])
def test_every_form_tells_of_it_beside_the_answer(place: int) -> None:
    run, trials = realistic_run(3)
    report = build(run, trials)
    vpn = [one.vpn for one in ranked_of(report).rankings[0].standings if one.place][place]
    said = f"{vpn}'s tunnel broke down under UDP from 400 Mbit/s offered in 2 of 3 trials, and was made anew."
    found = forms(*broken(vpn, under_udp(900), under_udp(400)))
    for form, without in zip(found[: 3 if place else 4], forms(run, trials), strict=False):
        flat = " ".join(form.replace("&#39;", "'").split())
        assert said in flat
        assert "broke down" not in without
    answer = answers(ranked_of(build(*broken(vpn, under_udp(900), under_udp(400)))))[0]
    assert (said in answer.verdict) is (vpn in answer.groups[0]), "who leads does not lead without it"


def test_what_was_begun_again_because_nothing_passed_is_one() -> None:
    _, trials = broken("openvpn", LOST, Remark(kind="steal", value=0.09))
    found = breakdowns(trials)
    assert {(one.vpn, one.under) for one in found} == {("openvpn", "the measurement of tcp")}
    assert sum(one.trials for one in found) == sum(LOST in trial.remarks for trial in trials)


def test_an_overload_is_counted_apart_from_other_failures() -> None:
    """Of three overloads one killed the tunnel; a tunnel that does not come back after a restart did not break down."""
    levels = {"measure": "recovery", "failure": "overload"}
    overloads = [make_trial("ssh_tun", PLAIN | levels, number, {"outage_ms": 0.0}) for number in range(3)]
    restarts = [make_trial("ssh_tun", PLAIN | levels | {"failure": "restart"}, 0, {"outage_ms": 6e4})]
    dead = overloads[0].model_copy(update={"remarks": [under_udp(2100)]})
    (found,) = breakdowns([dead, *overloads[1:], *restarts])
    assert (found.trials, found.of) == (1, 3)


def test_who_died_of_what_measures_is_none() -> None:
    assert not breakdowns(broken("openvpn", Remark(kind="no value", subject="jitter", why="x"))[1])
