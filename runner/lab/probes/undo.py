"""The undo of a node that shares its machine's network: what vpneval made there goes, and nothing else is touched.

The runner sends this text and that of agent.py as one program. This part forks: the child goes on into the agent, the
parent, the guard, is told by it of each change before the change is made, waits for its end, however that comes, and
takes the changes back. Two things are told:
    ["defer", ["ip", "link", "del", "wg0"]]       the command that takes back what is made next
    ["run", ["sysctl", "-qw", "a.b=1"]]           the guard sets the sysctl itself, and knows what else that has changed
What is there already when a command to remove it is told is somebody else's, and stays. Exit code 0: all of it is gone;
1: standard error says what is not. What others have changed meanwhile is counted, by kind, in a last line of standard
output: {"changed": {"route": 3, "addr": 1}}. For that the guard reads links, addresses, routes, rules, permanent
neighbours, queueing disciplines, sysctls, firewall tables and XFRM before and after; it compares nothing else with it.
"""

import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from glob import glob

ATTEMPTS = 4
PAUSE_S = 0.2
ANSWER_WITHIN_S = 20
# Processes and files are in the node's own namespaces and go with it; a deferred command of theirs would find others'.
OF_THE_NETWORK = ("ip", "tc", "nft", "ethtool")
REMOVES = ("del", "delete", "flush")
# What iproute2 and the kernel say of what is there no more, or has never been made.
IS_GONE = re.compile(
    "Cannot find device|No such|does not exist|not found|handle of zero|Invalid handle"
    "|(Protocol|family) not supported|^Error talking to the kernel$"  # the kernel has nothing of the kind
)
# Made by a kernel module for every network namespace, when something loads it; they cannot be removed.
FALLBACKS = {"tunl0", "gre0", "gretap0", "erspan0", "sit0", "ip_vti0", "ip6_vti0", "ip6tnl0", "ip6gre0"}
SYSCTLS = "/proc/sys/net"
# Kind -> what a line of these commands says, and in it the name of whose it is. Not the kernel's own routes, nor those
# that a router advertises; and of an address not how long it is still valid.
LISTS = {
    "link": (r"^\d+: ([^:@]+).*? mtu \d+", "ip -o link show"),
    "addr": (r"^\d+: (\S+ +inet6? (?!fe80:)\S+)[^\\]*", "ip -o addr show"),
    "route": (r"^(?!.*\bproto (?:kernel|ra)\b)(\S+ \S+).*", *(f"ip {v} -o route show table all" for v in ("-4", "-6"))),
    "rule": (r"^(\d+:.*)", "ip -4 rule show", "ip -6 rule show"),
    "neigh": (r"^(\S+ dev \S+).*", "ip -o neigh show nud permanent"),
    "qdisc": (r"^qdisc \S+ \S+ dev (\S+) root.*", "tc qdisc show"),
    "policy": (r"^(src \S+ dst \S+).*", "ip xfrm policy list nosock"),
}
OF_PORTS = ("qdisc", "sysctl")  # what comes and goes with a port is no change of its own
VOLATILE = re.compile(
    r"<[^>\n]*>| (linkdown|dead|offload|trap|tentative|deprecated|expires \S+|error \S+|refcnt \d+)\b"
)
State = dict[str, dict[str, str]]  # kind, and the command that lists it -> whose -> how it is


# --- what vpneval has made ------------------------------------------------------------------------------------


