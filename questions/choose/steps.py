"""What a choice still takes on trust, and the trials that show it: that what is named carries its line without a break,
musts that are declared or unknown, and what one TCP connection carries where the path loses packets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from questions.choose.judgement import Choice
from runner.choice.answer import Words, answer
from runner.choice.device import Device
from runner.choice.devices import LOSSY
from runner.choice.grade import WATCHED, grade_device
from runner.choice.model import RATES_BPS, Grade
from runner.choice.musts import SHOWN_BY, words_of
from runner.choice.thresholds import USUAL
from runner.data.asked import AskedRun
from runner.data.errors import UsageError
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.numbers import real
from runner.data.wan import in_range
from runner.design.question import Evidence, Left, Step

LINE_ROOM = 1.5  # times the line is the WAN's rate: what carries 1.25 of the demand fits
STEADY_BPS = "steady_bps"
WATCH_S, ALONE_S = 45.0, 34.0  # that it takes, with plain IP's stretch and two tunnels, and without
KEPT, LATE_S = 0.4, 12.0  # of a deadline's time, at most, is kept for that; a round may end so late
LONG_RTTS_MS = (400.0, 800.0)
LONG_WAN = {
    "wan_rate_bps": 100e6,
    "wan_loss_ratio": 0.0,
    "wan_queue_ms": 200.0,
}  # 8 MB do not fill the longer
LONG_S, LONG_MOST_S = 20, 60.0  # twice the round trips of slow start
LOSSY_S, LOSSY_MOST_S = 8, 25.0  # for CUBIC to find its rate; with the tunnel and the probe of its WAN
WINDOW_ROOM = 2.0  # times what fits: the window that is assumed may be too large by so much
EACH_S = 20.0  # that the passes of one VPN's ladders take, with its tunnels, before anything is sure of it


def kept_s(asked: AskedRun, left_s: float) -> float:
    """The seconds that are kept to watch what will be named: of one line one VPN, else two. 0 where nobody says how
    long the run may take, and where that is too short."""
    if not may_watch(asked):
        return 0.0
    vpns = min(int((KEPT * left_s - LATE_S) / WATCH_S), 1 if asked.needs.line_bps else 2)
    return LATE_S + vpns * WATCH_S if vpns > 0 else 0.0


def may_watch(asked: AskedRun) -> bool:
    """Does a run that is asked for so watch what it names? Only where somebody says how long it may take."""
    return asked.deadline_s is not None and asked.farm is None


def steps(choice: Choice, evidence: Evidence, left: Left) -> Iterator[Step]:
    """Where every asked line has its answer: trials of what the named VPNs are trusted with, then others that may suit.
    In any case, what is named is watched."""
    if not choice.unsettled:
        # Between somebody's gateways nothing is attacked that nobody asked to attack. In a guest kernel nobody knows
        # how long a trial takes at most.
        yield from _trials(choice) if left.own_lab else ()
        if left.later:
            words = "The answer is settled. The time that is left goes to VPNs that may suit as well: {vpns}."
            yield Step(words, left.later, EACH_S)
    for vpn, rate_bps in watch_list(choice, evidence, left.most_bps).items():
        yield Step(
            f"{{vpns}} is watched at {rate_bps / 1e6:.3g} Mbit/s without a break.",
            [vpn],
            ALONE_S,
            experiment="steady",
            levels={STEADY_BPS: f"{rate_bps:.0f}"},
            plain_s=WATCH_S - ALONE_S,
            kept=True,
        )


def _trials(choice: Choice) -> Iterator[Step]:
    says = "The answer is settled. A trial of each of {vpns} shows "
    for must, vpns in on_trust(choice).items():
        for levels, longest_s in SHOWN_BY[must]:
            words = f"{says}whether they have {must}."
            yield Step(words, vpns, longest_s, experiment="musts", only=levels, duration_s=LOSSY_S)
    for rtt_ms in LONG_RTTS_MS if long(choice.needs) else ():
        words = f"{says}what its one TCP connection has on its way over {rtt_ms:g} ms."
        path = {**LONG_WAN, "wan_delay_ms": rtt_ms / 2}
        on_wan = {factor: in_range(factor, f"{value:.10g}") for factor, value in path.items()}
        yield Step(
            words, one_connection_vpns(choice), LONG_MOST_S, experiment="wan", only=LOSSY, wan=on_wan, duration_s=LONG_S
        )
    if on_path := lossy(choice.needs):
        words = f"{says}what its one TCP connection carries on a path that loses as yours."
        yield Step(
            words,
            one_connection_vpns(choice),
            LOSSY_MOST_S,
            experiment="wan",
            only=LOSSY,
            wan=on_path,
            duration_s=LOSSY_S,
        )


def watch_list(choice: Choice, evidence: Evidence, limit_bps: float = math.inf) -> dict[str, float]:
    """The VPNs that are named for an asked line and that nobody has watched at such a rate, each with the rate, bit/s
    of payload: for the highest line that it fits, at most ``limit_bps``, because what is clean there is so below. Those
    that are first for the most lines come first. VPNs that carry TCP only cannot be watched."""
    words = words_of(choice.states)
    rates, first, others = dict[str, tuple[bool, float]](), Counter[str](), Counter[str]()
    for needs in _needs_by_line(choice.needs):
        for place, vpn in enumerate(answer(choice.devices, words, needs).named):
            one = grade_device(choice.devices[vpn], needs, USUAL)
            if evidence.run.vpns[vpn].carries != "tcp" and math.isfinite(one.datagrams_bps):
                fits = bool(np.median(one.grade) == Grade.FITS)
                rates[vpn] = max((fits, min(one.datagrams_bps, limit_bps)), rates.get(vpn, (False, 0.0)))
                (others if place else first)[vpn] += 1
    tried = dict[str, float]()
    for trial in evidence.trials:
        tried[trial.vpn] = max(tried.get(trial.vpn, 0.0), real(trial.params.get(STEADY_BPS, "0")))
    order = [vpn for counts in (first, others) for vpn, _ in counts.most_common()]
    return {vpn: rates[vpn][1] for vpn in order if tried.get(vpn, 0.0) < WATCHED * rates[vpn][1]}


def on_trust(choice: Choice) -> dict[Must, list[str]]:
    """The musts in force that a trial could show, each with the VPNs of which nobody has tried it, and which are named,
    or would be if they had all of these musts."""
    words = words_of(choice.states)
    untried = {must for must in SHOWN_BY if must in choice.needs.must}
    hoped = {vpn: own | {must: "declared" for must in untried if own[must] == "unknown"} for vpn, own in words.items()}
    suit = named_vpns(choice.devices, hoped, choice.needs)
    by_must = {must: [vpn for vpn in suit if words[vpn][must] in ("declared", "unknown")] for must in SHOWN_BY}
    return {must: vpns for must, vpns in by_must.items() if must in untried and vpns}


def lossy(needs: Needs) -> dict[str, str]:
    """The conditions of a WAN that loses as the stated path does, with LINE_ROOM. Empty where that loses nothing; where
    nobody has stated line, round trip and loss, so that what vpneval assumes would decide; and where no WAN is so."""
    if not needs.line_bps or not needs.path_rtt_ms or (needs.path_loss_ratio or 0.0) < USUAL.one_tcp_loss_ratio:
        return {}
    wanted = {
        "wan_rate_bps": LINE_ROOM * max(needs.line_bps, needs.line_up_bps or 0.0),
        "wan_delay_ms": needs.path_rtt_ms / 2,
        "wan_loss_ratio": needs.path_loss_ratio,
    }
    try:
        return {factor: in_range(factor, f"{value:.10g}") for factor, value in wanted.items()}
    except UsageError:
        return {}


def long(needs: Needs) -> bool:
    """Does a stated line ask of one connection to have about as much on its way as it can over the stated path?"""
    if not needs.line_bps:
        return False
    return USUAL.window_bps(needs.path_rtt_ms, None) < WINDOW_ROOM * USUAL.headroom * USUAL.demand_bps(needs.line_bps)


def one_connection_vpns(choice: Choice) -> list[str]:
    """The VPNs whose payload shares one TCP connection and that are named, or would be if that did not matter."""
    clean = {vpn: replace(device, one_connection=False) for vpn, device in choice.devices.items()}
    suit = named_vpns(clean, words_of(choice.states), choice.needs)
    return [vpn for vpn in suit if choice.devices[vpn].one_connection]


def named_vpns(devices: Mapping[str, Device], words: Words, needs: Needs) -> list[str]:
    """The VPNs that are named for any line that is asked for."""
    return [*dict.fromkeys(vpn for asked in _needs_by_line(needs) for vpn in answer(devices, words, asked).named)]


def _needs_by_line(needs: Needs) -> list[Needs]:
    """The needs for each line that is asked for."""
    return [needs.on_line(line) for line in ([needs.line_bps] if needs.line_bps else RATES_BPS)]


def plan(asked: AskedRun, left: Left) -> list[str]:
    """Sentences on what a choice uses the end of its time for, and the time that its answer leaves."""
    if not asked.deadline_s:
        return []
    said = [
        f"At its end what is named carries a load like {USUAL.load:.0%} of the line, or of what it can, for half a "
        f"minute without a break. That takes {WATCH_S:g} s each, of at most {KEPT:.0%} of the time."
    ] * may_watch(asked)
    rest = ["further VPNs that may suit"] if left.later else []
    if left.own_lab and lossy(asked.needs):
        rest.insert(0, "a trial of one TCP connection on a path that loses as yours, if the answer depends on it")
    if left.own_lab and (musts := [must for must in SHOWN_BY if must in asked.needs.must]):
        rest.insert(0, f"trials of {' and '.join(musts)}, of named VPNs of which nobody has tried it")
    then = f"If every line has its answer before, the time that is left goes to {', then '.join(rest)}."
    return [*said, *([then] if rest else [])]
