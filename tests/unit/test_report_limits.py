"""What the report says of limits: beside each throughput, and where the order would change on separate gateways."""

from __future__ import annotations

from typing import Any

from runner.data.loads import Limit, MachineLoad
from runner.data.trials import Run, Trial
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.model import build
from tests.unit.synthetic import realistic_run
from tests.unit.test_limits import cost

ONE = Limit(
    sentence="gw2: openvpn's only thread, 100 % of core 3", where="gw2", kind="thread", evidence=["core 3 100 %"]
)
OTHER = Limit(sentence="the path: 9 of 99 packets dropped at wan's port gw2 (tbf)", where="wan", kind="path")


def watched(limits: dict[str, Limit], loads: dict[str, MachineLoad]) -> tuple[Run, list[Trial]]:
    """A run whose throughputs have these limits and loads, by VPN."""
    run, trials = realistic_run(3)

    def seen(trial: Trial) -> Trial:
        rate = any(one.metric == "tcp_throughput" for one in trial.measurements)
        if not rate or trial.vpn not in limits:
            return trial
        found: dict[str, Any] = {"limit": limits[trial.vpn], "loads": [loads[trial.vpn]] if trial.vpn in loads else []}
        return trial.model_copy(update=found)

    return run, [seen(trial) for trial in trials]


def test_a_limit_stands_beside_its_throughput_in_every_form() -> None:
    run, trials = watched({"openvpn": ONE}, {"openvpn": cost("openvpn", (0.25, 0.5))})
    report = build(run, trials)
    rows = [row for row in report.limits.rows if row.vpn == "openvpn"]
    assert rows
    assert {(row.metric, row.says) for row in rows} == {("tcp_throughput", ONE.sentence)}
    assert rows[0].cells[-1] == "200 Mbit/s to 400 Mbit/s"
    tables = [table for one in report.experiments for table in one.tables if table.metric == "tcp_throughput"]
    assert {row.limit for table in tables for row in table.measured if row.vpn == "openvpn"} == {ONE.sentence}
    assert {row.limit for table in tables for row in table.rows if row.vpn != "openvpn"} == {""}
    for form in (json_text(report), markdown_text(report)):
        assert "openvpn's only thread, 100 % of core 3" in form
    page = html_text(report)
    assert "<h2>What limits it</h2>" in page
    assert "openvpn&#39;s only thread, 100 % of core 3" in page
    assert "<li>core 3 100 %</li>" in page


def test_the_limit_that_most_trials_had_is_told_with_their_number() -> None:
    run, trials = watched({"openvpn": ONE}, {})
    mine = [trial.id for trial in trials if trial.limit]
    cell = next(trial.cell for trial in trials if trial.id == mine[0])
    first = next(trial.id for trial in trials if trial.cell == cell and trial.limit)
    trials = [trial.model_copy(update={"limit": OTHER}) if trial.id == first else trial for trial in trials]
    row = next(row for row in build(run, trials).limits.rows if row.of == 3 and row.trials == 2)
    assert row.says == f"{ONE.sentence} (2 of 3 trials)"


def test_an_order_that_would_change_is_said() -> None:
    fast, slow = "openvpn", "ssh_tun"
    limits = {fast: ONE, slow: ONE}
    run, trials = watched(limits, {fast: cost(fast, (0.9, 0.9), user=0.9), slow: cost(slow, (0.5, 0.5), user=0.9)})
    found = build(run, trials).limits
    by_vpn = {row.vpn: row.median for row in found.rows}
    assert found.stands is (by_vpn[slow] > by_vpn[fast])
    changed = "ssh_tun would pass openvpn" if by_vpn[fast] > by_vpn[slow] else "would stand"
    assert any(changed in said for said in found.orders), found.orders


def test_a_run_that_nobody_watched_has_no_such_section() -> None:
    run, trials = realistic_run(2)
    report = build(run, trials)
    assert report.limits.rows == []
    assert report.limits.stands is None
    assert "What limits it" not in markdown_text(report) + html_text(report)


def test_what_is_told_of_a_limit_is_escaped() -> None:
    nasty = ONE.model_copy(update={"sentence": "gw1: <script>, 99 % of a core", "evidence": ["<b>"]})
    run, trials = watched({"openvpn": nasty}, {})
    page = html_text(build(run, trials))
    assert "gw1: <script>" not in page
    assert "<li><b></li>" not in page
