"""What this machine lets a process do: what a container, a quota or an upgrade takes away, and what gives it back.

Each question returns a sentence, or "" where nothing is wrong.
"""

from __future__ import annotations

import fcntl
import os
import resource
from pathlib import Path

# capability.h. Docker and Podman give all of these but two: NET_ADMIN and SYS_ADMIN.
CAPABILITIES = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "NET_BIND_SERVICE": 10,
    "NET_ADMIN": 12,
    "NET_RAW": 13,
    "SYS_CHROOT": 18,
    "SYS_ADMIN": 21,
}
TO_BUILD = {"MKNOD": 27}  # and no lab needs it
LEAST_DESCRIPTORS = 512  # those of a lab, its log files, and two tunnels beside plain IP
TUNGETFEATURES = 0x800454CF  # linux/if_tun.h
CONTAINER = (
    "in Docker or Podman with --cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt apparmor=unconfined "
    "--security-opt seccomp=unconfined --security-opt systempaths=unconfined --device /dev/net/tun, or --privileged; "
    "in Incus, LXD or LXC in a privileged container with nesting (security.privileged=true, security.nesting=true)"
)


def lacking(needed: dict[str, int], status: Path = Path("/proc/self/status")) -> list[str]:
    """Which of these capabilities this process has not (capabilities(7))."""
    lines = dict(line.split(":", 1) for line in status.read_text(encoding="utf-8").splitlines())
    effective = int(lines["CapEff"], 16)
    return [name for name, bit in needed.items() if not effective >> bit & 1]


def no_capability(needed: dict[str, int]) -> str:
    """Which capabilities are missing, and how a container gets them."""
    if not (names := lacking(needed)):
        return ""
    which = ", ".join(f"CAP_{name}" for name in names)
    added = " ".join(f"--cap-add {name}" for name in names)
    return f"this process lacks {which}. Start the container with {added}: {CONTAINER}"


def refused(reason: str) -> str:
    """What to do where the kernel refused to make a node for this ``reason``, though it is root's; else "".

    A profile of AppArmor or seccomp, or a masked /proc, refuses what the capabilities allow."""
    if not any(word in reason for word in ("not permitted", "Permission denied", "Read-only")):
        return ""
    profile = _first_line(Path("/proc/self/attr/current")).strip("\0")
    by = f" This process runs under the AppArmor profile {profile}." if profile not in ("", "unconfined") else ""
    return f"this machine does not let vpneval make a node: {reason}.{by} Start vpneval as root, or {CONTAINER}"


def no_tun(device: str = "/dev/net/tun") -> str:
    """Why userspace VPNs cannot have an interface here."""
    made = "make it with: mkdir -p /dev/net && mknod /dev/net/tun c 10 200; a container needs --device /dev/net/tun"
    try:
        opened = os.open(device, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"userspace VPNs need {device}: {error.strerror}; {made}"
    try:
        fcntl.ioctl(opened, TUNGETFEATURES, bytes(4))
    except OSError:
        return f"{device} is not the kernel's TUN device; {made}"
    finally:
        os.close(opened)
    return ""


def descriptors() -> int:
    """How many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def few_descriptors() -> str:
    """Are there too few open files for a run? The soft limit is raised when the program starts."""
    most = descriptors()
    there = most - len(os.listdir("/proc/self/fd"))
    if most == resource.RLIM_INFINITY or there >= LEAST_DESCRIPTORS:
        return ""
    needs = LEAST_DESCRIPTORS + most - there
    return (
        f"this process may open {there} more files, and a run needs {LEAST_DESCRIPTORS}; raise its limit first: "
        f"ulimit -n {needs} (as root; a service: LimitNOFILE={needs}; Docker: --ulimit nofile={needs})"
    )


def modules_gone(release: str = os.uname().release, modules: Path = Path("/lib/modules")) -> str:
    """Are the running kernel's modules gone, as after an upgrade, while another kernel's are there?"""
    if (modules / release).is_dir() or not any(path.is_dir() for path in modules.glob("*")):
        return ""
    return (
        f"the modules of the running kernel {release} are not in {modules}, as after an upgrade: reboot, or install "
        f"linux-image-{release}"
    )


def fewer_cores() -> str:
    """May this process use fewer cores than the machine has?"""
    may, there = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    return f"this process may use {may} of {there} cores (taskset, a cpuset)" if may < there else ""


def _first_line(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except OSError:
        return ""
