"""How well a device carries a line: a grade for each criterion in each draw, and what it costs the gateways."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from runner.choice.device import DRAWS, Curve, Device, ManyTcp, OnPath
from runner.choice.model import Criterion, Grade, Limit
from runner.choice.reliability import Z_ONE_SIDED, Counts, excess
from runner.choice.thresholds import Step, Thresholds
from runner.choice.watched import Watched
from runner.data.needs import Needs
from runner.data.numbers import same
from runner.evidence.intervals import Array

Codes = np.ndarray[tuple[int], np.dtype[np.int8]]

# Reservations, the least first: the better VPN is the one with the lesser. "failures" is what it did in the past.
RESERVATIONS: tuple[tuple[Criterion, ...], ...] = (
    ("capacity", "path", "cores", "window"),
    ("rtt", "setup", "delay", "mouth_to_ear", "loss"),
    ("failures", "gap"),
    ("one_connection",),
)
LASTING = 3  # reservations from this one on are no less where nothing carries the line
WORST = 100  # standing of what is of no use
LOWEST = 3  # rungs, whose attempts count for any line
WATCHED = 0.9  # of the judged rate: a clean watch at less tells nothing of it, and a bad one at more than its inverse
FULL = 0.8  # of a WAN's rate, in payload: a tunnel's headers take the rest


@dataclass(frozen=True)
class Graded:
    """A device on a line. ``codes``: criterion -> its grade in every draw; ``values``: criterion -> what it was
    graded by. All have the shape (DRAWS,), and no number where something is missing: ``capacity_bps`` of
    this traffic, here; ``most_bps`` on gateways with cores of their own, infinite where nobody knows; ``cores`` of a
    gateway beyond plain IP, at ``cores_bps``: the demand or, if that is less, the capacity. ``attempts``: those by
    which it is judged whether the VPN always does what it does mostly; ``proven``: they are so many, and so few of them
    bad, that the share of bad ones is small for sure; ``datagrams_bps``: the rate of datagrams at which the VPN is
    judged, and watched: they make it as busy as 80 % of the line does; ``room``, ``most_room``: its capacity, here and
    at most, over what it has to carry, which is no more than the path between the user's own gateways has room for; of
    the way that has less; ``by_packets``: of calls their number is the limit, and not their bits.
    """

    device: Device
    codes: Mapping[Criterion, Codes]
    capacity_bps: Array
    most_bps: Array
    cores: Array
    cores_bps: float
    values: Mapping[Criterion, Array]
    attempts: Counts
    proven: bool
    datagrams_bps: float
    room: Array
    most_room: Array
    by_packets: bool = False

    @property
    def back(self) -> Array:
        """What the way to gw1 carries over what the way from it does; the same, where nobody measured it."""
        return _back(self.device)

    @property
    def carrying(self) -> Criterion:
        """The criterion that says whether it carries the line."""
        return "path" if "path" in self.codes else "capacity"

    @cached_property
    def grade(self) -> Codes:
        """The worst grade of all criteria, in every draw."""
        worst: Codes = np.max(np.stack(list(self.codes.values())), axis=0)
        return worst

    @cached_property
    def standing(self) -> Codes:
        """The grade and, among those of one grade, the worst reservation: a lower number is better, in every draw."""
        worst = np.zeros(DRAWS, dtype=np.int8)
        for rank, criteria in enumerate(RESERVATIONS, 1):
            for criterion in criteria:
                if criterion in self.codes:
                    worst = np.where(self.codes[criterion] == Grade.LITTLE, np.int8(rank), worst)
        lasting = np.where(worst >= LASTING, worst, np.int8(0))
        return np.asarray(10 * self.grade + np.where(self.grade < Grade.SHORT, worst, lasting), dtype=np.int8)


def grade_device(device: Device, needs: Needs, thresholds: Thresholds, *, own_cores: bool = False) -> Graded:
    """The device on a line of ``needs.line_bps``, which is given. ``own_cores``: with as much as gateways with cores of
    their own carry at most, where that is known."""
    assert needs.line_bps is not None
    share, demand_bps = thresholds.share(needs.traffic), thresholds.demand_bps(needs.up_bps or 0.0, needs.traffic)
    measured, (device, small) = device, _for_traffic(device, needs, thresholds)
    here_bps, most_bps = _carried_bps(device, needs, thresholds, share, small)
    if own_cores:
        here_bps = np.where(np.isfinite(most_bps), most_bps, here_bps)
    bars, back = _bars_bps(device, demand_bps, device.path_bps, thresholds), _back(device)
    both, down_bps = both_ways(device, needs), thresholds.demand_bps(needs.line_bps, needs.traffic)
    down_bars = _bars_bps(device, down_bps, device.path_down_bps, thresholds)
    fit_room, least_room, room, most_room = (
        _room(carried, bar, down_bar, back, both)
        for carried, bar, down_bar in (
            *((here_bps, bar, down_bar) for bar, down_bar in zip(bars, down_bars, strict=True)),
            (most_bps, bars[2], down_bars[2]),
        )
    )
    # What does not carry the line is judged at what it carries.
    capacity_bps = _median(here_bps)
    reached_bps = min(demand_bps, capacity_bps) if math.isfinite(capacity_bps) else demand_bps
    # Datagrams of a mixture meet a tunnel that is as busy as datagrams alone make it at the same share of the capacity.
    busy = reached_bps / capacity_bps if capacity_bps else 1.0
    judged_bps = thresholds.load * busy * _median(_or_unknown(device.udp_bps))
    laddered = replace(device, tcp_bps=measured.tcp_bps)  # its ladder is climbed by one connection
    attempts, control = count_attempts(laddered, needs, thresholds, reached_bps, judged_bps)
    busiest_bps = max(reached_bps, min(down_bps, _median(back) * capacity_bps)) if capacity_bps >= 0 else reached_bps
    cores = _cost(device, busiest_bps / small, share)
    carrying: Criterion = "path" if device.own_gateways else "capacity"
    found: dict[Criterion, tuple[Codes, Array]] = {
        carrying: (_capacity(device, fit_room, least_room, share), here_bps),
        **(_of_datagrams(device, needs, thresholds, judged_bps) if share else {}),
        **_of_round_trips(device, needs, thresholds),
        **_of_tunnel(device, needs, thresholds, share, small),
        **_of_past(device, needs, thresholds, attempts, control, judged_bps),
        **_of_cores(device, busiest_bps, thresholds),
        **_of_window(device, needs, thresholds),
        "cost": (np.where(np.isnan(cores), Grade.UNKNOWN, Grade.FITS).astype(np.int8), cores),
    }
    return Graded(
        device,
        {criterion: codes for criterion, (codes, _) in found.items()},
        here_bps,
        most_bps,
        cores,
        busiest_bps,
        {criterion: values for criterion, (_, values) in found.items()},
        attempts,
        excess(attempts, control, Z_ONE_SIDED)[2] <= thresholds.bad_share.fits,
        judged_bps,
        room,
        most_room,
        needs.traffic == "calls" and _is_by_packets(measured, thresholds),
    )


def _carried_bps(
    device: Device, needs: Needs, thresholds: Thresholds, share: float, small: float
) -> tuple[Array, Array]:
    """What the device carries of this traffic, here, and at most on gateways with cores of their own."""
    here_bps = _mixture_bps(device.tcp_bps, _scale(device.udp_bps, small), share)
    most_bps = _mixture_bps(
        _scale(device.tcp_bps, device.growth.get("tcp", math.inf)),
        _scale(device.udp_bps, small * device.growth.get("udp", math.inf)),
        share,
    )
    if not device.one_connection or device.by_datagrams:  # they went through it, with the path's losses
        return here_bps, most_bps
    one_bps = _one_bps(device, needs, thresholds)  # all connections share one
    return np.minimum(here_bps, one_bps), np.minimum(most_bps, one_bps)


def _back(device: Device) -> Array:
    """What the way to gw1 carries over what the way from it does; the same, where nobody measured it."""
    if device.down_bps is None or device.tcp_bps is None:
        return np.ones(DRAWS)
    with np.errstate(divide="ignore", invalid="ignore"):  # it carries nothing
        return np.asarray(device.down_bps / device.tcp_bps)


def both_ways(device: Device, needs: Needs) -> Array | None:
    """What both ways at once carry, added, over what the way from gw1 does; None where nobody measured it or asks for
    it. Between the user's own gateways the bare path may carry less both ways than each way, which nobody measures."""
    if needs.line_up_bps is None or device.own_gateways or device.both_bps is None or device.tcp_bps is None:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):  # it carries nothing
        return np.asarray(device.both_bps / device.tcp_bps)


