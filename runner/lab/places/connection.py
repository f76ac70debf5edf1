"""One OpenSSH connection to a machine: every command to it, and every node that it holds, travels on it."""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runner.data.errors import CannotRunHere, LabError
from runner.lab.node import ENVIRONMENT, PATIENCE, Completed, told_late
from runner.lab.node.answers import own_words
from runner.lab.node.commands import TOO_MUCH, SaidTooMuch, run_to_end
from runner.lab.node.held import command_line
from runner.lab.node.lines import Lines, UnheardError
from runner.lab.node.namespaces import kill_group
from runner.lab.places import keys
from runner.lab.places.inventory import BY_ITSELF, MachineEntry

TELLS = ("-o", "LogLevel=INFO")  # whatever a configuration says: QUIET would hide why it fails
OLDEST_PYTHON = (3, 10)  # on the other machines: mypy checks the probes by it (tests/unit/lab/test_probes_python.py)
APART_S = 60.0  # clocks; what is made here is valid from now on
MARK = "vpneval-begins"
# SSH_CONNECTION, sshd(8): the client's address and port, then the server's.
INTRODUCTION = f"""python=$(python3 -IS -c 'import sys; print(*sys.version_info[:2])')
printf '%s|' '{MARK}' "$(id -u -n)" "$(date +%s)" "$SSH_CONNECTION" "$python\""""
USER = r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*[$]?"
# Every login shell reads these words alike, be it sh, csh or fish: no sign of them stands outside of single quotes, and
# none inside that ends them or that csh reads there. A word of csh's may have 1,023 characters.
ANY_SHELL = """sh -c 'eval "$(printf %s "$@" | base64 -d)"' sh"""
WORD = 900
SETTINGS = tuple(f"{name}={value}" for name, value in ENVIRONMENT.items())
ANSWERS_WITHIN_S = 20.0 * PATIENCE
READY_WITHIN_S = 45.0 * PATIENCE  # all together: the login, sessions, who it is, and sudo
TOLD_AFTER_S = 5.0 * PATIENCE
SESSIONS = 8  # at once, of one machine's nodes, the probes in them, and a command beside


