"""How well the verdicts decide, and how often they are wrong: ``make bench-decide``.

Simulated runs with the spread that slices have on two shared cores (tests/bench/simulated_rounds.py), and with the
truth known: do the 95 % intervals contain it in 93 to 97 % of the cases, how many runs have a false verdict, how many
pairs are decided in how many rounds, against three blocks of one second each on the same drifting machine.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from questions.rank import Rank
from runner.data.trials import Cell
from runner.evidence.estimates import Estimate, RoundValues, estimate_pairs
from runner.ranking.looks import nominal
from runner.ranking.model import LEVEL, Decision
from runner.ranking.verdicts import Tested, decide, level_of, probabilities
from tests.bench.simulated_rounds import TRAFFIC, Machine, play, run_of
from tests.bench.simulated_search import told_apart
from tests.unit.looking import going
from tests.unit.synthetic import CBC, METRICS

TCP = METRICS["tcp_throughput"]
SLICE_S = 0.25
QUIET = Machine(slice=0.15, instance=0.01, drift=0.1, stolen=0.02)
MACHINES = {
    "slices of 15 %": replace(QUIET, stolen=0.05),
    "slices of 20 %": Machine(),
    "slices of 30 %": Machine(slice=0.3),
    "no instance component": Machine(instance=0.0),
    "instances of 2 %": Machine(instance=0.02),
    "instances of 2 %, quiet slices": replace(QUIET, instance=0.02),
    "no drift, no theft": Machine(drift=0.0, stolen=0.0),
    "a tenth of the slices stolen": Machine(stolen=0.1),
    "slices of unlike VPNs": Machine(uneven=0.5),
    "one machine quiet, VPNs unlike": replace(QUIET, uneven=0.8),
    "strong drift": Machine(drift=0.3, memory=0.9),
    "beyond the assumption: instances of 5 %": Machine(instance=0.05),
}
SHAPES = ((5, 2, 20), (3, 3, 20), (5, 3, 7), (2, 2, 30))  # VPNs, instances of each, rounds of each
SEARCHED = ((2, 2), (2, 3), (2, 10))  # instances of each, rounds of each
FIVE = (0.0, 0.05, 0.1, 0.3, 0.6)  # logarithms of five VPNs: what pairs are decided by is from 5 to 80 %


@dataclass(frozen=True)
class Share:
    """How many of how many."""

    hits: int
    of: int

    def __str__(self) -> str:
        error = math.sqrt(self.ratio * (1 - self.ratio) / self.of)
        return f"{100 * self.ratio:.1f} ± {196 * error:.1f} %"

    @property
    def ratio(self) -> float:
        return self.hits / self.of


def coverage(machine: Machine, shape: tuple[int, int, int], runs: int, rng: np.random.Generator) -> Share:
    """Of equal VPNs: the share of the 95 % intervals of all pairs' ratios that contain 1."""
    vpns, instances, rounds = shape
    hits = [
        low <= 0 <= high
        for _ in range(runs)
        for low, high in (one.interval() for one in _pairs(machine, [0.0] * vpns, instances, rounds, rng).values())
    ]
    return Share(sum(hits), len(hits))


def false_runs(
    machine: Machine, truths: Sequence[float], runs: int, rng: np.random.Generator, metrics: int = 1, rounds: int = 20
) -> Share:
    """The share of the runs with one false verdict or more, over all pairs of so many metrics: better or worse of what
    is equal or the wrong way round, the same of what differs by the margin or more."""
    wrong = 0
    for _ in range(runs):
        tested = [one for _ in range(metrics) for one in _tested(machine, truths, 2, rounds, rng)]
        level = level_of([one for one, _ in tested], 1)
        wrong += any(false(decide(one, level), difference) for one, difference in tested)
    return Share(wrong, runs)


def false_with_looks(
    machine: Machine, truths: Sequence[float], runs: int, looks: int, rng: np.random.Generator
) -> Share:
    """The same, where a verdict stands that any of so many looks had, as the rounds came in."""
    wrong = 0
    for _ in range(runs):
        played = play(machine, truths, 2, 30, rng)
        said = False
        for look in range(1, looks + 1):
            upto = 60 * look // looks
            seen = {
                str(vpn): type(one)({n: one[n] for n in one if n < upto}, one.instances)
                for vpn, one in enumerate(played)
            }
            tested = [
                (probabilities(TCP, a, b, estimate), truths[int(a)] - truths[int(b)])
                for (a, b), estimate in estimate_pairs(seen).items()
            ]
            level = level_of([one for one, _ in tested], looks, look / looks)
            said = said or any(false(decide(one, level), difference) for one, difference in tested)
        wrong += said
    return Share(wrong, runs)


