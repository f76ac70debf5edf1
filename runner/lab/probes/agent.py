"""Makes a node, lends it the machine's ports, runs the runner's commands in it, and at the end undoes all of that.

usage: agent.py NODE       as root; NODE is a JSON object. If the runner is on another machine:
    {"name": "gw1", "root": "/", "silence_s": 30,
     "ports": {"wan0": "eth2"}, "restore": "…", "restore6": "…", "sysctls": "…"}
"root" is the folder below the node's copy-on-write root. "ports" maps a name in the lab to the name of the machine's
port. At the end "restore" and "restore6", which are lines for ip(8) -batch, and "sysctls", which are lines "path
value", bring the ports back to their earlier state. "cable" is optional: a line for ip(8) that lays a cable into the
node, with "{pid}" in the place of the node's process; the lines of "uncable" remove it there. "network" is "machine"
if the node has the machine's own network; then undo.py undoes what is made there. The program prints the process
number of the node's PID 1 and serves. It ends when the node has ended: with exit code 0 if nothing of the node is left,
else with 1 and the reason. If the runner is on this machine, unshare(1) has made the program a PID 1 already:
    {"name": "gw1", "root": "/var/cache/…", "group": "/sys/fs/cgroup/…"}
"group" is the folder of the control group of the node's processes, or empty. "users" is optional: the node has 65,536
user ids of its own, which are those of the machine from this one on, so that root in the node is not the machine's. If
the kernel refuses that, standard error says why, and the node shares the machine's user ids.

The agent itself is the node's PID 1, and it starts hardly any other process, because in an emulated machine each takes
a tenth of a second. If the runner is on another machine, each line on standard input is a request, and an empty line a
heartbeat:
    {"id": 7, "argv": ["ip", "link"], "input": "…"}      start a command; "input" is optional
    {"id": 7, "kill": true}                              kill it and its process group (SIGKILL)
    {"id": 8, "ping": true}                              answer
    {"id": 9, "defer": ["ip", "link", "del", "wg0"]}     at the end, undo by this what the next command changes
The last one is for the machine's network. Answers are JSON objects, one in a line, bytes as Latin-1 text:
    {"id": 7, "out": "…"}, {"id": 7, "err": "…"}         output of the command, as it comes
    {"id": 7, "code": 0}                                 it has ended; output of its children may follow
    {"id": 8, "code": 0, "awake_s": 61.5}                a ping's: a clock that stops with the machine or the agent
If the runner is on this machine, standard input is a socket. Each of its packets is a request with file descriptors, so
that no output passes through the agent, and no answer is needed:
    {"id": 7, "argv": ["ip"], "env": {"PATH": "…"}}      standard input, output and error, and a pipe for the exit code
    {"id": 7, "path": "/etc/x", "mode": 384}             the same; write what standard input has into the file
    {"id": 7, "kill": true}                              a pipe, which is closed when the whole group has ended
When standard input ends, or is silent for "silence_s" (0: for ever), PID 1 ends, and with it, by the kernel, all other
processes of the node.
"""

import array  # noqa: F401  socket.recv_fds() wants it in a node, where this Python's library is out of reach
import ctypes
import fcntl
import json
import os
import resource
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

CHUNK = 65536
PACKET = 1 << 20
IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)  # by Python, and not by what it starts
GONE_WITHIN_S = 5.0
LOOK_MS = 200  # so often does it look at the clock, where the runner is on another machine
STILL_S = 1.0  # a busy machine lets a process wait for some tenths of a second
IDS = 65536  # of a node that has users of its own
# sched.h, sys/mount.h, sys/prctl.h
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = (
    *(0x00020000, 0x04000000, 0x08000000),
    *(0x20000000, 0x40000000),
)
CLONE_NEWUSER = 0x10000000
# linux/mount.h, and the numbers of the system calls, which are everywhere the same (open_tree(2), mount_setattr(2))
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
OPEN_TREE_CLONE, AT_RECURSIVE, AT_EMPTY_PATH, MOVE_MOUNT_F_EMPTY_PATH, AT_FDCWD = 1, 0x8000, 0x1000, 4, -100
MOUNT_ATTR_IDMAP = 0x00100000
MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH, PR_SET_PDEATHSIG = 0x1000, 0x4000, 0x40000, 2, 1
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1  # linux/sockios.h, net/if.h
PARTS = ("usr", "usr/local", "etc", "var", "var/lib", "opt")  # each may be a file system of its own
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "net/tun", "ppp")
LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd"} | {
    name: f"/proc/self/fd/{number}" for number, name in enumerate(("stdin", "stdout", "stderr"))
}
libc = ctypes.CDLL(None, use_errno=True)


