"""The gateways' cores at a rate: measured at the paced rate, an upper bound at others, none beyond what is carried."""

import pytest

from runner.ranking.stats import Summary
from runner.report.gateway_cores import at_most, gateway_cores, heads
from runner.report.ranked_numbers import RankedNumber


def summary(median: float, low: float | None = None, high: float | None = None) -> Summary:
    return Summary(n=5, median=median, mean=median, low=low, high=high, variation=0.1, method="made up")


def test_the_paced_cost_bounds_what_a_higher_rate_takes() -> None:
    cost = summary(40, 36, 48)  # s/GB at 20 Mbit/s: 0.1 cores
    assert at_most(cost, None, summary(8e8, 7e8, 9e8), 100e6, 20e6) == "≤ 0.600"
    assert at_most(cost, None, None, 10e6, 20e6) == "–"  # at a lower rate a byte may cost more


def test_all_that_the_lab_used_at_full_speed_is_a_bound_too() -> None:
    cost, whole, reached = summary(92, 81, 104), summary(9, 8, 11), summary(1.6e9, 1.2e9, 1.7e9)
    assert at_most(cost, whole, reached, 1e9, 20e6) == "≤ 2.20"


@pytest.mark.parametrize("interval", [(None, None), (2e8, 4e8)])
def test_what_is_not_carried_has_no_cost(interval: tuple[float | None, float | None]) -> None:
    assert at_most(summary(40, 36, 48), None, summary(3e8, *interval), 1e9, 20e6) == "carries 300 Mbit/s here"


def test_who_carries_most_for_a_core_is_first() -> None:
    def number(metric: str, **values: float) -> RankedNumber:
        return RankedNumber(
            metric=metric, traffic="", summaries={vpn: summary(v) for vpn, v in values.items()}, at_least=[]
        )

    numbers = {
        "throughput_per_core": number("throughput_per_core", slow=1e8, fast=9e8),
        "gateway_cpu_per_gigabyte": number("gateway_cpu_per_gigabyte", slow=40, other=80),
    }
    found = gateway_cores(numbers, 20e6)
    assert [one.vpn for one in found] == ["fast", "slow", "other"]
    assert [one.at[0] for one in found] == ["–", "0.100 (no interval)", "0.200 (no interval)"]
    assert heads(20e6)[0] == "gateway cores at 20 Mbit/s (measured)"
    assert gateway_cores({}, 0) == []