def _room(carried_bps: Array, bar_bps: float, down_bar_bps: float, back: Array, both: Array | None) -> Array:
    """What it carries over the bars of the line: of the way that has less, or of both at once, which add up."""
    with np.errstate(invalid="ignore"):  # nobody knows how often nothing
        rooms = [carried_bps / bar_bps, back * carried_bps / down_bar_bps]
        rooms += [] if both is None else [both * carried_bps / (bar_bps + down_bar_bps)]
        return np.asarray(np.minimum.reduce(rooms))


def _bars_bps(
    device: Device, demand_bps: float, path_bps: float | None, thresholds: Thresholds
) -> tuple[float, float, float]:
    """From which capacities on a device fits, fits with a reservation, and carries one way of the line. Between the
    user's own gateways nothing has a reserve above the path."""
    if not device.own_gateways:
        return thresholds.headroom * demand_bps, demand_bps, demand_bps
    step, path_bps = thresholds.path_share, math.inf if path_bps is None else path_bps
    fits_bps = min(demand_bps, step.fits * path_bps)
    return fits_bps, min(demand_bps, step.little * path_bps), fits_bps


def _of_datagrams(
    device: Device, needs: Needs, thresholds: Thresholds, rate_bps: float
) -> dict[Criterion, tuple[Codes, Array]]:
    """By what it loses of datagrams, and, of calls, by how long they take."""
    curve = device.curves.get("datagrams")
    loss = _interpolate(curve, "loss_ratio", rate_bps, device.udp_bps, thresholds.load)
    if device.own_gateways:  # elsewhere the bare path loses nothing
        loss = np.maximum(loss - (needs.path_loss_ratio or 0.0), 0.0)
    found: dict[Criterion, tuple[Codes, Array]] = {"loss": (_step(loss, thresholds.loss_ratio), loss)}
    if needs.traffic == "calls":
        delay = _interpolate(curve, "delay_ms", rate_bps, device.udp_bps, thresholds.load)
        whole = delay + (needs.path_rtt_ms or 0.0) / 2
        found["delay"] = _step(delay, thresholds.delay_ms), delay
        found["mouth_to_ear"] = _step(whole, thresholds.mouth_to_ear_ms), whole
    return found


