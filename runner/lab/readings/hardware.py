"""Every machine of a lab, and what its ports do with packets: drivers, queues, rings, interrupts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from runner.lab.node import Runs, proc
from runner.lab.node.answers import understood
from runner.lab.readings.calibration import costs_of
from runner.lab.readings.loads import SHARED
from runner.lab.shape.site_to_site import Lab

# One command for each node: files as "path:line". Only a real card costs more processes, which are dear in a guest.
LOOK = """
uname -r
echo "cores:$(nproc 2> /dev/null || grep -c ^processor /proc/cpuinfo)"
grep -Hs . /proc/cpuinfo /proc/meminfo /proc/interrupts /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_*_freq \\
  /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor /sys/devices/system/cpu/smt/active \\
  /sys/devices/system/clocksource/clocksource0/current_clocksource /sys/class/dmi/id/sys_vendor \\
  /sys/class/dmi/id/product_name /sys/class/net/*/queues/*/rps_cpus
echo "virtualization:$(systemd-detect-virt --vm 2>/dev/null)"
for port in /sys/class/net/*; do
  name=${port##*/}
  echo "$port/queued:" $port/queues/*
  [ -e $port/device ] || continue
  echo "$port/irqs:" $port/device/msi_irqs/*
  echo "$port/bus:$(readlink $port/device)"
  ethtool -i $name 2>/dev/null | sed "s|^|$port/driver:|"
  ethtool -g $name 2>/dev/null | sed "s|^|$port/ring:|"
done
"""
UNKNOWN, VIRTUAL = "unknown", "virtual"
Files = Mapping[str, list[str]]  # path -> lines


def hardware(lab: Lab) -> dict[str, dict[str, Any]]:
    """Every machine by its name, with its ``ports``. Where the nodes share a kernel there is one machine, which has the
    ports of all of them, "gw1 wan0"; else a machine has the name of its node, and its own ``calibration``."""
    found = {}
    for name, node in lab.nodes.items():
        look = read_files(node)
        with understood(name):
            found[name] = machine_of(look) | {"ports": ports_of(look)}
        if not lab.shared_kernel and (costs := costs_of(node)):
            found[name]["calibration"] = costs
    if lab.shared_kernel:
        ports = {f"{name} {port}": facts for name, one in found.items() for port, facts in one["ports"].items()}
        return {SHARED: found[lab.sites[0].name] | {"ports": ports}}
    return found


def read_files(node: Runs) -> dict[str, list[str]]:
    """The output of LOOK on a node, file -> lines; the kernel's release is under "kernel", the cores it may use under
    "cores"."""
    kernel, *lines = node.run("sh", "-c", LOOK, check=False).stdout.splitlines() or [UNKNOWN]
    files: dict[str, list[str]] = {"kernel": [kernel]}
    for line in lines:
        path, _, text = line.partition(":")
        files.setdefault(path, []).append(text)
    return files


def machine_of(look: Files) -> dict[str, Any]:
    """Kernel, processor, cores, frequencies (MHz), memory, clock, and what the machine is virtual by, in the word of
    systemd-detect-virt(1); "unknown" where the machine does not tell."""

    def first(path: str) -> str:
        return next(iter(look.get(path, [])), "").strip() or UNKNOWN

    cpuinfo, meminfo = ("\n".join(look.get(f"/proc/{name}", [])) for name in ("cpuinfo", "meminfo"))
    now_mhz = [float(mhz) for mhz in re.findall(r"^cpu MHz\s*: (.*)$", cpuinfo, re.MULTILINE)]
    most_khz = [int(lines[0]) for path, lines in look.items() if path.endswith("scaling_max_freq")]
    maker = [first(f"/sys/class/dmi/id/{name}") for name in ("sys_vendor", "product_name")]
    return {
        "kernel": first("kernel"),
        "cpu": cpu_name(proc.first_processor(cpuinfo)),
        "cores": int(first("cores")) if first("cores").isdigit() else UNKNOWN,
        "memory_bytes": proc.memory_of(meminfo, "MemTotal") if "MemTotal:" in meminfo else UNKNOWN,
        "frequency_mhz": [round(min(now_mhz)), round(max(now_mhz))] if now_mhz else UNKNOWN,
        "highest_frequency_mhz": round(max(most_khz) / 1000) if most_khz else UNKNOWN,
        "governor": first("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "smt": {"0": "off", "1": "on"}.get(first("/sys/devices/system/cpu/smt/active"), UNKNOWN),
        "maker": " ".join(word for word in maker if word != UNKNOWN) or UNKNOWN,
        "clock_source": first("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "virtualization": first("virtualization"),
    }


def cpu_name(fields: Mapping[str, str]) -> str:
    """The processor of /proc/cpuinfo's fields, which MIPS and PowerPC name otherwise; of ARM's, which have no name, the
    maker's and the part's numbers."""
    numbers = [f"{name} {fields[f'CPU {name}']}" for name in ("implementer", "part") if f"CPU {name}" in fields]
    named = (fields[name] for name in ("model name", "cpu model", "cpu") if name in fields)
    return next(named, f"ARM, {', '.join(numbers)}" if numbers else UNKNOWN)


def ports_of(look: Files) -> dict[str, dict[str, Any]]:
    """All ports but lo: ``driver``; ``queues`` as [to receive, to send]; ``rps``: queue -> the cores that it hands
    packets on to, as the kernel's mask, where it does; ``ring``: entries of each kind, where the card has one;
    ``interrupts``: name -> the cores that have taken any."""
    ports = {}
    for name in sorted({path.split("/")[4] for path in look if path.startswith("/sys/class/net/")} - {"lo"}):
        port = f"/sys/class/net/{name}"
        queues = last_parts(look.get(f"{port}/queued", []))
        masks = {path.split("/")[6]: lines[0] for path, lines in look.items() if _is_mask(path, port)}
        driver = [line.split(": ")[1] for line in look.get(f"{port}/driver", []) if line.startswith("driver: ")]
        ports[name] = {
            "driver": driver[0] if driver else VIRTUAL if f"{port}/bus" not in look else UNKNOWN,
            "queues": [sum(queue.startswith(kind) for queue in queues) for kind in ("rx-", "tx-")],
            "rps": {queue: mask for queue, mask in masks.items() if mask.strip("0,")},
            "ring": ring(look.get(f"{port}/ring", [])),
            "interrupts": interrupts(look, name),
        }
    return ports


def last_parts(lines: list[str]) -> list[str]:
    """The names at the end of paths."""
    return [path.rsplit("/", 1)[-1] for path in " ".join(lines).split()]


def ring(lines: list[str]) -> dict[str, int]:
    """The current sizes in the output of ``ethtool -g``; empty where a port has no ring."""
    current = "\n".join(lines).partition("Current hardware settings:")[2]
    return {kind: int(size) for kind, size in re.findall(r"^(RX|TX):\s+(\d+)$", current, flags=re.MULTILINE)}


def interrupts(look: Files, port: str) -> dict[str, list[int]]:
    """The interrupts of a port, by number or by name (of the port or of its device), and the cores that took them."""
    numbers = last_parts(look.get(f"/sys/class/net/{port}/irqs", []))
    bus = (look.get(f"/sys/class/net/{port}/bus") or [""])[0].rsplit("/", 1)[-1]
    names = tuple(f"{name}-" for name in (port, bus) if name)
    cores_of = {}
    header, *lines = look.get("/proc/interrupts", [""])
    cores = [int(name.removeprefix("CPU")) for name in header.split()]  # those that are online
    for line in lines:
        number, *words = line.split()
        if words and (number.rstrip(":") in numbers or words[-1].startswith(names) or words[-1] == port):
            counts = zip(cores, words, strict=False)  # the words after the counts are no numbers
            cores_of[words[-1]] = [core for core, count in counts if count.isdigit() and int(count)]
    return cores_of


def _is_mask(path: str, port: str) -> bool:
    return path.startswith(f"{port}/queues/") and path.endswith("/rps_cpus")
