"""Every finding in two made-up worlds, one in which it holds and one in which it does not; and what is missing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

from runner.catalogue import experiment_names, load_experiment
from runner.data.trials import Trial
from runner.design.experiment import Experiment
from runner.papers import judges
from runner.papers.claims import all_of, close, compare, decide, order_held
from runner.papers.findings import Data, Finding, Judgement, NotMeasured, judge, trials_of
from runner.papers.judges import findings_of, run_for, thesis
from runner.report.papers.findings import findings
from tests.unit.findings_worlds import ROUNDING, WORLDS, made
from tests.unit.synthetic import make_trial

# Findings that two studies cannot be compared in, whatever is measured.
UNLIKE = {("crypto_matrix", "share"), ("oslv", "least"), ("oslv", "best-slow")}
# Findings of cells that the quick profile does not have, which test_judges.py makes up.
RARE = {("crypto_matrix", "same-order"), ("crypto_matrix", "versions"), ("thesis", "integrity")}
# Findings that hold whichever of two is the higher: only where all is alike they do not, and test_judges.py makes that.
RARE |= {("thesis", f"depends-{what}") for what in ("technology", "encryption", "data")}
FINDINGS = [
    pytest.param(experiment, finding, id=f"{experiment.name}-{finding.id}")
    for experiment in map(load_experiment, experiment_names())
    for finding in findings_of(experiment.name)
    if experiment.name in WORLDS and (experiment.name, finding.id) not in RARE
]


@pytest.mark.parametrize(("experiment", "finding"), FINDINGS)
def test_a_finding_is_reproduced_where_it_holds_and_not_where_it_does_not(
    experiment: Experiment, finding: Finding
) -> None:
    for holds, verdict in ((True, "reproduced"), (False, "not reproduced")):
        run, trials = made(experiment.name, holds)
        found = judge(finding, run, trials)
        if (experiment.name, finding.id) in UNLIKE:
            assert found.verdict == "incomparable"
            assert found.reason
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
            assert finding.id == "kernel" or finding.question, (
                "userspace ESP decides nothing that the papers say of the kernel's"
            )


@pytest.mark.parametrize(("experiment", "finding"), FINDINGS)
def test_what_was_not_measured_is_unmeasured_and_says_why(experiment: Experiment, finding: Finding) -> None:
    run, trials = made(experiment.name)
    nothing = judge(finding, run, [])
    assert nothing.verdict == "unmeasured"
    assert nothing.reason
    assert nothing.value is None
    reason = "RTNETLINK answers: Operation not supported"
    refused = [make_trial(t.vpn, t.params, 1, status="unsupported", reason=reason) for t in trials]
    assert judge(finding, run, refused).verdict == "unmeasured"
    alone = run.model_copy(update={"vpns": {"none": run.vpns["none"]}})
    few = judge(finding, alone, [trial for trial in trials if trial.vpn == "none"])
    assert few.verdict == "unmeasured" or finding.id in ("aes-256", "driver"), "these need no VPN"


def test_findings_cite_papers_and_have_names_of_their_own() -> None:
    every = [finding for param in FINDINGS for finding in [param.values[1]]]
    for finding in every:
        assert isinstance(finding, Finding)
        assert finding.citation.endswith(finding.where)
        assert finding.question or finding.found[-1] not in ".?"
    for name in WORLDS:
        names = [finding.id for finding in findings_of(name)]
        assert len(set(names)) == len(names) > 0


def test_the_thesis_ratios_are_beside_the_measured_ones() -> None:
    run, trials = made("thesis")
    rows = {row.id: row for row in findings(run, trials).rows}
    assert rows["ipsec-tun"].published == pytest.approx(165 / 95)
    assert rows["ipsec-tun"].value == pytest.approx(165 / 95, rel=0.02)
    assert rows["encryption"].published == pytest.approx(167.6 * 939.7 / 927.9**2)
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
    assert row.verdict == "unmeasured"
    assert "ipsec has no context_switches_per_packet" in row.reason
    assert row.reason.endswith("the kernel has no ESP: NO_PROP")


@pytest.mark.parametrize(
    ("low", "high", "between", "verdict"),
    [
        (1.1, 1.3, (1.0, 9.0), "reproduced"),
        (0.7, 0.9, (1.0, 9.0), "not reproduced"),
        (0.9, 1.3, (1.0, 9.0), "undecided"),
        (None, None, (1.0, 9.0), "undecided"),
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
    assert ("reaches across" in found.reason or low is None) == (verdict == "undecided")


def test_one_repetition_decides_nothing() -> None:
    found = compare({1: 2.0}, {1: 1.0}, (1.0, 9.0))
    assert (found.verdict, found.value, found.low) == ("undecided", 2.0, None)
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


def test_of_several_parts_the_one_that_takes_longest_says_how_long() -> None:
    def part(longer: float | None, low: float | None = 0.9) -> Callable[[], Judgement]:
        return lambda: Judgement(verdict="undecided", reason="", value=1.0, low=low, high=low, longer=longer)

    def decided() -> Judgement:
        return Judgement(verdict="reproduced", reason="", value=1.0)

    assert all_of({"a": part(2.0), "b": part(9.0), "c": decided, "d": part(None, low=None)}).longer == 9.0
    assert all_of({"a": part(2.0), "b": part(None)}).longer is None, "one lies on its bound"
    assert all_of({"c": decided}).longer is None


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


LATER = 100  # repetitions


def later(trial: Trial) -> Trial:
    """The trial in a repetition of its own, when the machine is half as fast."""
    half = [one.model_copy(update={"value": one.value / 2}) for one in trial.measurements]
    changed = {"repetition": trial.repetition + LATER, "id": f"{trial.id}-later", "measurements": half}
    return trial.model_copy(update=changed)


@pytest.mark.parametrize("holds", [True, False])
def test_cells_that_took_no_turns_with_the_plain_one_are_compared_over_plain_ip(holds: bool) -> None:
    run, trials = made("thesis", holds)
    plain = [trial for trial in trials if trial.vpn == "none"]
    apart = [later(t) if t.vpn != "none" and not thesis.PLAIN.items() <= t.params.items() else t for t in trials]
    together = {row.id: row for row in findings(run, trials).rows}
    without = {row.id: row for row in findings(run, apart).rows}
    beside = {row.id: row for row in findings(run, [*apart, *map(later, plain)]).rows}
    swept = ("packed-openvpn-zeros", "blowfish-128-cbc", "alike-but-3des", "highest", "next-highest", "same-order")
    for name in swept:
        assert beside[name].verdict == together[name].verdict, name
        assert beside[name].value == pytest.approx(together[name].value, rel=0.05), name
    assert "each over plain IP in its own rounds" in beside["packed-openvpn-zeros"].reason
    assert without["packed-openvpn-zeros"].verdict == "unmeasured"
    assert "plain IP beside one of them" in without["packed-openvpn-zeros"].reason


def test_an_order_of_two_is_none() -> None:
    run, trials = made("thesis")
    with pytest.raises(NotMeasured, match="needs three VPNs"):
        order_held(Data(run, trials), "tcp_throughput", ("ipsec", "openvpn"), {"measure": "tcp"})


def test_an_order_is_that_of_the_pairs_that_the_plain_test_tells_apart() -> None:
    """Two VPNs that tie there may change places; a third that loses its lead in half of the tests counts."""
    run, _ = made("thesis")

    def trials(cipher: str, rates: tuple[float, ...]) -> list[Trial]:
        named = zip(thesis.SYSTEMS[1:], rates, strict=True)
        sway = {1: 1.02, 2: 0.98, 3: 1.0}
        return [
            make_trial(vpn, {**thesis.PLAIN, "cipher": cipher}, block, {"tcp_throughput": rate * by})
            for number, (vpn, rate) in enumerate(named)
            for block, by in (sway if number % 2 else {1: 1.0, 2: 1.0, 3: 1.0}).items()
        ]

    plain = trials("aes-128-cbc", (100.0, 100.0, 300.0))
    held = order_held(
        Data(run, [*plain, *trials("3des-cbc", (10.0, 30.0, 20.0)), *trials("aes-256-cbc", (90.0, 80.0, 300.0))]),
        *("tcp_throughput", thesis.SYSTEMS, thesis.PLAIN),
    )
    assert set(held.values()) == {0.75}
    with pytest.raises(NotMeasured, match="that the plain test tells apart"):
        order_held(Data(run, plain), "tcp_throughput", thesis.SYSTEMS, thesis.PLAIN)


def test_trials_of_an_experiment() -> None:
    run, trials = made("load")
    other = make_trial("openvpn", {"measure": "idle", "cipher": "null"}, 1, experiments=("latency",))
    assert trials_of(run, [*trials, other], "load") == trials
    assert trials_of(run, [*trials, other], "latency") == [other]


def test_every_reason_is_of_a_finding() -> None:
    """And so is every command: a name that no finding has would never be told."""
    for experiment in (module.name for module in pkgutil.iter_modules(judges.__path__)):
        declared, known = vars(importlib.import_module(f"{judges.__name__}.{experiment}")), findings_of(experiment)
        named = {
            *declared.get("RUNS", {}),
            *declared.get("NO_RUN", {}),
            *(name for name, _ in declared.get("TODAY", {})),
        }
        assert named - {""} <= {one.id for one in known}


def test_every_number_has_a_sentence_of_what_it_counts() -> None:
    """Of each finding, and of each part of a claim that has a sentence of its own; with one place for the number."""
    for experiment in (module.name for module in pkgutil.iter_modules(judges.__path__)):
        sentences = vars(importlib.import_module(f"{judges.__name__}.{experiment}"))["COUNTS"]
        assert {name.partition(": ")[0] for name in sentences} == {one.id for one in findings_of(experiment)}
        assert all(words.count("{}") == 1 for words in sentences.values()), experiment


def test_the_part_of_a_claim_that_decides_is_named_behind_the_number() -> None:
    (row,) = [row for row in findings(*made("thesis", False)).rows if row.id == "tcp-udp"]
    assert row.part == "ipsec"
    assert row.sentence.startswith("UDP throughput is 2")
    assert judges.counts("ha_http", "continued", "handover") == ("the longest handover takes {}", "")


def test_the_best_three_are_run_where_vtun_is() -> None:
    """Of two images as a factor, the cells are other ones, and decide nothing."""
    assert "--image bookworm " in run_for("oslv", "best-three")
    assert "vtun" in run_for("oslv", "best-three")
    assert run_for("oslv", "best") == "oslv --lab ssh:testbed.toml", "that of the others"
    assert run_for("security", "all-four") == "security", "an experiment that needs no more than its name"
