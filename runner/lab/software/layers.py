"""Layers: software that is not in the lab image, unpacked on a gateway for the one plugin that names it.

A layer is for what Debian does not have, and for a package that another one excludes. ``vagrant/layers/NAME.sh``
puts its files into a folder; this module runs that script once in a copy-on-write view of the lab image, which may
use the network, and keeps the result as a tar file in the cache. A plugin says ``layer="NAME"`` in its
``software``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from runner.data.cache import cache_dir, own_folder
from runner.data.errors import CannotRunHere
from runner.data.shipped import shipped_folder
from runner.lab.names import SUITES
from runner.lab.node import Node
from runner.lab.node.proc import memory_of
from runner.lab.software.image import open_image

SCRIPTS = shipped_folder("layers")
TOLD_EVERY_S = 20.0  # while a layer is built
BUSY = 0.67  # of the CPUs: who gets less is told that something else runs
# $image, $recipe: the view's lower layer and the folder of scripts; $name; $out: the tar file to write.
# A tmpfs in a mount namespace of its own: killed at any point, it leaves no mount, no process and no file but $out.
VIEW = """
mount -t tmpfs tmpfs /mnt
cd /mnt
mkdir upper work root
(cd "$image"; mount -t overlay -o lowerdir=.,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root)
mount -t proc proc root/proc
mount --rbind /dev root/dev
cp /etc/resolv.conf root/etc/
mkdir -p root/layer root/recipe root/etc/ssl/certs
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp /etc/ssl/certs/ca-certificates.crt root/etc/ssl/certs/
mount --bind -o ro "$recipe" root/recipe
export DEBIAN_FRONTEND=noninteractive HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
chroot root bash -euo pipefail "/recipe/$name.sh" /layer
tar -C root/layer --sort=name --mtime=@0 --owner=0 --group=0 -czf "$out" .
"""


class Cost(BaseModel):
    """What building a layer takes, as it was once measured: CPU time, what lies in memory meanwhile, and what is kept
    of it."""

    cpu_s: float
    memory_mb: int
    kept_mb: int = 0  # nobody has looked


def names() -> list[str]:
    """The names of the layers that there are recipes for."""
    return sorted(path.stem for path in SCRIPTS.glob("*.sh"))


def locate(name: str, suite: str) -> Path:
    """The tar file that layer ``name`` is, or would be, for an image: it changes with its recipe."""
    recipe = b"".join(path.read_bytes() for path in sorted(SCRIPTS.glob(f"{name}.*")))
    digest = hashlib.sha256(recipe + f" {suite} {platform.machine()}".encode()).hexdigest()[:12]
    return cache_dir() / "layers" / f"{name}-{suite}-{digest}.tar.gz"


def digest(name: str, suite: str) -> str:
    """The SHA-256 of layer ``name`` for an image as it was built here; "" where it is not built."""
    layer = locate(name, suite)
    return hashlib.sha256(layer.read_bytes()).hexdigest() if layer.exists() else ""


def cost(name: str) -> Cost | None:
    """What building layer ``name`` takes; None where nobody has measured it (costs.json beside the scripts)."""
    known = SCRIPTS / "costs.json"
    costs = json.loads(known.read_text()) if known.exists() else {}
    return Cost.model_validate(costs[name]) if name in costs else None


def build(name: str, suite: str, say: Callable[[str], None]) -> Path:
    """Build layer ``name`` for the image ``suite``, unless it is there. Says before what it takes, and meanwhile how
    far it is. Raises CannotRunHere with the log's tail."""
    layer = locate(name, suite)
    if layer.exists():
        return layer
    if os.geteuid() != 0:
        raise CannotRunHere(f"building a layer needs root. Once: sudo {sys.argv[0]} image {suite} --layer {name}")
    image = open_image(suite, say=say)
    say(f"vpneval builds the layer {name} for {suite} ({SUITES[suite]}){_takes(name)}")
    started, log = time.monotonic(), layer.with_suffix(".log")
    partial = layer.with_suffix(f".{os.getpid()}.partial")
    own_folder(layer.parent)
    try:
        if _run(name, {"image": str(image.root), "name": name, "out": str(partial)}, log, say) != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-8:])
            raise CannotRunHere(f"the layer {name} could not be built (whole log: {log}):\n{tail}")
        partial.rename(layer)
    finally:
        partial.unlink(missing_ok=True)
    megabytes = layer.stat().st_size / 1e6
    say(f"layer {name} built in {time.monotonic() - started:.0f} s, {megabytes:.0f} MB: {layer}")
    return layer


