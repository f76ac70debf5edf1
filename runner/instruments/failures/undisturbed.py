"""What a second gateway costs while nothing fails: a download's time, and the CPU time of the lab and of its nodes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.metric import Metric
from runner.data.trials import Value
from runner.instruments.failures.redundancy import PAIR, arm
from runner.instruments.failures.transfer import UNLIMITED, limit_of, pushed
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import counted, snapshot
from runner.instruments.traffic.download import fetch, make_file
from runner.lab.node.groups import Spent
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

WHOLE_FILE_BYTES = 50_000_000  # as fast as it goes: the paper's second test
COSTS = (
    Metric(
        name="ha_download_s",
        title="Download with a second gateway",
        unit="s",
        better="lower",
        definition="The time of an HTTP download, of 50 MB unless another size is asked for, with or without a "
        "second gateway in standby. Nothing fails. The detail has the CPU seconds by kind.",
        source="ClusterIP paper, Section VI (first and second test); curl(1), time_total; proc_stat(5)",
    ),
    Metric(
        name="ha_user_s",
        title="User CPU time of a download",
        unit="s",
        better="lower",
        definition="CPU time in user mode of the whole lab during the download of ha_download_s.",
        source="ClusterIP paper, Section VI (first and second test); proc_stat(5)",
    ),
    Metric(
        name="ha_system_s",
        title="System CPU time of a download",
        unit="s",
        better="lower",
        definition="CPU time in the kernel, including interrupts, of the whole lab during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (first and second test); proc_stat(5)",
    ),
    Metric(
        name="ha_client_user_s",
        title="User CPU time of the client of a download",
        unit="s",
        better="lower",
        definition="CPU time in user mode of all processes of the host that downloads, during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (the command `time` around wget); cgroups(7)",
    ),
    Metric(
        name="ha_client_system_s",
        title="System CPU time of the client of a download",
        unit="s",
        better="lower",
        definition="CPU time in the kernel of all processes of the host that downloads, during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (the command `time` around wget); cgroups(7)",
    ),
    Metric(
        name="ha_gateway_user_s",
        title="User CPU time of the active gateway",
        unit="s",
        better="lower",
        definition="CPU time in user mode of all processes of the active gateway, during the download of "
        "ha_download_s.",
        source="ClusterIP paper, Section VI (the command `top`: the IPsec task); cgroups(7)",
    ),
    Metric(
        name="ha_gateway_system_s",
        title="System CPU time of the active gateway",
        unit="s",
        better="lower",
        definition="CPU time in the kernel of all processes of the active gateway, during the download of "
        "ha_download_s. Not measured where the VPN is in the kernel: what the kernel does with a packet is charged "
        "to whoever runs at that moment.",
        source="ClusterIP paper, Section VI (the command `top`: the IPsec task); cgroups(7)",
    ),
    Metric(
        name="ha_passive_cpu_s",
        title="CPU time of the passive gateway",
        unit="s",
        better="lower",
        definition="CPU time of all processes of the gateway that stands by, in user mode and in the kernel, "
        "during the download of ha_download_s. Not measured where the VPN is in the kernel.",
        source="ClusterIP paper, Section VII; cgroups(7)",
    ),
)


def undisturbed(bench: Bench, vpn: Vpn, params: Mapping[str, str]) -> Measured:
    """``ha_download_s`` with its CPU time, the whole lab's and by node: what redundancy costs while nothing fails."""
    lab, file_bytes = bench.lab, int(params.get("download_bytes", WHOLE_FILE_BYTES))
    arm(lab, vpn, params["redundancy"])
    detail: dict[str, Any] = {"file_bytes": file_bytes}
    started = time.monotonic()
    if (limit := limit_of(params)) < UNLIMITED:
        with pushed(lab, 10 + 3 * file_bytes / limit, file_bytes, limit, 10) as download:
            before, own = snapshot(lab), by_node(lab)
            download.begin()
            took = download.end()
        after, own = snapshot(lab), since(own, by_node(lab))
        if isinstance(took, str):
            raise MeasurementError(f"the download broke off although nothing failed: {took}")
        detail["limit_bytes_per_s"] = limit
    else:
        make_file(lab, file_bytes)  # its making is not in the CPU time
        before, own = snapshot(lab), by_node(lab)
        (fetched,) = fetch(lab, bench.address, file_bytes).measurements
        after, own = snapshot(lab), since(own, by_node(lab))
        took, detail = fetched.value, fetched.detail
    cpu = {kind: round(after.cpu_s[kind] - before.cpu_s[kind], 3) for kind in after.cpu_s}
    detail |= {"cpu_seconds": cpu, "of": counted(lab), "cpus": params.get("cpus", "all")}
    system = cpu["system"] + cpu["irq"] + cpu["softirq"]
    measured = [("ha_download_s", took), ("ha_user_s", cpu["user"]), ("ha_system_s", round(system, 3))]
    values = [measurement(metric, value, **detail) for metric, value in measured]
    client = lab.host2 if limit < UNLIMITED else lab.host1
    values += of_processes(own, client.name, vpn.dataplane == "kernel")
    return Measured(values, time.monotonic() - started)


def by_node(lab: Lab) -> dict[str, Spent]:
    """The CPU time of each node's processes so far; nodes whose processes are not counted are left out."""
    spent = {name: node.spent() for name, node in lab.nodes.items()}
    return {name: node_spent for name, node_spent in spent.items() if node_spent is not None}


def since(before: Mapping[str, Spent], after: Mapping[str, Spent]) -> dict[str, Spent]:
    """The CPU time of each node between two readings, of the nodes that are in both."""
    return {name: after[name] - before[name] for name in before.keys() & after.keys()}


def of_processes(own: Mapping[str, Spent], client: str, in_kernel: bool) -> list[Value]:
    """The CPU time of the client's and the gateways' processes; empty where it is not counted.

    ``in_kernel``: the kernel does the VPN's work on packets, and no process is charged with it, so that only a
    gateway's user time is given. The client is no end of the VPN: its two times are its own in any case.
    """
    if not {client, *PAIR} <= own.keys():
        return []
    nodes = {name: {"user": round(spent.user_s, 4), "system": round(spent.system_s, 4)} for name, spent in own.items()}
    active, passive = (own[name] for name in PAIR)
    values = {"ha_client_user_s": own[client].user_s, "ha_client_system_s": own[client].system_s}
    values |= {"ha_gateway_user_s": active.user_s}
    if not in_kernel:
        values |= {"ha_gateway_system_s": active.system_s, "ha_passive_cpu_s": passive.all_s}
    return [measurement(name, round(value, 4), cpu_seconds_by_node=nodes) for name, value in values.items()]
