"""A cost is a difference of two measurements: where that is within its own noise, it decides nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from questions.choose.words import why_not
from runner.choice.answer import answer
from runner.choice.device import DRAWS, Device
from runner.choice.devices import devices, normal
from runner.choice.grade import grade_device
from runner.choice.thresholds import USUAL
from tests.unit.choice.made_up import by_name, device, needs, words
from tests.unit.choice.runs import TRUTHS, chosen_run

LINE_BPS = 1e8
BAR = USUAL.cost_cores
STATES = words("noisy", "exact", "dear", "wireguard_go", "openvpn")


def costing(vpn: str, cores: float, noise: float = 0.0) -> Device:
    """A VPN that costs so many cores at any rate, as far as its measurement tells."""
    made = device(vpn)
    draws = cores + noise * normal(f"{vpn} cores", [1.0], 10)
    curves = {
        kind: replace(curve, cores=np.repeat(draws[:, None], len(curve.rates_bps), axis=1))
        for kind, curve in made.curves.items()
    }
    return replace(made, curves=curves)


def chances(*made: Device) -> dict[str, float]:
    return {one.vpn: one.chance for one in answer(by_name(*made), STATES, needs(LINE_BPS)).candidates}


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2])
def test_what_costs_nothing_that_can_be_measured_is_named_before_what_costs_much_more(noise: float) -> None:
    found = chances(costing("noisy", 0.0, noise * BAR), costing("dear", 3 * BAR))
    assert found["noisy"] == 1
    assert found["dear"] == 0


@pytest.mark.parametrize("below", [0.0, -1.0, -3.0, -10.0])
@pytest.mark.parametrize("noise", [0.0, 1.0, 5.0])
def test_noise_below_plain_ip_rules_nobody_out_and_is_no_reason_against_the_vpn(below: float, noise: float) -> None:
    """However far a measurement falls below plain IP, those that cost less than the bar above nothing stay, and it
    gives no draw to the VPN that a cost of 0 would not."""
    made = costing("noisy", below * BAR, noise * BAR), costing("exact", 0.9 * BAR)
    found = chances(*made)
    assert found["exact"] == 1
    assert found["noisy"] >= (below * BAR + noise * BAR * normal("noisy cores", [1.0], 10) <= 0).mean()
    assert (
        chances(costing("noisy", below * BAR, noise * BAR), costing("exact", 3 * BAR))["exact"]
        >= (chances(costing("noisy", 0.0), costing("exact", 3 * BAR))["exact"])
    )


def test_one_that_comes_out_far_below_plain_ip_excludes_only_what_is_as_far_above() -> None:
    """A baseline that was measured too dear makes a VPN of it that costs less than nothing."""
    found = chances(costing("noisy", -4 * BAR, 0.01 * BAR), costing("exact", 2 * BAR), costing("dear", 6 * BAR))
    assert found == {"noisy": 1, "exact": 1, "dear": 0}


def test_a_run_keeps_the_sign_of_what_a_vpn_costs_and_says_how_much_cannot_be_told() -> None:
    """In rounds that are made up: one VPN that is plain IP itself, and one that costs 0.3 of a core."""
    truths = TRUTHS | {
        "wireguard_go": replace(TRUTHS["none"], core_s_per_gb=0.0),
        "openvpn": replace(TRUTHS["openvpn"], core_s_per_gb=24.0, falls=0.0),
    }
    run, trials = chosen_run(truths, noise=0.05)
    found = devices(run, trials)
    draws = found["wireguard_go"].curves["tcp"].cores
    assert (draws < 0).any()
    assert (draws > 0).any()
    assert np.median(found["openvpn"].curves["tcp"].cores[:, 2]) == pytest.approx(0.3, rel=0.1)
    said = answer({vpn: found[vpn] for vpn in ("wireguard_go", "openvpn")}, STATES, needs(LINE_BPS))
    free, dear = said.candidate_of("wireguard_go"), said.candidate_of("openvpn")
    assert free.chance == 1
    assert free.cores_within is not None
    assert 0 < free.cores_within < 0.1
    assert dear.cores_within is None
    assert free.cores_bps == dear.cores_bps == pytest.approx(USUAL.demand_bps(LINE_BPS))


def test_between_two_rungs_a_cost_below_plain_ip_is_straight_and_stays_in_between() -> None:
    made = costing("noisy", 0.0)
    curve = made.curves["tcp"]
    cores = np.tile(np.linspace(-0.02, 0.03, len(curve.rates_bps)), (DRAWS, 1))
    made = replace(made, curves={kind: replace(one, cores=cores) for kind, one in made.curves.items()})
    for line_bps in (1.5e7, 5e7, 2e8, 5e8):
        found = grade_device(made, needs(line_bps), USUAL).cores
        at = int(np.searchsorted(curve.rates_bps, USUAL.demand_bps(line_bps)))
        assert (cores[:, at - 1] < found).all()
        assert (found < cores[:, at]).all()


def test_a_cost_is_told_with_its_rate() -> None:
    said = answer(by_name(costing("noisy", 0.01, 0.02), costing("dear", 0.34, 0.001)), STATES, needs(LINE_BPS))
    (clause,) = why_not(said)
    assert "0.34 of a core" in clause
    assert "at 93 Mbit/s" in clause