def false(decision: Decision, difference: float) -> bool:
    """Is the decision on a metric of which more is better false, where the logarithms truly differ by this much?"""
    if decision == "same":
        return abs(difference) >= math.log(TCP.margin) - 1e-9
    return (decision != "undecided" and (difference > 0) != (decision == "better")) or (
        decision in ("better", "worse") and abs(difference) < 1e-9
    )


def decided(machine: Machine, truths: Sequence[float], rounds: int, runs: int, rng: np.random.Generator) -> Share:
    """The share of the pairs that are decided after so many rounds, in two instances, six metrics like this in a
    run."""
    found = []
    for _ in range(runs):
        tested = [one for _ in range(6) for one, _ in _tested(machine, truths, 2, rounds // 2, rng)]
        level = level_of(tested, 1)
        found += [decide(one, level) != "undecided" for one in tested]
    return Share(sum(found), len(found))


def decided_by_blocks(machine: Machine, truths: Sequence[float], runs: int, rng: np.random.Generator) -> Share:
    """The same for three blocks of a second each, four slices after one another, and a new tunnel for each."""
    found = []
    for _ in range(runs):
        tested = []
        for _ in range(6):
            values = _blocks(machine, truths, rng)
            tested += [probabilities(TCP, a, b, estimate) for (a, b), estimate in estimate_pairs(values).items()]
        level = level_of(tested, 1)
        found += [decide(one, level) != "undecided" for one in tested]
    return Share(sum(found), len(found))


def _blocks(machine: Machine, truths: Sequence[float], rng: np.random.Generator) -> dict[str, dict[int, float]]:
    """In each of three blocks a tunnel after the other, of each the mean of four slices in a row."""
    order = [rng.permutation(len(truths)) for _ in range(3)]
    alone = play(replace(machine, unlike=0.0), [0.0], 3 * len(truths), 4, rng)[0]
    seconds = [np.mean([alone[4 * number + slice] for slice in range(4)]) for number in range(3 * len(truths))]
    return {
        str(vpn): {
            block: float(seconds[block * len(truths) + int(np.argmax(order[block] == vpn))]) * math.exp(truth)
            for block in range(3)
        }
        for vpn, truth in enumerate(truths)
    }


def _pairs(
    machine: Machine, truths: Sequence[float], instances: int, rounds: int, rng: np.random.Generator
) -> Mapping[tuple[str, str], Estimate]:
    played = play(machine, truths, instances, rounds, rng)
    return estimate_pairs({str(vpn): values for vpn, values in enumerate(played)})


def _tested(
    machine: Machine, truths: Sequence[float], instances: int, rounds: int, rng: np.random.Generator
) -> Iterator[tuple[Tested, float]]:
    for (a, b), estimate in _pairs(machine, truths, instances, rounds, rng).items():
        yield probabilities(TCP, a, b, estimate), truths[int(a)] - truths[int(b)]


def half_width(machine: Machine, vpns: int, rounds: int, runs: int, rng: np.random.Generator) -> float:
    """The median factor from a ratio to the end of its 95 % interval, after so many rounds in two instances."""
    found = [
        one.interval()[1] - one.centre
        for _ in range(runs)
        for one in _pairs(machine, [0.0] * vpns, 2, rounds // 2, rng).values()
    ]
    return math.exp(float(np.median(found)))


def until_known(
    machine: Machine, truths: Sequence[float], rounds: int, runs: int, rng: np.random.Generator, *, looks: bool = True
) -> tuple[Share, float]:
    """TCP throughput in three instances of so many rounds, where looks end and double slices as under a deadline
    (questions/rank): the share of the 95 % intervals that contain the truth, and the median half-width as a
    factor. Without ``looks``, each VPN has one slice in each round."""
    hits, widths = list[bool](), list[float]()
    cells = {str(vpn): Cell(vpn=str(vpn), params=CBC | TRAFFIC["tcp_throughput"]) for vpn in range(len(truths))}
    at = {int(share * 3 * rounds): share for share in Rank.looks_at} if looks else {}
    for _ in range(runs):
        first, second = (play(machine, truths, 3, rounds, rng) for _ in range(2))
        seen = {vpn: RoundValues({}, one.instances) for vpn, one in zip(cells, first, strict=True)}
        on, twice = set(cells), set[str]()
        for number in range(3 * rounds):
            if number in at:
                run, trials = run_of({"tcp_throughput": seen})
                found = going(run, trials, [*cells.values()], None, 1e6, at[number])
                on, twice = {cell.vpn for cell in found.cells}, {*found.twice}
            for vpn in on:
                one, other = first[int(vpn)][number], second[int(vpn)][number]
                seen[vpn][number] = (one + other) / 2 if cells[vpn].key in twice else one
        for (a, b), estimate in estimate_pairs(seen).items():
            low, high = estimate.interval()
            hits.append(low <= truths[int(a)] - truths[int(b)] <= high)
            widths.append((high - low) / 2)
    return Share(sum(hits), len(hits)), math.exp(float(np.median(widths)))


def main() -> None:
    """Print it all."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--runs", type=int, default=2000, help="simulated runs for each number (2000: some ten minutes)")
    runs = asked.parse_args().runs
    rng = np.random.default_rng(1)
    began = time.monotonic()
    print(f"{runs} simulated runs a number; ± is 95 % of the simulation's own error, were pairs of a run independent.")
    print("\nCoverage of the 95 % intervals, wanted 93 to 97 %; VPNs × instances × rounds of each:")
    print(f"{'':42}" + "".join(f"{f'{v} × {i} × {n}':>16}" for v, i, n in SHAPES))
    for name, machine in MACHINES.items():
        found = [f"{coverage(machine, shape, runs, rng)!s:>16}" for shape in SHAPES]
        print(f"{name:42}" + "".join(found))
    print("\nPairs of five equal VPNs, found by searches in turns, that are told apart, wanted at most 5 %:")
    for name, machine in (("quiet", QUIET), ("usual", Machine()), ("noisy", Machine(slice=0.3, stolen=0.1))):
        shares = [Share(*told_apart(machine, *shape, max(1, runs // 40), 1)) for shape in SEARCHED]
        print(f"{name:42}" + "".join(f"{share!s:>16}" for share in shares))
    print("\nRuns with any false verdict, wanted at most 5 %:")
    for name, truths, metrics in (
        ("three copies of one VPN, one metric", [0.0] * 3, 1),
        ("five copies, six metrics", [0.0] * 5, 6),
        ("five VPNs a margin apart, six metrics", [math.log(TCP.margin) * number for number in range(5)], 6),
    ):
        for machine, rounds in ((Machine(), 20), (QUIET, 60), (replace(QUIET, slice=0.05, drift=0.02), 60)):
            said = f"{name}, slices of {machine.slice:.0%}, {2 * rounds} rounds"
            print(f"{said:70}{false_runs(machine, truths, max(1, runs // 5), rng, metrics, rounds)!s:>16}")
    said = "three copies, one metric, the verdict of any of six looks"
    print(f"{said:70}{false_with_looks(Machine(), [0.0] * 3, runs // 4, 6, rng)!s:>16}")
    print("\nTCP of five VPNs in 27 rounds, each round one slice; with looks, until its ratios are known (0055):")
    for name in ("one machine quiet, VPNs unlike", "slices of 15 %", "slices of 20 %"):
        for looks in (False, True):
            covered, width = until_known(MACHINES[name], FIVE, 9, max(1, runs // 10), rng, looks=looks)
            print(f"{name:32}{'with' if looks else 'without':>8} looks {covered!s:>16}   ×÷ {width:.3f}")
    print(f"\nLevels for 52 pairs: one look {nominal(LEVEL / 52, 1):.6f}, six looks {nominal(LEVEL / 52, 6):.6f}")
    print("\nPairs decided, of five VPNs that differ by 5 to 80 %, six metrics a run; half-width of the 95 % interval:")
    for name, machine in (("quiet", QUIET), ("slices of 20 %", Machine())):
        for rounds in (12, 20, 40, 80, 160):
            share = decided(machine, FIVE, rounds, max(1, runs // 40), rng)
            width = half_width(machine, 5, rounds, max(1, runs // 40), rng)
            print(f"{name:16}{rounds:4} rounds {rounds * SLICE_S:5.0f} s a VPN{share!s:>16}   ×÷ {width:.3f}")
        print(f"{name:16}three blocks, 3 s a VPN{decided_by_blocks(machine, FIVE, max(1, runs // 40), rng)!s:>16}")
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
