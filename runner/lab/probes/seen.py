"""A gateway in use: ports, routes, tunnels and their programs, counters, as one JSON object. It changes nothing.

usage: seen.py everything SIGNS    SIGNS: JSON, {"programs": {NAME: [TELLS, CONFIG]}, "asks": [[KIND, NAME, ARGV], …]}
       seen.py counters
TELLS are the first words of the lines of a configuration, an option or an answer that are no secret; no other line
leaves this machine. CONFIG: the option before a path ("" for an argument of its own) -> where the files are, with {}
for the path. ARGV is run for each port of KIND, and each that the program NAME holds, whose name is {device}; without
{device}, once.
No question makes the kernel load a module: netlink's families are asked only where they are there.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

GONE = (OSError, ValueError, IndexError)
NETLINK_XFRM = "6"
MOST = 4000  # characters of an answer's line
SECRET = re.compile(r"0x[0-9a-fA-F]{16,}")
TUN = "/dev/net/tun"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def text_of(path: str) -> str:
    """The text of a file; empty where it cannot be read."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def run_tool(*argv: str) -> tuple[str, str]:
    """What a command says, without the keys of xfrm, and what it complains of."""
    if shutil.which(argv[0], path=PATH) is None:
        return "", f"{argv[0]} is not installed"
    environment = {"PATH": PATH, "LC_ALL": "C"}
    try:
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=10,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{' '.join(argv[:2])}: {type(error).__name__}"
    complaint = (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]
    return SECRET.sub("(hidden)", done.stdout), f"{argv[0]}: {complaint[:200]}" if done.returncode else ""


def families() -> set[str]:
    """The families of netlink that the kernel has now (proc_net_netlink)."""
    return {line.split()[1] for line in text_of("/proc/net/netlink").splitlines()[1:]}


# --- programs -------------------------------------------------------------------------------------------------


def own_processes() -> Iterator[int]:
    """The processes of this network namespace. A container's are its own."""
    mine = os.stat("/proc/self/ns/net").st_ino
    for number in filter(str.isdigit, os.listdir("/proc")):
        with suppress(*GONE):
            if os.stat(f"/proc/{number}/ns/net").st_ino == mine:
                yield int(number)


def holds(pid: int) -> tuple[list[str], list[str]]:
    """The tunnel devices that a process holds (fdinfo's "iff"), and its sockets' inodes."""
    devices, inodes = [], []
    for number in os.listdir(f"/proc/{pid}/fd"):
        with suppress(*GONE):
            to = os.readlink(f"/proc/{pid}/fd/{number}")
            if to.startswith("socket:["):
                inodes.append(to[8:-1])
            elif to.endswith("/tun"):
                found = re.search(r"^iff:\s*(\S+)", text_of(f"/proc/{pid}/fdinfo/{number}"), re.MULTILINE)
                devices += [found[1]] if found else []
    return sorted(set(devices)), inodes


def address(text: str) -> str:
    """An address and port of /proc/net/udp or tcp, readable."""
    host, _, port = text.partition(":")
    words = [host[i : i + 8] for i in range(0, len(host), 8)]
    data = b"".join(int(word, 16).to_bytes(4, sys.byteorder) for word in words)
    import socket

    shown = socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)
    return f"{shown.removeprefix('::ffff:')}:{int(port, 16)}"


def sockets() -> dict[str, str]:
    """Inode -> "udp 0.0.0.0:1194 0.0.0.0:0", protocol, own and other end; connected or listening."""
    found = {}
    for kind in ("udp", "tcp", "udp6", "tcp6"):
        for line in text_of(f"/proc/net/{kind}").splitlines()[1:]:
            with suppress(*GONE):
                fields = line.split()
                if kind.startswith("udp") or fields[3] in ("01", "0A"):
                    found[fields[9]] = f"{kind[:3]} {address(fields[1])} {address(fields[2])}"
    return found


def words_of(argv: list[str]) -> Iterator[tuple[str, str]]:
    """The options of a command line with their values, and ("", argument) for what belongs to none."""
    at = 1
    while at < len(argv):
        word, at = argv[at], at + 1
        if not word.startswith("-"):
            yield "", word
            continue
        name, given, value = word.lstrip("-").partition("=")
        values = [value] if given else []
        while not given and at < len(argv) and not argv[at].startswith("-"):
            values.append(argv[at])
            at += 1
        yield name, " ".join(values)