def _of_round_trips(device: Device, needs: Needs, thresholds: Thresholds) -> dict[Criterion, tuple[Codes, Array]]:
    """By what it adds to a round trip, where somebody notices."""
    if needs.traffic not in ("mixed", "transactions"):
        return {}
    floor_ms = thresholds.mixed_rtt_ms if needs.traffic == "mixed" else thresholds.transactions_rtt_ms
    noticed_ms = max(floor_ms, thresholds.rtt_share * (needs.path_rtt_ms or 0.0))
    rtt = _or_unknown(device.rtt_added_ms)
    return {"rtt": (_step(rtt, Step(noticed_ms, math.inf)), rtt)}


def _of_tunnel(
    device: Device, needs: Needs, thresholds: Thresholds, share: float, small: float
) -> dict[Criterion, tuple[Codes, Array]]:
    """By how long it takes to come up, what it is made of, and when it broke down."""
    found: dict[Criterion, tuple[Codes, Array]] = {}
    if device.real:  # elsewhere a set-up is how long programs take to start
        setup = _or_unknown(device.setup_s)
        found["setup"] = _step(setup, thresholds.setup_s), setup
    lossy = needs.path_loss_ratio is None or needs.path_loss_ratio >= thresholds.one_tcp_loss_ratio
    if device.one_connection and lossy and (share or not _on_path(device, needs)):  # a lost packet delays all datagrams
        found["one_connection"] = _same_grade(Grade.LITTLE, math.nan)
    if share and device.breakdown_bps is not None:
        assert needs.line_bps is not None
        broken = small * device.breakdown_bps <= max(needs.line_bps, needs.line_up_bps or 0.0)
        found["breakdown"] = _same_grade(Grade.USELESS if broken else Grade.FITS, device.breakdown_bps)
    return found


def _of_cores(device: Device, rate_bps: float, thresholds: Thresholds) -> dict[Criterion, tuple[Codes, Array]]:
    """By what it takes of the busiest core between the user's own gateways, where the reserve must be."""
    if device.full_core_bps is None:
        return {}
    load = rate_bps / device.full_core_bps
    return {"cores": _same_grade(Grade.FITS if load <= thresholds.core_load else Grade.LITTLE, load)}


