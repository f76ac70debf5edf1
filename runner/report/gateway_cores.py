"""Cost against rate: how many cores of the gateways common rates take."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.trials import Strict
from runner.ranking.stats import Summary
from runner.ranking.ties import in_order
from runner.report import text
from runner.report.ranked_numbers import RankedNumber

RATES_BPS = (100e6, 1e9)
COST, WHOLE_COST, RATE = "gateway_cpu_per_gigabyte", "cpu_per_gigabyte", "tcp_throughput"
PER_CORE = "throughput_per_core"
BITS = 8e9  # of a gigabyte
ABOUT = (
    "The cost of the gateways is measured at a paced rate. At a higher rate a byte costs less, because packets are "
    "handled together. So the other columns are upper bounds: the paced cost times the rate or, where that is less, "
    "all that the whole lab used at the VPN's full speed. Where the kernel does a VPN's work, the hosts' cost is in it."
)


class Cores(Strict):
    """The cores of one VPN. ``per_core``: its TCP throughput for each core, in words; ``most_bps``: the same as a
    number, 0 where it is not known; ``at``: the gateways' cores at the paced rate and at RATES_BPS, in words."""

    vpn: str
    most_bps: float
    per_core: str
    at: list[str]


def heads(paced_bps: float) -> list[str]:
    """The heads of the columns that have cores."""
    return [f"gateway cores at {_rate(paced_bps)} (measured)", *[f"at most, at {_rate(rate)}" for rate in RATES_BPS]]


def _rate(rate_bps: float) -> str:
    scale, unit = text.prefix(rate_bps, "bit/s")
    return f"{rate_bps / scale:g} {unit}"


def gateway_cores(numbers: Mapping[str, RankedNumber], paced_bps: float) -> list[Cores]:
    """The cores of every VPN with a cost or a throughput per core. The VPN that carries most for each core comes first.
    ``numbers``: metric -> the numbers of one ranking; ``paced_bps``: the rate at which the cost was measured, 0 where
    there is none."""
    of = {name: numbers[name].summaries if name in numbers else {} for name in (COST, WHOLE_COST, RATE, PER_CORE)}
    rows = [
        Cores(
            vpn=vpn,
            most_bps=of[PER_CORE][vpn].median if vpn in of[PER_CORE] else 0.0,
            per_core=text.with_interval(of[PER_CORE][vpn], "bit/s") if vpn in of[PER_CORE] else text.NONE,
            at=[
                _measured(of[COST].get(vpn), paced_bps),
                *[
                    at_most(of[COST].get(vpn), of[WHOLE_COST].get(vpn), of[RATE].get(vpn), rate, paced_bps)
                    for rate in RATES_BPS
                ],
            ],
        )
        for vpn in dict.fromkeys([*of[PER_CORE], *of[COST]])
    ]
    return in_order(rows, [-row.most_bps for row in rows])


def _measured(cost: Summary | None, rate_bps: float) -> str:
    if cost is None or not rate_bps:
        return text.NONE
    if cost.low is None or cost.high is None:
        return f"{text.digits(cost.median * rate_bps / BITS)} (no interval)"
    low, middle, high = (text.digits(value * rate_bps / BITS) for value in (cost.low, cost.median, cost.high))
    return f"{middle} ({low}–{high})"


def at_most(
    cost: Summary | None, whole: Summary | None, reached: Summary | None, rate_bps: float, paced_bps: float
) -> str:
    """``≤ 0.35``: a bound on the gateways' cores at this rate, from the upper end of the cost's interval. For a VPN
    that does not reach the rate here, the throughput that it reaches instead."""
    if reached and (reached.high or reached.median) < rate_bps:
        return f"carries {text.quantity(reached.median, 'bit/s')} here"
    bounds = []
    if cost and rate_bps >= paced_bps > 0:
        bounds.append((cost.high or cost.median) * rate_bps / BITS)
    if whole and reached:
        bounds.append((whole.high or whole.median) * reached.median / BITS)
    return f"≤ {text.digits(min(bounds))}" if bounds else text.NONE