def select_lines(lines: list[str], tells: list[str]) -> list[str]:
    """The lines whose first word is one of these; all of them for "*"."""
    kept = []
    for line in lines:
        first = re.match(r"[\s-]*([\w.]+(?:-[\w.]+)*)", line)
        if first and (first[1] in tells or "*" in tells):
            kept.append(SECRET.sub("(hidden)", line.strip().rstrip(";{ "))[:MOST])
    return kept


def config_lines(pid: int, argv: list[str], config: dict[str, list[str]]) -> tuple[list[str], list[str]]:
    """The lines of a program's configuration, and the files that cannot be read."""
    paths = [
        place.replace("{}", value.split(" ")[0])
        for name, value in words_of(argv)
        for place in config.get(name, [])
        if value
    ]
    lines, closed = [], []
    for path in paths or config.get("default", []):
        whole = os.path.join(os.readlink(f"/proc/{pid}/cwd"), path)
        for place in sorted(glob.glob(f"/proc/{pid}/root{whole}")) or sorted(glob.glob(whole)) or [whole]:
            if text := text_of(place):
                lines += text.splitlines()
            elif not os.path.isdir(place):
                closed.append(place.replace(f"/proc/{pid}/root", ""))
    return lines, closed


def process(pid: int, programs: dict[str, Any], ends: dict[str, str]) -> dict[str, Any] | None:
    """What a process is, if it is one of ``programs`` or holds a tunnel's device. Raises OSError."""
    name = text_of(f"/proc/{pid}/comm").strip()
    closed: list[str] = []
    try:
        devices, inodes = holds(pid)
    except PermissionError:
        devices, inodes, closed = [], [], ["what it holds"]
    if name not in programs and not devices:
        return None
    argv = text_of(f"/proc/{pid}/cmdline").rstrip("\0").split("\0")
    argv = argv[0].split() if len(argv) == 1 else argv  # a title: "sshd: /usr/sbin/sshd -f FILE [listener] 0 of …"
    tells, config = programs.get(name, [[], {}])
    lines: list[str] = []
    files: list[str] = []
    with suppress(*GONE):
        lines, files = config_lines(pid, argv, config)
    options = [value if option == "o" else f"{option} {value}".strip() for option, value in words_of(argv) if option]
    return {
        "pid": pid,
        "name": name,
        "devices": devices,
        "sockets": sorted({ends[inode] for inode in inodes if inode in ends}),
        "told": select_lines([*options, *lines], tells),
        "closed": closed + files,
    }


# --- the kernel -----------------------------------------------------------------------------------------------


def policers() -> dict[str, list[int]]:
    """Port -> [packets that its policers took, packets that they dropped], of the filters where packets come in."""
    found = {}
    for line in run_tool("tc", "qdisc", "show")[0].splitlines():
        if match := re.match(r"qdisc (?:ingress|clsact) \S+ dev (\S+)", line):
            found[match[1]] = policer_counts(run_tool("tc", "-s", "filter", "show", "dev", match[1], "ingress")[0])
    return {port: counts for port, counts in found.items() if counts[0]}


def policer_counts(shown: str) -> list[int]:
    """[packets taken, packets dropped] of all policers that tc(8) shows."""
    counts = [
        re.search(r"Sent \d+ bytes (\d+) pkts? \(dropped (\d+)", part) for part in re.split(r"\bpolice 0x", shown)[1:]
    ]
    return [sum(int(one[number]) for one in counts if one) for number in (1, 2)]


def counters() -> dict[str, Any]:
    """What the kernel has counted since boot: fragments, policers, its IPsec's errors."""
    rows = [line.split() for line in text_of("/proc/net/snmp").splitlines() if line.startswith("Ip:")]
    ip = dict(zip(rows[0][1:], map(int, rows[1][1:]), strict=False)) if len(rows) == 2 else {}
    wanted = ("FragCreates", "FragFails", "ReasmReqds", "ReasmFails")
    xfrm = [line.split() for line in text_of("/proc/net/xfrm_stat").splitlines()]
    packets = {}
    for line in text_of("/proc/net/dev").splitlines()[2:]:
        name, _, counts = line.partition(":")
        fields = counts.split()
        packets[name.strip()] = [int(fields[1]), int(fields[9]), int(fields[0]), int(fields[8])]
    return {
        "ip": {name: ip.get(name, 0) for name in wanted},
        "policed": policers(),
        "xfrm": {name: int(count) for name, count in xfrm},
        "packets": packets,
    }


