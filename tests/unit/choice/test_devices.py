"""What a run says of each VPN: made-up runs whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from questions.choose import Choose, words
from questions.choose.judge import choice
from runner.choice.devices import devices
from runner.choice.model import Grade
from runner.data.asked import AskedRun
from runner.data.needs import Needs
from runner.data.trials import Trial
from tests.unit.choice.runs import TRUTHS, chosen_run, more_tcp, stretch


def test_throughput_cost_and_round_trip_are_the_true_ones() -> None:
    run, trials = chosen_run(noise=0.05, passes=16)
    found = devices(run, trials)
    assert set(found) == set(TRUTHS) - {"none"}  # what has no trial is no device
    for vpn, device in found.items():
        truth = TRUTHS[vpn]
        assert device.tcp_bps is not None
        assert device.rtt_added_ms is not None
        assert np.median(device.tcp_bps) == pytest.approx(truth.tcp_bps, rel=0.1)
        assert np.median(device.rtt_added_ms) == pytest.approx(truth.rtt_ms - 0.05, rel=0.3)
        curve = device.curves["tcp"]
        at = int(np.searchsorted(curve.rates_bps, 1e8))
        assert np.median(curve.cores[:, at]) == pytest.approx(truth.cores(1e8), rel=0.15)
        assert bool(curve.carried[at])


def test_a_wider_spread_gives_wider_draws() -> None:
    narrow, wide = (devices(*chosen_run(noise=noise))["openvpn"].tcp_bps for noise in (0.02, 0.2))
    assert narrow is not None
    assert wide is not None
    assert np.std(np.log(wide)) > 3 * np.std(np.log(narrow))


def test_plain_ip_is_what_a_rate_costs_anyway() -> None:
    """A VPN that is plain IP itself costs next to nothing beyond it."""
    free = TRUTHS | {"wireguard_go": replace(TRUTHS["none"], core_s_per_gb=0.0)}
    curve = devices(*chosen_run(free, noise=0.02))["wireguard_go"].curves["tcp"]
    assert np.median(curve.cores[:, 2]) < 0.1 * TRUTHS["none"].cores(1e8) + 0.002


def test_who_breaks_down_and_what_shares_one_connection_are_known() -> None:
    found = devices(*chosen_run())
    assert (found["ssh_tun"].breakdown_bps, found["ssh_tun"].one_connection) == (1.25e9, True)
    assert (found["openvpn"].breakdown_bps, found["openvpn"].one_connection) == (None, False)


def test_a_failed_or_missing_repetition_is_counted() -> None:
    run, trials = chosen_run()
    failed = [
        trial.model_copy(update={"status": "failed", "measurements": [], "curve": []})
        if (trial.vpn, trial.repetition) == ("openvpn", 2)
        else trial
        for trial in trials
    ]
    dropped = [trial for trial in trials if (trial.vpn, trial.repetition) != ("openvpn", 2)]
    for edited in (failed, dropped):
        found = devices(run, edited)
        assert (found["openvpn"].trials, found["openvpn"].failed) == (10, 5)
        assert (found["ipsec_user"].trials, found["ipsec_user"].failed) == (10, 0)


def test_who_came_in_later_has_not_missed_what_was_before_and_the_others_not_what_came_after() -> None:
    run, trials = chosen_run()
    late = run.vpns["openvpn"].model_copy(update={"after": 1})
    came_in = run.model_copy(update={"vpns": run.vpns | {"openvpn": late}})
    kept = [trial for trial in trials if trial.vpn == "none" or (trial.vpn == "openvpn") == (trial.repetition > 1)]
    found = devices(came_in, kept)
    assert (found["openvpn"].trials, found["openvpn"].failed) == (5, 0)
    assert (found["ipsec_user"].trials, found["ipsec_user"].failed) == (5, 0)
    again = [trial.model_copy(update={"repetition": 3}) for trial in kept if trial.repetition == 1]
    found = devices(came_in, [*kept, *again])  # a run that goes on is about the first ones alone
    assert (found["openvpn"].trials, found["openvpn"].failed) == (5, 0)
    gone = [trial.model_copy(update={"repetition": 3}) for trial in kept if trial.repetition == 2]
    gone = [one.model_copy(update={"status": "failed"}) if one.vpn == "openvpn" else one for one in gone]
    found = devices(came_in, [*kept, *gone])
    assert (found["openvpn"].trials, found["openvpn"].failed) == (10, 5)


@pytest.mark.parametrize(("disturbed", "lost"), [(2, False), (6, True)])
@pytest.mark.parametrize(("name", "value"), [("loss_ratio", 0.2), ("delay_p95_ms", 60.0)])
def test_a_slice_that_other_work_disturbed_is_outvoted(name: str, value: float, disturbed: int, lost: bool) -> None:
    run, trials = chosen_run()

    def edited(trial: Trial) -> Trial:
        if trial.vpn != "openvpn" or trial.params.get("carried") != "datagrams":
            return trial
        first = disturbed // 2  # in each of the two tunnels
        rungs = [
            rung.model_copy(update={"values": {**rung.values, name: [value] * first + rung.values[name][first:]}})
            for rung in trial.curve
        ]
        return trial.model_copy(update={"curve": rungs})

    before, after = devices(run, trials)["openvpn"], devices(run, [edited(trial) for trial in trials])["openvpn"]
    draws = [getattr(one.curves["datagrams"], name.replace("_p95", ""))[:, 2] for one in (before, after)]
    assert (np.median(draws[1]) > np.median(draws[0])) == lost
    assert (draws[1] > draws[0]).any()  # it is not overlooked either


def test_a_run_without_ladders_has_no_devices() -> None:
    run, trials = chosen_run()
    assert not devices(run, [trial for trial in trials if not trial.curve])


def test_what_was_watched_is_known_of_the_device_and_nothing_of_older_folders() -> None:
    run, trials = chosen_run()
    assert not any(device.watched for device in devices(run, trials).values())
    levels = run.vpns["openvpn"].configurations["recommended"] | {"measure": "steady"}
    low = stretch("openvpn", levels | {"steady_bps": "10000000"}, bad=0)
    high = stretch("openvpn", levels | {"steady_bps": "40000000"}, gap_s=0.7, bad=12)
    found = devices(run, [*trials, high, low])["openvpn"].watched
    assert found
    assert (found.rate_bps, found.windows, found.bad_windows, found.longest_gap_s) == (4e7, 120, 12, 0.7)
    assert found.worst_second_loss_ratio == found.loss_by_second[0] == 0.25
    assert (found.trial, found.mostly_limited) == (high.id, False)


def test_a_stretch_that_somebody_wrote_otherwise_is_none() -> None:
    run, trials = chosen_run()
    levels = run.vpns["openvpn"].configurations["recommended"] | {"measure": "steady", "steady_bps": "10000000"}
    for strange in ({}, {"loss_by_second": "x"}, {"windows": None}, {"rate_bps": [1]}):
        trial = stretch("openvpn", levels)
        detail = trial.measurements[0].detail | strange if strange else {}
        first = trial.measurements[0].model_copy(update={"detail": detail})
        trial = trial.model_copy(update={"measurements": [first, *trial.measurements[1:]]})
        assert devices(run, [*trials, trial])["openvpn"].watched is None


def test_eight_connections_are_a_need_of_their_own() -> None:
    run, trials = chosen_run(noise=0.02, needs=Needs(line_bps=7e8, traffic="files", connections=8))
    nobody = choice(run, trials)
    assert nobody.answer
    assert set(nobody.answer.unknown) >= {"openvpn", "wireguard_go"}
    assert words.headline(nobody).endswith(words.MANY)
    told = choice(run, more_tcp(trials, "openvpn", 1.5, streams="8"))
    assert told.answer
    assert told.answer.named == ["openvpn"]
    assert told.answer.candidate_of("openvpn").here_bps == pytest.approx(1.5 * TRUTHS["openvpn"].tcp_bps, rel=0.03)
    assert words.CONNECTIONS[8] in words.headline(told)
    one = choice(run.model_copy(update={"needs": Needs(line_bps=7e8, traffic="files")}), trials)
    assert words.CONNECTIONS[1] in words.headline(one)


def test_what_many_connections_carry_changes_nothing_of_what_one_does() -> None:
    run, trials = chosen_run(noise=0.02)
    alone, beside = (
        devices(run, trials)["openvpn"],
        devices(run, more_tcp(trials, "openvpn", 3.0, streams="8"))["openvpn"],
    )
    assert alone.many is None
    assert beside.many is not None
    assert alone.tcp_bps is not None
    assert beside.tcp_bps is not None
    assert np.array_equal(alone.tcp_bps, beside.tcp_bps)
    assert (alone.growth, alone.trials) == (beside.growth, beside.trials)


@pytest.mark.parametrize(
    ("needs", "more"),
    [
        (Needs(), []),
        (Needs(connections=8), [("8", "forward")]),
        (Needs(line_bps=1e8, line_up_bps=2e7), [("1", "reverse"), ("1", "both")]),
        (Needs(line_bps=1e8, line_up_bps=2e7, connections=8), [("8", way) for way in ("forward", "reverse", "both")]),
    ],
)
def test_the_needs_decide_what_is_measured_beside(needs: Needs, more: list[tuple[str, str]]) -> None:
    asked = AskedRun(experiments=("choose",), needs=needs)
    found = Choose().more_traffic(asked)
    assert [(each["streams"], each["direction"]) for each in found if each["measure"] == "tcp"] == more
    site = Choose().more_traffic(asked.with_changes(lab="site:sites.toml"))
    assert "both" not in {each.get("direction") for each in site}, "what the bare path carries both ways nobody knows"


@pytest.mark.parametrize(("times", "fits"), [(1.9, True), (1.0, False)])
def test_both_ways_at_once_are_graded_by_their_sum(times: float, fits: bool) -> None:
    """Each way it carries its rate with room; what counts is whether it does both."""
    two = Needs(line_bps=5e8, line_up_bps=4e8, traffic="files")
    run, trials = chosen_run(noise=0.02, needs=two)
    each = more_tcp(trials, "openvpn", 1.0, direction="reverse")
    alone, both = choice(run, each), choice(run, more_tcp(each, "openvpn", times, direction="both"))
    assert alone.answer
    assert alone.answer.candidate_of("openvpn").grade == Grade.FITS, "the control"
    assert both.answer
    one = both.answer.candidate_of("openvpn")
    assert (one.grade == Grade.FITS) is fits
    assert one.both_bps == pytest.approx(times * TRUTHS["openvpn"].tcp_bps, rel=0.03)
    asked = run.model_copy(update={"needs": Needs(line_bps=5e8, traffic="files")})
    same = choice(asked, more_tcp(each, "openvpn", times, direction="both"))
    assert same.answer
    assert same.answer.candidate_of("openvpn").grade == Grade.FITS, "one rate does not ask for both at once"