def call(function: str, *arguments: int | str | bytes | None) -> int:
    """A call of the C library. Raises OSError with its arguments."""
    raw = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    if (result := getattr(libc, function)(*raw)) < 0:
        raise OSError(ctypes.get_errno(), f"{function}{arguments}: {os.strerror(ctypes.get_errno())}")
    return int(result)


def mount(source: str, target: str, kind: str | None, options: str = "", flags: int = 0) -> None:
    """mount(2). Raises OSError."""
    call("mount", source, target, kind, flags, options)


def ip(*options: str, lines: str, net: int | None = None) -> bool:
    """ip(8) with a batch, in the network namespace of the descriptor ``net``. Did every line succeed?"""
    child = os.fork()
    if child == 0:
        try:
            if net is not None:
                call("setns", net, CLONE_NEWNET)
            os.dup2(file_of(lines), 0)
            os.dup2(2, 1)
            os.execvp("ip", ["ip", *options, "-batch", "-"])
        finally:
            os._exit(127)
    return os.waitpid(child, 0)[1] == 0


def file_of(text: str) -> int:
    """A descriptor to read ``text`` from, in memory."""
    try:
        file = os.memfd_create("input")
    except OSError:  # a profile of seccomp refuses it; this is a tmpfs of the node's own
        file = os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    data = text.encode()
    while data:
        data = data[os.write(file, data) :]
    os.lseek(file, 0, os.SEEK_SET)
    return file


# --- the machine's side ---------------------------------------------------------------------------------------


