"""UDP throughput and jitter by slices between which other tunnels have their turn: a short look at the jitter, and a
trial."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from runner.data.errors import CommandError, MeasurementError
from runner.data.remarks import Remark, breakdown_remarks
from runner.data.trials import Value
from runner.instruments.instrument import Asked, Go, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.arrivals import sustained_share
from runner.instruments.tools.fragments import IP_UDP_BYTES, IPV6_UDP_BYTES, headers_bytes
from runner.instruments.tools.generator import BURST, Arrived, Generator, Load, at_once, generator, imix, smooth_burst
from runner.instruments.tools.limits import Limits
from runner.instruments.tools.recovery import ECHO_FOR_S, PATIENT, await_empty_queues, broke_down
from runner.instruments.tools.searched import last_losses, trial_rows
from runner.instruments.tools.visits import visits
from runner.search import SearchTrial
from runner.search.rounds import StepwiseSearch
from runner.search.settings import LOSS_RATIO, LOWEST_BPS
from runner.search.steps import Offer as Offered
from runner.tunnel.bring_up import Bench

CAREFUL_RTTS = 8  # of a trial and a warm-up through a tunnel in TCP: after a pause, that begins with a few segments
JITTER_S = 0.1
WARM_UP_S = 0.2
OVERHEAD_S = 0.06
LOOK_S = JITTER_S + OVERHEAD_S
USUAL_TRIALS = 30  # where there is neither a conductor nor a budget
MOST_SEEDS = 30
MOST_SOURCES = 16  # addresses: many flows differ by their ports, too
# A careful search overloads by a fifth for 0.15 s. A tunnel in TCP has carried that 0.03 s later, or it waits for a
# timer that doubles (RFC 6298 §5.5): a new tunnel is there sooner.
CAREFUL_PATIENT, CAREFUL_ECHO_FOR_S = 1, 1
NEAR = 0.1  # the goodput is that of trials which passed and offered the throughput within this share
CAREFUL_START = 0.5
MEMORY = "udp"  # its place in Asked.memory
WAYS = {"forward": (False,), "reverse": (True,), "both": (False, True)}  # from host2 to host1?


@dataclass
class SearchMemory:
    """What the instances of one tunnel have found so far; it lives in ``Asked.memory``."""

    search: StepwiseSearch
    variations_ms: list[float] = field(default_factory=list)  # of the delay, of all looks
    breakdowns_bps: list[float] = field(default_factory=list)
    bursts: list[float] = field(default_factory=list)  # packets that left back to back, of each trial, on the mean
    longest_burst: int = 0


@dataclass
class Offering:
    """Offers the search's loads to the tunnel that is up, and makes that anew where one breaks it down."""

    bench: Bench
    shape: Load  # its rate and duration are each trial's own
    so_far: SearchMemory
    reverse: tuple[bool, ...] = (False,)  # of each way that packets go at the same time: from host2 to host1?
    limits: Limits = field(default_factory=Limits)

    @property
    def address(self) -> str:
        """Where host1 reaches host2 through the tunnel that is up now."""
        return self.bench.address

    @property
    def generators(self) -> list[Generator]:
        """The generators of the tunnel that is up now, one for each way."""
        address, fragments = self.address, self.shape.fragment
        return [generator(self.bench, address, reverse=reverse, fragments=fragments) for reverse in self.reverse]

    @property
    def payload_bytes(self) -> float:
        """The mean payload of a packet, bytes."""
        return self.shape.mean_bytes - headers_bytes(self.address)

    def load(self, rate_bps: float, duration_s: float) -> Load:
        """The load of each way, which together offer ``rate_bps`` of payload."""
        per_s = rate_bps / (8 * self.payload_bytes * len(self.reverse))
        burst = smooth_burst(per_s * duration_s) if self.shape.burst == BURST else self.shape.burst
        return replace(self.shape, per_s=per_s, seconds=duration_s, burst=burst)

    def warm_up(self, rate_bps: float) -> None:
        """Offer ``rate_bps`` for a moment: a fresh tunnel in TCP begins slowly, and would break down."""
        shortest_s = self.so_far.search.shortest_s
        at_once(self.generators, self.load(rate_bps, max(WARM_UP_S, shortest_s)))

    def broke_down(self) -> bool:
        """Does the tunnel carry nothing any more? One that only empties its queues gets a few seconds."""
        return broke_down(self.bench, CAREFUL_PATIENT if self.so_far.search.careful else PATIENT)

    def trial(self, rate_bps: float, duration_s: float) -> SearchTrial:
        """One trial. A rate that breaks the tunnel down counts as lost altogether, and the tunnel is made anew."""
        load, ways = self.load(rate_bps, duration_s), list[Arrived]()
        try:
            ways = at_once(self.generators, load)
        except (MeasurementError, CommandError):
            if not self.broke_down():  # the instrument failed, not the tunnel
                ways = at_once(self.generators, load)
        purpose = self.so_far.search.purpose
        if not any(way.received for way in ways) and (not ways or self.broke_down()):
            self.anew(rate_bps)
            return SearchTrial(rate_bps, rate_bps, duration_s, 1, 0, purpose)
        self.so_far.bursts += [way.burst for way in ways]
        self.so_far.longest_burst = max(self.so_far.longest_burst, *(way.longest_burst for way in ways))
        sent, kept_up = sum(way.sent for way in ways), sum(way.kept_up for way in ways)
        offered_bps = rate_bps * statistics.fmean(way.sent / (load.per_s * way.seconds) for way in ways)
        sustained_bps = None
        if len(ways) == 1 and kept_up < (1 - self.so_far.search.loss_ratio) * sent:
            share = sustained_share(ways[0].samples, ways[0].seconds, ways[0].received / sent)
            sustained_bps = share and share * offered_bps
        return SearchTrial(rate_bps, offered_bps, duration_s, sent, kept_up, purpose, sustained_bps)

    def anew(self, rate_bps: float) -> None:
        """Another tunnel in place of one that this rate broke down."""
        self.so_far.breakdowns_bps.append(rate_bps)
        self.bench.renew()
        self.warm_up(rate_bps / 2)

    def reading(self, load: Offered) -> dict[str, float]:
        """Run one trial, from which the search learns. Returns its counts, and its own reading once the search has
        begun."""
        search = self.so_far.search
        with self.limits.slice(self.bench, load.rate_bps) as piece:
            trial = self.trial(*load)
            piece.note_carried(trial.received * self.payload_bytes, trial.sent * self.payload_bytes)
        search.learn(trial)
        values = {"asked_rate_bps": trial.asked_rate_bps, "sent": trial.sent, "received": trial.received}
        if not search.seeding and not search.generator_limited:
            values["udp_throughput"] = search.reading_bps(trial)
        self.settle(load.rate_bps)
        return values

    def jitter(self) -> dict[str, float]:
        """One short look, the first way; nothing where too few datagrams came."""
        with suppress(MeasurementError):
            variations_ms = self.generators[0].variations_ms(JITTER_S)
            self.so_far.variations_ms += variations_ms
            return {"jitter": statistics.median(variations_ms)}
        return {}

    def settle(self, rate_bps: float) -> None:
        """Wait until the tunnel's queues are empty, which an echo and its answer show; else the next tunnel's turn
        would pay for them. A tunnel that this rate broke down for good answers no echo, and is made anew. So is one in
        TCP that has not answered yet: what it carries while it recovers says nothing of its throughput."""
        careful = self.so_far.search.careful
        answered = await_empty_queues(self.bench, self.address, CAREFUL_ECHO_FOR_S if careful else ECHO_FOR_S)
        if not answered and (careful or self.broke_down()):
            self.anew(rate_bps)

    def seed(self) -> None:
        """Trials until something has failed, and something has passed; or until the generator can offer no more."""
        search = self.so_far.search
        while (
            search.seeding and not search.generator_limited and not search.hopeless and len(search.trials) < MOST_SEEDS
        ):
            trial = self.trial(*search.next_load())
            search.learn(trial)
            if trial.loss_ratio > search.loss_ratio:  # it has filled the queues
                self.settle(trial.asked_rate_bps)


