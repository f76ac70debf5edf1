"""`make bench-engines`: the search engines side by side on one real tunnel: time, and spread over the repeats.

usage: bench_engines.py [--vpn NAME] [--repeats N] [--full] [--only TEXT,…]   (engines whose name contains it)

Within a repeat the engines come in random order, so that a slow change of the machine meets them all. The
thesis' criterion is judged by 10 × 1 s here instead of 10 × 10 s; ``--full`` adds the full lengths (hours).
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.instruments.instrument import at_once
from runner.instruments.traffic.udp import udp
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import open_image
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services
from tests.bench.mlr import MlrSearch

PAYLOAD_BYTES = 1300
ENGINES = {
    "bayes ±1 %": UdpSearch(relative_width=0.01, trial_duration_s=1.0, confirm=None),
    "bayes ±2 %, 9 s (quick)": UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=None, budget_s=9.0),
    "mlrsearch, pooled": MlrSearch(relative_width=0.01, trial_duration_s=1.0, confirm=None),
    "binary, 10 × 1 s": UdpSearch(engine="binary", relative_width=0.01, confirm=(10, 1.0)),
}
FULL = {
    "bayes ±1 %, confirmed 10 × 10 s": UdpSearch(relative_width=0.01, trial_duration_s=1.0),
    "binary, 10 × 10 s": UdpSearch(engine="binary", relative_width=0.01, confirm=(10, 10.0)),
    "rfc2544, 60 s": UdpSearch(engine="rfc2544", relative_width=0.01, confirm=None),
}


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--vpn", default="openvpn")
    asked.add_argument("--repeats", type=int, default=5)
    asked.add_argument("--full", action="store_true")
    asked.add_argument("--only", default="")
    options = asked.parse_args()
    known = ENGINES | (FULL if options.full else {})
    wanted = options.only.split(",")
    engines = {name: search for name, search in known.items() if any(text in name for text in wanted)}
    if not engines:
        asked.error(f"no engine is called like {options.only!r}; there are: {', '.join(known)}")
    found: dict[str, list[float]] = {name: [] for name in engines}
    took: dict[str, list[float]] = {name: [] for name in engines}
    failed: dict[str, list[str]] = {name: [] for name in engines}
    with TemporaryDirectory() as logs:
        for repeat in range(options.repeats):
            order = list(engines)
            random.Random(repeat).shuffle(order)
            for name in order:
                started = time.monotonic()
                try:
                    found[name].append(once(options.vpn, engines[name], Path(logs)))
                except MeasurementError as error:
                    failed[name].append(str(error))
                took[name].append(time.monotonic() - started)
                print(f"{repeat + 1}/{options.repeats} {name}: {took[name][-1]:.0f} s", flush=True)
    show(options.vpn, found, took, failed)


def once(vpn_name: str, search: UdpSearch, logs: Path) -> float:
    """One search through a fresh tunnel; the UDP throughput that it found, bit/s."""
    vpn, image, rig = load_vpn(vpn_name), open_image(), NamespaceRig()
    with rig.lab(image, logs=logs) as lab:
        secrets = make_secrets(vpn, rig.alone(image, lambda line: None), lab.sites)
        start_services(lab)
        bench = Bench(lab, bring_up(lab, vpn, vpn.comparable, secrets), no_renewal)
        return at_once(udp(bench, PAYLOAD_BYTES, search, None)).measurements[0].value


def no_renewal() -> tuple[Lab, Tunnel]:
    raise MeasurementError("the tunnel broke down")


def show(vpn: str, found: dict[str, list[float]], took: dict[str, list[float]], failed: dict[str, list[str]]) -> None:
    table = Table(title=f"UDP throughput of {vpn}, {PAYLOAD_BYTES} B, loss ratio 1 %", header_style="bold")
    for column in ("engine", "time, median (s)", "× bayes", "found, median (Mbit/s)", "range", "CoV", "failed"):
        table.add_column(column)
    first = statistics.median(next(iter(took.values())))
    for name, values in found.items():
        median_s = statistics.median(took[name])
        cells = ["–"] * 3
        if values:
            spread = f"{statistics.stdev(values) / statistics.mean(values):.1%}" if len(values) > 1 else "–"
            ends = f"{min(values) / 1e6:.1f}–{max(values) / 1e6:.1f}"
            cells = [f"{statistics.median(values) / 1e6:.1f}", ends, spread]
        table.add_row(name, f"{median_s:.0f}", f"{median_s / first:.2f}", *cells, str(len(failed[name])))
    Console().print(table)
    for name, reasons in failed.items():
        for reason in reasons:
            print(f"{name}: {reason}")


if __name__ == "__main__":
    main()
