"""The rule's properties, on made-up VPNs whose answer is known."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from runner.choice.answer import answer, bands, changes, unsettled_lines
from runner.choice.device import Device, OnPath
from runner.choice.machine import MachineState
from runner.choice.model import RATES_BPS, Answer, Candidate, Grade
from runner.choice.thresholds import USUAL, Thresholds
from tests.unit.choice.made_up import by_name, device, needs, words

FAST = device("fast", 3.5e9, 6e8, 18.0, spread=0.04)
LIGHT = device("light", 8e8, 6e8, 20.0, spread=0.04)
SLOW = device("slow", 4e8, 3e8, 60.0, spread=0.04)
OVER_TCP = device("over_tcp", 6e8, 4e8, 17.0, spread=0.04, one_connection=True, breakdown_bps=1.25e9)
FOUR = by_name(FAST, LIGHT, SLOW, OVER_TCP)
ALL = words("fast", "light", "slow", "over_tcp", "twin")


def said(line_bps: float = 1e8, devices: dict[str, Device] | None = None, **more: object) -> Answer:
    return answer(devices or dict(FOUR), ALL, needs(line_bps, **more))


def test_a_line_that_several_carry_at_about_the_same_cost_names_all_of_them() -> None:
    found = said(1e8)
    assert found.named == ["fast", "light"]
    assert found.certainty == "sure"
    assert found.candidate_of("slow").reasons[0].criterion == "cost"
    assert found.candidate_of("over_tcp").reasons[0].criterion == "one_connection"
    assert found.candidate_of("fast").cores == pytest.approx(0.93e8 / 8e9 * 18, rel=0.01)


def test_a_line_that_one_carries_names_it() -> None:
    found = said(1e9, traffic="files")
    assert (found.named, found.certainty, found.grade) == (["fast"], "sure", Grade.FITS)
    assert found.candidate_of("light").carries == "depends"  # nobody knows what gateways of their own would carry


def test_where_nothing_carries_the_line_what_carries_most_is_named_as_short() -> None:
    found = said(1e10)
    assert (found.named, found.grade) == (["fast"], Grade.SHORT)


def test_a_second_copy_is_equally_good_and_excludes_nobody() -> None:
    for line_bps in RATES_BPS:
        before = said(line_bps)
        twin = replace(FAST, vpn="twin")
        after = said(line_bps, {**FOUR, "twin": twin})
        assert set(after.named) - {"twin"} == set(before.named)
        assert ("twin" in after.named) == ("fast" in before.named)


def test_one_that_is_ten_times_worse_changes_only_its_own_line() -> None:
    worse = device("slow", 4e7, 3e7, 600.0, spread=0.04)
    for line_bps in RATES_BPS[3:]:
        before, after = said(line_bps), said(line_bps, {**FOUR, "slow": worse})
        assert after.named == [vpn for vpn in before.named if vpn != "slow"] or before.named == ["slow"]
        for vpn in ("fast", "light", "over_tcp"):
            assert after.candidate_of(vpn).chance == before.candidate_of(vpn).chance


@pytest.mark.parametrize("traffic", ["files", "mixed", "calls", "transactions"])
def test_without_any_vpn_that_is_not_chosen_the_choice_stays(traffic: str) -> None:
    for line_bps in RATES_BPS:
        before = said(line_bps, traffic=traffic)
        for left_out in [candidate.vpn for candidate in before.candidates if not candidate.chance]:
            rest = {vpn: made for vpn, made in FOUR.items() if vpn != left_out}
            assert said(line_bps, rest, traffic=traffic).named == before.named


def test_a_machine_and_a_line_ten_times_as_fast_make_the_same_choice() -> None:
    faster = {
        "fast": device("fast", 3.5e9, 6e8, 18.0, spread=0.04, times=10),
        "light": device("light", 8e8, 6e8, 20.0, spread=0.04, times=10),
        "slow": device("slow", 4e8, 3e8, 60.0, spread=0.04, times=10),
    }
    three = {vpn: made for vpn, made in FOUR.items() if vpn != "over_tcp"}
    for line_bps in RATES_BPS:
        assert said(line_bps, three).named == said(10 * line_bps, faster).named


@pytest.mark.parametrize(
    "missing",
    [
        {"tcp_bps": None},
        {"udp_bps": None},
        {"curves": {}},
        {"setup_s": None},
        {"rtt_added_ms": None},
        {"curves": {"tcp": FAST.curves["tcp"]}},
    ],
    ids=str,
)
def test_a_value_that_counts_and_is_missing_means_not_named(missing: dict[str, object]) -> None:
    found = said(1e9, {**FOUR, "fast": replace(FAST, **missing)})  # type: ignore[arg-type]
    assert "fast" not in found.named
    assert found.candidate_of("fast").grade == Grade.UNKNOWN


def test_what_breaks_down_at_80_megabits_is_out_at_100_and_named_at_50() -> None:
    alone = {"fragile": device("fragile", 3e8, 3e8, 5.0, breakdown_bps=8e7)}
    at_50 = answer(alone, words("fragile"), needs(5e7))
    at_100 = answer(alone, words("fragile"), needs(1e8))
    assert (at_50.named, at_100.named) == (["fragile"], [])
    assert [reason.criterion for reason in at_100.candidate_of("fragile").reasons] == ["breakdown"]
    assert answer(alone, words("fragile"), needs(1e8, traffic="files")).named == ["fragile"]  # no datagrams
    at_10, at_15 = (answer(alone, words("fragile"), needs(line, traffic="calls")) for line in (1e7, 1.5e7))
    assert (at_10.named, at_15.named) == (["fragile"], []), "80 Mbit/s of packets six times as long as those of calls"


def test_where_nothing_carries_the_line_what_carries_more_and_loses_is_told_to_lose() -> None:
    """Not that it is short: the one that comes nearest is shorter."""
    both = {"steady": device("steady", 5e8, 5e8), "lossy": device("lossy", 2e9, 2e9, loss_ratio=0.2)}
    found = answer(both, words(*both), needs(5e9))
    assert (found.named, found.grade) == (["steady"], Grade.SHORT)
    assert [reason.criterion for reason in found.candidate_of("lossy").reasons] == ["loss"]
    assert [reason.criterion for reason in answer(both, words(*both), needs(4e8)).candidate_of("lossy").reasons] == [
        "loss"
    ]
    full = {**both, "wide": device("wide", 1e10, 1e10)}
    assert found.candidate_of("lossy").carries == "depends"
    assert [reason.criterion for reason in answer(full, words(*full), needs(5e9)).candidate_of("lossy").reasons] == [
        "capacity"
    ]


@pytest.mark.parametrize("headroom", [1.0, 1.25, 1.5])
@pytest.mark.parametrize(("cores", "ratio"), [(0.05, 1.1), (0.1, 1.25), (0.2, 1.5)])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5])
def test_the_named_one_stays_in_the_set_when_thresholds_move(
    headroom: float, cores: float, ratio: float, share: float
) -> None:
    moved = Thresholds(headroom=headroom, cost_cores=cores, cost_ratio=ratio, mixed=share)
    for line_bps in (1e7, 2e7, 1e8, 2e8):
        usual = answer(FOUR, ALL, needs(line_bps))
        assert usual.named[0] in answer(FOUR, ALL, needs(line_bps), thresholds=moved).named


def test_what_is_unknown_or_no_is_never_named_and_says_which_must() -> None:
    states = {**ALL, "fast": {**ALL["fast"], "nat": "no"}, "light": {**ALL["light"], "nat": "unknown"}}
    states["slow"] = {**ALL["slow"], "nat": "shown"}
    states["over_tcp"] = {**ALL["over_tcp"], "nat": "declared"}
    found = answer(FOUR, states, needs(1e8, must=("networks", "nat")))
    assert found.named == ["slow"]
    assert (found.candidate_of("fast").reasons[0].musts, found.candidate_of("fast").reasons[0].unknown) == (
        ["nat"],
        False,
    )
    assert (found.candidate_of("light").reasons[0].musts, found.candidate_of("light").reasons[0].unknown) == (
        ["nat"],
        True,
    )


def test_shown_comes_before_declared_among_equals() -> None:
    states = {**ALL, "fast": {**ALL["fast"], "nat": "declared"}, "light": {**ALL["light"], "nat": "shown"}}
    assert answer(FOUR, states, needs(1e8, must=("networks", "nat"))).named == ["light", "fast"]


def test_a_lossy_path_or_an_unknown_one_demotes_one_connection_and_a_clean_one_does_not() -> None:
    assert "over_tcp" not in said(1e8).named
    assert "over_tcp" not in said(1e8, path_loss_ratio=1e-3).named
    assert "over_tcp" in said(1e8, path_loss_ratio=0.0).named


def test_what_shares_one_connection_carries_no_more_than_one_does_on_the_path() -> None:
    """At 1 % and 20 ms that is 7 Mbit/s (Mathis), whatever the machine could do."""
    found = said(1e8, path_loss_ratio=0.01)
    lossy, clean = found.candidate_of("over_tcp"), said(1e8, path_loss_ratio=0.0).candidate_of("over_tcp")
    assert lossy.here_bps == pytest.approx(7.07e6, rel=0.01)
    assert (lossy.grade, lossy.carries) == (Grade.SHORT, "no")
    assert clean.here_bps is not None
    assert clean.here_bps > 1e8
    assert found.candidate_of("fast").here_bps == said(1e8).candidate_of("fast").here_bps
    assert said(5e6, path_loss_ratio=0.01).candidate_of("over_tcp").grade == Grade.LITTLE


def test_a_window_over_the_round_trip_is_what_one_connection_carries() -> None:
    """2 MB, which OpenSSH lets a channel have on its way, are 93 Mbit/s over 180 ms, and 56 over 300 ms."""

    def over(rtt_ms: float, window_bytes: float | None = None, line_bps: float = 2e8) -> Candidate:
        far = {**FOUR, "over_tcp": replace(OVER_TCP, window_bytes=window_bytes)}
        return said(line_bps, far, path_rtt_ms=rtt_ms, path_loss_ratio=0.0, traffic="files").candidate_of("over_tcp")

    for rtt_ms, carried_bps in ((180, 9.32e7), (300, 5.59e7)):
        far = over(rtt_ms)
        assert far.here_bps == pytest.approx(carried_bps, rel=0.01)
        assert (far.grade, [reason.criterion for reason in far.reasons]) == (Grade.SHORT, ["window"])
    assert over(180, 2e7).grade == Grade.FITS, "as much was measured"
    assert "window" in over(180, 4.4e6).reservations, "195 of 186 Mbit/s"
    assert over(180, line_bps=5e7).grade == Grade.FITS
    assert said(2e8, path_rtt_ms=300, traffic="files").candidate_of("fast").grade == Grade.FITS, "not one connection"


def test_what_a_trial_carried_on_such_a_path_counts_in_place_of_the_formula() -> None:
    """The formula says 22.4 Mbit/s at 0.1 % and 20 ms."""
    seen = OnPath(rate_bps=3e7, rtt_ms=20.0, loss_ratio=1e-3, tcp_bps=2.7e7)
    measured = {**FOUR, "over_tcp": replace(OVER_TCP, on_path=(seen,))}

    def of_files(line_bps: float, path_loss_ratio: float = 1e-3, traffic: str = "files") -> Candidate:
        return said(line_bps, measured, path_loss_ratio=path_loss_ratio, traffic=traffic).candidate_of("over_tcp")

    assert (of_files(2e7).here_bps, of_files(2e7).grade) == (2.7e7, Grade.FITS)
    assert of_files(2e7).reservations == []
    assert of_files(2e7, traffic="mixed").reservations == ["one_connection"]  # a lost packet still delays all datagrams
    assert of_files(1e8).here_bps == 2.7e7, "the formula says less, and this is what came through"
    assert of_files(2e7, 1e-2).here_bps == pytest.approx(7.07e6, rel=0.01)
    assert of_files(2e7, 1e-2).reservations == ["one_connection"]
    slower = {**FOUR, "over_tcp": replace(OVER_TCP, on_path=(replace(seen, tcp_bps=1e7),))}
    assert said(2e7, slower, path_loss_ratio=1e-3, traffic="files").candidate_of("over_tcp").grade == Grade.SHORT
    assert said(1e8, slower, path_loss_ratio=1e-3, traffic="files").candidate_of("over_tcp").here_bps == 1e7


def test_more_slices_settle_nothing_where_no_vpn_has_the_musts() -> None:
    states = {vpn: {**own, "nat": "unknown"} for vpn, own in ALL.items()}
    assert not unsettled_lines(FOUR, states, needs(1e8, must=("networks", "nat")))


def test_failed_trials_are_no_advantage() -> None:
    once = said(1e8, {**FOUR, "fast": replace(FAST, failed=1)})
    assert once.named == said(1e8).named, "one of many attempts costs no place"
    assert once.candidate_of("fast").bad_attempts == 1
    some = said(1e8, {**FOUR, "fast": replace(FAST, failed=4, watched=None)})
    assert some.named == ["light"]
    assert [reason.criterion for reason in some.candidate_of("fast").reasons] == ["failures"]
    often = said(1e8, {**FOUR, "fast": replace(FAST, failed=5)})
    assert often.candidate_of("fast").grade == Grade.UNKNOWN


def test_calls_are_judged_by_packets_and_by_the_delay_that_is_added() -> None:
    late = device("late", 3e9, 3e9, 5.0, delay_ms=20.0)
    useless = device("useless", 3e9, 3e9, 5.0, delay_ms=80.0)
    found = answer(by_name(FAST, late, useless), words("fast", "late", "useless"), needs(2e7, traffic="calls"))
    assert found.named == ["fast"]
    assert found.candidate_of("late").grade == Grade.LITTLE
    assert found.candidate_of("useless").grade == Grade.USELESS
    # 600 Mbit/s in packets of 1300 B are 92 Mbit/s in those of 200 B.
    assert found.candidate_of("fast").here_bps == pytest.approx(6e8 * 200 / 1300, rel=0.02)


def test_a_long_path_hides_a_round_trip_and_a_short_one_does_not() -> None:
    slow_echo = device("fast", 3.5e9, 6e8, 18.0, rtt_ms=0.6)
    both = {"fast": slow_echo, "light": LIGHT}
    far = answer(both, ALL, needs(1e8, traffic="transactions", path_rtt_ms=20.0))
    near = answer(both, ALL, needs(1e8, traffic="transactions", path_rtt_ms=3.0))
    assert far.named == ["fast", "light"]
    assert near.named == ["light"]


def test_what_is_known_from_below_only_is_not_called_short() -> None:
    bounded = replace(LIGHT, at_least=frozenset({"tcp"}))
    found = said(1e9, {"light": bounded, "slow": SLOW}, traffic="files")
    assert found.candidate_of("light").grade == Grade.UNKNOWN
    assert found.candidate_of("slow").grade == Grade.SHORT


def test_where_all_are_known_from_below_only_it_is_not_known_and_not_that_nothing_suits() -> None:
    """The generator's own limit, which a guest kernel reaches first."""
    below = {"light": replace(LIGHT, at_least=frozenset({"tcp"}))}
    found, every = said(5e9, below, traffic="files"), bands(below, ALL, needs(None, traffic="files"))
    assert (found.named, found.unknown) == ([], ["light"])
    assert (every[-1].named, every[-1].unknown) == ([], ["light"])
    useless = said(5e9, {"light": device("light", 8e9, setup_s=100.0)})
    assert (useless.named, useless.unknown) == ([], [])


