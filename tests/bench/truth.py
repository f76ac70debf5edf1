"""`make bench-truth`: what is found on links of a known rate, beside what arithmetic says, with a plot.

usage: bench_truth.py [--out truth.svg] [--rates 2,5,10,…]   (Mbit/s)
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import vl_convert
from rich.console import Console
from rich.table import Table

from runner.data.errors import MeasurementError
from runner.instruments.instrument import at_once
from runner.instruments.tools.generator import Generator, generating
from runner.instruments.traffic.packets import packets
from runner.instruments.traffic.tcp import tcp
from runner.instruments.traffic.udp import udp
from runner.lab.software.image import Image, open_image
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench
from tests.bench import known_links as truth
from tests.bench.known_links import QUEUE_S, shaped

RATES_MBPS = "2,5,10,20,50,100,200,500,1000"
TRIAL_S = 2.0
USUAL_PAYLOAD_BYTES = 1472  # frames of 1500 bytes, at any rate
MIXTURE = "UDP, a mixture of lengths"
SENT_ENOUGH = 0.99  # of what fills the link
SEARCH = UdpSearch(relative_width=0.01, trial_duration_s=TRIAL_S, confirm=None, budget_s=45.0)


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--out", type=Path, default=Path("truth.svg"))
    asked.add_argument("--rates", default=RATES_MBPS)
    options = asked.parse_args()
    image = open_image()
    rows: list[dict[str, Any]] = []
    with TemporaryDirectory() as logs:
        for mbps in map(float, options.rates.split(",")):
            rows += found_and_true(image, Path(logs), mbps * 1e6)
            for row in (one for one in rows if one["link_mbps"] == mbps):
                print(f"{mbps:g} Mbit/s {row['what']}: found/true {row['ratio']}", flush=True)
    show(rows)
    draw(rows, options.out)
    print(f"plot: {options.out}")


def found_and_true(image: Image, logs: Path, link_bps: float) -> list[dict[str, Any]]:
    """TCP, UDP search, UDP in short trials, a mixture of lengths and packet rate on one shaped link: what was found,
    what is true, and their ratio."""
    duration_s = 40 if link_bps < 5e6 else 10 if link_bps < 5e7 else 5
    with shaped(image, logs, link_bps, 0.02) as bench:
        streamed = tcp(bench.lab, bench.address, duration_s, 1, "forward", "random").measurements[0].value
    rows = [row("TCP throughput", link_bps, streamed, truth.tcp_goodput(link_bps))]
    payload_bytes, mtu_bytes = truth.payload_that_fits(link_bps)
    true_bps = truth.udp_throughput(link_bps, payload_bytes, 0.01, TRIAL_S, QUEUE_S)
    with shaped(image, logs, link_bps, QUEUE_S, mtu_bytes=mtu_bytes) as bench:
        rows.append(searched("UDP throughput", link_bps, true_bps, bench, payload_bytes))
    true_bps = truth.udp_in_time(link_bps, USUAL_PAYLOAD_BYTES, 0.01)
    with shaped(image, logs, link_bps, QUEUE_S) as bench:
        rows.append(searched("UDP, short trials", link_bps, true_bps, bench, USUAL_PAYLOAD_BYTES))
        bench.close()
    with shaped(image, logs, link_bps, QUEUE_S) as bench, generating(bench.lab, bench.address) as generator:
        rows.append(mixed(link_bps, generator))
    # of short ones the sender offers too few for a fast link
    packet_bytes = 512 if link_bps < 200e6 else mtu_bytes
    true_pps = truth.packet_rate(link_bps, packet_bytes, 0.01, TRIAL_S)
    with shaped(image, logs, link_bps, QUEUE_S, mtu_bytes=mtu_bytes) as bench:
        rows.append(searched("packet rate", link_bps, true_pps, bench, packet_bytes))
    return rows


def mixed(link_bps: float, generator: Generator) -> dict[str, Any]:
    """The row of a mixture that is a little more than the link carries: frames that came while they were sent."""
    load = truth.mixture(link_bps)
    try:
        arrived = generator.play(load)
    except MeasurementError as error:
        return row(MIXTURE, link_bps, None, truth.mixture_bps(load, link_bps), str(error))
    short = arrived.sent < SENT_ENOUGH * load.per_s * load.seconds
    note = f"the generator sent {arrived.sent} of {load.per_s * load.seconds:.0f} packets" if short else ""
    found_bps = None if short else truth.mixture_came_bps(arrived)
    return row(MIXTURE, link_bps, found_bps, truth.mixture_bps(load, link_bps), note)


def searched(what: str, link_bps: float, true: float, bench: Bench, length_bytes: int) -> dict[str, Any]:
    """The row of a search; without a number where it found none, or only a lower bound."""
    try:
        if what == "packet rate":
            measured = at_once(packets(bench, length_bytes, False, SEARCH, None))
        elif what == "UDP, short trials":
            measured = truth.udp_generated(bench, length_bytes)
        else:
            measured = at_once(udp(bench, length_bytes, SEARCH, None))
    except MeasurementError as error:
        return row(what, link_bps, None, true, str(error))
    found = measured.measurements[0]
    limited = "generator_limited" in found.detail["flags"]
    return row(what, link_bps, None if limited else found.value, true, "; ".join(measured.warnings))


def row(what: str, link_bps: float, found: float | None, true: float, note: str = "") -> dict[str, Any]:
    ratio = None if found is None else round(found / true, 4)
    return {"what": what, "link_mbps": link_bps / 1e6, "found": found, "true": true, "ratio": ratio, "note": note}


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(title="found against true, on links shaped to a known rate", header_style="bold")
    for column in ("link (Mbit/s)", "what", "found", "true", "found / true", "note"):
        table.add_column(column)
    for one in rows:
        unit, scale = ("packet/s", 1.0) if one["what"] == "packet rate" else ("Mbit/s", 1e6)
        found = "–" if one["found"] is None else f"{one['found'] / scale:.2f} {unit}"
        ratio = "–" if one["ratio"] is None else f"{one['ratio']:.4f}"
        table.add_row(
            f"{one['link_mbps']:g}", one["what"], found, f"{one['true'] / scale:.2f} {unit}", ratio, one["note"]
        )
    Console().print(table)


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Found over true by the link's rate, as a Vega-Lite plot; the band is two per cent."""
    ratios = [one["ratio"] for one in rows if one["ratio"] is not None]
    scale = {"zero": False, "domain": [min(0.95, *ratios), max(1.05, *ratios)]}
    band = {
        "data": {"values": [{"low": 0.98, "high": 1.02}]},
        "mark": {"type": "rect", "opacity": 0.12},
        "encoding": {"y": {"field": "low", "type": "quantitative"}, "y2": {"field": "high"}},
    }
    points = {
        "data": {"values": [one for one in rows if one["ratio"] is not None]},
        "mark": {"type": "point", "filled": True, "size": 60},
        "encoding": {
            "x": {"field": "link_mbps", "type": "quantitative", "scale": {"type": "log"}, "title": "link (Mbit/s)"},
            "y": {"field": "ratio", "type": "quantitative", "scale": scale, "title": "found / true"},
            "color": {"field": "what", "type": "nominal", "title": None},
            "shape": {"field": "what", "type": "nominal", "title": None},
        },
    }
    plot = {"title": "Found against true", "width": 560, "height": 280, "layer": [band, points]}
    path.write_text(vl_convert.vegalite_to_svg(plot))


if __name__ == "__main__":
    main()
