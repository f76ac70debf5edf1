"""Whether two runs rank alike: Kendall's tau-b, and the groups that are apart."""

import numpy as np
import pytest

from runner.data.trials import Run, Trial
from runner.ranking.agreement import agreement, longest_chain
from tests.unit.synthetic import CBC, TCP, make_run, make_trial

VPNS = ("openvpn", "ssh_tun", "ssh_forward", "ipsec_user")
RUN: Run = make_run(VPNS)


def trials(rates: tuple[float, ...], sway: float = 0.0) -> list[Trial]:
    """Six blocks of TCP throughput, one rate for each VPN; every second VPN sways against the others."""
    return [
        make_trial(vpn, CBC | TCP, block, {"tcp_throughput": rate * (1 + (0.001 + sway) * (-1) ** (block + number))})
        for block in range(6)
        for number, (vpn, rate) in enumerate(zip(VPNS, rates, strict=True))
    ]


def test_the_same_order_agrees() -> None:
    found = agreement((RUN, trials((1, 2, 4, 8))), (RUN, trials((1.1, 2.2, 4.4, 8.8))))
    assert {one.what for one in found} == {"weighted", "tcp_throughput"}
    assert all(one.tau_b == pytest.approx(1) and one.groups == (4, 4) for one in found)


def test_the_reverse_order_disagrees() -> None:
    found = agreement((RUN, trials((1, 2, 4, 8))), (RUN, trials((8, 4, 2, 1))))
    assert all(one.tau_b == pytest.approx(-1) for one in found)


def test_a_tie_on_one_side_counts_as_tau_b_does() -> None:
    found = agreement((RUN, trials((1, 2, 4, 8))), (RUN, trials((1, 1, 4, 8), sway=0.05)))
    metric = next(one for one in found if one.what == "tcp_throughput")
    assert metric.tau_b == pytest.approx(5 / np.sqrt(5 * 6))
    assert metric.groups == (4, 3)


def test_where_all_tie_there_is_no_tau() -> None:
    found = agreement((RUN, trials((1, 1, 1, 1), sway=0.2)), (RUN, trials((1, 2, 4, 8))))
    metric = next(one for one in found if one.what == "tcp_throughput")
    assert metric.tau_b is None
    assert metric.groups[0] == 1


def test_groups_count_what_is_told_apart_by_pairs() -> None:
    """Each ties with the next, a beats c and d, b beats d: two are told apart, though no neighbours are."""
    assert longest_chain(["a", "b", "c", "d"], {("a", "c"), ("a", "d"), ("b", "d")}) == 2
    assert longest_chain(["a", "b", "c"], {("a", "b"), ("a", "c"), ("b", "c")}) == 3
    assert longest_chain(["a", "b", "c"], {("a", "b"), ("b", "c")}) == 2  # a and c are not
    assert longest_chain(["a", "b"], set()) == 1
    assert longest_chain([], set()) == 0


def test_overlapping_neighbours_do_not_hide_that_the_ends_differ() -> None:
    """Rates 1 % apart under 1 % of noise: no neighbour is told from the next, the first and the last are."""
    close = trials((1.0, 1.01, 1.02, 1.03), sway=0.008)
    metric = next(one for one in agreement((RUN, close), (RUN, close)) if one.what == "tcp_throughput")
    assert 1 < metric.groups[0] < 4


def test_one_block_tells_no_groups_apart() -> None:
    once = [
        make_trial(vpn, CBC | TCP, 1, {"tcp_throughput": rate}) for vpn, rate in zip(VPNS, (1, 2, 4, 8), strict=True)
    ]
    found = agreement((RUN, once), (RUN, trials((1, 2, 4, 8))))
    assert {one.what: one.groups for one in found} == {"weighted": (1, 4), "tcp_throughput": (1, 4)}