def test_who_is_not_sure_on_cores_of_their_own_is_not_settled() -> None:
    """Here the fast one is sure; with what the other carries on cores of its own, more measurement would tell."""
    wide = device("wide", 4e8, 4e8, growth=3.0, spread=0.25)
    both = {"fast": device("fast", 3e9, 3e9, 30.0, growth=1.5), "wide": wide}
    states, at = words("fast", "wide"), needs(9.3e8, traffic="files")
    assert answer(both, states, at).certainty == "sure"
    assert answer(both, states, at, own_cores=True).certainty != "sure"
    assert unsettled_lines(both, states, at)
    known = {**both, "wide": device("wide", 4e8, 4e8, growth=3.0)}
    assert not unsettled_lines(known, states, at)


def test_a_line_is_refused_only_where_gateways_of_their_own_would_not_carry_it_either() -> None:
    bound = {"slow": device("slow", 4e8, 4e8, growth=2.0, spread=0.01), "fast": FAST}
    at_1g = answer(bound, ALL, needs(1e9, traffic="files"))
    at_500m = answer(bound, ALL, needs(5e8, traffic="files"))
    busy = answer(bound, ALL, needs(1e9, traffic="files"), state=MachineState(foreign=0.12))
    assert (
        at_1g.candidate_of("slow").carries,
        at_500m.candidate_of("slow").carries,
        busy.candidate_of("slow").carries,
    ) == (
        "no",
        "depends",
        "depends",
    )
    assert at_1g.candidate_of("fast").carries == "yes"


