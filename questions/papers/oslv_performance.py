"""The OSLV paper's Figure 3 for this run: each VPN on the link of 100 Mbit/s, normalised as in the paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from runner.data.levels import BASELINE
from runner.data.trials import Run, Trial
from runner.evidence.stats import compare_blocks, summarise
from runner.evidence.ties import ranks
from runner.papers.cells import LEAST_OVERHEAD_BYTES, LINK_BPS, metric_of
from runner.papers.findings import Data, NotMeasured, trials_of
from runner.report import text

HEAD = (
    *("VPN", "carried by", "overhead ÷ 80 B, 64 B packets", "512 B packets", "use of the link"),
    *("latency ÷ plain IP", "jitter ÷ plain IP", "mean rank"),
)
ABOUT = (
    "A link of 100 Mbit/s. Overhead: bytes added to a packet over 80, the least of the paper's. Use of the link: TCP "
    "goodput over the link's rate, mean of both directions. Latency and jitter: over plain IP's within the blocks. "
    "Each with its 95 % interval. Mean rank: of these four, equally weighted, as the paper's heuristic; a VPN that "
    "lacks one has none. The paper's own values are in its figure only."
)
Shown = dict[str, tuple[float, str]]  # VPN -> the number to rank by, and what is printed


def rows(run: Run, trials: Sequence[Trial]) -> list[list[str]]:
    """A row for each VPN that was measured on this link, without references; empty for a run without the experiment."""
    data = Data(run, trials_of(run, trials, "oslv"))
    vpns = [vpn for vpn in data.vpns() if not run.vpns[vpn].reference]
    columns = [
        _column(data, vpns, _overhead, "64"),
        _column(data, vpns, _overhead, "512"),
        _column(data, vpns, _use),
        _column(data, vpns, _over_plain, "rtt"),
        _column(data, vpns, _over_plain, "jitter"),
    ]
    places = mean_ranks([columns[1], *columns[2:]], vpns)
    table_rows = []
    for vpn in vpns:
        cells = [column[vpn][1] if vpn in column else text.NONE for column in columns]
        if any(cell != text.NONE for cell in cells):
            table_rows.append([vpn, run.vpns[vpn].transport, *cells, places.get(vpn, text.NONE)])
    return table_rows


def mean_ranks(columns: Sequence[Shown], vpns: Sequence[str]) -> Mapping[str, str]:
    """VPN -> the mean of its ranks in the columns (1 is best, ties share a rank), for the VPNs that are in every
    column."""
    ranked = [vpn for vpn in vpns if all(vpn in column for column in columns)]
    if not ranked:
        return {}
    places = [ranks([column[vpn][0] for vpn in ranked]) for column in columns]
    return {vpn: f"{sum(place[i] for place in places) / len(places):.2f}" for i, vpn in enumerate(ranked)}


def _column(data: Data, vpns: Sequence[str], make: Callable[..., tuple[float, str]], *args: str) -> Shown:
    column: Shown = {}
    for vpn in vpns:
        with suppress(NotMeasured):
            column[vpn] = make(data, vpn, *args)
    return column


def _overhead(data: Data, vpn: str, packet_bytes: str) -> tuple[float, str]:
    blocks = metric_of(data, "overhead_bytes", vpn, packet_bytes=packet_bytes)
    summary = summarise([value / LEAST_OVERHEAD_BYTES for value in blocks.values()])
    return summary.median, text.with_interval(summary, "×")


def _use(data: Data, vpn: str) -> tuple[float, str]:
    there, back = (metric_of(data, "tcp_throughput", vpn, direction=way) for way in ("forward", "reverse"))
    summary = summarise([50 * (there[block] + back[block]) / LINK_BPS for block in there.keys() & back.keys()])
    return -summary.median, text.with_interval(summary, "%")


def _over_plain(data: Data, vpn: str, metric: str) -> tuple[float, str]:
    ratio = compare_blocks(metric_of(data, metric, vpn), metric_of(data, metric, BASELINE))
    if ratio.ratio is None:
        raise NotMeasured(f"{vpn} and plain IP share no block")
    return ratio.ratio, text.share(ratio, "lower")
