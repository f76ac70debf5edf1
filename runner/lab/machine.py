"""What this machine lets a process do: what a container, a quota or an upgrade takes away, and what gives it back.

Each question returns a sentence, or "" where nothing is wrong.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

# capability.h. Docker gives all of these but NET_ADMIN and SYS_ADMIN; Podman does not give NET_RAW and MKNOD, either.
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
NAMESPACES = {"net": "--net", "mnt": "--mount", "pid": "--pid --fork", "uts": "--uts", "ipc": "--ipc"}
OWN_DESCRIPTORS, LAB_DESCRIPTORS = 40, 55  # open files: the program's own, and those of a lab with a tunnel
USUAL_DESCRIPTORS = 1024
LEAST_LABS = 3  # at once: plain IP's, a VPN's beside it, and the one in which its set-up is timed
APPARMOR = Path("/sys/module/apparmor/parameters/enabled")
PROFILES = Path("/sys/kernel/security/apparmor/profiles")
TUNGETFEATURES = 0x800454CF  # linux/if_tun.h
CONTAINER = (
    "in Docker or Podman with --cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add NET_RAW --cap-add MKNOD "
    "--security-opt apparmor=unconfined --security-opt seccomp=unconfined --security-opt systempaths=unconfined "
    "--device /dev/net/tun, or --privileged (vagrant/Containerfile); "
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


def advice(reason: str) -> str:
    """What to do where the kernel refused to make a node for this ``reason``, although vpneval is root; "" for other
    reasons.

    A profile of AppArmor or seccomp, or a masked /proc, refuses what the capabilities allow.
    """
    if os.strerror(errno.ENOSPC) in reason and (spent := no_namespaces()):
        return f"this machine does not let vpneval make a node: {spent}"
    if not any(word in reason for word in ("not permitted", "Permission denied", "Read-only", "setrlimit")):
        return ""
    profile = _first_line(Path("/proc/self/attr/current")).strip("\0")
    by = f" This process runs under the AppArmor profile {profile}." if profile not in ("", "unconfined") else ""
    return f"this machine does not let vpneval make a node: {reason}.{by} Start vpneval as root, or {CONTAINER}"


def no_namespaces() -> str:
    """Which kinds of namespaces this machine has no more of (namespaces(7), /proc/sys/user); "" where it has all."""
    spent = []
    for kind, option in NAMESPACES.items():
        argv = ["unshare", *option.split(), "true"]
        tried = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
        if tried.returncode != 0 and os.strerror(errno.ENOSPC) in tried.stderr:
            spent.append(f"user.max_{kind}_namespaces")
    if not spent:
        return ""
    limits = " and ".join(f"{name} is {_first_line(Path('/proc/sys', name.replace('.', '/')))}" for name in spent)
    more = " ".join(f"{name}=15000" for name in spent)
    return f"{limits}, and all are in use. Allow more (of a container, on its host): sysctl -w {more}"


def no_limits() -> str:
    """Does this machine refuse to read or set a process's limits? Then core dumps, which have keys, would be left."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, resource.getrlimit(resource.RLIMIT_CORE))
    except (OSError, ValueError) as refused:
        return f"this machine does not let vpneval forbid core dumps (prlimit: {refused}). Start vpneval {CONTAINER}"
    return ""


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
    try:
        return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    except OSError:  # refused, which no_limits() says
        return USUAL_DESCRIPTORS


def labs_that_fit() -> int:
    """How many more labs with a tunnel fit into this process's limit of open files."""
    most = descriptors()
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    return (most - _open_files() - OWN_DESCRIPTORS) // LAB_DESCRIPTORS


def few_descriptors(labs: int = LEAST_LABS) -> str:
    """Are there too few open files for so many labs at once? The soft limit is raised when the program starts."""
    if labs_that_fit() >= labs:
        return ""
    needs = limit_for(labs)
    return (
        f"this process may open {max(0, descriptors() - _open_files())} more files, and {labs} labs at once need "
        f"{OWN_DESCRIPTORS + labs * LAB_DESCRIPTORS}; raise its limit first: ulimit -n {needs} (as root; a service: "
        f"LimitNOFILE={needs}; Docker: --ulimit nofile={needs})"
    )


def limit_for(labs: int) -> int:
    """A limit of open files with which so many more labs fit, as a round number."""
    return -(-(_open_files() + OWN_DESCRIPTORS + labs * LAB_DESCRIPTORS) // 64) * 64


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def modules_gone(release: str = os.uname().release, modules: Path = Path("/lib/modules")) -> str:
    """Are the running kernel's modules gone, as after an upgrade, while another kernel's are there?"""
    if (modules / release).is_dir() or not any(path.is_dir() for path in modules.glob("*")):
        return ""
    return (
        f"the modules of the running kernel {release} are not in {modules}, as after an upgrade: reboot, or install "
        f"linux-image-{release}"
    )


def apparmor_hint(message: str, apparmor: Path = APPARMOR, profiles: Path = PROFILES) -> str:
    """The sentence that names the AppArmor profiles that may have caused a failure; empty where none can have.

    ``message`` is what tools and daemons said. A profile may be the cause where it has "Permission denied" and the name
    of the profile's program: a profile follows its program into a node.
    """
    if "Permission denied" not in message or _first_line(apparmor) != "Y":
        return ""
    suspects = []
    for line in _lines(profiles):  # "/usr/sbin/tcpdump (enforce)"
        profile, _, mode = line.rpartition(" ")
        program = profile.partition("//")[0].rpartition("/")[2]
        if mode == "(enforce)" and re.search(rf"(?<!\w){re.escape(program)}(?!\w)", message):
            suspects.append(profile)
    if not suspects:
        return ""
    wanted = "|".join(re.escape(profile) for profile in suspects)
    return (
        f"AppArmor's profile {' and '.join(suspects)} is in force, follows the program into the lab and may have "
        f'denied it. Look for: dmesg | grep -E \'apparmor="DENIED".*profile="({wanted})"\'. To allow it: aa-complain '
        f"{' '.join(suspects)} (package apparmor-utils)"
    )


def no_ipv6(sysctls: Path = Path("/proc/sys/net/ipv6")) -> str:
    """Has this kernel no IPv6?"""
    off = "this kernel has no IPv6, as with ipv6.disable=1 on its command line (/proc/cmdline): IPv6 is not measured"
    return "" if sysctls.is_dir() else off


def fewer_cores() -> str:
    """May this process use fewer cores than the machine has?"""
    may, there = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    return f"this process may use {may} of {there} cores (taskset, a cpuset)" if may < there else ""


def _first_line(path: Path) -> str:
    return next(iter(_lines(path)), "").strip()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
