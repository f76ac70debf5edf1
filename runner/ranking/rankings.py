"""The rankings of a run, and what is known beside them, each made when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from runner.data.trials import Run, Trial, measured_metrics
from runner.ranking.basis import Basis, bases
from runner.ranking.longer import seconds_more
from runner.ranking.machines import on_machines
from runner.ranking.model import OnMachines, Ranking, Verdict, Weights
from runner.ranking.ranking import weigh
from runner.ranking.verdicts import verdicts
from runner.ranking.weights import default_weights


@dataclass(frozen=True)
class Rankings:
    """By ``weights``, else balanced over the metrics that were measured. ``configurations``: the names of those to
    rank, else of all in which something was measured. What it has raises UsageError for an unknown configuration."""

    run: Run
    trials: Sequence[Trial]
    weights: Weights | None = None
    configurations: Sequence[str] | None = None

    @cached_property
    def bases(self) -> list[Basis]:
        """What they are made from."""
        metrics = measured_metrics(self.trials) | set(self.weights.counted_metrics if self.weights else ())
        return bases(self.run, self.trials, metrics, self.configurations)

    @cached_property
    def rankings(self) -> list[Ranking]:
        """One for each basis."""
        return [weigh(basis, self.weights or default_weights(basis.values)) for basis in self.bases]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """On each pair in each metric that counts, as often as the run was looked at."""
        return verdicts(
            self.bases, [ranking.weights.counted_metrics.keys() for ranking in self.rankings], self.run.looks
        )

    @cached_property
    def machines(self) -> list[OnMachines]:
        """Of a farm: what each machine says of each ranking."""
        pairs = zip(self.bases, self.rankings, strict=True)
        return [by_machine for pair in pairs if (by_machine := on_machines(*pair))]

    @cached_property
    def seconds_more(self) -> float | None:
        """For how long to go on to decide most pairs."""
        return seconds_more(self.run, self.verdicts, self.bases)
