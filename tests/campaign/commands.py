"""Random command lines, made from the commands' own options and arguments, on run folders that something happened to.

No lab is started: a command that wants one is told that this machine has none.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from runner.catalogue import experiment_names, factors, metrics, vpn_names
from runner.cli import app as commands
from runner.cli.main import main as vpneval
from runner.data.errors import CannotRunHere
from runner.data.store import open_store
from runner.data.trials import Slice
from runner.design.profile import PROFILES
from runner.ranking.weights import PRESETS
from tests.campaign.folders import mutate, state
from tests.campaign.hostile import hostile_inventory, lying_machine
from tests.campaign.judge import LIMIT_S, judged, patience_s
from tests.unit.synthetic import realistic_run

PICTURES_S = 120.0  # report --write draws some fifty of them
READERS = ("report", "compare", "history", "watch", "why")
COMPARED = (
    "openvpn",
    "openvpn",
    "wireguard_go",
    "wireguard_go",
    "ssh_tun",
    "ssh_forward",
    "ipsec_user",
    "ipsec",
    "none",
)
INTERRUPTED_S = 1.0  # watch waits for a run that has not ended, until Ctrl-C

PLUGIN = "from vpns.openvpn import OpenVpn\n\n\nclass Mine(OpenVpn):\n    title = 'mine'\n"
INSTRUMENT = """
from runner.data.metric import Metric
from runner.instruments.instrument import Instrument
from runner.instruments.result import Measured, measurement

class Good(Instrument):
    name = "good"
    metrics = (Metric(name="good_ms", title="Good", unit="ms", better="lower", definition="It.", source="none"),)
    def expected_s(self, params, profile, *, first):
        return 1.0
    def measure(self, bench, asked):
        yield {"good_ms": 5.0}
        return Measured([measurement("good_ms", 5.0)], 0.1)
