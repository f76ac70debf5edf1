"""A farm of three machines, with labs on them: nothing is lost and nothing counts twice, whatever dies meanwhile.

Each machine has network, mount, PID and UTS namespaces, control groups and cores of its own (a cpuset); the second is
slow by a quota. All have equally many cores, so that they are of one kind; where there are fewer than three, two share
one. Scheduler and coordinator are in a fourth network namespace, which has a bridge to the three. They speak TLS.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.data.store import BLOCK_NOTE, load_run
from runner.farm.block import PACKED, unpack
from runner.lab.node import wait_until
from runner.lab.node.groups import GROUPS
from runner.lab.software.image import Image
from tests.contract import leaks
from tests.lab.commands import VPNEVAL, lines
from tests.lab.conftest import descendants, parents, running
from tests.lab.test_secrets import SPY, Swept, files

BLOCKS = 10
WORKER = "distributed.cli.dask_worker"
SCHEDULER = "tls://10.77.0.1:8786"
RUN = ["run", "transport", "--vpn", "openvpn", "--set", "measure=tcp,streams=1,direction=forward"]
RUN += ["--profile", "smallest", "--reps", str(BLOCKS), "--farm", SCHEDULER, "--farm-timeout", "60"]
QUOTAS = ("cpu.cfs_quota_us", "cpu.max")  # of version 1 and 2 (cgroups(7))
NAMESPACES = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--mount", "--uts", "--pid", "--fork"]
NAMESPACES += ["--kill-child", "--mount-proc"]
INIT = "hostname {name}; ip link set lo up; echo ready; while read -r _; do :; done"


@dataclass
class Place:
    """A machine of the farm, or the one in the middle, held by a process; what is started in it is remembered."""

    name: str
    holder: subprocess.Popen[str]
    folder: Path
    cores: set[int]
    groups: list[Path] = field(default_factory=list)
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def init(self) -> int:
        """The PID of its init, as this machine sees it."""
        (found,) = (pid for pid, parent in parents().items() if parent == self.holder.pid)
        return found

    def start(self, *argv: str, name: str, **environment: str) -> subprocess.Popen[bytes]:
        """Start a program in it; what it says goes to a file."""
        known = {**os.environ, "DASK_CONFIG": str(self.folder.parent / "dask.yaml"), **environment}
        inside = ["setpriv", "--pdeathsig", "KILL", "nsenter", "--target", str(self.init), "--all", "--", *argv]

        def enter() -> None:
            if self.cpuset is None:
                os.sched_setaffinity(0, self.cores)
            for group in self.groups:
                (group / "cgroup.procs").write_text("0")

        with (self.folder / f"{name}.log").open("ab") as log:
            found = subprocess.Popen(
                inside, env=known, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=enter
            )
        self.started.append(found)
        return found

    @property
    def spool(self) -> Path:
        """Where it keeps what it has measured."""
        return self.folder / "spool"

    def worker(self) -> None:
        """Start its worker, as its supervisor would."""
        argv = [sys.executable, "-m", WORKER, SCHEDULER, "--nthreads", "2", "--no-nanny"]
        self.spool.mkdir(exist_ok=True, mode=0o700)
        local = ["--no-dashboard", "--local-directory", str(self.folder), "--death-timeout", "20"]
        self.start(*argv, *local, name="worker", VPNEVAL_SPOOL=str(self.spool))

    def returns(self) -> None:
        """Its worker ends by itself, and is started again."""
        wait_until(lambda: not self.pids(WORKER), f"the worker of {self.name} ends", 120)
        self.worker()

    def pids(self, word: str) -> set[int]:
        """Its processes with this word in their command line."""
        return {pid for pid, line in self._lines().items() if word in line.split("\0")}

    def nodes(self, name: str) -> set[int]:
        """The processes that hold the nodes of this name in its labs."""
        return {pid for pid, line in self._lines().items() if f'{{"name": "{name}"' in line}

    def _lines(self) -> dict[int, str]:
        """The command line of each of its processes."""
        found = {}
        for pid in running(descendants(self.holder.pid) | {p for one in self.started for p in descendants(one.pid)}):
            with suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        return found

    @property
    def cpuset(self) -> Path | None:
        """The group that gives it its cores; None where none can be made here."""
        return next((group for group in self.groups if (group / "cpuset.cpus").exists()), None)

    def throttled(self) -> int | None:
        """How often its quota has stopped it; None where no group with a quota can be made here."""
        for group in self.groups:
            if any((group / name).exists() for name in QUOTAS):
                return int(re.findall(r"nr_throttled (\d+)", (group / "cpu.stat").read_text())[0])
        return None

    def measuring(self) -> bool:
        """Is it in the middle of a block, with its lab up?"""
        begun = any((folder / "run" / "logs").exists() for folder in self.spool.glob("*/*/"))
        return begun and bool(self.nodes("gw1"))

    def finished(self) -> list[Path]:
        """The blocks in its spool."""
        return [*self.spool.glob(f"*/*{PACKED}")]


def certificates(folder: Path) -> None:
    """As docs/farm.md has it, and the file that says where they are."""
    for argv in (
        "req -x509 -newkey rsa:2048 -nodes -subj /CN=vpneval-ca -keyout ca-key.pem -out ca.pem",
        "req -newkey rsa:2048 -nodes -subj /CN=vpneval -keyout key.pem -out node.csr",
        "x509 -req -in node.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out node.pem",
    ):
        subprocess.run(["openssl", *argv.split()], cwd=folder, check=True, capture_output=True, timeout=30)
    mine = {"cert": str(folder / "node.pem"), "key": str(folder / "key.pem")}
    tls = {"ca-file": str(folder / "ca.pem"), "scheduler": mine, "worker": mine, "client": mine}
    config = {
        "worker": {"resources": {"lab": 1}},
        "scheduler": {"worker-ttl": "10 seconds"},
        # A worker without network goes on with its block for so long.
        "comm": {"require-encryption": True, "tls": tls, "timeouts": {"tcp": "3 minutes"}},
    }
    (folder / "dask.yaml").write_text(json.dumps({"distributed": config}))  # JSON is YAML


def groups(name: str, cores: set[int], share: float | None) -> list[Path]:
    """Control groups for one machine, so that those of two never have one name: its cores, and its share of one CPU."""
    found = []
    for top in (GROUPS, GROUPS / "unified", GROUPS / "cpu", GROUPS / "cpuset"):
        if not (top / "cgroup.procs").exists():
            continue
        group = top / f"test-farm-{os.getpid()}-{name}"
        with suppress(OSError):
            group.mkdir()
            found.append(group)
        if (group / "cpuset.cpus").exists():
            (group / "cpuset.cpus").write_text(",".join(map(str, sorted(cores))))
            if (top / "cpuset.mems").exists():  # of version 1, where nobody may join a group without memory
                (group / "cpuset.mems").write_text((top / "cpuset.mems").read_text())
        if share and (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_quota_us").write_text(str(round(100_000 * share)))
        elif share and (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{round(100_000 * share)} 100000")
    return found


@contextmanager
def place(name: str, folder: Path, cores: set[int], share: float | None = None) -> Iterator[Place]:
    (folder / name).mkdir()
    argv = [*NAMESPACES, "sh", "-c", INIT.format(name=name)]
    holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    made = Place(name, holder, folder / name, cores, groups(name, cores, share))
    try:
        yield made
    finally:
        for one in made.started:
            one.kill()
            one.wait()
        holder.kill()
        holder.wait()
        for group in made.groups:
            wait_until(lambda group=group: removed(group), f"{group} is empty and removed", 10)  # type: ignore[misc]


def removed(group: Path) -> bool:
    """The group and those that labs made below it; not while a process in one of them still ends."""
    with suppress(OSError):
        for one in sorted((path for path in group.glob("**/") if path.is_dir()), reverse=True):
            one.rmdir()
    return not group.exists()


def own_cores(number: int, machines: int) -> set[int]:
    """The cores of one of so many machines, as many as of each other."""
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // machines)
    return {cores[(number * each + place) % len(cores)] for place in range(each)}


def cable(hub: Place, machine: Place, number: int) -> None:
    """A veth pair from the bridge in the middle to the machine's eth0."""
    ip = ["ip", "link", "add", f"port{number}", "netns", str(hub.init), "type", "veth"]
    subprocess.run([*ip, "peer", "name", "eth0", "netns", str(machine.init)], check=True, timeout=10)
    inside(hub, f"ip link set port{number} master farm up")
    inside(machine, f"ip addr add 10.77.0.{10 + number}/24 dev eth0")
    inside(machine, "ip link set eth0 up")


