"""Verdicts on what has no interval of a ratio: one repetition, none that is shared, counts, and values of zero; and how
much longer what is undecided would have to be measured."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from runner.evidence.estimates import Estimate
from runner.ranking.model import NO_INTERVAL, Verdict, Weights
from runner.ranking.verdicts import decide, probabilities, seconds_to_decide
from tests.unit.looking import look
from tests.unit.synthetic import METRICS, make_run, make_trial


def judged(metric: str, openvpn: Mapping[int, float], ssh_tun: Mapping[int, float]) -> Verdict:
    """The verdict on the two, of which each was measured in these repetitions."""
    run = make_run(("openvpn", "ssh_tun"))
    traffic = {"measure": METRICS[metric].measure, "payload": "random"}
    trials = [
        make_trial(vpn, run.vpns[vpn].configurations["comparable"] | traffic, block, {metric: value})
        for vpn, values in (("openvpn", openvpn), ("ssh_tun", ssh_tun))
        for block, value in values.items()
    ]
    (found,) = look(run, trials, Weights(name="", values={metric: 1}))
    assert (found.a, found.b) == ("openvpn", "ssh_tun")
    return found


def test_two_that_share_no_repetition_are_undecided() -> None:
    found = judged("rtt", {1: 1.0}, {2: 5.0})
    assert (found.decision, found.blocks, found.ratio, found.reason) == ("undecided", 0, None, NO_INTERVAL)


def test_one_shared_repetition_has_a_ratio_and_no_interval() -> None:
    found = judged("rtt", {1: 3.0}, {1: 2.0})
    assert (found.decision, found.blocks, found.low, found.reason) == ("undecided", 1, None, NO_INTERVAL)
    assert found.ratio == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("openvpn", "ssh_tun", "decision"),
    [
        ({1: 1.0}, {1: 0.0}, "better"),
        ({1: 0.0}, {1: 1.0}, "worse"),
        ({1: 1.0, 2: 1.0}, {1: 0.0, 2: 0.0}, "better"),
        ({1: 1.0, 2: 1.0}, {1: 1.0, 2: 1.0}, "same"),
    ],
)
def test_what_is_known_is_decided_by_one_repetition(
    openvpn: Mapping[int, float], ssh_tun: Mapping[int, float], decision: str
) -> None:
    found = judged("anti_replay", openvpn, ssh_tun)
    assert (found.decision, found.blocks, found.reason) == (decision, len(openvpn), "")


def test_repetitions_of_what_is_known_may_disagree() -> None:
    found = judged("anti_replay", {1: 1.0, 2: 0.0}, {1: 0.0, 2: 1.0})
    assert (found.decision, found.blocks, found.reason) == ("undecided", 2, "the repetitions disagree")


def test_where_a_value_is_zero_there_is_no_ratio() -> None:
    found = judged("jitter", {1: 0.0, 2: 1.0, 3: 2.0}, {1: 1.0, 2: 3.0, 3: 4.0})
    assert (found.decision, found.blocks, found.ratio) == ("undecided", 3, None)
    assert found.reason == "a value is not positive, so that there is no ratio"


@pytest.mark.parametrize(("centre", "quantile"), [(0.2, 1.959964), (-0.2, 1.959964), (0.0, 1.644854)])
def test_the_time_that_would_decide_grows_with_the_square_of_the_error(centre: float, quantile: float) -> None:
    """Of normal errors: two-sided where they differ by more than the margin, else one-sided to the nearer margin."""
    rtt = METRICS["rtt"]
    error = 0.3
    tested = probabilities(rtt, "a", "b", Estimate(centre, error, math.inf, 10))
    assert decide(tested, 0.05) == "undecided"
    away = abs(centre) or math.log(rtt.margin)
    needed = (quantile * error / away) ** 2
    assert seconds_to_decide(tested, 0.05, 40.0) == pytest.approx(40 * (needed - 1), rel=1e-3)
    assert seconds_to_decide(tested, 0.05, 0.0) is None
