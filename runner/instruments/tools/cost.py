"""What the traffic costs the machines that carry it: CPU time, context switches, system calls, memory.

A snapshot before a test and one after it; everything is read from /proc in a few milliseconds. System calls
need perf(1), which slows the whole kernel's system calls down while it counts, so that they are counted in a
time of their own, in which nothing else is measured.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from runner.data.errors import MeasurementError
from runner.data.trials import Value
from runner.instruments.result import measurement
from runner.lab.node import LabNode, proc
from runner.lab.shape.site_to_site import Lab

PACKET_BYTES = 1448  # payload of a full TCP segment at 1500 bytes MTU: less IP, TCP and its timestamps option
BOOT_ID = "/proc/sys/kernel/random/boot_id"
BACKGROUND_S = 1.0
MORE, TICKS_S = 1.1, 0.1  # what the clocks of two machines, read one after the other, may add
CALLS = ("perf", "stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p")
# The processes of a node that is a machine of its own, and the programs that look at them.
LOOK = (
    "grep -Hs . /proc/[0-9]*/comm; grep -Hs ctxt_switches: /proc/[0-9]*/task/[0-9]*/status;"
    "grep -Hs ^Pss: /proc/[0-9]*/smaps_rollup; cat /proc/net/dev"
)
LOOKING = ("sh", "grep", "cat")


@dataclass(frozen=True)
class DaemonState:
    """A process of the VPN: context switches of all its threads so far, and its proportional set size."""

    name: str
    switches: int
    pss_bytes: int


class Spent(NamedTuple):
    """``cpu_s``: CPU seconds since boot by kind, less what the machines that ``cpu_scope`` names spend without a test;
    ``switches``: their context switches. ``at_s``: when, by a clock of no meaning. ``cores``: theirs together; 0 where
    nobody has counted them."""

    cpu_s: dict[str, float]
    switches: int
    at_s: float = 0.0
    cores: int = 0


@dataclass(frozen=True)
class CostSnapshot:
    """Counters since boot. ``daemons``: by gateway and PID. ``wan_frames``: through the first gateway's WAN interface,
    both ways."""

    spent: Spent
    daemons: dict[tuple[str, int], DaemonState]
    wan_frames: int


def cpu_scope(lab: Lab) -> str:
    """Whose CPU time is counted: nodes that share a kernel share its counters, the generators included."""
    if lab.hosts_on_gateways:
        return "both machines, with their hosts"
    return "the whole lab" if lab.shared_kernel else "both gateways"


def machines(lab: Lab) -> Spent:
    """What the machines that ``cpu_scope`` names have spent. If others use them, too, what they spend without a test is
    measured first, for BACKGROUND_S."""
    if lab.shared_kernel:
        return _sum_stats([Path("/proc/stat").read_text()])
    if lab.background is None:
        before = _sum_stats(_stats(lab))
        time.sleep(BACKGROUND_S)
        after = _sum_stats(_stats(lab))
        passed_s = after.at_s - before.at_s
        lab.background = {kind: (after.cpu_s[kind] - before.cpu_s[kind]) / passed_s for kind in after.cpu_s}
    spent = _sum_stats(_stats(lab))
    cpu_s = {kind: seconds - spent.at_s * lab.background[kind] for kind, seconds in spent.cpu_s.items()}
    return spent._replace(cpu_s=cpu_s)


def _stats(lab: Lab) -> list[str]:
    """/proc/stat of the gateways; once where they are one machine, as two containers are, which show it whole."""
    said = [lab.gateway(site).run("cat", "/proc/stat", BOOT_ID).stdout for site in lab.sites]
    return list({text.split()[-1]: text for text in said}.values())


def _sum_stats(stats: Sequence[str]) -> Spent:
    each = [cpu_seconds(stat) for stat in stats]
    cpu_s = {kind: sum(spent[kind] for spent in each) for kind in each[0]}
    cores = len(re.findall(r"^cpu\d", "\n".join(stats), re.MULTILINE))
    return Spent(cpu_s, sum(map(proc.context_switches, stats)), time.monotonic(), cores)


def impossible(before: Spent, after: Spent) -> str:
    """Why the machines cannot have spent the CPU time that they say between two readings; empty where they can."""
    cpu_s, passed_s = sum(after.cpu_s.values()) - sum(before.cpu_s.values()), after.at_s - before.at_s
    if not after.cores or cpu_s <= MORE * after.cores * passed_s + TICKS_S:
        return ""
    spent = f"{cpu_s:.1f} s of CPU time within {passed_s:.1f} s"
    return f"the machines say that they spent {spent}, and they have {after.cores} cores together"


def snapshot(lab: Lab) -> CostSnapshot:
    """The counters now."""
    gateways = [lab.gateway(site) for site in lab.sites]
    if lab.shared_kernel:
        running = {(name, pid): daemon(pid) for name, pid in processes(gateways)}
        network = Path(f"/proc/{gateways[0].pid}/net/dev").read_text()
    else:
        looks = [node.run("sh", "-c", LOOK, check=False).stdout for node in gateways]
        running = {
            (node.name, pid): process
            for node, look in zip(gateways, looks, strict=True)
            for pid, process in seen_daemons(look).items()
        }
        network = looks[0]
    return CostSnapshot(machines(lab), running, frames(network, lab.sites[0].wan_interface))


def costs(lab: Lab, before: CostSnapshot, after: CostSnapshot, received_bytes: int) -> list[Value]:
    """What it cost, between two snapshots, to carry ``received_bytes`` of TCP payload from host to host."""
    spent, was = after.spent, before.spent
    cpu = {kind: round(spent.cpu_s[kind] - was.cpu_s[kind], 3) for kind in spent.cpu_s}
    total = sum(cpu.values())  # of machines with other work, less what that usually takes: it may be below 0
    packets = received_bytes / PACKET_BYTES
    of = cpu_scope(lab)
    own = sum(
        process.switches - (before.daemons[key].switches if key in before.daemons else 0)
        for key, process in after.daemons.items()
    )
    costs = [
        measurement(
            "context_switches_per_packet",
            (spent.switches - was.switches) / packets,
            of=of,
            of_daemons=round(own / packets, 4),
            packets=round(packets),
            wan_frames=after.wan_frames - before.wan_frames,
        ),
        memory(after),
    ]
    if total > 0 and not impossible(was, spent):  # nor in a test shorter than a tick of the clock
        costs.insert(0, measurement("cpu_per_gigabyte", total / (received_bytes / 1e9), of=of, cpu_seconds=cpu))
        costs.append(measurement("throughput_per_core", received_bytes * 8 / total, of=of))
    return costs


def memory(now: CostSnapshot) -> Value:
    """The memory of the VPN's daemons."""
    by_daemon: dict[str, int] = {}
    for process in now.daemons.values():
        by_daemon[process.name] = by_daemon.get(process.name, 0) + process.pss_bytes
    return measurement("memory_bytes", float(sum(by_daemon.values())), by_daemon=by_daemon)


