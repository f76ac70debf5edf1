"""The WAN's conditions as factors: presets, single factors on top, and what is refused."""

from __future__ import annotations

import pytest

from runner.catalogue import experiment_names, load_experiment, load_vpn, parse_levels
from runner.data.errors import UsageError
from runner.data.levels import LEVELS, WAN_FACTORS
from runner.data.wan import FACTORS, PRESETS, Conditions, conditions
from runner.design.profile import PROFILES
from runner.lab.shape import wan


def test_nothing_asked_is_the_lan_and_the_profiles_rate() -> None:
    assert conditions({}) == Conditions() == conditions({"wan": "lan"})
    assert conditions({}, 1e9) == Conditions(rate_bps=1e9)
    assert conditions({"wan": "lte"}, 1e9).rate_bps == PRESETS["lte"].rate_bps, "the preset's own rate counts"


def test_single_factors_lie_on_top_of_the_preset() -> None:
    found = conditions({"wan": "satellite", "wan_loss_ratio": "0", "wan_mtu_bytes": "1400"})
    assert (found.delay_ms, found.loss_ratio, found.mtu_bytes) == (PRESETS["satellite"].delay_ms, 0, 1400)


def test_the_bucket_lasts_as_long_as_the_clock_looks_away() -> None:
    assert wan.bucket_bytes(Conditions(rate_bps=100e6)) == 12_500, "a millisecond"
    assert wan.bucket_bytes(Conditions(rate_bps=100e6), 1e-9) == 12_500, "an ordinary kernel's clock changes nothing"
    assert wan.bucket_bytes(Conditions(rate_bps=100e6), 0.01) == 125_000
    assert wan.bucket_bytes(Conditions(rate_bps=1e6), 0.01) == 4096, "two full frames"


def test_the_factors_are_the_models() -> None:
    assert {"wan", "underlay", "inner", *FACTORS} == set(WAN_FACTORS)
    assert set(WAN_FACTORS) <= set(LEVELS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wan=moon", "unknown wan level 'moon'. Valid: lan, metro"),
        ("wan_loss_ratio=2", "from 0 to 0.5, not '2'"),
        ("wan_loss_ratio=nan", "not 'nan'"),
        ("wan_delay_ms=-1", "from 0 to 5000"),
        ("wan_rate_bps=fast", "takes a number"),
        ("wan_mtu_bytes=100", "from 576 to 9000"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        parse_levels(text)


def test_the_experiment_gives_the_baseline_the_same_wans() -> None:
    experiment, profile = load_experiment("wan"), PROFILES["quick"]
    under = {
        name: [
            {factor: level for factor, level in cell.params.items() if factor in WAN_FACTORS}
            for cell in experiment.cells(load_vpn(name), profile, {})
        ]
        for name in ("none", "openvpn")
    }
    assert under["none"] == under["openvpn"]
    assert {found["wan_loss_ratio"] for found in under["none"]} == {"0", "0.0001", "0.001", "0.01"}
    assert {found["wan_delay_ms"] for found in under["none"]} == {"5", "50"}


def test_every_experiment_takes_the_ip_versions() -> None:
    """Of the baseline, too. What nobody has to ask for is not written down."""
    for name in experiment_names():
        experiment, profile = load_experiment(name), PROFILES["quick"]
        for vpn in map(load_vpn, ("none", "openvpn")):
            usual = experiment.cells(vpn, profile, {})
            asked = experiment.cells(vpn, profile, {"underlay": ["4"], "inner": ["4"]})
            both = experiment.cells(vpn, profile, {"underlay": ["4", "6"]})
            if not any({"underlay", "inner"} & {*traffic} for traffic in experiment.traffic):
                assert [cell.key for cell in asked] == [cell.key for cell in usual]
            assert len([cell for cell in both if cell.params.get("underlay") == "6"]) >= len(usual) / 2


def test_another_wan_replaces_the_experiments() -> None:
    cells = load_experiment("wan").cells(load_vpn("openvpn"), PROFILES["quick"], {"wan": ["lte"]})
    assert {frozenset(set(cell.params) & set(WAN_FACTORS)) for cell in cells} == {frozenset({"wan"})}
