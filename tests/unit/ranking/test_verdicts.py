"""Verdicts, doubts and the order, by simulation where the truth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import scipy

from questions.rank import cells_in_doubt
from runner.data.metric import Metric
from runner.data.trials import Cell, Measurement, Run, Trial
from runner.design.question import Going
from runner.evidence.estimates import Estimate, RoundValues
from runner.evidence.stats import block_values
from runner.ranking.basis import bases
from runner.ranking.looks import nominal
from runner.ranking.model import Verdict, Weights
from runner.ranking.verdicts import bounded_decision, decide, level_of, probabilities, seconds_to_decide
from tests.bench.decide import QUIET, decided, decided_by_blocks, false_runs, false_with_looks
from tests.bench.simulated_rounds import Machine, play, run_of
from tests.unit.looking import doubts, going, look
from tests.unit.reports import rank, trials_of
from tests.unit.synthetic import CBC, IDLE, METRICS, PLAIN, TCP, make_run, make_trial

THROUGHPUT = METRICS["tcp_throughput"]
ONLY_TCP = Weights(name="", values={"tcp_throughput": 1})


def rng() -> np.random.Generator:
    return np.random.default_rng(20)


# The price of looking and of many pairs


def test_obrien_and_flemings_levels() -> None:
    """Jennison and Turnbull 2000, table 2.3: at 5 %, the last of two to six looks is at 1.977 to 2.053 standard errors,
    and look k of K at that times the root of K/k."""
    bounds = [-scipy.special.ndtri(nominal(0.05, looks) / 2) for looks in range(1, 7)]
    assert bounds == pytest.approx([1.960, 1.977, 2.004, 2.024, 2.040, 2.053], abs=0.0015)
    assert -scipy.special.ndtri(nominal(0.05, 6, 1 / 6) / 2) == pytest.approx(2.053 * math.sqrt(6), abs=0.005)
    assert 0.0008 < nominal(0.001, 6) < 0.001


def test_more_looks_than_six_are_priced_as_any_number() -> None:
    """A Brownian motion is ever beyond ± 2.241 in 5 % of all cases: no number of looks can see more of it."""
    assert -scipy.special.ndtri(nominal(0.05, 7) / 2) == pytest.approx(2.2414, abs=0.0001)
    assert nominal(0.05, 7) == nominal(0.05, 16) < nominal(0.05, 6)
    assert -scipy.special.ndtri(nominal(0.05, 11, 0.25) / 2) == pytest.approx(2 * 2.2414, abs=0.0002)
    walks = rng().standard_normal((4000, 64)).cumsum(axis=1) / 8
    ever = (abs(walks) > 2.2414).any(axis=1).mean()
    assert 0.02 < ever < 0.05


def test_all_pairs_of_a_run_share_one_error() -> None:
    """Three copies of a VPN, and five VPNs a margin apart, in six metrics: at most 5 % of the runs have any false
    verdict; by three standard errors of so few simulations, 10 %."""
    assert false_runs(Machine(), [0.0] * 3, 150, rng()).ratio < 0.1
    assert false_runs(replace(QUIET, slice=0.05, drift=0.02), [0.0] * 5, 60, rng(), 3, 30).ratio < 0.12
    assert false_runs(QUIET, [math.log(THROUGHPUT.margin) * n for n in range(4)], 60, rng(), 3, 30).ratio < 0.12


def test_six_looks_cost_no_error() -> None:
    assert false_with_looks(Machine(), [0.0] * 3, 60, 6, rng()).ratio < 0.13


def test_holms_step_on_the_smaller_of_two_probabilities_would_not_hold() -> None:
    """Why the level stays: of 20 equal pairs that are nearly all found to be the same, Holm leaves the last ones nearly
    all of the 5 %."""
    error = math.log(THROUGHPUT.margin) / 4.0
    drawn = np.random.default_rng(1)
    false = {"holm": 0, "ours": 0}
    for _ in range(400):
        tested = [
            probabilities(THROUGHPUT, "a", "b", Estimate(float(drawn.normal(0, error)), error, math.inf, 40))
            for _ in range(20)
        ]
        level = level_of(tested, 1)
        false["ours"] += any(decide(one, level) in ("better", "worse") for one in tested)
        left = sorted(tested, key=lambda one: min(one.differ, one.alike))
        for number, one in enumerate(left):
            if min(one.differ, one.alike) > 0.05 / (len(left) - number):
                break
            if one.differ < one.alike:
                false["holm"] += 1
                break
    assert false["ours"] / 400 < 0.07
    assert false["holm"] > 2 * false["ours"]


def test_pairs_that_are_settled_leave_the_others_more() -> None:
    sure = probabilities(THROUGHPUT, "a", "b", Estimate(0.04, 0.001, math.inf, 40))  # differs, and is the same
    open_pair = probabilities(THROUGHPUT, "a", "b", Estimate(0.0, 0.1, math.inf, 40))
    assert level_of([sure] * 9 + [open_pair], 1) == pytest.approx(0.05)
    assert level_of([open_pair] * 10, 1) == pytest.approx(0.005)
    assert level_of([sure], 1) == 0.05


@pytest.mark.parametrize(
    ("log_ratio", "error", "throughput", "rtt"),
    [
        (0.5, 0.05, "better", "worse"),
        (-0.5, 0.05, "worse", "better"),
        (0.03, 0.005, "same", "same"),  # even though it surely differs
        (0.0, 0.01, "same", "same"),
        (0.06, 0.06, "undecided", "undecided"),
        (0.12, 0.007, "better", "same"),  # 12.7 %: beyond the margin of throughput, within that of the round trip
    ],
)
def test_decisions(log_ratio: float, error: float, throughput: str, rtt: str) -> None:
    for metric, expected in ((THROUGHPUT, throughput), (METRICS["rtt"], rtt)):
        one = probabilities(metric, "a", "b", Estimate(log_ratio, error, 1000, 40))
        assert decide(one, 0.01) == expected


def test_margins_are_a_metrics_own() -> None:
    margins = {
        name: METRICS[name].margin for name in ("tcp_throughput", "cpu_per_gigabyte", "rtt", "setup_time", "jitter")
    }
    assert margins == {"tcp_throughput": 1.1, "cpu_per_gigabyte": 1.1, "rtt": 1.15, "setup_time": 1.2, "jitter": 1.5}
    own = Metric(name="mine", title="Mine", unit="s", better="lower", definition="", source="", margin=1.03)
    assert own.margin == 1.03


# A run's verdicts


def five(rounds: int = 30, machine: Machine = QUIET) -> tuple[Run, list[Trial]]:
    """b is as fast as a, c is 8 % and d 60 % faster, each in two instances."""
    return run_of(
        {"tcp_throughput": dict(zip("abcd", play(machine, [0.0, 0.0, 0.08, 0.47], 2, rounds, rng()), strict=True))}
    )


def by_pair(found: list[Verdict]) -> dict[tuple[str, str], Verdict]:
    return {(one.a, one.b): one for one in found}


def test_a_run_says_which_and_how_much() -> None:
    run, trials = five(60, replace(QUIET, slice=0.08, drift=0.05, stolen=0.0))
    found = by_pair(look(run, trials))
    assert found["a", "b"].decision == "same"
    assert found["a", "d"].decision == "worse"
    ratio = found["a", "d"]
    assert ratio.ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < math.exp(-0.47) < ratio.high
    assert ratio.ratio == pytest.approx(math.exp(-0.47), rel=0.05)
    assert (ratio.seconds, ratio.blocks) == (None, 120)
    assert 0.05 / 6 <= ratio.level <= 0.05


def test_the_interval_beside_a_verdict_is_the_one_that_decides_it() -> None:
    """Better or worse: it excludes 1. The same: it lies within the margin. Undecided: neither, whatever the 95 % one
    does, which is narrower."""
    run, trials = run_of(
        {"tcp_throughput": dict(zip("abcdefgh", play(QUIET, [0.02 * n for n in range(8)], 3, 80, rng()), strict=True))}
    )
    seen = dict.fromkeys(("better", "worse", "same", "undecided"), 0)
    for one in look(run, trials):
        for of in (one, one.other_way):
            assert of.decisive_low is not None
            assert of.decisive_high is not None
            assert of.low is not None
            excludes = of.decisive_low > 1 or of.decisive_high < 1
            within = 1 / of.margin < of.decisive_low and of.decisive_high < of.margin
            assert (excludes, within) in {
                "better": [(True, False)],
                "worse": [(True, False)],
                "same": [(False, True), (True, True)],
                "undecided": [(False, False)],
            }[of.decision]
            assert (of.decision == "better") <= (of.decisive_low > 1)
            assert of.decisive_low < of.low
            seen[of.decision] += 1
    assert seen["better"] == seen["worse"] > 0
    assert min(seen.values()) > 0, seen


def test_what_is_undecided_says_how_long_it_takes() -> None:
    """A quarter of the error needs sixteen times the rounds; and the promise holds: twice that time decides mostly."""
    one = probabilities(THROUGHPUT, "a", "b", Estimate(0.0, math.log(1.1) / 3.0902 * 2, math.inf, 40))
    assert seconds_to_decide(one, 0.001, 20.0) == pytest.approx(60.0, rel=1e-3)
    run, trials = five(10)
    found = by_pair(look(run, trials))
    seconds = found["a", "b"].seconds
    assert found["a", "b"].decision == "undecided"
    assert seconds is not None
    assert 20 < seconds < 2000  # four trials of ten seconds so far


def test_doubts_go_where_rounds_decide_most() -> None:
    run, trials = five(12)
    found = doubts(run, trials)
    assert ("a", "d") not in {(one.a, one.b) for one in found}
    assert [one.seconds for one in found] == sorted(one.seconds or 0 for one in found)
    cells = [Cell(vpn=vpn, params=CBC | TCP) for vpn in "abcd"] + [Cell(vpn="none", params=PLAIN | TCP)]
    cells += [Cell(vpn="a", params=CBC | IDLE)]
    of_one = cells_in_doubt([one for one in found if {one.a, one.b} == {"a", "b"}], cells)
    assert [(cell.vpn, cell.params["measure"]) for cell in of_one] == [("a", "tcp"), ("b", "tcp"), ("none", "tcp")]
    assert cells_in_doubt([], cells) == []
    nothing = doubts(
        run, [t for t in trials if t.vpn != "b"] + [make_trial("b", CBC | TCP, 1, {"tcp_throughput": 1.0})]
    )
    assert nothing[0].seconds is None


def test_a_run_without_pairs_goes_on_after_a_look() -> None:
    played = play(QUIET, [0.0], 1, 8, rng())
    run, trials = run_of({"tcp_throughput": {"none": played[0]}})
    cells = [Cell(vpn=trial.vpn, params=trial.params) for trial in trials]
    assert going(run, trials, cells, None, 10.0, 40.0) == Going(cells, [], set())


def test_more_looks_leave_more_in_doubt() -> None:
    run, trials = five(14)
    assert len(doubts(run, trials, looks=6)) >= len(doubts(run, trials))
    later, sooner = (going(run, trials, [], None, 1e9, share).undecided for share in (1.0, 0.4))
    assert len(sooner) >= len(later)
    once, six_times = (look(run.model_copy(update={"looks": looks}), trials)[0].level for looks in (1, 6))
    assert once / 2 < six_times < once


def test_every_pair_of_a_large_run_is_decided_or_in_doubt() -> None:
    vpns = [f"v{number}" for number in range(10)]
    drawn = rng()
    metrics = ("tcp_throughput", "cpu_per_gigabyte", "udp_throughput", "jitter", "rtt", "setup_time")
    run, trials = run_of(
        {m: dict(zip(vpns, play(Machine(), [0.05 * n for n in range(10)], 3, 20, drawn), strict=True)) for m in metrics}
    )
    decided = sum(verdict.decision != "undecided" for verdict in look(run, trials, looks=6))
    assert len(doubts(run, trials, looks=6)) + decided == 270


def test_counts_and_what_is_known_from_below() -> None:
    run = make_run(("openvpn", "ssh_tun", "wireguard_go"))
    lines = {"openvpn": 1.0, "ssh_tun": 0.0, "wireguard_go": 1.0}
    probe = {"measure": METRICS["anti_replay"].measure, "payload": "random"}
    trials = [
        make_trial(vpn, run.vpns[vpn].configurations["comparable"] | probe, 1, {"anti_replay": value})
        for vpn, value in lines.items()
    ]
    found = by_pair(look(run, trials, Weights(name="", values={"anti_replay": 1})))
    assert sorted(one.decision for one in found.values()) == ["better", "same", "worse"]
    assert bounded_decision("worse", "a", "b", {"a"}, THROUGHPUT) == "undecided"
    assert bounded_decision("better", "a", "b", {"a"}, THROUGHPUT) == "better"
    assert bounded_decision("same", "a", "b", {"b"}, THROUGHPUT) == "undecided"
    assert bounded_decision("worse", "a", "b", {"a"}, METRICS["rtt"]) == "worse"
    assert bounded_decision("better", "a", "b", {"a", "b"}, THROUGHPUT) == "undecided"


def test_three_repetitions_are_judged_by_the_same_rule() -> None:
    run = make_run(("openvpn", "ssh_tun"))
    far = trials_of({"openvpn": {"tcp_throughput": 300.0}, "ssh_tun": {"tcp_throughput": 100.0}})
    assert by_pair(look(run, far))["openvpn", "ssh_tun"].decision == "better"
    once = [trial for trial in far if trial.repetition == 0]
    (verdict,) = look(run, once)
    assert (verdict.decision, verdict.seconds) == ("undecided", None)
    assert verdict.ratio == pytest.approx(300 * 0.99 / 100)


# The order


def test_a_vpn_measured_less_does_not_gain_by_it() -> None:
    """Three rounds in four taken away from one VPN, each in turn: on average over runs and VPNs no place is gained, and
    no VPN comes out ahead by more than what noise turns round."""
    gained: dict[str, list[float]] = {vpn: [] for vpn in "abcde"}
    truth = [0.0, 0.04, 0.08, 0.2, 0.3]
    for drawn in np.random.default_rng(5).spawn(40):
        values = dict(zip("abcde", play(QUIET, truth, 2, 16, drawn), strict=True))
        before = places(values)
        for vpn in "abcde":
            kept = sorted(drawn.choice(32, 8, replace=False).tolist())
            less = values | {vpn: RoundValues({n: values[vpn][n] for n in kept}, values[vpn].instances)}
            gained[vpn].append(before[vpn] - places(less)[vpn])
    means = {vpn: float(np.mean(found)) for vpn, found in gained.items()}
    error = float(np.std([one for found in gained.values() for one in found])) / math.sqrt(40)
    assert np.mean(list(means.values())) < 2 * error / math.sqrt(5)
    assert means["e"] <= 2 * error  # the first gains nothing
    assert means["d"] <= 2 * error
    assert max(means.values()) < 0.5


def places(values: Mapping[str, RoundValues]) -> dict[str, int]:
    run, trials = run_of({"tcp_throughput": values})
    found = rank(run, trials, configuration="comparable", weights=ONLY_TCP).standings
    return {standing.vpn: standing.place or 0 for standing in found}


def test_order_chance_and_place_never_contradict_each_other() -> None:
    for drawn in np.random.default_rng(6).spawn(25):
        values = {
            metric: dict(
                zip(
                    "abcdef",
                    play(Machine(), drawn.normal(0, 0.05, 6).tolist(), 2, int(drawn.integers(2, 12)), drawn),
                    strict=True,
                )
            )
            for metric in ("tcp_throughput", "rtt")
        }
        run, trials = run_of(values)
        weights = Weights(name="", values={"tcp_throughput": 1, "rtt": 1})
        standings = rank(run, trials, configuration="comparable", weights=weights).standings
        averages = [standing.average or 0.0 for standing in standings]
        assert averages == sorted(averages)
        likeliest = max(standings, key=lambda one: one.best_probability or 0.0)
        assert likeliest is standings[0] or likeliest.vpn in standings[0].ties
        for one in standings:
            assert one.place is not None
            assert one.place_interval is not None
            assert one.place_interval[0] <= one.place <= one.place_interval[1]
            behind = [other for other in standings[one.place :] if other.vpn not in one.ties]
            assert all((other.best_probability or 0) <= (one.best_probability or 0) for other in behind)


def test_draws_of_rounds_agree_with_the_pairs() -> None:
    values = dict(zip("abcd", play(QUIET, [0.0, 0.02, 0.1, 0.3], 2, 20, rng()), strict=True))
    run, trials = run_of({"tcp_throughput": values})
    (basis,) = bases(run, trials, configurations=["comparable"])
    drawn = basis.drawn("tcp_throughput")
    assert drawn is not None
    for (a, b), estimate in basis.pairs("tcp_throughput").items():
        ahead = float((drawn.doubled[:, drawn.vpns.index(a)] < drawn.doubled[:, drawn.vpns.index(b)]).mean())
        one = probabilities(THROUGHPUT, a, b, estimate)
        assert ahead == pytest.approx(one.differ / 2 if estimate.centre < 0 else 1 - one.differ / 2, abs=0.06)


def test_power() -> None:
    """Of five VPNs 5 to 80 % apart, 80 rounds decide more pairs than 12, and 12 (three seconds of each VPN) more than
    three blocks of one second."""
    few, many = (decided(QUIET, (0.0, 0.05, 0.1, 0.3, 0.6), rounds, 6, rng()).ratio for rounds in (12, 80))
    blocks = decided_by_blocks(QUIET, (0.0, 0.05, 0.1, 0.3, 0.6), 6, rng()).ratio
    assert blocks < few < many
    assert many > 0.6


def test_measurements_of_rounds_know_their_instances() -> None:
    run, trials = five(3)
    values = block_values([trial for trial in trials if trial.vpn == "a"], "tcp_throughput")
    assert isinstance(values, RoundValues)
    assert values.instances == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 2}
    assert all(isinstance(m, Measurement) for t in trials for m in t.measurements)
    assert run.looks == 1
