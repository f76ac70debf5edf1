"""Run folders edited so that a VPN gains: its own trials dropped, failed, cut or repeated. Nothing said of it may
improve."""

from __future__ import annotations

import contextlib
import io
import json
import random
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from runner.cli.reading import report_of
from runner.data.errors import VpnevalError
from runner.report.model import Report
from tests.unit.whole_report import ranked_of

EXAMPLE = Path(__file__).parents[2] / "results/examples/two-cores-quick"
FAILED = {"status": "failed", "measurements": [], "curve": [], "reason": "the tunnel broke down"}
Line = dict[str, Any]


def failing(line: Line) -> Iterator[Line]:
    """It failed."""
    yield line | FAILED


def dropping(line: Line) -> Iterator[Line]:
    """It is not there."""
    yield from ()


def cutting(line: Line) -> Iterator[Line]:
    """A third of its rounds is left."""
    for found in line["measurements"]:
        if found.get("rounds"):
            left = max(1, len(found["rounds"]) // 3)
            found |= {"rounds": found["rounds"][:left], "samples": found["samples"][:left]}
    yield line


def repeating(line: Line) -> Iterator[Line]:
    """It is there once more, as another repetition."""
    yield line
    yield line | {"id": f"{line['id'].rpartition('-r')[0]}-r77", "repetition": 77}


EDITS: dict[str, Callable[[Line], Iterator[Line]]] = {
    edit.__name__: edit for edit in (failing, dropping, cutting, repeating)
}


def copy(folder: Path) -> list[Line]:
    """Copy the example, and return its trials' lines."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("logs", "report*"))
    found: list[Line] = [json.loads(text) for text in (folder / "trials.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "crc32"} for line in found]  # who edits has none


def edited(folder: Path, how: str, ids: Collection[str]) -> Path:
    """The example in ``folder``, these trials of it edited."""
    written: list[Line] = []
    for line in copy(folder):
        mine = line["id"] in ids
        if mine and line["status"] == "ok":
            written = [other for other in written if other["id"] != line["id"]]
            written += EDITS[how](line)
        elif not (mine and how == "dropping"):
            written.append(line)
    (folder / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in written))
    return folder


def standings(report: Report, vpn: str) -> dict[str, tuple[float, float]]:
    """Configuration -> place, and how often it is not best: the lower, the better."""
    return {
        ranking.configuration: (standing.place or 99, 1 - (standing.best_probability or 0))
        for ranking in ranked_of(report).rankings
        for standing in ranking.standings
        if standing.vpn == vpn
    }


def gained(before: Report, after: Report, vpn: str) -> list[str]:
    """Where the VPN stands better than before."""
    now = standings(after, vpn)
    return [
        f"{vpn} {configuration}: {then} became {now[configuration]}"
        for configuration, then in standings(before, vpn).items()
        if configuration in now and any(new < old - 1e-9 for new, old in zip(now[configuration], then, strict=True))
    ]


class GainCase:
    """One case: some trials of one VPN edited in one way; ``run`` says where it gained."""

    whole: Report | None = None

    def __init__(self, seed: int, number: int) -> None:
        self.rng = random.Random(f"{seed}/{number}")
        self.how, self.vpn, self.edited = self.rng.choice([*EDITS]), "", list[str]()

    def __str__(self) -> str:
        return f"{self.how} of {self.vpn}: {', '.join(self.edited)}"

    def run(self) -> list[str]:
        """Edit, and compare the reports."""
        with tempfile.TemporaryDirectory(prefix="campaign-") as scratch, contextlib.redirect_stderr(io.StringIO()):
            ok = [line for line in copy(Path(scratch, "whole")) if line["status"] == "ok"]
            self.vpn = self.rng.choice(sorted({line["vpn"] for line in ok} - {"none"}))
            own = sorted(line["id"] for line in ok if line["vpn"] == self.vpn)
            self.edited = self.rng.sample(own, self.rng.randint(1, max(1, len(own) // 3)))
            GainCase.whole = GainCase.whole or report_of([EXAMPLE], "")
            try:
                after = report_of([edited(Path(scratch, "edited"), self.how, self.edited)], "")
            except VpnevalError:  # refused: nothing is said of it
                return []
        return gained(GainCase.whole, after, self.vpn)
