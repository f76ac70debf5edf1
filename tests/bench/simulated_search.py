"""Equal devices whose throughput searches take turns on a machine that drifts, for the intervals of their ratios.
Everything is of logarithms, so that 0.2 is 20 %."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from runner.evidence.estimates import RoundValues, estimate_pairs
from runner.search import SearchTrial
from runner.search.rounds import StepwiseSearch
from tests.bench.simulated_rounds import STOLEN, Machine

CAPACITY_BPS, PACKETS = 4e8, 10_000


@dataclass
class Searches:
    """One search for each of ``vpns`` equal devices on this machine."""

    machine: Machine
    vpns: int
    rng: np.random.Generator

    def __post_init__(self) -> None:
        first = CAPACITY_BPS * np.exp(self.rng.normal(0, 0.1, self.vpns))
        self.searches = [StepwiseSearch(trial_duration_s=0.3, first_rate_bps=float(rate)) for rate in first]
        self.drift = float(self.rng.normal(0, self.machine.drift))
        self.tunnels = np.zeros(self.vpns)

    def trial(self, vpn: int) -> SearchTrial:
        """Offer what the search asks for, and let it learn."""
        machine, search = self.machine, self.searches[vpn]
        keeps = machine.memory ** (1 / self.vpns)
        self.drift = keeps * self.drift + float(self.rng.normal(0, machine.drift * math.sqrt(1 - keeps**2)))
        stolen = STOLEN * (self.rng.random() < machine.stolen)
        moved = self.drift + self.tunnels[vpn] + self.rng.normal(0, machine.slice) + stolen
        offer = search.next_load()
        received = round(PACKETS * min(1.0, CAPACITY_BPS * math.exp(moved) / offer.rate_bps))
        found = SearchTrial(offer.rate_bps, offer.rate_bps, offer.duration_s, PACKETS, received, search.purpose)
        search.learn(found)
        return found

    def play(self, instances: int, rounds: int) -> list[RoundValues]:
        """The readings of so many rounds in each of so many tunnels, as a run stores them."""
        for vpn, search in enumerate(self.searches):
            while search.seeding:
                self.trial(vpn)
        readings: list[dict[int, float]] = [{} for _ in self.searches]
        for number in range(instances * rounds):
            if number % rounds == 0:
                self.tunnels = self.rng.normal(0, self.machine.instance, self.vpns)
            for vpn in self.rng.permutation(self.vpns):
                readings[vpn][number] = self.searches[vpn].reading_bps(self.trial(int(vpn)))
        which = {number: number // rounds for number in range(instances * rounds)}
        medians = [search.median() for search in self.searches]
        errors = [(math.log(found.high_bps) - math.log(found.low_bps)) / (2 * 1.96) for found in medians]
        return [RoundValues(own, which, (), error) for own, error in zip(readings, errors, strict=True)]


def told_apart(machine: Machine, instances: int, rounds: int, runs: int, seed: int) -> tuple[int, int]:
    """Of five equal devices in so many runs: how many pairs' 95 % intervals do not contain 1, and of how many."""
    rng, outside, pairs = np.random.default_rng(seed), 0, 0
    for _ in range(runs):
        values = Searches(machine, 5, rng).play(instances, rounds)
        for estimate in estimate_pairs({str(vpn): own for vpn, own in enumerate(values)}).values():
            low, high = estimate.interval()
            outside, pairs = outside + (not low <= 0 <= high), pairs + 1
    return outside, pairs
