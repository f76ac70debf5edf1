"""Costs from what the real tools and files said; a wrong or missing count is never a number."""

import pytest

from runner.data.errors import MeasurementError
from runner.instruments.tools.cost import (
    CostSnapshot,
    DaemonState,
    context_switches,
    costs,
    counted_calls,
    cpu_seconds,
    daemon,
    frames,
    seen_daemons,
)
from runner.lab.shape.site_to_site import Lab
from tests.unit.helpers import captured

LAB = Lab({})


def snap(
    user_s: float = 0.0,
    softirq_s: float = 0.0,
    switches: int = 0,
    daemons: dict[int, int] | None = None,
    frames: int = 0,
) -> CostSnapshot:
    running = {("gw1", pid): DaemonState("vpnd", count, 1000 * pid) for pid, count in (daemons or {}).items()}
    return CostSnapshot({"user": user_s, "softirq": softirq_s}, switches, running, frames)


def test_costs_are_differences_for_each_unit_that_arrived() -> None:
    before = snap(10.0, 5.0, 1000, {7: 100}, 50)
    after = snap(11.5, 5.5, 3000, {7: 600, 8: 500}, 2050)
    cpu, switches, memory, per_core = costs(LAB, before, after, 1448 * 1000)
    assert cpu.value == pytest.approx(2.0 / 0.001448)
    assert cpu.detail == {"of": "the whole lab", "cpu_seconds": {"user": 1.5, "softirq": 0.5}}
    assert switches.value == 2.0
    assert (switches.detail["of_daemons"], switches.detail["packets"], switches.detail["wan_frames"]) == (
        1.0,
        1000,
        2000,
    )
    assert memory.value == 15_000
    assert memory.detail["by_daemon"] == {"vpnd": 15_000}
    assert per_core.value == 1448 * 1000 * 8 / 2.0


def test_no_tick_of_the_clock_is_no_endless_throughput() -> None:
    assert "throughput_per_core" not in {found.metric for found in costs(LAB, snap(), snap(), 1448)}


def test_machines_of_their_own_are_named() -> None:
    cpu, *_ = costs(Lab({}, shared_kernel=False), snap(), snap(1.0), 1448)
    assert cpu.detail["of"] == "both gateways"
    cpu, *_ = costs(Lab({}, shared_kernel=False, hosts_on_gateways=True), snap(), snap(1.0), 1448)
    assert cpu.detail["of"] == "both machines, with their hosts"


def test_proc_stat() -> None:
    stat = captured("proc-stat.txt")
    user, nice, system, _, _, irq, softirq = map(int, stat.split()[1:8])
    spent = cpu_seconds(stat)
    assert spent["user"] == pytest.approx((user + nice) / 100)
    assert sum(spent.values()) == pytest.approx((user + nice + system + irq + softirq) / 100)
    assert context_switches(stat) > 10**8


def test_a_look_at_another_machine_finds_the_daemon_and_not_the_look() -> None:
    look = captured("openvpn-look.txt")
    assert seen_daemons(look) == {48: DaemonState("openvpn", 84, 3783 * 1024)}
    assert frames(look, "wan0") == 43 + 36
    with pytest.raises(MeasurementError, match="no interface wan7"):
        frames(look, "wan7")


def test_a_process_that_has_ended_counts_nothing() -> None:
    assert daemon(2**22 + 1) == DaemonState("", 0, 0)  # above the highest PID there can be


def test_system_calls_that_perf_counted() -> None:
    assert counted_calls(captured("perf-stat.txt"), 0.2) == 18026 / 0.2


def test_daemons_that_never_ran_made_no_call() -> None:
    assert counted_calls("<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n", 0.2) == 0.0


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (captured("perf-unknown.txt"), "unknown tracepoint"),
        ("<not supported>,,raw_syscalls:sys_enter,0,100.00,,\n", "perf: not supported"),
        ("", "no count and no reason"),
    ],
)
def test_what_perf_cannot_count_is_a_reason(said: str, reason: str) -> None:
    assert reason in str(counted_calls(said, 0.2))