def test_bands_cover_every_line_once_in_order() -> None:
    found = bands(FOUR, ALL, needs(None))
    assert found[0].low_bps == RATES_BPS[0]
    assert found[-1].high_bps == RATES_BPS[-1]
    for band, after in pairwise(found):
        assert RATES_BPS.index(after.low_bps) == RATES_BPS.index(band.high_bps) + 1, "edges are rates of the list"
        assert (set(band.named), band.grade, band.certainty) != (set(after.named), after.grade, after.certainty)
    assert found[0].named == ["fast", "light", "slow"]  # a tenth of a core tells nobody apart at 10 Mbit/s
    assert (found[-1].named, found[-1].grade) == (["fast"], Grade.SHORT)


def test_what_changes_the_answer_is_a_higher_line_or_another_must() -> None:
    states = {**ALL, "over_tcp": {**ALL["over_tcp"], "udp-blocked": "shown"}}
    for vpn in ("fast", "light", "slow"):
        states[vpn] = {**ALL[vpn], "udp-blocked": "no"}
    found = answer(FOUR, states, needs(1e8))
    every = changes(FOUR, states, found, bands(FOUR, states, needs(None)))
    line, blocked = every[0], next(change for change in every if change.must == "udp-blocked")
    assert line.line_bps is not None
    assert line.line_bps > 1e8
    assert (blocked.named, blocked.reservations) == (["over_tcp"], ["one_connection"])