def everything(signs: dict[str, Any]) -> dict[str, Any]:
    """The whole look."""
    lacks = [] if os.geteuid() == 0 else ["it is not root there: it sees neither IPsec's states nor others' programs"]
    ends = sockets()
    processes = []
    for pid in own_processes():
        with suppress(*GONE):
            if pid != os.getpid() and (one := process(pid, signs["programs"], ends)):
                processes.append(one)
    links, complaint = run_tool("ip", "-d", "-j", "addr", "show")
    lacks += [complaint] if complaint else []
    states = policies = ""
    if NETLINK_XFRM in families() and os.geteuid() == 0:
        states, policies = (
            run_tool("ip", "-s", "xfrm", "state")[0],
            run_tool("ip", "xfrm", "policy", "list", "nosock")[0],
        )
    ports = json.loads(links or "[]")
    answers = []
    for kind, name, argv, tells in signs["asks"]:
        of_kind = [one["ifname"] for one in ports if one.get("linkinfo", {}).get("info_kind") == kind]
        held = [device for one in processes if one["name"] == name for device in one["devices"]]
        running = any(one["name"] == name for one in processes)
        for device in (of_kind + held) if "{device}" in argv else [""] if running or of_kind else []:
            shown, complaint = run_tool(*(word.replace("{device}", device) for word in argv))
            answers.append(
                {"argv": argv[:2], "device": device, "name": name, "told": select_lines(shown.splitlines(), tells)}
            )
            lacks += [complaint] if complaint else []
    return {
        "host": os.uname().nodename,
        "kernel": os.uname().release,
        "cpu": dict(
            [part.strip() for part in line.split(":", 1)]
            for line in text_of("/proc/cpuinfo").split("\n\n")[0].splitlines()
            if ":" in line
        ),
        "cores": len(os.sched_getaffinity(0)),
        "root": os.geteuid() == 0,
        "links": ports,
        "routes": json.loads(run_tool("ip", "-4", "-j", "route", "show", "table", "all")[0] or "[]"),
        "processes": processes,
        "answers": answers,
        "states": xfrm(states),
        "policies": selectors(policies),
        "listening": sorted({end.split()[0] + "/" + end.split()[1].rpartition(":")[2] for end in ends.values()}),
        "lacks": sorted(set(lacks)),
        "counters": counters(),
    }


def xfrm(states: str) -> list[str]:
    """The kernel's IPsec states, one a line, without keys: "src A dst B proto esp mode tunnel enc cbc(aes) …"."""
    found = []
    for part in re.split(r"^(?=src )", states, flags=re.MULTILINE)[:200]:
        ends = re.match(r"src (\S+) dst (\S+)", part)
        proto = re.search(r"proto (\S+) spi \S+ .*?mode (\S+)", part)
        if ends and proto:
            names = re.findall(r"^\s*(?:auth-trunc|auth|enc|aead|comp) (\S+)", part, re.MULTILINE)
            encap = " in udp" if re.search(r"^\s*encap ", part, re.MULTILINE) else ""
            found.append(f"src {ends[1]} dst {ends[2]} proto {proto[1]} mode {proto[2]} {' '.join(names)}{encap}")
    return sorted(found)


def selectors(policies: str) -> list[str]:
    """The kernel's policies for what leaves, one a line: "src NET dst NET proto P tmpl A B esp tunnel"."""
    found = []
    for part in re.split(r"^(?=src )", policies, flags=re.MULTILINE)[:200]:
        ends = re.match(r"src (\S+) dst (\S+)(.*)", part)
        template = re.search(r"tmpl src (\S+) dst (\S+)\s+proto (\S+).* mode (\S+)", part)
        if ends and template and re.search(r"\bdir out\b", part):
            proto = re.search(r"proto (\S+)", ends[3])
            what = f" proto {proto[1]}" if proto else ""
            found.append(f"src {ends[1]} dst {ends[2]}{what} tmpl {' '.join(template.groups())}")
    return sorted(found)


if __name__ == "__main__":
    print(json.dumps(counters() if sys.argv[1] == "counters" else everything(json.loads(sys.argv[2]))))
