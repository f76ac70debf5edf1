"""Looks at a tunnel that runs already between two gateways in use: what it is, what it carries, and what limits it.

It changes nothing on the gateways. Its probes run for a few seconds each. They read counters and send pings; they send
TCP only up to a rate that the user has named (decision 0083).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.kinds import Strict
from runner.data.limits import judge
from runner.data.loads import Limit, MachineLoad
from runner.lab.node.answers import understood
from runner.lab.node.probing import ask_probe, probe
from runner.lab.readings.loads import LoadWatch
from runner.lab.readings.path import HEADERS_BYTES, look, path_mtu, rate
from runner.lab.readings.seen import Counters, Seen, counters, everything
from runner.lab.shape.site import ip_version
from runner.tunnel.bottleneck import PAYLOAD_SHARE, Pieces, fragments_in, limit_of, pieces_in, policed_in
from runner.vpn.plugin import Vpn
from runner.vpn.recognised import Recognised, probe_request, standing

NOW_S = 3.0  # that the gateways are watched without a probe's traffic
PINGS, EVERY_S = 10, 0.2  # others than root may ping no faster
SHORTEST, LONGEST = 576, 9000
NEAR_BYTES = 128  # below the tunnel's MTU: as much as most tunnels exceed the path by
# TCP ports that are tried with TCP of our own: those that firewalls let in, then the one that operators expect.
TRIED = ("tcp/5201", "tcp/443", "tcp/1194", "tcp/655", "tcp/4430", "tcp/7777", "tcp/52010")
Watching = Callable[[], Mapping[str, Any]]
Outer = Callable[[str, Seen], tuple[str, str]]


class Way(Strict):
    """The path, or the tunnel on it. ``rtt_ms``: least, mean, most of the pings, empty where none was answered;
    ``rates_bps``: of TCP from the first gateway to the second and back, 0 where it came to a standstill, empty where it
    was not measured. ``whole_bytes``: the longest packet that travels in one piece."""

    mtu_bytes: int | None = None
    whole_bytes: int | None = None
    rtt_ms: list[float] = []
    loss_ratio: float | None = None
    rates_bps: list[float] = []


class GatewayLook(Strict):
    """What one gateway shows."""

    host: str
    address: str
    kernel: str
    cpu: dict[str, str]
    cores: int
    tunnels: list[Recognised]
    lacks: list[str]


class Look(Strict):
    """All of it. ``tunnel``: as each gateway sees the tunnel that leads to the other one (of a single gateway, the only
    tunnel that it has), None where there is none. ``now_bps``: what the first gateway sent and received in it before
    any probe. ``limit`` was found ``loaded`` by a probe, or in what was there. ``instead``: what a run of the same
    gateways says of other VPNs. ``unmeasured``: what is not known, and what would show it."""

    gateways: dict[str, GatewayLook]
    tunnel: dict[str, Recognised]
    to: str = ""
    path: Way = Way()
    inside: Way = Way()
    pieces: Pieces
    now_bps: list[float] = []
    limit: Limit | None = None
    loaded: bool = False
    max_rate_bps: float | None = None
    instead: list[str] = []
    unmeasured: list[str] = []


class _Examining:
    """The parts of one look."""

    def __init__(self, nodes: Mapping[str, Any], outer: Outer, vpns: Sequence[Vpn]) -> None:
        self.nodes = dict(nodes)
        self.programs = {vpn.name: vpn.sign.programs for vpn in vpns}
        with ThreadPoolExecutor() as threads:
            every = threads.map(lambda node: everything(node, probe_request(vpns)), self.nodes.values())
            self.seen = dict(zip(self.nodes, every, strict=True))
        ends = {name: outer(name, seen) for name, seen in self.seen.items()}
        self.public = {name: public for name, (public, _) in ends.items()}
        self.tunnels = {name: standing(seen, vpns) for name, seen in self.seen.items()}
        self.names = list(self.nodes)
        self.tunnel: dict[str, Recognised] = {}
        self.unmeasured: list[str] = []
        self.to = self.own = self.pingless = ""
        self.line = ends[self.names[0]][1]
        self.pids: dict[str, set[str]] = {name: set() for name in self.names}

    # --- which tunnel --------------------------------------------------------------------------------------------

    def find(self) -> None:
        """Find the tunnel from the first gateway to the second, and the second one's address in it."""
        near = self.names[0]
        if len(self.names) == 1:
            if len(self.tunnels[near]) == 1:
                self.tunnel = {near: self.tunnels[near][0]}
            if len(self.tunnels[near]) > 1:
                self.unmeasured.append(
                    f"{near} has several tunnels. Name both gateways, and look takes the tunnel between them"
                )
            return
        else:
            far = self.names[1]
            if leading := next(self._leading(near, far), None):
                self.tunnel[near], self.to, self.own = leading
            if leading := next(self._leading(far, near), None):
                self.tunnel[far] = leading[0]
            if not self.tunnel:
                self._by_ends()
            self._one_name()
        self.pids |= {name: {str(pid) for pid in tunnel.pids} for name, tunnel in self.tunnel.items()}

    def _by_ends(self) -> None:
        """Find the tunnel by the addresses of its outer packets, if no route through one leads to the other gateway."""
        for name, other in (self.names, self.names[::-1]):
            known = _addresses(self.seen[other]) | {self.public[other]}
            for tunnel in self.tunnels[name]:
                told = [
                    word for line in tunnel.told for word in line.split()
                ]  # a port forward may connect only when it is used
                if any(end.rpartition(":")[0] in known or end in known for end in [*tunnel.ends, *told]):
                    self.tunnel.setdefault(name, tunnel)

    def _one_name(self) -> None:
        """Give both ends the same VPN: often only the dialing gateway, or only the other one, shows which product it
        is."""
        if len(self.tunnel) == 2:
            ends = [*self.tunnel.values()]
            best = max(ends, key=lambda one: (len(one.marks), bool(one.vpn)))
            for name, one in self.tunnel.items():
                if one.program in self.programs.get(best.vpn, ()) or one.program == best.program:
                    self.tunnel[name] = replace(one, vpn=best.vpn, title=best.title)

    def _leading(self, name: str, other: str) -> Iterator[tuple[Recognised, str, str]]:
        """Each tunnel through which ``name`` sends packets to an address of ``other``, with that address and the source
        address that ``name`` uses."""
        mine, theirs = _addresses(self.seen[name]), _addresses(self.seen[other]) - {self.public[other]}
        by_device = {tunnel.device: tunnel for tunnel in self.tunnels[name] if tunnel.device}
        for address in sorted(theirs - mine, key=lambda one: int(ip_address(one))):
            for policy in self.seen[name]["policies"]:
                words = policy.split()
                source, target = ip_network(words[1], strict=False), ip_network(words[3], strict=False)
                own = next((one for one in sorted(mine) if ip_address(one) in source), None)
                plain = [tunnel for tunnel in self.tunnels[name] if not tunnel.device]
                if own and plain and " proto " not in policy.partition(" tmpl ")[0] and ip_address(address) in target:
                    yield plain[0], address, own
            shown = self.nodes[name].run("ip", "-o", "route", "get", address, check=False).stdout
            way = dict(re.findall(r"\b(dev|src) (\S+)", shown))
            if tunnel := by_device.get(way.get("dev", "")):
                yield tunnel, address, way.get("src", "")

    # --- what it does --------------------------------------------------------------------------------------------

    @contextmanager
    def watching(self) -> Iterator[Watching]:
        """A function that reads the load of both gateways, and which of their processes belong to the tunnel."""
        with (
            probe(self.nodes[self.names[0]], "loads", self.names[0], ready="ready") as first,
            probe(self.nodes[self.names[-1]], "loads", self.names[-1], ready="ready") as last,
        ):
            running = {self.names[0]: first, self.names[-1]: last}
            yield lambda: {name: self._roles(name, ask_probe(one, "loads", {}, 10.0)) for name, one in running.items()}

    def _roles(self, name: str, reading: dict[str, Any]) -> dict[str, Any]:
        with understood(name):
            for pid, process in reading["processes"].items():
                if process["role"] == "vpn":
                    process["role"] = "vpn" if pid in self.pids[name] else "other"
        return reading

    def read_counters(self) -> dict[str, Counters]:
        """The counters of both gateways."""
        with ThreadPoolExecutor() as threads:
            return dict(zip(self.names, threads.map(counters, self.nodes.values()), strict=True))

    def ping(self, to: str, *, own: str = "", size: int = 56, count: int = PINGS, df: bool = False) -> dict[str, Any]:
        """``rtt_ms`` and ``loss_ratio`` of pings from the first gateway (ping(8))."""
        argv = ["ping", "-q", "-c", str(count), "-i", str(EVERY_S), "-W", "1", "-s", str(size)]
        argv += (["-M", "do"] if df else []) + (["-I", own] if own else [])
        done = self.nodes[self.names[0]].run(*argv, to, check=False, timeout=30)
        rtts = re.search(r"= ([0-9.]+)/([0-9.]+)/([0-9.]+)", done.stdout)
        lost = re.search(r"([0-9.]+)% packet loss", done.stdout)
        if done.code not in (0, 1) and not df:  # 1: nobody has answered
            why = (done.stderr.strip().splitlines() or ["it is not there"])[-1]
            advice = "install it there (Debian: apt-get install iputils-ping)" if done.code == 127 else "as root it may"
            self.pingless = f"{self.names[0]} cannot ping ({why[:100]}); {advice}"
        if not rtts or not lost:
            return {}
        return {"rtt_ms": [float(one) for one in rtts.groups()], "loss_ratio": float(lost[1]) / 100}

    def whole(self, to: str, own: str, mtu: int) -> tuple[int | None, bool | None]:
        """The longest packet that travels to ``to`` unfragmented, and whether a packet of ``mtu`` bytes is fragmented.
        None for what is not known, because no packet of that length is answered."""
        headers = HEADERS_BYTES[ip_version(to)]

        def cut(length: int) -> bool | None:
            before = self.read_counters()
            if not self.ping(to, own=own, size=length - headers, count=3, df=True):
                return None
            return fragments_in(before, self.read_counters()) >= 3

        longest = cut(mtu)
        if not longest:
            return (None if longest is None else mtu), longest
        near = mtu - NEAR_BYTES
        low, high = (near, mtu) if cut(near) is False else (SHORTEST, near)
        while high - low > 1:  # what is not answered may be cut, and its pieces lost
            middle = (low + high) // 2
            low, high = (middle, high) if cut(middle) is False else (low, middle)
        return (low if cut(low) is False else None), True

    def rates(self, to: str, own: str, max_bps: float, watch: list[MachineLoad]) -> list[float]:
        """The rates of TCP both ways; empty if no port is open. Puts the loads during the slower one into ``watch``."""
        near, far = (self.nodes[name] for name in (self.names[0], self.names[-1]))
        tried = [port for port in TRIED if port not in self.seen[far.name]["listening"]]
        ends = f"{to},{own}" if own else to
        open_ports = look(near, far, ends, tried, 0.0, 0.0)["open"]
        if not open_ports:
            return []
        found: list[float] = []
        with self.watching() as read:
            for send in (True, False):
                loads, before = LoadWatch(), read()
                one = rate(near, far, ends, open_ports[0], PAYLOAD_SHARE * max_bps, send=send) or 0.0
                loads.add(before, read(), 0.0)
                if not found or one < found[0]:
                    watch[:] = loads.machine_loads()
                found.append(one)
        return found


