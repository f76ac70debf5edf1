"""The thesis' Tables 1, 2, 4 and 5 for this run: how much TCP throughput varies between whole tests of one cell."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.trials import Run, Trial
from runner.papers.cells import IPERFS_S, PLAIN, compressing
from runner.papers.findings import Data, trials_of
from runner.papers.published import PublishedValue, paper
from runner.papers.variation import FEWEST, coefficient, whole_tests_of
from runner.report.text import NONE

METRIC = "tcp_throughput"
TITLES = {"1": "without a VPN", "2": "with TCP", "4": "with each cipher", "5": "with compression"}
HEAD = ("VPN", "test", "tests", "coefficient of variation, % (95 % interval)", "the thesis, %")
PAYLOADS = {"compressed": "random", "any": "random"}  # the thesis' files in this project's words; zeros are zeros
ABOUT = (
    "The standard deviation of TCP throughput over its average, between whole tests of one cell, one after another; of "
    f"logarithms, with the interval of a variance. The thesis' tests are those of iPerf, which last {IPERFS_S} s. "
    "Compressed data are random bytes here."
)
SHORTER = (
    f"These tests are shorter, or slices in which VPNs take turns, and vary more. Tests of {IPERFS_S} s: "
    f"`vpneval run thesis --duration {IPERFS_S} --reps 10`."
)
TOO_FEW = f"A coefficient of variation needs {FEWEST} tests."


def rows(run: Run, trials: Sequence[Trial], table: str) -> tuple[list[list[str]], list[str]]:
    """A row for each number of the thesis' ``table`` whose cell this run has measured, and notes on dashes in them;
    empty for a run of other experiments."""
    data = Data(run, trials_of(run, trials, "thesis"))
    table_rows, notes = list[list[str]](), dict[str, None]()
    for value in paper("thesis").values:
        if value.metric != "coefficient_of_variation" or value.where != f"Appendix, table {table}":
            continue
        levels = _levels(value)
        cell = [trial for trial in data.matching(value.system, levels) if trial.status == "ok"]
        if not any(m.metric == METRIC for trial in cell for m in trial.measurements):
            continue
        tests = whole_tests_of(cell, METRIC, IPERFS_S)
        count, measured = sum(map(len, tests)), NONE
        if any(len(values) >= FEWEST for values in tests):
            measured = "{:.1f} ({:.1f}–{:.1f})".format(*(100 * end for end in coefficient(tests)))
        else:
            notes[TOO_FEW if count else SHORTER] = None
        table_rows.append([value.system, _test(value, levels), str(count), measured, f"{value.value:.1f}"])
    return table_rows, list(notes)


def _levels(value: PublishedValue) -> dict[str, str]:
    """The levels of the cell that a number of the thesis is about."""
    levels = PLAIN | {name: level for name, level in value.levels.items() if name != "transport"}
    levels["payload"] = PAYLOADS.get(levels["payload"], levels["payload"])
    if levels["compression"] == "on":
        levels["compression"] = compressing(value.system, levels["payload"])
    return levels


def _test(value: PublishedValue, levels: dict[str, str]) -> str:
    """What is particular of the test, in a few words."""
    if "payload" in value.levels:
        return f"compression {levels['compression']}" + f", {levels['payload']}" * (levels["compression"] != "off")
    return value.levels.get("cipher", "no encryption")