def inside(place: Place, command: str) -> None:
    argv = ["nsenter", "--target", str(place.init), "--net", "--", *command.split()]
    subprocess.run(argv, check=True, timeout=10)


@dataclass
class Farm:
    hub: Place
    machines: list[Place]
    out: Path
    scheduler: subprocess.Popen[bytes] | None = None

    def schedule(self) -> None:
        argv = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--protocol", "tls", "--host", "10.77.0.1"]
        self.scheduler = self.hub.start(*argv, "--port", "8786", "--no-dashboard", name="scheduler")

    def reschedule(self, *machines: Place) -> None:
        """The scheduler is restarted; so are the workers, who end with it."""
        assert self.scheduler
        kill(descendants(self.scheduler.pid))
        self.scheduler.wait()
        self.schedule()
        for machine in machines:
            machine.returns()

    def waiting(self, machine: Place) -> dict[int, set[str]]:
        """The finished blocks in its spool that are not in the run folder: when the trials of each began."""
        found = {}
        for path in machine.finished():
            number = int(path.name.removesuffix(PACKED))
            with suppress(FileNotFoundError):  # it heard meanwhile that it is stored
                trials = unpack(path.read_bytes())["trials.jsonl"].splitlines()
                found[number] = {json.loads(trial)["started_at"] for trial in trials}
        return {number: began for number, began in found.items() if number not in self.stored()}

    def coordinate(self) -> subprocess.Popen[bytes]:
        return self.hub.start(*VPNEVAL, *RUN, "--out", str(self.out), name="coordinator")

    def stored(self) -> set[int]:
        """The blocks in the run folder."""
        return {json.loads(line)["repetition"] for line in lines(self.out)}

    def said(self) -> str:
        return (self.hub.folder / "coordinator.log").read_text()


