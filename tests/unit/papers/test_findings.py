"""Every finding in two made-up worlds, one in which it holds and one in which it does not; and what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from questions.papers.findings import findings
from runner.catalogue import experiment_names, load_experiment
from runner.data.asked import AskedRun
from runner.data.trials import Trial
from runner.design.experiment import Experiment
from runner.papers.cells import PLAIN
from runner.papers.claims import all_of, close, compare, decide
from runner.papers.findings import Data, Finding, Judgement, NotMeasured, judge, trials_of
from runner.papers.judges import finding as named
from runner.papers.judges import findings_of
from runner.papers.judges.thesis import SYSTEMS
from runner.papers.orders import orders
from runner.papers.published import names, paper
from tests.unit.findings_worlds import ROUNDING, WORLDS, made
from tests.unit.synthetic import make_trial

# Findings that two studies cannot be compared in, whatever is measured.
UNLIKE = {("crypto_matrix", "share"), ("oslv", "least"), ("oslv", "best-slow")}
# Findings of a share that shared cores can only lower: this is known from below (test_judges.py).
BELOW = {("oslv", "best")}
# Findings of cells that the quick profile does not have, which test_judges.py makes up.
RARE = {("crypto_matrix", "same-order"), ("crypto_matrix", "versions"), ("thesis", "integrity")}
RARE |= {("oslv", "bottleneck"), ("oslv", "proprietary"), ("thesis", "forward-as-high")}
RARE |= {("thesis", "same-order"), ("thesis", "same-in-every")}
# Findings that hold whichever of two is the higher: only where all is alike they do not, and test_judges.py makes that.
RARE |= {("thesis", f"depends-{what}") for what in ("technology", "encryption", "data")}
FINDINGS = [
    pytest.param(experiment, finding, id=f"{experiment.name}-{finding.id}")
    for experiment in map(load_experiment, experiment_names())
    for finding in findings_of(experiment.name)
    if experiment.name in WORLDS and (experiment.name, finding.id) not in RARE | BELOW
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
            assert found.answer == ("yes" if holds else "no")
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
    assert (mixed.part, mixed.reason) == ("b", "b: because 0.5")
    partly = all_of({"a": good, "c": missing})
    assert (partly.verdict, partly.value) == ("reproduced", 2.0)
    assert partly.summary.endswith("not measured: c")
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


def test_an_order_of_two_is_none() -> None:
    run, trials = made("thesis")
    with pytest.raises(NotMeasured, match="needs three VPNs"):
        orders(Data(run, trials), "tcp_throughput", ("ipsec", "openvpn"), {"measure": "tcp"})


def test_an_order_is_that_of_the_pairs_that_the_plain_test_tells_apart() -> None:
    """Two VPNs that tie there may change places; a third that loses its lead in half of the tests counts."""
    run, _ = made("thesis")

    def trials(cipher: str, rates: tuple[float, ...]) -> list[Trial]:
        by_vpn = zip(SYSTEMS[1:], rates, strict=True)
        sway = {1: 1.02, 2: 0.98, 3: 1.0}
        return [
            make_trial(vpn, {**PLAIN, "cipher": cipher}, block, {"tcp_throughput": rate * by})
            for number, (vpn, rate) in enumerate(by_vpn)
            for block, by in (sway if number % 2 else {1: 1.0, 2: 1.0, 3: 1.0}).items()
        ]

    plain = trials("aes-128-cbc", (100.0, 100.0, 300.0))
    data = Data(run, [*plain, *trials("3des-cbc", (10.0, 30.0, 20.0)), *trials("aes-256-cbc", (90.0, 80.0, 300.0))])
    found = orders(data, "tcp_throughput", SYSTEMS, PLAIN)
    share = found.share(data, (0.85, 1.0))
    assert (share.value, share.verdict) == (0.75, "undecided"), "of four pairs"
    assert found.every_pair(data).verdict == "not reproduced"
    assert (found.tests, found.whole, found.note) == (2, 2, "")
    fewer = Data(run, [t for t in data.trials if (t.vpn, t.params["cipher"]) != ("ssh_tun", "3des-cbc")])
    assert orders(fewer, "tcp_throughput", SYSTEMS, PLAIN).note == "1 of 2 tests have all pairs"
    with pytest.raises(NotMeasured, match="that the plain test tells apart"):
        orders(Data(run, plain), "tcp_throughput", SYSTEMS, PLAIN)


@pytest.mark.parametrize(("lead", "verdict"), [(3.0, "reproduced"), (1 / 3, "not reproduced")])
def test_the_order_in_almost_every_test_is_a_share_of_pairs_and_tests(lead: float, verdict: str) -> None:
    """36 of 36 are surely 0.85 or more; a dozen would not be."""
    run, _ = made("thesis")
    plain, rates = ({vpn: 100.0 * by**at for at, vpn in enumerate(SYSTEMS[1:])} for by in (3.0, lead))
    trials = [
        make_trial(vpn, {**PLAIN, "cipher": cipher}, block, {"tcp_throughput": rate * (1 + block / 1e3)})
        for cipher in ("aes-128-cbc", *(f"other-{number}" for number in range(12)))
        for vpn, rate in (plain if "aes" in cipher else rates).items()
        for block in (1, 2, 3)
    ]
    share = orders(Data(run, trials), "tcp_throughput", SYSTEMS, PLAIN).share(Data(run, trials), (0.85, 1.0))
    assert (share.verdict, share.value) == (verdict, 1.0 if lead > 1 else 0.0)
    assert share.low != share.high


@pytest.mark.parametrize(("own", "verdict"), [(40.0, "reproduced"), (90.0, "undecided"), (400.0, "not reproduced")])
def test_the_proprietary_group_is_compared_by_its_members(own: float, verdict: str) -> None:
    run, trials = made("oslv")
    changed = [
        make_trial(t.vpn, t.params, t.repetition, {"overhead_bytes": own * (1 + t.repetition / 1e3)})
        if t.vpn in ("l2tp", "pptp") and t.params["measure"] == "overhead"
        else t
        for t in trials
    ]
    assert judge(named("oslv/proprietary"), run, changed).verdict == verdict


def test_trials_of_an_experiment() -> None:
    run, trials = made("load")
    other = make_trial("openvpn", {"measure": "idle", "cipher": "null"}, 1, experiments=("latency",))
    assert trials_of(run, [*trials, other], "load") == trials
    assert trials_of(run, [*trials, other], "latency") == [other]


def test_every_conclusion_is_put_to_the_test_by_findings_that_there_are() -> None:
    for name in names():
        for conclusion in paper(name).conclusions:
            assert [named(by).id for by in conclusion.by] == [by.partition("/")[2] for by in conclusion.by]


def test_the_part_of_a_claim_that_decides_is_named_behind_the_number() -> None:
    rows = {row.id: row for row in findings(*made("thesis", False)).rows}
    assert rows["3des-cbc"].part.startswith("ipsec against ")
    assert rows["3des-cbc"].sentence.startswith("TCP throughput with 3DES is ")
    continued = named("ha_http/continued")
    assert continued.counts_of["handover"] == "the longest handover takes {}"


def test_the_best_three_are_run_where_vtun_is() -> None:
    """Of two images as a factor, the cells are other ones, and decide nothing."""
    runs = {one.id: one.run for one in findings_of("oslv")}
    assert runs["best-three"]
    assert runs["best-three"].image == "bookworm"
    assert "vtun" in runs["best-three"].vpns
    assert runs["best"] == AskedRun(experiments="oslv", lab="ssh:testbed.toml"), "that of the others"


def slices(values: list[float]) -> Data:
    """SSH forwarding's slices in rounds, three instances after each other."""
    trials = []
    for instance in range(3):
        trial = make_trial("ssh_forward", PLAIN, instance, {"tcp_throughput": 1.0})
        trial.measurements[0].samples[:] = values
        trial.measurements[0].rounds[:] = [100 * instance + at for at in range(1, len(values) + 1)]
        trials.append(trial)
    run, _ = made("thesis")
    return Data(run, trials)


def test_the_first_rounds_of_a_tunnel_decide_nothing() -> None:
    """A tunnel that was just brought up carried 5 and 74 where it carries 500."""
    kept = slices([5.0, 74.0, 500.0, 510.0, 490.0]).blocks("tcp_throughput", "ssh_forward", **PLAIN)
    assert sorted(kept.values()) == [490.0] * 3 + [500.0] * 3 + [510.0] * 3
    assert {*kept} == {100 * instance + at for instance in range(3) for at in (3, 4, 5)}
    few = slices([5.0, 74.0, 500.0]).blocks("tcp_throughput", "ssh_forward", **PLAIN)
    assert len(few) == 9, "of so few, all are kept"
