"""Steal, throttling and slow clocks from a made-up /proc and /sys, and from this machine's own."""

from pathlib import Path

import pytest

from runner.data.errors import CommandError
from runner.data.trials import Noise
from runner.lab.node import Completed
from runner.lab.readings import noise
from runner.lab.shape.site_to_site import Lab
from tests.unit.helpers import Answers


def said(found: Noise, loaded: bool) -> list[str]:
    return [str(remark) for remark in noise.remarks(found, loaded=loaded)]


def machine(root: Path, stat: str = "", cgroup: str = "", files: dict[str, str] | None = None) -> Path:
    """``root`` with what a kernel would show there."""
    shown = {"proc/stat": stat, "proc/self/cgroup": cgroup} | (files or {})
    for name, text in shown.items():
        if text:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
    return root


def test_steal_and_iowait_are_shares_of_all_time(tmp_path: Path) -> None:
    before = noise.snapshot(machine(tmp_path, "cpu  100 0 100 1000 50 0 0 10 40 0\ncpu0 1 2\n"))
    found = noise.noise_since(before, machine(tmp_path, "cpu  200 0 150 1800 70 10 0 30 90 0\ncpu0 1 2\n"))
    assert found.steal_ratio == pytest.approx(20 / 1000)  # guest time is within user, and not counted twice
    assert found.iowait_ratio == pytest.approx(20 / 1000)
    assert said(found, loaded=False) == ["noise: more than 1 % of the CPU time was stolen"]


def test_one_tick_of_a_short_trial_is_no_theft(tmp_path: Path) -> None:
    before = noise.snapshot(machine(tmp_path, "cpu  100 0 0 100 9 0 0 10"))
    found = noise.noise_since(before, machine(tmp_path, "cpu  120 0 0 120 7 0 0 11"))
    assert (found.steal_ratio, found.iowait_ratio) == (0, 0)  # I/O wait may run backwards: proc_stat(5)
    assert said(found, loaded=True) == []


@pytest.mark.parametrize("kind", ["thermal", "cgroup 2", "cgroup 1", "cgroup above"])
def test_throttling_is_what_rose(tmp_path: Path, kind: str) -> None:
    core = "sys/devices/system/cpu/cpu{}/thermal_throttle/core_throttle_count"
    counter = {
        "thermal": core.format(1),
        "cgroup 2": "sys/fs/cgroup/user/app/cpu.stat",
        "cgroup 1": "sys/fs/cgroup/cpu,cpuacct/app/cpu.stat",
        "cgroup above": "sys/fs/cgroup/user/cpu.stat",
    }[kind]
    cgroup = "7:cpu,cpuacct:/app\n6:memory:/app\n" if kind == "cgroup 1" else "0::/user/app\n"

    def at(count: int) -> Path:
        text = f"{count}\n" if kind == "thermal" else f"nr_periods 90\nnr_throttled {count}\nthrottled_usec 5\n"
        return machine(tmp_path, "cpu  1 1 1 1 1 1 1 1", cgroup, {core.format(0): "7\n", counter: text})

    before = noise.snapshot(at(3))
    quiet = noise.noise_since(before, at(3))
    assert (quiet.throttled, said(quiet, loaded=True)) == (0, [])
    loud = noise.noise_since(before, at(5))
    assert (loud.throttled, said(loud, loaded=True)) == (2, ["noise: the CPU was throttled"])


def test_a_slow_clock_counts_where_the_cpu_was_loaded(tmp_path: Path) -> None:
    def clock(core: int, now: int) -> dict[str, str]:
        folder = f"sys/devices/system/cpu/cpu{core}/cpufreq"
        return {f"{folder}/scaling_cur_freq": f"{now}\n", f"{folder}/cpuinfo_max_freq": "4000000\n"}

    before = noise.snapshot(machine(tmp_path, files=clock(0, 800000) | clock(1, 1600000)))
    found = noise.noise_since(before, tmp_path)
    assert found.clock_ratio == 0.4  # of the fastest core
    assert len(said(found, loaded=True)) == 1
    assert said(found, loaded=False) == []


def test_what_a_kernel_does_not_tell_is_none_and_no_guess(tmp_path: Path) -> None:
    assert noise.noise_since(noise.snapshot(tmp_path), tmp_path) == Noise()
    old = machine(tmp_path, "cpu  1 2 3 4 5")  # before Linux 2.6
    assert noise.noise_since(noise.snapshot(old), old).steal_ratio is None
    assert said(Noise(), loaded=True) == []


def test_this_machine() -> None:
    before = noise.snapshot()
    assert before.ticks is not None
    while noise.snapshot().ticks == before.ticks:  # until the next tick of the kernel's clock
        pass
    found = noise.noise_since(before)
    assert found.steal_ratio is not None
    assert 0 <= found.steal_ratio <= 1


HEAD = "head -v -c 1000000 /proc/stat"


def shown(stat: str, throttled: int | None = None) -> str:
    """What head(1) shows of a machine whose daemons may have a quota."""
    quota = "" if throttled is None else f"==> /{GROUP} <==\nnr_periods 90\nnr_throttled {throttled}\n"
    return f"==> /proc/stat <==\ncpu  {stat}\ncpu0 1 2\n\n{quota}"


GROUP = "sys/fs/cgroup/lab/cpu.stat"


def test_machines_of_their_own_have_noise_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*argv: str, **_: object) -> Completed:
        raise CommandError("host1", argv, None, "gone")

    gw1, gw2, host2, gone = (
        Answers({HEAD: shown(f"{n} 0 0 1000 0 0 0 0 0 0", throttled), "cat /proc/self/cgroup": "0::/lab\n"})
        for n, throttled in ((1, None), (2, 7), (3, 7), (4, 7))
    )
    lab = Lab({"gw1": gw1, "gw2": gw2, "host1": gone, "host2": host2}, shared_kernel=False)  # type: ignore[dict-item]
    root = machine(tmp_path, "cpu  1 1 1 1 1 1 1 1")
    before = noise.snapshot(root, lab)
    gw1.stdout = {HEAD: shown("100 0 0 1100 0 0 0 0 0 0")}
    gw2.stdout = {HEAD: shown("100 0 0 1050 0 0 0 50 0 0", 7)}
    host2.stdout = {HEAD: shown("100 0 0 1100 0 0 0 0 0 0", 9)}
    monkeypatch.setattr(gone, "run", refused)
    found = noise.noise_since(before, root, lab)
    assert {name: own.steal_ratio for name, own in found.machines.items()} == {"gw1": 0.0, "gw2": 0.25253, "host2": 0}
    assert {name: own.throttled for name, own in found.machines.items()} == {"gw1": None, "gw2": 0, "host2": 2}
    assert said(found, loaded=False) == [
        "noise: more than 1 % of the CPU time of gw2 was stolen",
        "noise: the CPU of host2 was throttled",
    ]
    assert [len(node.ran) for node in (gw1, gw2, host2)] == [3, 3, 3], "one command for the second look"
    assert all(GROUP in node.ran[-1] for node in (gw1, gw2, host2))
    assert noise.snapshot(root, Lab({"gw1": gw1}, shared_kernel=True)).machines == {}  # type: ignore[dict-item]
