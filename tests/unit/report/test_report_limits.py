"""What the report says of limits: beside each throughput, and where the order would change on separate gateways."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from questions.rank.words import answers
from runner.data.levels import outside_of_tunnel, tunnel_levels
from runner.data.limits import evidence
from runner.data.loads import Limit, MachineLoad
from runner.data.trials import Run, Trial, cell_key
from runner.evidence.model import Configuration
from runner.report.find_limits import find_limits
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render
from runner.report.model import Report
from tests.unit.data.test_own_cores import cost
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build, ranked_of

ONE = Limit(
    sentence="gw2: openvpn's only thread, 100 % of core 3", where="gw2", kind="thread", evidence=["core 3 100 %"]
)
GIGABIT = 1e9  # more than these VPNs carry in the run
OTHER = Limit(sentence="the path: 9 of 99 packets dropped at wan's port gw2 (tbf)", where="wan", kind="path")


def watched(limited: dict[str, Limit], loads: dict[str, MachineLoad]) -> tuple[Run, list[Trial]]:
    """A run whose throughputs have these limits and loads, by VPN."""
    run, trials = realistic_run(3)

    def seen(trial: Trial) -> Trial:
        rate = any(one.metric == "tcp_throughput" for one in trial.measurements)
        if not rate or trial.vpn not in limited:
            return trial
        found: dict[str, Any] = {"limit": limited[trial.vpn], "loads": [loads[trial.vpn]] if trial.vpn in loads else []}
        return trial.model_copy(update=found)

    return run, [seen(trial) for trial in trials]


def test_a_limit_stands_beside_its_throughput_in_every_form() -> None:
    run, trials = watched({"openvpn": ONE}, {"openvpn": cost("openvpn", (0.25, 0.5))})
    report = build(run, trials)
    rows = [row for row in report.limits.rows if row.vpn == "openvpn"]
    assert rows
    assert {(row.metric, row.says) for row in rows} == {("tcp_throughput", ONE.sentence)}
    assert rows[0].cells[-1] == "245 Mbit/s to 600 Mbit/s", "no less than it carried here"
    tables = [table for one in report.experiments for table in one.tables if table.metric == "tcp_throughput"]
    assert {row.limit for table in tables for row in table.measured_rows if row.vpn == "openvpn"} == {ONE.sentence}
    assert {row.limit for table in tables for row in table.rows if row.vpn != "openvpn"} == {""}
    for form in (json_text(report), markdown_text(report)):
        assert "openvpn's only thread, 100 % of core 3" in form
    page = html_text(report)
    assert "<h2>What limits it</h2>" in page
    assert "openvpn&#39;s only thread, 100 % of core 3" in page
    figures = {line for trial in trials if trial.limit for line in evidence(trial.loads)}
    assert figures
    assert any(f"<li>{line}</li>" in page for line in figures), "made anew of the loads that were kept"


def test_every_kind_of_throughput_has_its_row() -> None:
    """A packet rate, a download: whatever a trial is limited in, and not what is measured by the way."""
    run, trials = watched({"openvpn": ONE}, {})
    for metric in ("packet_rate", "packet_rate_both_ways", "download_time", "flows_throughput"):
        named = [
            trial.model_copy(
                update={
                    "measurements": [
                        one.model_copy(update={"metric": metric if one.metric == "tcp_throughput" else one.metric})
                        for one in trial.measurements
                    ]
                }
            )
            for trial in trials
        ]
        assert {row.metric for row in find_limits(run, named, []).rows} == {metric}


def test_the_limit_that_most_trials_had_is_told_with_their_number() -> None:
    run, trials = watched({"openvpn": ONE}, {})
    mine = [trial.id for trial in trials if trial.limit]
    cell = next(trial.cell for trial in trials if trial.id == mine[0])
    first = next(trial.id for trial in trials if trial.cell == cell and trial.limit)
    trials = [trial.model_copy(update={"limit": OTHER}) if trial.id == first else trial for trial in trials]
    row = next(row for row in build(run, trials).limits.rows if row.of == 3 and row.trials == 2)
    assert row.says == f"{ONE.sentence} (2 of 3 trials)"


def test_the_throughput_beside_a_limit_is_that_of_the_tables() -> None:
    """Also where only some of the cell's trials were watched."""
    run, trials = watched({"openvpn": ONE}, {})
    first = {trial.cell: trial.id for trial in reversed(trials)}
    trials = [one if one.id == first[one.cell] else one.model_copy(update={"limit": None}) for one in trials]
    report = build(run, trials)
    told = [row for one in report.experiments for table in one.tables for row in table.measured_rows if row.limit]
    assert told
    of_tables = {cell_key(row.vpn, row.params): row.summary.median for row in told if row.summary}
    assert {cell_key(row.vpn, row.params): row.median for row in report.limits.rows} == of_tables