def test_a_path_of_which_nobody_knows_the_loss_says_what_a_lossy_one_would_change() -> None:
    only = {vpn: {**ALL[vpn], "udp-blocked": "shown" if vpn == "over_tcp" else "no"} for vpn in FOUR}
    asked = needs(1e8, path_rtt_ms=30, must=("networks", "udp-blocked"))
    told = {change.path_loss_ratio: change for change in changes(FOUR, only, answer(FOUR, only, asked), [])}
    assert told.keys() - {None} == {0.0002}
    assert (told[0.0002].named, told[0.0002].grade) == (["over_tcp"], Grade.SHORT)
    known = asked.model_copy(update={"path_loss_ratio": 0.0})
    assert not [one for one in changes(FOUR, only, answer(FOUR, only, known), []) if one.path_loss_ratio is not None]
    free = needs(1e8, path_rtt_ms=30)
    assert not [one for one in changes(FOUR, ALL, answer(FOUR, ALL, free), []) if one.path_loss_ratio is not None]


def test_more_of_the_same_is_not_asked_for_where_the_gateways_decide() -> None:
    unsure = {"fast": device("fast", 1e9, spread=0.3), "light": device("light", 1.2e9, spread=0.3)}
    own = {vpn: replace(made, growth={"tcp": 1.0, "udp": 1.0}) for vpn, made in unsure.items()}
    line = needs(1.1e9, traffic="files")
    assert not unsettled_lines(unsure, ALL, line)  # gateways of their own may carry it
    assert unsettled_lines(own, ALL, line) == [1.1e9]
    assert not unsettled_lines(FOUR, ALL, needs(1e8))


def test_draws_do_not_depend_on_who_else_is_there() -> None:
    assert USUAL.share("mixed") == pytest.approx(0.3)
    for line_bps in RATES_BPS:
        alone, together = answer({"fast": FAST}, ALL, needs(line_bps)), said(line_bps)
        assert alone.candidate_of("fast").here_bps == together.candidate_of("fast").here_bps
        assert math.isclose(float(np.median(FAST.tcp_bps)), 3.5e9, rel_tol=0.05)  # type: ignore[arg-type]


def test_what_carries_nothing_is_short_of_every_line_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = answer({"dead": device("dead", 0.0)}, words("dead"), needs(1e7))
    assert found.grade >= Grade.SHORT
