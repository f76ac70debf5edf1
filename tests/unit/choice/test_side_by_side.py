"""The equally good VPNs side by side: where each value is from, and what every form says of it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import partial

import pytest
from rich.console import Console

from questions.choose.judge import choice
from questions.choose.judgement import ComparedCell, Kind, SideBySide
from questions.choose.side_by_side import side_by_side
from questions.choose.side_by_side_words import table
from runner.choice.answer import answer
from runner.choice.model import State
from runner.data.needs import Needs
from runner.data.shipped_runs import shipped_beside
from runner.data.trials import Measurement, Run, Trial
from runner.report.forms.html import html_text
from runner.report.forms.latex import latex_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render
from tests.unit.choice.made_up import by_name, device, words
from tests.unit.choice.runs import chosen_run
from tests.unit.synthetic import make_run, make_trial
from tests.unit.whole_report import build, choice_of

ROAMING = {"measure": "recovery", "failure": "roaming"}
A, B = "openvpn", "wireguard_go"
OWN = {
    "networks": State(word="shown", how="marker"),
    "tried": State(word="shown", how="trial"),
    "maintained": State(word="declared", how="declaration"),
}
KNOWN = {A: OWN, B: OWN}


def told(vpn: str, params: Mapping[str, str], metric: str, value: float, **detail: object) -> Trial:
    measured = Measurement(metric=metric, value=value, unit="1", better="lower", detail=dict(detail))
    return make_trial(vpn, params, 1).model_copy(update={"measurements": [measured]})


def made(*trials: Trial, shipped: list[tuple[Run, list[Trial]]] | None = None, line: float | None = 1e8) -> SideBySide:
    devices = by_name(device(A, 4e8), device(B, 9e8))
    needs = Needs(line_bps=line)
    on = partial(answer, devices, words(A, B))
    runs = [(make_run((A, B), (), 1), list(trials)), *(shipped or [])]
    found = side_by_side([A, B], on, needs, devices, KNOWN, runs)  # type: ignore[arg-type]
    assert found is not None
    return found


def cells(found: SideBySide, kind: Kind) -> dict[str, ComparedCell]:
    row = next(row for row in found.rows if row.kind == kind)
    return dict(zip(found.vpns, row.cells, strict=True))


def other_run(*trials: Trial, title: str = "") -> tuple[Run, list[Trial]]:
    run = make_run((A, B), (), 1).model_copy(update={"run_id": "other"})
    vpns = {name: one.model_copy(update={"title": title or one.title}) for name, one in run.vpns.items()}
    return run.model_copy(update={"vpns": vpns}), list(trials)


def test_room_is_the_capacity_over_the_demand_and_cores_are_those_of_the_answer() -> None:
    found = made()
    assert cells(found, "room")[A].value == pytest.approx(4e8 / 0.93e8, rel=0.01)
    said = answer(by_name(device(A, 4e8), device(B, 9e8)), words(A, B), Needs(line_bps=1e8))
    assert [cell.value for cell in cells(found, "cores").values()] == [
        said.candidate_of(vpn).cores for vpn in found.vpns
    ]


def test_without_a_line_cores_are_those_of_one_rate_that_all_carry() -> None:
    found = made(line=None)
    assert (found.at_bps, found.stated) == (2e8, False)
    assert cells(found, "carries")[B].value == pytest.approx(9e8, rel=0.01)


def test_one_vpn_stands_beside_nothing() -> None:
    found = choice(*chosen_run(needs=Needs(line_bps=1e9, traffic="files")))
    assert found is not None
    assert found.answer is not None
    assert (len(found.answer.named), found.beside) == (1, None)


def test_this_run_outranks_a_shipped_one_and_of_several_failures_the_worst_counts() -> None:
    before = other_run(told(A, ROAMING, "outage_ms", 9e3), told(B, ROAMING, "outage_ms", 15e4, at_least=True))
    here = [told(A, ROAMING, "outage_ms", 2e3), told(A, ROAMING, "outage_ms", 4e3)]
    address = cells(made(*here, shipped=[before]), "address")
    assert (address[A].value, address[A].run, address[A].at_least) == (4.0, "", False)
    assert (address[B].value, address[B].run, address[B].at_least) == (150.0, "other", True)
    assert address[B].day


def test_a_plugin_from_outside_with_a_known_name_has_nothing_of_the_shipped_runs() -> None:
    before = other_run(told(A, ROAMING, "outage_ms", 9e3), title="another")
    assert cells(made(shipped=[before]), "address")[A] == ComparedCell()


def test_the_nat_that_is_borne_worse_counts_and_one_never_borne_is_a_bound() -> None:
    nat = {"measure": "nat"}
    port = told(A, nat, "nat_port_back", 63.0, kind="back")
    address = told(A, nat, "nat_address_back", 90.0, kind="never")
    assert cells(made(port), "nat")[A].model_copy(update={"trial": ""}) == ComparedCell(value=63.0)
    assert cells(made(port, address), "nat")[A].model_copy(update={"trial": ""}) == ComparedCell(
        value=90.0, at_least=True
    )


@pytest.mark.parametrize("params", [{"inner": "6"}, {"wan_rate_bps": "1000000"}, {"image": "old"}])
def test_what_was_tried_otherwise_is_not_told(params: dict[str, str]) -> None:
    assert cells(made(told(A, ROAMING | params, "outage_ms", 1e3)), "address")[A] == ComparedCell()


def test_the_worst_second_of_another_line_is_not_told() -> None:
    watched = told(A, {"measure": "steady"}, "steady_worst_second_loss", 0.03)
    assert cells(made(shipped=[other_run(watched)]), "worst_second")[A] == ComparedCell()
    assert cells(made(watched), "worst_second")[A].value == 0.03


def test_a_cell_is_never_empty_and_each_shipped_run_is_named_with_its_day() -> None:
    before = other_run(told(A, ROAMING, "outage_ms", 9e3))
    shown = table(made(shipped=[before]))
    every = [[cell if isinstance(cell, str) else cell.words for cell in row] for row in shown.rows]
    assert all(all(row) for row in every)
    assert ["back after a new address", "9 s", "not tried"] in every
    day = before[1][0].started_at[:10]
    assert any(note.lead == f"Run other of {day}:" for note in shown.notes)
    assert any("set-up: commands" in note.words for note in shown.notes if note.lead.startswith("Not measured"))


def test_shipped_runs_tell_of_the_usual_vpns() -> None:
    metrics = {
        (trial.vpn, value.metric) for _, trials in shipped_beside() for trial in trials for value in trial.measurements
    }
    for vpn in ("openvpn", "wireguard_go", "ipsec_user", "ssh_tun"):
        for metric in ("outage_ms", "nat_port_back", "setup_commands", "scaling_lines", "overhead_bytes"):
            assert (vpn, metric) in metrics


def screen(full: bool, height: int) -> list[str]:
    console = Console(width=80, height=height, file=io.StringIO(), record=True, force_terminal=True)
    render(build(*chosen_run(needs=Needs(line_bps=1e8))), console, full=full)
    return console.export_text().splitlines()


@pytest.mark.parametrize(("full", "height", "times"), [(False, 24, 0), (True, 24, 1), (False, 50, 1), (True, 50, 1)])
def test_a_terminal_has_the_table_once_where_there_is_room_or_all_is_asked_for(
    full: bool, height: int, times: int
) -> None:
    lines = screen(full, height)
    assert sum("room over your line" in line and "×" in line for line in lines) == times
    assert full or max(map(len, lines)) <= 100  # a command is not folded


def test_every_form_has_the_table() -> None:
    report = build(*chosen_run(needs=Needs(line_bps=1e8)))
    for text in (markdown_text(report), html_text(report), latex_text(report)):
        assert "room over your line" in text
    said = json.loads(json_text(report))["judgements"]["choose"]["beside"]
    assert said["vpns"] == choice_of(report).answer.named  # type: ignore[union-attr]
    assert {row["kind"] for row in said["rows"]} > {"room", "cores", "address", "must"}
