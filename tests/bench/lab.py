"""`make bench-labs`: how long the five-node lab takes to come up and go, beside Mininet's for the same chain.

Mininet (Debian: mininet) is measured where it is installed: four hosts and a Linux bridge, which is far less
isolation (its nodes share root file system, PIDs and /run). Printed as medians and a ratio of one run.
"""

import shutil
import statistics
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.lab.places import open_rig
from runner.lab.shape.site_to_site import check_machine, namespace_lab
from runner.lab.software.image import open_image
from tests.lab.machines import machines

ROUNDS = 15
MININET = """
import time
from mininet.net import Mininet
from mininet.nodelib import LinuxBridge
for _ in range(%d):
    started = time.monotonic()
    net = Mininet(controller=None, switch=LinuxBridge)
    host1, gw1, gw2, host2 = (net.addHost(name, ip=None) for name in ("host1", "gw1", "gw2", "host2"))
    wan = net.addSwitch("s1")
    for a, b in ((host1, gw1), (gw1, wan), (wan, gw2), (gw2, host2)):
        net.addLink(a, b)
    net.build()
    net.start()
    for node, interface, address in (
        (host1, "host1-eth0", "10.1.0.2/24"), (gw1, "gw1-eth0", "10.1.0.1/24"), (gw1, "gw1-eth1", "192.168.0.1/24"),
        (gw2, "gw2-eth0", "192.168.0.2/24"), (gw2, "gw2-eth1", "10.2.0.1/24"), (host2, "host2-eth0", "10.2.0.2/24"),
    ):
        node.cmd("ip addr add", address, "dev", interface)
    up = time.monotonic()
    net.stop()
    print(up - started, time.monotonic() - up, flush=True)
"""


def ours() -> list[tuple[float, float]]:
    """Seconds up and seconds down, for each round."""
    image = open_image(say=print)
    found = []
    for _ in range(ROUNDS):
        started = time.monotonic()
        with namespace_lab(image):
            up = time.monotonic()
        found.append((up - started, time.monotonic() - up))
    return found


def ssh() -> list[tuple[float, float]]:
    """The SSH lab on machines that are namespace nodes with sshd: what ssh itself costs, with no network between."""
    found = []
    with (
        TemporaryDirectory() as folder,
        machines(open_image(), Path(folder)) as testbed,
        open_rig(f"ssh:{testbed.inventory()}", print) as rig,
    ):
        for _ in range(ROUNDS):
            started = time.monotonic()
            with rig.lab(rig.image("host")):
                up = time.monotonic()
            found.append((up - started, time.monotonic() - up))
    return found


def theirs() -> list[tuple[float, float]]:
    # Mininet would put its bridge and cables on the machine itself: give it a network namespace for them.
    argv = [
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "/usr/bin/python3",
        "-c",
        MININET % ROUNDS,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"Mininet does not run here: {done.stderr.strip().splitlines()[-1]}")
    return [(float(up), float(down)) for up, down in (line.split() for line in done.stdout.splitlines())]


def show(name: str, rounds: list[tuple[float, float]]) -> float:
    both = [up + down for up, down in rounds]
    up, down = (statistics.median(values) for values in zip(*rounds, strict=True))
    print(f"{name:8} up {up:.3f} s, down {down:.3f} s, both {statistics.median(both):.3f} s "
          f"(from {min(both):.3f} to {max(both):.3f}, n={len(both)})")  # fmt: skip
    return statistics.median(both)


if __name__ == "__main__":
    check_machine()
    mine = show("netns", ours())
    show("ssh", ssh())
    if shutil.which("mn"):
        print(f"ratio netns / Mininet: {mine / show('Mininet', theirs()):.2f}")
    else:
        print("Mininet is not installed (Debian: mininet); nothing to compare with")
