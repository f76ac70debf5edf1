"""A machine of the lab: what it is busy with and where it drops packets, as counters since boot.

usage: loads.py NODE
On a machine of its own: prints "ready"; each line on standard input is answered by a line, the object that
``Reader.read`` returns. It ends with its standard input. Where all nodes share the runner's kernel, the runner reads by
itself, for all nodes at once: ``Reader`` is what both use. One reading takes a few milliseconds and starts no process.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

GONE = (OSError, IndexError, ValueError)  # a process that ends while it is looked at
CLONE_NEWNET = 0x40000000
NLM_F_REQUEST_DUMP = 0x301
NLMSG_ERROR, NLMSG_DONE = 2, 3
RTM_GETLINK, RTM_GETQDISC = 18, 38
IFLA_IFNAME, IFLA_STATS64 = 3, 23  # linux/if_link.h
TCA_KIND, TCA_STATS2, TCA_STATS_BASIC, TCA_STATS_QUEUE = 1, 7, 1, 3  # linux/rtnetlink.h, linux/gen_stats.h
PF_KTHREAD = 0x00200000  # linux/sched.h; proc_pid_stat(5), flags
ROOT = 0xFFFFFFFF  # the parent of a port's own discipline
GROUPS = "/sys/fs/cgroup"
SHORT = 1024  # a file of the kernel's that gives less at once has no more
CORES = "/sys/devices/system/cpu"
OURS = b"/run/vpneval/"  # where the probes are on a node
TOOLS = (b"iperf3", b"perf", b"curl", b"nginx")
ENDED = "programs that have ended"
INTERPRETERS = ("python", "perl", "ruby", "sh", "bash", "dash")


def text_of(path: str) -> str:
    """The text of a file of the kernel's, empty where there is none. Without Python's buffers, which saves a third of
    the time."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        parts = []
        while part := os.read(file, 1 << 16):
            parts.append(part)
            if len(part) < SHORT:  # one reading has it all
                break
    except OSError:
        return ""
    finally:
        os.close(file)
    return b"".join(parts).decode(errors="replace")


class Network:
    """A network namespace's counters, read by a socket that stays in it (rtnetlink(7))."""

    def __init__(self, pid: int | None) -> None:
        """``pid``: a process that is in the namespace; None for the reader's own."""
        self.socket: socket.socket | None = None
        opening = threading.Thread(target=self._open, args=(pid,))  # a thread of its own: only that one moves
        opening.start()
        opening.join()

    def _open(self, pid: int | None) -> None:
        with suppress(OSError):
            if pid is not None:
                entrance = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
                moved = ctypes.CDLL(None, use_errno=True).setns(entrance, CLONE_NEWNET)
                os.close(entrance)
                if moved != 0:
                    return
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
            self.socket.settimeout(2)

    def close(self) -> None:
        """Leave the namespace."""
        if self.socket is not None:
            self.socket.close()

    def ports(self) -> dict[str, dict[str, Any]]:
        """Its ports by name: ``packets`` sent, ``dropped`` (by card and driver, both ways), and its queueing
        disciplines, ``queues``: by kind and whether it is the port's root, [packets, drops, packets that had to
        wait]."""
        ports: dict[str, dict[str, Any]] = {}
        names: dict[int, str] = {}
        for index, of in self._dump(RTM_GETLINK, struct.pack("BxHiII", 0, 0, 0, 0, 0), 16):
            if IFLA_IFNAME not in of or IFLA_STATS64 not in of:
                continue
            name = of[IFLA_IFNAME].rstrip(b"\0").decode()
            names[index] = name
            ports[name] = port_counts(of[IFLA_STATS64]) | {"queues": []}
        for index, of in self._dump(RTM_GETQDISC, struct.pack("BxxxiIII", 0, 0, 0, 0, 0), 20):
            if index in names and TCA_STATS2 in of and (queue := qdisc_counts(of)):
                ports[names[index]]["queues"].append(queue)
        return ports

    def _dump(self, what: int, header: bytes, size: int) -> Iterator[tuple[int, dict[int, bytes]]]:
        """The objects of one kind: the index of the port, and the attributes. A queueing discipline's parent is under
        the key 0."""
        if self.socket is None:
            return
        self.socket.send(struct.pack("IHHII", 16 + len(header), what, NLM_F_REQUEST_DUMP, 1, 0) + header)
        while True:
            data = self.socket.recv(1 << 18)
            while len(data) >= 16:
                length, kind = struct.unpack_from("IH", data)
                if kind in (NLMSG_DONE, NLMSG_ERROR):
                    return
                body, data = data[16:length], data[(length + 3) & ~3 :]
                by_type = attributes(body[size:])
                if what == RTM_GETQDISC:
                    by_type[0] = body[12:16]
                yield struct.unpack_from("i", body, 4)[0], by_type


