"""What is measured inside a tunnel: for each kind of traffic, the instrument and what it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from runner.data.errors import MeasurementError
from runner.data.levels import tunnel_levels
from runner.design.profile import Profile
from runner.instruments.failures.measure import recovery, rerouted
from runner.instruments.failures.takeover import failover
from runner.instruments.operator.counts import operations
from runner.instruments.operator.mesh import mesh
from runner.instruments.result import Measured
from runner.instruments.security.run import security
from runner.instruments.traffic.clients import clients
from runner.instruments.traffic.device import device
from runner.instruments.traffic.download import download
from runner.instruments.traffic.duplex import duplex
from runner.instruments.traffic.flows import flows
from runner.instruments.traffic.idle import idle
from runner.instruments.traffic.loaded import loaded
from runner.instruments.traffic.mtu import IP_UDP_BYTES, path_mtu, refuse_too_long
from runner.instruments.traffic.overhead import overhead
from runner.instruments.traffic.packets import packets
from runner.instruments.traffic.rekey import rekey
from runner.instruments.traffic.tcp import tcp
from runner.instruments.traffic.udp import udp
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn


@dataclass(frozen=True)
class Asked:
    """One trial's traffic: its levels, how long and how finely, and where a search may start (bit/s, if known)."""

    params: Mapping[str, str]
    profile: Profile
    seed: int
    known_bps: float | None = None


def measure(bench: Bench, vpn: Vpn, asked: Asked) -> Measured:
    """Measure the traffic that the factor ``measure`` names, through the tunnel that is up.

    Raises MeasurementError, CommandError or TimeoutError where there is no number to report, and TooLongError where
    packets do not fit the tunnel.
    """
    params, profile, address = asked.params, asked.profile, bench.address
    match params["measure"]:
        case "tcp":
            how = int(params["streams"]), params["direction"], params["payload"]
            return tcp(bench.lab, address, profile.duration_s, *how)
        case "udp":
            return _udp(bench, vpn, asked)
        case "idle":
            return idle(bench.lab, address, profile.rtt_s, bench.tunnel.setup_s)
        case "loaded":
            return loaded(bench.lab, address, params["load"], profile.loaded_s, datagrams=vpn.carries == "ip")
        case "download":
            return download(bench.lab, address, int(params["file_bytes"]))
        case "packets":
            return _packets(bench, vpn, asked)
        case "recovery":
            return recovery(bench, vpn, params, profile, asked.seed)
        case "failover":
            return failover(bench, vpn, params, profile, asked.seed)
        case "reroute":
            return rerouted(bench, params, profile, asked.seed)
        case "overhead":
            packet_bytes = int(params["packet_bytes"])
            layers = vpn.encapsulation(tunnel_levels(params), packet_bytes)
            return overhead(bench.lab, address, packet_bytes, _may_fragment(bench, params, packet_bytes), layers)
        case "mtu":
            return path_mtu(bench)
        case "duplex":
            search = profile.duplex
            if asked.known_bps is not None and profile.warm_budget_s is not None:
                search = replace(search, budget_s=0.6 * (search.budget_s or profile.warm_budget_s))
            return duplex(bench, int(params["packet_bytes"]), search, asked.known_bps)
        case "flows":
            return flows(bench.lab, address, profile.duration_s, int(params["streams"]))
        case "clients":
            return clients(bench.lab, address, profile.duration_s, int(params["clients"]))
        case "rekey":
            return rekey(bench, vpn, params["rekey"])
        case "device":
            return device(bench.lab, params["device_cipher"])
        case "security":
            return security(bench, vpn, params)
        case "operations":
            return operations(vpn, tunnel_levels(params))
        case "mesh":
            return mesh(bench, vpn, params)
        case other:
            raise AssertionError(f"nobody measures the traffic {other}")


def _udp(bench: Bench, vpn: Vpn, asked: Asked) -> Measured:
    """The search starts where an earlier repetition ended. The first starts from overload, except through a
    tunnel that is itself TCP: overload breaks OpenSSH's, so that it starts at half the TCP throughput."""
    search, profile, first_bps = asked.profile.udp, asked.profile, asked.known_bps
    if first_bps is not None and profile.warm_budget_s is not None:
        search = replace(search, budget_s=profile.warm_budget_s)
    elif first_bps is None and vpn.transport == "tcp":
        first_bps = _pilot_bps(bench) / 2
    payload_bytes = int(asked.params["payload_bytes"])
    _may_fragment(bench, asked.params, payload_bytes + IP_UDP_BYTES)
    try:
        return udp(bench, payload_bytes, search, first_bps)
    except MeasurementError as nothing:
        if search == profile.udp or not bench.carries_payload():
            raise
        # The little time that a warm start gets was not enough: once more, with all of it.
        measured = udp(bench, payload_bytes, profile.udp, first_bps)
        measured.warnings.append(f"searched twice, first: {nothing}")
        return measured


def _packets(bench: Bench, vpn: Vpn, asked: Asked) -> Measured:
    """As ``_udp``: from where an earlier repetition ended, from overload, or, through TCP, from a pilot's rate."""
    packet_bytes = int(asked.params["packet_bytes"])
    fragment = _may_fragment(bench, asked.params, packet_bytes)
    first_bps = asked.known_bps
    if first_bps is None and vpn.transport == "tcp":
        first_bps = 0.7 * _pilot_bps(bench) * min(1.0, packet_bytes / 1500)
    return packets(bench, packet_bytes, fragment, asked.profile.packets, first_bps)


def _pilot_bps(bench: Bench) -> float:
    """The TCP throughput of a second."""
    return tcp(bench.lab, bench.address, 1, 1, "forward", "random").measurements[0].value


def _may_fragment(bench: Bench, params: Mapping[str, str], packet_bytes: int) -> bool:
    """Was fragmentation asked for? Raises TooLongError where it was not, and the packets need it."""
    allowed = params.get("fragmentation") == "allow"
    if not allowed:
        refuse_too_long(bench, packet_bytes)
    return allowed