def keep(node: dict[str, str], ports: dict[str, str], silence_s: int) -> int:
    """Make the node, lend it the ports, wait for its end, take them back. Returns the exit code."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    home = os.open("/proc/self/ns/pid", os.O_RDONLY)
    ready, tell = os.pipe()
    call("unshare", CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.close(ready)
        try:
            enter(node["name"], node["root"], groups=True, own_network=node.get("network") != "machine")
            os.write(tell, b"\n")
            os.close(tell)
            serve_all(False, silence_s)
        except OSError as error:  # what the machine refuses, in the words that the runner shows
            os.write(2, f"{error}\n".encode())
        os._exit(1)
    call("setns", home, CLONE_NEWPID)
    os.close(tell)
    if not os.read(ready, 1):
        return 1  # it has said why
    # As long as this is open the namespace lives, after its processes: else the kernel would delete virtual ports.
    try:
        net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    except FileNotFoundError:  # let go before it has got anything
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    lines = "".join(f"link set dev {own} netns {pid} name {lab}\n" for lab, own in ports.items())
    lent = ip(lines=lines + node.get("cable", "").replace("{pid}", str(pid)))
    if lent:
        os.write(1, f"{pid}\n".encode())
    else:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    away = {lab: own for lab, own in ports.items() if not os.path.exists(f"/sys/class/net/{own}")}
    back = "".join(f"link set dev {lab} netns {os.getpid()} name {own}\n" for lab, own in away.items())
    well = [ip("-force", lines=back, net=net) if away else True]
    # The kernel keeps a namespace, and what is in it, as long as a connection there has something left to send.
    well.append(ip("-force", lines=node["uncable"], net=net) if lent and node.get("uncable") else True)
    well.append(ip("-force", lines=node["restore"]) if node["restore"] else True)
    well.append(ip("-force", "-6", lines=node["restore6"]) if node["restore6"] else True)
    for line in node["sysctls"].splitlines():
        path, value = line.split(" ", 1)
        try:
            with open(path, "w") as file:
                file.write(value)
        except OSError as error:  # a virtual port may be gone with its other end
            os.write(2, f"{error}\n".encode())
            well.append(False)
    return 0 if lent and all(well) else 1


# --- in the node ----------------------------------------------------------------------------------------------


def hold(node: dict[str, str]) -> None:
    """Be the PID 1 of a node whose runner is on this machine: join its control group (where the kernel refuses that,
    the runner sees it), make its namespaces, and serve. Never returns."""
    number = os.readlink("/proc/self")  # the machine's: its /proc is still there
    with suppress(OSError), open(f"{node['group']}/cgroup.procs", "w") as procs:
        procs.write("0")
    enter(node["name"], node["root"], users=own_users(int(node["users"]), node["root"]) if "users" in node else None)
    os.write(1, f"{number}\n".encode())
    serve_all(True, 0)


class Users(NamedTuple):
    """The user namespace of a node, and its root file system as it looks there. Both are open files."""

    first: int
    namespace: int
    root: int


def own_users(first: int, root: str) -> Users | None:
    """A user namespace in which root is ``first`` of this machine, and ``root`` with ids that fit (an idmapped mount);
    None, and a word why, where this kernel or its file system has no such thing. An overlay takes one since Linux
    5.19."""
    made, tell = os.pipe()
    mapped, go_on = os.pipe()
    child = os.fork()
    if child == 0:  # a namespace is made by whoever goes into it, and its ids are mapped from outside
        try:
            call("unshare", CLONE_NEWUSER)
            os.write(tell, os.readlink("/proc/self").encode())  # the machine's number
            os.close(go_on)
            os.read(mapped, 1)
        finally:
            os._exit(0)
    os.close(tell)
    try:
        if tuple(int(part.partition("-")[0]) for part in os.uname().release.split(".")[:2]) < (5, 19):
            raise OSError("an overlay takes no idmapped mount before Linux 5.19")
        number = int(os.read(made, CHUNK) or b"0")
        for ids in ("uid_map", "gid_map"):
            with open(f"/proc/{number}/{ids}", "w") as file:
                file.write(f"0 {first} {IDS}\n")
        namespace = os.open(f"/proc/{number}/ns/user", os.O_RDONLY)
        tree = call("syscall", OPEN_TREE, AT_FDCWD, root, OPEN_TREE_CLONE | os.O_CLOEXEC)
        attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, namespace)
        call("syscall", MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, attributes, len(attributes))
        return Users(first, namespace, tree)
    except OSError as error:
        os.write(2, f"{error}\n".encode())
        return None
    finally:
        for end in (made, mapped, go_on):
            os.close(end)
        os.waitpid(child, 0)


def become(users: Users) -> None:
    """Become root of that user namespace alone, in namespaces that are its own, with the present folder as ``/mnt``."""
    tree = call("syscall", OPEN_TREE, AT_FDCWD, ".", OPEN_TREE_CLONE | AT_RECURSIVE | os.O_CLOEXEC)
    call("setns", users.namespace, CLONE_NEWUSER)
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    call("unshare", CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET)
    call("syscall", MOVE_MOUNT, tree, "", AT_FDCWD, "/mnt", MOVE_MOUNT_F_EMPTY_PATH)
    os.chdir("/mnt")


def give(first: int) -> None:
    """Give all that is in these folders to this id of the machine."""
    for top in ("dev", "run", "tmp"):
        for folder, _, files in os.walk(top):
            for name in ("", *files):
                os.chown(os.path.join(folder, name), first, first, follow_symlinks=False)


def enter(name: str, root: str, *, groups: bool = False, own_network: bool = True, users: Users | None = None) -> None:
    """Become the first process of a node: namespaces, ``root`` under an overlay, devices. ``groups``: with the
    machine's control groups, which say whether a quota held its processes back."""
    ours = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | (CLONE_NEWNET if own_network else 0)
    call("unshare", CLONE_NEWNS if users else ours)
    mount("none", "/", None, flags=MS_REC | MS_PRIVATE)
    lay_over(root, users)
    furnish(users)
    if users:
        become(users)
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)  # another user has none
    mount("sysfs", "sys", "sysfs")
    if groups and os.path.isdir("sys/fs/cgroup"):
        mount("/sys/fs/cgroup", "sys/fs/cgroup", None, flags=MS_BIND | MS_REC)
    call("pivot_root", ".", ".old")
    os.chdir("/")
    call("umount2", "/.old", MNT_DETACH)
    os.rmdir("/.old")
    call("sethostname", name, len(name))
    with open("/etc/hosts", "w") as hosts:
        hosts.write(f"127.0.0.1 localhost {name}\n")
    if not own_network:
        return
    with socket.socket() as any_socket:  # netdevice(7)
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def lay_over(root: str, users: Users | None) -> None:
    """Go to a copy-on-write view of ``root``, below /mnt."""
    os.chdir(root)  # it may be below /mnt; and as "." it needs no escapes, see overlayfs.rst
    mount("tmpfs", "/mnt", "tmpfs", "size=4g,mode=755")
    for folder in ("upper", "work", "root", "image"):
        os.mkdir(f"/mnt/{folder}")
    if users:
        call("syscall", MOVE_MOUNT, users.root, "", AT_FDCWD, "/mnt/image", MOVE_MOUNT_F_EMPTY_PATH)
        os.chdir("/mnt/image")
        os.chown("/mnt/upper", users.first, users.first)
    mount("overlay", "/mnt/root", "overlay", "lowerdir=.,upperdir=/mnt/upper,workdir=/mnt/work")
    os.chdir("/mnt/root")
    show_parts(root)