class Owned:
    """What vpneval has made in the machine's network: the commands that take it back, and sysctls as they were."""

    def __init__(self) -> None:
        self.undo: list[list[str]] = []
        self.was: dict[str, str] = {}  # path -> before vpneval
        self.ours: dict[str, str] = {}  # path -> as vpneval has set it; missing where one of its daemons does that
        self.ports = set(os.listdir("/sys/class/net"))

    def note(self, kind: str, argv: list[str]) -> None:
        """Note what is told, see above."""
        if argv[0] == "sysctl":
            for key, value in (word.split("=", 1) for word in argv[1:] if "=" in word):
                if kind == "run":
                    self.set(path_of(key), value)
                else:
                    self.keep(path_of(key))
        elif argv[0] in OF_THE_NETWORK and argv not in self.undo:
            command = lists(argv)
            if not command or not listing(command):
                self.undo.append(argv)

    def keep(self, path: str) -> None:
        """The sysctl gets back the value that it has now."""
        self.was = values([path]) | self.was

    def set(self, path: str, value: str) -> None:
        """Set a sysctl, and note each that the kernel has changed with it."""
        before = values(family(path))
        put(path, value)
        for each, now in values(before).items():
            if now != before[each]:
                self.was.setdefault(each, before[each])
                self.ours[each] = now

    def take_back(self) -> list[str]:
        """Take all of it back, the last first. Returns what is left, in words."""
        return [left for argv in reversed(self.undo) if (left := try_removal(argv))] + self.restore()

    def restore(self) -> list[str]:
        """Give the sysctls back the values that they had, but for those that somebody else has changed since."""
        now = values(each for path in self.was for each in family(path))
        want = {path: self.value_before(path, there) for path, there in now.items()}
        for path in sorted(want, key=urgency):
            if values([path]).get(path) != want[path]:
                put(path, want[path])
        after = values(path for path in self.was if path in want)
        return [
            f"{path}: should be {want[path]!r}, is {there!r}" for path, there in after.items() if there != want[path]
        ]

    def value_before(self, path: str, now: str) -> str:
        """What the sysctl would be without vpneval. A port that came meanwhile has the default that vpneval had set."""
        source, port = path, path.split("/")[-2]
        if path not in self.was and port not in (*self.ports, "all", "default"):
            source = path.replace(f"/conf/{port}/", "/conf/default/")
        return self.was.get(source, now) if now == self.ours.get(source, now) else now


def path_of(key: str) -> str:
    """The file of a sysctl, sysctl(8): where the first separator is a dot, a slash stands for a dot in a name."""
    first = re.search(r"[./]", key)
    swapped = key.translate(str.maketrans("./", "/.")) if first and first[0] == "." else key
    return f"/proc/sys/{swapped}"


def family(path: str) -> list[str]:
    """The sysctl, and those of the ports that the kernel may change with it: of its name, and what forwarding decides
    (ip-sysctl.rst, ip_forward)."""
    if not (version := re.match(rf"{SYSCTLS}/ipv[46]/", path)):
        return [path]
    names = (os.path.basename(path), "forwarding", "accept_redirects")
    return list(dict.fromkeys([path, *(found for name in names for found in glob(f"{version[0]}conf/*/{name}"))]))


def urgency(path: str) -> tuple[int, str]:
    """The sort key of a sysctl that is set: one that sets others goes before those."""
    first = ("/ip_forward", "/all/forwarding", "/all/disable_ipv6")
    return (0 if path.endswith(first) else 1 if "/all/" in path or "/default/" in path else 2), path


def values(paths: Iterable[str]) -> dict[str, str]:
    """The sysctls that have a value: path -> value."""
    found = {}
    for path in paths:
        try:
            with open(path) as file:
                found[path] = file.read().strip()
        except (OSError, UnicodeDecodeError):  # has no value now, or is gone with its port
            continue
    return found


def put(path: str, value: str) -> None:
    """Write a sysctl. What comes of it is read afterwards."""
    with suppress(OSError), open(path, "w") as file:
        file.write(value)


def lists(argv: Sequence[str]) -> str:
    """The command that lists what this command of ip(8) removes, be it a link, a rule or a route; empty for others."""
    verb = next((word for word in argv if word in REMOVES), "")
    if argv[0] != "ip" or not verb or not {"link", "rule", "route"} & set(argv[: argv.index(verb)]):
        return ""
    return " ".join(argv).replace(f" {verb} ", " show ", 1)