@pytest.fixture
def farm(image: Image, tmp_path: Path) -> Iterator[Farm]:
    certificates(tmp_path)
    with ExitStack() as stack:
        hub = stack.enter_context(place("hub", tmp_path, os.sched_getaffinity(0)))
        inside(hub, "ip link add farm type bridge")
        inside(hub, "ip addr add 10.77.0.1/24 dev farm")
        inside(hub, "ip link set farm up")
        machines = []
        for number, share in ((1, None), (2, 0.6), (3, None)):
            machines.append(stack.enter_context(place(f"m{number}", tmp_path, own_cores(number - 1, 3), share)))
            cable(hub, machines[-1], number)
        yield Farm(hub, machines, tmp_path / "run")


def kill(pids: set[int], how: signal.Signals = signal.SIGKILL) -> None:
    assert pids
    for pid in pids:
        os.kill(pid, how)


@pytest.mark.alone
def test_each_machine_has_its_own_cores_and_the_second_a_quota(farm: Farm) -> None:
    _, m2, _ = farm.machines
    if lack := [one.name for one in farm.machines if one.cpuset is None] or m2.throttled() is None:
        pytest.skip(f"no control group with a cpuset and a quota can be made below {GROUPS}: {lack}")
    for machine in farm.machines:
        machine.start("sh", "-c", "while :; do :; done", "busy", name="busy")
        wait_until(lambda one=machine: one.pids("busy"), f"{machine.name} is busy", 30)  # type: ignore[misc]
        for pid in machine.pids("busy"):
            os.sched_setaffinity(pid, range(os.cpu_count() or 1))  # the cpuset holds it all the same
            assert os.sched_getaffinity(pid) == machine.cores
        for name in ("net", "mnt", "pid", "uts"):
            ours, theirs = (Path(f"/proc/{pid}/ns/{name}").readlink() for pid in ("self", machine.init))
            assert ours != theirs
    wait_until(lambda: (m2.throttled() or 0) > 0, "the quota stops m2", 30)


