"""An experiment in the report: a table for each metric, a row for each cell, and the reasons for what is missing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Literal

from pydantic import Field

from runner.data.crypto_limit import crypto_limit
from runner.data.kinds import Strict
from runner.data.levels import BASELINE
from runner.data.metric import Metric
from runner.data.trials import Cell, ExperimentRecord, Run, Trial, cell_key
from runner.evidence.cells import Baseline, Numbers, numbers_of
from runner.evidence.configurations import why_absent
from runner.evidence.model import Ratio, Summary
from runner.evidence.stats import block_values, lower_bounds
from runner.evidence.ties import in_order
from runner.report import text
from runner.report.effects import Effect, effects
from runner.report.text import bound_mark, share
from runner.report.text import levels as levels_in_words

CellStatus = Literal["ok", "partly", "failed", "unsupported", "lab_error", "interrupted", "not measured", "not run"]

Levels = tuple[str, ...]  # a cell's, in words


class Row(Strict):
    """One cell of one metric. ``levels`` names what varies in the experiment; ``summary`` is None where
    nothing was measured, ``share`` where there is no baseline (and on the baseline itself). ``problem`` is
    the number of the experiment's problem that explains it; ``ok`` and ``trials`` count trials. ``at_least``
    counts the blocks whose value is a lower bound, ``baseline_at_least`` tells of one under the share.
    ``crypto_share``: the median over what OpenSSL encrypts on one core at these levels (runner.lab.readings.facts).
    ``limit``: what limits it, in a sentence, where it is a throughput whose machines were watched."""

    vpn: str
    params: dict[str, str]
    levels: str
    phrases: tuple[str, ...] = Field(default=(), exclude=True)  # that ``levels`` is made of
    status: CellStatus
    ok: int
    trials: int
    reason: str
    problem: int | None = None
    reference: bool
    not_encrypted: bool
    summary: Summary | None
    share: Ratio | None
    at_least: int = 0
    baseline_at_least: bool = False
    crypto_share: float | None = None
    limit: str = ""


class Problem(Strict):
    """One reason, and everything in a table or an experiment that it explains; ``cells`` are phrases."""

    number: int
    status: CellStatus
    reason: str
    cells: list[str]


class MetricTable(Strict):
    """One metric of an experiment. ``measure``: its instrument; ``common``: the levels that all its cells share."""

    metric: str
    measure: str
    title: str
    unit: str
    better: Literal["higher", "lower"]
    common: str
    rows: list[Row]

    @property
    def crypto_limit(self) -> str:
        """How near to the crypto limit each VPN runs, in a sentence; empty where that is not known. VPNs with several
        ciphers in this table are left out: their slowest cipher would have the largest share, and look best."""
        shares: dict[str, list[float]] = {}
        ciphers: dict[str, set[tuple[str | None, str | None]]] = {}
        for row in self.rows:
            if row.crypto_share is not None:
                shares.setdefault(row.vpn, []).append(row.crypto_share)
                ciphers.setdefault(row.vpn, set()).add((row.params.get("cipher"), row.params.get("integrity")))
        return text.crypto_limit({vpn: vpn_shares for vpn, vpn_shares in shares.items() if len(ciphers[vpn]) == 1})

    @property
    def measured_rows(self) -> list[Row]:
        """The rows that have a value."""
        return [row for row in self.rows if row.summary]


class ExperimentReport(Strict):
    """One experiment: its words, a table for each metric, and the problems that the tables number."""

    name: str
    question: str
    method: str
    source: str
    tables: list[MetricTable]
    problems: list[Problem]
    effects: list[Effect] = []


def row_levels(row: Row) -> str:
    """The row's levels. A row that is not encrypted always says so."""
    if not row.not_encrypted:
        return row.levels
    return ", ".join(("not encrypted", *(phrase for phrase in row.phrases if phrase != text.NO_ENCRYPTION)))


def row_repetitions(row: Row) -> str:
    """``3``, or ``2/3`` where some trials did not end ok."""
    n = row.summary.n if row.summary else 0
    return f"{n}" if row.status == "ok" else f"{row.ok}/{row.trials}"


def row_share(row: Row, table: MetricTable) -> str:
    """The share of the baseline, with a mark where it is a bound."""
    return share(row.share, table.better, bound_mark(row.at_least, row.baseline_at_least))


