"""What an experiment found, in a sentence: the title of its plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.data.levels import BASELINE
from runner.data.numbers import lead
from runner.evidence.ties import in_order
from runner.report import text
from runner.report.experiments import ExperimentReport, MetricTable, Row, row_share

TUNNEL = ("cipher", "integrity")  # these count as one factor: an AEAD cipher has no separate integrity
SAID = (*TUNNEL, "compression", "payload")  # factors whose levels need a word beside them
NAMED = 4  # VPNs without a difference that a title names
LEVELS_OF = {
    "cipher": "ciphers",
    "payload": "payloads",
    "streams": "numbers of streams",
    "clients": "numbers of clients",
    "direction": "directions",
    "packet_bytes": "packet lengths",
}


@dataclass(frozen=True)
class LargestStep:
    """The largest difference that one factor makes in a VPN: two cells that differ in nothing else."""

    factor: str
    low: Row
    high: Row

    @property
    def times(self) -> float:
        """The higher median over the lower one."""
        low, high = (row.summary.median if row.summary else 0.0 for row in (self.low, self.high))
        return high / low if low > 0 else 1.0

    @property
    def is_apart(self) -> bool:
        """Do the 95 % intervals of both leave a gap?"""
        ends = (
            self.low.summary.high if self.low.summary else None,
            self.high.summary.low if self.high.summary else None,
        )
        return ends[0] is not None and ends[1] is not None and lead(ends[0], ends[1]) < 0


def main_table(experiment: ExperimentReport) -> MetricTable | None:
    """The metric that the experiment is about: its first one with two values."""
    return next((table for table in experiment.tables if len(_rows(table)) > 1), None)


def answer_of(experiment: ExperimentReport) -> str:
    """The answer to the experiment's question in its main metric; the question itself where nothing tells. For an
    experiment about one factor, the answer is what that factor changes; else it is the best and the worst VPN, and what
    changes most."""
    table = main_table(experiment)
    if table is None:
        return experiment.question
    by_vpn: dict[str, list[Row]] = {}
    for row in _rows(table):
        by_vpn.setdefault(row.vpn, []).append(row)
    every = {vpn: _steps(rows) for vpn, rows in by_vpn.items()}
    own = {vpn: [step for step in steps if step.factor == experiment.name] for vpn, steps in every.items()}
    steps = {vpn: vpn_steps for vpn, vpn_steps in (own if any(own.values()) else every).items() if vpn_steps}
    if not steps:
        return f"{_first_and_last(table, *_rows(table)[:: len(_rows(table)) - 1])}."
    changes = _changes(table, steps, by_vpn)
    ends = None if any(own.values()) else _ends(by_vpn)
    if ends is None:
        return f"{changes[:1].upper()}{changes[1:]}."
    where = _context(ends[0], by_vpn[ends[0].vpn], TUNNEL)
    return f"{_first_and_last(table, *ends)}{where}; {changes}."


def _rows(table: MetricTable) -> list[Row]:
    return [row for row in table.measured_rows if row.vpn != BASELINE]


def _steps(rows: Sequence[Row]) -> list[LargestStep]:
    """For each factor that varies, the lowest and the highest cell of those that are alike in all other factors."""
    factors = dict.fromkeys("cipher" if name in TUNNEL else name for row in rows for name in row.params)
    steps = []
    for factor in factors:
        names = TUNNEL if factor == "cipher" else (factor,)
        alike: dict[tuple[tuple[str, str], ...], list[Row]] = {}
        for row in rows:
            others = sorted((name, level) for name, level in row.params.items() if name not in names)
            alike.setdefault(tuple(others), []).append(row)
        for group in alike.values():
            ordered = in_order(group, [row.summary.median if row.summary else 0.0 for row in group])
            if len(ordered) > 1:
                steps.append(LargestStep(factor, ordered[0], ordered[-1]))
    return steps


def _largest(steps: Sequence[LargestStep]) -> LargestStep:
    """The step of the largest ratio, of those whose intervals leave a gap if there are any."""
    sure = [step for step in steps if step.is_apart] or steps
    return in_order(sure, [-step.times for step in sure])[0]


def _changes(table: MetricTable, steps: dict[str, list[LargestStep]], by_vpn: dict[str, list[Row]]) -> str:
    """What a factor changes most, and where nothing differs, or least."""
    most = {vpn: _largest(vpn_steps) for vpn, vpn_steps in steps.items()}
    vpn = next(vpn for vpn, largest in most.items() if largest is _largest([*most.values()]))
    step, what = most[vpn], text.lower(table.title)
    if not step.is_apart:
        levels = dict.fromkeys(
            _levels_of(difference.factor) for vpn_steps in steps.values() for difference in vpn_steps
        )
        return f"this run cannot tell apart the {what} of {' and '.join(levels)}: the intervals overlap"
    context = _context(step.high, by_vpn[vpn], TUNNEL if step.factor == "cipher" else (step.factor,))
    high, low = _differing(step.high, step.low), _differing(step.low, step.high)
    sentence = f"in {vpn}, the {what} with {high} is {step.times:.2g} times that with {low}{context}"
    same = [name for name, difference in most.items() if not difference.is_apart]
    if same:
        names = ", ".join(same[:NAMED]) + (" and others" if len(same) > NAMED else "")
        return f"{sentence}; in {names}, this run cannot tell them apart"
    least = in_order([*most], [step.times for step in most.values()])[0]
    return sentence if least == vpn else f"{sentence}; it matters least in {least}: {most[least].times:.2g} times"


def _levels_of(factor: str) -> str:
    return LEVELS_OF.get(factor, f"levels of {factor.replace('_', ' ')}")


def _ends(by_vpn: dict[str, list[Row]]) -> tuple[Row, Row] | None:
    """The best VPN's first cell, and the worst VPN's cell that differs from it in the tunnel only; None where there is
    none."""
    if len(by_vpn) < 2:
        return None
    first, last = next(iter(by_vpn.values()))[0], next(reversed(by_vpn.values()))
    alike = (row for row in last if _but(row, TUNNEL) == _but(first, TUNNEL))
    return next(((first, row) for row in alike), None)


def _but(row: Row, factors: Sequence[str]) -> dict[str, str]:
    return {name: level for name, level in row.params.items() if name not in factors}


def _first_and_last(table: MetricTable, first: Row, last: Row) -> str:
    """The best and the worst VPN with their values, as shares of plain IP's where that was measured."""
    assert first.summary
    assert last.summary
    if first.share and first.share.ratio and last.share and last.share.ratio and table.better == "higher":
        shares = [row_share(row, table) for row in (first, last)]
        return f"{first.vpn} has {shares[0]} of plain IP's {text.lower(table.title)}, {last.vpn} {shares[1]}"
    values = [
        text.with_interval(row.summary, table.unit, row.at_least > 0).removesuffix(" 1")  # a count has no unit
        for row in (first, last)
        if row.summary
    ]
    return f"{first.vpn} has the best {text.lower(table.title)}, {values[0]}; {last.vpn} the worst, {values[1]}"


def _context(row: Row, rows: Sequence[Row], but: Sequence[str]) -> str:
    """`` (random payload)``: the row's levels of the factors that vary among ``rows``, except those in ``but``."""
    varying = {name for name in row.params if len({other.params.get(name) for other in rows}) > 1}
    words = _words({name: level for name, level in row.params.items() if name in varying and name not in but})
    return f" ({words})" if words else ""


def _differing(row: Row, other: Row) -> str:
    """The levels of ``row`` that ``other`` does not have; "the default" where only ``other`` has the factor."""
    own = {factor: level for factor, level in row.params.items() if other.params.get(factor) != level}
    return _words(own) or "the default"


def _words(levels: dict[str, str]) -> str:
    words = [text.configuration({factor: levels[factor] for factor in TUNNEL if factor in levels})]
    words += [f"compression {levels['compression']}"] if "compression" in levels else []
    words += [f"{levels['payload']} payload"] if "payload" in levels else []
    rest = {factor: level for factor, level in levels.items() if factor not in SAID}
    words += [text.wan(rest), text.traffic(rest)]
    return ", ".join(word for word in words if word)
