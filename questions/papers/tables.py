"""What was measured, probed and counted beside the OSLV paper's Figure 3 and Tables 1 to 5, and the thesis' tables; and
the scale of what is declared: one model.

The paper judges set-up, modularity, routing, security and scalability by reading. Here each of its tables stands beside
what this run counted or probed of a plugin of the same protocol; docs/security.md and docs/operations.md define each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from questions.papers import fragmentation, oslv_performance, udp_loss, variation
from runner.data.kinds import Strict
from runner.data.levels import BASELINE
from runner.data.metric import Metric
from runner.data.strength import MOST, PER_FAILURE, SCALE, WITH_A_BREAK
from runner.data.trials import Measurement, Run, Trial
from runner.design.blocks import Block, Heading, Note, Paragraph, Table
from runner.evidence.stats import trials_by_cell
from runner.papers.tables import AT, SIZES, paper_security, tables
from runner.report import mesh

PROBES = (
    *("confidentiality", "data_integrity", "anti_replay", "peer_authentication", "key_authentication"),
    *("fail_closed", "diversion_resistance", "length_hiding", "content_hiding"),
)
COLUMNS = (
    *("plaintext", "tampering", "replay", "stranger", "wrong key", "tunnel down"),
    *("diversion", "lengths", "content"),
)
WORDS = {1.0: "pass", 0.0: "FAIL"}
ABOUT = (
    "What the OSLV paper judges by reading is probed or counted here; its Figure 3 and the thesis' tables are "
    "measured. Beside it stands, as "
    f"printed, what the paper has of the system of the same protocol: {tables()['source']}."
)
NONE = "–"


class PaperTable(Strict):
    """One table: ``head`` names the columns of ``rows``; ``about`` says how to read it, ``notes`` what needs words."""

    key: str
    title: str
    about: str
    head: list[str]
    rows: list[list[str]]
    notes: list[str] = []


def paper_tables(run: Run, trials: Sequence[Trial]) -> list[PaperTable]:
    """The tables for which the run has something, in the paper's order; empty for a run of other experiments."""
    counts, probed = (_cells(trials, measure) for measure in ("operations", "security"))
    performance = PaperTable(
        key="figure-3",
        title="Network performance (Figure 3)",
        about=oslv_performance.ABOUT,
        head=list(oslv_performance.HEAD),
        rows=oslv_performance.rows(run, trials),
    )
    losses = PaperTable(
        key="thesis-3",
        title="Loss at the UDP throughput (the thesis' Table 3)",
        about=udp_loss.ABOUT,
        head=list(udp_loss.HEAD),
        rows=udp_loss.rows(run, trials),
    )
    fragments = PaperTable(
        key="thesis-fragments",
        title="Who fragments a datagram of 1470 bytes (the thesis' UDP test)",
        about=fragmentation.ABOUT,
        head=list(fragmentation.HEAD),
        rows=fragmentation.rows(run, trials),
    )
    made = [
        performance,
        losses,
        fragments,
        *_variation_tables(run, trials),
        *(_count_tables(counts) if counts else ()),
        *(_probe_tables(probed, run.metrics) if probed else ()),
        _meshes(trials),
    ]
    return sorted((table for table in made if table.rows), key=lambda table: table.key)


def _variation_tables(run: Run, trials: Sequence[Trial]) -> Iterator[PaperTable]:
    """The thesis' tables of how much its tests vary."""
    for table, what in variation.TITLES.items():
        rows, notes = variation.rows(run, trials, table)
        title = f"Coefficients of variation {what} (the thesis' Table {table})"
        yield PaperTable(
            key=f"thesis-{table}", title=title, about=variation.ABOUT, head=list(variation.HEAD), rows=rows, notes=notes
        )


def _cells(trials: Sequence[Trial], measure: str) -> list[list[Trial]]:
    """The ok trials of this measurement, in a list for each cell: the baseline's first, then VPN by VPN."""
    cells = trials_by_cell(t for t in trials if t.status == "ok" and t.params.get("measure") == measure)
    return sorted(cells.values(), key=lambda own: (own[0].vpn != BASELINE, own[0].vpn, own[0].cell))


