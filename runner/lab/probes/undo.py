"""The undo of a node that shares its machine's network: what the network was before the agent worked, it is afterwards.

The runner sends this text and that of agent.py as one program. This part forks: the child goes on into the agent, the
parent waits for its end, however that comes, and restores. Exit code 0: everything is as before; 1: standard error says
what is not. It reads links, addresses, routes, rules, permanent neighbours, queueing disciplines, the sysctls below
/proc/sys/net, firewall tables, and XFRM. Dynamic addresses and a router's advertised routes are left to who made them.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

PASSES = 4
ANSWER_WITHIN_S = 20
ATTEMPTS = 3  # a dump that something else interrupts is whole the next time
PAUSE_S = 0.2
# Made by a kernel module for every network namespace, when something loads it; they cannot be removed.
FALLBACKS = {"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"}
VOLATILE = re.compile(r" (linkdown|dead|offload|trap|expires \S+|error \S+|refcnt \d+)\b")
State = dict[str, dict[str, str]]  # kind -> what -> how it is


class Unread(Exception):
    """A command that lists a part of the network has failed; the text says how."""


# What could not be asked at first is not asked afterwards either: whatever it then said would be taken for new.
NOT_HERE: set[tuple[str, ...]] = set()


def told(*argv: str) -> str:
    """The output of a command that lists a part of the network; empty where this machine has no such command, or its
    kernel nothing of the kind.

    Raises Unread where the command fails or does not end. An empty list would be wrong then: everything that is there
    would count as new, and be removed.
    """
    if argv in NOT_HERE:
        return ""
    why = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_S if attempt else 0)
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
        except FileNotFoundError:
            NOT_HERE.add(argv)
            return ""
        except subprocess.TimeoutExpired:
            raise Unread(f"{' '.join(argv)} did not end within {ANSWER_WITHIN_S} s") from None
        except OSError as error:  # no memory for a process, for example
            raise Unread(f"{' '.join(argv)} could not be started: {error.strerror}") from error
        if done.returncode == 0 and "interrupted" not in done.stderr:
            return done.stdout
        if "not supported" in done.stderr:  # EOPNOTSUPP, EAFNOSUPPORT, EPROTONOSUPPORT: not in this kernel
            NOT_HERE.add(argv)
            return ""
        why = done.stderr.strip()[-200:] or f"exit code {done.returncode}"
    raise Unread(f"{' '.join(argv)} failed: {why}")


def put_back(*argv: str, text: str | None = None) -> bool:
    """Run a command that changes something. Returns its success; the comparison afterwards says what has changed."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def state() -> State:
    """The machine's network now. Raises Unread."""
    links = [link for link in ports() if link["ifname"] not in FALLBACKS]
    return {
        "link": {link["ifname"]: setting(link) for link in links},
        "addr": {line: "" for link in links for line in addresses(link)},
        **{
            f"route -{family}": routes(told("ip", f"-{family}", "-o", "route", "show", "table", "all"))
            for family in "46"
        },
        **{f"rule -{family}": rules(told("ip", f"-{family}", "rule", "show")) for family in "46"},
        "neigh": neighbours(told("ip", "-o", "neigh", "show", "nud", "permanent")),
        "qdisc": disciplines(told("tc", "qdisc", "show")),
        "sysctl": sysctls(),
        "nft": tables(told("nft", "-s", "list", "ruleset")),
        "iptables": {tool: legacy(tool, names) for tool, names in (("iptables", "ip"), ("ip6tables", "ip6"))},
        "xfrm": {what: told("ip", "xfrm", *what.split()).strip() for what in ("policy list nosock", "state count")},
    }


def ports() -> list[Any]:
    """The links, with their addresses. Raises Unread."""
    argv = ("ip", "-d", "-j", "addr", "show")
    try:
        return [link for link in json.loads(told(*argv) or "[]") if link]
    except ValueError:
        raise Unread(f"{' '.join(argv)} said no JSON") from None


def setting(link: Mapping[str, object]) -> str:
    """How a link is set, as ip-link(8) sets it."""
    up = "up" if "UP" in str(link["flags"]) else "down"
    master = f"master {link['master']}" if "master" in link else "nomaster"
    return f"mtu {link['mtu']} {up} {master}"


def addresses(link: Mapping[str, object]) -> list[str]:
    """The link's addresses, as ip-address(8) adds them."""
    lines = []
    for entry in link["addr_info"]:  # type: ignore[attr-defined]
        if "local" not in entry or entry.get("protocol") == "kernel_ll" or entry.get("dynamic"):
            continue
        peer = f" peer {entry['address']}" if "address" in entry else ""
        line = f"{entry['local']}{peer}/{entry['prefixlen']} dev {link['ifname']} scope {entry['scope']}"
        line += f" brd {entry['broadcast']}" if "broadcast" in entry else ""
        line += f" label {entry['label']}" if entry.get("label", link["ifname"]) != link["ifname"] else ""
        lines.append(line + "".join(f" {flag}" for flag in ("noprefixroute", "nodad") if entry.get(flag)))
    return lines


def routes(shown: str) -> dict[str, str]:
    """The routes that somebody made, as ip-route(8) adds them: not the kernel's own, nor a router's."""
    lines = [VOLATILE.sub("", line.replace("\\", " ").strip()) for line in shown.splitlines()]
    made = [line for line in lines if line and not re.search(r"\bproto (kernel|ra)\b", line)]
    return dict.fromkeys(sorted(made, key=lambda line: " via " in line), "")  # on-link first


def rules(shown: str) -> dict[str, str]:
    """The rules, as ip-rule(8) adds them."""
    pairs = [line.split(":", 1) for line in shown.splitlines() if ":" in line]
    return {f"pref {number} {what.strip()}": "" for number, what in pairs}


