"""Run folders that somebody sent: one field of a file has a hostile value, or a link stands where a file is written;
and a command reads the folder, writes into it or goes on with it.

Beside what every command must keep to: nothing of the folder is executed (each value that is code makes a file OWNED),
nothing is changed but what the command line says, and no line of a page or script is a line of the value.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runner.cli.commands.run import work as measuring
from runner.cli.ending import report_on
from runner.cli.options import Shown
from runner.data.store import open_store
from runner.lab.places import rootless
from runner.stages.play import folder_of
from runner.sweep.request import Request
from runner.sweep.settings import Outcome
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
    "loss": "loss",
}
LINES = 3  # of each VPN and metric
VPNS = ("none", "openvpn", "wireguard_go", "ipsec_user", "ipsec", "ssh_tun")
PARENT = "p"
RUN = f"{PARENT}/a"
OUTSIDE = "@outside"  # stands for a folder beside all that is named
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
READS = (
    *(f"report {RUN} --format {form}" for form in ("term", "html", "md", "latex", "json", "csv", "findings")),
    *(f"report {PARENT}", f"report {RUN} whole", f"report {RUN} --across machines --format md"),
    f"report {RUN} --full",
    f"report {RUN} --line 100M",
    f"report {RUN} --format html --line 100M",
    f"why openvpn wireguard_go {RUN}",
    f"compare {RUN} whole",
    f"compare whole {RUN} --format html",
    *(f"compare {RUN}", f"compare {RUN} --format junit", f"compare builds {RUN} --json"),
    *(f"history {RUN} whole", f"history {PARENT}", f"watch {RUN}", f"watch {PARENT} --weights w.toml"),
    f"recipe openvpn --run {RUN}",
    f"recipe wireguard_go --run {RUN}",
    f"recipe wireguard_go --run {RUN} --site sites.toml",
    f"recipe --run {RUN} --line 100M",
    f"plan transport --out {RUN}",
    f"plan transport --out {RUN} --until-significant",
)
# What a command may change: a folder, or in it what begins with this.
WRITES = {
    f"report {RUN} --write": f"{RUN}/report",
    f"report {PARENT} --write": f"{RUN}/report",
    f"recipe openvpn --run {RUN} --write tunnel": "tunnel/",
    f"recipe wireguard_go --run {RUN} --write tunnel --site sites.toml": "tunnel/",
    f"recipe --run {RUN} --line 100M --write tunnel": "tunnel/",
    f"more {RUN}": f"{RUN}/",
    f"more {RUN} --deadline 10m": f"{RUN}/",
    f"more {RUN} --line 100M": f"{RUN}/",
    f"more {RUN} --deadline 10m --trust evil.toml": f"{RUN}/",
    f"run transport --vpn openvpn --profile smallest --out {RUN}": f"{RUN}/",
    f"run builds --build wireguard_go@new=tool --out {RUN}": f"{RUN}/",
    f"bisect wireguard_go=tool --good HEAD~1 --bad HEAD --build true --out {RUN}": f"{RUN}/",
}
COMMANDS = (*READS, *WRITES)
# What vpneval writes in a run folder: a link in its place leads outside.
WRITTEN = (
    *("run.json", "run.json.partial", "trials.jsonl", "slices.jsonl", ".lock", ".block", "logs", "report.html"),
    *("report.md", "report.json", "report.csv", "report.parquet", "report-plots", "builds"),
)
VALUES: tuple[Any, ...] = (
    *("x/evil.py", "evil.py", "evil.py@1", "./evil.py@1@2", f"{RUN}/evil.py", "site:evil.toml", "ssh:evil.toml"),
    *(f"$({OWNED})", f"`{OWNED}`", f"'; {OWNED} #", f"1400; {OWNED} #", f"\n```\n{OWNED}\n```\n", f"x\r\n{OWNED}\n"),
    *("../../OWNED", "/etc/passwd", "..", ".", "", " ", "evil.toml", "tcp://127.0.0.1:1", "a\0b", "\x1b]0;x\x07"),
    *(f"{OUTSIDE}/file", f"{OUTSIDE}/evil.py", f"{OUTSIDE}/file@1", f"-o{OUTSIDE}/file", f"file://{OUTSIDE}/file"),
    *("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "javascript:alert(1)", "| [x](http://y)"),
    *(10**30, -(10**30), -1, 0, 1, 0.5, 1e308, -1e308, 5e-324, 2**53, 10**9, float("nan"), float("inf")),
    *(True, None, [], {}, [None], {"x": 1}, "x" * 100_000, "9" * 5000, "nan", "1e999", "-1", "٣", "\u202e", "%s{0}"),
)
HOSTILE_LINES = (OWNED, "</script><script>", "<img src=x")


def prepare_fields(folder: Path) -> None:
    """A folder of each source with few lines of each kind, one with two builds, and what the hostile values name."""
    for name, source in SOURCES.items():
        run, lines = json.loads((RESULTS / source / "run.json").read_text()), list[str]()
        seen: dict[str, int] = {}
        for line in rows_of(RESULTS / source / "trials.jsonl"):
            kinds = [f"{line['vpn']} {found['metric']}" for found in line["measurements"]] or [
                f"{line['vpn']} {line['status']}"
            ]
            if line["vpn"] in VPNS and any(seen.get(kind, 0) < LINES for kind in kinds):
                seen |= {kind: seen.get(kind, 0) + 1 for kind in kinds}
                lines.append(json.dumps(line))
        run["lab"] |= SITE if name == "quick" else {}
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text(json.dumps(run))
        (folder / name / "trials.jsonl").write_text("\n".join(lines) + "\n")
        if (RESULTS / source / "slices.jsonl").exists():
            kept = {json.loads(line)["id"] for line in lines}
            texts = [json.dumps(row) for row in rows_of(RESULTS / source / "slices.jsonl") if row["trial"] in kept]
            (folder / name / "slices.jsonl").write_text("\n".join(texts) + "\n")
        (folder / name / "evil.py").write_text(EVIL_PY)
    with_builds(folder)
    (folder / PARENT).mkdir()
    index = {"schema_version": 1, "runs": [{"kernel": "host", "folder": Path(RUN).name, "outcome": "complete"}]}
    (folder / PARENT / "index.json").write_text(json.dumps(index))
    (folder / "tool").write_text("a build\n")
    (folder / "w.toml").write_text("rtt = 2\n")
    git = ("git", "-c", "user.name=x", "-c", "user.email=x", "-C", str(folder))
    for words in (("init", "--quiet"), ("add", "tool"), ("commit", "--quiet", "-m", "1")):
        subprocess.run([*git, *words], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "2"], check=True)
    for name in ("x/evil.py", "evil.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(EVIL_PY)
    (folder / "evil.toml").write_text(EVIL_TOML)
    (folder / "sites.toml").write_text(
        '[gw1]\naddress = "192.0.2.1"\nwan_address = "192.0.2.1"\nnetwork = "10.1.0.0/16"\n'
        '[gw2]\naddress = "192.0.2.9"\nwan_address = "192.0.2.9"\nnetwork = "10.2.0.0/16"\n'
        "[uplink.dsl]\n"
    )


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file without their checksums: who edits has none, and it is the field that is looked at."""
    lines = [json.loads(text) for text in path.read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "crc32"} for line in lines]


