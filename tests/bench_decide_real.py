"""How often real runs decide, and whether they are right: copies of one plugin against one another, links of a known
rate, and a machine that is busy now and then. On a quiet machine; about half a minute less than what it prints."""

from __future__ import annotations

import argparse
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from runner.data.levels import BASELINE
from runner.data.store import load_run
from runner.ranking.doubts import look
from runner.ranking.stats import block_values, compare_blocks
from runner.ranking.verdicts import Verdict

ROOT = Path(__file__).resolve().parents[1]
ONE_STREAM = "streams=1,direction=forward,payload=random,measure=tcp"
BUSY_S = (2.0, 10.0)  # the other load is on, and off, for a time between


def measure(folder: Path, vpns: Sequence[str], seconds: int, levels: str, seed: int) -> Path:
    """One run of ``seconds``; its folder. Raises CalledProcessError."""
    argv = [sys.executable, "-m", "runner", "run", "transport", "--vpn", ",".join(vpns), "--set", levels]
    subprocess.run(
        [*argv, "--deadline", f"{seconds}s", "--seed", str(seed), "--quiet", "--out", str(folder)],
        cwd=ROOT,
        check=True,
        timeout=seconds + 60,
    )
    return folder


def copies(folder: Path, plugin: str, number: int) -> list[str]:
    """So many copies of a plugin under other names."""
    names = [folder / f"{plugin}_{chr(ord('a') + index)}.py" for index in range(number)]
    for path in names:
        shutil.copy(ROOT / "vpns" / f"{plugin}.py", path)
    return [str(path) for path in names]


def width(verdict: Verdict) -> float:
    """Half of the interval's width, as a factor."""
    return math.sqrt(verdict.high / verdict.low) if verdict.low and verdict.high else math.inf


@contextmanager
def now_and_then(busy: bool, seed: int) -> Iterator[None]:
    """Another load on one core, on and off at random moments, while the block lasts."""
    ended, rng = threading.Event(), random.Random(seed)

    def hog() -> None:
        while not ended.wait(rng.uniform(*BUSY_S)):
            with subprocess.Popen(["timeout", "10", "sh", "-c", "while :; do :; done"]) as load:
                ended.wait(rng.uniform(*BUSY_S))
                load.terminate()

    thread = threading.Thread(target=hog)
    if busy:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        if busy:
            thread.join()


def equals(plugin: str, runs: int, seconds: int, busy: bool = False) -> None:
    """Three copies of one plugin: no run should tell any two apart."""
    wrong, widths, ratios = 0, list[float](), list[float]()
    for seed in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as scratch, now_and_then(busy, seed):
            folder = measure(Path(scratch) / "run", copies(Path(scratch), plugin, 3), seconds, ONE_STREAM, seed)
            found = [one for one in look(*load_run(folder)) if one.metric == "tcp_throughput"]
        decided = Counter(one.decision for one in found)
        wrong += bool(decided["better"] + decided["worse"])
        widths += map(width, found)
        ratios += [one.ratio for one in found if one.ratio]
        print(f"  {plugin} run {seed}: {dict(decided)}, half-widths {', '.join(f'{width(one):.3f}' for one in found)}")
    mean = math.exp(statistics.fmean(abs(math.log(ratio)) for ratio in ratios))
    print(f"equal copies of {plugin}{', busy machine' if busy else ''}: {wrong} of {runs} runs with a false verdict; "
          f"median half-width {statistics.median(widths):.3f}; mean ratio away from 1: {mean:.4f}")  # fmt: skip


def known(runs: int, seconds: int) -> None:
    """Two links of 100 and 90 Mbit/s: the ratio is known."""
    for seed in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as scratch:
            levels = f"{ONE_STREAM},wan_rate_bps=100000000,wan_rate_bps=90000000"
            folder = measure(Path(scratch) / "run", [BASELINE], seconds, levels, seed)
            _, trials = load_run(folder)
            by_rate = {
                rate: block_values([t for t in trials if t.params.get("wan_rate_bps") == rate], "tcp_throughput")
                for rate in ("90000000", "100000000")
            }
            found = compare_blocks(by_rate["90000000"], by_rate["100000000"])
            if found is None or found.low is None or found.high is None:
                print("  90 over 100 Mbit/s: no ratio")
                continue
            interval = f"{found.low:.4f} to {found.high:.4f}"
            print(f"  90 over 100 Mbit/s: {found.ratio:.4f} ({interval}), {found.blocks} rounds")


def main() -> None:
    """What to do, and for how long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--plugin", default="openvpn")
    parser.add_argument("what", nargs="*", default=["equal", "known", "busy"])
    asked = parser.parse_args()
    started = time.monotonic()
    if "equal" in asked.what:
        equals(asked.plugin, asked.runs, asked.seconds)
    if "known" in asked.what:
        known(2, asked.seconds)
    if "busy" in asked.what:
        equals(asked.plugin, asked.runs // 2, asked.seconds, busy=True)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
