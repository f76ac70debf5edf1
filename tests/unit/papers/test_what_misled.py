"""Kinds of lines on the page of findings that were true, and misled."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from questions.papers.page import findings_in, findings_text
from runner.data.loads import CoreLoad, MachineLoad, ProcessLoad
from runner.data.trials import Measurement, Trial
from runner.papers.findings import Judgement, judge
from runner.report.model import Report
from tests.unit.findings_worlds import finding, made
from tests.unit.synthetic import make_trial
from tests.unit.whole_report import build


def page_of(*reports: Report) -> str:
    return findings_text(reports, lambda _: (6, 60.0))


def row_about(page: str, name: str) -> str:
    (row,) = [line for line in page.splitlines() if f"({name})" in line and line.startswith("| ")]
    return row


@pytest.mark.parametrize("name", ["packed-ssh_forward-zeros", "blowfish-128-cbc", "depends-encryption", "blind"])
def test_one_vpn_with_a_chosen_driver_has_its_number_too(name: str) -> None:
    """The thesis' CPU had no instructions for AES: what compression gains by generic C code is what it asked. Another
    VPN's driver has no part in a ratio of one VPN."""
    run, trials = made("thesis")
    driven = [t for t in trials if t.params.get("driver") or run.vpns[t.vpn].reference]
    own = [t for t in trials if "driver" not in t.params]
    by_driver, by_its_own, by_both = (judge(finding("thesis", name), run, some) for some in (driven, own, trials))
    assert by_driver.verdict == by_its_own.verdict == by_both.verdict == "reproduced"
    assert by_driver.value == pytest.approx(by_its_own.value)
    assert (by_driver.note, by_its_own.note) == ("with driver=generic", "")


@pytest.mark.parametrize("best", ["wireguard_go", "fastd", "openvpn_tcp"])
def test_of_a_link_the_papers_own_vpns_decide(best: str) -> None:
    """What a VPN carries that the paper did not have refutes nothing of those that it had."""
    run, trials = made("oslv")
    other = "wireguard_go"
    mine = [
        make_trial(
            t.vpn, t.params, t.repetition, {m.metric: m.value * (2 if t.vpn == other else 1) for m in t.measurements}
        )
        for t in trials
        if t.vpn in ("none", "tinc", other)
    ]
    alone = run.model_copy(
        update={"lab": {**run.lab, "nodes_share_cores": False}, "vpns": _named(run.vpns, other, best)}
    )
    renamed = [t.model_copy(update={"vpn": best}) if t.vpn == other else t for t in mine]
    found = judge(finding("oslv", "best"), alone, renamed)
    assert (found.verdict, found.part) == ("reproduced", "tinc")
    assert found.beside.startswith("the best of the others 0.9")


def _named(vpns: Mapping[str, object], old: str, new: str) -> dict[str, object]:
    return {**vpns, new: vpns[old]}


def test_mean_ranks_of_what_was_measured_in_rounds_and_once_in_a_repetition() -> None:
    run, trials = made("oslv")
    mixed = [_in_rounds(t) if "tcp_throughput" in {m.metric for m in t.measurements} else t for t in trials]
    whole, found = (judge(finding("oslv", "best-three"), run, some) for some in (trials, mixed))
    assert found.value == pytest.approx(whole.value)


def _in_rounds(trial: Trial) -> Trial:
    rounds = [100 * trial.repetition + number for number in range(1, 5)]

    def sliced(m: Measurement) -> Measurement:
        return m.model_copy(update={"rounds": rounds, "samples": [m.value] * len(rounds)})

    return trial.model_copy(update={"measurements": [sliced(m) for m in trial.measurements]})


def test_a_finding_without_a_number_that_stands_has_the_reason_of_the_run_that_measured_it() -> None:
    """Two runs: the first has neither group, the second has both, in User Mode Linux."""
    run, trials = made("oslv")
    bare = build(run, [t for t in trials if t.vpn == "wireguard_go"])
    guest = run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})
    (told,) = [line for line in page_of(bare, build(guest, trials)).splitlines() if "oslv/use" in line]
    assert told.startswith("- **no scale**: ")


def test_a_conclusion_tells_what_was_measured_beside_the_papers_own_system() -> None:
    """The bottleneck holds by the paper's ciphers; that it does not by today's stands in the same line."""
    run, trials = made("oslv")
    fast = [
        make_trial(t.vpn, {**t.params, **levels}, t.repetition, {"tcp_throughput": rate}, experiments=("oslv",))
        for t in trials
        if t.vpn in ("openvpn", "tinc") and "gw2_cpu" in t.params and t.params["cipher"] == "aes-128-cbc"
        for levels, rate in (
            ({"cipher": "null", "integrity": "none"}, 60e6),
            ({"cipher": "3des-cbc", "integrity": "hmac-sha1"}, 12e6 * (1 + t.repetition / 1e3)),
            ({}, 55e6),
        )
    ]
    (line,) = [line for line in page_of(build(run, fast)).splitlines() if "are the bottleneck.*" in line]
    assert "**holds** 5 " in line
    assert "Beside it today's AES-128 with SHA-256 1.09" in line


@pytest.mark.parametrize(("guest", "rows"), [("", 1), ("uml", 0)])
def test_a_guest_whose_system_calls_limit_ssh_is_no_row_of_the_device_table(guest: str, rows: int) -> None:
    run, trials = made("devices")
    page = page_of(build(run.model_copy(update={"lab": {**run.lab, "guest": guest}}), trials))
    assert page.count("vpneval 0.1.0, run synthetic") == rows


def test_what_every_repetition_has_alike_has_no_interval() -> None:
    assert Judgement(verdict="answered", reason="", value=12.0, low=12.0, high=12.0).number == "12 (each time)"
    assert Judgement(verdict="answered", reason="", value=12.0, low=11.9, high=12.1).number == "12 (11.9–12.1)", (
        "control"
    )


@pytest.mark.parametrize("name", ["page-choice", "page-sha1"])
def test_what_a_hash_or_a_longer_key_costs_says_by_what_code(name: str) -> None:
    """With the CPU's instructions it may be another ratio."""
    run, trials = made("devices")
    guest = run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})
    notes = [judge(finding("devices", name), machine, trials).note for machine in (run, guest)]
    assert notes == ["", "what encrypts does so by generic C code"]


@pytest.mark.parametrize(("busy", "verdict"), [(0.29, "reproduced"), (0.31, "incomparable")])
def test_a_run_beside_other_programs_decides_nothing(busy: float, verdict: str) -> None:
    """On two cores, in the middle measurement; the share stands beside the run."""
    run, trials = made("thesis")
    loaded = [t.model_copy(update={"loads": [_machine(busy)]}) for t in trials]
    report = build(run, loaded)
    (row,) = [row for row in findings_in(report).rows if row.id == "tun-openvpn"]
    assert row.value, "control"
    assert (row.verdict, row.kind) == (verdict, "busy" if verdict == "incomparable" else "")
    assert f"others had {50 * busy:.0f} %" in page_of(report)


def _machine(busy: float) -> MachineLoad:
    idle = CoreLoad(core=0, user=0.0, system=0.0, irq=0.0, softirq=0.0, steal=0.0)
    other = ProcessLoad(node="", name="make", role="other", busy=busy)
    return MachineLoad(name="here", nodes=["gw1"], seconds=1.0, cores=[idle, idle], processes=[other])