def examine(
    nodes: Mapping[str, Any],
    outer: Outer,
    vpns: Sequence[Vpn],
    max_bps: float | None,
    say: Callable[[str], None],
) -> Look:
    """Look at one gateway, or at two and the tunnel between them. ``outer``: gateway -> the address at which the other
    one reaches it, and its own address on the line that the inventory names (empty if it names none).

    ``max_bps``: no probe sends faster than this; None: pings only. Raises CannotRunHere."""
    say("vpneval looks at " + " and ".join(nodes) + ", and changes nothing there.")
    at = _Examining(nodes, outer, vpns)
    at.find()
    before, watch = at.read_counters(), LoadWatch()
    started = time.monotonic()
    try:
        with at.watching() as read:
            first = read()
            time.sleep(NOW_S)
            watch.add(first, read())
        loads = watch.machine_loads()
    except (MeasurementError, KeyError, ValueError) as unread:
        loads = []
        at.unmeasured.append(f"what the gateways are busy with: {unread}")
    after, seconds = at.read_counters(), time.monotonic() - started
    pieces = pieces_in(before, after, seconds)
    found = Look(
        gateways={
            name: GatewayLook(
                host=seen["host"],
                address=at.public[name],
                kernel=seen["kernel"],
                cpu={
                    key: seen["cpu"][key] for key in ("model name", "CPU implementer", "CPU part") if key in seen["cpu"]
                },
                cores=seen["cores"],
                tunnels=at.tunnels[name],
                lacks=seen["lacks"],
            )
            for name, seen in at.seen.items()
        },
        tunnel=at.tunnel,
        to=at.to,
        pieces=pieces,
        now_bps=_now(at, before, after, seconds),
        limit=policed_in(before, after) or judge(loads),
        max_rate_bps=max_bps,
        unmeasured=at.unmeasured,
    )
    return _measure_between(at, found, max_bps, say) if len(at.names) == 2 else found


