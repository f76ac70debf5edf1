"""Is the choice right where it says that it is sure? ``make bench-decide`` simulates runs whose answer is known.

Each simulated machine has three to six made-up VPNs, whose throughputs, costs and round trips are drawn anew. The true
answer is the rule's on the same VPNs without noise. A run of four passes, or of twelve, is right where the VPN that it
takes is one that the true answer names. Exit code 1 where less than 95 % of the sure answers are right.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from runner.choice.answer import answer
from runner.choice.devices import devices
from runner.choice.model import Answer
from runner.choice.musts import states, words_of
from runner.data.named import TRAFFICS
from runner.data.needs import Needs
from tests.unit.choice.runs import PLAIN, Truth, chosen_run

MACHINES = 150
PASSES = (4, 12)
NOISES = (0.05, 0.12, 0.25)  # the standard deviation of a slice's logarithm
LINES_BPS = (2e7, 1e8, 3e8, 1e9)
NAMES = ("wireguard_go", "openvpn", "ipsec_user", "ssh_tun", "boringtun", "fastd")
RIGHT = 0.95


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


def answered(truths: dict[str, Truth], needs: Needs, noise: float, passes: int, seed: int) -> Answer:
    """What a run on this machine answers."""
    run, trials = chosen_run(truths, needs=needs, passes=passes, noise=noise, seed=seed, absent=())
    words = words_of(states(run, trials))
    return answer(devices(run, trials), words, needs)


def main() -> int:
    """Print the shares, and return the exit code."""
    seen: Counter[tuple[float, int, str]] = Counter()
    rng = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for number in range(MACHINES):
        truths = machine(rng)
        needs = Needs(
            line_bps=float(rng.choice(LINES_BPS)),
            path_rtt_ms=float(rng.choice((0.5, 5, 20))),
            traffic=TRAFFICS[int(rng.integers(len(TRAFFICS)))],
        )
        true = answered(truths, needs, 1e-6, 4, 0)
        for noise in NOISES:
            for passes in PASSES:
                said = answered(truths, needs, noise, passes, number)
                sure = said.certainty == "sure"
                right = said.named[0] in true.named if said.named else not true.named
                seen[noise, passes, "sure"] += sure
                seen[noise, passes, "right"] += right
                seen[noise, passes, "sure and right"] += sure and right
    worst = 1.0
    print("noise  passes  sure   right  right where sure")
    for noise in NOISES:
        for passes in PASSES:
            named, hits, both = (seen[noise, passes, what] for what in ("sure", "right", "sure and right"))
            share = both / named if named else 1.0
            worst = min(worst, share)
            print(f"{noise:5.2f}  {passes:6d}  {named / MACHINES:4.0%}  {hits / MACHINES:6.0%}  {share:.1%}")
    return int(worst < RIGHT)


if __name__ == "__main__":
    sys.exit(main())
