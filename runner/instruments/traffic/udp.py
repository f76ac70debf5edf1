"""UDP throughput by a loss-bounded search, and jitter at a low rate."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import BY_PROFILE, Levels
from runner.data.metric import bit_rate, time_ms
from runner.data.remarks import Remark, breakdown_remarks
from runner.data.trials import Trial, Value
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.counters import fragments_created, receive_buffer_errors
from runner.instruments.tools.factors import BURST_PACKETS, FRAGMENTATION
from runner.instruments.tools.fragments import headers_bytes, may_fragment
from runner.instruments.tools.iperf import OVERHEAD_S, iperf3
from runner.instruments.tools.searched import Played, Trials, run_search, search_detail, with_drops
from runner.instruments.traffic.tcp import pilot_bps
from runner.instruments.traffic.udp_rounds import LOOK_S, udp_in_rounds
from runner.lab.node import Node
from runner.lab.shape.site_to_site import Lab
from runner.search import Engine, Loss, SearchResult
from runner.search.settings import LOSS_RATIO, UdpSearch
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

WINDOW_BYTES = 2**21  # socket buffers asked for in UDP tests, if the kernel allows
# What the kernel grants, which it doubles for its own use (socket(7)). Asked by doing, because older kernels (6.1)
# do not show net.core.rmem_max and wmem_max in a network namespace.
GRANTED = """
import socket, sys
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
    udp.setsockopt(socket.SOL_SOCKET, buffer, int(sys.argv[1]))
print(min(udp.getsockopt(socket.SOL_SOCKET, buffer) for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF)) // 2)
"""
NEAR = 0.05  # the goodput is that of a trial which offered the throughput within this share
JITTER_RATE_BPS = 1e6
JITTER_PAYLOAD_BYTES = 200


def udp(bench: Bench, payload_bytes: int, search: UdpSearch, first_bps: float | None) -> Measuring:
    """UDP throughput by the loss-bounded search, and jitter at a low rate. Each trial of the search is a slice.

    ``first_bps``: where to start, if anything is known. The socket buffers are as large as may be; what the receiver's
    drops is no loss of the VPN, and is kept beside it for each trial. Raises MeasurementError where there is no
    throughput to report.
    """
    started, measured = time.monotonic(), Measured()
    granted = (granted_bytes(host, WINDOW_BYTES) for host in (bench.lab.host1, bench.lab.host2))
    options = ("--udp", "--length", str(payload_bytes), "--window", str(min(granted)), "--bitrate")

    def play(rate_bps: float, duration_s: float) -> Played[int]:
        before = receive_buffer_errors(bench.lab), fragments_created(bench.lab)
        report = iperf3(bench.lab, bench.address, max(1, round(duration_s)), *options, str(int(rate_bps)))
        dropped, fragments = receive_buffer_errors(bench.lab) - before[0], fragments_created(bench.lab) - before[1]
        loss = udp_loss(report, payload_bytes, dropped)
        return Played(loss, loss.sent * payload_bytes, report["end"]["sum_received"]["bytes"], fragments, dropped)

    # A trial that failed says nothing yet: iperf3 begins with a datagram each way, and hangs if one is lost.
    trials = Trials(bench, play, again=True)
    result = yield from run_search(search, trials.offer, first_bps, OVERHEAD_S)
    value = trials.found_rate(result, "UDP throughput", measured)
    measured.remarks += breakdown_remarks("UDP", trials.breakdowns_bps)
    detail = with_drops(search_detail(result), trials.drop_ratios)
    detail |= {"receive_buffer_errors": sum(trial.dropped for trial in trials.all if trial)}
    detail |= {"fragments": sum(trials.counts), "payload_bytes": payload_bytes}
    detail |= {"breakdowns_bps": trials.breakdowns_bps, "estimand": "mean"}
    if search.engine == "scan":
        detail["steps"] = len({trial.asked_rate_bps for trial in result.trials if trial.purpose == "confirm"})
    throughput = measurement("udp_throughput", value, **detail)
    measured.measurements += [throughput, *goodput(result, value)]
    try:
        measured.measurements.append(jitter(bench.lab, bench.address))
    except MeasurementError as error:  # the throughput that was found stays found
        measured.remarks.append(Remark(kind="no value", subject="jitter", why=str(error)))
    measured.measuring_s = time.monotonic() - started
    return measured


def granted_bytes(node: Node, wanted_bytes: int) -> int:
    """The smaller of the buffers, to receive and to send, that the kernel gives a socket which asks for so much: iperf3
    sets both, at both ends, and fails where it does not get them."""
    return int(node.run("python3", "-IS", "-c", GRANTED, str(wanted_bytes)).stdout)


def udp_loss(report: dict[str, Any], payload_bytes: int, receiver_drops: int = 0) -> Loss:
    """Datagrams sent and received of an iperf3 UDP test, the receiver's own drops counted apart.

    iperf3 counts gaps in the sequence only, so that a lost tail reads as no loss; sent minus received does not.
    What the receiving socket dropped came through the tunnel, and is no loss of the VPN.
    """
    sent = report["end"]["sum_sent"]
    received = report["end"]["sum_received"]["bytes"] / payload_bytes + receiver_drops
    if not sent["packets"]:
        raise MeasurementError("iperf3 sent no datagram")
    return Loss(sent["packets"], min(received, sent["packets"]), sent["bits_per_second"])


def goodput(result: SearchResult, rate_bps: float) -> list[Value]:
    """What came through at the throughput ``rate_bps``: the forwarding rate of the passing trial nearest to it.

    Nothing where no such trial offered a rate within a few per cent: it was not measured then.
    """
    passed = [trial for trial in result.trials if trial.loss_ratio <= LOSS_RATIO]
    nearest = min(passed, key=lambda trial: abs(trial.offered_rate_bps - rate_bps), default=None)
    if nearest is None or abs(nearest.offered_rate_bps / rate_bps - 1) > NEAR:
        return []
    offered = round(nearest.offered_rate_bps)
    return [measurement("udp_goodput", nearest.forwarded_rate_bps, offered_rate_bps=offered, purpose=nearest.purpose)]


def jitter(lab: Lab, address: str) -> Value:
    """Jitter of a 1 Mbit/s stream of small datagrams for a second, as iperf3's receiver computes it."""
    report = iperf3(
        lab,
        address,
        1,
        *("--udp", "--bitrate", str(int(JITTER_RATE_BPS)), "--length", str(JITTER_PAYLOAD_BYTES)),
    )
    loss = udp_loss(report, JITTER_PAYLOAD_BYTES)
    if loss.received == 0:
        raise MeasurementError("the jitter stream was sent, and nothing was received")
    achieved = report["end"]["sum_sent"]["bits_per_second"]
    if achieved < 0.9 * JITTER_RATE_BPS:
        raise MeasurementError(f"the sender was too slow: {achieved / 1e6:.2f} of {JITTER_RATE_BPS / 1e6:.2f} Mbit/s")
    end = report["end"]["sum_received"]
    return measurement("jitter", end["jitter_ms"], loss_ratio=1 - loss.received / loss.sent, estimand="mean")


