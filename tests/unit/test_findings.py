"""Every finding in two made-up worlds, one in which it holds and one in which it does not; and what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from runner.catalogue import experiment_names, load_experiment
from runner.design.experiment import Experiment
from runner.papers.claims import all_of, close, compare, decide, order_held
from runner.papers.findings import Data, Finding, Judgement, NotMeasured, judge, trials_of
from runner.papers.judges import findings_of
from runner.report.findings import findings
from tests.unit.findings_worlds import ROUNDING, WORLDS, made
from tests.unit.synthetic import make_trial

# Findings that two studies cannot be compared in, whatever is measured.
UNLIKE = {("thesis", "ipip"), ("thesis", "encryption"), ("crypto_matrix", "share")}
# Findings that nothing here can judge, each with its reason; and those of cells that the quick profile does not have,
# which test_judges.py makes up.
OPEN = {("crypto_matrix", "configurations"), ("devices", "services"), ("oslv", "domains")}
RARE = {("crypto_matrix", "same-order"), ("crypto_matrix", "versions")}
FINDINGS = [
    pytest.param(experiment, finding, id=f"{experiment.name}-{finding.id}")
    for experiment in map(load_experiment, experiment_names())
    for finding in findings_of(experiment.name)
    if experiment.name in WORLDS and (experiment.name, finding.id) not in OPEN | RARE
]


@pytest.mark.parametrize(("experiment", "finding"), FINDINGS)
def test_a_finding_is_reproduced_where_it_holds_and_not_where_it_does_not(
    experiment: Experiment, finding: Finding
) -> None:
    for holds, verdict in ((True, "reproduced"), (False, "not reproduced")):
        run, trials = made(experiment.name, holds)
        found = judge(finding, run, trials)
        if (experiment.name, finding.id) in UNLIKE:
            assert found.verdict == "not comparable"
            assert "without a verdict" in found.reason
            assert found.value is not None
            continue
        if finding.question:
            assert found.verdict == "answered", found
            assert found.reason.startswith("yes: " if holds else "no: ")
        else:
            assert found.verdict == verdict, found
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low / ROUNDING <= found.value <= found.high * ROUNDING
        assert found.systems, "a verdict names the systems that it was made from"
        if "ipsec_user" in found.systems:
            assert finding.id == "kernel", "userspace ESP decides nothing that the papers say of the kernel's"


@pytest.mark.parametrize(("experiment", "finding"), FINDINGS)
def test_what_was_not_measured_is_not_comparable_and_says_why(experiment: Experiment, finding: Finding) -> None:
    run, trials = made(experiment.name)
    nothing = judge(finding, run, [])
    assert nothing.verdict == "not comparable"
    assert nothing.reason
    assert nothing.value is None
    reason = "RTNETLINK answers: Operation not supported"
    refused = [make_trial(t.vpn, t.params, 1, status="unsupported", reason=reason) for t in trials]
    assert judge(finding, run, refused).verdict == "not comparable"
    alone = run.model_copy(update={"vpns": {"none": run.vpns["none"]}})
    few = judge(finding, alone, [trial for trial in trials if trial.vpn == "none"])
    assert few.verdict == "not comparable" or finding.id in ("aes-256", "driver"), "these need no VPN"


def test_findings_cite_papers_and_have_names_of_their_own() -> None:
    every = [finding for param in FINDINGS for finding in [param.values[1]]]
    for finding in every:
        assert isinstance(finding, Finding)
        assert finding.citation.endswith(finding.where)
        assert finding.found[-1] not in ".?"
    for name in WORLDS:
        names = [finding.id for finding in findings_of(name)]
        assert len(set(names)) == len(names) > 0


def test_the_thesis_ratios_are_beside_the_measured_ones() -> None:
    run, trials = made("thesis")
    rows = {row.id: row for row in findings(run, trials).rows}
    assert rows["ipsec-tun"].published == pytest.approx(165 / 95)
    assert rows["ipsec-tun"].value == pytest.approx(165 / 95, rel=0.02)
    assert rows["encryption"].published == pytest.approx(167.6 / 939.7)
    assert rows["packed-ipsec-zeros"].published is None, "only a figure shows it"


def test_a_reason_of_the_run_is_the_verdicts_reason() -> None:
    run, trials = made("thesis")
    without = [
        t
        if t.vpn != "ipsec"
        else make_trial(t.vpn, t.params, 1, status="unsupported", reason="the kernel has no ESP: NO_PROP\nmore")
        for t in trials
    ]
    (row,) = [row for row in findings(run, without).rows if row.id == "context_switches_per_packet-openvpn"]
    assert row.verdict == "not comparable"
    assert "ipsec has no context_switches_per_packet" in row.reason
    assert row.reason.endswith("the kernel has no ESP: NO_PROP")


@pytest.mark.parametrize(
    ("low", "high", "between", "verdict"),
    [
        (1.1, 1.3, (1.0, 9.0), "reproduced"),
        (0.7, 0.9, (1.0, 9.0), "not reproduced"),
        (0.9, 1.3, (1.0, 9.0), "not comparable"),
        (None, None, (1.0, 9.0), "not comparable"),
        (0.95, 1.05, close(0.1), "reproduced"),
        (1.2, 1.3, close(0.1), "not reproduced"),
    ],
)
def test_the_interval_decides(
    low: float | None, high: float | None, between: tuple[float, float], verdict: str
) -> None:
    value = 1.0 if low is None or high is None else (low + high) / 2
    found = decide(value, low, high, between)
    assert found.verdict == verdict
    assert ("undecided" in found.reason) == (verdict == "not comparable")


def test_one_repetition_decides_nothing() -> None:
    found = compare({1: 2.0}, {1: 1.0}, (1.0, 9.0))
    assert (found.verdict, found.value, found.low) == ("not comparable", 2.0, None)
    assert "one repetition has no interval" in found.reason


def test_of_several_parts_the_worst_decides() -> None:
    def part(verdict: Any, value: float | None) -> Callable[[], Judgement]:
        return lambda: Judgement(verdict=verdict, reason=f"because {value}", value=value)

    def missing() -> Judgement:
        raise NotMeasured("no such VPN")

    good, bad = part("reproduced", 2.0), part("not reproduced", 0.5)
    assert all_of({"a": good, "b": good}).verdict == "reproduced"
    mixed = all_of({"a": good, "b": bad, "c": missing})
    assert (mixed.verdict, mixed.value) == ("not reproduced", 0.5)
    assert mixed.reason.startswith("b: because 0.5")
    partly = all_of({"a": good, "c": missing})
    assert (partly.verdict, partly.value) == ("reproduced", 2.0)
    assert partly.reason.endswith("not measured: c")
    with pytest.raises(NotMeasured, match="no such VPN"):
        all_of({"c": missing})


def test_other_wans_and_images_are_no_part_of_a_cell() -> None:
    run, trials = made("load")
    levels = {"measure": "flows", "cipher": "aes-128-cbc", "streams": "64"}
    whole = Data(run, trials).blocks("flows_throughput", "ipsec", **levels)
    far = [t.model_copy(update={"params": {**t.params, "wan_delay_ms": "25"}}) for t in trials]
    assert Data(run, [*trials, *far]).blocks("flows_throughput", "ipsec", **levels) == whole
    slow = Data(run, [*trials, *far]).blocks("flows_throughput", "ipsec", **levels, wan_delay_ms="25")
    assert slow == whole
    with pytest.raises(NotMeasured, match="4 different trials"):
        Data(run, trials).blocks("flows_throughput", "ipsec", measure="flows")


def test_an_order_of_two_is_none() -> None:
    run, trials = made("thesis")
    with pytest.raises(NotMeasured, match="needs three VPNs"):
        order_held(Data(run, trials), "tcp_throughput", ("ipsec", "openvpn"), {"measure": "tcp"})


def test_trials_of_an_experiment() -> None:
    run, trials = made("load")
    other = make_trial("openvpn", {"measure": "idle", "cipher": "null"}, 1, experiments=("latency",))
    assert trials_of(run, [*trials, other], "load") == trials
    assert trials_of(run, [*trials, other], "latency") == [other]
