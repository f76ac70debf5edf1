"""Under which conditions systems are compared: by one kind of crypto driver, and on a link that is the limit."""

from __future__ import annotations

import pytest

from runner.data.levels import TCP
from runner.data.trials import Run, Trial
from runner.papers.conditions import ALIKE, link_bound
from runner.papers.findings import Data, NotMeasured, judge
from tests.unit.findings_worlds import finding, made
from tests.unit.synthetic import make_run, make_trial

FORWARD = finding("thesis", "forward")  # SSH port forwarding is as fast as IPsec


def with_pace(trials: list[Trial], vpn: str, driver: str, pace: float) -> list[Trial]:
    """The trials, those of ``vpn`` by ``driver`` (empty: its own) so much faster."""
    return [
        make_trial(t.vpn, t.params, t.repetition, {m.metric: m.value * pace for m in t.measurements})
        if (t.vpn, t.params.get("driver", "")) == (vpn, driver)
        else t
        for t in trials
    ]


@pytest.mark.parametrize(("driver", "verdict"), [("generic", "not reproduced"), ("", "reproduced")])
def test_systems_of_two_data_planes_are_compared_by_one_driver(driver: str, verdict: str) -> None:
    """What was measured by the same driver on both sides decides; the number of their own stands beside it."""
    run, trials = made("thesis")
    judged = judge(FORWARD, run, with_pace(trials, "ssh_forward", driver, 3.0))
    assert judged.verdict == verdict
    assert judged.note == ALIKE["generic"]
    assert "each with its own driver" in judged.beside


def test_without_one_driver_the_number_of_two_data_planes_has_no_verdict() -> None:
    run, trials = made("thesis")
    own = [trial for trial in trials if "driver" not in trial.params]
    judged = judge(FORWARD, run, own)
    assert judged.verdict == "incomparable"
    assert judged.value is not None
    assert "driver=generic" in judged.reason


def test_systems_of_one_data_plane_decide_as_they_are() -> None:
    run, trials = made("thesis")
    own = [trial for trial in trials if "driver" not in trial.params]
    assert judge(finding("thesis", "forward-tun"), run, own).verdict == "reproduced"
    driven = [trial for trial in trials if trial.params.get("driver")]
    assert judge(finding("thesis", "forward-tun"), run, driven).note == ALIKE["generic"]


def plain(rate_bps: float, **levels: str) -> list[Trial]:
    """Plain IP's TCP throughput in three repetitions."""
    return [make_trial("none", {**TCP, **levels}, block, {"tcp_throughput": rate_bps}) for block in (1, 2, 3)]


def on_link(link_bps: int | str = "unknown") -> Run:
    """A run whose gateway's WAN interface has such a rate."""
    run = make_run(("ipip",))
    return run.model_copy(update={"lab": {**run.lab, "wan_link_bps": link_bps}})


def test_the_link_limits_plain_ip_where_plain_ip_fills_it() -> None:
    shaped = {"wan_rate_bps": "1000000000"}
    assert link_bound(Data(on_link(), plain(948e6, **shaped))) == shaped
    assert link_bound(Data(on_link(1_000_000_000), plain(941e6))) == {}
    for run, trials in (
        (on_link(), plain(948e6)),
        (on_link(), plain(700e6, **shaped)),
        (on_link(10_000_000_000), plain(941e6)),
    ):
        with pytest.raises(NotMeasured, match="the link is not what limits plain IP"):
            link_bound(Data(run, trials))
