"""A device with a POSIX shell alone: BusyBox in a root of its own, with sshd or Dropbear, openssl and iperf3, on a
cable to a namespace in which vpneval is the near host."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from runner.lab.node import wait_until
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.software.image import Image

DEVICE, NEAR = "10.77.0.1", "10.77.0.2"
SSHD = "/usr/sbin/sshd"
PROGRAMS = (SSHD, "/usr/lib/openssh/sshd-session", "/usr/lib/openssh/sshd-auth", "/usr/bin/openssl", "/usr/bin/iperf3")
ABSENT = {"busybox", "base64", "nproc", "setpriv", "unshare", "nsenter"}  # applets that OpenWrt's BusyBox has not
CONFIG = """HostKey /etc/ssh/host
AuthorizedKeysFile /root/.ssh/authorized_keys
UsePAM no
StrictModes no
PidFile none
Ciphers +aes128-cbc,aes256-cbc
"""


def device_root(image: Image, folder: Path, programs: Sequence[str] = PROGRAMS) -> Path:
    """A root with BusyBox and these programs of the image, with the libraries that they need; no Python, no bash."""
    busybox = shutil.which("busybox")
    if busybox is None or b"not a dynamic" not in subprocess.run(["ldd", busybox], capture_output=True).stderr:
        pytest.skip("no static busybox: apt-get install busybox-static")
    root = folder / "root"
    for name in ("bin", "etc/ssh", "root/.ssh", "run/sshd", "proc", "sys", "dev", "tmp", "var/empty", "lib"):
        (root / name).mkdir(parents=True)
    shutil.copy2(busybox, root / "bin/busybox")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    for applet in {*applets} - ABSENT:
        (root / "bin" / applet).symlink_to("busybox")
    for program in programs:
        if not (image.root / program[1:]).exists():
            continue  # another sshd's helper
        listed = subprocess.run(["chroot", str(image.root), "ldd", program], capture_output=True, text=True).stdout
        for file in [program, *re.findall(r"(/\S+) \(0x", listed)]:
            target = root / file[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists():
                shutil.copy2((image.root / file[1:]).resolve(), target)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nsshd:x:100:100::/run/sshd:/bin/false\n")
    (root / "etc/group").write_text("root:x:0:\nsshd:x:100:\n")
    (root / "etc/ssh/sshd_config").write_text(CONFIG)
    return root


@dataclass
class Device:
    """The device, the namespace of whoever measures it, and the inventory that names it."""

    node: NamespaceNode
    near: NamespaceNode
    inventory: Path
    path: str

    def vpneval(self, *argv: str, timeout_s: float = 200.0) -> subprocess.CompletedProcess[str]:
        """vpneval at the other end of the device's cable."""
        near = ["nsenter", "--net", "--target", str(self.near.pid), sys.executable, "-m", "runner"]
        env = {**os.environ, "PATH": self.path}
        return subprocess.run([*near, *argv], capture_output=True, text=True, timeout=timeout_s, env=env)

    def measure(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """The experiment ``devices`` on it, once."""
        argv = ["run", "devices", "--lab", f"ssh:{self.inventory}", "--out", str(out), *more]
        return self.vpneval(*argv)


@contextmanager
def device(image: Image, folder: Path, root: Path, *server: str) -> Iterator[Device]:
    """The device with this ``root``, whose ssh ``server`` (a command; default: sshd) listens."""
    node, near = NamespaceNode("device", root), NamespaceNode("near", image.root)
    try:
        for each in (node, near):
            each.wait_ready()
            each.log_to(folder)
        lay = f"link add eth0 netns {near.pid} type veth peer name eth0 netns {node.pid}"
        argv = ["nsenter", "--target", str(near.pid), "--net", "ip", "-batch", "-"]
        subprocess.run(argv, input=lay, text=True, check=True, timeout=30)
        for each, address in ((node, DEVICE), (near, NEAR)):
            each.run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
            each.run("ip", "link", "set", "eth0", "up")
        keys = {name: folder / name for name in ("host", "key")}
        for file in keys.values():
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(file)], check=True, timeout=30)
        node.write("/etc/ssh/host", keys["host"].read_text())
        node.write("/root/.ssh/authorized_keys", Path(f"{keys['key']}.pub").read_text())
        node.run("mkdir", "-p", "/run/sshd")
        known = folder / "known"
        known.write_text(f"{DEVICE} {Path(keys['host'].with_suffix('.pub')).read_text()}")
        node.spawn(*(server or (SSHD, "-D", "-e")), log="sshd")
        wait_until(lambda: ":22 " in node.run("netstat", "-ltn").stdout, "an ssh server listening")
        table = {"address": DEVICE, "user": "root", "identity": str(keys["key"])}
        lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
        inventory = folder / "device.toml"
        inventory.write_text("\n".join(["[device]", *lines, f"options.UserKnownHostsFile = {json.dumps(str(known))}"]))
        programs = folder / "programs"
        programs.mkdir()
        (programs / "iperf3").write_text(f'#!/bin/sh\nexec chroot {image.root} iperf3 "$@"\n')
        (programs / "iperf3").chmod(0o755)
        yield Device(node, near, inventory, f"{programs}:{os.environ['PATH']}")
    finally:
        for each in (node, near):
            each.release()
        for each in (node, near):
            each.stop()
