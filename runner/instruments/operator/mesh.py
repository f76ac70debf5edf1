"""Full meshes of growing size, brought up for real: time, memory and CPU against the number of sites.

    gw1 … gwN, all on one WAN; each has its LAN's address on its loopback and no hosts.

The OSLV paper leaves memory and processing out (section Scalability); here they are measured, and what this machine
cannot hold is predicted from a fit, and marked as a prediction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from runner.data.errors import MeasurementError
from runner.data.levels import Levels, Params, tunnel_levels
from runner.data.metric import Metric, time_s
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.operator.counts import joining, lines
from runner.instruments.operator.counts import mesh as sites_of
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import daemon, processes
from runner.lab import probes
from runner.lab.node import PATIENCE, LabNode, proc, wait_until
from runner.lab.shape.site import Site, peers_of
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import Port, Topology
from runner.papers.tables import AT, SIZES, printed_tables
from runner.tunnel.bring_up import Bench, prepare_beside, put_files, start_beside
from runner.tunnel.proof import ANSWER_PORT
from runner.vpn.plugin import Secrets, Vpn

BUDGET_S = 240.0  # for all sizes
UP_WITHIN_S = 60.0
AS_MANY_AS = 13  # labs have its open files: 20 gateways with an SSH session for each peer had 591
SHARE = 0.5  # of the memory that is available, which a mesh may take
OF_ALL, OF_A_SITE = ("up_s", "memory_bytes", "cpu_s"), ("config_bytes", "config_lines")
METRICS = {"mesh_time": "up_s", "mesh_memory": "memory_bytes_per_tunnel", "mesh_cpu": "cpu_s_per_tunnel"}


@dataclass(frozen=True)
class Size:
    """What a full mesh of ``sites`` sites took. Memory is the daemons' proportional set size, CPU what they have used
    until every site had reached every other; the configuration is the last site's."""

    sites: int
    up_s: float
    memory_bytes: int
    cpu_s: float
    config_bytes: int
    config_lines: int

    @property
    def tunnels(self) -> int:
        """A tunnel for each pair of sites."""
        return self.sites * (self.sites - 1) // 2

    def as_data(self) -> dict[str, Any]:
        """The numbers for the trial's line, with memory (bytes) and CPU (s) for each tunnel."""
        return {
            **vars(self),
            "tunnels": self.tunnels,
            "memory_bytes_per_tunnel": round(self.memory_bytes / self.tunnels),
            "cpu_s_per_tunnel": round(self.cpu_s / self.tunnels, 5),
        }


class TooSlow(MeasurementError):
    """The mesh was not full in time."""


def star(sites: Sequence[Site]) -> Topology:
    """Gateways on one WAN."""
    return Topology(
        cables=tuple(
            (Port(site.name, site.wan_interface, (f"{site.wan_address}/24",)), Port("wan", site.name)) for site in sites
        ),
        bridges=("wan",),
        sites=tuple(sites),
        gateways=tuple(site.name for site in sites),
        default_routes={},
        loopbacks={site.name: site.lan_address for site in sites},
    )


def mesh(bench: Bench, vpn: Vpn, params: Params, sizes: Sequence[int] = SIZES, budget_s: float = BUDGET_S) -> Measured:
    """Meshes of these sizes, as far as time and memory go; beside them what joining each takes on paper.

    Raises MeasurementError where not one comes up.
    """
    started = time.monotonic()
    if vpn.carries == "tcp":
        raise MeasurementError("the VPN only forwards ports and carries nothing between the sites' networks")
    points: list[Size] = []
    why, too_slow = "", 0
    for count in sizes:
        if why := no_room(points, count, budget_s - (time.monotonic() - started)):
            break
        sites = sites_of(count)
        secrets = bench.keys(sites=sites)
        with bench.meshes(star(sites)) as lab:
            try:
                points.append(bring_up(lab, vpn, tunnel_levels(params), secrets))
            except MeasurementError as never:
                if not points:
                    raise
                why, too_slow = f"{count} sites: {never}", count if isinstance(never, TooSlow) else 0
                break
    on_paper = {
        "joining": {str(size): joining(vpn, tunnel_levels(params), size).effort for size in sizes},
        "paper": printed_tables(vpn.name)["scalability"],
    }
    measured = results(points, sizes, why, on_paper, too_slow)
    return measured


