"""Runs inside a guest kernel: makes it ready, runs one command there, and carries its output and exit code out.

Started by the guest's kernel (User Mode Linux, as PID 1) or by virtme-init (QEMU), with the Python of vpneval's own
environment and nothing else: standard library only. It talks over one channel, in frames of one kind byte, a length
(32 bits, big-endian) and a payload:

    to the host     H ready   O standard output   E standard error   X exit code (everything is on the disk then)
    from the host   S what to run (JSON, once)    K a signal's number    W window size "rows columns"
"""

from __future__ import annotations

import ctypes
import fcntl
import glob
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import tty
from typing import Any

HEADER = struct.Struct(">cI")
POWER_OFF = 0x4321FEDC  # reboot(2), LINUX_REBOOT_CMD_POWER_OFF
CHUNK = 65536
MOST_FRAME = 1 << 20  # bytes; the longest is what to run
FILES = "vpneval.files"  # QEMU: the tag of the machine's files


class Channel:
    """Frames over a file descriptor: a terminal line in raw mode, a virtio port, or a socket."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._held = bytearray()

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        """Write one frame, however long the other side takes to read it."""
        data = HEADER.pack(kind, len(payload)) + payload
        while data:
            data = data[os.write(self.fd, data) :]

    def read_frames(self) -> list[tuple[bytes, bytes]]:
        """The whole frames of what has arrived now. Raises EOFError when the other side has gone, ValueError
        where it says what is no frame."""
        data = os.read(self.fd, CHUNK)
        if not data:
            raise EOFError
        self._held += data
        frames = []
        while len(self._held) >= HEADER.size:
            kind, length = HEADER.unpack_from(self._held)
            if length > MOST_FRAME:
                raise ValueError(f"it announces a frame of {length} bytes")
            if len(self._held) < HEADER.size + length:
                break
            frames.append((kind, bytes(self._held[HEADER.size : HEADER.size + length])))
            del self._held[: HEADER.size + length]
        return frames

    def next(self) -> tuple[bytes, bytes]:
        """Wait for the first frame. Nothing may follow it before it is answered."""
        while not (frames := self.read_frames()):
            pass
        return frames[0]


def mount(kind: str, where: str, options: str = "") -> None:
    """Mount a file system of this ``kind`` (mount(8)) on a folder that is made. Raises CalledProcessError."""
    os.makedirs(where, exist_ok=True)
    # By mount(2): what mount(8) of Debian 13 uses instead does not take a path as hostfs's option.
    environment = {**os.environ, "LIBMOUNT_FORCE_MOUNT2": "always"}
    argv = ["mount", "-t", kind, *(["-o", options] if options else []), kind, where]
    subprocess.run(argv, check=True, env=environment)


def first_steps() -> None:
    """What an init does: the file systems of a Linux machine (UML; under QEMU virtme-init has done it)."""
    mount("proc", "/proc")
    mount("sysfs", "/sys")
    if not os.path.ismount("/dev"):  # CONFIG_DEVTMPFS_MOUNT does it before init starts
        mount("devtmpfs", "/dev")
    mount("devpts", "/dev/pts")
    mount("tmpfs", "/dev/shm")
    mount("tmpfs", "/run")
    with open("/proc/filesystems") as known:
        if "cgroup2" in known.read().split():  # where the CPU time of a node is counted
            mount("cgroup2", "/sys/fs/cgroup")


def open_channel(kind: str) -> Channel:
    """The channel to the host: UML's terminal in raw mode where ``kind`` is "uml", else the virtio port (QEMU), awaited
    for 10 s. Raises OSError where there is none, CalledProcessError where its modules do not load."""
    if kind == "uml":
        fd = os.open("/dev/tty1", os.O_RDWR | os.O_NOCTTY)
        tty.setraw(fd)
        return Channel(fd)
    subprocess.run(["modprobe", "-a", "virtio_pci", "virtio_console"], check=True)
    for _ in range(500):
        for name in glob.glob("/sys/class/virtio-ports/*/name"):
            with open(name) as file:
                if file.read().strip() == "vpneval":
                    return Channel(os.open("/dev/" + name.split("/")[4], os.O_RDWR))
        time.sleep(0.02)
    raise OSError("there is no virtio port named vpneval")


def make_ready(spec: dict[str, Any]) -> None:
    """The rest of the guest: kernel modules, the writable folders, overlayfs, TUN and the loopback interface."""
    if spec["cached"]:
        os.makedirs("/run/files", exist_ok=True)
        options = "ro,trans=virtio,version=9p2000.L,msize=524288,cache=loose"
        subprocess.run(["mount", "-t", "9p", "-o", options, FILES, "/run/files"], check=True)
        for folder in spec["cached"]:
            subprocess.run(["mount", "--bind", f"/run/files{folder}", folder], check=True)
    subprocess.run(["mount", "--bind", str(spec["modules"]), "/lib/modules"], check=True)
    for folder in spec["writable"]:  # all else of the host's files is read-only
        mount("hostfs", folder, folder)
    if not os.path.isdir(spec["cwd"]):  # under one of the fresh /run and /dev/shm
        mount("hostfs", spec["cwd"], f"ro,{spec['cwd']}")
    subprocess.run(["modprobe", "-a", "overlay", "tun", "ppp_generic"], check=False)  # either may be built in
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    os.makedirs("/run/tmp", exist_ok=True)


def set_size(fd: int, size: bytes) -> None:
    """Set the terminal's window size, sent as "rows columns" (TIOCSWINSZ, ioctl_tty(2))."""
    rows, columns = map(int, size.split())
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def output(terminal: bool, size: bytes) -> tuple[int, int]:
    """A pipe, or a terminal of the user's window size that does not change line ends: the ends to read from and write
    to."""
    if not terminal:
        return os.pipe()
    ours, theirs = pty.openpty()
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # the user's own terminal does it
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    set_size(theirs, size)
    return ours, theirs


