"""How a throughput search is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runner.search import TAKES, Engine, Measure, SearchResult, find_throughput

LOSS_RATIO = 0.01  # the thesis' bound on the mean loss, §3.5.1


@dataclass(frozen=True)
class UdpSearch:
    """How UDP throughput is searched for: see runner.search.find_throughput.

    Only what its engine takes is asked of it: the fields have a value for any engine.
    """

    engine: Engine = "bayes"
    relative_width: float = 0.01
    trial_duration_s: float = 2.0
    confirm: tuple[int, float] | None = (10, 10.0)
    max_rate_bps: float = 10e9
    budget_s: float | None = None

    def find(
        self, offer: Measure, first_bps: float | None, overhead_s: float, min_rate_bps: float = 1e6
    ) -> SearchResult:
        """Search with these settings for the rate at which the mean loss reaches LOSS_RATIO."""
        own: dict[str, Any] = {
            "relative_width": self.relative_width,
            "trial_duration_s": self.trial_duration_s,
            "confirm": self.confirm,
            "first_rate_bps": first_bps,
        }
        return find_throughput(
            offer,
            loss_ratio=LOSS_RATIO,
            min_rate_bps=min_rate_bps,
            max_rate_bps=self.max_rate_bps,
            budget_s=self.budget_s,
            engine=self.engine,
            overhead_s=overhead_s,
            **{name: value for name, value in own.items() if name in TAKES[self.engine]},
        )
