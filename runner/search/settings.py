"""How a throughput search is asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from runner.search import RFC2544_TRIAL_S, TAKES, THESIS_CONFIRM, Engine, Measure, SearchResult, find_throughput
from runner.search.scan import most_trials

LOWEST_BPS = 1e6
BISECTIONS = 10  # that a search takes, about
LOSS_RATIO = 0.01  # the thesis' bound on the mean loss, §3.5.1


@dataclass(frozen=True)
class UdpSearch:
    """How UDP throughput is searched for: see runner.search.find_throughput.

    Only what its engine takes is asked of it: the fields have a value for any engine. ``min_rate_bps``: None leaves the
    lowest rate to the instrument.
    """

    engine: Engine = "bayes"
    relative_width: float = 0.01
    trial_duration_s: float = 2.0
    confirm: tuple[int, float] | None = (10, 10.0)
    max_rate_bps: float = 10e9
    budget_s: float | None = None
    min_rate_bps: float | None = None

    @property
    def trials(self) -> int:
        """How many trials decide about one rate, where their number is fixed."""
        return (self.confirm or THESIS_CONFIRM)[0] if self.engine in ("binary", "scan") else 1

    @property
    def trial_s(self) -> float:
        """How long each of its trials lasts, in seconds."""
        if self.engine in ("binary", "scan"):
            return (self.confirm or THESIS_CONFIRM)[1]
        return RFC2544_TRIAL_S if self.engine == "rfc2544" else self.trial_duration_s

    def with_trials_of(self, seconds: float) -> UdpSearch:
        """The same search, whose trials last so long; unchanged where the engine has a length of its own."""
        found = self
        if self.confirm and "confirm" in TAKES[self.engine]:
            found = replace(found, confirm=(self.confirm[0], seconds))
        if "trial_duration_s" in TAKES[self.engine]:
            found = replace(found, trial_duration_s=seconds)
        return found

    def expected_s(self, overhead_s: float, *, first: bool, warm_budget_s: float | None) -> float:
        """How long a search will take, in seconds, from the average number of trials it needs. ``first``: nothing is
        known yet. ``warm_budget_s`` is its budget afterwards, None for the same one."""
        if self.engine == "rounds":
            budget_s = self.budget_s if first or warm_budget_s is None else warm_budget_s
            return (budget_s or 30 * (self.trial_duration_s + overhead_s)) + 0.5
        if self.engine == "scan":
            return most_trials(self.min_rate_bps or LOWEST_BPS, self.max_rate_bps, self.trials) * self.trial_s
        if self.engine != "bayes":
            return BISECTIONS * self.trials * self.trial_s
        found_s = (8 if first else 4) * (self.trial_duration_s + overhead_s)
        confirming_s = self.confirm[0] * self.confirm[1] if self.confirm else 0.0
        budget_s = self.budget_s if first or warm_budget_s is None else warm_budget_s
        return min(found_s, budget_s or found_s) + confirming_s + 1.5

    def find(
        self, offer: Measure, first_bps: float | None, overhead_s: float, min_rate_bps: float = LOWEST_BPS
    ) -> SearchResult:
        """Search with these settings for the rate at which the mean loss reaches LOSS_RATIO. ``min_rate_bps`` is the
        instrument's."""
        lowest_bps = self.min_rate_bps or min_rate_bps
        if self.min_rate_bps and first_bps:
            first_bps = min(max(first_bps, lowest_bps), self.max_rate_bps)
        own: dict[str, Any] = {
            "relative_width": self.relative_width,
            "trial_duration_s": self.trial_duration_s,
            "confirm": self.confirm,
            "first_rate_bps": first_bps,
        }
        return find_throughput(
            offer,
            loss_ratio=LOSS_RATIO,
            min_rate_bps=lowest_bps,
            max_rate_bps=self.max_rate_bps,
            budget_s=self.budget_s,
            engine=self.engine,
            overhead_s=overhead_s,
            **{name: value for name, value in own.items() if name in TAKES[self.engine]},
        )


def loss_bound(path_loss_ratio: float, packets: float) -> float:
    """What may be lost of so many packets over a path that loses this share without a VPN: LOSS_RATIO, and what the
    path loses in 39 of 40 cases: a normal approximation, and one packet, as they are whole."""
    if not path_loss_ratio:
        return LOSS_RATIO
    deviation = math.sqrt(path_loss_ratio * (1 - path_loss_ratio) / max(1.0, packets))
    return LOSS_RATIO + path_loss_ratio + 2 * deviation + 1 / max(1.0, packets)