def shape_of(params: Mapping[str, str], fragment: bool) -> tuple[Load, str]:
    """What these levels ask to offer, and its lengths in words; the rate and the duration are open."""
    headers = IPV6_UDP_BYTES if params.get("inner") == "6" else IP_UDP_BYTES
    longest_bytes, flows = int(params["payload_bytes"]) + headers, int(params.get("flows", 1))
    lengths, name = imix(longest_bytes, v6=params.get("inner") == "6")
    if params.get("lengths") != "imix":
        lengths, name = (longest_bytes,), str(longest_bytes)
    load = Load(
        lengths,
        per_s=0,
        seconds=0,
        burst=int(params.get("burst_packets", BURST)),
        flows=flows,
        sources=min(flows, MOST_SOURCES),
        dscp=int(params.get("dscp", 0)),
        fragment=fragment,
    )
    return load, name


def udp_in_rounds(bench: Bench, asked: Asked, fragment: bool, *, turns: bool) -> Measuring:
    """UDP throughput of the median trial, and jitter. A slice is a short look at the jitter, and a trial of the search.

    With ``turns`` it goes on until it is told to end; else it takes as long as the search's budget. One search goes on
    over all the instances of the tunnel that share ``asked.memory``. Raises MeasurementError where there is no
    throughput.
    """
    settings = asked.profile.udp
    so_far = so_far_of(asked, bench)
    search, first = so_far.search, len(so_far.search.trials)
    warm_s = asked.profile.warm_budget_s if asked.known_bps is not None else None
    budget_s = warm_s or settings.budget_s or USUAL_TRIALS * (settings.trial_duration_s + LOOK_S)
    shape, lengths = shape_of(asked.params, fragment)
    reverse = WAYS[asked.params.get("ways", "forward")]
    offering = Offering(bench, shape, so_far, reverse)
    if first:
        offering.warm_up(search.next_load().rate_bps / 2)
    offering.seed()
    while True:
        values = offering.jitter() if asked.wants("jitter") else {}  # first, while the tunnel is idle
        go = yield values | offering.reading(search.next_load())
        spent_s = sum(trial.duration_s + LOOK_S for trial in search.trials[first:])
        if go is Go.END or search.hopeless or (not turns and spent_s >= budget_s):
            break
    measured = Measured()
    made_of = {"payload_bytes": int(asked.params["payload_bytes"]), "ip_bytes": lengths, "burst_packets": shape.burst}
    measured.measurements += throughput(so_far, first, made_of, measured, turns=turns)
    measured.loads = offering.limits.machine_loads(measured.measurements[0].value)
    if so_far.variations_ms:
        spread: dict[str, Any] = {
            "mean_ms": statistics.fmean(so_far.variations_ms),
            "look_s": JITTER_S,
            "estimand": "median",
        }
        measured.measurements.append(measurement("jitter", statistics.median(so_far.variations_ms), **spread))
    elif asked.wants("jitter"):
        why = "too few datagrams of the jitter stream arrived"
        measured.remarks.append(Remark(kind="no value", subject="jitter", why=why))
    measured.remarks += breakdown_remarks("UDP", so_far.breakdowns_bps)
    return measured


