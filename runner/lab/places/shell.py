"""A machine that has a POSIX shell and ssh's server side, and nothing of ours: no Python, no agent, no image.

Each command is a login of its own, so that whatever it has started ends with its connection. Nothing is written there.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runner.data.errors import CannotRunHere, CommandError, LabError
from runner.lab.node import PATIENCE, Completed
from runner.lab.node.answers import not_understood, own_words, sections, understood
from runner.lab.node.commands import KILLED, TOO_MUCH, SaidTooMuch, run_to_end
from runner.lab.places import keys
from runner.lab.places.inventory import Device
from runner.lab.readings.hardware import machine_of, ports_of, read_files

NAME = "device"
SSH_FAILED = 255  # ssh(1), EXIT STATUS: its own, or that of a command
LOGIN_S = 30.0  # a small processor takes seconds for the keys
# Before the inventory's options: of an option given twice, ssh takes the first. A cipher holds for a connection.
OPTIONS = tuple(
    word
    for option in (
        *("BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=6", "LogLevel=INFO"),
        *("ControlMaster=no", "ControlPath=none", "Compression=no", "RequestTTY=no", "RemoteCommand=none"),
        *("ForwardAgent=no", "ForwardX11=no", "ClearAllForwardings=yes"),
    )
    for word in ("-o", option)
)
# Some servers give a command a PATH without sbin.
BEFORE = "PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C; export PATH LC_ALL; exec"
PROGRAMS = {  # -> what there is not without it, and the package of OpenWrt that has it
    "dd": ("rate of 100 MB through ssh", "busybox"),
    "openssl": ("rate of openssl speed", "openssl-util"),
    "iperf3": ("TCP throughput without a VPN", "iperf3"),
}
# Sections end with a separator. Before the first one stands what a login says to everybody. $@: programs.
LOOK = r"""
printf '\036'; for t; do command -v "$t" > /dev/null || echo "$t"; done; printf '\036'
openssl version 2> /dev/null; printf '\036'
iperf3 --version 2> /dev/null; printf '\036'
uname -m; printf '\036'
{ tr -d '\000' < /proc/device-tree/model; } 2> /dev/null
"""
VERSION = r"\d{1,4}(?:\.\w{1,8}){1,3}"


@dataclass(frozen=True)
class Looked:
    """What a device says of itself. ``lacks``: those of PROGRAMS that it has not; ``versions``: of those that it has
    and that tell; ``machine``: as uname(1) names it; ``model``: its board, or "". ``about``, ``ports``: see
    ``runner.lab.readings.hardware``."""

    lacks: tuple[str, ...]
    versions: Mapping[str, str]
    machine: str
    model: str
    about: Mapping[str, Any]
    ports: Mapping[str, Any]


class Shell:
    """The shell of a device, through OpenSSH."""

    name = NAME

    def __init__(self, machine: Device) -> None:
        self.machine = machine

    def argv(self, *argv: str, options: tuple[str, ...] = ()) -> list[str]:
        """The local command that runs ``argv`` on the device, with more ``options`` of ssh(1)."""
        words = [*options, *OPTIONS, *self.machine.options_of_ssh(), self.machine.address]
        return ["ssh", *words, f"{BEFORE} {shlex.join(argv)}"]

    def run(
        self,
        *argv: str,
        check: bool = True,
        timeout: float = LOGIN_S,
        input: str | None = None,
        options: tuple[str, ...] = (),
    ) -> Completed:
        """As Node.run. Raises LabError too, where ssh fails and not the command."""
        within_s = max(timeout, LOGIN_S) * PATIENCE
        try:
            done = Completed(*run_to_end(self.argv(*argv, options=options), within_s, input or ""))
        except subprocess.TimeoutExpired:
            raise CommandError(self.name, argv[:1], None, "", within_s) from None
        except SaidTooMuch:
            raise CommandError(self.name, argv[:1], KILLED, TOO_MUCH) from None
        if done.code == SSH_FAILED:
            raise LabError(f"the device ({self.machine.address}) cannot be reached: {last_line(done.stderr)}")
        if check and done.code:
            raise CommandError(self.name, argv[:1], done.code, done.stderr)
        return done

    def denies(self, cipher: str) -> str:
        """Why ssh cannot log in with this cipher, in ssh's words; empty where it can. Raises LabError where it cannot
        log in at all."""
        code, _, said = run_to_end(self.argv("true", options=("-c", cipher)), LOGIN_S * PATIENCE)
        if code == SSH_FAILED:
            self.run("true")
        return last_line(said) if code == SSH_FAILED else ""

    def look(self) -> Looked:
        """What the device says of itself. Raises CannotRunHere where ssh does not log in, with what to do, and where
        the device does not answer as it should."""
        words = [*self.machine.options_of_ssh(), self.machine.address]
        if lack := keys.missing(self.machine):
            raise CannotRunHere(f"the device: {lack}")
        try:
            said = self.run("sh", "-c", LOOK, "sh", *PROGRAMS, check=False).stdout
            with understood(self.name):
                files = read_files(self)
                about, ports = machine_of(files), ports_of(files)
        except (LabError, CommandError) as trouble:
            hint = keys.trouble(words, str(trouble)) or f"Try: {shlex.join(['ssh', *words])} true"
            raise CannotRunHere(f"{trouble}. {hint}") from trouble
        _, lacks, openssl, iperf3, machine, model = sections(self.name, said, 6)
        if unknown := {*lacks.split()} - {*PROGRAMS}:
            raise not_understood(self.name, f"it says {sorted(unknown)[0]!r:.80} of its programs")
        told = {
            "openssl": re.match(rf"OpenSSL ({VERSION})\b", openssl),
            "iperf3": re.match(rf"iperf ({VERSION})", iperf3),
        }
        versions = {program: match[1] for program, match in told.items() if match}
        return Looked(tuple(lacks.split()), versions, own_words(machine), own_words(model), about, ports)

    def hostname(self) -> str:
        """The address by which ssh(1) reaches the device, as its configuration has it, for another program."""
        _, said, _ = run_to_end([*self.argv("true")[:-1], "-G"], LOGIN_S)
        return next((line.partition(" ")[2] for line in said.splitlines() if line.startswith("hostname ")), "")


def last_line(said: str) -> str:
    """The last line that ssh has written: before it stand warnings."""
    return own_words(said.strip().rpartition("\n")[2]) or "no answer"
