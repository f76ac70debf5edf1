"""Single steps of the engines that others made, and how a run asks for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import UsageError
from runner.design.profile import PROFILES, Profile
from runner.instruments.instrument import Asked
from runner.instruments.traffic import udp as udp_instrument
from runner.instruments.traffic.udp import ENGINES, Udp, search_of
from runner.search import find_throughput
from runner.search.bisection import judge
from runner.search.model import Account, Loss
from runner.search.settings import UdpSearch


def test_a_verdict_needs_no_more_trials_than_decide_it() -> None:
    ratios = iter([0.0, 0.02, 0.02, 0.02, 0.0, 0.0])
    account = Account(lambda rate_bps, duration_s: Loss(1e6, 1e6 * (1 - next(ratios)), 0.9 * rate_bps))
    verdict = judge(account, 100e6, 5, 2.0, 0.01)
    assert len(account.trials) == 4, "6 % in all: five trials may lose 5 %"
    assert verdict.mean_loss_ratio == pytest.approx(0.015)
    assert verdict.offered_rate_bps == pytest.approx(90e6)
    assert verdict.sender_short
    fine = Account(lambda rate_bps, duration_s: Loss(1e6, 0.995e6))
    verdict = judge(fine, 100e6, 5, 2.0, 0.01)
    assert (len(fine.trials), fine.elapsed_s, verdict.sender_short) == (5, 10.0, False)
    assert verdict.mean_loss_ratio == pytest.approx(0.005)


@pytest.mark.parametrize(
    ("settings", "first", "warm_budget_s", "seconds"),
    [
        ({}, True, None, 8 * 2.3 + 10 * 10 + 1.5),
        ({"confirm": None}, False, None, 4 * 2.3 + 1.5),
        ({"confirm": (3, 4.0), "budget_s": 5.0}, True, 2.0, 5 + 12 + 1.5),
        ({"confirm": (3, 4.0), "budget_s": 5.0}, False, 2.0, 2 + 12 + 1.5),
        ({"engine": "rounds"}, True, None, 30 * 2.3 + 0.5),
        ({"engine": "rounds", "budget_s": 7.0}, False, 3.0, 3.5),
        ({"engine": "binary", "confirm": (2, 5.0)}, True, None, 100.0),
        ({"engine": "binary", "confirm": None}, True, None, 1000.0),
        ({"engine": "rfc2544"}, True, None, 600.0),
    ],
)
def test_how_long_a_search_will_take(
    settings: dict[str, Any], first: bool, warm_budget_s: float | None, seconds: float
) -> None:
    asked = UdpSearch(**{"engine": "bayes", **settings})
    assert asked.expected_s(0.3, first=first, warm_budget_s=warm_budget_s) == pytest.approx(seconds)


def test_an_argument_without_effect_names_the_engines_that_take_it() -> None:
    with pytest.raises(UsageError, match=r"choose one of these engines: bayes, rounds$"):
        find_throughput(lambda rate_bps, _: Loss(1, 1), engine="scan", trial_duration_s=1.0)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda one: one.name)
def test_a_run_can_choose_the_search_and_such_a_search_goes_on_without_a_break(profile: Profile) -> None:
    udp = Udp()
    for engine in ENGINES:
        chosen = search_of({"search": engine}, profile)
        assert chosen.engine == engine
        assert not udp.takes_turns({"search": engine}, profile)
        assert chosen.budget_s is None or chosen == profile.udp, "it ends when it has found the rate"
    assert search_of({}, profile) == profile.udp


def test_a_scan_is_expected_to_take_at_most_its_window_with_all_trials() -> None:
    scan = UdpSearch("scan", confirm=(10, 10.0), min_rate_bps=1e6, max_rate_bps=128e6)
    assert scan.expected_s(0.3, first=True, warm_budget_s=None) == pytest.approx((8 + 2 + 3 * 2 + (21 + 2) * 10) * 10)
    narrow = UdpSearch("scan", confirm=(10, 10.0), min_rate_bps=4e6, max_rate_bps=8e6)
    assert narrow.expected_s(0.3, first=True, warm_budget_s=None) == pytest.approx((2 + 2 + (5 + 2) * 10) * 10)


def test_a_named_search_offers_no_flows_of_the_generator() -> None:
    lab: Any = SimpleNamespace(path=None)
    refused = Udp().refuses(lab, load_vpn("none"), {"search": "scan", "flows": "16", "payload_bytes": "1300"})
    assert refused is not None
    assert "without flows" in refused.reason
    assert Udp().refuses(lab, load_vpn("none"), {"search": "scan", "payload_bytes": "1300"}) is None


@pytest.mark.parametrize("engine", ["scan", "binary", "bayes"])
def test_a_named_search_has_all_its_time_in_each_repetition_and_begins_where_the_last_one_ended(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[tuple[UdpSearch, float | None]] = []

    def searching(bench: Any, payload_bytes: int, search: UdpSearch, first_bps: float | None) -> Any:
        asked_for.append((search, first_bps))
        yield {}

    monkeypatch.setattr(udp_instrument, "udp", searching)
    monkeypatch.setattr(udp_instrument, "may_fragment", lambda *_: False)
    params = {"search": engine, "payload_bytes": "1300"}
    bench: Any = SimpleNamespace(address="10.2.0.2")
    asked = Asked(load_vpn("openvpn"), params, PROFILES["quick"], 1, known_bps=80e6)
    next(Udp().measure(bench, asked))
    ((search, began_bps),) = asked_for
    assert (search.engine, search.budget_s, began_bps) == (engine, None, 80e6)