def furnish(users: Users | None) -> None:
    """Give the present folder, which becomes the root, what a machine has beside its files."""
    for folder in ("proc", "sys", "dev", "run", "tmp", ".old"):
        os.makedirs(folder, exist_ok=True)
    mount("proc", "proc", "proc")
    mount("tmpfs", "dev", "tmpfs", "mode=755,size=16m")
    mount("tmpfs", "run", "tmpfs", "mode=755")
    mount("tmpfs", "tmp", "tmpfs", "mode=1777")
    for folder in ("dev/net", "dev/pts", "dev/shm", "run/lock", "run/sshd"):
        os.makedirs(folder)
    mount("devpts", "dev/pts", "devpts", "newinstance,ptmxmode=0666")
    mount("tmpfs", "dev/shm", "tmpfs", "mode=1777")
    for device in filter(lambda device: os.access(f"/dev/{device}", os.W_OK), DEVICES):
        if users:  # one of its own, because it may not open the machine's
            os.mknod(f"dev/{device}", stat.S_IFCHR, os.stat(f"/dev/{device}").st_rdev)
            os.chmod(f"dev/{device}", 0o666)
        else:
            os.close(os.open(f"dev/{device}", os.O_CREAT | os.O_WRONLY, 0o644))
            mount(f"/dev/{device}", f"dev/{device}", None, flags=MS_BIND)
    if os.path.isdir("/lib/modules"):
        os.makedirs("lib/modules", exist_ok=True)
        mount("/lib/modules", "lib/modules", None, flags=MS_BIND)
    for link, target in LINKS.items():
        os.symlink(target, f"dev/{link}")
    if users:
        give(users.first)


def show_parts(root: str) -> None:
    """Where ``root`` is the machine's: show those parts of it in the present folder that are file systems of
    their own. An overlay has none of what is mounted below it."""
    for part in PARTS:
        if root == "/" and os.path.ismount(f"/{part}"):
            above = f"/mnt/{part.replace('/', '-')}"
            for folder in ("", "/upper", "/work"):
                os.mkdir(above + folder)
            mount("overlay", part, "overlay", f"lowerdir=/{part},upperdir={above}/upper,workdir={above}/work")