def forward(channel: Channel, outputs: dict[int, bytes], fds: list[int]) -> None:
    """Send the host what these outputs have; an output at its end is left out from now on."""
    for fd in fds:
        try:
            data = os.read(fd, CHUNK)
        except OSError:  # EIO: the last writer of a terminal has gone
            data = b""
        if data:
            channel.send(outputs[fd], data)
        else:
            del outputs[fd]


def run(channel: Channel, spec: dict[str, Any]) -> int:
    """Run the command to its end and forward its output. Returns its exit code, or 128 + the signal that ended it."""
    size = str(spec["size"]).encode()
    stdout, theirs = output("stdout" in spec["terminals"], size)
    stderr, theirs_too = output("stderr" in spec["terminals"], size)
    wake, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    child = subprocess.Popen(
        spec["argv"],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs_too,
        cwd=spec["cwd"],
        env=spec["environment"],
        start_new_session=True,
    )
    os.close(theirs)
    os.close(theirs_too)
    outputs = {stdout: b"O", stderr: b"E"}
    code = None
    while code is None:
        came = ready([channel.fd, wake, *outputs])
        forward(channel, outputs, [fd for fd in came if fd in outputs])
        if channel.fd in came:
            for kind, payload in channel.read_frames():
                if kind == b"K":
                    os.kill(child.pid, int(payload))
                elif kind == b"W":
                    for fd in outputs:
                        if os.isatty(fd):
                            set_size(fd, payload)
        if wake in came:
            os.read(wake, CHUNK)
            code = reap(child.pid)
    while outputs and (came := ready([*outputs], 0.1)):
        forward(channel, outputs, came)
    return code


def ready(fds: list[int], within_s: float | None = None) -> list[int]:
    """Those of the descriptors that can be read within this time, or are at their end."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(None if within_s is None else 1e3 * within_s)]


def reap(wanted: int) -> int | None:
    """Take the exit codes of all processes that have ended, as PID 1 must. Returns that of ``wanted``, if it is among
    them."""
    code = None
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == wanted:
                code = os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        pass
    return 128 - code if code is not None and code < 0 else code


def main() -> None:
    """Announce the guest, run the one command, tell its exit code, and power off, whatever went wrong."""
    os.environ["PATH"] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    try:
        if sys.argv[1] == "uml":
            first_steps()
        channel = open_channel(sys.argv[1])
        channel.send(b"H")
        _, text = channel.next()
        spec = json.loads(text)
        make_ready(spec)
        code = run(channel, spec)
        os.sync()
        channel.send(b"X", str(code).encode())
        ready([channel.fd], 5)  # the host ends this machine as soon as it has the exit code
    except (OSError, EOFError, ValueError, subprocess.SubprocessError) as error:
        print(f"vpneval in the guest: {error!r}", file=sys.stderr, flush=True)  # the console's log
    finally:
        ctypes.CDLL(None).reboot(POWER_OFF)


if __name__ == "__main__":
    main()