def bring_up(lab: Lab, vpn: Vpn, params: Params, secrets: Secrets) -> Size:
    """From the first command on a gateway until every pair of gateways has talked through its tunnel, there and back,
    from LAN address to LAN address. Raises MeasurementError.

    The earlier site of a pair asks: did both at once, two WireGuard peers would refuse each other's handshake and wait
    five seconds (each forgets its own initiation when the other's comes in), by the question's doing, not the mesh's.
    """
    text: dict[str, str] = {}
    prepare_beside(lab, vpn, params, secrets)
    for site in lab.sites:
        gateway, text = lab.gateway(site), vpn.render(site, peers_of(site, lab.sites), params, secrets)
        put_files(gateway, vpn, text)
        for name in ("answer", "everyone"):
            gateway.write(f"{probes.FOLDER}/{name}.py", probes.source(name), mode=0o644)
        gateway.spawn("python3", "-IS", f"{probes.FOLDER}/answer.py", str(ANSWER_PORT), log="mesh-answer")
    for site in lab.sites:
        wait_until(partial(listening, lab.gateway(site)), "the answering probe listening")
    # On a busy machine what is sent in a new lab's first second can come a second late. fastd's first call crossed the
    # other end's then, and nothing passed for 20 s.
    first, limit_s = lab.sites[0], UP_WITHIN_S * PATIENCE
    if mute := late(lab, {site.name: (site.wan_address, [first.wan_address]) for site in lab.sites[1:]}, limit_s):
        raise MeasurementError(f"{', '.join(mute)} did not reach {first.name} on the WAN within {limit_s:g} s")
    started = time.monotonic()
    start_beside(lab, vpn, params)
    for site in reversed(lab.sites):
        vpn.start(lab.gateway(site), site, peers_of(site, lab.sites), params)
    later = {
        site.name: (site.lan_address, [peer.lan_address for peer in lab.sites if peer.number > site.number])
        for site in lab.sites[:-1]
    }
    missed = late(lab, later, limit_s)
    up_s = time.monotonic() - started
    if missed:
        raise TooSlow(f"{', '.join(missed)} did not reach every later site within {limit_s:g} s")
    memory, cpu = cost_of(lab)
    size = sum(len(content.encode()) for content in text.values())
    return Size(len(lab.sites), round(up_s, 3), memory, round(cpu, 4), size, sum(len(lines(c)) for c in text.values()))


def late(lab: Lab, asked: Mapping[str, tuple[str, Sequence[str]]], limit_s: float) -> list[str]:
    """Let each gateway ask its addresses, all at once. Returns the gateways that lacked an answer after ``limit_s``."""
    asking = []
    for name, (source, addresses) in asked.items():
        argv = ("python3", "-IS", f"{probes.FOLDER}/everyone.py", source, str(ANSWER_PORT))
        words = (f"{limit_s:g}", f"{lab.rtt_s:g}", *addresses)
        asking.append((name, lab.nodes[name].spawn(*argv, *words, log=f"mesh-{len(lab.sites)}")))
    return [name for name, process in asking if process.wait(limit_s + 10) != 0]


def listening(node: LabNode) -> bool:
    """Does the answering probe listen on this gateway? By ss(8)."""
    return f":{ANSWER_PORT} " in node.run("ss", "-Hltn").stdout


def cost_of(lab: Lab) -> tuple[int, float]:
    """Bytes and CPU seconds of the VPN's processes on all gateways (proc_pid_stat(5)); the probes' are none."""
    memory, spent_s = 0, 0.0
    for _, pid in processes([lab.gateway(site) for site in lab.sites]):
        with suppress(OSError):
            if any(probes.FOLDER in word for word in proc.argv_of(pid)):
                continue
            memory += daemon(pid).pss_bytes
            spent_s += max(proc.spent_s(pid, children=True), of_threads_s(pid))
    return memory, spent_s


def of_threads_s(pid: int) -> float:
    """What the process' living threads have run, in nanoseconds' resolution (Documentation/scheduler/sched-stats): a
    tick of 10 ms is more than a small daemon needs. 0 where the kernel does not tell."""
    spent_ns = 0
    for thread in proc.threads_of(pid):
        with suppress(*proc.GONE):
            spent_ns += int(proc.thread_file(pid, thread, "schedstat").split()[0])
    return spent_ns / 1e9