"""
EXPERIMENT = """
from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="good", question="?", method="It.", source="none", metrics=("good_ms",), traffic=(measuring("good"),)
)
"""
# Two machines that nobody reaches: no SSH server listens on these ports of the loopback.
SITES = """
[gw1]
address = "127.0.0.1"
port = 1
wan = "eth0"
wan_address = "192.0.2.1"
network = "10.1.0.0/16"
[gw2]
address = "127.0.0.1"
port = 2
wan = "eth0"
wan_address = "192.0.2.9"
network = "10.2.0.0/16"
"""
SITE_CHANGES = (
    ("", ""),
    ('wan_address = "192.0.2.1"\n', ""),
    ('wan_address = "192.0.2.1"', 'wan_address = "2001:db8::1"'),
    ('wan_address = "192.0.2.1"', "wan_address = 7"),
    ("[gw2]", "[gw3]"),
    ("[gw2]", "[gw1]"),
    ("port = 2", "port = 1"),
    ("port = 2", "port = 99999"),
    ("port = 2", 'public_address = "192.0.2.7"'),
    ("port = 2", 'port = 2\npublic_address = "192.0.2.7"\nforwards = ["udp/51820"]'),
    ("port = 2", 'port = 2\nforwards = ["51820"]'),
    ("port = 2", 'port = 2\nlan = "198.18.1.0/24"'),
    ("port = 2", 'port = 2\nlan = "10.7.0.0/31"'),
    ("port = 2", 'port = 2\nnetwork_address = "10.9.9.9"'),
    ('"127.0.0.1"', '"-oProxyCommand=x"'),
    ('"127.0.0.1"', '"\\u001b[2J"'),
    ('"10.2.0.0/16"', '"10.2.0.1/16"'),
    ("\n[gw1]", "keepalive_s = 15\npath_mtu = 1400\n[gw1]"),
    ("\n[gw1]", "keepalive_s = 0\nmax_rate_bps = 1.0\n[gw1]"),
    ("\n[gw1]", 'between = "25:00-01:00"\nx = 1\n[gw1]'),
    ("\n[gw1]", 'between = "22:00-04:00"\nmax_rate_bps = 200e6\nkeep_image = false\n[gw1]'),
    ("\n[gw1]", "[[gw1]]"),
    (SITES, ""),
)
SITE_FILES = [f"site{number}.toml" for number in range(len(SITE_CHANGES))]
HOSTILE = [
    *("", " ", "-", "--", "0", "-1", "1", "1.5", "nan", "inf", "1e308", "1e-320", "9" * 400, "9" * 5000, "0x10", "1_0"),
    *("\x1b[2J", "\x9b31m", "\r\x08\x07", "\u202e", "\udcff", "é", "²", "٣", "日本", "\U0001f600", "[bold]x[/]", "[/]"),
    *(
        "a" * 300,
        "a" * 100_000,
        "../..",
        "/",
        "/dev/null",
        "/dev/full",
        "/proc/self/mem",
        "~",
        ".",
        "..",
        "./x.py",
        "*",
    ),
    *("null", "{}", "[", "a=b", "=", ",", ",,", "a=", "=a", "a=1,a=1", "%s", "%n", "$(id)", "'", '"', "\n", "\t", "\\"),
]


def texts(rng: random.Random, name: str) -> str:
    """A value for an option or argument of this name: mostly one that makes sense."""
    sites = [f"site:{name}" for name in SITE_FILES]
    valid: dict[str, Sequence[str]] = {
        "experiments": [*experiment_names(), "papers", "./exp.py", "./good_exp.py"],
        "vpns": [*vpn_names(), "./mine.py", "./broken.py", "openvpn,ssh_tun"],
        "vpn": [*vpn_names(), "./mine.py", "./broken.py"],
        "instruments": ["./inst.py", "./mine.py", "./good.py", "./good.py"],
        "levels": [f"{f}={level}" for f, known in factors().items() for level in (*known.named, "7", "1e9")],
        "profile": [*PROFILES],
        "reps": ["1", "3", "1000", "1001"],
        "duration": ["1", "10", "86401"],
        "lab": ["netns", "netns", "vagrant", "ssh:lab.toml", "ssh:", "site:", "netns:", *sites, *sites],
        "where": ["netns", "netns", "vagrant", "ssh:lab.toml", *sites],
        "site": [*SITE_FILES, "lab.toml", "w.toml", "file", "a"],
        "days": ["1", "30", "365", "3650", "3651", "0", "1.5"],
        "rounds": ["1", "4", "1000", "0", "1001", "-1"],
        "slice_s": ["0.1", "0.5", "10", "0", "0.09", "11", "nan", "inf"],
        "search_rates": ["1M-5G", "100k-1000G", "5M-5M", "1M", "1M-", "-1M", "99k-1M", "1M-2M-3M"],
        "max_rate": ["200M", "1.5G", "100k", "99k", "1000G", "1001G", "200", "1e8", "200m", "M"],
        "between": ["01:00-05:00", "22:00-04:00", "00:00-00:00", "24:00-01:00", "1:00-5:00", "01:00", "01:00-05:60"],
        "farm": [
            "local:2",
            "local:0",
            "local:65",
            "tcp://127.0.0.1:1",
            "tls://127.0.0.1:1",
            "tcp://[::1]:1",
            "tcp://:1",
        ],
        "farm_equal": ["kernel,image,versions", "cpu,cores", "cpu,cpu", "kernel,", "nothing"],
        "farm_timeout": ["1s", "90", "10m", "2h", "0", "-1s", "1d"],
        "across": ["machines", "machines", "machine", "kernels"],
        "margin": [
            "10%",
            "0%",
            "100%",
            "0.5%",
            "-1%",
            "10",
            "rtt=10%",
            "rtt=10%,tcp_throughput=0.1%",
            "rtt=10%,rtt=2%",
        ],
        "kernel": ["host", "host", "uml", "qemu", "qemu:trixie", "qemu:sid", "host,uml", "uml,uml", "host,"],
        "rest": ["host", "uml", "qemu", "qemu:bookworm", "uml,qemu", "UML"],
        "image": ["trixie", "bookworm", "host"],
        "name": ["trixie", "bookworm"],
        "gateways": ["trixie", "trixie,bookworm"],
        "seed": ["1", "2", "-5"],
        "out_dir": ["a", "new", "p", "file", "mine.py"],
        "deadline": ["1s", "6m", "350s", "2h"],
        "weights": [*PRESETS, "rtt=1", "w.toml", "w.json", *(f"{name}=2" for name in metrics())],
        "what": ["vpns", "extinct", "absent", "experiments", "metrics", "presets", "factors", "profiles"],
        "folders": ["a", "b", "a", "p", "new", "file", ".", "a/"],
        "folder": ["a", "a", "b", "p", "results/last"],
        "a": COMPARED,
        "b": COMPARED,
        "asked": ["block.json", "w.json", "a/run.json"],
        "before": ["a", "b"],
        "after": ["a", "b"],
        "configuration": ["comparable", "recommended"],
        "missing": ["unranked", "worst"],
        "form": ["term", "html", "md", "latex", "json", "csv", "findings"],
        "node": ["host1", "gw1", "wan"],
        "layer": ["libreswan"],
        "work": ["true"],
    }
    return rng.choice(HOSTILE) if rng.random() < 0.15 or name not in valid else rng.choice(valid[name])


def command_line(rng: random.Random, only: Sequence[str] = ()) -> list[str]:
    """A random command with random options, as the command itself defines them."""
    found: Any = typer.main.get_command(commands.app)
    line: list[str] = []
    while hasattr(found, "commands"):
        name = rng.choice([name for name in found.commands if not only or name in only or line])
        found = found.commands[name]
        line.append(name)
    for parameter in found.params:
        required = bool(parameter.required)
        if not required and rng.random() > (0.75 if parameter.param_type_name == "argument" else 0.25):
            continue
        times = rng.choice((1, 1, 2, 3)) if parameter.nargs == -1 or getattr(parameter, "multiple", False) else 1
        for _ in range(times):
            option = [] if parameter.param_type_name == "argument" else [rng.choice(parameter.opts)]
            line += option if getattr(parameter, "is_flag", False) else [*option, texts(rng, parameter.name)]
    if rng.random() < 0.05:
        line.insert(rng.randrange(len(line) + 1), rng.choice([*HOSTILE, "--help", "--no-color", "--version"]))
    return [word.replace("\0", "") for word in line]


def prepare(folder: Path) -> None:
    """What the cases work on: two runs, a parent of runs, plugins, weights, a file."""
    whole, trials = realistic_run(seed=1)
    for name, kept in (
        ("a", trials),
        ("b", trials[: len(trials) // 2]),
        ("p/host", trials[:40]),
        ("results/last", trials[:90]),
    ):
        with open_store(folder / name) as store:
            store.save_run(whole.model_copy(update={"run_id": Path(name).name}))
            for trial in kept:
                store.append(trial)
            rows = [Slice(trial=kept[0].id, number=n, at_s=n, duration_s=0.3, values={"rtt": 1.0}) for n in (1, 2)]
            store.append_slices(rows)
    index = {"schema_version": 1, "runs": [{"kernel": "host", "folder": "host", "outcome": "complete"}]}
    (folder / "p" / "index.json").write_text(json.dumps(index))
    (folder / "file").write_text("a file\n")
    (folder / "mine.py").write_text("print('a plugin that prints')\n" + PLUGIN)
    (folder / "broken.py").write_text(PLUGIN + "    def start(self, *_):\n        raise KeyError('no')\n")
    (folder / "exp.py").write_text("EXPERIMENT = 3\n")
    (folder / "inst.py").write_text("import sys\nsys.exit(0)\n")
    (folder / "good.py").write_text(INSTRUMENT)
    (folder / "good_exp.py").write_text(EXPERIMENT)
    (folder / "block.json").write_text('{"experiments": ["transport"], "repetition": 2, "out": "new"}')
    for name, change in zip(SITE_FILES, SITE_CHANGES, strict=True):
        (folder / name).write_text(SITES.replace(*change))
    (folder / "w.toml").write_text("rtt = 2\ntcp_throughput = 1\n")
    (folder / "w.json").write_text('{"rtt": 2}')
    (folder / "lab.toml").write_text('[gw1]\naddress = "127.0.0.1"\nport = 1\n')


class CommandCase:
    """One case: what is asked of which folders; ``run`` says what is wrong with how it ended, or nothing."""

    def __init__(self, seed: int, number: int, base: Path) -> None:
        rng = random.Random(f"{seed}/{number}")
        self.base, self.rng = base, rng
        self.reads = rng.random() < 0.6
        self.argv = command_line(rng, READERS if self.reads else ())
        self.encoding = rng.choice(("utf-8", "utf-8", "utf-8", "ascii", "latin-1"))
        self.to = rng.choice(("file", "file", "file", "file", "full", "closed"))
        self.environment = (
            {"COLUMNS": rng.choice(("80", "80", "200", "0", "1", "x", "40"))} if rng.random() < 0.5 else {}
        )
        self.mutations = rng.choice((0, 1, 1, 1, 2, 5)) if self.reads else rng.choice((0, 0, 1))
        self.peak_kb = 0  # of memory
        self.lies, self.odd = rng.random() < 0.6, rng.random() < 0.5
        self.said: list[str] = []

    def __str__(self) -> str:
        words = [repr(word[:60] + "…") if len(word) > 60 else repr(word) for word in self.argv]
        told = [f"  {said}" for said in self.said]
        return "\n".join([f"vpneval {' '.join(words)}", f"  {self.encoding} to {self.to}, {self.environment}", *told])

    def run(self) -> list[str]:
        """Do it in a folder of its own, in a process of its own."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
            folder = Path(scratch) / "work"
            shutil.copytree(self.base, folder)
            for _ in range(self.mutations):
                self.said.append(mutate(self.rng, folder / self.rng.choice(("a", "a", "b", "p", "results/last"))))
            asked = next((name for name in (*SITE_FILES[::-1], "lab.toml") if name in " ".join(self.argv)), "")
            if asked and self.odd:
                self.said.append(hostile_inventory(self.rng, folder / asked))
            if asked and self.lies:
                answer, self.environment["PATH"] = lying_machine(self.rng, Path(scratch) / "bin")
                self.said.append(answer)
            before = state(folder)
            code, out, err = self._process(Path(scratch), folder)
            wrong = judged(self.argv, code, out, err, whole=self.to == "file", peak_kb=self.peak_kb)
            if self.argv[0] in READERS and "--write" not in self.argv and state(folder) != before:
                wrong.append("it changed what it read")
            if owned := [*Path(scratch).rglob("OWNED")]:
                wrong.append(f"a machine's answer was run as a command: {owned}")
        return wrong

    def _process(self, scratch: Path, folder: Path) -> tuple[int | None, str, str]:
        for name in ("out", "err"):  # whenever it is ended, it has said something, or nothing
            (scratch / name).touch()
        # A Ctrl-C that comes before the command has begun would go on as another copy of this process.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        child = os.fork()
        if child == 0:
            self._child(scratch, folder)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        limit_s = PICTURES_S if "--write" in self.argv else LIMIT_S
        started, asked = time.monotonic(), False
        while True:
            ended, status, used = os.wait4(child, os.WNOHANG)
            if ended:
                self.peak_kb = used.ru_maxrss
                break
            spent_s = time.monotonic() - started
            if spent_s > patience_s(limit_s):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return None, "", (scratch / "err").read_text(errors="replace")
            if self.argv[0] == "watch" and spent_s > INTERRUPTED_S and not asked:
                os.kill(child, signal.SIGINT)
                asked = True
            time.sleep(0.005)
        out, err = ((scratch / name).read_bytes() for name in ("out", "err"))
        return os.waitstatus_to_exitcode(status), self._decoded(out), self._decoded(err)

    def _decoded(self, said: bytes) -> str:
        """Documents are in UTF-8, messages in the encoding of the terminal."""
        try:
            return said.decode()
        except ValueError:
            return said.decode(self.encoding, "replace")

    def _child(self, scratch: Path, folder: Path) -> None:
        """The command, from here to the end of this process."""
        code: Any = 70
        try:
            os.chdir(folder)
            os.environ.update(self.environment)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            to = {"file": str(scratch / "out"), "full": "/dev/full"}.get(self.to)
            if to is None:
                reading, writing = os.pipe()
                os.close(reading)
            for number, opened in (
                (1, os.open(to, os.O_WRONLY) if to else writing),
                (2, os.open(scratch / "err", os.O_WRONLY | os.O_CREAT)),
                (0, os.open(os.devnull, os.O_RDONLY)),
            ):
                os.dup2(opened, number)
            sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding=self.encoding)
            sys.stderr = io.TextIOWrapper(
                io.FileIO(2, "w", closefd=False), self.encoding, "backslashreplace", write_through=True
            )
            sys.argv = ["vpneval", *self.argv]
            vpneval(self.argv)
            code = 71  # main() exits
        except KeyboardInterrupt:  # which runner.__main__ ends so
            code = 130
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 72
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)


def no_lab(*_: Any, **__: Any) -> Any:
    """In place of what starts labs, guests and workers."""
    raise CannotRunHere("the campaign starts no lab")


def no_lab_here(lab: str) -> None:
    """In place of what makes a command fit for a lab: machines that are reached by ssh are tried."""
    if not lab.startswith(("site:", "ssh:")):
        no_lab()
