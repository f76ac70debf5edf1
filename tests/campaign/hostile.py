"""Machines that lie, and inventories that no sane person writes."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from tests.unit.lab.test_hostile_words import VALUES

# What stands in ssh(1)'s place, whatever it is asked: each answers at once, or after a moment.
ANSWERS = (
    "exit 255",
    "echo 'Permission denied (publickey).' >&2; exit 255",
    "printf '\\033[2J\\033]0;owned\\007'; exit 0",
    "printf '\\377\\376\\000'; exit 0",
    'echo ready; echo \'{"id": 1, "code": 0}\'; cat >/dev/null',
    'echo \'[{"ifname": "$(id)", "addr_info": [{"local": "198.51.100.2$(id>OWNED)"}]}]\'; exit 0',
    'echo \'{"id": "x", "out": 7, "code": "$(id)"}\'; sleep 1',
    "echo null; echo '[' ; echo 17; exit 1",
    "head -c 20000000 /dev/zero; exit 0",
    "yes '$(id)' | head -c 20000000; exit 0",
    'yes \'{"id":1,"code":0}\' | head -n 100000; exit 0',
    "cat; exit 0",
    "kill -SEGV $$",
    "printf '%05000d' 7; exit 3",
    "echo 12345; sleep 2",
)


def lying_machine(rng: random.Random, folder: Path) -> tuple[str, str]:
    """Put a program of the name ssh into ``folder``; what it does, and the PATH that leads to it."""
    answer = rng.choice(ANSWERS)
    folder.mkdir()
    (folder / "ssh").write_text(f"#!/bin/sh\n{answer}\n")
    (folder / "ssh").chmod(0o755)
    return f"ssh: {answer}", f"{folder}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def hostile_inventory(rng: random.Random, path: Path) -> str:
    """Another value for one key of an inventory; what it is."""
    lines = path.read_text().splitlines()
    places = [number for number, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    value = rng.choice(VALUES)
    if not places or value is None:
        return f"{path.name}: nothing"
    number = rng.choice(places)
    key = lines[number].partition(" ")[0]
    text = json.dumps(value).replace("{", "{ ").replace(": ", " = ") if isinstance(value, dict) else json.dumps(value)
    lines[number] = f"{key} = {text}"
    path.write_text("\n".join(lines) + "\n")
    return f"{path.name}: {lines[number][:80]!r}"