def so_far_of(asked: Asked, bench: Bench) -> SearchMemory:
    """What earlier instances have found, or a new search. It begins at the TCP throughput; through a tunnel that is
    itself TCP, which overload may break down, at half of it. Raises MeasurementError."""
    if MEMORY not in asked.memory:
        settings, careful = asked.profile.udp, asked.vpn.transport == "tcp"
        start_bps = asked.known_bps or visits(bench).fresh_bps * (CAREFUL_START if careful else 1)
        search = StepwiseSearch(
            LOSS_RATIO + bench.lab.path_loss_ratio,
            min_rate_bps=settings.min_rate_bps or LOWEST_BPS,
            max_rate_bps=settings.max_rate_bps,
            trial_duration_s=settings.trial_duration_s,
            first_rate_bps=start_bps,
            careful=careful,
            shortest_s=CAREFUL_RTTS * bench.lab.rtt_s if careful else 0.0,
        )
        asked.memory[MEMORY] = SearchMemory(search)
    so_far: SearchMemory = asked.memory[MEMORY]
    return so_far


def throughput(
    so_far: SearchMemory, first: int, made_of: Mapping[str, Any], measured: Measured, *, turns: bool
) -> list[Value]:
    """The throughput by all trials so far, and the goodput there. Trials before ``first`` are earlier instances'.

    ``made_of``: what the trials were made of, for the detail. ``turns``: the slices are the samples. Raises
    MeasurementError where no trial passed.
    """
    search = so_far.search
    passed = [trial for trial in search.trials if trial.loss_ratio <= search.loss_ratio]
    if not passed:
        bound, last = f"{100 * search.loss_ratio:.3g}%", last_losses(search.trials)
        why = f"no UDP throughput: every trial lost more than {bound}: {last}"
        slow = any(trial.asked_rate_bps <= search.min_rate_bps for trial in search.trials)
        flag = "no_throughput" if slow else "unconfirmed"
        raise MeasurementError(why, **(detail_of(so_far, first) | {"flags": [flag]}))
    # Where VPNs take turns, the readings of the slices are the samples: they follow the drift, which a posterior
    # over all of them takes for noise.
    detail = detail_of(so_far, first) | {**made_of, "pooled": not turns, "estimand": "median"}
    if search.generator_limited or search.seeding:
        highest_bps = statistics.median_high(trial.offered_rate_bps for trial in passed[-3:])
        why = (
            "the generator could offer no more"
            if search.generator_limited
            else "its time ended before a higher rate failed"
        )
        measured.warnings.append(f"UDP throughput is at least this: {why}")
        return [measurement("udp_throughput", highest_bps, interval_bps=None, **detail)]
    median = search.median()
    detail["interval_bps"] = [round(median.low_bps), round(median.high_bps)]
    detail["spread"] = round(median.spread, 4)
    if math.isfinite(search.sustained_bps):
        measured.warnings.append("UDP throughput is what goes on: the first part of each load passed as a burst")
    value = measurement("udp_throughput", median.rate_bps, **detail)
    return [value, *goodput(passed, median.rate_bps)]


def detail_of(so_far: SearchMemory, first: int) -> dict[str, Any]:
    """What a search did, as data for the trial's line: the trials since ``first``, and what holds for all."""
    search = so_far.search
    return {
        "criterion": f"the median trial of {search.duration_s:g} s loses {100 * search.loss_ratio:.3g} %",
        "confirmed_rate_bps": None,
        "flags": ["generator_limited"] if search.generator_limited else [],
        "trials": trial_rows(search.trials[first:]),
        "trials_of_all_instances": len(search.trials),
        "burst_packets_sent": round(statistics.median(so_far.bursts), 1) if so_far.bursts else None,
        "burst_packets_longest": so_far.longest_burst or None,
        "breakdowns_bps": so_far.breakdowns_bps,
    }


def goodput(passed: list[SearchTrial], rate_bps: float) -> list[Value]:
    """What came through at the throughput: median of the trials that passed and offered nearly that rate."""
    near = [trial.forwarded_rate_bps for trial in passed if abs(trial.offered_rate_bps / rate_bps - 1) <= NEAR]
    return [measurement("udp_goodput", statistics.median(near), trials=len(near))] if near else []