def no_room(points: Sequence[Size], count: int, left_s: float) -> str:
    """Why a mesh of ``count`` sites is not tried after those of ``points``; "" where it is."""
    if not points:
        return ""
    need_s, need_bytes = predict(points, count, "up_s"), predict(points, count, "memory_bytes")
    if need_s > min(left_s, UP_WITHIN_S * PATIENCE):
        return f"{count} sites would take about {need_s:.0f} s, and {left_s:.0f} s are left"
    room = proc.memory_of(Path("/proc/meminfo").read_text(), "MemAvailable") * SHARE
    if need_bytes > room:
        return f"{count} sites would take about {need_bytes / 2**30:.1f} GiB of {room / 2**30:.1f} GiB"
    return ""


def predict(points: Sequence[Size], count: int, what: str) -> float:
    """``what`` at ``count`` sites: by a parabola in the number of sites from three ``points`` on; else in proportion to
    the tunnels, of one site or of all."""
    values = [float(getattr(point, what)) for point in points]
    if len(points) < 3:
        of_a_site = (count - 1) / (points[-1].sites - 1)
        return values[-1] * of_a_site * (1 if what in OF_A_SITE else count / points[-1].sites)
    fit = np.polyfit([point.sites for point in points], values, 2)
    return max(0.0, float(np.polyval(fit, count)))


def results(
    points: Sequence[Size],
    sizes: Sequence[int],
    why: str,
    on_paper: Mapping[str, Any] | None = None,
    too_slow: int = 0,
) -> Measured:
    """Values at ``AT`` sites where that was brought up; every size, and predictions of those that were not, beside.

    ``too_slow``: the size that was not full in time, if any. What the fit says of it, and of larger ones, is then a
    lower bound where it is less than that time."""
    by_size = {point.sites: point for point in points}
    missing = [count for count in sizes if count not in by_size]
    expected = {
        str(count): {what: round(predict(points, count, what), 3) for what in (*OF_ALL, *OF_A_SITE)}
        for count in missing
    }
    limit_s = UP_WITHIN_S * PATIENCE
    for count in missing:
        if too_slow and count >= too_slow and expected[str(count)]["up_s"] < limit_s:
            expected[str(count)] |= {"up_s": limit_s, "up_at_least": True}
    detail = {
        "sizes": {str(point.sites): point.as_data() for point in points},
        "predicted": expected,
        "ended": why,
        "too_slow_sites": too_slow,
        **(on_paper or {}),
    }
    measured = Measured()
    if missing:
        measured.warnings.append(f"mesh of {', '.join(map(str, missing))} sites: predicted, not measured: {why}")
    if AT in by_size:
        data = by_size[AT].as_data()
        measured.measurements = [measurement(metric, float(data[name])) for metric, name in METRICS.items()]
        measured.measurements[0].detail.update(detail)
    else:
        reason = {"reason": f"no mesh of {AT} sites: {why or 'not asked for'}"}
        measured.attempt = {"inconclusive": dict.fromkeys(METRICS, reason), **detail}
    return measured


class Mesh(Whole):
    """Full meshes of growing size."""

    name = "mesh"
    factors = {"sites": Levels(tuple(map(str, SIZES)), told="up to {} sites".format)}  # absent: all of SIZES
    metrics = (
        time_s(
            name="mesh_time",
            title="Time to a mesh of ten",
            definition="The time from the first command on a gateway until each of ten gateways has reached every "
            "other LAN through its tunnel. The gateways are started one after the other. Keys and files are in place.",
            source="OSLV paper, section Scalability; docs/operations.md",
        ),
        Metric(
            name="mesh_memory",
            title="Memory per tunnel of a mesh of ten",
            unit="B",
            better="lower",
            definition="Proportional set size of the VPN's processes on all ten gateways, divided by the 45 tunnels. "
            "The kernel's own memory is not counted.",
            source="OSLV paper, section Scalability (N tunnels take N times the memory); proc_pid_smaps(5)",
        ),
        time_s(
            name="mesh_cpu",
            title="CPU per tunnel of a mesh of ten",
            definition="CPU seconds that the VPN's processes on all ten gateways have used when the mesh is up, "
            "divided by the 45 tunnels.",
            source="OSLV paper, section Scalability (processing power); proc_pid_stat(5)",
        ),
    )

    def labs(self, params: Mapping[str, str]) -> int:
        return AS_MANY_AS

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 45.0 if "sites" not in params else int(params["sites"]) * 2.0

    def once(self, bench: Bench, asked: Asked) -> Measured:
        most = int(asked.params.get("sites", max(SIZES)))
        return mesh(bench, asked.vpn, asked.params, [size for size in SIZES if size <= most])
