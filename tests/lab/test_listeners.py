"""Nothing that vpneval starts can be reached from a network: in the network of this machine, and of another one, it
listens on the loopback interface alone; what else listens is in a lab's own networks. Between two sites the VPN that is
measured listens on its gateway's own network, at its ports, and the path's probe, which answers only who asks for us
(tests/unit/lab/test_path_key.py)."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from shutil import which

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CannotRunHere
from runner.farm.dask import connect_farm
from runner.lab import kernels
from runner.lab.node import wait_until
from runner.lab.places.conflicts import PORTS
from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL
from tests.lab.conftest import descendants
from tests.lab.machines import Machines, machines
from tests.lab.sites import TwoSites
from tests.lab.test_ssh_lab import command_line

TCP = ("--set", "measure=tcp,streams=1,direction=forward", "--profile", "smallest", "--reps", "1")
KINDS = {
    "a run on a farm of two": ("run", "transport", "--vpn", "openvpn", *TCP, "--farm", "local:2"),
    "a run": ("run", "transport", "--vpn", "openvpn", *TCP),
}
BETWEEN_SITES = ("openvpn", "wireguard_go", "ipsec_user", "ssh_tun", "tinc", "nebula", "fastd")
EXAMPLE = Path(__file__).parents[2] / "results" / "choice" / "two-cores"


WAITS = {"tcp": "0A", "udp": "07"}  # for others: TCP_LISTEN, TCP_CLOSE (include/net/tcp_states.h)


@dataclass(frozen=True)
class Listener:
    """A socket that waits for others: ``network`` is the inode of its namespace."""

    network: int
    address: str
    port: str  # as "udp/1194"
    program: str


def network_of(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/net").st_ino


def listeners(pids: Set[int]) -> set[Listener]:
    """What these processes listen on, each in its own network namespace, by proc(5). Without another program, which
    would take too long for what listens for a second only."""
    found = set[Listener]()
    for pid in pids:
        with suppress(OSError):  # it has ended
            own, network, at = sockets(pid), network_of(pid), Path(f"/proc/{pid}")
            for kind in ("tcp", "tcp6", "udp", "udp6"):
                for line in (at / "net" / kind).read_text().splitlines()[1:]:
                    _, local, _, state, *_, inode = line.split()[:10]
                    if inode in own and state == WAITS[kind[:3]]:
                        address, port = local.split(":")
                        port = f"{kind[:3]}/{int(port, 16)}"
                        found.add(Listener(network, readable(address), port, (at / "comm").read_text().strip()))
    return found


def sockets(pid: int) -> set[str]:
    """The inodes of a process' sockets."""
    links = set[str]()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # it is closed
            links.add(os.readlink(each))
    return {link.removeprefix("socket:[").rstrip("]") for link in links if link.startswith("socket:")}