def _takes(name: str) -> str:
    """What building takes on this machine, for the sentence before it. Raises CannotRunHere where the memory for it is
    not free."""
    if (known := cost(name)) is None:
        return ": nobody has measured how long that takes"
    free_mb = memory_of(Path("/proc/meminfo").read_text(), "MemAvailable") / 2**20
    if free_mb < known.memory_mb:
        raise CannotRunHere(
            f"building the layer {name} needs {known.memory_mb} MB of memory, and {free_mb:.0f} MB are free. End what "
            "uses it, or build the layer on a larger machine and copy the file that it names"
        )
    cpus = len(os.sched_getaffinity(0))
    share = cpus / (cpus + os.getloadavg()[0])  # of the CPUs, beside what else runs
    left = f": about {_minutes(known.cpu_s / cpus / share)} with {cpus} CPUs"
    beside = " beside what else runs" if share < BUSY else ""
    kept = f", and {known.kept_mb} MB to keep" if known.kept_mb else ""
    return f"{left}{beside}, {known.memory_mb} MB of memory meanwhile{kept}"


def _minutes(seconds: float) -> str:
    return f"{max(1, math.ceil(seconds / 60))} min"


def _run(name: str, variables: dict[str, str], log: Path, say: Callable[[str], None]) -> int:
    """Run the script in the view, its output in ``log``, whose last line is told every ``TOLD_EVERY_S``. Returns the
    exit code."""
    inside = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-euo", "pipefail", "-c", VIEW)
    started = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *inside],
            env={**os.environ, "recipe": str(SCRIPTS), **variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o022,
        )
    try:
        while True:
            try:
                return process.wait(TOLD_EVERY_S)
            except subprocess.TimeoutExpired:
                last, took_s = log.read_text(errors="replace").rstrip().rpartition("\n")[2], time.monotonic() - started
                say(f"layer {name}: {took_s:.0f} s{_time_left(name, took_s, used_cpu_s(process.pid))}, {last:.100}")
    finally:
        process.kill()
        process.wait()


def _time_left(name: str, took_s: float, used_s: float) -> str:
    """How much longer it takes, by the pace that it has had."""
    known = cost(name)
    if known is None or not used_s:
        return ""
    if used_s >= known.cpu_s:
        return f", more than the {known.cpu_s:.0f} s of CPU time that it usually takes"
    return f", about {_minutes((known.cpu_s - used_s) * took_s / used_s)} more"


def used_cpu_s(session: int) -> float:
    """The CPU time of the processes of a session, and of those that they have waited for (proc_pid_stat(5))."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15])) if int(fields[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def unpack(node: Node, name: str) -> str:
    """Unpack layer ``name`` on top of ``node``'s root. Returns "" when done, else why it failed and what to do."""
    release = node.run("sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME", check=False).stdout.strip()
    if release not in SUITES:
        return f"the layer {name} is for {' and '.join(SUITES.values())}, and this is {release or 'unknown'}"
    layer = locate(name, release)
    if not layer.exists():
        return f"its layer is not built; build it with: vpneval image {release} --layer {name}, or by run --install"
    # As text, because that is what a node reads: the same way works on a machine that is reached by ssh.
    node.run("sh", "-c", "base64 -d | tar -xz -C /", input=base64.b64encode(layer.read_bytes()).decode())
    return ""