class Connection:
    """One OpenSSH connection, on which every command to the machine travels (ssh_config(5) ControlMaster)."""

    def __init__(
        self, name: str, machine: MachineEntry, folder: Path, say: Callable[[str], object] = lambda text: None
    ) -> None:
        """Start to connect; ``folder`` is private to the run. The connection goes with the runner. ``say`` is told
        where the machine is slow to answer."""
        self.name, self.machine, self._say = name, machine, say
        self.sudo: tuple[str, ...] = ()
        self.client, self.server = "", ""  # the ends of ssh's own connection, as the machine sees them
        self.diagnose: Callable[[], str] = lambda: ""  # why it may not answer, where somebody knows
        self._socket, self._said = folder / name, folder / f"{name}.log"
        self._options = [
            *machine.options_of_ssh(),
            *("-o", f"ControlPath={self._socket}", "-o", "ControlPersist=no", "-o", "BatchMode=yes"),
            *(
                "-o",
                "RequestTTY=no",
                "-o",
                "RemoteCommand=none",
                "-o",
                "ForwardAgent=no",
                "-o",
                "ForwardX11=no",
                "-o",
                "ClearAllForwardings=yes",
            ),
        ]
        with self._said.open("wb") as log_file:
            self._master = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "ssh", *TELLS, *self._options, "-o", "ControlMaster=yes", "-N"),
                    *("-o", "ConnectTimeout=10"),
                    *("-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6"),
                    machine.address,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log_file,
                start_new_session=True,
            )

    def wait_ready(self, *, as_root: bool = True) -> None:
        """Wait until ssh has logged in and may become root; unless ``as_root``, it then stays whoever it is. Raises
        CannotRunHere with ssh's or sudo's own words, LabError where the machine has logged in and says no more: after
        READY_WITHIN_S at the latest."""
        name = f"{self.name} ({self.machine.address})"
        waits = f"{name} does not answer yet; vpneval waits for it, {READY_WITHIN_S:.0f} s at most"
        with told_late(self._say, waits, TOLD_AFTER_S):
            self._become_ready(time.monotonic() + READY_WITHIN_S, as_root)

    def _become_ready(self, end: float, as_root: bool) -> None:
        if lack := keys.missing(self.machine):
            self.close()
            raise CannotRunHere(f"{self.name}: {lack}")
        begun = time.monotonic()
        while not self._socket.exists():
            if self._master.poll() is not None or time.monotonic() > min(end, begun + ANSWERS_WITHIN_S):
                self.close()
                words = [*self.machine.options_of_ssh(), self.machine.address]
                why = keys.trouble(words, self._said.read_text(errors="replace"))
                hint = why or f"Try: {shlex.join(['ssh', *TELLS, *words])} true"
                raise CannotRunHere(f"{self.name} cannot be reached: {self.last_ssh_line()}. {hint}")
            time.sleep(0.02)
        self._count_sessions(end)
        user = self._introduction(end)
        if user != "root":
            self.sudo = ("sudo", "-n")
            done = self.run("true", timeout=_step_timeout_s(end))
            if done.code != 0 and not as_root:
                self.sudo = ()
            elif done.code != 0:
                named = re.sub(r"([@\\])", r"\\\1", user)  # sudoers(5), special characters
                allow = [f"{named} ALL=(ALL) NOPASSWD: ALL"]
                if re.search(r"\btty\b", done.stderr, re.IGNORECASE):  # sudoers(5), requiretty
                    allow.append(f"Defaults:{named} !requiretty")
                raise CannotRunHere(
                    f"{self.name}: {user} may not become root: {own_words(done.stderr)}. Allow it there, as root: "
                    f"printf '%s\\n' {shlex.join(allow)} > /etc/sudoers.d/vpneval (and: apt-get install sudo)"
                )

    def _count_sessions(self, end: float) -> None:
        """Raise CannotRunHere where sshd allows fewer sessions on one connection than a lab has at once, LabError where
        none of them answers."""
        argv, pipe = self.plain_argv("sh", "-c", "echo here; exec cat"), subprocess.PIPE
        opened = [
            subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
            for _ in range(SESSIONS)
        ]
        allowed, until, silent = 0, time.monotonic() + _step_timeout_s(end), False
        for session in opened:
            assert session.stdout is not None
            try:
                Lines(session.stdout.fileno(), self.name).next(until - time.monotonic())
                allowed += 1
            except UnheardError as unheard:
                silent = silent or unheard.why != "ended"
        for session in opened:
            assert session.stdin is not None
            session.stdin.close()
        for session in opened:
            with suppress(subprocess.TimeoutExpired):
                session.wait(max(0.1, until - time.monotonic()))
            session.kill()
            session.wait()
        if silent:
            raise LabError(
                f"{self.name} has let ssh in, and a command there says nothing within {ANSWERS_WITHIN_S:g} s. Does it "
                f"answer? Try: {shlex.join(['ssh', *self.machine.options_of_ssh(), self.machine.address])} true"
            )
        if 0 < allowed < SESSIONS:  # none: what comes next says why
            raise CannotRunHere(
                f"{self.name}: its sshd allows {allowed} sessions on one connection, and vpneval needs {SESSIONS}. "
                "Allow them there, as root: write MaxSessions 10 into /etc/ssh/sshd_config, in the place of the line "
                "that it has, then: systemctl reload ssh (no connection ends)"
            )

    def _introduction(self, end: float) -> str:
        """The user that ssh logs in as. Raises CannotRunHere where the machine's shell, Python or clock does not
        fit."""
        before = time.time()
        # Not as root: env -i and sudo take SSH_CONNECTION away.
        argv = ("env", *SETTINGS, "sh", "-c", INTRODUCTION)
        output, after = self.run(*argv, timeout=_step_timeout_s(end), as_root=False).stdout, time.time()
        beside, _, answer = output.partition(MARK)
        if greeting := beside.strip():
            raise CannotRunHere(
                f"{self.name}: its shell says {greeting[:80]!r} before any command's answer. Let only "
                "interactive shells say so. Look into ~/.bashrc, ~/.profile and /etc/bash.bashrc there, "
                "and put this line first: case $- in *i*) ;; *) return ;; esac"
            )
        _, user, clock, ends, version = [*answer.strip().split("|"), *[""] * 5][:5]
        if not re.fullmatch(USER, user) or not re.fullmatch(r"[0-9]{1,12}", clock):
            raise CannotRunHere(
                f"{self.name}: sh, id, date and base64 do not answer there, but {answer.strip()[:80]!r}. {BY_ITSELF}"
            )
        self.client, _, self.server, *_ = [*ends.split(), "", "", ""]
        python = re.findall(r"\b[0-9]{1,3}\b", version)  # none: the look at the machine says that it is missing
        if python and tuple(map(int, python)) < OLDEST_PYTHON:
            needed = ".".join(map(str, OLDEST_PYTHON))
            raise CannotRunHere(
                f"{self.name} has Python {'.'.join(python)}; vpneval needs {needed} or newer there. {BY_ITSELF}"
            )
        apart_s = max(before - int(clock) - 1, int(clock) - after)
        if apart_s > APART_S:
            raise CannotRunHere(
                f"{self.name}'s clock and this machine's are {apart_s:.0f} s apart, so that certificates may not be "
                "valid yet; set them, for example with: timedatectl set-ntp true"
            )
        return user

    def last_ssh_line(self) -> str:
        """The last line that ssh itself wrote."""
        lines = [line.strip() for line in self._said.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "no answer"

    def plain_argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The local command that runs ``argv`` on the machine, as the user that ssh logs in as."""
        # A client that finds no master must fail, not connect by itself.
        only = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR")
        script = base64.b64encode(f"exec {shlex.join(argv)}".encode()).decode()
        words = [script[at : at + WORD] for at in range(0, len(script), WORD)]
        there = " ".join([ANY_SHELL, *words])
        return ["ssh", *only, *self._options, *(["-t"] if tty else []), self.machine.address, there]

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """The local command that runs ``argv`` on the machine as root, with a node's environment."""
        return self.plain_argv(*self.sudo, "env", "-i", *SETTINGS, *argv, tty=tty)

    def run(
        self, *argv: str, timeout: float = ANSWERS_WITHIN_S, as_root: bool = True, input: str | None = None
    ) -> Completed:
        """Run a command on the machine itself, outside of any node; ``input``: a short text for it to read. Raises
        LabError when it does not answer."""
        command = self.argv(*argv) if as_root else self.plain_argv(*argv)
        try:
            return Completed(*run_to_end(command, timeout, input or ""))
        except subprocess.TimeoutExpired as late:
            raise LabError(f"{self.name} did not answer within {timeout:g} s") from late
        except SaidTooMuch as endless:
            raise LabError(f"{self.name}, asked {command_line(argv)[:80]}: {TOO_MUCH}") from endless

    def alive(self) -> bool:
        """Is the OpenSSH master still there?"""
        return self._master.poll() is None

    def close(self) -> None:
        """Close the connection: whatever is still held through it ends."""
        self._master.terminate()
        try:
            self._master.wait(5)
        except subprocess.TimeoutExpired:
            kill_group(self._master)
            self._master.wait()


def _step_timeout_s(end: float) -> float:
    """So long may the next step take, of those that have to be done at ``end``."""
    return min(ANSWERS_WITHIN_S, max(0.1, end - time.monotonic()))
