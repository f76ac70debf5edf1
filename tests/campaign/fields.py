"""Run folders that somebody sent: one field of run.json or trials.jsonl has a hostile value, and a command reads it.

Beside what every command must keep to: nothing of the folder is executed (each value that is code makes a file OWNED),
nothing outside of the folder is changed, and no line of a page or script is a line of the value.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.cli import measuring
from runner.lab.places import rootless
from tests.campaign.commands import CommandCase, no_lab
from tests.campaign.folders import state
from tests.campaign.judge import judged

RESULTS = Path(__file__).parents[2] / "results"
# Folders whose fields are tried, in which all kinds of details are.
SOURCES = {
    "quick": "examples/two-cores-quick",
    "paths": "behaviour",
    "security": "papers/security-ranked",
    "thesis": "papers/thesis",
    "handover": "papers/handovers-ha_sync",
}
LINES = 3  # of each VPN and metric
VPNS = ("none", "openvpn", "wireguard_go", "ipsec_user", "ipsec", "ssh_tun")
RUN = "a"
OWNED = "touch OWNED"
EVIL_PY = 'import pathlib\npathlib.Path("OWNED").touch()\n'
EVIL_TOML = """
[gw1]
address = "127.0.0.1"
port = 1
options = ["ProxyCommand=sh -c 'touch OWNED'"]
[gw2]
address = "127.0.0.1"
port = 2
"""
SITE = {
    **{"kind": "site", "uplink": "dsl", "wan_ip_version": 4},
    "path": {
        **{"mtu_bytes": 1400, "on_link": False, "nat": "", "tried": ["udp/51820"], "open": ["udp/51820"]},
        **{
            "rtt_ms": [1.0, 2.0, 3.0],
            "loss_ratio": 0.01,
            "dscp_kept": [True],
            "ecn_kept": [True],
            "clock_ahead_s": 0.1,
        },
        **{"rates_bps": [1e8, 1e8], "most_bps": None, "seen_as": "192.0.2.1", "taken": {"gw1": {"udp/1": "x"}}},
        **{"answers_pings": False, "links": {"gw1": ["tun0"]}},
    },
}
COMMANDS = (
    *(f"report {RUN} --format {form}" for form in ("term", "html", "md", "latex", "json", "csv", "findings")),
    f"report {RUN} --full",
    f"report {RUN} --line 100M",
    f"report {RUN} --format html --line 100M",
    f"why openvpn wireguard_go {RUN}",
    f"more {RUN}",
    f"more {RUN} --deadline 10m",
    f"more {RUN} --line 100M",
    f"compare {RUN} whole",
    f"compare whole {RUN} --format html",
    f"compare {RUN}",
    f"history {RUN} whole",
    f"watch {RUN}",
    f"recipe openvpn --run {RUN}",
    f"recipe wireguard_go --run {RUN}",
    f"recipe wireguard_go --run {RUN} --site sites.toml",
    f"recipe --run {RUN} --line 100M",
)
VALUES: tuple[Any, ...] = (
    *("x/evil.py", "evil.py", "evil.py@1", "./evil.py@1@2", f"{RUN}/evil.py", "site:evil.toml", "ssh:evil.toml"),
    *(f"$({OWNED})", f"`{OWNED}`", f"'; {OWNED} #", f"1400; {OWNED} #", f"\n```\n{OWNED}\n```\n", f"x\r\n{OWNED}\n"),
    *("../../OWNED", "/etc/passwd", "..", ".", "", " ", "evil.toml", "tcp://127.0.0.1:1", "a\0b", "\x1b]0;x\x07"),
    *("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "| [x](http://y)"),
    *(10**30, -(10**30), -1, 0, 1, 0.5, 1e308, -1e308, 5e-324, 2**53, 10**9, float("nan"), float("inf")),
    *(True, None, [], {}, [None], {"x": 1}, "x" * 100_000, "9" * 5000, "nan", "1e999", "-1", "٣", "\u202e", "%s{0}"),
)
HOSTILE_LINES = (OWNED, "</script><script>", "<img src=x")


def prepare_fields(folder: Path) -> None:
    """A folder of each source with few lines of each kind, and what the hostile values name."""
    for name, source in SOURCES.items():
        run, lines = json.loads((RESULTS / source / "run.json").read_text()), list[str]()
        seen: dict[str, int] = {}
        for text in (RESULTS / source / "trials.jsonl").read_text().splitlines():
            line = json.loads(text)
            kinds = [f"{line['vpn']} {found['metric']}" for found in line["measurements"]] or [
                f"{line['vpn']} {line['status']}"
            ]
            if line["vpn"] in VPNS and any(seen.get(kind, 0) < LINES for kind in kinds):
                seen |= {kind: seen.get(kind, 0) + 1 for kind in kinds}
                lines.append(text)
        run["lab"] |= SITE if name == "quick" else {}
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text(json.dumps(run))
        (folder / name / "trials.jsonl").write_text("\n".join(lines) + "\n")
        (folder / name / "evil.py").write_text(EVIL_PY)
    for name in ("x/evil.py", "evil.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(EVIL_PY)
    (folder / "evil.toml").write_text(EVIL_TOML)
    (folder / "sites.toml").write_text(
        '[gw1]\naddress = "192.0.2.1"\nwan_address = "192.0.2.1"\nnetwork = "10.1.0.0/16"\n'
        '[gw2]\naddress = "192.0.2.9"\nwan_address = "192.0.2.9"\nnetwork = "10.2.0.0/16"\n'
        "[uplink.dsl]\n"
    )


def fields(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each leaf, and to each key, of JSON data; a key's way ends with None."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*way, key, None)
            yield from fields(inner, (*way, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from fields(inner, (*way, number))
    yield way


def put(data: Any, way: tuple[Any, ...], value: Any) -> None:
    """The value in the place of what the way leads to, or of the key."""
    *before, last = way[:-1] if way[-1] is None else way
    for step in before:
        data = data[step]
    if way[-1] is None:
        data[value if isinstance(value, str) else json.dumps(value)] = data.pop(last)
    else:
        data[last] = value


def kind_of(way: tuple[Any, ...]) -> str:
    """The field that a way leads to: the same in each element of a list."""
    steps = (*way[:-2], "KEY") if way[-1:] == (None,) else way
    return ".".join("[]" if isinstance(step, int) else str(step) for step in steps)


class FieldCase(CommandCase):
    """One case: a command, a field and a hostile value of it."""

    def __init__(self, seed: int, number: int, base: Path) -> None:
        super().__init__(seed, number, base)
        rng = self.rng = random.Random(f"{seed}/{number}/fields")
        self.argv, self.to, self.encoding, self.environment = rng.choice(COMMANDS).split(), "file", "utf-8", {}
        self.source, self.value = rng.choice([*SOURCES]), rng.choice(VALUES)

    def run(self) -> list[str]:
        """Do it in a folder of its own, in a process of its own."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
            folder = Path(scratch) / "work"
            shutil.copytree(self.base / "fields", folder)
            shutil.copytree(folder / "quick", folder / "whole")
            (folder / self.source).rename(folder / RUN)
            self.said.append(f"{self.source}: {self._spoil(folder / RUN)}")
            before = state(folder)
            code, out, err = self._process(Path(scratch), folder)
            wrong = judged(self.argv, code, out, err)
            if state(folder) != before:
                wrong.append("it changed what it read")
            if owned := [*Path(scratch).rglob("*OWNED*")]:
                wrong.append(f"the folder was run: {owned}")
            if self.argv[0] == "recipe" or "md" in self.argv or "html" in self.argv:
                wrong += [f"{line!r:.200} is in the page" for line in out.splitlines() if hostile(line)]
        return wrong

    def _spoil(self, folder: Path) -> str:
        name = self.rng.choice(("run.json", "run.json", "trials.jsonl"))
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        kinds: dict[str, list[tuple[Any, ...]]] = {}
        for number, line in enumerate(lines):
            for way in fields(line):
                if way:
                    kinds.setdefault(kind_of(way), []).append((number, *way))
        kind = self.rng.choice([*kinds])
        ways = kinds[kind] if self.rng.random() < 0.3 else [self.rng.choice(kinds[kind])]
        for way in ways:
            put(lines[way[0]], way[1:], self.value)
        (folder / name).write_text("\n".join(map(json.dumps, lines)) + "\n")
        return f"{name}, {kind} {len(ways)} times: {str(self.value)[:60]!r}"

    def _child(self, scratch: Path, folder: Path) -> None:
        rootless.enter = lambda lab: None
        for name in ("measure_and_report", "prepare"):  # so that all before that is real
            setattr(measuring, name, no_lab)
        super()._child(scratch, folder)


def hostile(line: str) -> bool:
    """Is this line of a page code of the value: a command by itself, or a tag?"""
    return line.strip() == OWNED or any(tag in line for tag in HOSTILE_LINES[1:]) or f"; {OWNED}" in line