def readable(address: str) -> str:
    """An address of /proc/net, which has the words of four bytes as this machine keeps them."""
    words = [int(address[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(address), 8)]
    return str(ip_address(b"".join(words)))


def open_to_others(found: Set[Listener]) -> list[Listener]:
    """Those in this machine's network that are not on the loopback interface."""
    here = network_of(os.getpid())
    return [one for one in found if one.network == here and not loopback(one.address)]


def loopback(address: str) -> bool:
    return ip_address(address).is_loopback


@pytest.mark.parametrize("kind", ["a run on a farm of two", pytest.param("a run", marks=pytest.mark.smoke)])
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


@pytest.mark.smoke
def test_a_farm_of_this_machine_listens_on_the_loopback_interface_alone(image: Image) -> None:
    with connect_farm("local:2") as workers:
        wait_until(lambda: len(workers.addresses()) == 2, "the workers come", 60)
        found = listeners({os.getpid(), *descendants(os.getpid())})
    assert len(found) > 3, "a scheduler, its dashboard and two workers listen"
    assert not open_to_others(found)


def watched(argv: Sequence[str], folder: Path, pids: Callable[[int], Set[int]]) -> set[Listener]:
    """All that listens, of the processes ``pids(its own PID)``, while this command runs to its end."""
    found = set[Listener]()
    with (folder / "said").open("w") as said:
        run = subprocess.Popen(argv, stdout=said, stderr=said)
        while run.poll() is None:
            found |= listeners(pids(run.pid))
            time.sleep(0.05)
    assert run.returncode == 0, (folder / "said").read_text()[-3000:]
    return found


def beside(boxes: Machines) -> Callable[[int], set[int]]:
    """What a command, by its PID, has started here and on these machines since now, in the networks of all of them."""
    had = {pid for node in boxes.nodes.values() for pid in {node.pid, *descendants(node.pid)}}
    own = {network_of(pid) for pid in (os.getpid(), *(node.pid for node in boxes.nodes.values()))}

    def is_there(pid: int) -> bool:
        with suppress(OSError):
            return network_of(pid) in own
        return False

    def started(command: int) -> set[int]:
        there = {pid for node in boxes.nodes.values() for pid in descendants(node.pid)} - had
        return set(filter(is_there, there | {command, *descendants(command)}))

    return started


@pytest.mark.timeout(300)
@pytest.mark.parametrize("vpn", BETWEEN_SITES)
def test_between_two_sites_only_the_vpn_listens(boxes: TwoSites, tmp_path: Path, vpn: str) -> None:
    """On the gateways' own networks, and at the ports that it declares."""
    argv = [*VPNEVAL, "run", "transport", "--vpn", vpn, *TCP, "--lab", f"site:{boxes.sites()}", "--quiet"]
    found = watched([*argv, "--out", str(tmp_path / "run")], tmp_path, beside(boxes))
    there = {one for one in found if not loopback(one.address)}
    assert not open_to_others(found)
    ports = load_vpn(vpn).ports.split()
    assert {one.port for one in there} & {*ports}, "the VPN was not seen"
    ours = {one for one in there if one.port not in ports and one.program.startswith("python3")}
    assert {one.port for one in ours} <= {*PORTS}, "the probe of the path, which has a key"
    assert not [one for one in there - ours if one.port not in ports]


@pytest.mark.timeout(300)
def test_what_looks_at_a_path_is_the_probe_that_has_a_key(boxes: TwoSites, tmp_path: Path) -> None:
    argv = [*VPNEVAL, "doctor", "--lab", f"site:{boxes.sites()}", "--vpn", "openvpn"]
    found = watched(argv, tmp_path, beside(boxes))
    assert {one.port for one in found} == {*PORTS}
    assert {one.network for one in found} == {network_of(boxes.nodes["gw2"].pid)}


@pytest.mark.timeout(300)
def test_on_five_machines_nothing_listens_in_their_own_networks(image: Image, tmp_path: Path) -> None:
    with machines(image, tmp_path) as testbed:
        argv = [
            *VPNEVAL,
            "run",
            "transport",
            "--vpn",
            "openvpn",
            *TCP,
            "--lab",
            f"ssh:{testbed.inventory()}",
            "--quiet",
        ]
        assert not watched([*argv, "--out", str(tmp_path / "run")], tmp_path, beside(testbed))


@pytest.mark.kernel
@pytest.mark.timeout(600)
def test_a_guest_has_no_network_and_nothing_of_it_listens_here(image: Image, tmp_path: Path) -> None:
    guest = kernels.Uml()
    try:
        guest.prepare(print)
    except CannotRunHere as lack:
        pytest.skip(str(lack))
    seen = set[int]()

    def started(command: int) -> set[int]:
        seen.update(pid for pid in descendants(command) if b"linux.uml" in command_line(pid))
        return {command, *descendants(command)}

    argv = [*VPNEVAL, "run", "transport", "--vpn", "openvpn", *TCP, "--kernel", "uml", "--quiet"]
    assert not watched([*argv, "--out", str(tmp_path / "run")], tmp_path, started)
    assert seen, "the guest was not seen"
    # A network card, and not a device that the kernel makes by itself, has a device(7) below it.
    cards = "import glob, os; print(sorted(os.listdir('/sys/class/net')), glob.glob('/sys/class/net/*/device'))"
    inside = f"""
import sys
from runner.lab import kernels
from runner.lab.kernels.boot import run_in
sys.exit(run_in(kernels.Uml(), [sys.executable, "-c", {cards!r}]))
"""
    done = subprocess.run([sys.executable, "-c", inside], capture_output=True, text=True, timeout=200, check=True)
    assert "'lo'" in done.stdout
    assert done.stdout.rstrip().endswith(" []")


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
def test_who_listens_is_seen() -> None:
    """The control: a socket of a child that others reach is found, and one on the loopback interface is none of them.
    The network is a namespace of the children's parent, so that nobody can reach it."""
    server = "import socket, sys, time; s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 "
    server += "if ':' in sys.argv[1] else socket.AF_INET); print(1, flush=True); time.sleep(60)"
    program = f"""
import os, subprocess, sys
from tests.lab.test_listeners import listeners, open_to_others
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
for address in ("0.0.0.0", "::", "127.0.0.1", "::1"):
    child = subprocess.Popen([sys.executable, "-c", {server!r}, address], stdout=subprocess.PIPE)
    child.stdout.readline()
    print(*[one.address for one in open_to_others(listeners({{os.getpid(), child.pid}}))])
    child.kill()
    child.wait()
"""
    argv = ["unshare", "--net", sys.executable, "-c", program]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, cwd=Path(__file__).parents[2])
    assert done.stdout.splitlines() == ["0.0.0.0", "::", "", ""], done.stderr
