"""What a second gateway costs while nothing fails: a download's time, and the CPU time of the lab and of its nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.metric import time_s
from runner.data.trials import Value
from runner.instruments.failures.port_threads import give_threads, thread_s
from runner.instruments.failures.redundancy import PAIR, arm
from runner.instruments.failures.transfer import download_from_pair, limit_of
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import cpu_scope, snapshot
from runner.instruments.traffic.download import SLOWEST_BPS
from runner.lab.node.groups import GroupSpent
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import REDUNDANT
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

WHOLE_FILE_BYTES = 50_000_000  # as fast as it goes: the paper's second test
STALLS_S = 10.0  # nothing comes for so long: broken off
TRIED_S = 0.2  # ten or more ticks of a clock
COSTS = (
    time_s(
        name="ha_download_s",
        title="Download with a second gateway",
        definition="The time of an HTTP download, of 50 MB unless another size is asked for, with or without a "
        "second gateway in standby. Nothing fails. The detail has the CPU seconds by kind.",
        source="ClusterIP paper, Section VI (first and second test); curl(1), time_total; proc_stat(5)",
    ),
    time_s(
        name="ha_user_s",
        title="User CPU time of a download",
        definition="CPU time in user mode of the whole lab during the download of ha_download_s. This and the other "
        "times by mode are not measured where the kernel does not tell the modes apart, as in User Mode Linux.",
        source="ClusterIP paper, Section VI (first and second test); proc_stat(5)",
    ),
    time_s(
        name="ha_system_s",
        title="System CPU time of a download",
        definition="CPU time in the kernel, including interrupts, of the whole lab during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (first and second test); proc_stat(5)",
    ),
    time_s(
        name="ha_client_user_s",
        title="User CPU time of the client of a download",
        definition="CPU time in user mode of all processes of the host that downloads, during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (the command `time` around wget); cgroups(7)",
    ),
    time_s(
        name="ha_client_system_s",
        title="System CPU time of the client of a download",
        definition="CPU time in the kernel of all processes of the host that downloads, during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (the command `time` around wget); cgroups(7)",
    ),
    time_s(
        name="ha_gateway_cpu_s",
        title="CPU time of the active gateway",
        definition="CPU time of all processes of the active gateway, in user mode and in the kernel, during the "
        "download of ha_download_s. Where the VPN is in the kernel, with the threads that take the packets of its "
        "ports: there is one for each port of the lab, as with threaded NAPI on a network card. Not measured where "
        "this process cannot see the kernel's threads.",
        source="ClusterIP paper, Section VI (the command `top`: the IPsec task); cgroups(7); proc_pid_stat(5)",
    ),
    time_s(
        name="ha_passive_cpu_s",
        title="CPU time of the passive gateway",
        definition="The same of the gateway that stands by.",
        source="ClusterIP paper, Section VII; cgroups(7); proc_pid_stat(5)",
    ),
)


def measure_undisturbed(bench: Bench, vpn: Vpn, params: Mapping[str, str]) -> Measured:
    """``ha_download_s`` with its CPU time, the whole lab's and by node: what redundancy costs while nothing fails.

    The host behind the two gateways sends, as in the paper. Raises MeasurementError where the download breaks off.
    """
    lab, file_bytes = bench.lab, int(params.get("download_bytes", WHOLE_FILE_BYTES))
    arm(lab, vpn, params["redundancy"])
    in_kernel = vpn.dataplane == "kernel"
    threads = give_threads(lab, REDUNDANT) if in_kernel and "download_bytes" in params else {}
    limit = limit_of(params)
    longest_s = 10 + file_bytes * max(3 / limit, 8 / SLOWEST_BPS)
    with download_from_pair(lab, longest_s, file_bytes, limit, STALLS_S) as download:
        before, own = snapshot(lab), by_node(lab, threads)
        download.begin()
        took = download.end()
    after, own = snapshot(lab), spent_between(own, by_node(lab, threads))
    if isinstance(took, str):
        raise MeasurementError(f"the download broke off although nothing failed: {took}")
    cpu = {kind: round(after.spent.cpu_s[kind] - before.spent.cpu_s[kind], 3) for kind in after.spent.cpu_s}
    detail: dict[str, Any] = {"file_bytes": file_bytes, "limit_bytes_per_s": params.get("download_limit", "off")}
    detail |= {"cpu_seconds": cpu, "of": cpu_scope(lab), "cpus": params.get("cpus", "all")}
    measured = {"ha_download_s": took}
    if tells := tells_modes_apart():
        measured |= {"ha_user_s": cpu["user"], "ha_system_s": round(cpu["system"] + cpu["irq"] + cpu["softirq"], 3)}
    values = [measurement(metric, value, **detail) for metric, value in measured.items()]
    values += of_processes(own, lab.host2.name, not in_kernel or bool(threads), tells)
    return Measured(values)


def tells_modes_apart() -> bool:
    """Does this kernel count time in the kernel as such? User Mode Linux 6.1 counts nearly all of it as user time."""
    before = os.times()
    while (spent := sum(os.times()[:2]) - sum(before[:2])) < TRIED_S:
        os.urandom(10**6)  # is made in the kernel
    return os.times().system - before.system > spent / 2


def by_node(lab: Lab, threads: Mapping[str, Sequence[int]]) -> dict[str, GroupSpent]:
    """The CPU time of each node's processes so far, and of a gateway's ``threads``; nodes whose processes are not
    counted are left out. What a host's port receives is no work of the program that downloads."""
    spent = {name: node.cpu_times() for name, node in lab.nodes.items()}
    return {
        name: node_spent + GroupSpent(0.0, thread_s(threads.get(name, ()) if name in REDUNDANT.gateways else ()))
        for name, node_spent in spent.items()
        if node_spent is not None
    }


def spent_between(before: Mapping[str, GroupSpent], after: Mapping[str, GroupSpent]) -> dict[str, GroupSpent]:
    """The CPU time of each node between two readings, of the nodes that are in both."""
    return {name: after[name] - before[name] for name in before.keys() & after.keys()}


def of_processes(own: Mapping[str, GroupSpent], client: str, whole: bool, tells: bool) -> list[Value]:
    """The CPU time of the client and of the gateways; empty where it is not counted.

    ``whole``: the VPN's work on packets is in it. ``tells``: the kernel tells its own time from that of programs.
    """
    if not {client, *PAIR} <= own.keys():
        return []
    nodes = {name: {"user": round(spent.user_s, 4), "system": round(spent.system_s, 4)} for name, spent in own.items()}
    active, passive = (own[name] for name in PAIR)
    values = {"ha_gateway_cpu_s": active.all_s, "ha_passive_cpu_s": passive.all_s} if whole else {}
    if tells:
        values |= {"ha_client_user_s": own[client].user_s, "ha_client_system_s": own[client].system_s}
    return [measurement(name, round(value, 4), cpu_seconds_by_node=nodes) for name, value in values.items()]
