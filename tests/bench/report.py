"""How long 100,000 trials take to load and report, in how much memory, and how fast a page is: ``make bench-report``.

Twenty VPNs, fifty cells each, a hundred repetitions: more than any paper has measured; and as many trials of 33,000
cells, three repetitions each. Goals: 20 s and 1 GB, a page that does not grow with repetitions or cells, and twice the
trials in no more than about twice the time. The example's page in a browser: its first paint after 0.6 s."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import which

import numpy as np

from runner.catalogue import load_run
from runner.data.trials import Cell, ExperimentRecord, Run, Trial
from runner.report.forms.html import html_text
from tests.unit.synthetic import CBC, IDLE, PLAIN, TCP, UDP, make_run, make_trial
from tests.unit.whole_report import build

VPNS = ("none", *(f"vpn{number:02}" for number in range(1, 20)))
CIPHERS = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "3des-cbc")
SHAPES = ((25, 12), (50, 12), (100, 12), (3, 407))  # repetitions, and lengths for each cipher
GOAL_S, GOAL_BYTES, GOAL_PAGE = 20.0, 1e9, 6e6
GOAL_PAINT_S, OPENED = 0.6, 7
EXAMPLE = Path(__file__).parents[2] / "results" / "examples" / "two-cores-quick" / "report.html"
PAINTED = "performance.getEntriesByName('first-contentful-paint')[0].startTime / 1e3"


def cells(lengths: int) -> list[tuple[str, dict[str, str]]]:
    """For each VPN: every cipher with every length, one ranked stream, one idle tunnel."""
    sizes = [str(100 * number) for number in range(1, lengths + 1)]
    found = []
    for vpn in VPNS:
        own = PLAIN if vpn == "none" else CBC
        found += [(vpn, own | TCP), (vpn, own | IDLE), (vpn, own | UDP)]
        for cipher in CIPHERS:
            tunnel = own if vpn == "none" else own | {"cipher": cipher}
            found += [(vpn, tunnel | TCP | {"payload": f"{cipher[:8]}{size}", "payload_bytes": size}) for size in sizes]
    return found


def generate(folder: Path, blocks: int, lengths: int) -> int:
    """A run folder of so many repetitions; returns the number of its trials."""
    wanted = cells(lengths)
    experiment = ExperimentRecord(
        name="sweep",
        question="How does it scale?",
        method="Generated.",
        source="",
        factors={},
        metrics=["tcp_throughput", "cpu_per_gigabyte", "rtt"],
        cells=[Cell(vpn=vpn, params=params) for vpn, params in wanted],
    )
    run: Run = make_run(VPNS, (experiment,), blocks)
    (folder / "run.json").write_text(run.model_dump_json())
    rng = np.random.default_rng(1)
    number = 0
    with (folder / "trials.jsonl").open("w") as file:
        for block in range(blocks):
            for index, (vpn, params) in enumerate(wanted):
                speed = 1e9 / (1 + index % 50) * float(rng.lognormal(0, 0.05))
                values = {"tcp_throughput": speed, "cpu_per_gigabyte": 1e10 / speed}
                values = {"rtt": 1e8 / speed} if params["measure"] == "idle" else values
                values = {"udp_throughput": speed / 2} if params["measure"] == "udp" else values
                trial: Trial = make_trial(vpn, params, block, values, experiments=("sweep",))
                file.write(trial.model_dump_json() + "\n")
                number += 1
    return number


def measure(folder: Path) -> None:
    """Load and report one folder, and print seconds and bytes."""
    started = time.monotonic()
    run, trials = load_run(folder)
    loaded = time.monotonic()
    report = build(run, trials)
    built = time.monotonic()
    page = html_text(report)
    ended = time.monotonic()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    cpu = time.process_time()
    seconds = f"load {loaded - started:.1f}, build {built - loaded:.1f}, page {ended - built:.1f}"
    print(
        f"{len(trials):7} trials: {ended - started:5.1f} s ({seconds}; goal {GOAL_S:g}), CPU {cpu:.1f} s; "
        f"{memory / 1e6:5.0f} MB (goal {GOAL_BYTES / 1e6:g}); page {len(page) / 1e6:.1f} MB (goal {GOAL_PAGE / 1e6:g})",
        flush=True,
    )


def browse(path: Path) -> None:
    """Open a page some times, and print the median and the longest time until it is painted."""
    chromium = os.environ.get("CHROMIUM") or which("chromium")
    if not chromium:
        print("page: not measured, because there is no Chromium: apt-get install chromium")
        return
    from playwright.sync_api import sync_playwright

    painted = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(OPENED):
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(path.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached")
            painted.append(page.evaluate(PAINTED))
            page.close()
        browser.close()
    print(
        f"page of {path.stat().st_size / 1e6:.1f} MB: first paint after {1e3 * statistics.median(painted):.0f} ms, "
        f"at most {1e3 * max(painted):.0f} ms of {len(painted)} (goal {1e3 * GOAL_PAINT_S:.0f})",
        flush=True,
    )


def main() -> None:
    browse(EXAMPLE)
    for blocks, lengths in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            generate(Path(folder), blocks, lengths)
            subprocess.run([sys.executable, "-m", "tests.bench.report", folder], check=True)  # its own peak of memory


if __name__ == "__main__":
    measure(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