@pytest.mark.alone
@pytest.mark.timeout(600)
def test_nothing_is_lost_and_nothing_counts_twice(farm: Farm) -> None:
    m1, m2, m3 = farm.machines
    farm.schedule()
    for machine in farm.machines:
        machine.worker()
    coordinator = farm.coordinate()

    # A lab breaks, because a node of it is ended: another machine measures the block.
    wait_until(lambda: m1.measuring(), "m1 measures", 120)
    for machine in farm.machines:
        assert all(os.sched_getaffinity(pid) == machine.cores for pid in machine.pids("block"))
    wait_until(lambda: breaks(farm, m1), "the lab of m1 is broken", 120, 1.0)
    (broken,) = map(int, re.findall(r"block (\d+) came to nothing on m1", farm.said()))
    wait_until(lambda: broken in farm.stored(), "what broke on m1", 120)

    # A worker hangs.
    wait_until(lambda: m2.measuring(), "m2 measures", 120)
    hung = m2.pids(WORKER)
    kill(hung, signal.SIGSTOP)

    # A worker dies in the middle of a block, and its block with it. It is the second time: m1 is left out.
    wait_until(lambda: m1.measuring(), "another block on m1", 120)
    children = m1.pids("block")
    kill(m1.pids(WORKER))
    wait_until(lambda: not running(children), "its block ended with it", 10)
    m1.worker()

    # The network of the last machine is cut until its block is finished, and longer than the scheduler waits.
    wait_until(lambda: m3.measuring(), "m3 measures", 120)
    inside(farm.hub, "ip link set port3 down")
    wait_until(lambda: bool(farm.waiting(m3)), "a finished block in the spool", 120)
    finished = farm.waiting(m3)
    for name in ("m1", "m2", "m3"):
        says(farm, f"came to nothing on {name}: its worker died or did not answer")
    says(farm, "m1 is left out from now on: it broke 2 times")
    inside(farm.hub, "ip link set port3 up")
    m3.returns()
    wait_until(lambda: finished.keys() <= farm.stored(), "the finished block is stored", 120)

    # The coordinator dies; meanwhile a block is finished, and waits for the next one.
    wait_until(lambda: m3.measuring(), "another block on m3", 120)
    kill({coordinator.pid} | descendants(coordinator.pid))
    coordinator.wait()
    wait_until(lambda: bool(farm.waiting(m3)), "a finished block in the spool", 120)
    finished |= farm.waiting(m3)
    coordinator = farm.coordinate()
    wait_until(lambda: finished.keys() <= farm.stored(), "the finished block is stored", 120)

    farm.reschedule(m1, m3)
    assert coordinator.wait(300) == 0, farm.said()[-3000:]
    kill(hung)

    assert "The scheduler does not answer" in farm.said()
    assert m2.throttled() != 0
    whole(farm)
    run, trials = load_run(farm.out)
    assert run.invocations[0].left_out.keys() == {"m1"}
    assert {one.machine for one in trials if one.repetition == broken} <= {"m2", "m3"}
    for number, began in finished.items():  # it was not measured again
        assert {(one.started_at, one.machine) for one in trials if one.repetition == number} == {
            (moment, "m3") for moment in began
        }
    no_secrets(farm)


def breaks(farm: Farm, machine: Place) -> bool:
    """Has a block reported a broken lab there? Else one is broken now, if there is one."""
    if f"came to nothing on {machine.name}: vpneval ended with exit code 4" in farm.said():
        return True
    for pid in machine.nodes("gw1"):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return False


def says(farm: Farm, words: str) -> None:
    wait_until(lambda: words in farm.said(), words, 90)


def whole(farm: Farm) -> None:
    """Every block once, and each from one machine."""
    run, trials = load_run(farm.out)
    assert not (farm.out / BLOCK_NOTE).exists()
    assert {trial.status for trial in trials} == {"ok"}
    assert len(lines(farm.out)) == len(trials) == len({trial.id for trial in trials})
    blocks = {number: [one for one in trials if one.repetition == number] for number in range(1, BLOCKS + 1)}
    cells = {(one.vpn, one.position) for one in blocks[1]}
    for mine in blocks.values():
        assert {(one.vpn, one.position) for one in mine} == cells
        assert len({one.machine for one in mine}) == 1
    assert {one.machine for one in trials} >= {"m1", "m3"}
    assert run.machines.keys() >= {one.machine for one in trials}
    assert len({machine.kind for machine in run.machines.values()}) == 1
    own = {one.name: one.cores for one in farm.machines}
    for name in {one.machine for one in trials}:
        assert run.machines[name].cores == run.machines[name].lab["cores"] == len(own[name])
    rows = [json.loads(row) for row in (farm.out / "slices.jsonl").read_text().splitlines()]
    assert len(rows) == len({(row["trial"], row["number"]) for row in rows})
    assert {row["trial"] for row in rows} == {trial.id for trial in trials}
    assert (farm.out / "report.json").exists()
    assert [call.outcome for call in run.invocations] == ["", "complete"]


