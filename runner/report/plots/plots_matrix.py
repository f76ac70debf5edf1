"""Heat maps: VPN by cipher, and the crypto matrix, encryption by integrity at each packet length."""

from __future__ import annotations

from runner.data.levels import BASELINE, ranked_by
from runner.design.blocks import Plot
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable
from runner.report.plots.drawing import Value, spec_of
from runner.report.plots.plotting import key_of, unit_of
from runner.report.plots.vega import Spec

LABEL: Spec = {
    "text": {"field": "label"},
    "color": {"condition": {"test": "datum.share > 0.6", "value": "white"}, "value": "black"},
}
SHARE: Spec = {
    "field": "share",
    "type": "quantitative",
    "scale": {"scheme": "blues", "domain": [0, 1]},
    "legend": {"format": "%", "title": "of the best"},
}


def matrix(experiment: ExperimentReport, table: MetricTable) -> Plot | None:
    """VPN by cipher: the throughput at the usual traffic, coloured by its share of the VPN's best."""
    wanted = ranked_by(table.measure)
    rows = [
        row
        for row in table.measured_rows
        if row.params.get("compression", "off") == "off"
        and row.vpn != BASELINE
        and all(row.params.get(factor, level) == level for factor, level in wanted.items())
    ]
    tunnels = {(row.vpn, text.configuration(row.params)) for row in rows}
    if len({cipher for _, cipher in tunnels}) < 3 or len(tunnels) < len(rows):  # other factors vary: no matrix
        return None
    several = {vpn for vpn, _ in tunnels if sum(other == vpn for other, _ in tunnels) > 1}
    rows = [row for row in rows if row.vpn in several]  # a VPN with one cipher has 100 % of its best
    if not rows:
        return None
    scale, unit = unit_of(table)
    best: dict[str, float] = {}
    for row in rows:
        best[row.vpn] = max(best.get(row.vpn, 0.0), row.summary.median if row.summary else 0.0)
    values: list[Value] = []
    for row in rows:
        assert row.summary
        value: Value = {"vpn": row.vpn, "cipher": text.configuration(row.params), "median": row.summary.median / scale}
        value |= {"share": row.summary.median / best[row.vpn], "label": f"{row.summary.median / scale:.3g}"}
        values.append(value | {"says": text.with_interval(row.summary, table.unit, row.at_least > 0)})
    x = {"field": "cipher", "title": None, "axis": {"labelAngle": -35, "labelLimit": 200}}
    y = {"field": "vpn", "title": None}
    tooltip = [{"field": "vpn"}, {"field": "cipher"}, {"field": "says", "title": "median (95 %)"}]
    return Plot(
        key=key_of(experiment, "matrix"),
        title=f"Throughput by cipher ({unit})",
        alt=f"Heat map: TCP throughput in {unit} of {len(best)} VPNs with each cipher. The table has all numbers.",
        spec=spec_of(
            {"height": 30 * len(best), "data": {"values": values}, "layer": _cells({"x": x, "y": y}, tooltip)},
            "Colour: share of its best.",
        ),
    )


def encryption_by_integrity(experiment: ExperimentReport, table: MetricTable) -> list[Plot]:
    """The crypto matrix (the router paper, section VI), a plot for each VPN. Its best value at a length is darkest."""
    rows = [row for row in table.measured_rows if {"cipher", "integrity", "packet_bytes"} <= set(row.params)]
    usual = [row for row in rows if row.vpn != BASELINE and "driver" not in row.params and row.summary]
    plots = []
    for vpn in sorted({row.vpn for row in usual}):
        of_vpn = [row for row in usual if row.vpn == vpn]
        ciphers = sorted({row.params["cipher"] for row in of_vpn})
        integrities = sorted({row.params["integrity"] for row in of_vpn})
        lengths = sorted({int(row.params["packet_bytes"]) for row in of_vpn})
        at = {tuple(row.params[factor] for factor in ("cipher", "integrity", "packet_bytes")) for row in of_vpn}
        if len(ciphers) < 3 or len(integrities) < 2 or len(at) < len(of_vpn):  # other factors vary: no matrix
            continue
        plots.append(_matrix_of(experiment, table, vpn, lengths, len(ciphers)))
    return plots


def _matrix_of(experiment: ExperimentReport, table: MetricTable, vpn: str, lengths: list[int], ciphers: int) -> Plot:
    rows = [row for row in table.measured_rows if row.vpn == vpn and "driver" not in row.params]
    values: list[Value] = []
    for length in lengths:
        medians = {
            (row.params["cipher"], row.params["integrity"]): row
            for row in rows
            if row.summary and row.params.get("packet_bytes") == str(length)
        }
        best = max(row.summary.median for row in medians.values() if row.summary)
        for (cipher, integrity), row in medians.items():
            assert row.summary
            value: Value = {"cipher": cipher, "integrity": integrity, "packet": f"{length} B", "share": 0.0}
            value["share"] = row.summary.median / best if best else 0.0
            value["label"] = f"{row.summary.median / 1000:.3g}"
            values.append(value | {"says": text.with_interval(row.summary, table.unit, row.at_least > 0)})
    x = {"field": "integrity", "title": None, "axis": {"labelAngle": -35}}
    at = {"x": x, "y": {"field": "cipher", "title": None}}
    tooltip = [{"field": what} for what in ("cipher", "integrity", "packet")]
    cells = {"width": {"step": 52}, "height": 22 * ciphers, "layer": _cells(at, [*tooltip, {"field": "says"}])}
    by_length = {"field": "packet", "sort": [f"{length} B" for length in lengths], "title": "inner packet"}
    body = {"data": {"values": values}, "facet": {"column": by_length}, "spec": cells}
    spec = spec_of(body, "Colour: share of the best at that length. AEAD ciphers have their integrity within.")
    del spec["width"]  # each facet has a width of its own
    return Plot(
        key=key_of(experiment, f"{table.metric}-{vpn}-matrix"),
        title=f"{table.title} of {vpn} by encryption and integrity (1000 packets/s)",
        alt=f"Heat map: {table.title} in 1000 packets/s of {vpn}, encryption by integrity, for inner packets of "
        f"{', '.join(map(str, lengths))} bytes. The table has all numbers.",
        spec=spec,
    )


def _cells(at: Spec, tooltip: list[Spec]) -> list[Spec]:
    """A coloured cell with its number."""
    return [
        {"mark": "rect", "encoding": at | {"color": SHARE, "tooltip": tooltip}},
        {"mark": {"type": "text", "fontSize": 11}, "encoding": at | LABEL},
    ]
