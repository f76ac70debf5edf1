"""Two gateways without vpneval on them, set up by what ``vpneval recipe`` prints or writes: the hands of a reader.

The WAN and the addresses are those of the lab, which are the examples of the page, so that nothing is to be replaced.
Each gateway has a default route to the other one: what is not tunnelled leaves in the clear, and is counted on the WAN.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runner.lab.node import ENVIRONMENT, LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from tests.lab.commands import vpneval

# Packets on the WAN to an address of a host: bare ones, whatever a NAT has made of their source.
BARE = """table bridge bare {
    chain forward {
        type filter hook forward priority 0; policy accept;
        ip daddr 10.2.0.2 counter
        ip protocol gre counter
    }
}
"""
TAKE = "import socket; s = socket.create_server(('', 7777)).accept()[0]; n = 0\n"
TAKE += "while more := s.recv(65536): n += len(more)\nprint(n)"
GIVE = "import socket, sys; s = socket.create_connection((sys.argv[1], 7777), 10); s.settimeout(None)\n"
GIVE += "s.sendall(bytes(3000000)); s.close()"
SYSTEMCTL = Path(__file__).with_name("systemctl")
PASTED = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LOOKS = (
    *("ip -o -4 addr", "ip -4 route show table all", "ip rule", "ip xfrm policy", "nft list tables"),
    *("sysctl net.ipv4.ip_forward", "ps -eo state=,comm="),
    "find /etc /var/lib /usr/local -xdev -type f -printf %p:%m:%s\\n -o -type d -printf %p\\n",
)
# What a tunnel's script runs once a second, and what has ended, where nobody asks how.
PASSING = re.compile(r"(?:\w (?:sleep|ip|grep|cut|head|cat|sed|sort|paste)|Z .*)$|.*\b(?:fe80:|ff00:)")


@contextmanager
def two_gateways(image: Image, logs: Path, gateways: Image | None = None) -> Iterator[Lab]:
    """The lab, without a tunnel. The gateways do not forward yet."""
    with namespace_lab(image, gateways, logs=logs) as lab:
        for mine, other in (("gw1", "192.168.0.2"), ("gw2", "192.168.0.1")):
            with_systemctl(lab.nodes[mine])
            lab.nodes[mine].run("ip", "route", "add", "default", "via", other)
            lab.nodes[mine].run("sysctl", "-qw", "net.ipv4.ip_forward=0")
        lab.wan.run("nft", "-f", "-", input=BARE)
        yield lab


def with_systemctl(node: LabNode) -> None:
    """Give a gateway without systemd what its scripts ask of systemctl(1)."""
    node.write("/usr/local/sbin/systemctl", SYSTEMCTL.read_text(), 0o755)


def write_and_run(lab: Lab, name: str, folder: Path, *options: str, directory: str = "tunnel", args: str = "") -> None:
    """``recipe --write``, the directories copied, and up.sh as a script, with these arguments."""
    written(name, folder, *options)
    for gateway in ("gw2", "gw1"):
        node = lab.nodes[gateway]
        copied(folder / "out", node, directory)
        up(node, directory, args)


def written(name: str, folder: Path, *options: str) -> None:
    """``recipe --write``."""
    wrote = vpneval("recipe", name, "--write", folder / "out", *options)
    assert wrote.returncode == 0, wrote.stderr


def copied(out: Path, node: LabNode, directory: str = "tunnel", site: str = "") -> None:
    """Copy the directory of this gateway to it, under another name."""
    (source,) = out.glob(f"*-{site or node.name}")
    shutil.copytree(source, f"/proc/{node.pid}/root/root/{directory}")


def up(node: LabNode, directory: str = "tunnel", args: str = "") -> str:
    """Run up.sh, and return what it says. What it starts must not keep the descriptors of a node's command."""
    with_systemctl(node)
    closing = f'for fd in 3 4 5 6 7 8 9; do eval "exec $fd>&-"; done; exec /root/{directory}/up.sh {args}'
    return node.run("bash", "-c", closing, timeout=200).stdout


def print_and_paste(lab: Lab, name: str, *options: str) -> None:
    """``recipe``, and each of its blocks pasted into an interactive shell, in the order in which they stand."""
    shown = vpneval("recipe", name, *options)
    assert shown.returncode == 0, shown.stderr
    assert "\t" not in shown.stdout, "a shell that completes words would take a tab for a question"
    common = ""
    for heading, text in re.findall(r"^## (.*)\n((?:(?!^## ).*\n)*)", shown.stdout, re.MULTILINE):
        block = (PASTED.findall(text) or [""])[0]
        if heading == "Keys":
            paste(lab.host2, block)
            for keys, number in re.findall(r"^    scp (.*) root@192.168.0.(\d)", text, re.MULTILINE):
                for key in keys.split():
                    lab.nodes[f"gw{number}"].write(f"/root/{key}", lab.host2.run("cat", f"/root/{key}").stdout)
        elif heading == "Every gateway":
            common = block
        elif heading.startswith("Gateway "):
            node = lab.nodes[heading.removeprefix("Gateway ")]
            paste(node, common)
            paste(node, block)
            node.run("sh", "-c", "ln -s /root/*-??????/ /root/tunnel")
    assert common