def _count_tables(cells: Sequence[Sequence[Trial]]) -> Iterator[PaperTable]:
    """Tables 1, 2, 3 and 5. Their counts are the same in every repetition, because nothing has to run for them."""
    by_vpn = {own[-1].vpn: {m.metric: m for m in own[-1].measurements} for own in cells}
    yield PaperTable(
        key="table-1",
        title="Set-up complexity (Table 1)",
        about="Of a tunnel between two sites, both gateways together; the paper has one to seven asterisks.",
        head=["VPN", "files", "lines", "commands", "secrets", "paper's system", "paper's asterisks"],
        rows=[
            [
                vpn,
                *[_number(by_metric.get(f"setup_{what}")) for what in ("files", "lines", "commands", "secrets")],
                *_paper(by_metric.get("setup_files"), "paper_system", "paper_asterisks"),
            ]
            for vpn, by_metric in by_vpn.items()
        ],
    )
    yield PaperTable(
        key="table-2",
        title="Modularity (Table 2)",
        about="What configuration alone gives; the paper rates how hard an algorithm of one's own is to introduce.",
        head=["VPN", "ciphers by configuration", "integrity", "compression", "paper's system", "paper's difficulty"],
        rows=[
            [
                vpn,
                _list_words(by_metric.get("cipher_choice"), "ciphers"),
                _list_words(by_metric.get("cipher_choice"), "integrities"),
                _list_words(by_metric.get("cipher_choice"), "compressions"),
                *_paper(by_metric.get("cipher_choice"), "paper_system", "paper_difficulty"),
            ]
            for vpn, by_metric in by_vpn.items()
        ],
    )
    yield PaperTable(
        key="table-3",
        title="Routing (Table 3)",
        about="Route commands of a tunnel between two sites, and who sets the routes as the plugin declares.",
        head=["VPN", "route commands", "routes set by", "paper's system", "paper's routing"],
        rows=[
            [
                vpn,
                _number(by_metric.get("manual_routes")),
                str(_detail(by_metric.get("manual_routes")).get("declared", NONE)),
                *_paper(by_metric.get("manual_routes"), "paper_system", "paper_routing"),
            ]
            for vpn, by_metric in by_vpn.items()
        ],
    )
    yield _scalability(by_vpn, {own[-1].vpn: own[-1] for own in cells})


def _scalability(by_vpn: Mapping[str, Mapping[str, Measurement]], trials: Mapping[str, Trial]) -> PaperTable:
    rows, notes = [], []
    for vpn, by_metric in by_vpn.items():
        detail = _detail(by_metric.get("scaling_effort"))
        if not detail:
            why = trials[vpn].attempt.get("inconclusive", {}).get("scaling_effort", {}).get("reason")
            notes += [f"{vpn}: {why}"] if why else []
            continue
        joins, paper = detail.get("joining", {}), detail.get("paper")
        if (at := joins.get(str(AT))) is None:
            continue
        of_paper = (
            [" + ".join(paper[what] or "0" for what in ("files", "routes", "keys")), paper["total"]] if paper else []
        )
        rows.append(
            [
                vpn,
                f"{at['files']} + {at['routes']} + {at['keys']}",
                " · ".join(str(joins[str(size)]["effort"]) for size in SIZES if str(size) in joins),
                _number(by_metric.get("scaling_lines")),
                str(detail.get("paper_system", NONE)).replace("_", " "),
                *(of_paper or [NONE, NONE]),
                f"{paper['printed_at_10']}; {paper['recomputed'].get(str(AT), NONE)}" if paper else NONE,
            ]
        )
    return PaperTable(
        key="table-5",
        title="Scalability (Table 5)",
        about=f"What the {AT}th site of a full mesh costs: files + routes + keys, times N for the effort, at N = "
        f"{', '.join(map(str, SIZES))}. The paper's sum at N = {AT} as printed, and recomputed from its own cells: "
        "[sic] marks what does not follow from its row.",
        head=[
            *("VPN", f"files + routes + keys at {AT}", "effort, by N", f"lines at {AT}"),
            *("paper's system", "paper: files + routes + keys", "paper's total", f"printed; recomputed at {AT}"),
        ],
        rows=rows,
        notes=notes,
    )


def _meshes(trials: Sequence[Trial]) -> PaperTable:
    rows = mesh.rows(mesh.mesh_points(trials))
    return PaperTable(key="table-5-mesh", title="Full meshes", about=mesh.ABOUT, head=list(mesh.HEAD), rows=rows)