def neighbours(shown: str) -> dict[str, str]:
    """Permanent neighbours, as ip-neighbour(8) adds them."""
    matches = re.findall(r"^(\S+) dev (\S+) lladdr (\S+)", shown, flags=re.MULTILINE)
    return {f"{address} lladdr {mac} nud permanent dev {device}": "" for address, device, mac in matches}


def disciplines(shown: str) -> dict[str, str]:
    """Device -> its root queueing discipline."""
    matches = re.findall(r"^qdisc (\S+ \S+) dev (\S+) root(.*)$", shown, flags=re.MULTILINE)
    return {device: f"{kind}{VOLATILE.sub('', rest).rstrip()}" for kind, device, rest in matches}


def sysctls() -> dict[str, str]:
    """The sysctls below /proc/sys/net that can be read and written: path -> value."""
    values = {}
    for folder, _, names in os.walk("/proc/sys/net"):
        for path in (f"{folder}/{name}" for name in names):
            try:
                if os.stat(path).st_mode & 0o600 == 0o600:
                    with open(path) as file:
                        values[path] = file.read().strip()
            except (OSError, UnicodeDecodeError):  # has no value now, or is gone with its device
                continue
    return values


def tables(shown: str) -> dict[str, str]:
    """nftables' tables: header -> text."""
    texts: dict[str, str] = {}
    header = ""
    for line in shown.splitlines():
        if line.startswith("table "):
            header = line.removesuffix("{").strip()
        if header and not line.startswith("#"):
            texts[header] = texts.get(header, "") + line + "\n"
    return texts


def legacy(tool: str, names: str) -> str:
    """The rules of the older firewall, without counters. Only where it is in use: to ask would bring it into use."""
    try:
        with open(f"/proc/net/{names}_tables_names") as file:
            used = file.read().strip()
    except OSError:
        return ""
    save = (told(f"{tool}-legacy-save") or told(f"{tool}-save")) if used else ""
    return re.sub(r"^#.*\n", "", re.sub(r"\[\d+:\d+\]", "[0:0]", save), flags=re.MULTILINE)


def difference(before: State, now: State) -> list[tuple[str, str, str, str]]:
    """The changes: kind, what, how it was and how it is; "absent" for what is not there."""
    changes = []
    for kind, was in before.items():
        for what in {**was, **now[kind]}:
            then, there = was.get(what, "absent"), now[kind].get(what, "absent")
            if then == there or (kind == "sysctl" and "absent" in (then, there)):  # a device or module came or went
                continue
            if kind == "qdisc" and (what not in now["link"] or what not in before["link"]):
                continue
            changes.append((kind, what, then, there))
    return changes


def undo(kind: str, what: str, then: str, there: str) -> None:
    """Undo one change."""
    name, _, family = kind.partition(" ")
    if kind == "link" and then == "absent":
        put_back("ip", "link", "del", what)
    elif kind == "link":
        put_back("ip", "link", "set", "dev", what, *then.split())
    elif name in ("addr", "route", "rule", "neigh"):
        verb = "del" if then == "absent" else "add"
        put_back("ip", *family.split(), "-batch", "-", text=f"{name} {verb} {what}\n")
    elif kind == "qdisc":
        put_back("tc", "qdisc", "del", "dev", what, "root")
    elif kind == "sysctl":
        put(what, then)
    elif kind == "nft":
        text = "" if then == "absent" else then
        put_back("nft", "-f", "-", text=f"add {what}\ndelete {what}\n{text}")
    elif kind == "iptables":
        put_back(f"{what}-legacy-restore", text=then) or put_back(f"{what}-restore", text=then)
    elif kind == "xfrm" and (then == "" or then.endswith(" 0")):  # there was none, so all of it is new
        put_back("ip", "xfrm", what.split()[0], "flush")


def put(path: str, value: str) -> None:
    """Write a sysctl."""
    try:
        with open(path, "w") as file:
            file.write(value)
    except OSError:
        return  # the comparison afterwards says so


def urgency(change: tuple[str, str, str, str]) -> tuple[int, bool]:
    """The sort key of a change. New links go first, and much goes with them; forwarding goes before the other sysctls,
    which it changes."""
    kind, what, then, _ = change
    order = ("link", "xfrm", "sysctl", "addr", "route -4", "route -6", "rule -4", "rule -6")
    first = then == "absent" if kind == "link" else what.endswith(("/ip_forward", "/all/forwarding"))
    return (order.index(kind) if kind in order else len(order)), not first


def restore(before: State) -> list[str]:
    """Make the network what it was before. Returns what could not be restored, in words."""
    for _ in range(PASSES):
        with suppress(Unread):
            if not (changes := sorted(difference(before, state()), key=urgency)):
                return []
            for change in changes:
                undo(*change)
    try:
        left = difference(before, state())
    except Unread as why:
        return [f"not all could be compared: {why}"]
    return [f"{kind} {what}: was {then!r}, is {there!r}" for kind, what, then, there in left]


def guard() -> None:
    """Fork. The child returns, and ends with the parent; the parent never returns."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    try:
        before = state()
    except Unread as why:
        os.write(2, f"{why}, so what it says could not be restored; nothing was changed\n".encode())
        os._exit(1)
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        return
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-1000")
    except OSError:
        pass
    status = os.waitpid(child, 0)[1]
    left = restore(before)
    if left:
        os.write(2, ("; ".join(left) + "\n").encode())
    os._exit(1 if left else min(1, abs(os.waitstatus_to_exitcode(status))))


if __name__ == "agent" and json.loads(sys.argv[1]).get("network") == "machine":
    guard()
