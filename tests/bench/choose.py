"""Does each word of an answer hold at its rate? ``make bench-decide`` simulates runs whose answer is known.

Each simulated machine has three to six made-up VPNs, whose throughputs, costs and round trips are drawn anew, and one
of them may misbehave (``WAYS``). It is quiet, usual or noisy: slices vary more, and pieces of the load are lost in all
VPNs and in plain IP. The true answer is the rule's on the same VPNs without noise and without the one that misbehaves.
What a run names is watched for 30 s, as a real run does it. A word is wrong where it is said of a VPN that the true
answer does not name; exit code 1 where more are wrong than the word allows.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from runner.choice.answer import answer
from runner.choice.device import Device
from runner.choice.devices import devices
from runner.choice.grade import grade_device
from runner.choice.model import Answer
from runner.choice.musts import states, words_of
from runner.choice.thresholds import USUAL
from runner.choice.watched import Watched
from runner.data.named import TRAFFICS
from runner.data.needs import Needs
from runner.data.trials import Run, Trial
from tests.unit.choice.made_up import watched
from tests.unit.choice.runs import PLAIN, Truth, chosen_run, with_bad

MACHINES = 150
PASSES = (4, 12)
LINES_BPS = (2e7, 1e8, 3e8, 1e9)
NAMES = ("wireguard_go", "openvpn", "ipsec_user", "ssh_tun", "boringtun", "fastd")
WATCH_S, WINDOW_S = 30.0, 0.25
WRONG = {"sure": 0.02, "probably": 0.15, "equal": 0.05, "probably equal": 0.15, "misbehaving named": 0.02}  # at most


@dataclass(frozen=True)
class Kind:
    """A machine: the standard deviation of a slice's logarithm, and the share of pieces that go wrong in everything."""

    noise: float
    bad_ratio: float


KINDS = {"quiet": Kind(0.05, 0.002), "usual": Kind(0.12, 0.02), "noisy": Kind(0.25, 0.1)}


@dataclass(frozen=True)
class Way:
    """A way to misbehave: the share of the attempts that are bad, and of the windows of a long watch; ``carries``: what
    short slices see of its capacity, as a multiple of what it sustains; ``gap_s``: its longest silence."""

    bad_ratio: float
    watched_ratio: float
    carries: float = 1.0
    gap_s: float = 0.05


WAYS: Mapping[str, Way] = {
    "hole": Way(0.4, 0.4, gap_s=2.5),  # in spans of 0.7 s
    "stall": Way(0.3, 0.8, gap_s=0.2),  # of 200 ms in each second
    "breaks": Way(0.15, 0.1, gap_s=4.0),
    "policed": Way(0.0, 0.45, carries=2.0),  # after a burst of 2 s
    "two states": Way(0.3, 0.5),
}


def machine(rng: np.random.Generator) -> dict[str, Truth]:
    """A machine with plain IP and some VPNs."""
    speed = float(np.exp(rng.uniform(np.log(0.25), np.log(4))))
    vpns = rng.permutation(NAMES)[: int(rng.integers(3, len(NAMES) + 1))]
    found = {"none": PLAIN}
    for vpn in map(str, vpns):
        tcp_bps = speed * float(np.exp(rng.uniform(np.log(1e8), np.log(4e9))))
        found[vpn] = Truth(
            tcp_bps,
            tcp_bps * float(rng.uniform(0.2, 1.0)),
            float(np.exp(rng.uniform(np.log(5), np.log(80)))) / speed,
            float(rng.uniform(-0.6, -0.1)),
            float(np.exp(rng.uniform(np.log(0.08), np.log(1.5)))),
            float(np.exp(rng.uniform(np.log(0.1), np.log(3)))),
        )
    return found


@dataclass(frozen=True)
class World:
    """What is measured: the VPNs as they are, on a machine of this kind, of which ``bad`` misbehaves in this way."""

    truths: dict[str, Truth]
    kind: Kind
    bad: str = ""
    way: Way = Way(0.0, 0.0)

    def bad_ratio(self, vpn: str) -> float:
        """The share of the attempts of a VPN that go wrong."""
        return min(1.0, self.kind.bad_ratio + (self.way.bad_ratio if vpn == self.bad else 0.0))

    def measured(self, needs: Needs, passes: int, seed: int) -> tuple[Run, list[Trial]]:
        """A run on this machine."""
        seen = dict(self.truths)
        if self.bad:
            own = seen[self.bad]
            seen[self.bad] = replace(
                own, tcp_bps=own.tcp_bps * self.way.carries, udp_bps=own.udp_bps * self.way.carries
            )
        run, trials = chosen_run(seen, needs=needs, passes=passes, noise=self.kind.noise, seed=seed, absent=())
        return run, with_bad(trials, self.bad_ratio, seed)

    def watch(self, vpn: str, rate_bps: float, rng: np.random.Generator) -> Watched:
        """What a long watch of a VPN sees."""
        share = self.kind.bad_ratio / 10 + (self.way.watched_ratio if vpn == self.bad else 0.0)
        windows = round(WATCH_S / WINDOW_S)
        bad = int(rng.binomial(windows, min(1.0, share)))
        gap_s = self.way.gap_s if vpn == self.bad else 0.05
        return watched(rate_bps, seconds=WATCH_S, bad=bad, gap_s=gap_s)


