"""Run folders that lie: names that are paths, programs or words of a shell, and values of another type; and machines
that answer late."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from operator import setitem
from pathlib import Path
from typing import Any

from tests.campaign.commands import COMPARED, PLUGIN, SITE_FILES, CommandCase, command_line
from tests.campaign.folders import state
from tests.campaign.judge import judged

OF_FOLDERS = ("report", "compare", "history", "watch", "why", "recipe", "more", "papers")
OF_MACHINES = ("doctor", "recipe", "lab", "run")
# Commands that go by what a run says, as far as without a lab.
GOING_BY = (
    ("recipe", "--run", "a", "--line", "100M"),
    ("recipe", "openvpn", "--run", "a"),
    ("recipe", "wireguard_go", "--run", "a", "--line", "10M"),
    ("more", "a"),
    ("more", "a", "--reps", "2"),
)
TYPES: tuple[Any, ...] = ("1400", 7, -1, 0.5, True, None, [], {}, [[]], {"x": {}}, ["x"], "x" * 70_000)
# In ssh(1)'s place; each ends by itself, or with its input.
SLOW = (
    "sleep 2; exit 255",
    "sleep 1; echo 'Permission denied (publickey).' >&2; exit 255",
    "for letter in r e a d y; do printf $letter; sleep 0.3; done; echo; exit 0",
    "printf '{\"id\": 1, '; sleep 2; exit 1",
    'sleep 1; echo 1234; sleep 1; echo \'{"id": 1, "out": "\'; exit 0',
    "(sleep 1; echo late) & exit 0",
    'read -r line; sleep 1; echo "$line"; exit 0',
    # What no machine says: a line without an end, 64 MiB of it, one that is deeper than it is long, wrong types.
    "head -c 67108864 /dev/zero | tr '\\0' x; exit 0",
    'printf \'{"id": 1, "out": \'; head -c 8388608 /dev/zero | tr "\\0" "["; exit 0',
    'yes \'{"id": [], "code": "x", "out": {"../../x": "$(touch OWNED)"}}\' | head -n 5000; exit 0',
    "echo null; echo 7; echo '[[]]'; sleep 1; exit 0",
    "echo ready; printf '{\"id\": 1'; sleep 3; exit 0",
)


class LyingCase(CommandCase):
    """One case: a command, and a folder that lies or machines that are slow."""

    def __init__(self, seed: int, number: int, base: Path) -> None:
        super().__init__(seed, number, base)
        self.slow = self.rng.random() < 0.25
        self.argv = command_line(self.rng, OF_MACHINES if self.slow else OF_FOLDERS)
        if self.argv[0] in ("recipe", "more") and self.rng.random() < 0.7:
            self.argv = list(self.rng.choice(GOING_BY))
        while self.slow and not any(name in " ".join(self.argv) for name in SITE_FILES):
            self.argv = command_line(self.rng, OF_MACHINES)
        self.lies_told = self.rng.choice((1, 1, 2, 5, 20))

    def run(self) -> list[str]:
        """Do it in a folder of its own, beside which is what the folder's names lead to."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
            folder, outside, owned = (Path(scratch, name) for name in ("work", "outside", "OWNED"))
            shutil.copytree(self.base, folder)
            outside.mkdir()
            (outside / "file").write_text("not of any run\n")
            (outside / "evil.py").write_text(f"open({str(owned)!r}, 'w')\n{PLUGIN}")
            if self.slow:
                self.said.append(slow_machine(self.rng, Path(scratch, "bin")))
                self.environment["PATH"] = f"{scratch}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
            else:
                names = names_of(outside, owned)
                self.said += [lie(self.rng, folder, names) for _ in range(self.lies_told)]
            before, read = state(outside), state(folder)
            code, out, err = self._process(Path(scratch), folder)
            wrong = judged(self.argv, code, out, err, whole=self.to == "file", peak_kb=self.peak_kb)
            wrong += ["it changed what is outside of the folder"] * (state(outside) != before)
            if self.argv[0] in OF_FOLDERS[:5] and "--write" not in self.argv and state(folder) != read:
                wrong.append("it changed what it read")
            wrong += [f"what was data ran: {path}" for path in Path(scratch).rglob("OWNED")]
        return wrong


def names_of(outside: Path, owned: Path) -> list[str]:
    """What may stand in a name's place."""
    evil, file = outside / "evil.py", outside / "file"
    paths = [str(evil), "../outside/evil.py", "../../outside/evil.py", str(file), "../../outside/file", "..", "/", "."]
    shell = [
        f"x; touch {owned} #",
        f"$(touch {owned})",
        f"`touch {owned}`",
        f"x\ntouch {owned}\n",
        f"'; touch {owned}; '",
    ]
    return [*paths, *shell, f"-oProxyCommand=touch {owned}", "x```\ntouch " + str(owned), "\x00", "a/b", "\u202e", ""]


def lie(rng: random.Random, folder: Path, names: list[str]) -> str:
    """Another name, key or type somewhere in a run, or a note of a farm's block that names other files; says what."""
    run = folder / rng.choice(("a", "a", "b", "results/last", "p/host"))
    if not run.is_dir():
        run = folder / "a"
    if rng.random() < 0.1:
        note = {rng.choice([*names, "trials.jsonl", "slices.jsonl"]): rng.choice((0, 0, 10**6, -1, *TYPES))}
        (run / ".block").write_text(json.dumps(note))
        return f"{run.name}/.block: {str(note)[:80]}"
    if rng.random() < 0.3:
        old, new = rng.choice((*COMPARED, "transport", "trixie", "idle", "rtt", "netns")), rng.choice(names)
        for path in run.glob("*.json*"):
            path.write_text(path.read_text().replace(json.dumps(old), json.dumps(new)))
        return f"{run.name}: {old} is {new[:60]!r} everywhere"
    path = run / rng.choice(("run.json", "run.json", "trials.jsonl", "slices.jsonl"))
    try:
        lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
        number = rng.randrange(len(lines))
        told = json.loads(lines[number])
    except (OSError, ValueError):
        return "nothing"
    places = list(leaves(told))
    if not places:
        return "nothing"
    change, where = rng.choice(places)
    value = rng.choice(names) if rng.random() < 0.7 else rng.choice(TYPES)
    change(value)
    lines[number] = json.dumps(told)
    path.write_text("\n".join(lines) + "\n")
    return f"{run.name}/{path.name} line {number + 1} {where}: {str(value)[:60]!r}"


def leaves(node: Any, where: str = "") -> list[tuple[Callable[[Any], None], str]]:
    """What changes each value, and each key, below ``node``; and where it is."""
    found: list[tuple[Callable[[Any], None], str]] = []
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        here = f"{where}.{key}"
        found.append((partial(setitem, node, key), here))
        if isinstance(node, dict):
            found.append((partial(rename, node, key), f"{here} (its name)"))
        if isinstance(node[key], dict | list):
            found += leaves(node[key], here)
    return found


def rename(node: dict[Any, Any], key: Any, name: Any) -> None:
    """Give what ``key`` has another key."""
    node[str(name)] = node.pop(key)


def slow_machine(rng: random.Random, programs: Path) -> str:
    """Put a program of the name ssh into ``programs``; what it does."""
    answer = rng.choice(SLOW)
    programs.mkdir()
    (programs / "ssh").write_text(f"#!/bin/sh\n{answer}\n")
    (programs / "ssh").chmod(0o755)
    return f"ssh: {answer}"
