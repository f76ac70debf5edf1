"""A lab whose gateway 1 has a core to itself and gets more than it can carry, for tests and `make bench-limits`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from runner.data.limits import judge
from runner.data.loads import Limit, MachineLoad
from runner.data.own_cores import Apart, on_own_cores
from runner.data.wan import Conditions
from runner.instruments.tools.cost import processes
from runner.instruments.tools.fragments import IP_UDP_BYTES
from runner.instruments.tools.generator import Load, generator
from runner.instruments.tools.limits import Limits
from runner.instruments.tools.visits import visits
from runner.lab.readings.wire import outer
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from runner.sweep import cpu_quota
from runner.tunnel.bring_up import Bench
from tests.lab.test_packets import bench_in

SLICE_S = 0.3
OVERLOAD_BPS = 1.5e9
PACKET_BYTES = 1300
PREDICTED_FROM_BPS = {"openvpn": 100e6, "wireguard_go": 400e6}  # rates that shared cores carry


def threads_of(lab: Lab, *names: str) -> Iterator[int]:
    """The threads of these nodes."""
    for _, pid in processes([lab.nodes[name] for name in names]):
        with suppress(OSError):  # gone
            yield from map(int, os.listdir(f"/proc/{pid}/task"))


def alone_on(lab: Lab, name: str, core: int) -> None:
    """One node has a core to itself, before whatever else this machine does; the others have the other cores."""
    for node in lab.nodes:
        for thread in threads_of(lab, node):
            with suppress(OSError):
                others = os.sched_getaffinity(0) - {core}
                os.sched_setaffinity(thread, {core} if node == name else others)
                if node in (name, "host1"):  # and the sender, so that there is always something to do
                    os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


def prefer(lab: Lab) -> None:
    """Whatever else this machine does stays behind the lab."""
    for group in cpu_quota.GROUPS.glob(f"*/vpneval-{os.getpid()}-*"):  # a quota's, which competes as a whole
        for name, weight in (("cpu.shares", "20000"), ("cpu.weight", "10000")):
            if (group / name).exists():
                (group / name).write_text(weight)
    for _, pid in processes(list(lab.nodes.values())):
        with suppress(OSError):  # where sessions share the cores first, and nice counts within one (sched(7))
            Path(f"/proc/{pid}/autogroup").write_text("-15")
    for thread in threads_of(lab, *lab.nodes):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, -15)


@contextmanager
def tunnel(
    image: Image, logs: Path, name: str, quota: str = "", conditions: Conditions | None = None
) -> Iterator[Bench]:
    """A tunnel that has carried something already."""
    with ExitStack() as stack:
        hold = stack.enter_context(cpu_quota.quota({"gw2_cpu": quota} if quota else {}))
        lab = stack.enter_context(namespace_lab(image, logs=logs))
        if conditions:
            wan.apply(lab, conditions)
        bench = bench_in(lab, name, image)
        stack.callback(bench.close)
        hold(lab)
        watched(bench, 1)  # from now on, what comes to a gateway is not the VPN's
        prefer(lab)
        yield bench


def watched(bench: Bench, slices: int) -> tuple[Limit, list[MachineLoad]]:
    """The limit of a TCP transfer in so many slices, and what it is made of."""
    limits, via = Limits(), visits(bench)
    for _ in range(slices):
        with limits.watch(bench):
            via.tcp(SLICE_S)
    loads = limits.machine_loads()
    limit = judge(loads)
    assert limit is not None
    print(limit.sentence, *limit.evidence, sep="\n    ")
    return limit, loads


@dataclass(frozen=True)
class Carried:
    """Payload in bit/s that gateway 1 put on the WAN at most, and what it was offered then."""

    bps: float
    offered_bps: float


def predicted_and_carried(image: Image, logs: Path, name: str, rate_bps: float) -> tuple[Apart, Carried]:
    """Predicted at ``rate_bps`` on shared cores for a gateway 1 of one core, which several threads would share; carried
    at overload, with gateway 1 alone on a core.

    What it carries is what it puts on the WAN: how much of that gateway 2 takes hangs on what else is on its core.
    """
    with tunnel(image, logs, name) as bench:
        pieces(bench, rate_bps)
        prefer(bench.lab)
        (load,) = pieces(bench, rate_bps)[0]
        own = [one for one in load.processes if one.node == "gw1"]
        predicted = on_own_cores([[load.model_copy(update={"cores": load.cores[:1], "processes": own})]])
        assert predicted is not None
        alone_on(bench.lab, "gw1", 0)
        return predicted, pieces(bench, 2 * OVERLOAD_BPS)[1]


def pieces(bench: Bench, rate_bps: float) -> tuple[list[MachineLoad], Carried]:
    """What the machines did in five pieces; and the best of these, as other work on the machine only takes from it."""
    limits, found = Limits(), []
    payload_bytes = PACKET_BYTES - IP_UDP_BYTES
    for _ in range(5):
        with limits.watch(bench) as piece:
            before = outer(bench.lab)
            arrived = generator(bench).play(Load((PACKET_BYTES,), rate_bps / 8 / payload_bytes, 0.7))
            left = outer(bench.lab) - before
            piece.carried_bytes = arrived.kept_up * payload_bytes
        bits_per_packet_s = 8 * payload_bytes / arrived.seconds
        found.append(Carried(left.packets * bits_per_packet_s, arrived.sent * bits_per_packet_s))
    return limits.machine_loads(), max(found, key=lambda one: one.bps)