def answered(world: World, needs: Needs, passes: int, seed: int) -> Answer:
    """What a run on this machine answers, when what it names was watched: as long as it names another one."""
    run, trials = world.measured(needs, passes, seed)
    made: dict[str, Device] = devices(run, trials)
    words, rng = words_of(states(run, trials)), np.random.default_rng(seed)
    assert needs.line_bps
    while True:
        said = answer(made, words, needs)
        fresh = [vpn for vpn in said.named if not made[vpn].watched]
        if not fresh or said.grade > 1:
            return said
        for vpn in fresh:
            rate_bps = grade_device(made[vpn], needs, USUAL).datagrams_bps
            made[vpn] = replace(made[vpn], watched=world.watch(vpn, rate_bps, rng))


def tally(
    seen: Counter[tuple[str, int, str]], place: tuple[str, int], said: Answer, right: Sequence[str], bad: str
) -> None:
    """Count what was said, and what of it was wrong."""
    named = bool(said.named) and said.grade < 2
    word = said.certainty if said.named else "sure"
    wrong = said.named[0] not in right if named else bool(right) and said.grade < 2
    seen[*place, word] += 1
    seen[*place, f"{word} wrong"] += wrong
    if named and len(said.named) > 1 and said.certainties.best != "open":
        equal = "equal" if said.certainties.equal == "sure" else "probably equal"
        seen[*place, equal] += 1
        seen[*place, f"{equal} wrong"] += not {*said.named} <= {*right}
    if bad:
        seen[*place, "misbehaving"] += 1
        seen[*place, "misbehaving named"] += named and bad in said.named and said.certainties.best != "open"
        seen[*place, "misbehaving sure"] += named and bad == said.named[0] and said.certainty == "sure"


def main() -> int:
    """Print the shares, and return the exit code."""
    seen: Counter[tuple[str, int, str]] = Counter()
    rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for number in range(MACHINES):
        truths, way = machine(rng), [*WAYS, "", ""][number % (len(WAYS) + 2)]
        bad = str(rng.choice([vpn for vpn in truths if vpn != "none"])) if way else ""
        needs = Needs(
            line_bps=float(rng.choice(LINES_BPS)),
            path_rtt_ms=float(rng.choice((0.5, 5, 20))),
            traffic=TRAFFICS[int(rng.integers(len(TRAFFICS)))],
        )
        good = {vpn: truth for vpn, truth in truths.items() if vpn != bad}
        true = answered(World(good, Kind(1e-6, 0.0)), needs, 12, 0)
        right = true.named if true.grade < 2 else []
        for name, kind in KINDS.items():
            for passes in PASSES:
                world = World(truths, kind, bad, WAYS.get(way, Way(0.0, 0.0)))
                tally(seen, (name, passes), answered(world, needs, passes, number), right, bad)
    return printed(seen)


def printed(seen: Counter[tuple[str, int, str]]) -> int:
    """Print a row for each kind of machine and number of passes; 1 where a word is wrong more often than it may be."""
    print("machine  passes  sure  wrong  probably  wrong  equal  wrong  misbehaving: named  sure")
    total: Counter[str] = Counter()
    for name in KINDS:
        for passes in PASSES:
            count = {what: seen[name, passes, what] for of, at, what in seen if (of, at) == (name, passes)}
            total.update(count)
            cells = [
                f"{count.get(what, 0):5d} {count.get(f'{what} wrong', 0):6d}" for what in ("sure", "probably", "equal")
            ]
            of_bad = f"{count.get('misbehaving named', 0):3d} of {count.get('misbehaving', 0)}"
            print(f"{name:7s} {passes:7d} {'  '.join(cells)}  {of_bad:>18s} {count.get('misbehaving sure', 0):5d}")
    worst = 0
    for what, most in WRONG.items():
        wrong, of = (what, "misbehaving") if what == "misbehaving named" else (f"{what} wrong", what)
        share = total[wrong] / total[of] if total[of] else 0.0
        worst |= share > most
        print(f"{what}: {total[wrong]} of {total[of]} wrong, {share:.1%}; at most {most:.0%}")
    return int(worst or total["misbehaving sure"] > 0)


if __name__ == "__main__":
    sys.exit(main())