def _measure_between(at: _Examining, found: Look, max_bps: float | None, say: Callable[[str], None]) -> Look:
    """``found`` with round trips, MTUs and, up to ``max_bps``, TCP rates, on the path and in the tunnel."""
    near, far = at.names
    outer = at.public[far]
    source = ("from", at.line) if at.line else ()
    shown = at.nodes[near].run("ip", "-o", "route", "get", outer, *source, check=False).stdout
    port = re.search(r" dev (\S+)", shown)
    named = {link["ifname"] for link in at.seen[near]["links"] for one in link["addr_info"] if one["local"] == at.line}
    if at.line and port and port[1] not in named:
        at.unmeasured.append(
            f"the path by {' '.join(named)}, which the inventory names: {near} sends packets from {at.line} by "
            f"{port[1]}, and look adds no routing rule. vpneval doctor adds one while it measures: run that"
        )
        return found.model_copy(update={"unmeasured": at.unmeasured})
    path = at.ping(outer, own=at.line)
    if not path:
        silent = f"{far} answers no ping at {outer}. Let ICMP echo in there"
        at.unmeasured.append(f"the path's round trip and MTU: {at.pingless or silent}")
    mtu = path_mtu(at.nodes[near], outer, port[1], at.line) if path and port else None
    inside: dict[str, Any] = {}
    pieces = found.pieces
    if at.to:
        inside = at.ping(at.to, own=at.own)
        if not inside:
            silent = f"{at.to} of {far} answers no ping through it"
            at.unmeasured.append(f"the tunnel's round trip: {at.pingless or silent}")
        length = at.tunnel[near].mtu_bytes or mtu
        if inside and length:
            whole, longest = at.whole(at.to, at.own, min(length, LONGEST))
            inside |= {"mtu_bytes": length, "whole_bytes": whole}
            pieces = pieces.model_copy(update={"longest": longest})
    elif at.tunnel:
        at.unmeasured.append(
            f"the tunnel's rate and round trip: no route leads through it to {far} itself (to hosts behind it, perhaps)"
        )
    found = found.model_copy(update={"pieces": pieces, "path": Way(mtu_bytes=mtu, **path), "inside": Way(**inside)})
    if not max_bps:
        at.unmeasured.append(
            "rates: look sent only pings. To measure rates, name what your line can spare: --max-rate 200M"
        )
        return found.model_copy(update={"unmeasured": at.unmeasured})
    return _measure_rates(at, found, max_bps, say)


