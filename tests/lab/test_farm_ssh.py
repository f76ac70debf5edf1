"""``dask ssh``, as docs/farm.md has it, starts a farm on two machines that are reached by ssh, and ends it.

The machines have the lab image's root, which has sshd, under a copy-on-write overlay; of this machine they have the
Python environment, vpneval and the lab images, under the same paths.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from runner.data.cache import cache_dir
from runner.data.store import load_run
from runner.lab.node import wait_until
from runner.lab.software.image import Image
from tests.lab.commands import VPNEVAL
from tests.lab.conftest import descendants, running
from tests.lab.test_farm import WORKER, Place, cable, inside, kill, own_cores, place

BLOCKS = 3
RUN = ["run", "transport", "--vpn", "openvpn", "--set", "measure=tcp,streams=1,direction=forward"]
RUN += ["--profile", "smallest", "--reps", str(BLOCKS), "--farm-insecure", "--farm-timeout", "90"]
FROM_HERE = ("/proc", "/sys", "/dev", str(Path(__file__).parents[2]), sys.base_prefix, str(cache_dir()))
ROOT = """set -e
mount -t tmpfs tmpfs {top}
mkdir {top}/upper {top}/work {top}/root
mount -t overlay -o lowerdir={image},upperdir={top}/upper,workdir={top}/work overlay {top}/root
for folder in {here}; do
    mkdir -p {top}/root$folder
    mount --rbind $folder {top}/root$folder
done
cd {top}/root
mkdir -p run/sshd etc/dask spool root/.ssh
echo {key} > root/.ssh/authorized_keys
echo {config} > etc/dask/vpneval.yaml
chroot . ssh-keygen -A
exec chroot . /usr/sbin/sshd -D -e -o StrictModes=no -o SetEnv=VPNEVAL_SPOOL=/spool
"""


def sshd(machine: Place, image: Image, key: str) -> None:
    """Give the machine the image as its root, and sshd in it."""
    top = machine.folder / "top"
    top.mkdir()
    config = json.dumps({"distributed": {"worker": {"resources": {"lab": 1}}}})
    words = {"top": top, "image": image.root, "key": key, "config": config, "here": ""}
    script = ROOT.format(
        **{name: shlex.quote(str(word)) for name, word in words.items()} | {"here": " ".join(FROM_HERE)}
    )
    machine.start("sh", "-c", script, name="sshd")
    said = machine.folder / "sshd.log"
    wait_until(lambda: "Server listening on" in said.read_text(), f"sshd on {machine.name}", 30)


@pytest.fixture
def reached(image: Image, tmp_path: Path) -> Iterator[tuple[Place, list[Place]]]:
    """The machine in the middle, and two with sshd, which know its key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True, timeout=30)
    key = (tmp_path / "key.pub").read_text().strip()
    (tmp_path / "dask.yaml").write_text("{}")
    with ExitStack() as stack:
        hub = stack.enter_context(place("hub", tmp_path, own_cores(0, 1)))
        inside(hub, "ip link add farm type bridge")
        inside(hub, "ip addr add 10.77.0.1/24 dev farm")
        inside(hub, "ip link set farm up")
        machines = []
        for number in (1, 2):
            machines.append(stack.enter_context(place(f"m{number}", tmp_path, own_cores(number - 1, 2))))
            cable(hub, machines[-1], number)
            sshd(machines[-1], image, key)
        yield hub, machines


@pytest.mark.alone
@pytest.mark.timeout(400)
def test_dask_ssh_starts_a_farm(reached: tuple[Place, list[Place]], tmp_path: Path) -> None:
    hub, machines = reached
    (tmp_path / "machines.txt").write_text("10.77.0.11\n10.77.0.12\n")
    argv = ["--hostfile", str(tmp_path / "machines.txt"), "--nthreads", "2", "--ssh-username", "root"]
    argv += ["--remote-python", sys.executable, "--ssh-private-key", str(tmp_path / "key")]
    dask = hub.start(sys.executable, "-m", "dask", "ssh", *argv, name="dask")
    for machine in machines:
        wait_until(lambda one=machine: one.pids(WORKER), f"a worker on {machine.name}", 60)  # type: ignore[misc]

    run = hub.start(*VPNEVAL, *RUN, "--farm", "tcp://10.77.0.11:8786", "--out", str(tmp_path / "run"), name="run")
    assert run.wait(250) == 0, (hub.folder / "run.log").read_text()[-3000:]
    _, trials = load_run(tmp_path / "run")
    assert {trial.status for trial in trials} == {"ok"}
    assert {trial.repetition for trial in trials} == set(range(1, BLOCKS + 1))
    assert {trial.machine for trial in trials} == {"m1", "m2"}

    workers = set().union(*(machine.pids(WORKER) for machine in machines))
    assert workers
    kill(descendants(dask.pid), signal.SIGINT)  # Ctrl-C, past the nsenter that it was started by
    wait_until(lambda: not running(workers), "the workers end with dask ssh", 60)
