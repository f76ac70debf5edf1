"""A node on another machine: namespaces there, held through OpenSSH, with the machine's ports moved into them.

The node is made as on this machine, with the other machine's own root under it. What it changes is therefore
in namespaces, and goes with them, but for one thing: the ports that were moved into it. The script that holds
the node (``KEEP``) runs outside of it, and puts them back as they were when the node ends, however it ends: the
runner lets it go, the connection breaks, or the runner is silent for ``SILENCE_S``. It is the watchdog.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from runner.errors import CannotRunHere, CommandError, LabError
from runner.labs.inventory import Machine
from runner.node import ENVIRONMENT, INIT, NSENTER, PATIENCE, UNSHARE, Completed, NamespaceNode, kill_group

SILENCE_S = 30  # a node that has not heard from its runner for so long ends
HEARTBEAT_S = 5
UNDO_WITHIN_S = 20.0 * PATIENCE
ANSWERS_WITHIN_S = 5.0 * PATIENCE

# Holds a node on the machine, lends it the ports, takes them back. In: INIT, ROOT, NAME, SILENCE; PORTS, a line
# "own-name lab-name" each; RESTORE and RESTORE6, lines for ip -batch; SYSCTLS, a line "path value" each.
# Moving an interface to another network namespace takes its addresses, routes and sysctls away (ip-link(8)). The
# descriptor 9 keeps the namespace until the ports are out: with it, the kernel would delete the virtual ones.
# Killed itself, it takes the node along; physical ports then fall back to the machine, without their addresses.
KEEP = rf"""
set -u
trap '' HUP INT TERM PIPE
exec 3<&0
exec 4< <(trap - HUP INT TERM PIPE
    exec setpriv --pdeathsig KILL {shlex.join(UNSHARE)} bash -c "$INIT" <&3 3<&-)
holder=$!
exec 3<&- < /dev/null
read -r pid <&4 && exec 9< "/proc/$pid/ns/net" || exit 1
code=0
while read -r own lab; do
    [ -z "$own" ] || ip link set dev "$own" netns "$pid" name "$lab" || {{ code=1; kill -KILL "$holder"; break; }}
done <<< "$PORTS"
[ $code = 1 ] || echo "$pid"
wait "$holder"
while read -r own lab; do
    [ -z "$own" ] || ip link show dev "$own" > /dev/null 2>&1 ||
        nsenter --net=/proc/self/fd/9 ip link set dev "$lab" netns $$ name "$own" || code=1
done <<< "$PORTS"
ip -force -batch - <<< "$RESTORE" || code=1
ip -6 -force -batch - <<< "$RESTORE6" || code=1
while read -r path value; do
    [ -z "$path" ] || echo "$value" > "$path" || code=1
done <<< "$SYSCTLS"
exit $code
"""


@dataclass(frozen=True)
class Lent:
    """A machine's ports that a node gets, and how they are made again what they were before."""

    ports: Mapping[str, str]  # the name in the lab -> the machine's own
    restore: str = ""
    restore6: str = ""
    sysctls: str = ""


class Connection:
    """One OpenSSH connection, on which every command to the machine travels (ssh_config(5) ControlMaster)."""

    def __init__(self, name: str, machine: Machine, folder: Path) -> None:
        """Start to connect; ``folder`` is private to the run. The connection goes with the runner."""
        self.name, self.machine = name, machine
        self.sudo: tuple[str, ...] = ()
        self._socket, self._said = folder / name, folder / f"{name}.log"
        self._options = [
            *machine.options_of_ssh(),
            *("-o", f"ControlPath={self._socket}", "-o", "ControlPersist=no", "-o", "BatchMode=yes"),
            *("-o", "ForwardAgent=no", "-o", "ForwardX11=no", "-o", "ClearAllForwardings=yes"),
        ]
        with self._said.open("wb") as said:
            self._master = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "ssh", *self._options, "-o", "ControlMaster=yes", "-N"),
                    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"),
                    machine.address,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                start_new_session=True,
            )

    def wait_ready(self) -> None:
        """Wait until the machine lets us in, and as root. Raises CannotRunHere with ssh's or sudo's own words."""
        end = time.monotonic() + 20 * PATIENCE
        while not self._socket.exists():
            if self._master.poll() is not None or time.monotonic() > end:
                self.close()
                by_hand = shlex.join(["ssh", *self.machine.options_of_ssh(), self.machine.address])
                raise CannotRunHere(f"{self.name} cannot be reached: {self.said()}; try: {by_hand} true")
            time.sleep(0.02)
        user = self.run("id", "-u", "-n").stdout.strip()
        if user != "root":
            self.sudo = ("sudo", "-n")
            done = self.run("true")
            if done.code != 0:
                raise CannotRunHere(
                    f"{self.name}: {user} may not become root: {done.stderr.strip()}. Allow it there, as root: "
                    f"echo '{user} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/vpneval (and: apt-get install sudo)"
                )

    def said(self) -> str:
        """The last that ssh itself said."""
        lines = [line.strip() for line in self._said.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "no answer"

    def plain_argv(self, *argv: str, tty: bool = False) -> list[str]:
        """This machine's command that runs ``argv`` on the other, as the user that ssh comes as."""
        # A client that finds no master must fail, not connect by itself.
        only = ("-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-o", "LogLevel=ERROR")
        return ["ssh", *only, *self._options, *(["-t"] if tty else []), self.machine.address, shlex.join(argv)]

    def argv(self, *argv: str, tty: bool = False, variables: Mapping[str, str] | None = None) -> list[str]:
        """The same as root, with ``variables`` in its environment."""
        settings = [f"{name}={value}" for name, value in {**ENVIRONMENT, **(variables or {})}.items()]
        return self.plain_argv(*self.sudo, "env", "-i", *settings, *argv, tty=tty)

    def run(self, *argv: str, timeout: float = 20.0 * PATIENCE, as_root: bool = True) -> Completed:
        """Run a command on the machine itself, outside of any node. Raises LabError when it does not answer."""
        command = self.argv(*argv) if as_root else self.plain_argv(*argv)
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as late:
            raise LabError(f"{self.name} did not answer within {timeout:g} s") from late
        return Completed(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))

    def alive(self) -> bool:
        return self._master.poll() is None

    def close(self) -> None:
        """Close the connection: whatever is still held through it ends."""
        self._master.terminate()
        try:
            self._master.wait(5)
        except subprocess.TimeoutExpired:
            kill_group(self._master)
            self._master.wait()


