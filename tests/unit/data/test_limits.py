"""The sentence that says what limits a throughput, from loads whose limit is known; and the counters it is made of."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from runner.data.limits import judge
from runner.data.loads import CoreLoad, MachineLoad, PortLoad, ProcessLoad, QuotaLoad, Role, ThreadLoad
from runner.lab.probes import loads as probe
from runner.lab.probes.loads import Reader
from runner.lab.readings.loads import LoadWatch

FIVE = ["host1", "gw1", "wan", "gw2", "host2"]
BOTH = [0, 1]


def cores(*busy: float, softirq: float = 0.0, steal: float = 0.0) -> list[CoreLoad]:
    return [
        CoreLoad(core=i, user=share - softirq - steal, system=0, irq=0, softirq=softirq, steal=steal)
        for i, share in enumerate(busy)
    ]


def process(
    node: str,
    name: str,
    busy: float,
    role: Role = "vpn",
    *,
    threads: int = 1,
    thread: float | None = None,
    waiting: float = 0.0,
    allowed: Sequence[int] = BOTH,
    core: int | None = None,
) -> ProcessLoad:
    busiest = ThreadLoad(busy=busy if thread is None else thread, waiting=waiting, core=core) if node else None
    return ProcessLoad(
        node=node, name=name, role=role, busy=busy, threads=threads, allowed=list(allowed), busiest=busiest
    )


def machine(*processes: ProcessLoad, busy: Sequence[float] = (1.0, 1.0), **more: Any) -> MachineLoad:
    name, nodes = more.pop("name", "this machine"), more.pop("nodes", FIVE)
    given = {"cores": cores(*busy), **more}
    return MachineLoad(name=name, nodes=nodes, seconds=10, processes=list(processes), **given)


TUNNEL = process("gw1", "openvpn", 0.6, waiting=0.3), process("gw2", "openvpn", 0.5, waiting=0.3)
SENDER = process("host1", "python3", 0.3, "generator")
TBF = PortLoad(node="wan", port="gw2", queue="tbf", packets=10_000, drops=113, waited=9000)
QUOTA = QuotaLoad(nodes=["gw2"], cores=0.2, periods=100, used_up=99, held_back_s=8.0)
HOG = process("gw2", "sh", 0.5, "other", waiting=0.4)
KNOWN = {
    "gw2's quota: throttled 80 % of the time": machine(*TUNNEL, HOG, quotas=[QUOTA]),
    "gw2: openvpn's only thread, 99 % of core 3": machine(
        process("gw1", "openvpn", 0.7), process("gw2", "openvpn", 0.99, core=3), busy=(0.7, 0.3, 0.3, 1)
    ),
    "gw2: openvpn's only thread, 99 % of a core": machine(*TUNNEL, process("gw2", "openvpn", 0.99), busy=(0.7, 0.6)),
    "gw1: one of charon's 17 threads, 97 % of core 1": machine(
        process("gw1", "charon", 1.0, threads=17, thread=0.97, core=1, allowed=range(4)), busy=(0.2, 1, 0.2, 0.2)
    ),
    "gw1: wireguard-go's 9 threads together, 95 % of 2 cores": machine(
        process("gw1", "wireguard-go", 1.9, threads=9, thread=0.5), busy=(1, 1)
    ),
    "gw1: wireguard-go's 9 threads together, 98 % of core 0": machine(
        process("gw1", "wireguard-go", 0.98, threads=9, thread=0.3, waiting=0.6, allowed=[0]), busy=(1, 0.4)
    ),
    "the path: 113 of 10000 packets dropped at wan's port gw2 (tbf)": machine(*TUNNEL, busy=(0.5, 0.5), ports=[TBF]),
    "gw2: sh, 50 % of a core (not the VPN's)": machine(*TUNNEL, HOG),
    "gw2: sh, 50 % of a core; outside of the lab: 2 × make, 60 % of a core (not the VPN's)": machine(
        *TUNNEL, HOG, process("", "make", 0.3, "other"), process("", "make", 0.3, "other")
    ),
    "gw2: programs outside of the lab, or the kernel's own, 140 % of a core": machine(
        process("gw2", "openvpn", 0.6, waiting=0.3), name="gw2", nodes=["gw2"]
    ),
    "shared cores: both cores busy, most by gw1's openvpn (60 % of one) and gw2's openvpn (50 % of one)": machine(
        *TUNNEL, SENDER
    ),
    "the generator: host1's python3, 96 % of a core": machine(
        process("gw1", "openvpn", 0.3), process("host1", "python3", 0.96, "generator"), busy=(0.9, 0.5)
    ),
    "shared cores: host1's python3, 96 % of a core, with the kernel's work of all nodes": machine(
        process("host1", "python3", 0.96, "generator"), busy=(1, 0.8)
    ),
    "gw2: the kernel's work for packets (softirq), 95 % of core 0": machine(
        name="gw2", nodes=["gw2"], cores=cores(0.97, 0.97, softirq=0.95)
    ),
    "gw2: the hypervisor took 30 % of its cores' time under this load": machine(
        *TUNNEL, name="gw2", nodes=["gw2"], cores=cores(1, 1, steal=0.3)
    ),
    "a queue: 40 packets dropped at gw1's port tun0": machine(
        *TUNNEL, busy=(0.6, 0.6), ports=[PortLoad(node="gw1", port="tun0", packets=9000, drops=40)]
    ),
    "a queue: 70 datagrams refused by full socket buffers of gw2": machine(
        *TUNNEL, busy=(0.6, 0.6), overflows={"gw2": 70}
    ),
    "none found: no core, queue or quota was used up; the busiest program, gw1's openvpn, had 60 % of a core": machine(
        *TUNNEL, busy=(0.6, 0.6)
    ),
}


@pytest.mark.parametrize("sentence", KNOWN)
def test_a_known_limit_is_named(sentence: str) -> None:
    found = judge([KNOWN[sentence]])
    assert found is not None
    assert found.sentence == sentence
    assert found.evidence


def test_what_the_kernel_dropped_and_left_for_later_is_among_the_figures() -> None:
    found = judge([machine(*TUNNEL, softnet_dropped=3, softnet_squeezed=11)])
    assert found is not None
    assert "this machine: the kernel dropped 3 packets before it looked at them" in found.evidence
    assert "this machine: 11 times the kernel left packets that had arrived for later" in found.evidence
    calm = judge([machine(*TUNNEL)])
    assert calm is not None
    assert not any("packets" in line for line in calm.evidence)


def test_machines_of_their_own_are_judged_together() -> None:
    idle = [machine(name=name, nodes=[name], busy=(0.2, 0.1)) for name in ("host1", "gw1", "host2")]
    full = machine(process("gw2", "openvpn", 0.97, core=1), name="gw2", nodes=["gw2"], busy=(0.2, 1))
    found = judge([*idle, full])
    assert found is not None
    assert (found.sentence, found.where) == ("gw2: openvpn's only thread, 97 % of core 1", "gw2")


def test_nothing_is_said_of_what_nobody_watched() -> None:
    assert judge([]) is None


def test_a_search_that_could_offer_no_more_names_the_generator() -> None:
    calm = machine(process("gw1", "openvpn", 0.3), busy=(0.4, 0.4))
    found = judge([calm], generator_limited=True)
    assert found is not None
    assert found.kind == "generator"
    assert judge([calm]) != found


def test_a_program_beside_does_not_count_while_nobody_waits_for_a_core() -> None:
    alone = machine(process("gw1", "openvpn", 0.98, core=0), process("", "make", 1.0, "other"))
    assert judge([alone]).kind == "thread"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("port", "kind"),
    [
        (TBF, "path"),
        (TBF.model_copy(update={"drops": 0}), "path"),  # TCP fills it without a loss: its packets wait
        (TBF.model_copy(update={"drops": 0, "waited": 100}), "none found"),
        (TBF.model_copy(update={"drops": 3, "waited": 100}), "path"),
    ],
)
def test_a_shaped_port_limits_where_it_drops_or_holds_back(port: PortLoad, kind: str) -> None:
    assert judge([machine(*TUNNEL, busy=(0.5, 0.5), ports=[port])]).kind == kind  # type: ignore[union-attr]


def test_a_few_drops_of_a_shaped_port_do_not_outweigh_a_full_thread() -> None:
    few = TBF.model_copy(update={"drops": 3, "waited": 100})
    full = process("gw1", "openvpn", 0.98, core=0)
    assert judge([machine(full, busy=(1, 0.5), ports=[few])]).kind == "thread"  # type: ignore[union-attr]


# --- counters --------------------------------------------------------------------------------------------------------


def test_a_busy_process_of_this_machine_is_read() -> None:
    reader = Reader({"gw1": None}, ["gw1"])  # the node is this process's own namespaces
    reader.holders = set()
    watch, before = LoadWatch(), reader.read()
    own, spent_s = reader.processes()[str(os.getpid())]["name"], time.process_time()
    while time.process_time() < spent_s + 0.3:
        pass
    watch.add({"gw1": before}, {"gw1": reader.read()})
    reader.close()
    (found,) = watch.machine_loads()
    assert sum(one.busy for one in found.processes if one.name == own) * found.seconds > 0.25
    assert {core.core for core in found.cores} >= os.sched_getaffinity(0)


def reading(at_s: float, **changed: Any) -> dict[str, Any]:
    return {
        "at_s": at_s,
        "cores": {"0": [0, 0, 0, 0, 0, 0]},
        "processes": {},
        "groups": {},
        "ports": {"gw2": {}},
        "overflows": {"gw2": 0},
        "softnet": [0, 0],
        "temperature_c": None,
        "heat_events": 3 * int(at_s),
        "clock_ratio": 0.5,
    } | changed


def test_two_pieces_of_time_are_one_load() -> None:
    def vpn(ran_s: float, core: int = 1) -> dict[str, Any]:
        threads = {"7": [ran_s, ran_s / 2, core, 75 * ran_s, 25 * ran_s], "8": [0.0, 0.0, 0, 0, 0]}
        return {
            "7": {
                "node": "gw2",
                "name": "openvpn",
                "role": "vpn",
                "threads": threads,
                "allowed": [0, 1],
                "spent_s": ran_s,
            }
        }

    def port(packets: int, drops: int) -> dict[str, Any]:
        wan0 = {"packets": packets, "dropped": 0, "queues": [["tbf", True, packets, drops, 2 * drops]]}
        return {"gw2": {"wan0": wan0}}

    watch = LoadWatch()
    pieces = [(0.0, 1.0, 0), (5.0, 6.0, 1)]
    for start, end, n in pieces:
        before = reading(start, processes=vpn(n), ports=port(100 * n, 5 * n), groups={"gw2": [0.2, 10, 5, 1.0]})
        ticks = {"0": [50, 10, 0, 20, 0, 20]}
        after = reading(
            end,
            processes=vpn(n + 0.6),
            ports=port(100 * n + 100, 5 * n + 5),
            groups={"gw2": [0.2, 20, 14, 1.8]},
            cores=ticks,
            overflows={"gw2": 3},
        )
        watch.add({"this machine": before}, {"this machine": after})
    (found,) = watch.machine_loads()
    assert (found.seconds, found.looks, found.nodes) == (2.0, 2, ["gw2"])
    assert found.cores == [CoreLoad(core=0, user=0.5, system=0.1, irq=0, softirq=0.2, steal=0)]
    (openvpn,) = found.processes
    assert (openvpn.busy, openvpn.user, openvpn.threads, openvpn.role) == (0.6, 0.75, 2, "vpn")
    assert openvpn.busiest == ThreadLoad(busy=0.6, waiting=0.3, core=1)
    assert found.ports == [PortLoad(node="gw2", port="wan0", queue="tbf", packets=200, drops=10, waited=20)]
    assert found.quotas == [QuotaLoad(nodes=["gw2"], cores=0.2, periods=20, used_up=18, held_back_s=1.6)]
    assert found.overflows == {"gw2": 6}
    assert (found.heat_events, found.clock_ratio) == (6, 0.5)


def test_every_thread_that_is_worth_a_line_is_kept_and_told() -> None:
    def at(shares: Sequence[float]) -> dict[str, Any]:
        threads = {str(7 + i): [share, share / 2, i, 1, 1] for i, share in enumerate(shares)}
        program = {"node": "gw1", "name": "wireguard-go", "role": "vpn", "threads": threads, "allowed": [0, 1]}
        return {"7": program | {"spent_s": sum(shares)}}

    watch = LoadWatch()
    before, after = at([0.0] * 4), at([0.2, 0.5, 0.005, 0.3])
    watch.add({"here": reading(0, processes=before)}, {"here": reading(1, processes=after)})
    loads = watch.machine_loads()
    (found,) = loads[0].processes
    assert found.busiest == ThreadLoad(busy=0.5, waiting=0.25, core=1)
    assert found.others == [ThreadLoad(busy=0.3, waiting=0.15, core=3), ThreadLoad(busy=0.2, waiting=0.1, core=0)]
    assert found.threads == 4
    limit = judge(loads)
    assert limit is not None
    assert any(", its threads 50 %, 30 %, 20 %" in line for line in limit.evidence)


def test_what_has_ended_meanwhile_counts() -> None:
    def at(spent_s: float, threads: dict[str, list[float]]) -> dict[str, Any]:
        server = {"node": "host2", "name": "iperf3", "role": "generator", "threads": threads, "allowed": [0, 1]}
        agent = {"node": "host1", "name": "programs that have ended", "role": "generator", "spent_s": spent_s}
        return {"7": server | {"spent_s": spent_s}, "1": agent}

    watch = LoadWatch()
    before, after = at(1.0, {"7": [1.0, 0, 0, 1, 1]}), at(1.9, {"7": [1.1, 0, 0, 1, 1]})
    watch.add({"here": reading(0, processes=before)}, {"here": reading(1, processes=after)})
    assert {one.node: (one.busy, one.role) for one in watch.machine_loads()[0].processes} == {
        "host1": (0.9, "generator"),
        "host2": (0.9, "generator"),
    }


def test_a_process_number_that_was_given_again_starts_from_zero() -> None:
    def one(name: str, ran_s: float) -> dict[str, Any]:
        return {
            "7": {"node": "gw2", "name": name, "role": "vpn", "threads": {"7": [ran_s, 0, 0, 1, 1]}}
            | {"allowed": [0], "spent_s": ran_s}
        }

    watch = LoadWatch()
    before, after = reading(0, processes=one("old", 100.0)), reading(1, processes=one("new", 0.5))
    watch.add({"this machine": before}, {"this machine": after})
    (process_,) = watch.machine_loads()[0].processes
    assert (process_.name, process_.busy) == ("new", 0.5)


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (
            {
                "cpu.stat": "usage_usec 9\nnr_periods 50\nnr_throttled 40\nthrottled_usec 1500000",
                "cpu.max": "20000 100000",
            },
            [0.2, 50, 40, 1.5],
        ),
        (
            {
                "cpu.stat": "nr_periods 50\nnr_throttled 40\nthrottled_time 1500000000",
                "cpu.cfs_quota_us": "4000",
                "cpu.cfs_period_us": "20000",
            },
            [0.2, 50, 40, 1.5],
        ),
        ({"cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0"}, []),
        ({"cpu.stat": "usage_usec 9\nuser_usec 5"}, []),
        ({}, []),
    ],
)
def test_a_quota_of_either_version_of_control_groups_is_read(
    tmp_path: Path, files: dict[str, str], found: list[float]
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert probe.throttling(str(tmp_path)) == found


def test_the_groups_of_a_process_are_found_in_either_version() -> None:
    assert probe.group_folders("9:name=systemd:/a\n1:cpu:/x/y\n0::/u\n") == [
        "/sys/fs/cgroup/cpu/x/y",
        "/sys/fs/cgroup/cpu/x",
        "/sys/fs/cgroup/cpu",
        "/sys/fs/cgroup/u",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified/u",
        "/sys/fs/cgroup/unified",
    ]
    assert probe.group_folders("0::/\n")[0] == "/sys/fs/cgroup", "in a container it may have the container's quota"


@pytest.mark.parametrize(
    ("over", "fifo", "missed", "dropped"),
    [(0, 0, 0, 5), (0, 0, 70, 75), (70, 70, 70, 75), (0, 40, 70, 75), (70, 0, 0, 75)],
)
def test_what_a_cards_ring_overran_is_dropped_once(over: int, fifo: int, missed: int, dropped: int) -> None:
    """struct rtnl_link_stats64: drivers tell of an overrun in one of three counters or in several, none in dropped."""
    received = [8, over, 6, 6, fifo, missed]  # length, over, crc, frame, fifo, missed
    stats = struct.pack("24Q", 1000, 900, 10**6, 9**6, 30, 20, 3, 2, 11, 12, *received, *[99] * 8)
    assert probe.port_counts(stats) == {"packets": 900, "dropped": dropped}


def test_a_thread_of_the_kernel_is_known_by_its_flag() -> None:
    """Not by its parent's number: where this program is in a container, that number is any program's."""
    thread = ["S", "2", "0", "0", "0", "-1", "2129984", "0", "0", "0", "0", "7", "9"]
    program = ["S", "2", "2", "2", "0", "-1", "4194304", "0", "0", "0", "0", "7", "9"]
    assert probe.kernels(thread)
    assert probe.kernels(["S", "0", *thread[2:]]), "kthreadd itself"
    assert not probe.kernels(program)


def test_overflows_and_squeezes_are_read() -> None:
    snmp = "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors\nUdp: 9 0 7 5 7 0\n"
    assert probe.counter(snmp, "Udp", "RcvbufErrors") == 7
    assert probe.counter("", "Udp", "RcvbufErrors") == 0
    assert probe.softnet("00000010 00000002 0000000a 0\n00000010 00000001 00000001 0\n") == [3, 11]


@pytest.mark.parametrize(
    ("called", "command", "name"),
    [
        ("python3", ["python3", "-IS", "/run/vpneval/visit.py", "far", "80", ""], "visit.py"),
        ("python", ["/usr/bin/python", "-m", "pytest", "-q"], "pytest"),
        ("python3", ["python3", "-c", "import secret"], "python3"),
        ("sh", ["sh", "-c", "while :; do :; done", ""], "sh"),
        ("sh", ["sh", ""], "sh"),
        ("openvpn", ["openvpn", "--config", "/etc/x"], "openvpn"),
        ("kworker/0:1", [""], "kworker/0:1"),
    ],
)
def test_a_program_is_called_by_its_script(called: str, command: list[str], name: str) -> None:
    assert probe.script_of(called, command) == name