def test_an_order_that_would_change_is_said() -> None:
    fast, slow = "openvpn", "ssh_tun"
    run, trials = watched(
        {fast: ONE, slow: ONE},
        {
            fast: cost(fast, (0.9, 0.9), at_bps=GIGABIT),
            slow: cost(slow, (0.2, 0.2), at_bps=GIGABIT),
        },
    )
    found = build(run, trials).limits
    by_vpn = {row.vpn: row.median for row in found.rows}
    assert found.stands is (by_vpn[slow] > by_vpn[fast])
    for form in (markdown_text(build(run, trials)), html_text(build(run, trials))):
        assert ("Separate gateways might change the order of the VPNs" in form) is not found.stands
        assert ("separate gateways would not change the order" in form) is found.stands
    changed = "ssh_tun would pass openvpn" if by_vpn[fast] > by_vpn[slow] else "would stand"
    assert any(changed in said for said in found.orders), found.orders


def unknown_of(vpn: str, dataplane: str, limit: Limit, carried_bytes: int) -> str:
    """What is said of a VPN without an estimate beside two that have one."""
    others = ("openvpn", "ssh_tun")
    loads: dict[str, MachineLoad] = {one: cost(one, (0.5, 0.5), at_bps=GIGABIT) for one in others}
    loads[vpn] = cost(vpn, (0.5, 0.5)).model_copy(update={"carried_bytes": carried_bytes})
    run, trials = watched({vpn: limit} | dict.fromkeys(others, ONE), loads)
    mine = run.vpns[vpn].model_copy(update={"dataplane": dataplane})
    report = build(run.model_copy(update={"vpns": run.vpns | {vpn: mine}}), trials)
    (said,) = {one for order in report.limits.orders for one in order.split(". ")[1:] if vpn in one}
    return said


def test_why_separate_gateways_cannot_be_told_is_said_as_it_is() -> None:
    """A program of a userspace VPN is not the kernel, whatever else keeps the estimate from being made."""
    not_measured = "Not known of ipsec_user: the CPU time that it takes at this throughput was not measured."
    assert unknown_of("ipsec_user", "userspace", ONE, 0) == not_measured  # most packets were lost while it was watched
    assert unknown_of("ipsec_user", "userspace", ONE, 1) == not_measured  # it carried more than these loads can say
    held = "Not known of ipsec_user: a quota or the path limited it here."
    assert unknown_of("ipsec_user", "userspace", OTHER, 10**9) == held
    assert unknown_of("ipsec_user", "kernel", ONE, 0) == "Not known of ipsec_user: the kernel does the work."


@pytest.mark.parametrize(
    ("metric", "unit", "size", "value", "shown"),
    [
        ("packet_rate", "packet/s", {"packet_bytes": "1250"}, 9e3, "20000 packet/s to 60000 packet/s"),
        ("packet_rate_both_ways", "packet/s", {"packet_bytes": "1250"}, 9e3, "20000 packet/s to 60000 packet/s"),
        ("packet_rate", "packet/s", {"packet_bytes": "1250"}, 61e3, "–"),  # more than the loads can say
        ("download_time", "s", {"file_bytes": "75000000"}, 9.0, "1.00 s to 3.00 s"),
        ("download_time", "s", {"file_bytes": "75000000"}, 0.9, "–"),
        ("download_time", "s", {}, 9.0, "–"),  # of how much?
    ],
)
def test_separate_gateways_are_told_in_the_unit_of_the_metric(
    metric: str, unit: str, size: dict[str, str], value: float, shown: str
) -> None:
    run, trials = watched({"openvpn": ONE}, {"openvpn": cost("openvpn", (0.25, 0.5))})  # 200 to 600 Mbit/s
    one = next(trial for trial in trials if trial.limit)
    found = one.measurements[0].model_copy(update={"metric": metric, "unit": unit, "value": value})
    mine = one.model_copy(update={"measurements": [found], "params": one.params | size})
    (row,) = find_limits(run, [mine], []).rows
    assert row.cells[-1] == shown


def test_the_shorter_download_is_the_faster_one() -> None:
    run, trials = watched({"openvpn": ONE, "ssh_tun": ONE}, {})
    loads = {
        "openvpn": cost("openvpn", (0.9, 0.9), at_bps=GIGABIT),
        "ssh_tun": cost("ssh_tun", (0.1, 0.1), at_bps=GIGABIT),
    }
    seconds = {"openvpn": 1.0, "ssh_tun": 2.0}
    downloads = []
    for trial in trials:
        if not trial.limit:
            continue
        found = trial.measurements[0].model_copy(
            update={"metric": "tcp_throughput", "unit": "s", "value": seconds[trial.vpn]}
        )
        changed = {"measurements": [found], "loads": [loads[trial.vpn]]}
        downloads.append(trial.model_copy(update=changed | {"params": trial.params | {"file_bytes": "1000000"}}))
    levels = {trial.vpn: tunnel_levels(trial.params) for trial in reversed(downloads)}
    traffic = {"tcp_throughput": outside_of_tunnel(downloads[0].params)}
    compared = Configuration("comparable", image="", levels=levels, traffic=traffic)
    (said,) = find_limits(run, downloads, [compared]).orders
    assert "ssh_tun would pass openvpn" in said