def _measure_rates(at: _Examining, found: Look, max_bps: float, say: Callable[[str], None]) -> Look:
    say(f"vpneval sends TCP for 3 s each way, on the path and in the tunnel, at most {max_bps / 1e6:.4g} Mbit/s.")
    of_path = at.rates(at.public[at.names[1]], at.line, max_bps, [])
    if not of_path:
        ports = ", ".join(TRIED)
        at.unmeasured.append(f"the path's rate: {at.names[1]} answers on no TCP port. Let one in there: {ports}")
    loads: list[MachineLoad] = []
    before = at.read_counters()
    started = time.monotonic()
    of_tunnel = at.rates(at.to, at.own, max_bps, loads) if at.to else []
    after, seconds = at.read_counters(), time.monotonic() - started
    if at.to and not of_tunnel:
        at.unmeasured.append(
            f"the tunnel's rate: {at.names[1]} answers on no TCP port at {at.to}; perhaps a firewall there drops them"
        )
    path, inside = (
        found.path.model_copy(update={"rates_bps": of_path}),
        found.inside.model_copy(update={"rates_bps": of_tunnel}),
    )
    update: dict[str, Any] = {"path": path, "inside": inside, "unmeasured": at.unmeasured}
    if of_tunnel:
        pieces = pieces_in(before, after, seconds).model_copy(update={"longest": found.pieces.longest})
        limit = limit_of(of_tunnel, of_path, max_bps, policed_in(before, after), pieces, loads)
        update |= {"pieces": pieces, "limit": limit, "loaded": True}
    return found.model_copy(update=update)


def _now(at: _Examining, before: Mapping[str, Counters], after: Mapping[str, Counters], seconds: float) -> list[float]:
    """What the first gateway sent and received through the tunnel before any probe, bit/s; empty if the tunnel has no
    device."""
    name = at.names[0]
    device = at.tunnel[name].device if name in at.tunnel else ""
    then, now = before[name]["packets"].get(device), after[name]["packets"].get(device)
    return [8 * (now[i] - then[i]) / seconds for i in (3, 2)] if then and now else []


def _addresses(seen: Seen) -> set[str]:
    """A gateway's own addresses of IPv4 but those of its loopback."""
    return {
        entry["local"]
        for link in seen["links"]
        for entry in link["addr_info"]
        if entry["family"] == "inet" and entry.get("scope", "global") == "global"
    }