def port_counts(stats: bytes) -> dict[str, Any]:
    """``packets`` that a port sent, and those that it ``dropped``, by its struct rtnl_link_stats64.

    What a card's full ring overran is not in rx_dropped. Drivers count it as missed, as fifo or as over errors, some of
    them in several of these.
    """
    # Two each, received and sent: packets, bytes, errors, dropped. Then multicast, collisions, and of received packets
    # length, over, crc, frame, fifo and missed errors.
    counters = struct.unpack_from("16Q", stats)
    return {"packets": counters[1], "dropped": sum(counters[6:8]) + max(counters[11], *counters[14:16])}


def attributes(data: bytes) -> dict[int, bytes]:
    """Netlink attributes by their type."""
    by_type = {}
    while len(data) >= 4:
        length, kind = struct.unpack_from("HH", data)
        if length < 4:
            break
        by_type[kind & 0x3FFF] = data[4:length]
        data = data[(length + 3) & ~3 :]
    return by_type


def qdisc_counts(of: Mapping[int, bytes]) -> list[Any]:
    """A queueing discipline: [kind, is it the port's root, packets, drops, packets that had to wait]."""
    stats = attributes(of[TCA_STATS2])
    if TCA_STATS_BASIC not in stats or TCA_STATS_QUEUE not in stats:
        return []
    packets = struct.unpack_from("QI", stats[TCA_STATS_BASIC])[1]
    _, _, drops, _, overlimits = struct.unpack_from("5I", stats[TCA_STATS_QUEUE])
    root = struct.unpack("I", of[0])[0] == ROOT
    return [of[TCA_KIND].rstrip(b"\0").decode(), root, packets, drops, overlimits]


