"""How sure the TCP throughput of two VPNs is after how many seconds, in turns and in blocks: ``make bench-widths``.

Measures the same VPNs both ways on this machine, prints a table, and draws docs/pictures/widths.svg. Some five minutes,
on a quiet machine.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from runner.data.levels import BASELINE
from runner.data.store import load_run, read_slices
from runner.data.trials import Trial
from runner.evidence.estimates import RoundValues, estimate_pairs
from runner.evidence.model import Blocks
from runner.evidence.stats import block_values
from runner.report.plots.vega import SCHEMA, svg
from tests.bench.decide_real import ONE_STREAM

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "pictures" / "widths.svg"
METRIC = "tcp_throughput"
VPNS = "ipsec_user,openvpn,ssh_forward,ssh_tun,wireguard_go"
TURNS, BLOCKS = "in turns, slices of 0.2 s", "in blocks of one second"


def measured(folder: Path, *options: str) -> Path:
    """One run of the VPNs. Raises CalledProcessError."""
    argv = [sys.executable, "-m", "runner", "run", "transport", "--vpn", VPNS, "--set", ONE_STREAM, "--quiet"]
    subprocess.run(
        [*argv, *options, "--out", str(folder)], cwd=ROOT, check=True, timeout=900, stdout=subprocess.DEVNULL
    )
    return folder


def widths(folder: Path) -> Iterator[tuple[float, float]]:
    """After each round or repetition: the seconds that the VPNs' traffic took so far, and the median factor from a
    pair's ratio to the end of its 95 % interval."""
    _, trials = load_run(folder)
    own = [trial for trial in trials if trial.vpn != BASELINE and trial.status == "ok"]
    spent_s = seconds(folder, own)
    values = {vpn: block_values([t for t in own if t.vpn == vpn], METRIC) for vpn in sorted({t.vpn for t in own})}
    for last in sorted(set.intersection(*(set(blocks) for blocks in values.values()))):
        found = estimate_pairs({vpn: upto(blocks, last) for vpn, blocks in values.items()}).values()
        halves = [one.interval()[1] - one.centre for one in found]
        if halves and math.isfinite(half := statistics.median(halves)) and half > 0:
            yield sum(s for block, s in spent_s.items() if block <= last), math.exp(half)


def upto(blocks: Blocks, last: int) -> Blocks:
    """Those of the first blocks."""
    first = {block: value for block, value in blocks.items() if block <= last}
    return RoundValues(first, blocks.instances) if isinstance(blocks, RoundValues) else first


def seconds(folder: Path, trials: list[Trial]) -> Mapping[int, float]:
    """Round or repetition -> the seconds that its measurements took."""
    rows, found = read_slices(folder), dict[int, float]()
    for trial in trials:
        if trial.measurements[0].rounds:
            for row in rows[trial.id]:
                found[row.round] = found.get(row.round, 0.0) + row.duration_s
        else:
            found[trial.repetition] = found.get(trial.repetition, 0.0) + trial.measuring_s
    return found


def plot(found: Mapping[str, list[tuple[float, float]]]) -> str:
    """Half-width against seconds, as SVG."""
    points = [
        {"design": design, "seconds": spent_s, "width": width}
        for design, line in found.items()
        for spent_s, width in line
    ]
    log = {"type": "log", "nice": False}
    spec = {
        "$schema": SCHEMA,
        "width": 560,
        "height": 300,
        "data": {"values": points},
        "mark": {"type": "line", "point": True, "clip": True},
        "encoding": {
            "x": {
                "field": "seconds",
                "type": "quantitative",
                "title": "seconds of traffic, all VPNs together",
                "scale": log,
            },
            "y": {
                "field": "width",
                "type": "quantitative",
                "title": "half-width of a pair's 95 % interval (factor)",
                "scale": log | {"domain": [1.02, 3]},
            },
            "color": {"field": "design", "type": "nominal", "title": None},
        },
    }
    return svg(spec)


def main() -> None:
    """Measure both ways, print and draw."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seconds", type=int, default=120)
    asked.add_argument("--reps", type=int, default=10)
    options = asked.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        turns = measured(Path(scratch) / "turns", "--deadline", f"{options.seconds}s")
        blocks = measured(Path(scratch) / "blocks", "--duration", "1", "--reps", str(options.reps))
        found = {TURNS: list(widths(turns)), BLOCKS: list(widths(blocks))}
    for design, line in found.items():
        print(design)
        for spent_s, width in line:
            print(f"  {spent_s:6.1f} s  ×÷ {width:.3f}")
    PICTURE.write_text(plot(found), encoding="utf-8")


if __name__ == "__main__":
    main()
