"""The table of the equally good VPNs in words, the same in every form: a column a VPN, and below it where the values
are from."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from questions.choose.judgement import ComparedCell, ComparedRow, Kind, SideBySide
from runner.design.blocks import Note, Table, TableCell
from runner.report import text

LEAST_CORES = 0.005  # of a gateway: no run tells less from nothing
SHORTEST_S = 1.0  # shorter times of one failure are chance
HEADS: Mapping[Kind, str] = {
    "room": "room over your line",
    "carries": "carries here",
    "worst_second": "lost in the worst second",
    "gap": "longest gap",
    "address": "back after a new address",
    "nat": "back after a change of NAT",
    "restart": "back after a peer's restart",
    "setup_commands": "set-up: commands",
    "setup_lines": "set-up: lines of files",
    "scaling_lines": "tenth site: lines to change",
    "packet_bytes": "bytes added to a packet",
}
WORDS: Mapping[Kind, Callable[[float], str]] = {
    "room": lambda value: f"×{value:.2g}" if value < 10 else f"×{value:.0f}",
    "carries": lambda value: text.quantity(value, "bit/s"),
    "cores": lambda value: f"{value:.2f}" if value >= LEAST_CORES else "too little to be seen",
    "worst_second": lambda value: text.percent(value, 1),
    "gap": lambda value: text.quantity(value, "s"),
}
TIMES: tuple[Kind, ...] = ("address", "nat", "restart")


def table(made: SideBySide) -> Table:
    """The table, with a note for each run that values are from."""
    told = [row for row in made.rows if any(map(_source, row.cells))]
    rows = [[TableCell(_head(row, made)), *(_cell(row, cell) for cell in row.cells)] for row in told]
    nowhere = [_name(row) for row in made.rows if row not in told]
    notes = [*sources(made), *([Note(f"{', '.join(nowhere)}.", "Not measured of any of them:")] if nowhere else [])]
    about = "" if made.stated else f"Cores: at {_rate(made.at_bps)}, which all of them carry."
    return Table("Side by side", ["what", *made.vpns], rows, about, notes, named=True)


def sources(made: SideBySide) -> list[Note]:
    """A remark for each source: this run, shipped runs with their days, and declarations."""
    found: dict[str, dict[str, None]] = {}
    for row in made.rows:
        for cell in row.cells:
            if source := _source(cell):
                found.setdefault(source, {})[_name(row)] = None
    return [Note(f"{', '.join(names)}.", f"{source}:") for source, names in found.items()]


def _source(cell: ComparedCell) -> str:
    if cell.run:
        return f"Run {cell.run} of {cell.day}"
    if cell.word == "declared":
        return f"Declared on {cell.day}" if cell.day else "Said by the plugin"
    return "This run" if cell.value is not None or cell.trial else "Not tried" if cell.word else ""


def _head(row: ComparedRow, made: SideBySide) -> str:
    return f"cores of a gateway at {_rate(made.at_bps)}" if row.kind == "cores" else _name(row)


def _name(row: ComparedRow) -> str:
    return f"must {row.must}" if row.must else HEADS.get(row.kind, row.kind)


def _cell(row: ComparedRow, cell: ComparedCell) -> TableCell:
    opens = [Note(cell.trial, "Trial")] if cell.trial and not cell.run else []
    if row.must:
        return TableCell(cell.word or "unknown", opens=opens)
    if cell.value is None:
        return TableCell("not tried" if row.kind in TIMES else "not measured")
    if row.kind in TIMES:
        return TableCell(_time(cell.value, cell.at_least), opens=opens)
    words = WORDS.get(row.kind, "{:.0f}".format)(cell.value)
    return TableCell(f"≥ {words}" if cell.at_least else words, opens=opens)


def _time(value_s: float, at_least: bool) -> str:
    if at_least:
        return f"not within {value_s:.0f} s"
    return f"{value_s:.0f} s" if value_s >= SHORTEST_S else "< 1 s"


def _rate(rate_bps: float) -> str:
    scale, unit = text.prefix(rate_bps, "bit/s")
    return f"{rate_bps / scale:g} {unit}"
