"""Made-up VPNs as devices on a line, without chance unless a spread is given."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from runner.choice.device import DRAWS, Curve, Device
from runner.choice.devices import normal
from runner.choice.watched import Watched
from runner.data.named import Must
from runner.data.needs import Needs

RUNGS_BPS = (1e7, 3e7, 1e8, 3e8, 1e9, 3e9)


def watched(rate_bps: float = 1e12, *, seconds: float = 60.0, bad: int = 0, gap_s: float = 0.01) -> Watched:
    """A watch of quarters of a second, of which so many were bad."""
    windows = round(4 * seconds)
    share = bad / windows
    return Watched(rate_bps, seconds, windows, bad, 0, gap_s, gap_s, share, share, ())


WELL_WATCHED = watched()
GOOD: dict[Must, str] = {"networks": "shown", "tried": "shown", "maintained": "declared"}


def needs(line_bps: float | None = 1e8, **more: object) -> Needs:
    return Needs.model_validate({"line_bps": line_bps, "path_rtt_ms": 20.0, **more})


def words(*vpns: str, **musts: str) -> dict[str, dict[Must, str]]:
    """The states of these VPNs' musts: those in force by themselves are fulfilled."""
    more = {name.replace("_", "-"): word for name, word in musts.items()}
    return {vpn: {**GOOD, **more} for vpn in vpns}  # type: ignore[dict-item]


def device(
    vpn: str,
    tcp_bps: float = 1e9,
    udp_bps: float | None = None,
    core_s_per_gb: float = 10.0,
    *,
    spread: float = 0.0,
    times: float = 1.0,
    delay_ms: float = 0.5,
    loss_ratio: float = 0.0,
    rtt_ms: float = 0.2,
    setup_s: float = 0.5,
    breakdown_bps: float | None = None,
    one_connection: bool = False,
    growth: float = math.inf,
    failed: int = 0,
    watched: Watched | None = WELL_WATCHED,
) -> Device:
    """A VPN whose gateways each spend ``core_s_per_gb`` on a gigabyte. ``times``: as many times as fast a machine;
    ``spread``: of its throughputs, as a logarithm."""
    udp_bps = tcp_bps if udp_bps is None else udp_bps

    def drawn(what: str, bps: float) -> np.ndarray:
        return times * bps * np.exp(spread * normal(f"{vpn} {what}", [bps], 10))

    def curve(bps: float) -> Curve:
        rates = np.array([rate * times for rate in RUNGS_BPS])
        cores = np.array([[rate / times / 8e9 * core_s_per_gb for rate in rates]]).repeat(DRAWS, axis=0)
        return Curve(
            rates_bps=rates,
            carried=rates <= times * bps,
            cores=cores,
            loss_ratio=np.where(rates <= times * bps, loss_ratio, 0.3)[None].repeat(DRAWS, axis=0),
            delay_ms=np.where(rates <= times * bps, delay_ms, 40.0)[None].repeat(DRAWS, axis=0),
        )

    return Device(
        vpn=vpn,
        levels={},
        tcp_bps=drawn("tcp", tcp_bps),
        udp_bps=drawn("udp", udp_bps),
        growth={"tcp": growth, "udp": growth},
        rtt_added_ms=np.full(DRAWS, rtt_ms),
        setup_s=np.full(DRAWS, setup_s),
        breakdown_bps=breakdown_bps,
        one_connection=one_connection,
        trials=10,
        failed=failed,
        watched=watched,
        curves={"tcp": curve(tcp_bps), "datagrams": curve(udp_bps)},
    )


def by_name(*devices: Device) -> Mapping[str, Device]:
    return {made.vpn: made for made in devices}
