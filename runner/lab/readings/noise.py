"""Was the machine quiet during a trial? Stolen CPU time, and whatever slows a CPU down, from /proc and /sys.

The runner's machine is read, which is the whole lab where that is made of namespaces; else the other machines, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from runner.data.errors import VpnevalError
from runner.data.remarks import Remark
from runner.data.trials import Noise
from runner.lab.node.proc import cpu_ticks
from runner.lab.probes.loads import group_folders, text_of
from runner.lab.readings.facts import read
from runner.lab.shape.site_to_site import Lab

STEAL_RATIO = 0.01  # beyond this share of stolen CPU time, a trial is flagged
CLOCK_RATIO = 0.5  # a loaded CPU below this share of its highest frequency is flagged
OWN_GROUPS = "/proc/self/cgroup"
TICKS = 2  # a short trial has so few ticks of 10 ms that one of them alone would be a large share


@dataclass(frozen=True)
class NoiseSnapshot:
    """Counters since boot: CPU ticks by state, empty where the machine has none, and throttling, None there.
    ``machines``: those of the lab's other machines, by name. ``groups``: the files of the control groups that were read
    there."""

    ticks: tuple[int, ...]
    throttled: int | None
    machines: Mapping[str, NoiseSnapshot] = field(default_factory=dict)
    groups: Sequence[str] = ()


def snapshot(
    root: Path = Path("/"), lab: Lab | None = None, known: Mapping[str, NoiseSnapshot] = MappingProxyType({})
) -> NoiseSnapshot:
    """The counters now, also of the machines of a ``lab`` that has its own. ``root`` is where proc and sys are;
    ``known``: an earlier snapshot's machines, whose control groups are not looked for again."""
    ticks = cpu_ticks(text_of(f"{root}/proc/stat"))
    cores = root.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
    counts = [text_of(f"{core}/core_throttle_count") for core in cores]
    throttled = [int(count) for count in counts if count]
    groups = _group_files(text_of(f"{root}/proc/self/cgroup"))
    throttled += _quota_used_up(text_of(f"{root}/{path}") for path in groups)
    return NoiseSnapshot(ticks, sum(throttled) if throttled else None, _elsewhere(lab, known) if lab else {})


def noise_since(before: NoiseSnapshot, root: Path = Path("/"), lab: Lab | None = None) -> Noise:
    """The noise between ``before`` and now."""
    now = snapshot(root, lab, before.machines)
    machines = {
        name: _noise_between(before.machines[name], machine)
        for name, machine in now.machines.items()
        if name in before.machines
    }
    return _noise_between(before, now).model_copy(update={"clock_ratio": _clock_ratio(root), "machines": machines})


def _noise_between(before: NoiseSnapshot, now: NoiseSnapshot) -> Noise:
    steal = iowait = None
    if before.ticks and now.ticks and sum(now.ticks) > sum(before.ticks):
        # user, nice, system, idle, iowait, irq, softirq, steal; guest time is within user
        spent = [new - old for new, old in zip(now.ticks, before.ticks, strict=True)]
        steal = round((spent[7] if spent[7] >= TICKS else 0) / sum(spent), 5)
        iowait = round(max(0, spent[4]) / sum(spent), 5)  # proc_stat(5): it may decrease
    throttled = None
    if before.throttled is not None and now.throttled is not None:
        throttled = max(0, now.throttled - before.throttled)
    return Noise(steal_ratio=steal, iowait_ratio=iowait, throttled=throttled)


def _elsewhere(lab: Lab, known: Mapping[str, NoiseSnapshot]) -> dict[str, NoiseSnapshot]:
    """Snapshots of the machines of a lab that has its own; those that do not answer are left out."""
    snapshots = {}
    for name, node in () if lab.shared_kernel else lab.nodes.items():
        with suppress(VpnevalError, OSError):
            groups = known[name].groups if name in known else _group_files(node.run("cat", OWN_GROUPS).stdout)
            stat, *texts = read(node, {"/proc/stat": "/proc/stat"} | {path: f"/{path}" for path in groups}).values()
            throttled = _quota_used_up(texts)
            snapshots[name] = NoiseSnapshot(cpu_ticks(stat), sum(throttled) if throttled else None, groups=groups)
    return snapshots


def remarks(noise: Noise, loaded: bool) -> list[Remark]:
    """What a trial tells of its machines. ``loaded``: it ended with its CPUs busy, so that a slow clock is no idle
    one."""
    found = []
    if noise.steal_ratio is not None and noise.steal_ratio > STEAL_RATIO:
        found.append(Remark(kind="steal", value=STEAL_RATIO))
    if stolen := [name for name, own in noise.machines.items() if (own.steal_ratio or 0.0) > STEAL_RATIO]:
        found.append(Remark(kind="steal", subject=", ".join(stolen), value=STEAL_RATIO))
    if held := [name for name, own in noise.machines.items() if own.throttled]:
        found.append(Remark(kind="throttled", subject=", ".join(held)))
    if noise.throttled:
        found.append(Remark(kind="throttled"))
    elif loaded and noise.clock_ratio is not None and noise.clock_ratio < CLOCK_RATIO:
        found.append(Remark(kind="slow clock", value=CLOCK_RATIO))
    return found


def _group_files(groups: str) -> list[str]:
    """The files with the counters of a process's control group and of those above it, below the root, from the text of
    /proc/PID/cgroup (cgroups(7))."""
    return [f"{folder}/cpu.stat".lstrip("/") for folder in group_folders(groups)]


def _quota_used_up(stats: Iterable[str]) -> list[int]:
    """``nr_throttled`` of control groups, from the texts of their ``cpu.stat``."""
    lines = (line.split() for text in stats for line in text.splitlines())
    return [int(words[1]) for words in lines if words[:1] == ["nr_throttled"]]


def _clock_ratio(root: Path) -> float | None:
    ratios = []
    for folder in root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq"):
        current, highest = (text_of(f"{folder}/{name}") for name in ("scaling_cur_freq", "cpuinfo_max_freq"))
        if current and highest:
            ratios.append(int(current) / int(highest))
    return round(max(ratios), 3) if ratios else None
