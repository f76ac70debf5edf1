"""UDP throughput as the receiving program sees it: what its socket has no room for is lost, as in the thesis."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle

from runner.data.errors import CommandError, MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import bit_rate
from runner.data.remarks import breakdown_remarks
from runner.data.trials import Trial
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.between import Talker, talking
from runner.instruments.tools.fragments import IP_UDP_BYTES, may_fragment
from runner.instruments.tools.generator import Load
from runner.instruments.tools.searched import Played, Trials, run_search, search_detail, with_drops
from runner.instruments.traffic.udp import Udp, granted_bytes
from runner.lab.shape.site_to_site import Lab
from runner.search import Loss
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

METRIC = "udp_socket_throughput"
SHORT = UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=None, budget_s=30.0)
START_BPS = 50e6  # from overload it would take long to come down to what a small buffer takes
PORTS = range(18000, 19000)  # one a trial, in turn: what an earlier one has left on its way finds no socket
OVERHEAD_S = 0.06  # of a trial


@dataclass(frozen=True)
class Datagrams:
    """Datagrams of one trial: sent in so many seconds, read by the receiving program, and dropped by its socket."""

    sent: int
    seconds: float
    received: int
    dropped: int


@dataclass(frozen=True)
class Programs:
    """A program on host1 that sends datagrams to one on host2, ``rtt_s`` away, each from or to a socket with a buffer
    of its own."""

    sender: Talker
    sink: Talker
    address: str
    send_buffer_bytes: int
    rtt_s: float = 0.0
    ports: Iterator[int] = field(default_factory=lambda: cycle(PORTS))

    def play(self, load: Load) -> Datagrams:
        """One trial. Raises MeasurementError where a program fails."""
        port = next(self.ports)
        self.sink.tell(f"begin {port}")
        if (reply := self.sink.hear(10)) != "counting":
            raise MeasurementError(f"the sink on {self.sink.node.name} says {reply[:200]!r} instead of 'counting'")
        more = {"address": self.address, "port": port, "send_buffer_bytes": self.send_buffer_bytes}
        self.sender.tell(json.dumps(asdict(load) | more))
        offered = self.sender.hear_object(3 * load.seconds + 10)
        self.sink.tell(f"end {offered.get('sent', 0)} {self.rtt_s}")
        counts = self.sink.hear_object(10 + self.rtt_s)
        if "error" in offered:
            raise MeasurementError(f"the sender on {self.sender.node.name} could not send: {offered['error']}")
        return Datagrams(offered["sent"], offered["seconds"], counts["received"], counts["dropped"])


@contextmanager
def sending(lab: Lab, address: str, send_buffer_bytes: int, receive_buffer_bytes: int) -> Iterator[Programs]:
    """The two programs, which end with the block. Raises MeasurementError where one does not work."""
    with ExitStack() as stack:
        sink = stack.enter_context(talking(lab.host2, "sink", str(receive_buffer_bytes), ready="ready"))
        stack.callback(sink.end)
        sender = stack.enter_context(talking(lab.host1, "generate", ready="ready"))
        stack.callback(sender.end)
        yield Programs(sender, sink, address, send_buffer_bytes, lab.rtt_s)


class UdpSockets(Instrument):
    """A search for the UDP throughput between two programs whose sockets have buffers of given lengths."""

    name = "udp_sockets"
    factors = {
        "payload_bytes": Udp.factors["payload_bytes"],
        "fragmentation": Udp.factors["fragmentation"],
        "send_buffer_bytes": Levels(("9216", "2097152"), (4096, 2**27), "9216", told="{} B to send".format),
        "receive_buffer_bytes": Levels(("196608", "2097152"), (4096, 2**27), "196608", told="{} B to receive".format),
    }
    metrics = (
        bit_rate(
            name=METRIC,
            title="UDP throughput to a program",
            definition="The highest rate (UDP payload bits per second) that one program can send to another with less "
            "than 1 % of loss. Their sockets have buffers of given lengths (factors send_buffer_bytes and "
            "receive_buffer_bytes). Datagrams that the receiver's socket drops because its buffer is full are lost, "
            "too; the detail has them apart.",
            source="thesis §3.5.1 (1 % of loss; a buffer of 9 KB at the sender, and of 192 KB at the receiver); "
            "socket(7) SO_SNDBUF, SO_RCVBUF",
            limited=True,
        ),
    )
    datagrams = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if no := super().refuses(lab, vpn, params):
            return no
        for host, factor in ((lab.host1, "send_buffer_bytes"), (lab.host2, "receive_buffer_bytes")):
            wanted_bytes = int(params[factor])
            if (has_bytes := granted_bytes(host, wanted_bytes)) < wanted_bytes:
                limits = "sysctl net.core.rmem_max and net.core.wmem_max"
                return Unsupported(f"the kernel of {host.name} gives a socket {has_bytes} bytes at most ({limits})")
        return None

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        search = search_of(profile)  # a receiver that drops in bursts uses all of the time
        return search.budget_s or search.expected_s(OVERHEAD_S, first=first, warm_budget_s=None)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """Search from where an earlier repetition ended, or from START_BPS."""
        started, measured = time.monotonic(), Measured()
        payload_bytes = int(asked.params["payload_bytes"])
        buffers = {name: int(asked.params[name]) for name in ("send_buffer_bytes", "receive_buffer_bytes")}
        fragment = may_fragment(bench, asked.params, payload_bytes + IP_UDP_BYTES)

        def play(rate_bps: float, duration_s: float) -> Played[None]:
            per_s = rate_bps / (8 * payload_bytes)
            load = Load((payload_bytes + IP_UDP_BYTES,), per_s, duration_s, fragment=fragment)
            try:
                programs: Programs = bench.get_shared(
                    "programs", lambda: sending(bench.lab, bench.address, *buffers.values())
                )
                found = programs.play(load)
            except (MeasurementError, CommandError):
                bench.forget("programs")
                raise
            loss = Loss(found.sent, min(found.received, found.sent), 8 * payload_bytes * found.sent / found.seconds)
            return Played(loss, found.sent * payload_bytes, found.received * payload_bytes, None, found.dropped)

        trials = Trials(bench, play, again=True)
        try:
            result = yield from run_search(
                search_of(asked.profile), trials.offer, asked.known_bps or START_BPS, OVERHEAD_S
            )
        finally:
            bench.forget("programs")
        value = trials.found_rate(result, "UDP throughput to a program", measured)
        measured.remarks += breakdown_remarks("UDP", trials.breakdowns_bps)
        detail = with_drops(search_detail(result), trials.drop_ratios) | buffers
        detail |= {"payload_bytes": payload_bytes, "breakdowns_bps": trials.breakdowns_bps, "estimand": "mean"}
        measured.measurements.append(measurement(METRIC, value, **detail))
        measured.measuring_s = time.monotonic() - started
        return measured

    def known_bps(self, trial: Trial) -> float | None:
        return next((measured.value for measured in trial.measurements if measured.metric == METRIC), None)


def search_of(profile: Profile) -> UdpSearch:
    """The profile's search; a short one, as high as the profile goes, where that is one for tunnels that take turns."""
    own = profile.udp
    if own.engine != "rounds":
        return own
    return replace(SHORT, min_rate_bps=own.min_rate_bps, max_rate_bps=own.max_rate_bps)
