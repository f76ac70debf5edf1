"""What a run says of one VPN as a device on a line: draws of what it carries and costs, and what it did."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from runner.choice.reliability import RungAttempts
from runner.choice.watched import Watched
from runner.evidence.intervals import Array

DRAWS = 400


@dataclass(frozen=True)
class Curve:
    """A ladder of one VPN and kind of traffic. ``rates_bps``: its rungs, ascending, and ``carried``: whether each was
    carried; ``cores`` (of a gateway, beyond plain IP), ``loss_ratio`` and ``delay_ms`` (p95, beyond plain IP) have the
    shape (DRAWS, rungs), and no number where nothing was measured. Draws of ``cores`` below 0 are kept: they show what
    the difference to plain IP leaves open. ``own_cores``: by rung, how many of them a gateway's own processes had
    (median); no number in older runs. A VPN in the kernel has nearly none: its work is in the rest, which cannot be
    told from that of the hosts."""

    rates_bps: Array
    carried: np.ndarray[Any, np.dtype[np.bool_]]
    cores: Array
    loss_ratio: Array
    delay_ms: Array
    own_cores: Array | None = None


@dataclass(frozen=True)
class OnPath:
    """What eight TCP connections carried together, ``tcp_bps``, in a trial on a WAN of ``rate_bps`` with the round trip
    and the loss of a path."""

    rate_bps: float
    rtt_ms: float
    loss_ratio: float
    tcp_bps: float


@dataclass(frozen=True)
class ManyTcp:
    """What eight TCP connections carry together; its fields are as those of Device, and what of ``growth`` is TCP's."""

    tcp_bps: Array | None = None
    down_bps: Array | None = None
    both_bps: Array | None = None
    growth: float = math.inf


@dataclass(frozen=True)
class Device:
    """A VPN at the levels ``levels``. Arrays have the shape (DRAWS,) and are None where nothing was measured.

    ``tcp_bps``, ``udp_bps``: what it carries here, the latter of datagrams of ``payload_bytes``; ``calls_bps``: of
    those of calls, by a ladder of their own; ``down_bps``: of TCP from gw2 to gw1, the other way; ``both_bps``: both
    ways at once, added; ``many``: of eight TCP connections, where they were measured; ``at_least``: which of them
    (``tcp``, ``udp``, ``calls``) are only known from below. ``growth``: by kind, by what factor gateways with cores of
    their own may carry more at most; infinite where nobody knows. ``rtt_added_ms``: beyond plain IP. ``breakdown_bps``:
    the lowest rate under which the tunnel broke down. ``on_path``: what it carried where packets are lost.
    ``window_bytes``: what it has on its way at most. ``trials``: how many the run has of it, or should have, as plain
    IP has them; ``failed``: those without a number. ``curves``: by kind of the ladder (``tcp``, ``datagrams``,
    ``calls``); ``attempts``: likewise, at each of its rates; ``watched``: what it was like when it was watched for
    long; None where it was not; ``plain_watched``: plain IP's. ``own_gateways``: it was measured between the user's own
    gateways, so that what is carried here is what counts; ``path_bps``, ``path_down_bps``: what the path between them
    carries without a VPN, from gw1 and to it; None where nobody knows; ``by_datagrams``: one TCP connection does not
    fill it, so that ``tcp_bps``, ``down_bps`` and what else is TCP's are those of datagrams; ``full_core_bps``: the
    payload that fills the core which the VPN makes busiest. ``real``: not in an emulated machine.
    """

    vpn: str
    levels: Mapping[str, str]
    tcp_bps: Array | None = None
    udp_bps: Array | None = None
    calls_bps: Array | None = None
    down_bps: Array | None = None
    both_bps: Array | None = None
    many: ManyTcp | None = None
    payload_bytes: float = 1300.0
    at_least: frozenset[str] = frozenset()
    growth: Mapping[str, float] = field(default_factory=dict)
    rtt_added_ms: Array | None = None
    setup_s: Array | None = None
    breakdown_bps: float | None = None
    one_connection: bool = False
    on_path: tuple[OnPath, ...] = ()
    window_bytes: float | None = None
    own_gateways: bool = False
    path_bps: float | None = None
    path_down_bps: float | None = None
    by_datagrams: bool = False
    full_core_bps: float | None = None
    real: bool = True
    trials: int = 0
    failed: int = 0
    curves: Mapping[str, Curve] = field(default_factory=dict)
    attempts: Mapping[str, tuple[RungAttempts, ...]] = field(default_factory=dict)
    watched: Watched | None = None
    plain_watched: Watched | None = None
