"""Was the machine quiet during a trial? Stolen CPU time, and whatever slows a CPU down, from /proc and /sys.

It is the runner's machine that is looked at: the whole lab, where that is made of namespaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from runner.data.trials import Noise

STEAL_RATIO = 0.01  # beyond this share of stolen CPU time, a trial is flagged
CLOCK_RATIO = 0.5  # a loaded CPU below this share of its highest frequency is flagged
TICKS = 2  # a short trial has so few ticks of 10 ms that one of them alone would be a large share


@dataclass(frozen=True)
class Snapshot:
    """Counters since boot: CPU ticks by state (proc_stat(5)), and throttling; None where there are none."""

    ticks: tuple[int, ...] | None
    throttled: int | None


def snapshot(root: Path = Path("/")) -> Snapshot:
    """The counters now. ``root`` is where proc and sys are."""
    stat = _read(root / "proc/stat")
    ticks = tuple(map(int, stat.split()[1:9])) if stat and len(stat.split()) > 8 else None
    cores = root.glob("sys/devices/system/cpu/cpu[0-9]*/thermal_throttle")
    counts = [_read(core / "core_throttle_count") for core in cores]
    throttled = [int(count) for count in counts if count] + _quota_used_up(root)
    return Snapshot(ticks, sum(throttled) if throttled else None)


def since(before: Snapshot, root: Path = Path("/")) -> Noise:
    """What happened between ``before`` and now."""
    now = snapshot(root)
    steal = iowait = None
    if before.ticks and now.ticks and sum(now.ticks) > sum(before.ticks):
        # user, nice, system, idle, iowait, irq, softirq, steal; guest time is within user
        spent = [new - old for new, old in zip(now.ticks, before.ticks, strict=True)]
        steal = round((spent[7] if spent[7] >= TICKS else 0) / sum(spent), 5)
        iowait = round(max(0, spent[4]) / sum(spent), 5)  # proc_stat(5): it may decrease
    throttled = None
    if before.throttled is not None and now.throttled is not None:
        throttled = max(0, now.throttled - before.throttled)
    return Noise(steal_ratio=steal, iowait_ratio=iowait, throttled=throttled, clock_ratio=_clock_ratio(root))


def warnings(noise: Noise, loaded: bool) -> list[str]:
    """What to say of a trial. ``loaded``: it ended with its CPUs busy, so that a slow clock is no idle one."""
    said = []
    if noise.steal_ratio is not None and noise.steal_ratio > STEAL_RATIO:
        said.append(f"noise: more than {100 * STEAL_RATIO:.0f} % of the CPU time was stolen")
    if noise.throttled:
        said.append("noise: the CPU was throttled")
    elif loaded and noise.clock_ratio is not None and noise.clock_ratio < CLOCK_RATIO:
        said.append(f"noise: no loaded core ran at even {100 * CLOCK_RATIO:.0f} % of its highest frequency")
    return said


def _quota_used_up(root: Path) -> list[int]:
    """``nr_throttled`` of the runner's cgroup and those above it, version 2 or 1 (cgroups(7))."""
    found = []
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        top = root / "sys/fs/cgroup" / controllers
        own = top / path.lstrip("/")
        for folder in [own, *(parent for parent in own.parents if parent.is_relative_to(top))]:
            for stat in (_read(folder / "cpu.stat") or "").splitlines():
                found += [int(stat.split()[1])] if stat.startswith("nr_throttled ") else []
    return found


def _clock_ratio(root: Path) -> float | None:
    ratios = []
    for folder in root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq"):
        current, highest = _read(folder / "scaling_cur_freq"), _read(folder / "cpuinfo_max_freq")
        if current and highest:
            ratios.append(int(current) / int(highest))
    return round(max(ratios), 3) if ratios else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None