class SshNode(NamespaceNode):
    """A namespace node on another machine."""

    environment = os.environ  # ssh wants HOME and perhaps an agent; the command's own environment is fixed

    def __init__(
        self, name: str, connection: Connection, lent: Lent, log: Callable[[str], object] = lambda line: None
    ) -> None:
        self.connection, self.lent = connection, lent
        self._jobs: dict[str, str] = {}  # the command as sent -> the file on the node with its process group
        for lab_name, own in lent.ports.items():
            log(f"[{name}'s machine] ip link set dev {own} netns {name} name {lab_name}")
        super().__init__(name, Path("/"), log)

    def _hold(self, root: Path) -> subprocess.Popen[str]:
        variables = {
            **{"INIT": INIT, "ROOT": str(root), "NAME": self.name, "SILENCE": str(SILENCE_S)},
            "PORTS": "\n".join(f"{own} {lab_name}" for lab_name, own in self.lent.ports.items()),
            **{"RESTORE": self.lent.restore, "RESTORE6": self.lent.restore6, "SYSCTLS": self.lent.sysctls},
        }
        return subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *self.connection.argv("bash", "-c", KEEP, variables=variables)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def beat(self) -> None:
        """Tell the node that its runner is there."""
        assert self._holder.stdin is not None
        with suppress(OSError, ValueError):  # ValueError: it has been let go meanwhile
            self._holder.stdin.write("\n")
            self._holder.stdin.flush()

    def argv(self, *argv: str, tty: bool = False) -> list[str]:
        """This machine's command that runs ``argv`` inside the node."""
        return self.connection.argv(*NSENTER, str(self.pid), *argv, tty=tty)

    def job(self, *argv: str) -> list[str]:
        # Ending ssh does not end what it started: a process group of its own does, its number kept on the node.
        number = f"/run/vpneval-{len(self._jobs) + 1}"
        command = self.argv("setsid", "sh", "-c", 'echo $$ > "$0"; exec "$@"', number, *argv)
        self._jobs[command[-1]] = number
        return command

    def end(self, process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
        number = self._jobs[cast(list[str], process.args)[-1]]
        kill = 'for _ in 1 2 3 4 5; do [ -s "$0" ] && break; sleep 0.1; done; kill -s KILL -- -"$(cat "$0")"'
        if self._holder.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                ended = self.argv("sh", "-c", kill, number)
                subprocess.run(
                    ended, stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWERS_WITHIN_S, check=False
                )
        kill_group(process)

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """As NamespaceNode.run. Raises LabError where the machine, not the command, is what failed."""
        try:
            done = super().run(*argv, check=check, timeout=timeout, input=input)
        except CommandError as error:
            if error.code in (None, 255):
                self.check_reachable()
            raise
        if done.code == 255:  # ssh's own failure, or the command's
            self.check_reachable()
        return done

    def check_reachable(self) -> None:
        """Raise LabError unless the node still answers."""
        if not self.alive():
            raise LabError(f"{self.name} ({self.connection.machine.address}) does not answer any more")

    def alive(self) -> bool:
        """Does the node answer, within ANSWERS_WITHIN_S?"""
        if self._holder.poll() is not None or not self.connection.alive():
            return False
        try:
            ask = subprocess.run(
                self.argv("true"), stdin=subprocess.DEVNULL, capture_output=True, timeout=ANSWERS_WITHIN_S, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return ask.returncode == 0

    def stop(self) -> None:
        """Let the node go and wait until the machine is as before. Raises LabError where that is not certain."""
        self.release()
        trouble = ""
        try:
            if code := self._holder.wait(UNDO_WITHIN_S):
                assert self._holder.stderr is not None
                trouble = self._holder.stderr.read().strip()[-500:] or f"its connection ended with {code}"
        except subprocess.TimeoutExpired:
            kill_group(self._holder)
            self._holder.wait()
            trouble = f"no answer within {UNDO_WITHIN_S:g} s"
        for process in self._background:  # they ended with the node
            process.stop()
        if trouble:
            raise LabError(
                f"{self.name} ({self.connection.machine.address}) has not confirmed that its ports are as before: "
                f"{trouble}. A machine that is alive undoes it by itself, within {SILENCE_S + 10} s"
            )