def with_builds(folder: Path) -> None:
    """A run of two builds of a VPN, and one that was interrupted, so that its slices are its numbers."""
    shutil.copytree(folder / "quick", folder / "builds")
    for file in ("run.json", "trials.jsonl", "slices.jsonl"):
        path = folder / "builds" / file
        path.write_text(path.read_text().replace('"wireguard_go"', '"openvpn@new"'))
    shutil.copytree(folder / "quick", folder / "cut")
    lines = rows_of(folder / "cut" / "trials.jsonl")
    with_slices = {row["trial"] for row in rows_of(folder / "cut" / "slices.jsonl")}
    for line in lines:
        if line["id"] in with_slices:
            line |= {"status": "interrupted", "measurements": []}
    (folder / "cut" / "trials.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


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
        self.command = rng.choice(COMMANDS)
        self.argv, self.to, self.encoding, self.environment = self.command.split(), "file", "utf-8", {}
        self.source, self.value = rng.choice([*SOURCES, "builds", "cut"]), rng.choice(VALUES)

    def run(self) -> list[str]:
        """Do it in a folder of its own, in a process of its own."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as scratch:
            folder, outside = Path(scratch) / "work", Path(scratch) / "outside"
            shutil.copytree(self.base / "fields", folder)
            shutil.copytree(folder / "quick", folder / "whole")
            (folder / self.source).rename(folder / RUN)
            outside.mkdir()
            (outside / "file").write_text("not of any run\n")
            (outside / "evil.py").write_text(EVIL_PY)
            if isinstance(self.value, str):
                self.value = self.value.replace(OUTSIDE, str(outside))
            spoil = self._link if self.rng.random() < 0.1 else self._spoil
            self.said.append(f"{self.source}: {spoil(folder / RUN, outside)}")
            before, there = files(folder), state(outside)
            code, out, err = self._process(Path(scratch), folder)
            wrong = judged(self.argv, code, out, err, peak_kb=self.peak_kb)
            if changed := [name for name in changes(before, files(folder)) if not self._may_change(name)]:
                wrong.append(f"it changed {changed}")
            if state(outside) != there:
                wrong.append("it changed what is outside of the folder")
            if owned := [*Path(scratch).rglob("*OWNED*")]:
                wrong.append(f"the folder was run: {owned}")
            texts = [out] if self.argv[0] == "recipe" or {"md", "html"} & {*self.argv} else []
            texts += [path.read_text() for path in written(folder)]
            wrong += [f"{line!r:.200} is in the page" for text in texts for line in text.splitlines() if hostile(line)]
        return wrong

    def _may_change(self, name: str) -> bool:
        """May this command write this file of the folder?"""
        if self.argv[0] == "bisect" and name.startswith(".git/"):
            return True
        named = WRITES.get(self.command)
        return named is not None and name.startswith(named)

    def _link(self, folder: Path, outside: Path) -> str:
        """A link to what is outside, in the place of something that vpneval writes."""
        path = folder / self.rng.choice(WRITTEN)
        path.unlink(missing_ok=True)
        path.symlink_to(self.rng.choice((outside / "file", outside / "file", outside, outside / "new")))
        return f"{path.name} is a link to {path.readlink()}"

    def _spoil(self, folder: Path, outside: Path) -> str:
        names = ("run.json", "run.json", "trials.jsonl", "slices.jsonl", "../index.json")
        path = folder / self.rng.choice([name for name in names if (folder / name).exists()])
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        kinds: dict[str, list[tuple[Any, ...]]] = {}
        for number, line in enumerate(lines):
            for way in fields(line):
                if way:
                    kinds.setdefault(kind_of(way), []).append((number, *way))
        kind = self.rng.choice([*kinds])
        ways = kinds[kind] if self.rng.random() < 0.3 else [self.rng.choice(kinds[kind])]
        for way in ways:
            put(lines[way[0]], way[1:], self.value)
        if path.suffix == ".jsonl" and self.rng.random() < 0.5:  # as pydantic writes it
            texts = [json.dumps(line, separators=(",", ":")) for line in lines]
        else:
            texts = [*map(json.dumps, lines)]
        path.write_text("\n".join(texts) + "\n")
        return f"{path.name}, {kind} {len(ways)} times: {str(self.value)[:60]!r}"

    def _child(self, scratch: Path, folder: Path) -> None:
        rootless.enter = lambda lab: None
        # So that all before these is real, and all behind them.
        vars(measuring).update(measure_and_report=unmeasured, prepare=no_lab)
        super()._child(scratch, folder)


def unmeasured(request: Request, shown: Shown) -> int:
    """In the place of ``measure_and_report``: the folder is opened to be written, nothing is measured, and the report
    of what is there is written."""
    folder = folder_of(request)
    with open_store(folder):
        pass
    return report_on(request, folder, Outcome(), shown)


def files(folder: Path) -> dict[str, bytes | str | int]:
    """All that is in the folder: the content of files, where links lead, and the mode of what is neither."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else path.lstat().st_mode
        for path in folder.rglob("*")
    }


def changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of what is there, gone or different; a folder has a slash at its end."""
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [f"{name}/" if isinstance(after.get(name, before.get(name)), int) else name for name in names]


def written(folder: Path) -> list[Path]:
    """The pages and scripts that a command has written: reports and gateways' directories."""
    pages = [*(folder / RUN).glob("report.html"), *(folder / RUN).glob("report.md")]
    tunnel = [path for path in (folder / "tunnel").rglob("*") if path.is_file() and path.suffix not in (".key", ".crt")]
    return [path for path in (*pages, *tunnel) if not path.is_symlink()]


def hostile(line: str) -> bool:
    """Is this line of a page code of the value: a command by itself, or a tag?"""
    return line.strip() == OWNED or any(tag in line for tag in HOSTILE_LINES[1:]) or f"; {OWNED}" in line