class Reader:
    """Reads the counters of this machine, which has ``nodes`` of the lab: name -> the process that holds it, as this
    process sees it, or None where the node is this process's own. ``gateways``: which of them are gateways. The
    processes that run there when the reader begins, and those that they start later, are the VPN's."""

    def __init__(self, nodes: Mapping[str, int | None], gateways: list[str]) -> None:
        self.nodes, self.gateways = dict(nodes), gateways
        self.networks = {name: Network(pid) for name, pid in nodes.items()}
        self.spaces = {os.stat(f"/proc/{pid or 'self'}/ns/pid").st_ino: name for name, pid in nodes.items()}
        self.holders = {pid or 1 for pid in nodes.values()}
        self.allowed = {core for pid in nodes.values() for core in os.sched_getaffinity(pid or 0)}  # not all: a cpuset
        self.roles: dict[tuple[int, str], str] = {}  # (process, when it began) -> whose it is
        self.nodes_of: dict[tuple[int, str], str] = {}
        self.names: dict[tuple[int, str, str], str] = {}  # (process, when it began, what it is called) -> its name
        self.begun = False
        self.processes()
        self.begun = True

    def close(self) -> None:
        """Leave the nodes."""
        for network in self.networks.values():
            network.close()

    def read(self) -> dict[str, Any]:
        """All counters now; see the function of each."""
        return {
            "at_s": time.monotonic(),
            "cores": {core: ticks for core, ticks in cores().items() if int(core) in self.allowed},
            "processes": self.processes(),
            "groups": self.groups(),
            "ports": {name: network.ports() for name, network in self.networks.items()},
            "overflows": {name: counter(text, "Udp", "RcvbufErrors") for name, text in self.snmp()},
            "fragments": {name: counter(text, "Ip", "FragCreates") for name, text in self.snmp()},
            "softnet": softnet(text_of("/proc/net/softnet_stat")),
            "temperature_c": temperature_c(),
            "heat_events": heat_events(),
            "clock_ratio": clock_ratio(),
        }

    def snmp(self) -> list[tuple[str, str]]:
        """The nodes and what each counts (/proc/net/snmp, RFC 1213 names, and snmp6)."""
        both = ((name, f"/proc/{pid or 'self'}/net/snmp") for name, pid in self.items())
        return [(name, text_of(path) + text_of(f"{path}6")) for name, path in both]

    def items(self) -> list[tuple[str, int | None]]:
        """The nodes and their processes."""
        return list(self.nodes.items())

    def processes(self) -> dict[str, dict[str, Any]]:
        """By process number: ``node`` ("" outside of the lab), ``name``, ``role``; ``threads``: by number the seconds
        that it ran, those that it was ready to run and had no core, and more (``thread_of``), of a process of
        the lab; ``spent_s``: the processor time in one sum, of an agent that of the commands that have ended;
        ``allowed``: the cores that it may use."""
        processes: dict[str, dict[str, Any]] = {}
        for number in filter(str.isdigit, os.listdir("/proc")):
            pid = int(number)
            with suppress(*GONE):
                stat = text_of(f"/proc/{pid}/stat")
                end = stat.rindex(")")
                called, fields = stat[stat.index("(") + 1 : end], stat[end + 2 :].split()
                node, name = self.node(pid, fields[19]), self.name(pid, fields[19], called)
                if pid in self.holders:  # an agent: what it has started, and what has ended, is the program's own
                    spent_s = (int(fields[13]) + int(fields[14])) / 100
                    processes[number] = {"node": node, "name": ENDED, "role": "generator", "spent_s": spent_s}
                    continue
                if not node:
                    role = "kernel" if kernels(fields) else "generator" if pid == os.getpid() else "other"
                    ticks = int(fields[11]) + int(fields[12])
                    processes[number] = {"node": "", "name": name, "role": role, "spent_s": ticks / 100}
                    continue
                role = "kernel" if kernels(fields) else self.role(pid, int(fields[1]), fields[19], node)
                threads = {thread: thread_of(pid, thread) for thread in os.listdir(f"/proc/{pid}/task")}
                allowed = sorted(os.sched_getaffinity(pid))
                processes[number] = {"node": node, "name": name, "role": role, "threads": threads, "allowed": allowed}
                processes[number]["spent_s"] = (int(fields[11]) + int(fields[12])) / 100  # with threads that have ended
        return processes

    def node(self, pid: int, since: str) -> str:
        """The node that a process is in, "" for none. Raises OSError."""
        key = pid, since
        if key not in self.nodes_of:
            self.nodes_of[key] = self.spaces.get(os.stat(f"/proc/{pid}/ns/pid").st_ino, "")
        return self.nodes_of[key]

    def name(self, pid: int, since: str, called: str) -> str:
        """The name of a process; of an interpreter, the name of its script or of the module that it runs."""
        key = pid, since, called
        if key not in self.names:
            self.names[key] = script_of(called, text_of(f"/proc/{pid}/cmdline").split("\0"))
        return self.names[key]

    def role(self, pid: int, parent: int, since: str, node: str) -> str:
        """Whose process it is: ``vpn``, ``generator`` (of this program, on the hosts), or ``other``."""
        key = pid, since
        if key not in self.roles:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                command = file.read()
            ours = OURS in command or command.split(b"\0")[0].split(b":")[0].rsplit(b"/")[-1] in TOOLS
            if node not in self.gateways or ours:
                role = "generator" if ours else "other"
            else:
                above = [role for (known, _), role in self.roles.items() if known == parent]
                role = "vpn" if not self.begun or "vpn" in above else "other"
            self.roles[key] = role
        return self.roles[key]

    def groups(self) -> dict[str, list[float]]:
        """The control groups that hold nodes back, by the names of these nodes ("gw2"): [the quota in cores, periods,
        periods that ran into it, seconds held back] (cgroups(7), version 1 and 2)."""
        holding: dict[str, list[str]] = {}
        for name, pid in self.items():
            for folder in group_folders(text_of(f"/proc/{pid or 'self'}/cgroup")):
                holding.setdefault(folder, []).append(name)
        groups = {}
        for folder, names in holding.items():
            if counters := throttling(folder):
                groups[" ".join(names)] = counters
        return groups


def kernels(fields: list[str]) -> bool:
    """Is it a kernel thread? ``fields``: those of its stat, from the state on."""
    return bool(int(fields[6]) & PF_KTHREAD)


def script_of(called: str, command: list[str]) -> str:
    """The name of the script or module that an interpreter runs; ``called`` for any other program."""
    if not called.startswith(INTERPRETERS):
        return called
    for before, word in pairwise(command):
        if word == "-c" or before == "-c":
            break
        if word and not word.startswith("-"):
            return os.path.basename(word) if before != "-m" else word
    return called


def thread_of(pid: int, thread: str) -> list[float]:
    """[seconds on a core, seconds without one though ready (sched_info), last core, ticks in the program, ticks in the
    kernel] of a thread. Raises OSError.

    A kernel without counters in nanoseconds counts the seconds on a core in ticks, and no waiting.
    """
    stat = text_of(f"/proc/{pid}/task/{thread}/stat")
    fields = stat[stat.rindex(")") + 2 :].split()
    user, system, core = (int(fields[number]) for number in (11, 12, 36))
    spent = text_of(f"/proc/{pid}/task/{thread}/schedstat").split()
    ran_s, waited_s = (int(spent[0]) / 1e9, int(spent[1]) / 1e9) if len(spent) >= 2 else ((user + system) / 100, 0.0)
    return [ran_s, waited_s, core, user, system]


