"""`make bench-limits`: what a gateway with a core of its own would carry, predicted on shared cores, and what it does.

usage: bench_limits.py [--times 5]
Exit code 1 where the median of what one of them carries is more than a tenth outside of the median prediction (decision
0037). On a quiet machine of two cores or more, please.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from runner.lab.software.image import open_image
from tests.bench.overload import PREDICTED_FROM_BPS, predicted_and_carried

WITHIN = 0.1


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--times", type=int, default=5)
    options = asked.parse_args()
    if os.cpu_count() == 1:
        sys.exit("bench_limits.py: this machine has one core, and gateway 1 needs one to itself")
    image, off = open_image(), {}
    for name, rate_bps in PREDICTED_FROM_BPS.items():
        found = []
        for _ in range(options.times):
            with TemporaryDirectory() as logs:
                predicted, carried = predicted_and_carried(image, Path(logs), name, rate_bps)
            found.append((predicted.low_bps, predicted.high_bps, carried.bps))
            low, high, bps = (value / 1e6 for value in found[-1])
            offered = carried.offered_bps / 1e6
            print(f"{name}: {low:.0f} to {high:.0f} Mbit/s predicted, {bps:.0f} of {offered:.0f} carried")
        low, high, bps = (statistics.median(column) for column in zip(*found, strict=True))
        off[name] = max(1 - bps / low, bps / high - 1, 0.0)
        print(f"{name}, medians: {off[name]:.0%} outside of what was predicted")
    return 0 if max(off.values()) <= WITHIN else 1


if __name__ == "__main__":
    sys.exit(main())
