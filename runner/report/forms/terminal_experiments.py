"""The questions of the experiments in a terminal, each with its answer in numbers."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.data.levels import BASELINE
from runner.design.question import Said
from runner.evidence.model import ALL_EQUAL, Summary
from runner.report import text
from runner.report.effects import Effect
from runner.report.experiments import ExperimentReport, MetricTable, Problem, Row
from runner.report.facts import FARM
from runner.report.model import Report

FEW = 2  # metrics of an experiment that are shown where a run has several experiments
MOST = 12  # values of a metric
ENOUGH = 3  # of an experiment's metrics that count: from here on a ranking answers it, if it varies nothing
HAPPENS = ("failure", "load")  # factors that nobody chooses: the answer is what each of their levels does
REASON_SHOWN = 200
BAD = ("failed", "lab_error", "partly")  # these are told of every experiment
ALONE = (*BAD, "unsupported", "not run")


def is_answered(experiment: ExperimentReport, said: Said, report: Report) -> bool:
    """Does the experiment ask how VPNs compare as a whole, and does this answer compare them? Then it is its answer."""
    own = {table.metric for table in experiment.tables}
    compared = own & {*(said.compares or ())}
    # What the machines of a farm disagree about is in that answer, however few the metrics are.
    farm = any(fact.name == FARM for fact in report.facts)
    return not experiment.effects and bool(said.compares) and (farm or len(compared) >= ENOUGH)


def render_experiments(report: Report, console: Console) -> None:
    """Print each question that no answer compares VPNs for, and below it what was measured, with intervals."""
    alone = len(report.experiments) == 1
    for experiment in report.experiments:
        if any(is_answered(experiment, said, report) for said in report.lead()):
            continue
        console.print(Text(experiment.question, "bold"))
        tables = [table for table in experiment.tables if table.measured_rows]
        for table in tables if alone else tables[:FEW]:
            effects = [effect for effect in experiment.effects if effect.metric == table.metric]
            if _is_verdict(table):
                console.print(_verdicts(table))
            elif effects and effects[0].factor in HAPPENS:
                console.print(Text(f"{table.title}:", "cyan"))
                console.print(_by_level(table, effects[0].factor))
            elif effects:
                console.print(Text(_head(table, effects), "cyan"))
                console.print(_effects(table, effects))
            else:
                console.print(_values(table))
        for problem in experiment.problems:
            if problem.status in (ALONE if alone else BAD):
                console.print(_problem(problem))


def _problem(problem: Problem) -> Text:
    status = problem.status.replace("_", " ").capitalize()
    words = Text.assemble((f"{status}: ", "yellow"), f"{', '.join(problem.cells)}: {problem.reason}")
    words.truncate(REASON_SHOWN, overflow="ellipsis")
    return words


def _head(table: MetricTable, effects: list[Effect]) -> str:
    first, *others = {(effect.of, effect.over) for effect in effects}
    of, over = ("the best " + effects[0].factor.replace("_", " "), "that of the worst") if others else first
    return f"{table.title}: {of}, and its ratio to {over}"


def _effects(table: MetricTable, effects: list[Effect]) -> Table:
    """A row for each VPN and combination of the other levels: the value, and its ratio to the other level's."""
    alike = len({(effect.of, effect.over) for effect in effects}) == 1
    grid = Table.grid(padding=(0, 2, 0, 0))
    for last in (False, False, True):
        grid.add_column(no_wrap=not last, overflow="fold")
    for effect in effects:
        pair = "" if alike else f"{effect.of} over {effect.over}"
        words = ", ".join(filter(None, (effect.held, pair)))
        value = _value(effect.value, table)
        grid.add_row(f"  {effect.vpn}", value, f"{text.share(effect.ratio, 'lower')}  {words}".rstrip())
    return grid


def _by_level(table: MetricTable, factor: str) -> Table:
    """A row for each VPN: its value at each level of the factor."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    rows = [row for row in table.measured_rows if row.vpn != BASELINE]
    for vpn in dict.fromkeys(row.vpn for row in rows):
        said = [
            f"{text.traffic({factor: row.params.get(factor, '')}).replace('_', ' ')} {_value(row.summary, table)}"
            for row in rows
            if row.vpn == vpn and row.summary
        ]
        grid.add_row(f"  {vpn}", ", ".join(said))
    return grid


def _is_verdict(table: MetricTable) -> bool:
    return table.unit == "1" and {row.summary.median for row in table.rows if row.summary} <= {0.0, 1.0}


def _verdicts(table: MetricTable) -> Text:
    """Who passed, and who failed, at which levels where others of its rows passed."""
    passed, failed = (
        [row for row in table.measured_rows if row.summary and row.summary.median == verdict] for verdict in (1.0, 0.0)
    )
    both = {row.vpn for row in passed} & {row.vpn for row in failed}
    lists = []
    for word, rows in (("passed", passed), ("failed", failed)):
        if names := dict.fromkeys(_vpn(row) + f" ({row.levels})" * (row.vpn in both) for row in rows):
            lists.append(f"{word}: {', '.join(names)}")
    return Text.assemble((f"{table.title}: ", "cyan"), "; ".join(lists))


def _values(table: MetricTable) -> Text:
    """The VPNs in the order of their values, each with its share of plain IP's where that was measured."""
    said = [
        f"{_name(row, table)} {_value(row.summary, table, row.at_least > 0)}{_of_plain(row, table)}"
        for row in table.rows
        if row.summary
    ]
    more = f", and {len(said) - MOST} more" * (len(said) > MOST)
    return Text.assemble((f"{table.title}: ", "cyan"), ", ".join(said[:MOST]) + more)


def _of_plain(row: Row, table: MetricTable) -> str:
    """`` = 3.8 % of plain IP``; of what should be low `` = 4.8 × plain IP``."""
    if not row.share or row.share.ratio is None:
        return ""
    ratio = row.share.ratio
    return f" = {100 * ratio:.2g} % of plain IP" if table.better == "higher" else f" = {ratio:.2g} × plain IP"


def _value(summary: Summary, table: MetricTable, at_least: bool = False) -> str:
    """A value with its interval; what has none because it is a count, or always came out the same, alone."""
    if summary.method == ALL_EQUAL:
        scale, unit = text.prefix(summary.median, table.unit)
        value = f"{summary.median:g}" if scale == 1 else text.digits(summary.median / scale)
        return f"{'≥ ' * at_least}{value} {unit}".removesuffix(" 1")
    return text.with_interval(summary, table.unit, at_least).removesuffix(" 1")


def _name(row: Row, table: MetricTable) -> str:
    """The VPN, with its levels where it has several rows."""
    several = sum(other.vpn == row.vpn for other in table.rows) > 1
    return f"{_vpn(row)} ({row.levels})" if several and row.levels else _vpn(row)


def _vpn(row: Row) -> str:
    """The VPN's name; plain IP's own, none, would read as a word."""
    return "plain IP" if row.vpn == BASELINE else row.vpn
