"""The page's intervals hold what either half of a run's rounds says: a machine that drifts is in them."""

from __future__ import annotations

import pytest

from runner.catalogue import load_run
from runner.evidence.estimates import RoundValues
from runner.evidence.model import Ratio
from runner.evidence.stats import compare_blocks
from runner.papers import claims
from runner.papers.findings import Blocks, judge, trials_of
from runner.papers.judges import findings_of
from tests.unit.findings_worlds import ROOT

ENOUGH = 8  # shared rounds, for two halves


def test_an_interval_holds_the_estimate_from_either_half_of_the_rounds_in_95_percent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The two differ by one standard error, so that an honest interval holds it in 95 %."""
    held: dict[tuple[object, ...], bool] = {}

    def compare_with_halves(a: Blocks, b: Blocks) -> Ratio:
        whole = compare_blocks(a, b)
        shared = sorted(a.keys() & b.keys())
        if isinstance(a, RoundValues) and isinstance(b, RoundValues) and len(shared) >= ENOUGH and whole.low:
            half = len(shared) // 2
            for rounds in (shared[:half], shared[-half:]):
                ratio = compare_blocks(rounds_of(a, rounds), rounds_of(b, rounds)).ratio
                assert ratio
                assert whole.high
                held[*a.items(), *b.items(), *rounds] = whole.low <= ratio <= whole.high
        return whole

    monkeypatch.setattr(claims, "compare_blocks", compare_with_halves)
    for folder in sorted(path.parent for path in (ROOT / "results" / "papers").glob("*/run.json")):
        run, trials = load_run(folder)
        for record in run.experiments:
            own = trials_of(run, trials, record.name)
            for finding in findings_of(record.name):
                judge(finding, run, own)
    assert len(held) > 500, "control: the findings are made from rounds"
    assert sum(held.values()) >= 0.95 * len(held), f"{sum(held.values())} of {len(held)}"


def rounds_of(values: RoundValues, rounds: list[int]) -> RoundValues:
    return RoundValues(
        {number: values[number] for number in rounds},
        {number: values.instances[number] for number in rounds},
        values.machines,
        values.search_error,
    )