def path_shares(one: Graded) -> tuple[float | None, float | None]:
    """What it carries of the path between the user's own gateways, from gw1 and to it; None elsewhere, and where nobody
    knows."""
    device = one.device
    if device.path_bps is None or device.path_down_bps is None or np.isnan(one.capacity_bps).any():
        return None, None
    down = None if device.down_bps is None else _median(_back(device) * one.capacity_bps) / device.path_down_bps
    return _median(one.capacity_bps) / device.path_bps, down


def limit(one: Graded, thresholds: Thresholds) -> Limit | None:
    """What limits it: the packets of calls anywhere, by their ladder; all else between the user's own gateways. None
    where nobody knows."""
    filled = [share for share in path_shares(one) if share is not None]
    full_core_bps = one.device.full_core_bps
    if filled and min(filled) >= thresholds.path_share.fits:
        return "path"
    if one.by_packets:
        return "packets"
    if not filled:
        return None
    if full_core_bps is not None and _median(one.capacity_bps) >= thresholds.core_load * full_core_bps:
        return "cores"
    return "window" if one.device.one_connection else None


def count_attempts(
    device: Device, needs: Needs, thresholds: Thresholds, tcp_bps: float, datagrams_bps: float
) -> tuple[Counts, Counts]:
    """The attempts that tell whether the VPN always does what the line asks of it, and those of plain IP and the other
    VPNs beside it: at the rungs up to the first that is not below the judged rates, ``tcp_bps`` and ``datagrams_bps``,
    and at least at the three lowest, as far as lines of their rates would fit the VPN; each trial without a number is a
    bad one; and each quarter of a second of the watch. TCP and datagrams both count, whatever the traffic: both show
    whether the tunnel is there."""
    own, control = Counts(device.failed, device.failed), Counts()
    asked = {"tcp": (thresholds.load * tcp_bps, device.tcp_bps), "datagrams": (datagrams_bps, device.udp_bps)}
    for kind, (rate_bps, capacity) in asked.items():
        rungs = device.attempts.get(kind, ())
        capacity_bps = _median(_or_unknown(capacity))
        top = sum(rung.rate_bps < rate_bps for rung in rungs)  # the first that is not below
        for at, rung in enumerate(rungs):
            fits = thresholds.headroom * thresholds.demand_bps(rung.rate_bps) <= capacity_bps
            if at <= max(top, LOWEST - 1) and (fits or at == 0):
                mine, others = rung.counts(of_calls=needs.traffic == "calls")
                own, control = own.plus(mine), control.plus(others)
    if watched := relevant_watch(device, datagrams_bps):
        own = own.plus(_windows(watched))
        if device.plain_watched:
            control = control.plus(_windows(device.plain_watched))
    return own, control


def relevant_watch(device: Device, rate_bps: float) -> Watched | None:
    """The long watch of the VPN, where it tells of this rate: a clean one at a rate that is no lower, and any other at
    one that is not higher. What does well at more does so here, and what fails at less does, too."""
    watched = device.watched
    if watched is None:
        return None
    clean = not watched.bad_windows and not watched.broke_down
    tells = watched.rate_bps >= WATCHED * rate_bps if clean else watched.rate_bps <= rate_bps / WATCHED
    return watched if tells else None


def _for_traffic(device: Device, needs: Needs, thresholds: Thresholds) -> tuple[Device, float]:
    """The device as it carries this traffic, and what a packet of it has of one that was measured. Of many TCP
    connections it is what was measured with them. Of calls its datagrams are those of calls, and the path has less
    room. Where nobody measured them, it is reckoned that it carries as many packets as of the longer ones: at least,
    between gateways whose path may have been the limit."""
    if needs.connections > 1:
        many = device.many or ManyTcp()
        growth = {**device.growth, "tcp": many.growth}
        device = replace(device, tcp_bps=many.tcp_bps, down_bps=many.down_bps, both_bps=many.both_bps, growth=growth)
    if needs.traffic != "calls":
        return device, 1.0
    part = thresholds.call_bytes / device.payload_bytes
    ways = [
        way and way * thresholds.call_share / thresholds.payload_share
        for way in (device.path_bps, device.path_down_bps)
    ]
    device = replace(
        device,
        path_bps=ways[0],
        path_down_bps=ways[1],
        full_core_bps=device.full_core_bps and part * device.full_core_bps,
    )
    if is_reckoned(device, needs):
        at_least = device.at_least | ({"udp"} if device.own_gateways else set())
        return replace(device, at_least=at_least), part
    at_least = frozenset({"udp"} if "calls" in device.at_least else set())
    kinds = {"tcp": "tcp", "datagrams": "calls"}
    return replace(
        device,
        udp_bps=device.calls_bps,
        at_least=at_least,
        breakdown_bps=None,
        curves={kind: device.curves[own] for kind, own in kinds.items() if own in device.curves},
        attempts={kind: device.attempts[own] for kind, own in kinds.items() if own in device.attempts},
    ), 1.0