def test_a_run_that_nobody_watched_has_no_such_section() -> None:
    run, trials = realistic_run(2)
    report = build(run, trials)
    assert report.limits.rows == []
    assert report.limits.stands is None
    assert report.limits.verdict == ""
    assert "What limits it" not in markdown_text(report) + html_text(report)


def test_what_is_told_of_a_limit_is_escaped() -> None:
    nasty = ONE.model_copy(update={"sentence": "gw1: <script>, 99 % of a core", "evidence": ["<b>"]})
    run, trials = watched({"openvpn": nasty}, {})
    page = html_text(build(run, trials))
    assert "gw1: <script>" not in page
    assert "<li><b></li>" not in page


def answered(report: Report, width: int, height: int) -> str:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True)
    render(report, console)
    return console.export_text()


def test_the_answer_in_the_terminal_says_what_limits_each_ranked_vpn_and_where_the_order_would_change() -> None:
    second = ONE.model_copy(update={"sentence": "gw1: ssh's only thread, 99 % of a core"})
    loads = {
        "openvpn": cost("openvpn", (0.2, 0.2), at_bps=GIGABIT),
        "ssh_tun": cost("ssh_tun", (0.9, 0.9), at_bps=GIGABIT),
    }
    report = build(*watched({"openvpn": ONE, "ssh_tun": second}, loads))
    tall = " ".join(answered(report, 200, 50).split())
    assert tall.count("What limits TCP throughput") == 1
    for vpn, limit in (("openvpn", ONE), ("ssh_tun", second)):
        assert tall.count(f" {vpn} {limit.sentence}") == 1
    assert tall.count("Separate gateways might change the order.") == 1  # of the second ranking
    first = ranked_of(report).rankings[answers(ranked_of(report))[0].number].configuration
    (changed,) = [said for said in report.limits.orders if said.startswith(f"TCP throughput, {first}: ")]
    assert f" O{changed.split(': o', 1)[1]}" in tall
    assert " pass " in changed


def test_on_a_low_terminal_the_limits_take_a_line_and_all_still_fits() -> None:
    report = build(*watched({"openvpn": ONE, "ssh_tun": OTHER}, {}))
    low = answered(report, 80, 24)
    assert len(low.splitlines()) < 24
    said = " ".join(low.split())
    assert "TCP is limited by the path (ssh_tun), one thread (openvpn)." in said
    assert "gateways" not in low  # nobody knows what they would change


def test_an_order_that_would_stand_is_not_told_in_the_terminal() -> None:
    loads = {
        "openvpn": cost("openvpn", (0.9, 0.9), at_bps=GIGABIT),
        "ssh_tun": cost("ssh_tun", (0.1, 0.1), at_bps=GIGABIT),
    }
    report = build(*watched({"openvpn": ONE, "ssh_tun": ONE}, loads))
    assert report.limits.stands is True
    assert "would stand" not in answered(report, 200, 50)


@pytest.mark.parametrize(
    ("guest", "dataplane", "why"),
    [
        ("none", "userspace", ""),
        ("qemu-kvm", "userspace", ""),
        ("uml", "userspace", "CPU times here are not those of a real machine"),
        ("qemu-tcg", "userspace", "CPU times here are not those of a real machine"),
        ("none", "kernel", "the kernel does the work"),
    ],
)
def test_what_could_not_be_checked_is_not_estimated(guest: str, dataplane: str, why: str) -> None:
    """Not by a program either that happens to be busy beside the kernel."""
    run, trials = watched({"openvpn": ONE}, {"openvpn": cost("openvpn", (0.25, 0.5))})
    vpns = run.vpns | {"openvpn": run.vpns["openvpn"].model_copy(update={"dataplane": dataplane})}
    report = build(run.model_copy(update={"lab": run.lab | {"guest": guest}, "vpns": vpns}), trials)
    row = next(row for row in report.limits.rows if row.vpn == "openvpn")
    assert (row.unknown, row.apart is None) == (why, bool(why))
    said = f"The throughput on separate gateways is not estimated: {why}."
    for form in (markdown_text(report), html_text(report)):
        assert (said in form) is bool(why)