def _probe_tables(cells: Sequence[Sequence[Trial]], metrics: Mapping[str, Metric]) -> Iterator[PaperTable]:
    """Table 4 and the declared strengths. A verdict that differs between repetitions is shown with its counts."""
    rows, notes, rated = [], [], []
    for own in cells:
        first = own[0]
        name = first.vpn + (", compression" if first.params.get("compression", "off") != "off" else "")
        rows.append([name, *[_verdict(own, probe) for probe in PROBES], _paper_row(first.vpn)])
        notes += [f"{name}: {reason}" for reason in dict.fromkeys(_reasons(own, metrics))]
        if strength := next((m for m in first.measurements if m.metric == "declared_strength"), None):
            rated.append(_strength_row(first.vpn, strength))
    yield PaperTable(
        key="table-4",
        title="Security (Table 4)",
        about="Probed from the WAN, each probe with its control: pass, FAIL, or ? where the control did not come out. "
        "With compression only what it can change is probed again. The paper's columns: confidentiality, data "
        "integrity, authentication, anti-replay; it takes open standards (SSH, TLS, IPsec) to be secure and lists "
        "none.",
        head=["VPN", *COLUMNS, "paper"],
        rows=rows,
        notes=notes,
    )
    yield PaperTable(
        key="table-4-declared",
        title="Declared strength",
        about=f"Points of {MOST} by the scale below, {PER_FAILURE} less for each failed probe: a failure "
        "outranks a declaration. Bits: NIST SP 800-57-1r5, Table 2, of the weaker of cipher and key exchange.",
        head=["VPN", "value", "declared", "bits", "points", "as of, sources"],
        rows=rated,
    )
    yield PaperTable(
        key="table-4-scale",
        title="The scale of what is declared",
        about=f"With a known break that is not fixed at these levels {WITH_A_BREAK} points at most; without "
        "encryption or without authentication none. The points are this project's, after these sources.",
        head=["points", "for", "after"],
        rows=[[str(points), what, source] for points, what, source in SCALE] if rated else [],
    )


def _verdict(own: Sequence[Trial], probe: str) -> str:
    """The verdict over the repetitions: ``pass``, or ``FAIL 1, pass 2`` where they differ; a dash where the cell has no
    such probe."""
    verdicts = [WORDS.get(m.value, f"{m.value:g}") for trial in own for m in trial.measurements if m.metric == probe]
    verdicts += ["?" for trial in own if probe in trial.attempt.get("inconclusive", {})]
    if len(set(verdicts)) < 2:
        return verdicts[0] if verdicts else NONE
    return ", ".join(f"{word} {verdicts.count(word)}" for word in ("FAIL", "?", "pass") if word in verdicts)


def _reasons(own: Sequence[Trial], metrics: Mapping[str, Metric]) -> Iterator[str]:
    """What failed or stayed open, in a probe's own words."""
    for trial in own:
        for m in trial.measurements:
            if m.metric in PROBES and m.value == 0:
                yield f"{metrics[m.metric].title}: {m.detail.get('reason', '')}"
        for probe, inconclusive in trial.attempt.get("inconclusive", {}).items():
            if probe in metrics:
                yield f"{metrics[probe].title}: inconclusive: {inconclusive['reason']}"


def _paper_row(vpn: str) -> str:
    """The paper's row of Table 4, as ✓ and ✗ in its columns' order."""
    return " ".join("✓" if yes else "✗" for yes in paper_security(vpn).values()) or NONE


def _strength_row(vpn: str, strength: Measurement) -> list[str]:
    detail = strength.detail
    return [
        vpn,
        f"{strength.value:g}",
        str(detail.get("declared_points", NONE)),
        str(detail["strength_bits"]) if detail.get("strength_bits") is not None else NONE,
        "; ".join(detail.get("reasons", [])),
        f"{detail.get('as_of', '')}: {'; '.join(detail.get('sources', []))}",
    ]


def _detail(measurement: Measurement | None) -> dict[str, Any]:
    return measurement.detail if measurement else {}


def _number(measurement: Measurement | None) -> str:
    return f"{measurement.value:g}" if measurement else NONE


def _list_words(measurement: Measurement | None, what: str) -> str:
    names = _detail(measurement).get(what, [])
    return f"{len(names)}: {', '.join(names)}" if names else "none"


def _paper(measurement: Measurement | None, *keys: str) -> list[str]:
    detail = _detail(measurement)
    shown = [detail.get(key, NONE) for key in keys]
    return ["*" * value if isinstance(value, int) else str(value).replace("_", " ") for value in shown]


def section(tables: Sequence[PaperTable]) -> list[Block]:
    """The section, for every form; empty for a run of other experiments."""
    if not tables:
        return []
    blocks = [
        Table(table.title, table.head, table.rows, table.about, [Note(note) for note in table.notes])
        for table in tables
    ]
    return [Heading("Beside the papers' figure and tables", "paper-tables"), Paragraph(ABOUT), *blocks]