def is_reckoned(device: Device, needs: Needs) -> bool:
    """Has nobody measured the packets that this traffic sends?"""
    return needs.traffic == "calls" and device.calls_bps is None


def _is_by_packets(device: Device, thresholds: Thresholds) -> bool:
    """Are nearly as few of the packets of calls carried as of the longer ones, of which each has several times their
    bits? A tunnel that bits limit carries so many times as many."""
    if device.calls_bps is None or device.udp_bps is None or "calls" in device.at_least:
        return False
    longer = device.payload_bytes / thresholds.call_bytes
    return _median(device.calls_bps) * longer <= thresholds.packets * _median(device.udp_bps)


def _windows(watched: Watched) -> Counts:
    return Counts(watched.windows - watched.limited_windows, watched.bad_windows)


def _of_past(
    device: Device, needs: Needs, thresholds: Thresholds, attempts: Counts, control: Counts, rate_bps: float
) -> dict[Criterion, tuple[Codes, Array]]:
    """By what the VPN did in the past: the share of bad attempts, where it is surely more than that of the others, and
    the longest gap of its watch."""
    low, beyond, _ = excess(attempts, control)
    step, failures = thresholds.bad_share, Grade.FITS
    if 2 * device.failed >= device.trials > 0:
        failures = Grade.UNKNOWN
    elif low > 0 and beyond > step.fits:
        failures = Grade.LITTLE if beyond <= step.little else Grade.USELESS
    found: dict[Criterion, tuple[Codes, Array]] = {"failures": _same_grade(failures, attempts.share)}
    if watched := relevant_watch(device, rate_bps):
        longest = thresholds.call_gap_s if needs.traffic == "calls" else thresholds.gap_s
        gap_s = watched.longest_gap_s
        found["gap"] = _same_grade(Grade.FITS if gap_s <= longest else Grade.LITTLE, gap_s)
    return found


def _of_window(device: Device, needs: Needs, thresholds: Thresholds) -> dict[Criterion, tuple[Codes, Array]]:
    """By what one connection has on its way, where that is little for the path's round trip and nobody has measured
    what it carries there."""
    demand_bps = thresholds.demand_bps(max(needs.line_bps or 0.0, needs.up_bps or 0.0), needs.traffic)
    window_bps = thresholds.window_bps(needs.path_rtt_ms, device.window_bytes)
    measured = device.own_gateways or _on_path(device, needs)
    if not device.one_connection or measured or window_bps >= thresholds.headroom * demand_bps:
        return {}
    return {"window": _same_grade(Grade.LITTLE if window_bps >= demand_bps else Grade.SHORT, window_bps)}


def _on_path(device: Device, needs: Needs) -> OnPath | None:
    """What was measured on a path of this round trip and loss; the last of it."""
    rtt_ms, loss_ratio = needs.path_rtt_ms or 0.0, needs.path_loss_ratio or 0.0
    like = [one for one in device.on_path if same(one.rtt_ms, rtt_ms) and same(one.loss_ratio, loss_ratio)]
    return like[-1] if like else None


def _one_bps(device: Device, needs: Needs, thresholds: Thresholds) -> float:
    """What one connection carries on the path, bit/s: as it was measured; what its losses and its window let it where
    nobody has, or where that is more and the trial's WAN was full."""
    usual_bps, seen = thresholds.one_tcp_bps(needs.path_rtt_ms, needs.path_loss_ratio), _on_path(device, needs)
    if not device.own_gateways:  # there what is on its way was measured with the rest
        usual_bps = min(usual_bps, thresholds.window_bps(needs.path_rtt_ms, device.window_bytes))
    if seen is None:
        return usual_bps
    return max(seen.tcp_bps, usual_bps) if seen.tcp_bps >= FULL * seen.rate_bps else seen.tcp_bps


def _same_grade(code: Grade, value: float) -> tuple[Codes, Array]:
    """This grade, by this value, in every draw."""
    return np.full(DRAWS, code, dtype=np.int8), np.full(DRAWS, value)


def _or_unknown(draws: Array | None) -> Array:
    return np.full(DRAWS, np.nan) if draws is None else draws


