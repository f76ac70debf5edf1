"""A recipe's tunnel is there again after both gateways were rebooted, one VPN of each family; a part of the story:

    python -m tests.vagrant.reboots RESULTS_DIR

    host1 eth1 ── eth1 gw1 eth2 ── eth1 wan eth2 ── eth2 gw2 eth1 ── eth1 host2      the WAN is a bridge

Prints "phase reboot-NAME SECONDS EXIT_CODE" for each VPN, as story.sh does; reboot-NAME.out has what was seen.
"""

from __future__ import annotations

import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path

from runner.lab.node import wait_until
from tests.lab.commands import VPNEVAL

# IPsec, WireGuard, OpenVPN, SSH, TLS, a mesh, Ethernet.
NAMES = ("ipsec", "wireguard", "openvpn", "ssh_tun", "openconnect", "tinc", "macsec")
ADDRESSES = {"gw1": ("10.1.0.1", "192.168.0.1"), "gw2": ("10.2.0.1", "192.168.0.2")}  # of eth1 and eth2
HOSTS = {"host1": ("10.1.0.2", "10.1.0.1"), "host2": ("10.2.0.2", "10.2.0.1")}  # address, gateway
COMMAND_WITHIN_S = 300.0
BOOTS_WITHIN_S = 900.0  # in emulation a minute, on a busy machine some


class Machine:
    """A virtual machine, reached by ssh, anew for each command: it is rebooted."""

    def __init__(self, name: str, config: Path) -> None:
        self.name, self.config = name, config

    def run(self, command: str, input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a line of shell there as root."""
        options = ("ConnectTimeout=20", "BatchMode=yes", "ServerAliveInterval=10")
        argv = ["ssh", "-F", str(self.config), *(word for option in options for word in ("-o", option))]
        argv += [self.name, command]
        return subprocess.run(argv, input=input, capture_output=True, timeout=COMMAND_WITHIN_S, check=False)

    def must(self, command: str, input: bytes = b"") -> str:
        """The same, and its output. Raises AssertionError where the command fails."""
        done = self.run(command, input)
        shown = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == 0, f"{self.name}: {command}: {shown}"
        return shown

    def boot(self) -> str:
        """What the kernel calls this boot; empty while the machine does not answer."""
        return self.run("cat /proc/sys/kernel/random/boot_id").stdout.decode().strip()

    def reboot(self) -> None:
        """Reboot, and wait until the machine answers again."""
        before = self.boot()
        assert before
        self.run("systemctl reboot")
        wait_until(lambda: self.boot() not in ("", before), f"the next boot of {self.name}", BOOTS_WITHIN_S, 2)

    def checks(self) -> bool:
        """Says check.sh that the tunnel is up?"""
        done = self.run("tunnel/check.sh")
        print(self.name, (done.stdout + done.stderr).decode(errors="replace"), end="", flush=True)
        return done.returncode == 0


def side_by_side(machines: list[Machine], act: Callable[[Machine], object]) -> None:
    """Do something on each of the machines at the same time."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(act, machines))


def connect(machines: dict[str, Machine]) -> None:
    """Give the gateways addresses that a reboot leaves, the hosts theirs, and let the WAN bridge."""
    wan = "ip link add wan type bridge; for d in eth1 eth2; do ip link set $d up master wan; done; ip link set wan up"
    machines["wan"].must(wan)
    for name, (address, gateway) in HOSTS.items():
        machines[name].must(
            f"ip addr add {address}/24 dev eth1; ip link set eth1 up; ip route add 10.0.0.0/8 via {gateway}"
        )
    for name, addresses in ADDRESSES.items():
        for port, address in zip(("eth1", "eth2"), addresses, strict=True):
            text = f"[Match]\nName={port}\n[Network]\nAddress={address}/24\nLinkLocalAddressing=no\n"
            machines[name].must(f"cat > /etc/systemd/network/20-{port}.network", text.encode())
    gateways = [machines[name] for name in ADDRESSES]
    side_by_side(gateways, Machine.reboot)
    wait_until(lambda: gateways[0].run("ping -c1 -W5 192.168.0.2").returncode == 0, "gw2's answer", COMMAND_WITHIN_S, 1)


def disconnect(machines: dict[str, Machine]) -> None:
    """Take back what ``connect`` did."""
    machines["wan"].must("ip link del wan; for d in eth1 eth2; do ip link set $d down; done")
    for name in HOSTS:
        machines[name].must("ip addr flush dev eth1; ip link set eth1 down")
    for name in ADDRESSES:
        machines[name].must("rm /etc/systemd/network/20-eth[12].network && systemctl restart systemd-networkd")
        machines[name].must("for d in eth1 eth2; do ip addr flush dev $d; ip link set $d down; done")


def is_back_after_a_reboot(name: str, machines: dict[str, Machine], folder: Path) -> None:
    """Set the tunnel up by the files that ``recipe --write`` makes, reboot both gateways, look, take it down."""
    gateways = [machines[gateway] for gateway in ADDRESSES]

    def reaches() -> bool:
        return machines["host1"].run("ping -c1 -W5 10.2.0.2").returncode == 0

    def works() -> None:
        for machine in gateways:
            wait_until(machine.checks, f"check.sh of {machine.name}", COMMAND_WITHIN_S, 1)
        wait_until(reaches, "the far host's answer", 60, 1)

    def install(machine: Machine) -> None:
        (directory,) = folder.glob(f"*-{machine.name}")
        files = subprocess.run(["tar", "cC", directory, "."], capture_output=True, check=True).stdout
        machine.must("mkdir -p tunnel && tar xC tunnel", files)
        print(machine.name, machine.must("tunnel/up.sh"))

    subprocess.run([*VPNEVAL, "recipe", name, "--write", folder], check=True, timeout=COMMAND_WITHIN_S)
    assert not reaches(), "the control: without a tunnel the far host does not answer"
    side_by_side(gateways, install)
    works()
    side_by_side(gateways, Machine.reboot)
    print("both have booted anew", flush=True)
    works()
    side_by_side(gateways, lambda machine: machine.must("tunnel/down.sh && rm -r tunnel"))
    assert not reaches()


def main(results: Path) -> None:
    """Every VPN, whatever the one before did."""
    config = results / "ssh-config-of-reboots"
    config.write_bytes(subprocess.run(["vagrant", "ssh-config"], capture_output=True, check=True, timeout=300).stdout)
    machines = {name: Machine(name, config) for name in (*HOSTS, *ADDRESSES, "wan")}
    connect(machines)
    for name in NAMES:
        started, code = time.monotonic(), 0
        with (results / f"reboot-{name}.out").open("w") as out, redirect_stdout(out):
            try:
                is_back_after_a_reboot(name, machines, results / f"recipe-{name}")
            except Exception:
                code = 1
                traceback.print_exc(file=out)
        print("phase", f"reboot-{name}", round(time.monotonic() - started), code, flush=True)
    disconnect(machines)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
