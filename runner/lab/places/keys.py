"""Why ssh refuses to log in, where it is a key of this user's: what ssh(1) says of it is no help, or nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from runner.data.files import is_there, word
from runner.lab.places.inventory import MachineEntry

TOO_OPEN = "UNPROTECTED PRIVATE KEY FILE"  # ssh(1), of a key that others may read


def missing(machine: MachineEntry) -> str:
    """A sentence about the file that the inventory names and that is not there; empty where each is. Of a key that an
    agent holds the public part is enough: ssh_config(5), IdentityFile."""
    for name, file in (("identity", machine.identity), ("config", machine.config)):
        if file and not is_there(file) and not is_there(Path(f"{file}.pub")):
            return f"{name} names {file}, which is not there"
    return ""


def trouble(argv: Sequence[str], said: str) -> str:
    """Sentences about the keys that ``ssh`` with the arguments ``argv`` tries, after it has ``said`` that it is
    denied; empty where nothing is known."""
    if "Permission denied" not in said:
        return ""
    files = [Path(line.removeprefix("identityfile ")) for line in _lines("ssh", *argv, "-G")]
    keys = [file.expanduser() for file in files if file.expanduser().is_file()]
    held = " ".join(_lines("ssh-add", "-l"))
    sentences = [] if keys or held else ["This user has no key: ssh-keygen makes one. identity = … names another"]
    for key in keys:
        if TOO_OPEN in said and key.stat().st_mode & 0o077:
            sentences.append(f"Others may read the key {key}, so ssh does not use it: chmod 600 {word(key)}")
        elif _has_passphrase(key) and _fingerprint(key) not in held:
            sentences.append(
                f"The key {key} has a passphrase, and vpneval asks for none. Give the key to an agent, in the shell in "
                f"which vpneval runs (sudo forgets another one's): eval $(ssh-agent); ssh-add {word(key)}"
            )
    return ". ".join(sentences)


def _lines(*argv: str) -> list[str]:
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    return [line for line in done.stdout.splitlines() if argv[0] != "ssh" or line.startswith("identityfile ")]


def _has_passphrase(key: Path) -> bool:
    argv = ("ssh-keygen", "-y", "-P", "", "-f", str(key))
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False)
    return "incorrect passphrase" in done.stderr


def _fingerprint(key: Path) -> str:
    shown = _lines("ssh-keygen", "-lf", str(key))  # bits, fingerprint, comment and type
    return shown[0].split()[1] if shown else "none"