def _scale(draws: Array | None, factor: float) -> Array | None:
    with np.errstate(invalid="ignore"):  # nobody knows how often nothing
        return None if draws is None else draws * factor


def _median(draws: Array) -> float:
    return float(np.median(draws))


def _mixture_bps(tcp_bps: Array | None, udp_bps: Array | None, share: float) -> Array:
    """The rate of a mixture whose ``share`` of bytes is datagrams: its time is that of both parts."""
    time: Array = np.zeros(DRAWS)
    with np.errstate(divide="ignore"):  # what carries nothing takes for ever
        for part, bps in ((1 - share, tcp_bps), (share, udp_bps)):
            if part:
                time = time + part / _or_unknown(bps)
        return np.asarray(1 / time)


def _capacity(device: Device, fit_room: Array, least_room: Array, share: float) -> Codes:
    """By its capacity over that from which on it fits, and fits with a reservation. Known from below only, and below
    that, nobody knows whether it carries the line."""
    bounded = (share < 1 and "tcp" in device.at_least) or (share > 0 and "udp" in device.at_least)
    short = Grade.UNKNOWN if bounded else Grade.SHORT
    codes = np.where(least_room >= 1, Grade.LITTLE, short)
    codes = np.where(fit_room >= 1, Grade.FITS, codes)
    return np.where(np.isnan(fit_room), Grade.UNKNOWN, codes).astype(np.int8)


def _step(draws: Array, step: Step) -> Codes:
    codes = np.where(draws <= step.fits, Grade.FITS, np.where(draws <= step.little, Grade.LITTLE, Grade.USELESS))
    return np.where(np.isnan(draws), Grade.UNKNOWN, codes).astype(np.int8)


def _interpolate(
    curve: Curve | None,
    name: Literal["loss_ratio", "delay_ms"],
    rate_bps: float,
    capacity: Array | None,
    load: float,
) -> Array:
    """What the ladder says of this rate: straight in the rate's logarithm between rungs that the VPN carries with room,
    up to ``load`` of its capacity. Above the last of them and up to the capacity it is that of the last, because a
    rung that fills the tunnel tells nothing of one that does not; beyond the capacity it is the first full one's."""
    if curve is None:
        return np.full(DRAWS, np.nan)
    rates = curve.rates_bps
    draws: Array = getattr(curve, name)
    above = int(np.searchsorted(rates, rate_bps))
    if above == 0 or rates[above - 1] == rate_bps:
        return np.asarray(draws[:, max(0, above - 1)])
    below, carries = above - 1, rate_bps <= _or_unknown(capacity)
    if above == len(rates):
        return np.asarray(draws[:, below])
    part = math.log(rate_bps / rates[below]) / math.log(rates[above] / rates[below])
    between = (1 - part) * draws[:, below] + part * draws[:, above]
    with_room = rates[above] <= load * _or_unknown(capacity)
    return np.asarray(np.where(carries, np.where(with_room, between, draws[:, below]), draws[:, above]))


def _cost(device: Device, rate_bps: float, share: float) -> Array:
    """The cores of a gateway that this rate takes: of either kind its share."""
    cores = np.zeros(DRAWS)
    for part, kind in ((1 - share, "tcp"), (share, "datagrams")):
        if part:
            cores = cores + part * _cores(device.curves.get(kind), rate_bps)
    return cores


def _cores(curve: Curve | None, rate_bps: float) -> Array:
    """The cores at this rate: between the rungs that were carried straight in logarithms, or, where one of both is not
    above 0, in the rate's; the same below the lowest, and in proportion to the rate above the highest."""
    if curve is None:
        return np.full(DRAWS, np.nan)
    known = [at for at, carried in enumerate(curve.carried) if carried] or [0]
    rates, cores = curve.rates_bps[known], curve.cores[:, known]
    if rate_bps <= rates[0]:
        return np.asarray(cores[:, 0])
    if rate_bps >= rates[-1]:
        return np.asarray(cores[:, -1] * rate_bps / rates[-1])
    above = int(np.searchsorted(rates, rate_bps))
    part = math.log(rate_bps / rates[above - 1]) / math.log(rates[above] / rates[above - 1])
    low, high = cores[:, above - 1], cores[:, above]
    positive = (low > 0) & (high > 0)
    logs = (1 - part) * np.log(np.where(positive, low, 1.0)) + part * np.log(np.where(positive, high, 1.0))
    return np.asarray(np.where(positive, np.exp(logs), (1 - part) * low + part * high))
