"""How often real runs decide, and whether they are right: copies of one plugin against one another, links of a known
rate, a machine that is busy now and then, a gateway with nine tenths of its CPU, and five searches of one tunnel. On a
quiet machine.

usage: bench_decide_real.py [PART …] [--runs N] [--first SEED] [--seconds S] [--plugin NAME]

PART is equal, known, busy, slowed or searches; without one, all five. Runs of other seeds, from ``--first`` on, add to
those that were made before.
"""

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.catalogue import load_run
from runner.data.levels import BASELINE
from runner.data.trials import Trial
from runner.evidence.model import Ratio
from runner.evidence.stats import block_values, compare_blocks
from runner.ranking.model import Verdict
from runner.ranking.rankings import Rankings

ROOT = Path(__file__).resolve().parents[2]
ONE_STREAM = "streams=1,direction=forward,payload=random,measure=tcp"
BUSY_S = (2.0, 10.0)  # the other load is on, and off, for a time between
PARTS = ("equal", "known", "busy", "slowed", "searches")


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


def equals(plugin: str, seeds: Sequence[int], seconds: int, busy: bool = False) -> None:
    """Three copies of one plugin: no run should tell any two apart."""
    wrong, found = 0, list[Verdict]()
    for seed in seeds:
        with tempfile.TemporaryDirectory() as scratch, now_and_then(busy, seed):
            folder = measure(Path(scratch) / "run", copies(Path(scratch), plugin, 3), seconds, ONE_STREAM, seed)
            verdicts = [one for one in Rankings(*load_run(folder)).verdicts if one.metric == "tcp_throughput"]
        decided = Counter(one.decision for one in verdicts)
        wrong += bool(decided["better"] + decided["worse"])
        found += verdicts
        widths = ", ".join(f"{width(one):.3f}" for one in verdicts)
        print(f"  {plugin} run {seed}: {dict(decided)}, half-widths {widths}")
    what = f"{plugin}{', busy machine' if busy else ''}"
    print(f"equal copies of {what}: {wrong} of {len(seeds)} runs with a false verdict; {told_of_equals(found)}")


def told_of_equals(found: Sequence[Verdict]) -> str:
    """What the ratios of equal copies come to: how wide their intervals are and how many hold 1, and how far from 1 the
    mean ratio of any pair is over all runs, which is what a disturbance moves. Chance moves it, too."""
    intervals = [(one.low, one.high) for one in found if one.low and one.high]
    said = [f"{sum(low <= 1 <= high for low, high in intervals)} of {len(intervals)} intervals hold 1"]
    if found:
        said.insert(0, f"median half-width {statistics.median(map(width, found)):.3f}")
    if ratios := mean_ratios(found):
        furthest = max(ratios, key=lambda mean: abs(math.log(mean.ratio)))
        chance = "" if furthest.error is None else f", standard error {furthest.error:.4f}"
        said.append(f"mean ratio of the pair that is furthest from 1: {furthest.ratio:.4f}{chance}")
    return "; ".join(said)


@dataclass(frozen=True)
class MeanRatio:
    """Of a pair over several runs: the geometric mean, and the standard error of its logarithm; None of one run."""

    ratio: float
    error: float | None


def mean_ratios(found: Sequence[Verdict]) -> list[MeanRatio]:
    """That of each pair of copies, whichever of the two a run has named first."""
    logs: dict[tuple[str, str], list[float]] = {}
    for one in found:
        if one.ratio:
            a, b = sorted((one.a, one.b))
            logs.setdefault((a, b), []).append(math.log(one.ratio) * (1 if a == one.a else -1))
    return [
        MeanRatio(math.exp(statistics.fmean(of)), statistics.stdev(of) / math.sqrt(len(of)) if len(of) > 1 else None)
        for of in logs.values()
    ]