def start(argv: list[str], streams: list[int], env: Mapping[str, str] = os.environ) -> int:
    """Start a command with these as its standard streams. Returns its process number, or 0 where it does not start,
    whatever its words are: a node outlives them. The reason is then in its standard error."""
    actions = [(os.POSIX_SPAWN_DUP2, end, to) for to, end in enumerate(streams)]
    try:
        return os.posix_spawnp(argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=IGNORED)
    except OSError as error:
        os.write(streams[2], f"{argv[0]}: {error.strerror}\n".encode(errors="backslashreplace"))
    except (ValueError, TypeError, IndexError) as error:  # a zero byte or half a character in a word, or no word
        os.write(streams[2], f"{argv} is no command: {error}\n".encode(errors="backslashreplace"))
    return 0


class Job:
    """A command of a runner on another machine, and its pipes that are still open, descriptor -> "out" or "err"."""

    def __init__(self, number: int, argv: list[str], text: str | None) -> None:
        self.number = number
        # A file, so that a command that does not read cannot block us.
        stdin = os.open("/dev/null", os.O_RDONLY) if text is None else file_of(text)
        out, err = os.pipe(), os.pipe()
        self.pid = start(argv, [stdin, out[1], err[1]])
        for end in (stdin, out[1], err[1]):
            os.close(end)
        self.pipes = {out[0]: "out", err[0]: "err"}
        for end in self.pipes:
            os.set_blocking(end, False)

    def report_end(self, code: int) -> None:
        """Pass on the command's output so far, then its exit code."""
        for end in list(self.pipes):
            drain(self, end)
        say(id=self.number, code=code)


class Task:
    """A command of a runner on this machine, which has the other ends of its streams."""

    def __init__(self, number: int, pid: int, status: int) -> None:
        self.number, self.pid, self.status = number, pid, status

    def report_end(self, code: int) -> None:
        """Tell the runner the exit code."""
        with suppress(BrokenPipeError):  # nobody waits for it
            os.write(self.status, str(code).encode())
        os.close(self.status)


jobs: dict[int, Job | Task] = {}  # by process
reading: dict[int, Job] = {}  # by descriptor
leaving: list[tuple[int, int, float]] = []  # killed groups, who waits for their end, and how long
still_s: list[float] = []  # how long the machine or this process stood still while CLOCK_MONOTONIC went on
poll = select.poll()


def say(**answer: float | str) -> None:
    """Write one line of JSON to the runner, whole."""
    line = json.dumps(answer).encode() + b"\n"
    while line:
        line = line[os.write(1, line) :]


def drain(job: Job, end: int) -> None:
    """Pass on the command's output, until there is no more for now."""
    while True:
        try:
            data = os.read(end, CHUNK)
        except BlockingIOError:
            return
        if not data:
            poll.unregister(end)
            os.close(end)
            del reading[end], job.pipes[end]
            return
        answer: dict[str, float | str] = {"id": job.number, job.pipes[end]: data.decode("latin-1")}
        say(**answer)


def reap() -> None:
    """Collect every child that has ended; also the orphans, which fall to PID 1."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in jobs:  # else an orphan
            jobs.pop(pid).report_end(os.waitstatus_to_exitcode(status))


def kill_all(number: int) -> list[int]:
    """Kill the process group of the job with that number, if it still runs. Returns the group, in a list."""
    groups = [pid for pid, job in jobs.items() if job.number == number]
    for group in groups:
        os.killpg(group, signal.SIGKILL)
    return groups


def tell_guard(kind: str, argv: list[str]) -> None:
    """Tell undo.py's guard what is about to change in the machine's network, and wait until it knows: from now on it
    is taken back, whatever happens to the node."""
    if guard := described.get("guard"):
        os.write(guard[0], json.dumps([kind, argv]).encode() + b"\n")
        os.read(guard[1], 1)


def serve(
    id: int,
    argv: list[str] | None = None,
    input: str | None = None,
    kill: bool = False,
    ping: bool = False,
    defer: list[str] | None = None,
) -> None:
    """Do what one request asks, without waiting for its end. A command that does not start ends with 127."""
    if argv and argv[0] == "sysctl":
        tell_guard("run", argv)
    if argv:
        job = Job(id, argv, input)
        for end in job.pipes:
            reading[end] = job
            poll.register(end, select.POLLIN)
        if job.pid:
            jobs[job.pid] = job
        else:
            job.report_end(127)
    elif kill:
        kill_all(id)
    elif defer:
        tell_guard("defer", defer)
    elif ping:
        say(id=id, code=0, awake_s=time.monotonic() - sum(still_s))


def serve_here(
    ends: list[int],
    id: int,
    argv: list[str] | None = None,
    env: Mapping[str, str] = os.environ,
    kill: bool = False,
    path: str = "",
    mode: int = 0,
) -> None:
    """Do what one request of a runner on this machine asks, without waiting for a command's end."""
    if kill:
        for group in kill_all(id):
            leaving.append((group, os.dup(ends[0]), time.monotonic() + GONE_WITHIN_S))
    else:
        task = Task(id, start(argv, ends[:3], env) if argv else 0, ends.pop())
        if task.pid:
            jobs[task.pid] = task
        else:
            task.report_end(127 if argv else write(ends[0], ends[2], path, mode))
    for end in ends:
        os.close(end)