def try_removal(argv: list[str]) -> str:
    """Run a command that removes something. Returns why it is still there; empty where it is gone."""
    why = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE_S if attempt else 0)
        try:
            done = subprocess.run(argv, capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
        except subprocess.TimeoutExpired:
            why = f"did not end within {ANSWER_WITHIN_S} s"
            continue
        except OSError as error:  # no memory for a process, for example
            why = f"could not be started: {error.strerror}"
            continue
        if done.returncode == 0 or IS_GONE.search(done.stderr):
            return ""
        why = f"failed: {done.stderr.strip()[-200:] or f'exit code {done.returncode}'}"
    return f"{' '.join(argv)} {why}"


# --- what others change ---------------------------------------------------------------------------------------


def listing(command: str) -> str | None:
    """The output of a command that lists something; None where it fails, or this machine has no such command. On a busy
    machine it may lack what changes while it is read."""
    with suppress(OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        done = subprocess.run(command.split(), capture_output=True, text=True, timeout=ANSWER_WITHIN_S, check=False)
        return done.stdout if done.returncode == 0 else None
    return None


def state() -> State:
    """The machine's network now; without the kinds that cannot be read."""
    lists = [(kind, says, command) for kind, (says, *commands) in LISTS.items() for command in commands]
    shown = {f"{kind} {command}": (says, listing(command)) for kind, says, command in lists}
    found = {kind: lines_by_name(says, text) for kind, (says, text) in shown.items() if text is not None}
    if (rules := listing("nft -s list ruleset")) is not None:
        found["nft"] = tables(rules)
    iptables = legacy("iptables", "ip") | legacy("ip6tables", "ip6")
    return found | {"iptables": iptables, "sysctl": sysctls()}


def lines_by_name(says: str, shown: str) -> dict[str, str]:
    """Name -> all that is said of it, by the regular expression of a line; its first group is the name."""
    found: dict[str, str] = {}
    for line in sorted(VOLATILE.sub("", line) for line in shown.splitlines()):
        if (match := re.match(says, line)) and match[1] not in FALLBACKS:
            found[match[1]] = found.get(match[1], "") + match[0] + "\n"
    return found


def sysctls() -> dict[str, str]:
    """The sysctls of the network that can be read and written: path -> value."""
    paths = (f"{folder}/{name}" for folder, _, names in os.walk(SYSCTLS) for name in names)
    return values(path for path in paths if is_setting(path))


def is_setting(path: str) -> bool:
    """Can this sysctl be read and written?"""
    try:
        return os.stat(path).st_mode & 0o600 == 0o600
    except OSError:  # gone with its port
        return False


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


def legacy(tool: str, names: str) -> dict[str, str]:
    """The tables of the older firewall, without counters. Only where it is in use: to ask would bring it into use."""
    used = values([f"/proc/net/{names}_tables_names"])
    shown = listing(f"{tool}-legacy-save") if any(used.values()) else None
    each = re.split(r"^\*", re.sub(r"^#.*\n|\[\d+:\d+\]", "", shown or "", flags=re.MULTILINE), flags=re.MULTILINE)
    return {f"{tool} {text.partition(chr(10))[0]}": text for text in each[1:]}


def count_changes(before: State, now: State) -> dict[str, int]:
    """How many of each kind have changed, where both could be read."""
    counts: Counter[str] = Counter()
    for each in before.keys() & now.keys():
        kind, was, there = each.split()[0], before[each], now[each]
        names = was.keys() & there.keys() if kind in OF_PORTS else was.keys() | there.keys()
        counts[kind] += sum(was.get(name) != there.get(name) for name in names)
    return dict(+counts)


# --- the guard ------------------------------------------------------------------------------------------------


def guard() -> None:
    """Fork. The child returns, with the ends by which it tells the guard; the parent is the guard and never returns."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    owned, before = Owned(), state()
    hear, tell = os.pipe()
    heard, answer = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        os.close(hear)
        os.close(answer)
        sys.argv[1] = json.dumps(json.loads(sys.argv[1]) | {"guard": [tell, heard]})
        return
    os.close(tell)
    os.close(heard)
    put("/proc/self/oom_score_adj", "-1000")
    with open(hear) as lines:
        for line in lines:
            owned.note(*json.loads(line))
            with suppress(OSError):
                os.write(answer, b"\n")
    status = os.waitpid(child, 0)[1]
    if left := owned.take_back():
        os.write(2, ("; ".join(left) + "\n").encode())
    with suppress(OSError):  # nobody listens any more
        os.write(1, (json.dumps({"changed": count_changes(before, state())}) + "\n").encode())
    os._exit(1 if left else min(1, abs(os.waitstatus_to_exitcode(status))))


if __name__ == "agent" and json.loads(sys.argv[1]).get("network") == "machine":
    guard()
