"""Costs from what the real tools and files said; a wrong or missing count is never a number."""

import time

import pytest

from runner.data.errors import MeasurementError
from runner.instruments.tools import cost
from runner.instruments.tools.cost import (
    CostSnapshot,
    DaemonState,
    Spent,
    costs,
    counted_calls,
    cpu_seconds,
    daemon,
    frames,
    impossible,
    machines,
    of_slice,
    seen_daemons,
)
from runner.lab.node import Completed, proc
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
    return CostSnapshot(Spent({"user": user_s, "softirq": softirq_s}, switches), running, frames)


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
    assert proc.context_switches(stat) > 10**8


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


class Gateway:
    """A machine of two cores that says of itself what a test tells it: CPU seconds until now."""

    def __init__(self, boot: str, spent_s: float) -> None:
        self.boot, self.spent_s = boot, spent_s

    def run(self, *argv: str) -> Completed:
        assert argv == ("cat", "/proc/stat", cost.BOOT_ID)
        cpus = f"cpu  {self.spent_s * 100:.0f} 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0\n"
        return Completed(0, f"{cpus}ctxt 1000\n{self.boot}\n", "")


def on_two(monkeypatch: pytest.MonkeyPatch, *boots: str, busy: float = 0.5) -> tuple[list[Gateway], Lab, list[float]]:
    """Two gateways, on which others keep ``busy`` cores busy, their lab, and its clock."""
    gateways, now = [Gateway(boot, 7e5) for boot in boots], [1e4]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        for gateway in gateways:
            gateway.spent_s += busy * seconds

    monkeypatch.setattr("runner.instruments.tools.cost.time.monotonic", lambda: now[0])
    monkeypatch.setattr("runner.instruments.tools.cost.time.sleep", sleep)
    nodes = {f"gw{number}": gateway for number, gateway in enumerate(gateways, 1)}
    return gateways, Lab(nodes, shared_kernel=False), now  # type: ignore[arg-type]


def test_what_others_spend_on_a_machine_is_not_the_vpns(monkeypatch: pytest.MonkeyPatch) -> None:
    gateways, lab, _ = on_two(monkeypatch, "one", "another")
    before = machines(lab)
    time.sleep(4.0)
    for gateway in gateways:
        gateway.spent_s += 1.0  # the VPN's
    after = machines(lab)
    assert after.cores == 4
    assert sum(after.cpu_s.values()) - sum(before.cpu_s.values()) == pytest.approx(2.0)
    assert of_slice(before, after, 10**9)["cpu_per_gigabyte"] == pytest.approx(2.0)


def test_two_containers_on_one_machine_show_its_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    gateways, lab, _ = on_two(monkeypatch, "one", "one", busy=0.0)
    before = machines(lab)
    time.sleep(4.0)
    for gateway in gateways:
        gateway.spent_s += 3.0
    after = machines(lab)
    assert after.cores == 2
    assert of_slice(before, after, 10**9)["cpu_per_gigabyte"] == pytest.approx(3.0)


def test_time_that_the_machines_cannot_have_spent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gateways, lab, _ = on_two(monkeypatch, "one", "another", busy=0.0)
    before = machines(lab)
    time.sleep(1.0)
    for gateway in gateways:
        gateway.spent_s += 1.9
    full = machines(lab)
    assert not impossible(before, full), "nearly all of four cores"
    gateways[0].spent_s += 2.0
    said = impossible(before, machines(lab))
    assert "the machines say that they spent 5.8 s of CPU time within 1.0 s, and they have 4 cores" in said
    assert of_slice(before, machines(lab), 10**9) == {}
    both = (CostSnapshot(before, {}, 0), CostSnapshot(machines(lab), {}, 0))
    assert [found.metric for found in costs(lab, *both, 10**9)] == ["context_switches_per_packet", "memory_bytes"]


@pytest.mark.parametrize("user_s", [9.0, 10.0])
def test_a_cost_that_is_not_above_what_the_machines_spend_anyway_is_no_value(user_s: float) -> None:
    """A cost of 0 would be the best of all."""
    before, after = snap(10.0, 5.0, 1000, {7: 100}, 50), snap(user_s, 5.0, 3000, {7: 600}, 2050)
    assert {value.metric for value in costs(LAB, before, after, 1448 * 1000)} == {
        "context_switches_per_packet",
        "memory_bytes",
    }
