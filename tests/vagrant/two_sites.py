"""Site mode between two of the virtual machines, the third as the router between them; a part of the story:

    python -m tests.vagrant.two_sites RESULTS_DIR

    gw1 eth2 198.51.100.2 ── 198.51.100.1 eth1 wan eth2 203.0.113.1 ── 203.0.113.2 eth2 gw2

Prints "phase NAME SECONDS EXIT_CODE" after each phase, as story.sh does. NAME.left has what the gateways have then that
they did not have before, and what they have no more.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from runner.lab.node import Completed, wait_until
from runner.lab.places.connection import Connection
from runner.lab.places.gateways import Gateway
from runner.lab.places.private import private_folder
from runner.lab.places.vagrant import lab_file
from tests.lab.commands import VPNEVAL, measuring
from tests.lab.sites import whole_state
from tests.lab.test_site import masters
from tests.vagrant.story import KILLS

VPNS = "ipsec,wireguard,openvpn"
# machine -> port -> its address
PATH = {
    "gw1": {"eth2": "198.51.100.2"},
    "wan": {"eth1": "198.51.100.1", "eth2": "203.0.113.1"},
    "gw2": {"eth2": "203.0.113.2"},
}
ROUTES = {"gw1": "203.0.113.0/24 via 198.51.100.1", "gw2": "198.51.100.0/24 via 203.0.113.1"}
ANSWERS_WITHIN_S = 300.0
MEASURES_WITHIN_S = 900.0
ENDS_WITHIN_S = 1800.0
FIRST_MOMENTS_S = 90.0  # from the first change on: a lab that is looked at, a tunnel, its first traffic
UNDONE_WITHIN_S = 300.0  # 30 s of silence on an emulated processor, and two looks at it
State = Mapping[str, list[str]]


class Machine:
    """A virtual machine that commands are run on, one session of ssh each."""

    def __init__(self, name: str, config: Path, folder: Path) -> None:
        self.name, self.connection = name, Connection(name, Gateway(address=name, config=config), folder)
        self.connection.wait_ready()

    def run(self, *argv: str, check: bool = True) -> Completed:
        """Run a command there as root."""
        done = self.connection.run(*argv, timeout=ANSWERS_WITHIN_S)
        assert not check or done.code == 0, f"{self.name}: {' '.join(argv)}: {done.stderr}"
        return done

    def reaches(self, address: str) -> bool:
        """Does that address answer?"""
        return self.run("ping", "-c1", "-W5", address, check=False).code == 0

    def settled(self) -> bool:
        """Are all its addresses in use?"""
        return "tentative" not in self.run("ip", "addr").stdout


@contextmanager
def connected(config: Path) -> Iterator[dict[str, Machine]]:
    """The machines by name, with a routed path between the gateways; in the end they are as they were found."""
    with private_folder() as folder, ExitStack() as ends:
        machines = {name: Machine(name, config, folder) for name in PATH}
        for name, machine in machines.items():
            ends.callback(machine.connection.close)
            for port, address in PATH[name].items():
                ends.callback(machine.run, "ip", "link", "set", port, "down")
                ends.callback(machine.run, "ip", "addr", "flush", "dev", port)
                machine.run("ip", "addr", "add", f"{address}/24", "dev", port)
                machine.run("ip", "link", "set", port, "up")
            if name in ROUTES:
                machine.run("ip", "route", "add", *ROUTES[name].split())
        machines["wan"].run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        ends.callback(machines["wan"].run, "sysctl", "-qw", "net.ipv4.ip_forward=0")
        for machine in machines.values():
            # Duplicate address detection changes what a look at the machine finds.
            wait_until(machine.settled, f"the addresses of {machine.name}", ANSWERS_WITHIN_S, 1)
        near, far = machines["gw1"], PATH["gw2"]["eth2"]
        wait_until(partial(near.reaches, far), "gw2's answer through the router", ANSWERS_WITHIN_S, 1)
        yield machines


def inventory(folder: Path, config: Path) -> Path:
    """sites.toml for the gateways, as vagrant's ssh reaches them."""
    tables = [f'[{name}]\naddress = "{name}"\nconfig = "{config}"\nwan = "eth2"\n' for name in ROUTES]
    path = folder / "sites.toml"
    path.write_text("\n".join(tables))
    return path