def no_secrets(farm: Farm) -> None:
    """What came from the workers has no private key, and its OpenVPN configurations have none either."""
    texts = [path.read_bytes() for path in farm.out.rglob("*") if path.is_file()]
    assert len(texts) > BLOCKS
    assert not any(b"PRIVATE KEY" in text or b"OpenVPN Static key" in text for text in texts)


@pytest.mark.smoke
def test_a_scheduler_without_tls_is_refused() -> None:
    argv = [*VPNEVAL, "run", "transport", "--vpn", "openvpn", "--farm", "tcp://192.0.2.1:8786"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "is not encrypted" in ended.stderr


def test_a_farm_on_this_machine(image: Image, tmp_path: Path) -> None:
    """Two workers and Dask's dashboard. No secret is in the run folder, a spool or Dask's logs, or on the console."""
    out, spool, scratch, told = (tmp_path / name for name in ("run", "spool", "scratch", "told"))
    for folder in (spool, scratch, told):
        folder.mkdir()
    (plugin := told / "openvpn.py").write_text(SPY.format(name="openvpn", told=str(told)))
    argv = [*VPNEVAL, "run", "transport", "--vpn", str(plugin), *RUN[4:8], "--reps", "4", "--farm", "local:2"]
    environment = {**os.environ, "VPNEVAL_SPOOL": str(spool), "TMPDIR": str(scratch)}
    seen: dict[str, bytes] = {}

    argv += ["--out", str(out), "--json"]
    with (
        (tmp_path / "stdout").open("w+") as printed,  # more than a pipe holds
        subprocess.Popen(argv, stdout=printed, stderr=subprocess.PIPE, text=True, env=environment) as run,
    ):
        assert run.stderr
        said = next((line for line in run.stderr if "dashboard" in line), "")
        link = re.search(r"http://127\.0\.0\.1:\d+/status", said)
        assert link, said
        wait_until(lambda: b"<title>Dask" in page(link[0]) or run.poll() is not None, "the dashboard", 60)
        assert b"<title>Dask" in page(link[0])
        while run.poll() is None:
            seen |= kept(spool) | kept(scratch)
            time.sleep(0.1)
        stderr = said + run.communicate()[1]
        stdout = Path(printed.name).read_text()
    assert run.returncode == 0, stderr[-3000:]
    assert json.loads(stdout)["trials"]["ok"] == 12  # four blocks of two cells, the baseline first and last
    assert {trial.machine for trial in load_run(out)[1]} == {"local-1", "local-2"}
    assert not [*spool.glob(f"*/*/*{PACKED}")]  # it heard that all is stored

    secrets = Swept(out, told, "").secrets("openvpn")
    assert len(secrets) > 4
    assert {Path(name).name for name in seen} >= {"local-1.log", "local-2.log", "commands.log"}
    assert not leaks(secrets, files(out) | seen | {"the console": (stdout + stderr).encode()})


def page(link: str) -> bytes:
    try:
        with urllib.request.urlopen(link, timeout=10) as answer:
            found: bytes = answer.read()
            return found
    except urllib.error.URLError:
        return b""


def kept(folder: Path) -> dict[str, bytes]:
    """Every file that is in it now; of a finished block, what is packed in it."""
    found = {}
    for place, _, names in os.walk(folder):  # without what is gone meanwhile
        for name in names:
            with suppress(OSError):
                data = Path(place, name).read_bytes()
                found[f"{place}/{name}"] = b"".join(unpack(data).values()) if name.endswith(PACKED) else data
    return found
