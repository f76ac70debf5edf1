"""`make bench-generator`: packets at full speed over plain IP, by each system call, and whether that is enough.

usage: bench_generator.py [--pieces 10] [--seconds 0.5]
Exit code 1 where the best piece of 1500 bytes is below 350,000 packets/s or 4 Gbit/s. On a quiet machine, please.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from runner.catalogue import load_vpn
from runner.data.lab_facts import GeneratorLimit
from runner.data.levels import BASELINE
from runner.instruments.tools.generator import Generator, generating
from runner.instruments.traffic.calibration import at_full_speed, limit, set_up_plain_ip
from runner.lab.shape.site_to_site import namespace_lab
from runner.lab.software.image import open_image

LENGTHS = (1500, 64)
LEAST_PER_S, LEAST_BPS = 350e3, 4e9  # of 1500 bytes


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--pieces", type=int, default=10)
    asked.add_argument("--seconds", type=float, default=0.5)
    options = asked.parse_args()
    found: dict[tuple[str, int], list[GeneratorLimit]] = {}
    with TemporaryDirectory() as logs, namespace_lab(open_image(), logs=Path(logs)) as lab:
        set_up_plain_ip(lab, load_vpn(BASELINE))
        with generating(lab) as generator:
            for segments in (True, False) if generator.segments else (False,):
                for length in LENGTHS:
                    pieces = played(generator, length, segments, options.pieces, options.seconds)
                    found[pieces[0].by, length] = pieces
    show(found)
    best = max((one for (_, length), pieces in found.items() if length == 1500 for one in pieces), key=rate)
    reached = best.packets_per_s >= LEAST_PER_S and best.bps >= LEAST_BPS
    bar = f"{LEAST_PER_S:,.0f} packets/s and {LEAST_BPS / 1e9:g} Gbit/s at 1500 B"
    print(f"{'reached' if reached else 'NOT reached'}: {bar}")
    return 0 if reached else 1


def played(generator: Generator, length: int, segments: bool, pieces: int, seconds: float) -> list[GeneratorLimit]:
    """Pieces at full speed, handed to the kernel in bursts (``segments``) or message by message."""
    generator.segments = segments
    return [limit(at_full_speed(generator, length, seconds)) for _ in range(pieces)]


def rate(one: GeneratorLimit) -> float:
    """Packets a second."""
    return one.packets_per_s


def show(found: dict[tuple[str, int], list[GeneratorLimit]]) -> None:
    table = Table(title="The generator over plain IP, counted where the far host's port takes the packets in")
    for title in ("system call", "bytes", "best, packets/s", "median", "best, Gbit/s", "median"):
        table.add_column(title, justify="left" if title == "system call" else "right")
    for (by, length), pieces in found.items():
        rates = [rate(one) for one in pieces]
        bps = [one.bps / 1e9 for one in pieces]
        table.add_row(
            *(by, str(length), f"{max(rates):,.0f}", f"{statistics.median(rates):,.0f}"),
            *(f"{max(bps):.2f}", f"{statistics.median(bps):.2f}"),
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    sys.exit(main())
