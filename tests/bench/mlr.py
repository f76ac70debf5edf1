"""The FD.io project's MLRsearch (draft-ietf-bmwg-mlrsearch; PyPI: MLRsearch), to compare the engines with."""

from __future__ import annotations

import statistics
from typing import Any

import MLRsearch as library

from runner.data.errors import MeasurementError
from runner.data.numbers import same
from runner.search.model import Account, BudgetSpent, Flag, Goal, Measure, SearchResult
from runner.search.settings import LOSS_RATIO, LOWEST_BPS, UdpSearch

POOL = 10  # trials whose mean counts as one: MLRsearch judges the median trial, the thesis the mean
VERDICTS = 3  # pooled trials whose median decides a rate
UNLIMITED_S = 1e9  # the account keeps the budget


class MlrSearch(UdpSearch):
    """MLRsearch, asked for as the engines are."""

    def find(
        self, offer: Measure, first_bps: float | None, overhead_s: float, min_rate_bps: float = LOWEST_BPS
    ) -> SearchResult:
        goal = Goal(LOSS_RATIO, min_rate_bps, self.max_rate_bps, self.relative_width, self.trial_duration_s, None, None)
        return mlrsearch(Account(offer, overhead_s, self.budget_s), goal)


def find_by_mlrsearch(measure: Measure, *, overhead_s: float = 0.0, **asked: Any) -> SearchResult:
    """The rate that it finds; ``asked``: the fields of UdpSearch."""
    return MlrSearch(**asked).find(measure, None, overhead_s)


def mlrsearch(account: Account, goal: Goal) -> SearchResult:
    """MLRsearch with pools of ten trials as its measurement.

    ``interval_bps`` are its relevant bounds and hold no probability.
    """
    config = library.Config()
    config.max_load, config.min_load = goal.max_rate_bps, goal.min_rate_bps
    config.search_duration_max, config.warmup_duration = UNLIMITED_S, 0.0
    pool_s = POOL * goal.trial_duration_s
    config.goals = [
        library.SearchGoal(
            loss_ratio=goal.loss_ratio,
            exceed_ratio=0.5,
            relative_width=goal.relative_width,
            initial_trial_duration=pool_s,
            final_trial_duration=pool_s,
            duration_sum=VERDICTS * pool_s,
        )
    ]
    flag: Flag
    try:
        results = library.MultipleLossRatioSearch(config).search(_measurer(account), lambda _: None)
    except BudgetSpent:
        return account.result(None, flags=frozenset({"unconfirmed"}))
    except RuntimeError as error:  # it raises this where even the lowest load fails
        if account.trials and min(t.asked_rate_bps for t in account.trials) <= goal.min_rate_bps * 1.001:
            return account.result(None, flags=frozenset({"no_throughput"}))
        raise MeasurementError(f"MLRsearch gave up: {error}") from error
    result = next(iter(results.values()))
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    if lower is None or upper is None:
        flag = "no_throughput" if lower is None else "generator_limited"
        return account.result(None, flags=frozenset({flag}))
    lower_bps, upper_bps = float(lower), float(upper)
    if any(t.sender_short and t.asked_rate_bps >= lower_bps * 0.999 and t.offered_rate_bps < lower_bps * 0.95
           and t.loss_ratio <= goal.loss_ratio for t in account.trials):  # fmt: skip
        return account.result(None, flags=frozenset({"generator_limited"}))
    lower_bps, upper_bps = lower_bps * _kept_ratio(account, lower_bps), upper_bps * _kept_ratio(account, upper_bps)
    return account.result(lower_bps, (lower_bps, max(lower_bps, upper_bps)), lower_bps)


def _kept_ratio(account: Account, load_bps: float) -> float:
    """Truly offered per asked for in the trials at a load; MLRsearch knows only what it asked for."""
    kept = [t.offered_rate_bps / t.asked_rate_bps for t in account.trials if same(t.asked_rate_bps, load_bps)]
    return statistics.median(kept or [1.0])


def _measurer(account: Account) -> Any:
    class MeanOfPool(library.AbstractMeasurer):  # type: ignore[misc]  # the library is loaded on demand
        """Offers one load in ``POOL`` trials and reports their mean loss ratio."""

        def measure(self, intended_duration: float, intended_load: float) -> Any:
            """One pooled trial: the duration (s) is that of the pool, the load is a rate in bit/s."""
            spent_s = account.elapsed_s
            pool = [account.trial(float(intended_load), intended_duration / POOL, "estimate") for _ in range(POOL)]
            mean_loss = sum(trial.loss_ratio for trial in pool) / POOL
            packets = 10**9  # it wants counts; large ones keep the ratio exact
            return library.MeasurementResult(
                intended_duration=intended_duration,
                intended_load=intended_load,
                offered_count=packets,
                loss_count=round(mean_loss * packets),
                duration_with_overheads=account.elapsed_s - spent_s,
            )

    return MeanOfPool()