def cores() -> dict[str, list[int]]:
    """By core: ticks of user and nice, system, irq, softirq, steal, and idle (proc_stat(5))."""
    ticks_by_core = {}
    for line in text_of("/proc/stat").splitlines():
        name, *ticks = line.split()
        if name.startswith("cpu") and name != "cpu":
            user, nice, system, idle, waiting, irq, softirq, steal = map(int, ticks[:8])
            ticks_by_core[name[3:]] = [user + nice, system, irq, softirq, steal, idle + waiting]
    return ticks_by_core


def counter(snmp: str, protocol: str, name: str) -> int:
    """A counter of snmp and snmp6: of Udp RcvbufErrors, datagrams that a full socket buffer refused; of Ip FragCreates,
    the fragments that packets were cut into."""
    rows = [line.split() for line in snmp.splitlines() if line.startswith(f"{protocol}:")]
    of_ipv6 = sum(int(line.split()[1]) for line in snmp.splitlines() if line.startswith(f"{protocol}6{name} "))
    return of_ipv6 + (int(dict(zip(*rows, strict=False)).get(name, 0)) if len(rows) == 2 else 0)


def softnet(stat: str) -> list[int]:
    """[packets dropped before a protocol saw them, times that a core had no time to take them all]."""
    rows = [line.split() for line in stat.splitlines()]
    return [sum(int(row[column], 16) for row in rows) for column in (1, 2)]


def group_folders(groups: str) -> list[str]:
    """The folders of the control groups that count processor time: the process's own and those above it. In a container
    the topmost may be the container's, with its quota."""
    folders = []
    for line in groups.splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            tops = [GROUPS, f"{GROUPS}/unified"]
        elif "cpu" in controllers.split(","):
            tops = [f"{GROUPS}/{controllers}"]
        else:
            continue
        parts = path.strip("/").split("/") if path.strip("/") else []
        for top in tops:
            folders += [os.path.join(top, *parts[:depth]) for depth in range(len(parts), -1, -1)]
    return folders


def throttling(folder: str) -> list[float]:
    """[quota in cores, periods, periods that ran into it, seconds held back] of a group; empty where it has none."""
    counters = dict(line.split() for line in text_of(f"{folder}/cpu.stat").splitlines())
    if not int(counters.get("nr_periods", 0)):
        return []
    held_s = (
        int(counters["throttled_usec"]) / 1e6 if "throttled_usec" in counters else int(counters["throttled_time"]) / 1e9
    )
    if limit := text_of(f"{folder}/cpu.max").split():
        quota = float(limit[0]) / float(limit[1]) if limit[0] != "max" else 0.0
    else:
        quota = float(text_of(f"{folder}/cpu.cfs_quota_us") or 0) / float(text_of(f"{folder}/cpu.cfs_period_us") or 1)
    return [quota, int(counters["nr_periods"]), int(counters["nr_throttled"]), held_s]


def temperature_c() -> float | None:
    """The highest temperature that the machine reports, °C; None where it has no thermometer."""
    zones = "/sys/class/thermal"
    names = [name for name in os.listdir(zones) if name.startswith("thermal_zone")] if os.path.isdir(zones) else []
    texts = [text_of(f"{zones}/{name}/temp").strip() for name in names]
    return max((int(text) / 1000 for text in texts if text.lstrip("-").isdigit()), default=None)


def of_cores(file: str) -> list[int]:
    """The numbers in a file that cores have below /sys/devices/system/cpu/cpuN; cores without it are left out."""
    texts = [text_of(f"{CORES}/{name}/{file}").strip() for name in os.listdir(CORES) if name[3:].isdigit()]
    return [int(text) for text in texts if text.isdigit()]


def heat_events() -> int | None:
    """How often a core was slowed down for its heat; None where the machine does not report it."""
    events = of_cores("thermal_throttle/core_throttle_count")
    return sum(events) if events else None


def clock_ratio() -> float | None:
    """The fastest core's frequency over the highest possible one; None where the machine does not report them."""
    now, highest = of_cores("cpufreq/scaling_cur_freq"), of_cores("cpufreq/cpuinfo_max_freq")
    return max(now) / max(highest) if now and highest else None


if __name__ == "__main__":
    name = sys.argv[1]
    reader = Reader({name: None}, [name] if name.startswith("gw") else [])
    print("ready", flush=True)
    for _ in sys.stdin:
        print(json.dumps(reader.read()), flush=True)
