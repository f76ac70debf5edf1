"""Runs with real labs in which something goes wrong: plugins that misbehave, signals, killed processes, full disks.

Each is small: one VPN, the smallest cells. A file stands in front of the VPN's plugin and tells the case, outside of
the run folder, what the secrets are. What goes wrong at a random moment does so at another one when it is repeated.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence, Set
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.store import load_run
from runner.data.trials import Trial
from tests.campaign.judge import LIMIT_S, judged, patience_s
from tests.campaign.plugins import NEIGHBOUR, misbehaviour, worse
from tests.campaign.processes import Processes
from tests.contract import leaks
from tests.lab.commands import lines, rows, wrong_slices
from tests.lab.conftest import descendants, mounts
from tests.lab.test_secrets import KEYS, SPY, files, shown
from tests.lab.test_turns import INSTRUMENTS

WHOLE_S = 120.0  # a run in which nothing goes wrong
GONE_WITHIN_S = 10.0
PATIENCE = "0.5"  # of what waits for a tunnel that does not come up
VPNS = ("wireguard_go", "wireguard_go", "ssh_forward", "openvpn")
CELLS = (
    ("transport", "--profile", "smallest", "--set", "measure=idle"),
    (
        "transport",
        "--profile",
        "smallest",
        "--set",
        "measure=idle,measure=tcp,streams=1,direction=forward,payload=random",
    ),
    ("transport", "--profile", "smallest", "--set", "measure=udp"),
    ("transport", "--profile", "quick", "--reps", "1", "--set", "measure=idle"),
    ("latency", "--profile", "smallest", "--set", "measure=loaded,load=full"),
)


# What goes wrong, one lab case after another: the first five are all that there are.
IN_TURN = (
    *("plugin", "signals", "killed", "disk", "output", "plugin", "signals", "killed"),
    *("plugin", "signals", "killed", "plugin"),
)


@dataclass
class Ended:
    """How a command ended, and what it said. ``code`` is None where it had to be killed."""

    code: int | None
    out: str
    err: str
    struck: bool = False  # did what was to go wrong come before its end?


@dataclass
class LabCase:
    """One run, or more on the same folder; ``run`` says what is wrong with how they ended, or nothing.

    ``turn``: which of the cases with labs it is."""

    seed: int
    number: int
    turn: int
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(f"{self.seed}/{self.number}/lab")
        self.kind: Callable[[], list[str]] = getattr(self, IN_TURN[self.turn % len(IN_TURN)])
        self.cells = self.rng.choice(CELLS)
        self.seen = Processes()
        self.consoles: dict[str, bytes] = {}
        self.shown: dict[str, set[bytes]] = {"cmdline": set(), "environ": set()}  # of all these processes

    def __str__(self) -> str:
        return "\n  ".join([f"lab: {self.kind.__name__}: {' '.join(self.cells)}", *self.said])

    def run(self) -> list[str]:
        """Do it in a folder of its own."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as scratch, ExitStack() as self.stack:
            self.folder, self.out = Path(scratch), Path(scratch, "run")
            (self.folder / "told").mkdir()
            wrong = self.kind()
            wrong += self._left() + self._leaked()
        return wrong

    # --- what goes wrong -----------------------------------------------------------------------------------------

    def plugin(self) -> list[str]:
        """A plugin misbehaves in one of its methods, beside one that does not. One without an end ends by Ctrl-C."""
        body, begun = misbehaviour(self.rng), self.folder / "worse.py.begun"

        def strike(process: subprocess.Popen[bytes]) -> bool:
            if not begun.exists():
                return False
            process.send_signal(signal.SIGINT)
            return True

        self.said.append(body)
        (self.folder / "worse.py").write_text(worse(body))
        (self.folder / "neighbour.py").write_text(NEIGHBOUR)
        (self.folder / "told" / "worse.secrets").write_text(json.dumps(KEYS) + "\n")
        how = self.rng.choice(((), ("--json",), ("--quiet",)))
        done = self._vpneval("worse.py,neighbour.py", *how, strike=strike, impatient=True)
        wrong = self._judged(done, (130,) if done.struck else (0, 1, 2))
        if done.code in (0, 1):
            found = {trial.vpn: trial for trial in self._trials()}
            others = [name for name in ("none", "neighbour") if name not in found or found[name].status != "ok"]
            wrong += [f"beside it, {name} is {found.get(name)}" for name in others]
            wrong += [] if "worse" in found else ["its own trials have no line"]
        return wrong

    def signals(self) -> list[str]:
        """A signal at a random moment; then the same command again."""
        which = self.rng.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        at_s, again = self.rng.uniform(0, 8), self.rng.random() < 0.2
        self.said.append(f"{which.name} after {at_s:.2f} s{', and again' if again else ''}")

        def strike(process: subprocess.Popen[bytes]) -> bool:
            process.send_signal(which)
            if again:
                time.sleep(0.15)
                process.send_signal(which)
            return True

        vpn = self._spied()
        done = self._vpneval(vpn, strike=strike, at_s=at_s)
        ended = (-signal.SIGKILL,) if which is signal.SIGKILL else (130,)
        wrong = self._judged(done, (*ended, 0) if done.struck else (0,))
        return wrong + self._go_on(vpn)

    def killed(self) -> list[str]:
        """Something of the lab is killed at a random moment: a daemon, an instrument, a node. No VPN is blamed for an
        instrument or a node."""
        at_s, blameless = self.rng.uniform(0.5, 8), {"none"}

        def strike(process: subprocess.Popen[bytes]) -> bool:
            found = sorted(descendants(process.pid))
            if not found:
                return False  # not now; soon
            pid = self.rng.choice(found)
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
                os.kill(pid, signal.SIGKILL)
                self.said.append(f"killed after {at_s:.2f} s: {' '.join(words)[:150]}")
                if is_instrument(words):
                    blameless.add(name)
            return True

        vpn = self._spied()
        name = Path(vpn).stem
        done = self._vpneval(vpn, strike=strike, at_s=at_s)
        wrong = self._judged(done, (0, 1, 4)) + blamed(self._trials(), blameless)
        return wrong + self._go_on(vpn)

    def disk(self) -> list[str]:
        """A disk that is full at some time; then it has room again."""
        size_kb = self.rng.choice((24, 64, 100, 200, 300, 500))
        self.said.append(f"a disk of {size_kb} kB")
        disk = self.folder / "disk"
        disk.mkdir()
        script = f'mount -t tmpfs -o size={size_kb}k tmpfs "$0" && echo mounted && exec cat'
        holder = self.stack.enter_context(
            subprocess.Popen(
                ["unshare", "--mount", "sh", "-c", script, str(disk)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        )
        assert holder.stdin is not None
        assert holder.stdout is not None
        self.stack.callback(holder.stdin.close)
        holder.stdout.readline()
        there = ("nsenter", "-t", str(holder.pid), "--mount")
        vpn, self.out = self._spied(), Path(f"/proc/{holder.pid}/root{disk}/run")
        done = self._vpneval(vpn, before=there, out=disk / "run")
        wrong = self._judged(done, (0, 4))
        subprocess.run([*there, "mount", "-o", "remount,size=100m", str(disk)], check=True)
        wrong += self._go_on(vpn, before=there, out=disk / "run")
        return wrong + self._leaked()

    def output(self) -> list[str]:
        """A terminal that lacks characters, an output that is full, or that nobody reads."""
        to = self.rng.choice(("file", "full", "closed"))
        env = {
            "PYTHONIOENCODING": self.rng.choice(("ascii", "latin-1", "utf-8")),
            "LC_ALL": self.rng.choice(("C", "C.UTF-8")),
        }
        self.said.append(f"to {to}, {env}")
        vpn = self._spied()
        done = self._vpneval(vpn, *self.rng.choice(((), ("--json",))), env=env, to=to)
        wrong = self._judged(done, {"file": (0,), "full": (4,), "closed": (141,)}[to])
        return wrong + self._go_on(vpn)

    # --- runs ----------------------------------------------------------------------------------------------------

    def _spied(self) -> str:
        name = self.rng.choice(VPNS)
        if name == "ssh_forward" and "measure=udp" in self.cells:
            name = "openvpn"  # a forwarder carries no UDP, and nothing measured is no success
        self.said.append(name)
        told = self.folder / "told"
        (self.folder / f"{name}.py").write_text(SPY.format(name=name, told=str(told)))
        return f"{name}.py"

    def _vpneval(
        self,
        vpns: str,
        *more: str,
        strike: Callable[[subprocess.Popen[bytes]], bool] | None = None,
        at_s: float = 0.0,
        before: Sequence[str] = (),
        out: Path | None = None,
        env: dict[str, str] | None = None,
        to: str = "file",
        impatient: bool = False,
    ) -> Ended:
        """``vpneval run`` with something that goes wrong after ``at_s`` seconds."""
        names = ",".join(str(self.folder / name) for name in vpns.split(","))
        argv = ["run", *self.cells, "--vpn", names, "--out", str(out or self.out), *more]
        self.argv = argv
        environment = {**os.environ, **({"VPNEVAL_PATIENCE": PATIENCE} if impatient else {}), **(env or {})}
        said, complained = self.folder / "out", self.folder / "err"
        with said.open("wb") as stdout, complained.open("wb") as stderr, ExitStack() as opened:
            target: int = stdout.fileno()
            if to == "full":
                target = opened.enter_context(open("/dev/full", "wb")).fileno()
            elif to == "closed":
                reading, target = os.pipe()
                os.close(reading)
            command = [*before, sys.executable, "-m", "runner", *argv]
            process = subprocess.Popen(
                command, stdout=target, stderr=stderr, stdin=subprocess.DEVNULL, env=environment, cwd=ROOT
            )
            if to == "closed":
                os.close(target)
            code, struck = self._await(process, strike, at_s)
        ended = Ended(code, said.read_text(errors="replace"), complained.read_text(errors="replace"), struck)
        self.consoles[f"console {len(self.consoles)}"] = (ended.out + ended.err).encode()
        return ended

    def _await(
        self, process: subprocess.Popen[bytes], strike: Callable[[subprocess.Popen[bytes]], bool] | None, at_s: float
    ) -> tuple[int | None, bool]:
        started, limit_s, struck = time.monotonic(), WHOLE_S, False
        self.seen.add({process.pid})
        while process.poll() is None:
            spent_s = time.monotonic() - started
            if spent_s > patience_s(limit_s):
                process.kill()
                process.wait()
                return None, struck
            if strike and not struck and spent_s > at_s:
                self.seen.add(descendants(process.pid))
                struck = strike(process)
                ends = strike.__qualname__.startswith(("LabCase.signals", "LabCase.plugin"))
                if struck:
                    limit_s = spent_s + (LIMIT_S if ends else WHOLE_S)
            self.seen.add(descendants(process.pid))
            for what, texts in shown(process.pid).items():
                self.shown[what] |= texts
            time.sleep(0.05)
        return process.returncode, struck

    def _go_on(self, vpn: str, **how: object) -> list[str]:
        """The same command again, with nothing in its way: it measures what is missing, and leaves what was there."""
        before, slices = lines(self.out), rows(self.out)
        done_before = {trial.id for trial in self._trials() if trial.status == "ok"}
        done = self._vpneval(vpn, "--retry-failed", **how)  # type: ignore[arg-type]
        wrong = self._judged(done, (0,))
        after = lines(self.out)
        if after[: len(before)] != before:
            wrong.append("the second call changed lines of the first")
        ids = [json.loads(line)["id"] for line in after if json.loads(line)["status"] == "ok"]
        if len(ids) != len({*ids}):
            wrong.append("a trial was measured twice")
        if done.code == 0:
            run, trials = load_run(self.out)
            lacks = {cell.key for record in run.experiments for cell in record.cells} - {trial.cell for trial in trials}
            wrong += [f"no trial of {lacks}"] if lacks else []
            wrong += wrong_slices(self.out, slices, done_before)
            wrong += [
                f"{one.id} is {one.status}: {one.reason}" for one in trials if one.status not in ("ok", "unsupported")
            ]
        return wrong

    def _trials(self) -> list[Trial]:
        with suppress(UsageError):
            return load_run(self.out)[1]
        return []

    # --- what must hold ------------------------------------------------------------------------------------------

    def _judged(self, done: Ended, codes: Sequence[int]) -> list[str]:
        wrong = judged(
            self.argv, 1 if done.code == -signal.SIGKILL else done.code, done.out, done.err, whole=done.code in (0, 1)
        )
        if done.code not in codes and done.code is not None:
            wrong.append(f"exit code {done.code}, not {' or '.join(map(str, codes))}: {done.err[-1500:]}")
        return wrong

    def _left(self) -> list[str]:
        """Processes, mounts and control groups of these runs that are still there."""
        end = time.monotonic() + GONE_WITHIN_S
        while (left := self.seen.left()) and time.monotonic() < end:
            time.sleep(0.05)
        wrong = [f"processes are left: {left}"] if left else []
        wrong += [f"a mount is left: {line}" for line in mounts().splitlines() if str(self.folder) in line]
        return wrong + [f"a control group is left: {name}" for name in self.seen.left_groups()]

    def _leaked(self) -> list[str]:
        told = [
            json.loads(line)
            for path in (self.folder / "told").glob("*.secrets")
            for line in path.read_text().splitlines()
        ]
        secrets = {f"{number} {name}": text for number, made in enumerate(told) for name, text in made.items()}
        there = files(self.out) if self.out.exists() else {}
        seen = {what: b"\n".join(texts) for what, texts in self.shown.items()}
        if self.kind == self.plugin:  # which may have put its keys there itself
            seen = {}
        # What every process of the gateways has shown of itself when the tunnel was up.
        for path in (path for what in self.shown for path in (self.folder / "told").glob(f"*.{what}")):
            seen[path.name] = path.read_bytes()
        return leaks(secrets, there | seen | self.consoles)


def is_instrument(words: Sequence[str]) -> bool:
    """Is this the command of something that measures, or of a node itself: no part of any VPN?"""
    return any('"name": "' in word for word in words) or any(
        {*instrument} <= {*words} for instrument in INSTRUMENTS.values()
    )


def blamed(trials: Sequence[Trial], blameless: Set[str]) -> list[str]:
    """What is wrong where trials of these VPNs failed, though something else was killed."""
    failed = [one for one in trials if one.vpn in blameless and one.status == "failed"]
    return [f"{one.vpn} is blamed: {one.reason}" for one in failed]


ROOT = Path(__file__).parents[2]