def of_slice(before: Spent, after: Spent, carried: int) -> dict[str, float]:
    """The costs of ``carried`` bytes of payload between two readings of ``machines``, by their metrics' names."""
    cpu_s = sum(after.cpu_s.values()) - sum(before.cpu_s.values())
    if cpu_s <= 0 or impossible(before, after):  # shorter than a tick of the clock
        return {}
    return {
        "cpu_per_gigabyte": cpu_s / (carried / 1e9),
        "throughput_per_core": carried * 8 / cpu_s,
        "context_switches_per_packet": (after.switches - before.switches) / (carried / PACKET_BYTES),
    }


def cpu_seconds(stat: str) -> dict[str, float]:
    """CPU seconds by kind, from the text of /proc/stat (proc_stat(5)); idle, I/O wait and stolen time left out."""
    user, nice, system, _idle, _iowait, irq, softirq, _stolen = proc.cpu_ticks(stat)
    ticks = {"user": user + nice, "system": system, "irq": irq, "softirq": softirq}
    return {kind: count * proc.TICK_S for kind, count in ticks.items()}


def frames(network: str, interface: str) -> int:
    """Frames through an interface so far, both ways, from a text with /proc/net/dev in it.

    One that offloading cuts or joins later counts once. Raises MeasurementError where the interface is missing.
    """
    found = proc.counters(network)
    if f"{interface} rx_packets" not in found:
        raise MeasurementError(f"the gateway has no interface {interface}")
    return found[f"{interface} rx_packets"] + found[f"{interface} tx_packets"]


