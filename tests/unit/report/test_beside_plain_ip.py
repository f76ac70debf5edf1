"""A VPN's share of plain IP, where the VPN has a level that plain IP cannot have, as a crypto driver."""

import pytest

from questions.compare.runs import compare_runs
from runner.data.trials import Trial
from tests.unit.reports import one_experiment
from tests.unit.synthetic import CBC, PLAIN, TCP, make_trial
from tests.unit.whole_report import build

VARIANTS = ({"driver": "accelerated"}, {"driver": "generic"}, {"ike": "aes128-sha256-ecp256"}, {"gw2_cpu": "0.2"})


def trials_with(variant: dict[str, str], plain: dict[str, str], pace: float = 1.0) -> list[Trial]:
    return [
        make_trial(vpn, params | TCP, block, {"tcp_throughput": rate_bps * pace * (1 + block / 10)})
        for block in range(3)
        for vpn, params, rate_bps in (("none", PLAIN | plain, 1000.0), ("openvpn", CBC | variant, 250.0))
    ]


def share_of(trials: list[Trial]) -> float | None:
    (experiment,) = build(one_experiment(trials), trials).experiments
    (table,) = [table for table in experiment.tables if table.metric == "tcp_throughput"]
    share = next(row.share for row in table.rows if row.vpn == "openvpn")
    return None if share is None else share.ratio


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_vpn_with_a_variant_has_its_share_of_plain_ip(variant: dict[str, str]) -> None:
    trials = trials_with(variant, {})
    assert share_of(trials) == pytest.approx(0.25)
    slower = trials_with(variant, {}, pace=0.5)
    change = compare_runs((one_experiment(trials), trials), (one_experiment(slower), slower)).changes
    assert {one.vpn: one.of_baseline for one in change}["openvpn"]


def test_plain_ip_on_another_path_is_beside_nobody() -> None:
    assert share_of(trials_with({"driver": "generic"}, {"wan_rate_bps": "20000000"})) is None


def test_a_measurement_of_plain_ip_that_has_a_driver_itself_is_beside_its_own() -> None:
    """The device page's transfer is one of plain IP by each driver."""
    both = [*trials_with({"driver": "generic"}, {"driver": "generic"})]
    both += [t for t in trials_with({}, {"driver": "accelerated"}) if t.vpn == "none"]
    assert share_of(both) == pytest.approx(0.25)