# What is absent is the generator's usual: one flow, bursts of sixteen packets, one length, DSCP 0, one way.
OFFERED = {
    "flows": Levels(("16", "256"), (1, 4096)),
    "burst_packets": BURST_PACKETS,
    "lengths": Levels(("imix",)),
    "dscp": Levels(("46",), (0, 63)),
    "ways": Levels(("both", "reverse"), told={"both": "both ways", "reverse": "from gw2 to gw1"}.__getitem__),
}


# Searches that go on without a break; --set search=… chooses one, where a study is to be repeated.
ENGINES: tuple[Engine, ...] = ("bayes", "binary", "scan", "rfc2544")


# The thesis' search in half a minute, to set the generator beside iperf3: three trials of a second at each rate.
IPERF3 = "iperf3"
SHORT_BINARY = UdpSearch("binary", relative_width=0.02, confirm=(3, 1.0))


def search_of(params: Mapping[str, str], profile: Profile) -> UdpSearch:
    """The profile's search; at another engine's level, one with the thesis' criterion (ten trials of 10 s), which ends
    when it has found the rate. ``--duration`` is the length of each trial of a search that goes on without a break; the
    generator's are as long as the profile says."""
    engine, own = params.get("search", profile.udp.engine), profile.udp
    if engine == IPERF3:
        own = replace(SHORT_BINARY, max_rate_bps=own.max_rate_bps, min_rate_bps=own.min_rate_bps)
    elif engine != own.engine:
        chosen = next(name for name in ENGINES if name == engine)
        own = UdpSearch(chosen, max_rate_bps=own.max_rate_bps, min_rate_bps=own.min_rate_bps)
    lasts_s = profile.search_trial_s
    return own if lasts_s is None or own.engine == "rounds" else own.with_trials_of(lasts_s)