def known(seeds: Sequence[int], seconds: int) -> None:
    """Two links of 100 and 90 Mbit/s: the ratio is known."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as scratch:
            levels = f"{ONE_STREAM},wan_rate_bps=100000000,wan_rate_bps=90000000"
            folder = measure(Path(scratch) / "run", [BASELINE], seconds, levels, seed)
            _, trials = load_run(folder)
            by_rate = {
                rate: block_values([t for t in trials if t.params.get("wan_rate_bps") == rate], "tcp_throughput")
                for rate in ("90000000", "100000000")
            }
            found = compare_blocks(by_rate["90000000"], by_rate["100000000"])
            print(f"  90 over 100 Mbit/s: {in_words(found)}")


def in_words(found: Ratio) -> str:
    """A ratio with its interval, as far as there are any."""
    if found.ratio is None:
        return f"no ratio ({found.method})"
    interval = "no interval" if found.low is None or found.high is None else f"{found.low:.4f} to {found.high:.4f}"
    return f"{found.ratio:.4f} ({interval}), {found.blocks} rounds"


def slowed(plugin: str, seeds: Sequence[int], seconds: int) -> None:
    """A tunnel beside the same one whose second gateway gets nine tenths of the CPU that it used: each run should find
    it, and its interval contain the ratio of all runs together."""
    levels = f"{ONE_STREAM},gw2_cpu=1"
    with tempfile.TemporaryDirectory() as scratch:
        _, trials = load_run(measure(Path(scratch) / "run", [plugin], 20, levels, 1))
    used = statistics.median(gateway_cores(trial) for trial in trials if trial.status == "ok" and trial.vpn == plugin)
    slow, found = f"{0.9 * used:.3f}", list[Ratio]()
    print(f"  {plugin}: its second gateway uses {used:.3f} cores, and gets {slow}")
    for seed in seeds:
        with tempfile.TemporaryDirectory() as scratch:
            folder = measure(Path(scratch) / "run", [plugin], seconds, f"{levels},gw2_cpu={slow}", seed)
            _, trials = load_run(folder)
            whole, less = (
                block_values([t for t in trials if t.params.get("gw2_cpu") == share], "tcp_throughput")
                for share in ("1", slow)
            )
            found.append(one := compare_blocks(less, whole))
            print(f"  {plugin} run {seed}: {in_words(one)}")
    print(f"nine tenths of {plugin}'s gateway: {told_of_slowed(found)}")


def told_of_slowed(found: Sequence[Ratio]) -> str:
    """How many runs found the slower one, and how many of their intervals hold the ratio of all runs together."""
    logs = [math.log(one.ratio) for one in found if one.ratio]
    if not logs:
        return f"no ratio in {len(found)} runs"
    pooled = math.exp(statistics.fmean(logs))
    told = sum(one.high is not None and one.high < 1 for one in found)
    held = sum(one.low is not None and one.high is not None and one.low <= pooled <= one.high for one in found)
    return f"found in {told} of {len(found)} runs; {held} hold the pooled {pooled:.3f}"


def gateway_cores(trial: Trial) -> float:
    """How many cores the VPN's processes on gateway 2 used."""
    processes = [one for load in trial.loads for one in load.processes]
    return sum(one.busy for one in processes if one.node == "gw2" and one.role == "vpn")


def searches(plugins: Sequence[str], seconds: int) -> None:
    """Five searches for the UDP throughput of five tunnels of one VPN, trial by trial in turn, for so long each."""
    for plugin in plugins:
        with tempfile.TemporaryDirectory() as scratch:
            names = copies(Path(scratch), plugin, 5)
            _, trials = load_run(measure(Path(scratch) / "run", names, 6 * seconds, "measure=udp", 1))
        print(f"five searches of {plugin}: {told_of_searches(search_ends(trials))}")


def search_ends(trials: Sequence[Trial]) -> dict[str, tuple[float, float]]:
    """The 95 % interval (bit/s) that each VPN's search ended with: a search goes on from one instance to the next, and
    the last one has what all its trials say. The value of a trial is that of its own instance's readings. Without
    those that found no throughput, or a lower bound only."""
    found = {}
    for trial in sorted(trials, key=lambda one: one.repetition):
        for one in trial.measurements:
            if trial.vpn != BASELINE and one.metric == "udp_throughput" and one.detail.get("interval_bps"):
                low, high = one.detail["interval_bps"]
                found[trial.vpn] = (float(low), float(high))
    return found


def told_of_searches(ends: Mapping[str, tuple[float, float]]) -> str:
    """What the searches found (each the middle of its interval, on logarithms), how much they scatter, and how many
    intervals hold the value of all together."""
    if len(ends) < 2:
        return f"{len(ends)} of them found a throughput"
    values = [math.sqrt(low * high) for low, high in ends.values()]
    pooled = math.exp(statistics.fmean(map(math.log, values)))
    inside = sum(low <= pooled <= high for low, high in ends.values())
    variation = statistics.stdev(values) / statistics.fmean(values)
    told = ", ".join(f"{value / 1e6:.0f}" for value in values)
    return f"{told} Mbit/s; CoV {variation:.3f}; {inside} of {len(ends)} intervals hold the pooled value"


def main() -> None:
    """What to do, and for how long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--plugin", default="openvpn")
    parser.add_argument("what", nargs="*")
    asked = parser.parse_args()
    if wrong := set(asked.what) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(wrong))}: choose from {', '.join(PARTS)}")
    what, started = asked.what or PARTS, time.monotonic()
    seeds = range(asked.first, asked.first + asked.runs)
    if "equal" in what:
        equals(asked.plugin, seeds, asked.seconds)
    if "known" in what:
        known(seeds[:2], asked.seconds)
    if "busy" in what:
        equals(asked.plugin, seeds[: max(1, asked.runs // 2)], asked.seconds, busy=True)
    if "slowed" in what:
        slowed(asked.plugin, seeds, asked.seconds)
    if "searches" in what:
        searches(("openvpn", "ssh_tun", "ipsec_user", "wireguard_go"), 20)
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