def snapshot(machines: Mapping[str, Machine]) -> State:
    """All that a lab could have left changed on the gateways, files included."""
    with ThreadPoolExecutor() as threads:
        return dict(zip(ROUTES, threads.map(whole_state, [machines[name] for name in ROUTES]), strict=True))


def difference(before: State, now: State) -> str:
    """What is gone and what is new, line by line."""
    lines = []
    for name, was in before.items():
        then, there = Counter(was), Counter(now[name])
        lines += [f"{name}: gone: {line}" for line in (then - there).elements()]
        lines += [f"{name}: new: {line}" for line in (there - then).elements()]
    return "\n".join(lines)


def kill(number: int) -> str:
    """The name of a phase."""
    return f"site-kill-{number}"


def kills_runner(number: int) -> bool:
    """Is the runner killed, or one of its connections?"""
    return number % 2 == 0


class Story:
    """The phases, each of which must leave the machines as they were before the first."""

    def __init__(self, machines: Mapping[str, Machine], sites: Path, results: Path) -> None:
        self.machines, self.results, self.before = machines, results, snapshot(machines)
        self.asked = ("--lab", f"site:{sites}", "--image", "host")

    def phase(self, name: str, *argv: str) -> None:
        """Run vpneval to its end, and see what it leaves."""
        with self._started(name, *argv, "--vpn", VPNS) as process:
            process.wait(ENDS_WITHIN_S)

    def killed(self, number: int, *argv: str) -> None:
        """Kill vpneval, or one of its connections, and see what it leaves; the VPNs take turns. The first kill comes
        while there is traffic, the others at random moments after the first change."""
        name, chance = kill(number), random.Random(number)
        vpns = VPNS.split(",")
        out = self.results / name
        with self._started(name, *argv, "--out", str(out), "--vpn", vpns[number // 2 % len(vpns)]) as process:

            def until(happens: Callable[[], bool], what: str) -> None:
                wait_until(lambda: happens() or process.poll() is not None, what, MEASURES_WITHIN_S, 0.5)

            if number == 0:
                until(lambda: measuring(out), "traffic")
                (self.results / f"{name}.during").write_text(difference(self.before, snapshot(self.machines)))
            else:
                until(self._changed, "the first change")
                with suppress(subprocess.TimeoutExpired):
                    process.wait(chance.uniform(0, FIRST_MOMENTS_S))
            if kills_runner(number):
                process.kill()
            elif process.poll() is None:
                os.kill(chance.choice(masters(process.pid)), signal.SIGKILL)
                process.wait(ENDS_WITHIN_S)

    def _changed(self) -> bool:
        return "vpneval0" in self.machines["gw1"].run("ip", "-br", "link").stdout

    @contextmanager
    def _started(self, name: str, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
        started = time.monotonic()
        out, err, left = (self.results / f"{name}.{kind}" for kind in ("out", "err", "left"))
        environment = {**os.environ, "VPNEVAL_PATIENCE": f"{lab_file().patience:g}"}
        with out.open("wb") as said, err.open("wb") as complained:
            process = subprocess.Popen([*VPNEVAL, *argv, *self.asked], stdout=said, stderr=complained, env=environment)
        try:
            yield process
        finally:
            process.kill()
            code = process.wait()
        print("phase", name, round(time.monotonic() - started), code, flush=True)
        end = time.monotonic() + UNDONE_WITHIN_S
        while (found := difference(self.before, snapshot(self.machines))) and time.monotonic() < end:
            pass  # each look takes its time
        left.write_text(found)


def main(results: Path) -> None:
    """All phases."""
    config = results / "ssh-config"
    told = subprocess.run(["vagrant", "ssh-config", *PATH], stdout=subprocess.PIPE, check=True, timeout=300)
    config.write_bytes(told.stdout)
    with connected(config) as machines:
        story = Story(machines, inventory(results, config), results)
        smallest = ("--profile", "smallest", "--quiet")
        story.phase("site-doctor", "doctor", "--json")
        traffic = "measure=tcp,streams=1,direction=forward"
        story.phase("site-run", "run", "transport", *smallest, "--set", traffic, "--out", str(results / "site-run"))
        for number in range(KILLS):
            story.killed(number, "run", "transport", *smallest, "--set", traffic, "--duration", "600")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