class Udp(Instrument):
    """A search for the UDP throughput."""

    name = "udp"
    factors = {
        "payload_bytes": Levels(("1300", "1470"), (1, 65507), BY_PROFILE, told="".format),
        "fragmentation": FRAGMENTATION,
        "search": Levels((*ENGINES, IPERF3), told="searched by {}".format),
        **OFFERED,
    }
    metrics = (
        bit_rate(
            name="udp_throughput",
            title="UDP throughput",
            short="UDP",
            definition="The highest offered rate (UDP payload bits per second) at which the loss ratio stays below 1 "
            "%. The profile thesis takes the mean loss of the trials. Where VPNs take turns, the median trial counts.",
            source="RFC 2544 §26.1 with the thesis' loss bound (§3.5.1); the median trial as in MLRsearch",
            limited=True,
        ),
        bit_rate(
            name="udp_goodput",
            title="UDP goodput",
            definition="UDP payload bits per second that come through the tunnel at the UDP throughput: what was "
            "received in the passing trial whose offered rate is nearest to it.",
            source="RFC 2647 §3.17 (goodput), within RFC 2544 §26.1",
            secondary=True,
        ),
        time_ms(
            name="jitter",
            title="Jitter",
            short="Jitter",
            definition="Interarrival jitter of a stream of 1 Mbit/s in datagrams of 200 B. In the profile thesis, "
            "iperf3 smooths it over a second. Where VPNs take turns, the value is the median change of the delay from "
            "one datagram to the next in many short streams. The mean is not used, because the moments in which the "
            "machine is busy with something else would dominate it.",
            source="RFC 3550 §6.4.1; RFC 5481 §4.1 (delay variation from packet to packet)",
            margin=1.5,
        ),
    )
    inner_ipv6 = True
    datagrams = True

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0 and search_of(params, profile).engine == "rounds"

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        if self.takes_turns(params, profile):
            return profile.udp.trial_duration_s + LOOK_S  # a turn
        search = search_of(params, profile)
        warm_budget_s = profile.warm_budget_s if search == profile.udp else None
        return search.expected_s(OVERHEAD_S, first=first, warm_budget_s=warm_budget_s)

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if no := super().refuses(lab, vpn, params):
            return no
        if "search" in params and (offered := sorted(OFFERED.keys() & params.keys())):
            return Unsupported(
                f"a search by {params['search']} offers iperf3's datagrams, without {', '.join(offered)}"
            )
        return None

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """Measure in rounds (udp_rounds.py), or by one search with iperf3, which supports none of OFFERED.

        The search with iperf3 starts where an earlier repetition ended. The first one starts from overload, except
        through a tunnel that is itself TCP: overload breaks OpenSSH's, so that it starts at half the TCP throughput."""
        payload_bytes = int(asked.params["payload_bytes"])
        fragment = may_fragment(bench, asked.params, payload_bytes + headers_bytes(bench.address))
        search, profile, first_bps = search_of(asked.params, asked.profile), asked.profile, asked.known_bps
        if search.engine == "rounds" or OFFERED.keys() & asked.params.keys():
            turns = self.takes_turns(asked.params, profile)
            return (yield from udp_in_rounds(bench, asked, fragment, turns=turns))
        usual = search
        if first_bps is not None and profile.warm_budget_s is not None and search == profile.udp:
            search = replace(search, budget_s=profile.warm_budget_s)
        elif first_bps is None and asked.vpn.transport == "tcp":
            first_bps = pilot_bps(bench) / 2
        try:
            return (yield from udp(bench, payload_bytes, search, first_bps))
        except MeasurementError as nothing:
            if search == usual or not bench.carries_payload():
                raise
            # The little time that a warm start gets was not enough: once more, with all of it.
            measured = yield from udp(bench, payload_bytes, usual, first_bps)
            measured.warnings.append(f"searched twice, first: {nothing}")
            return measured

    def known_bps(self, trial: Trial) -> float | None:
        return next((measured.value for measured in trial.measurements if measured.metric == "udp_throughput"), None)