def experiment_report(
    run: Run,
    trials: Sequence[Trial],
    by_cell: dict[str, list[Trial]],
    record: ExperimentRecord,
    limited: Mapping[tuple[str, str], str],
) -> ExperimentReport:
    """The tables of one experiment. ``by_cell``: cell -> its trials; ``limited``: (metric, cell) -> what limits it."""
    keys = {cell.key for cell in record.cells}
    extra = [t for t in trials if record.name in t.experiments and t.cell not in keys]
    cells = record.cells + list({t.cell: Cell(vpn=t.vpn, params=t.params) for t in extra}.values())
    tables = [_table(run, trials, by_cell, cells, metric) for metric in record.metrics]
    problems = _problems([row for table in tables for row in table.rows])
    number = {(problem.status, problem.reason): problem.number for problem in problems}
    for index, table in enumerate(tables):
        rows = [
            row.model_copy(
                update={
                    "problem": number.get((row.status, row.reason)),
                    "limit": limited.get((table.metric, cell_key(row.vpn, row.params)), ""),
                }
            )
            for row in table.rows
        ]
        tables[index] = table.model_copy(update={"rows": rows})
    return ExperimentReport(
        name=record.name,
        question=record.question,
        method=record.method,
        source=record.source,
        tables=[table for table in tables if table.rows],
        problems=problems,
        effects=effects(
            record,
            by_cell,
            {table.metric: table.better for table in tables},
            [table.metric for table in tables if table.measured_rows],
        ),
    )


def _table(
    run: Run, trials: Sequence[Trial], by_cell: dict[str, list[Trial]], cells: Sequence[Cell], metric: str
) -> MetricTable:
    """The metric's rows: VPNs by their best median, the unmeasured at the end, cells in declared order."""
    mine = [cell for cell in cells if _carries(cell, by_cell.get(cell.key, []), run.metrics[metric])]
    varying, common = _split(mine)
    baseline = Baseline(trials, metric)
    own = [by_cell.get(cell.key, []) for cell in mine]
    known = run.metrics[metric]
    numbers = numbers_of(mine, [block_values(trials, metric) for trials in own], baseline, exact=known.exact)
    rows = [
        _row(run, trials, cell, metric, varying, baseline, cell_numbers)
        for cell, trials, cell_numbers in zip(mine, own, numbers, strict=True)
    ]
    sign = -1 if known.better == "higher" else 1
    best: dict[str, float] = {}
    for row in rows:
        value = sign * row.summary.median if row.summary else float("inf")
        best[row.vpn] = min(value, best.get(row.vpn, float("inf")))
    rows.sort(key=lambda row: row.vpn)
    return MetricTable(
        metric=metric,
        measure=known.measure,
        title=known.title,
        unit=known.unit,
        better=known.better,
        common=", ".join(filter(None, (levels_in_words(common), _bursts(own, metric)))),
        rows=in_order(rows, [best[row.vpn] for row in rows]),
    )


def _bursts(by_cell: Sequence[Sequence[Trial]], metric: str) -> str:
    """The lengths of the bursts that were asked for and of those that were sent, in words; empty where no trial says
    so."""
    asked: dict[int, dict[str, list[float]]] = {}
    for trial in (trial for trials in by_cell for trial in trials):
        for measurement in trial.measurements:
            if measurement.metric == metric and measurement.detail.get("burst_packets"):
                sent = asked.setdefault(int(measurement.detail["burst_packets"]), {})
                if measurement.detail.get("burst_packets_sent"):
                    sent.setdefault(trial.vpn, []).append(float(measurement.detail["burst_packets_sent"]))
    return "; ".join(_burst(burst, sent) for burst, sent in sorted(asked.items()))


def _burst(asked: int, sent: Mapping[str, Sequence[float]]) -> str:
    """One length of a burst in words: what was asked for, and how many packets each VPN's trials sent back to back, as
    the mean of a trial."""
    lengths = [f"{vpn} {' to '.join(dict.fromkeys(map(_count, (min(of), max(of)))))}" for vpn, of in sent.items()]
    head = f"asked for in bursts of {asked} packet{'s' * (asked != 1)}"
    return f"{head}; really sent back to back, on average: {', '.join(lengths)}" if lengths else head


def _count(packets: float) -> str:
    return f"{packets:,.0f}" if packets >= 10 else f"{packets:.1f}"


def _carries(cell: Cell, trials: Sequence[Trial], metric: Metric) -> bool:
    """Whether the cell belongs to the metric: it was measured there, or its instrument measures the metric."""
    measured = any(m.metric == metric.name for trial in trials for m in trial.measurements)
    return measured or cell.params.get("measure") == metric.measure