def processes(nodes: Sequence[LabNode]) -> list[tuple[str, int]]:
    """Node and PID, as this machine sees it, of all processes of ``nodes``, without the one that holds each node.

    On a gateway that is the VPN, and nothing else.
    """
    holders = {node.pid for node in nodes}
    return [(name, pid) for name, pid in proc.of_nodes(nodes) if pid not in holders]


def daemon(pid: int) -> DaemonState:
    """A process of this machine (proc_pid_status(5), proc_pid_smaps(5)); all zero if it has just ended."""
    try:
        name = proc.name_of(pid)
        threads = [proc.thread_file(pid, thread, "status") for thread in proc.threads_of(pid)]
        pss_bytes = proc.memory_bytes(pid, "Pss")
    except proc.GONE:
        return DaemonState("", 0, 0)
    switches = sum(int(count) for text in threads for count in re.findall(r"ctxt_switches:\s+(\d+)", text))
    return DaemonState(name, switches, pss_bytes)


def pss_bytes(node: LabNode) -> int:
    """The memory of all processes of a node, where the nodes share a kernel."""
    return sum(daemon(pid).pss_bytes for _, pid in processes([node]))


def own_cpu_s(node: LabNode) -> float:
    """CPU seconds of all processes of a node so far. Raises MeasurementError where the kernel does not count them."""
    if (cpu_s := node.cpu_s()) is None:
        raise MeasurementError("this machine's kernel gives a node no control group that counts its CPU time")
    return cpu_s


def seen_daemons(look: str) -> dict[int, DaemonState]:
    """PID on the node -> daemon, from the output of ``LOOK`` there; without PID 1, which holds the node."""
    names: dict[int, str] = {}
    switches: dict[int, int] = {}
    pss: dict[int, int] = {}
    for number, file, text in re.findall(r"^/proc/(\d+)/(?:task/\d+/)?(\w+):(.*)$", look, flags=re.MULTILINE):
        pid = int(number)
        if file == "comm":
            names[pid] = text
        elif file == "status":
            switches[pid] = switches.get(pid, 0) + int(text.split()[1])
        else:
            pss[pid] = int(text.split()[1]) * 1024
    return {
        pid: DaemonState(name, switches.get(pid, 0), pss.get(pid, 0))
        for pid, name in names.items()
        if pid != 1 and name not in LOOKING
    }


def system_calls(lab: Lab, seconds: float) -> float | str:
    """System calls a second of the gateways' daemons, counted for ``seconds``; or why they cannot be counted.

    By the tracepoint raw_syscalls:sys_enter and the machine's own perf(1), which fits its kernel.
    """
    pids = {site.name: [str(pid) for name, pid in snapshot(lab).daemons if name == site.name] for site in lab.sites}
    if not any(pids.values()):
        return 0.0  # no daemon, no call
    if lab.shared_kernel:
        every = ",".join(pid for own in pids.values() for pid in own)
        return counted_calls(perf_here(every, seconds), seconds)
    total = 0.0
    for site in lab.sites:
        if not pids[site.name]:
            continue
        if lab.gateway(site).run("which", "perf", check=False).code != 0:
            return f"{site.name} has no perf (Debian: apt-get install linux-perf)"
        done = lab.gateway(site).run(*CALLS, ",".join(pids[site.name]), "sleep", str(seconds), check=False)
        calls = counted_calls(done.stderr or done.stdout, seconds)
        if isinstance(calls, str):
            return f"{site.name}: {calls}"
        total += calls
    return total


def perf_here(pids: str, seconds: float) -> str:
    """The output of perf on the runner's own machine, because the nodes' image has none."""
    if shutil.which("perf") is None:
        return "this machine has no perf (Debian: apt-get install linux-perf)"
    argv = ("setpriv", "--pdeathsig", "KILL", *CALLS, pids, "sleep", str(seconds))
    environment = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=seconds + 20, check=False)
    return done.stderr


def counted_calls(output: str, seconds: float) -> float | str:
    """Calls a second from what `perf stat -x,` says; or its reason why there is none."""
    for line in output.splitlines():
        count, *rest = line.split(",")
        if "raw_syscalls:sys_enter" in rest:
            if count == "<not counted>":  # no daemon ran in that time
                return 0.0
            return int(count) / seconds if count.isdigit() else f"perf: {count.strip('<>')}"
    lines = [line.strip().removeprefix("\\___ ") for line in output.splitlines() if line.strip()]
    return "perf: " + (": ".join(lines[:2]) or "no count and no reason")
