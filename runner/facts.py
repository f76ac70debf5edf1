"""What a lab is made of: kernel, CPU, offloads, clock; everything that a number depends on but the VPN."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from runner.lab import Lab


def facts(lab: Lab) -> dict[str, Any]:
    """What this lab is: kernel, CPU, cores, memory, clock source, offloads and MTU of the cables."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    lines = (line.split(":", 1) for line in cpuinfo.split("\n\n")[0].splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in lines}
    flags = fields.get("flags", "").split()
    clock = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    offloads = lab.gateway(lab.sites[0]).run("ethtool", "-k", lab.sites[0].wan_interface, check=False).stdout
    wanted = (
        "tcp-segmentation-offload",
        "generic-receive-offload",
        "tx-checksumming",
        "generic-segmentation-offload",
    )
    return {
        "kind": "netns",
        "kernel": platform.release(),
        "machine": platform.machine(),
        "cpu": fields.get("model name", "unknown"),
        "cpu_flags": [flag for flag in ("aes", "avx2", "avx512f", "vaes", "sha_ni", "pclmulqdq") if flag in flags],
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "clock_source": clock.read_text().strip() if clock.exists() else "unknown",
        "nodes_share_cores": True,
        "wan_mtu": 1500,
        "wan_offloads": {
            name: state.split()[0]
            for name, _, state in (line.strip().partition(":") for line in offloads.splitlines())
            if name in wanted and state
        },
        "bring_up_s": round(lab.bring_up_s, 3),
    }