def paste(node: LabNode, text: str) -> str:
    """Type ``text`` into an interactive bash of root on ``node``; what the terminal showed. It must end well, and with
    the same shell still there."""
    ours, theirs = pty.openpty()

    def on_terminal() -> None:
        os.setsid()
        fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)

    shell = subprocess.Popen(
        node.argv("sh", "-c", "cd /root && exec bash --norc -i"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        preexec_fn=on_terminal,
        env={**ENVIRONMENT, "TERM": "xterm"},
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    waiting = select.poll()
    left, seen, end = f"{text}\necho code=$?=\n".encode(), b"", time.monotonic() + 240
    try:
        while not (code := re.search(rb"code=(\d+)=", seen)):
            assert time.monotonic() < end, f"the shell hangs: {seen[-2000:].decode(errors='replace')}"
            waiting.register(ours, select.POLLIN | (select.POLLOUT if left else 0))
            events = sum(event for _, event in waiting.poll(1000))
            if events & select.POLLIN:
                seen += os.read(ours, 65536)
            if events & select.POLLOUT:
                left = left[os.write(ours, left[:1024]) :]
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)
    assert code[1] == b"0", seen[-3000:].decode(errors="replace")
    return seen.decode(errors="replace")


def state(node: LabNode) -> list[str]:
    """What a tunnel could have changed on a gateway; what comes and goes by itself is left out."""
    lines = [line for look in LOOKS for line in sorted(node.run(*look.split()).stdout.splitlines())]
    return [re.sub("^[DRS] ", "", line) for line in lines if not PASSING.match(line)]


def is_up(node: LabNode, directory: str = "tunnel") -> bool:
    """What the reader's check says."""
    return node.run(f"/root/{directory}/check.sh", check=False, timeout=60).code == 0


def answers(lab: Lab) -> bool:
    """Does the far host answer to the near one?"""
    return lab.host1.run("ping", "-c1", "-W1", "10.2.0.2", check=False).code == 0


def carries(lab: Lab, *, both: bool = True, entry: str = "", port: int = 7777) -> None:
    """TCP between the hosts, each way."""
    ways = [(lab.host1, lab.host2, entry or "10.2.0.2"), (lab.host2, lab.host1, "10.1.0.2")]
    for near, far, to in ways if both else ways[:1]:
        taking = far.spawn("python3", "-c", TAKE.replace("7777", str(port)), log="take")
        wait_until(lambda far=far: f":{port} " in far.run("ss", "-Hltn").stdout, "somebody who takes", 10)  # type: ignore[misc]
        near.run("python3", "-c", GIVE.replace("7777", str(port)), to, timeout=60)
        wait_until(lambda far=far: "3000000" in far.read_log("take"), f"all of it: {far.read_log('take')}", 30)  # type: ignore[misc]
        taking.stop()


def bare_packets(lab: Lab) -> int:
    """How many packets of the hosts the WAN has seen in the clear, those in a bare GRE among them."""
    shown = lab.wan.run("nft", "list", "table", "bridge", "bare").stdout
    return sum(map(int, re.findall(r"counter packets (\d+)", shown)))


def name_of(node: LabNode, directory: str = "tunnel") -> str:
    """The name of the tunnel whose directory was copied to a gateway."""
    return node.run("ls", f"/root/{directory}/files/etc/vpneval").stdout.strip()


def closing(node: LabNode, directory: str = "tunnel") -> str:
    """The nftables table that closes the way past that tunnel."""
    return f"vpneval_closed_{name_of(node, directory)}"


def script(node: LabNode) -> str:
    """PID of the first tunnel's script on a gateway without systemd; empty between two starts."""
    return (node.run("pgrep", "-f", "^/bin/bash /etc/vpneval/[^/]*/tunnel", check=False).stdout.split() or [""])[0]


def daemons(node: LabNode) -> set[str]:
    """PIDs of the tunnel's daemons on a gateway without systemd: the children of its script that stay."""
    started = script(node)

    def children() -> set[str]:
        return set(node.run("ps", "-o", "pid=", "--ppid", started).stdout.split())

    staying = children()
    for _ in range(3):
        time.sleep(0.4)  # what the script runs once a second has ended by then
        staying &= children()
    return staying
