"""Nothing that vpneval starts can be reached from a network: in the network of this machine it listens on the loopback
interface alone; what else listens is in a lab's own networks."""

import os
import subprocess
import sys
import time
from collections.abc import Set
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from shutil import which

import pytest

from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL
from tests.lab.conftest import descendants

TCP = ("--vpn", "openvpn", "--set", "measure=tcp,streams=1,direction=forward", "--profile", "smallest", "--reps", "1")
KINDS = {
    "a run on a farm of two": ("run", "transport", *TCP, "--farm", "local:2"),
    "a run": ("run", "transport", *TCP),
}
EXAMPLE = Path(__file__).parents[2] / "results" / "choice" / "two-cores"


@dataclass(frozen=True)
class Listener:
    """A socket that waits for others: ``network`` is the inode of its namespace."""

    network: int
    address: str
    users: str


def network_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def listeners(pids: Set[int]) -> set[Listener]:
    """What listens in the network namespaces of these processes and of this one, and belongs to one of them."""
    found, seen = set(), set()
    for pid in pids:
        try:
            network = network_of(pid)
            if network in seen:
                continue
            seen.add(network)
            argv = ["nsenter", f"--net=/proc/{pid}/ns/net", "ss", "-Hltunp"]
            shown = subprocess.run(argv, capture_output=True, text=True, timeout=20).stdout
        except OSError:  # it has ended
            continue
        for line in shown.splitlines():
            words = line.split(None, 6)
            users = words[6] if len(words) > 6 else ""
            if any(f"pid={one}," in users for one in pids):
                found.add(Listener(network, words[4].rpartition(":")[0].partition("%")[0].strip("[]"), users))
    return found


def open_to_others(found: Set[Listener]) -> list[Listener]:
    """Those in this machine's network that are not on the loopback interface."""
    here = network_of(os.getpid())
    return [one for one in found if one.network == here and (one.address == "*" or not loopback(one.address))]


def loopback(address: str) -> bool:
    return ip_address(address).is_loopback


@pytest.mark.parametrize("kind", [pytest.param("a run on a farm of two", marks=pytest.mark.smoke), "a run"])
def test_nothing_listens_beyond_loopback(kind: str, image: Image, tmp_path: Path) -> None:
    found = set[Listener]()
    environment = {**os.environ, "VPNEVAL_SPOOL": str(tmp_path / "spool")}
    argv = [*VPNEVAL, *KINDS[kind], "--quiet", "--out", str(tmp_path / "run")]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(argv, stdout=said, stderr=said, env=environment)
        while run.poll() is None:
            found |= listeners({run.pid, *descendants(run.pid)})
            time.sleep(0.05)
    assert run.returncode == 0, (tmp_path / "said").read_text()[-3000:]
    here = {one for one in found if one.network == network_of(os.getpid())}
    assert not open_to_others(found)
    assert {one.network for one in found} - {network_of(os.getpid())}, "what listens in the labs was not seen"
    if "--farm" in KINDS[kind]:
        assert len(here) > 3, "a scheduler, its dashboard and two workers listen"
    else:
        assert not here


@pytest.mark.skipif(not which("chromium"), reason="a PDF needs Chromium")
def test_no_browser_that_makes_a_pdf_listens() -> None:
    found, began = set[Listener](), set[int]()
    argv = [*VPNEVAL, "report", str(EXAMPLE), "--format", "pdf"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as report:
        while report.poll() is None:
            began |= descendants(report.pid)
            found |= listeners({report.pid, *descendants(report.pid)})
            time.sleep(0.05)
    assert report.returncode == 0
    assert began, "the browser was not seen"
    assert not open_to_others(found)


@pytest.mark.smoke
@pytest.mark.parametrize("address", ["0.0.0.0", "::", "127.0.0.1", "::1"])
def test_who_listens_is_seen(address: str) -> None:
    """The control: a socket of a child that others reach is found, and one on the loopback interface is none of them.
    The network is a namespace of the child's parent, so that nobody can reach it."""
    server = "import socket, sys, time; s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 "
    server += "if ':' in sys.argv[1] else socket.AF_INET); print(1, flush=True); time.sleep(60)"
    program = f"""
import os, subprocess, sys
from tests.lab.test_listeners import listeners, open_to_others
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
child = subprocess.Popen([sys.executable, "-c", {server!r}, {address!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(len(open_to_others(listeners({{os.getpid(), child.pid}}))))
child.kill()
"""
    argv = ["unshare", "--net", sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.stdout.strip() == str(int(not loopback(address))), done.stderr