def write(content: int, complaints: int, path: str, mode: int) -> int:
    """Write a new file with this content, and its folders, as install(1) would. Returns the exit code."""
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        if os.path.lexists(path):
            os.unlink(path)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            while data := os.read(content, PACKET):
                while data:
                    data = data[os.write(file, data) :]
            os.fchmod(file, mode)
        finally:
            os.close(file)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", error)
        os.write(complaints, f"cannot write {path}: {why}\n".encode(errors="backslashreplace"))
        return 1
    return 0


def look_after_the_killed() -> None:
    """Answer those who wait for the end of killed groups that have no process any more, not even one that is not
    reaped."""
    for entry in list(leaving):
        group, waits, until = entry
        try:
            if time.monotonic() < until:
                os.killpg(group, 0)
                continue
        except ProcessLookupError:
            pass
        leaving.remove(entry)
        os.close(waits)


def serve_all(here: bool, silence_s: int) -> None:
    """Serve until standard input ends or is silent. Never returns."""
    # A pipe that is full stops us in write(), and still the silence must end us.
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.alarm(silence_s)
    awake, wake = os.pipe()
    for end in (awake, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for source in (0, awake):
        poll.register(source, select.POLLIN)
    hear = packets() if here else lines(silence_s)
    while True:
        for source, _ in poll.poll(2 if leaving else None) if here else looking():
            if source == awake:
                os.read(awake, CHUNK)
                reap()
            elif source == 0:
                next(hear)
            elif source in reading:
                drain(reading[source], source)
        look_after_the_killed()


def looking() -> list[tuple[int, int]]:
    """What can be read, after LOOK_MS at the latest. Where that took longer, the machine stood still, or this process;
    what a suspended machine's CLOCK_MONOTONIC leaves out needs no look (clock_gettime(2))."""
    began = time.monotonic()
    ready = poll.poll(LOOK_MS)
    late_s = time.monotonic() - began - LOOK_MS / 1000
    if late_s > STILL_S:
        still_s.append(late_s)
    return ready


def packets() -> Iterator[None]:
    """At each step, do what the next packet asks."""
    line = socket.socket(fileno=0)
    while True:
        packet, ends, _, _ = socket.recv_fds(line, PACKET, 4, socket.MSG_CMSG_CLOEXEC)
        if not packet:
            os._exit(0)
        serve_here(ends, **json.loads(packet))
        yield


def lines(silence_s: int) -> Iterator[None]:
    """At each step, do what the lines that have arrived ask."""
    waiting = b""
    while True:
        if not (data := os.read(0, CHUNK)):
            os._exit(0)
        signal.alarm(silence_s)
        *requests, waiting = (waiting + data).split(b"\n")
        for request in filter(None, requests):
            serve(**json.loads(request))
        yield


os.umask(0o022)  # of all that is made here: who calls may have another
try:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the memory of what runs here has keys
except (OSError, ValueError) as refused:
    sys.exit(f"setrlimit: {refused}")
described = json.loads(sys.argv[1])
try:
    if "group" in described:
        hold(described)
    sys.exit(keep(described, described["ports"], described["silence_s"]))
except OSError as error:
    sys.exit(str(error))