def _row(
    run: Run,
    trials: Sequence[Trial],
    cell: Cell,
    metric: str,
    varying: set[str],
    baseline: Baseline,
    numbers: Numbers,
) -> Row:
    blocks = numbers.blocks
    ok = [t for t in trials if t.status == "ok"]
    bad = [t for t in trials if t.status != "ok"]
    reasons = list(dict.fromkeys(map(_reason, bad)))
    status: CellStatus
    if blocks:
        status = "partly" if bad else "ok"
    elif ok:
        status = "not measured"
        unsure = [t.attempt["inconclusive"][metric] for t in ok if metric in t.attempt.get("inconclusive", {})]
        absent = why_absent(run, cell.vpn, metric)
        why = f"inconclusive: {unsure[0]['reason']}" if unsure else absent
        reasons.append(_why_not_measured(ok, run.metrics[metric]) if why == status else why)
    else:
        status = bad[-1].status if bad else "not run"
        reasons = reasons or ["not run: trimmed, stopped or still to come"]
    bounded = lower_bounds(trials, metric)
    plain_bounded = baseline.values_at(cell.params)[1]
    phrases = _phrases(tuple((factor, level) for factor, level in cell.params.items() if factor in varying))
    return Row(
        vpn=cell.vpn,
        params=cell.params,
        levels=", ".join(phrases),
        phrases=phrases,
        status=status,
        ok=len(ok) if blocks else 0,
        trials=len(trials),
        reason="; ".join(reasons),
        reference=cell.vpn in run.vpns and run.vpns[cell.vpn].reference,
        not_encrypted=bool(ok) and any(not t.encrypted or (t.proof and not t.proof.confidential_promised) for t in ok),
        summary=numbers.summary,
        share=numbers.share,
        at_least=len(bounded & blocks.keys()),
        baseline_at_least=cell.vpn != BASELINE and bool(plain_bounded & blocks.keys()),
        crypto_share=_crypto_share(run, cell, blocks) if metric == "tcp_throughput" else None,
    )


def _reason(trial: Trial) -> str:
    """Why a trial has no value. That of a level that is not offered does not name the level: its row does already."""
    return (
        next((it.words for it in trial.remarks if it.kind == "not offered"), trial.reason) or "no reason was recorded"
    )


def _why_not_measured(trials: Sequence[Trial], metric: Metric) -> str:
    """Why trials have no value of a metric, from their own remarks."""
    none = [remark for trial in trials for remark in trial.remarks if remark.kind == "no value"]
    whys = dict.fromkeys(remark.why for remark in none if remark.subject == text.lower(metric.title))
    return "; ".join(whys) or "its trials gave no value of this metric"


@lru_cache(maxsize=50_000)  # called for every metric of a cell
def _phrases(levels: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    return tuple(text.phrases(dict(levels)))


def _crypto_share(run: Run, cell: Cell, blocks: Mapping[int, float]) -> float | None:
    """How near to the crypto limit one stream runs; None where nothing is encrypted or the limit is not known."""
    limit_bps = crypto_limit(run, cell.params)
    return statistics.median(blocks.values()) / limit_bps if blocks and limit_bps else None


def _problems(rows: Sequence[Row]) -> list[Problem]:
    """The reasons of all rows that were not measured as asked. Each reason is one problem, with the cells that it
    explains."""
    levels_of: dict[str, set[Levels]] = {}
    grouped: dict[tuple[CellStatus, str], dict[str, dict[Levels, None]]] = {}
    for row in rows:
        levels_of.setdefault(row.vpn, set()).add(row.phrases)
        if row.reason:
            grouped.setdefault((row.status, row.reason), {}).setdefault(row.vpn, {})[row.phrases] = None
    problems = []
    for number, ((status, reason), by_vpn) in enumerate(grouped.items(), 1):
        cells = [_cells(vpn, set(levels), levels_of[vpn]) for vpn, levels in by_vpn.items()]
        problems.append(Problem(number=number, status=status, reason=reason, cells=cells))
    return problems


def _cells(vpn: str, levels: set[Levels], every: set[Levels]) -> str:
    """Cells of one VPN in words. The VPN's name alone means all of its cells, a first level alone means all cells with
    that level."""
    if levels == every:
        return vpn
    heads = {head: {level for level in every if level[:1] == head} for head in {level[:1] for level in every}}
    whole = {head for head, own in heads.items() if own <= levels}
    words = whole | {level for level in levels if level[:1] not in whole}
    return f"{vpn} ({'; '.join(sorted(map(', '.join, words)))})"


def _split(cells: Sequence[Cell]) -> tuple[set[str], dict[str, str]]:
    """The factors that vary over the cells, and the levels of the other factors."""
    factors = dict.fromkeys(factor for cell in cells for factor in cell.params)
    levels = {factor: {cell.params.get(factor, "") for cell in cells} for factor in factors}
    varying = {factor for factor, values in levels.items() if len(values) > 1}
    return varying, {factor: next(iter(values)) for factor, values in levels.items() if len(values) == 1}
