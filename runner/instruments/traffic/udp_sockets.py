"""UDP throughput as the receiving program sees it: what its socket has no room for is lost, as in the thesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.data.trials import Trial
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Instrument, Measuring
from runner.instruments.tools.fragments import IP_UDP_BYTES, may_fragment
from runner.instruments.tools.iperf import OVERHEAD_S
from runner.instruments.traffic.udp import Udp, granted_bytes, udp
from runner.lab.shape.site_to_site import Lab
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

METRIC = "udp_socket_throughput"
SHORT = UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=None, budget_s=30.0)  # iperf3's time is whole
START_BPS = 50e6  # from overload it would take long to come down to what a small buffer takes


class UdpSockets(Instrument):
    """A search with iperf3 for the UDP throughput, with buffers of a given length."""

    name = "udp_sockets"
    factors = {
        "payload_bytes": Udp.factors["payload_bytes"],
        "fragmentation": Udp.factors["fragmentation"],
        "socket_buffer_bytes": Levels(("196608", "2097152"), (4096, 2**27), "196608", told="".format),
    }
    metrics = (
        Metric(
            name=METRIC,
            title="UDP throughput to a program",
            unit="bit/s",
            better="higher",
            definition="The highest rate (UDP payload bits per second) that iperf3 can offer with less than 1 % of "
            "loss. The sockets at both ends have buffers of a given length (factor socket_buffer_bytes). Datagrams "
            "that the receiver's socket drops because its buffer is full are lost, too.",
            source="thesis §3.5.1 (1 % of loss; a buffer of 192 KB at the receiver, and of 9 KB at the sender); "
            "iperf3(1) --window; socket(7) SO_RCVBUF",
        ),
    )
    datagrams = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if no := super().refuses(lab, vpn, params):
            return no
        wanted_bytes = int(params["socket_buffer_bytes"])
        for host in (lab.host1, lab.host2):
            if (has_bytes := granted_bytes(host, wanted_bytes)) < wanted_bytes:
                limits = "sysctl net.core.rmem_max and net.core.wmem_max"
                return Unsupported(f"the kernel of {host.name} gives a socket {has_bytes} bytes at most ({limits})")
        return None

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        search = search_of(profile)  # a receiver that drops in bursts uses all of the time
        return search.budget_s or search.expected_s(OVERHEAD_S, first=first, warm_budget_s=None)

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """Search from where an earlier repetition ended, or from START_BPS."""
        payload_bytes = int(asked.params["payload_bytes"])
        may_fragment(bench, asked.params, payload_bytes + IP_UDP_BYTES)
        first_bps = asked.known_bps or START_BPS
        buffer_bytes = int(asked.params["socket_buffer_bytes"])
        measured = yield from udp(bench, payload_bytes, search_of(asked.profile), first_bps, buffer_bytes)
        measured.measurements = [
            value.model_copy(update={"metric": METRIC, "detail": value.detail | {"socket_buffer_bytes": buffer_bytes}})
            for value in measured.measurements
            if value.metric == "udp_throughput"
        ]
        return measured

    def known_bps(self, trial: Trial) -> float | None:
        return next((measured.value for measured in trial.measurements if measured.metric == METRIC), None)


def search_of(profile: Profile) -> UdpSearch:
    """The profile's search, where that is one with iperf3; else a short one, as high as the profile goes."""
    own = profile.udp
    if own.engine != "rounds":
        return own
    return replace(SHORT, min_rate_bps=own.min_rate_bps, max_rate_bps=own.max_rate_bps)
