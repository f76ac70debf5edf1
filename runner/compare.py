"""Did it get slower? Two runs, before and after, cell by cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from scipy import stats

from runner.metrics import METRICS
from runner.model import TRAFFIC_FACTORS, TUNNEL_FACTORS, Run, Strict, Trial
from runner.report import text
from runner.report.merge import identity
from runner.stats import Ratio, Summary, block_values, compare_independent, summarise

Verdict = Literal["regression", "improvement", "no difference", "not separable", "now failing"]
SIGNIFICANCE = 0.05


class Change(Strict):
    """One metric of one cell. ``ratio`` is after over before; ``adjusted_p`` is its p-value among all of the
    comparison's (Benjamini–Hochberg), None where there is no test. Summaries are in ``unit``."""

    vpn: str
    levels: str
    metric: str
    unit: str
    reference: bool
    before: Summary
    after: Summary | None
    ratio: Ratio | None
    adjusted_p: float | None
    verdict: Verdict
    reason: str = ""


class Comparison(Strict):
    """Two runs. ``regressed``: some ranked VPN has a regression, or fails where it did not; references
    (plain IP) do not count, their change is the machine's. ``differences``: how the runs' labs differ."""

    before: str
    after: str
    differences: list[str]
    changes: list[Change]
    only_before: list[str]
    only_after: list[str]
    regressed: bool


def compare_runs(before: tuple[Run, Sequence[Trial]], after: tuple[Run, Sequence[Trial]]) -> Comparison:
    """Compare every cell and metric that both runs measured: Welch's t on logarithms, and a verdict where the
    p-value adjusted for the number of comparisons is below 5 %. Otherwise a hundred equal cells would cry
    wolf five times in every CI run."""
    (run_a, trials_a), (run_b, trials_b) = before, after
    cells_a, cells_b = _by_cell(trials_a), _by_cell(trials_b)
    tests = []
    for key, old in cells_a.items():
        for metric in METRICS:
            values = block_values(old, metric)
            if values and key in cells_b:
                tests.append(_change(run_b, old[0], metric, list(values.values()), cells_b[key]))
    tested = [p for change, p in tests if p is not None]
    adjusted = iter([float(p) for p in stats.false_discovery_control(tested)] if tested else [])
    changes = [_judged(change, None if p is None else next(adjusted)) for change, p in tests]
    bad = ("regression", "now failing")
    ours, theirs = identity(run_a), identity(run_b)
    return Comparison(
        before=run_a.run_id,
        after=run_b.run_id,
        differences=[f"{name}: {value} → {theirs[name]}" for name, value in ours.items() if theirs[name] != value],
        changes=changes,
        only_before=sorted({_cell_title(cells_a[key][0]) for key in cells_a.keys() - cells_b.keys()}),
        only_after=sorted({_cell_title(cells_b[key][0]) for key in cells_b.keys() - cells_a.keys()}),
        regressed=any(change.verdict in bad and not change.reference for change in changes),
    )


def render(comparison: Comparison, console: Console) -> None:
    """Print what changed, then how much did not."""
    console.print(Text.assemble(("Before ", "cyan"), comparison.before, ("  after ", "cyan"), comparison.after))
    for difference in comparison.differences:
        console.print(Text(f"! the runs differ in {difference}: a change may be due to that", "yellow"))
    shown = [change for change in comparison.changes if change.verdict not in ("no difference", "not separable")]
    if shown:
        console.print(_table(shown))
    for verdict in ("no difference", "not separable"):
        number = sum(change.verdict == verdict for change in comparison.changes)
        if number:
            console.print(f"{text.counted(number, 'measurement')}: {verdict}")
    if not comparison.changes:
        console.print(Text("The runs share no measurement.", "bold red"))
    for words, cells in (("before", comparison.only_before), ("after", comparison.only_after)):
        if cells:
            console.print(Text(f"only {words}: {'; '.join(cells)}", "dim"))
    moved = [c for c in shown if c.reference and c.ratio]
    if moved:
        console.print(Text("! the references changed: the machine did, not only the VPNs", "yellow"))
    end = (
        ("Significant regression", "bold red") if comparison.regressed else ("No significant regression", "bold green")
    )
    console.print(Text.assemble(end, (f" (Welch's t, false discovery rate {SIGNIFICANCE:.0%})", "dim")))


def _table(changes: Sequence[Change]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    table.add_column("VPN and levels", overflow="fold")
    table.add_column("metric")
    table.add_column("before → after", justify="right")
    table.add_column("change (95 %)", justify="right")
    table.add_column("verdict", no_wrap=True)
    for change in changes:
        style = "green" if change.verdict == "improvement" else "red"
        after = text.with_interval(change.after, change.unit) if change.after else change.reason
        table.add_row(
            Text.assemble((change.vpn, "bold"), "\n", (change.levels, "dim")),
            text.SHORT.get(change.metric, change.metric),
            Text(f"{text.with_interval(change.before, change.unit)}\n{after}"),
            text.change(change.ratio).replace(" (", "\n(") if change.ratio else text.NONE,
            Text(change.verdict, "dim" if change.reference else style),
        )
    return table


def _change(
    run: Run, cell: Trial, metric: str, before: list[float], trials: Sequence[Trial]
) -> tuple[Change, float | None]:
    """The change of one metric, not yet judged, and the p-value of no change."""
    after = list(block_values(trials, metric).values())
    ratio, p = compare_independent(before, after) if after else (None, None)
    failed = [trial.reason for trial in trials if trial.status == "failed"]
    known = METRICS[metric]
    change = Change(
        vpn=cell.vpn,
        levels=_levels(cell),
        metric=metric,
        unit=known.unit,
        reference=cell.vpn in run.vpns and run.vpns[cell.vpn].reference,
        before=summarise(before),
        after=summarise(after) if after else None,
        ratio=ratio,
        adjusted_p=None,
        verdict="now failing" if failed and not after else "not separable",
        reason=" ".join(failed[0].split()) if failed else "" if after else "not measured",
    )
    return change, p


def _judged(change: Change, adjusted_p: float | None) -> Change:
    if adjusted_p is None or change.ratio is None or change.ratio.ratio is None:
        return change
    verdict: Verdict = "no difference"
    if adjusted_p < SIGNIFICANCE:
        better = (change.ratio.ratio > 1) == (METRICS[change.metric].better == "higher")
        verdict = "improvement" if better else "regression"
    return change.model_copy(update={"adjusted_p": adjusted_p, "verdict": verdict})


def _by_cell(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    cells: dict[str, list[Trial]] = {}
    for trial in trials:
        cells.setdefault(trial.cell, []).append(trial)
    return cells


def _levels(cell: Trial) -> str:
    tunnel = {factor: cell.params[factor] for factor in TUNNEL_FACTORS if factor in cell.params}
    inside = {factor: cell.params[factor] for factor in TRAFFIC_FACTORS if factor in cell.params}
    return ", ".join(words for words in (text.configuration(tunnel), text.traffic(inside)) if words)


def _cell_title(cell: Trial) -> str:
    return f"{cell.vpn} ({_levels(cell)})"
