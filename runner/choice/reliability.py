"""How often a VPN did not carry what it otherwise carries: every attempt counts, and none takes another back.

What happens to plain IP and to the other VPNs in the same rounds excuses the machine. It never excuses the VPN: of
several others the one in the middle counts, so that no single one that misbehaves does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from runner.data.levels import BASELINE
from runner.data.trials import Rung, Trial

CARRIED = 0.95  # of what was offered: less is not carried
LOST = 0.01  # of the datagrams: less is no loss by which a sender would have been slowed down
MOSTLY = 0.5  # of the attempts are bad: it does not carry the rate, and tells nothing of the machine
Z, Z_ONE_SIDED = 1.96, 1.645  # 95 %
FEWEST_ATTEMPTS = 20  # fewer tell too little of how often it fails


class Counts(NamedTuple):
    """How many ``attempts`` there were, and how many of them were ``bad``."""

    attempts: float = 0
    bad: float = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.attempts + other.attempts, self.bad + other.bad)

    @property
    def share(self) -> float:
        """The share of bad ones; 0 where there were none at all."""
        return self.bad / self.attempts if self.attempts else 0.0


@dataclass(frozen=True)
class RungAttempts:
    """The attempts at one rate of a ladder. ``bad``: less than 95 % came through, or more than 1 % of the datagrams was
    lost; ``late``: they came through, and one in twenty later than ``LATE_MS`` beyond plain IP's. ``control``,
    ``control_late``: of plain IP and the other VPNs, in the same rounds."""

    rate_bps: float
    own: Counts
    late: float
    control: Counts
    control_late: float

    def counts(self, *, of_calls: bool) -> tuple[Counts, Counts]:
        """The VPN's attempts, and those of the control; for calls a late one is a bad one."""
        if not of_calls:
            return self.own, self.control
        return (
            Counts(self.own.attempts, self.own.bad + self.late),
            Counts(self.control.attempts, self.control.bad + self.control_late),
        )


LATE_MS = 50.0  # what makes a packet of a call useless (thresholds.py, delay_ms)
Attempts = Mapping[int, Mapping[str, float]]  # round -> attempts, bad, late


def excess(own: Counts, control: Counts, z: float = Z) -> tuple[float, float, float]:
    """The VPN's share of bad attempts less the control's, with its 95 % interval: lower bound, value, upper bound
    (Newcombe's hybrid score interval, Statistics in Medicine 17(8), 1998, method 10). ``z``: of the normal
    distribution, for bounds that hold with another probability."""
    low, high = _wilson(own, z)
    control_low, control_high = _wilson(control, z) if control.attempts else (0.0, 0.0)
    share, control_share = own.share, control.share
    below = math.hypot(share - low, control_high - control_share)
    above = math.hypot(high - share, control_share - control_low)
    return share - control_share - below, share - control_share, share - control_share + above


def _wilson(counts: Counts, z: float) -> tuple[float, float]:
    """The bounds of a share; from 0 to 1 where there was no attempt."""
    count = counts.attempts
    if not count:
        return 0.0, 1.0
    share, weight = counts.share, z * z / count
    middle = (share + weight / 2) / (1 + weight)
    reach = z * math.sqrt(share * (1 - share) / count + weight / (4 * count)) / (1 + weight)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def rung_attempts(kind: str, by_vpn: Mapping[str, Sequence[Trial]]) -> dict[str, tuple[RungAttempts, ...]]:
    """VPN -> the attempts of its ladders of a kind (``tcp``, ``datagrams``), the lowest rate first. ``by_vpn``: the
    trials of plain IP and of all VPNs, at the levels that are judged."""
    plain = _delays(by_vpn.get(BASELINE, ()), kind)
    every = {name: _by_rate(trials, kind, plain) for name, trials in by_vpn.items()}
    return {name: _beside_others(name, every) for name in every}


def _beside_others(
    vpn: str, every: Mapping[str, Mapping[float, Mapping[int, Mapping[str, float]]]]
) -> tuple[RungAttempts, ...]:
    found = []
    for rate_bps, own in sorted(every[vpn].items()):
        others = [
            _sum({number: of for number, of in rates[rate_bps].items() if number in own})
            for name, rates in every.items()
            if name != vpn and rate_bps in rates
        ]
        counts, late = _sum(own)
        control, control_late = _middle([one for one in others if one[0].attempts and one[0].share < MOSTLY])
        found.append(RungAttempts(rate_bps, counts, late, control, control_late))
    return tuple(found)


def _middle(others: Sequence[tuple[Counts, float]]) -> tuple[Counts, float]:
    """Of the others the one whose share is in the middle, the lower of two."""
    ordered = sorted(others, key=lambda one: (one[0].share, one[1] / one[0].attempts))
    return ordered[(len(ordered) - 1) // 2] if ordered else (Counts(), 0.0)


def _sum(rounds: Attempts) -> tuple[Counts, float]:
    attempts, bad, late = (sum(of[name] for of in rounds.values()) for name in ("attempts", "bad", "late"))
    return Counts(attempts, bad), late


def _by_rate(
    trials: Sequence[Trial], kind: str, plain: Mapping[tuple[float, int], float]
) -> dict[float, dict[int, dict[str, float]]]:
    """Rate -> round -> the attempts."""
    found: dict[float, dict[int, dict[str, float]]] = {}
    for trial in trials:
        if trial.params.get("carried") == kind:
            for rung in trial.curve:
                found.setdefault(rung.rate_bps, {}).update(_of_rung(rung, kind, plain))
    return {rate_bps: rounds for rate_bps, rounds in found.items() if rounds}


def _of_rung(rung: Rung, kind: str, plain: Mapping[tuple[float, int], float]) -> dict[int, dict[str, float]]:
    found = {}
    for at, number in enumerate(rung.rounds):
        values = {name: value for name, each in rung.values.items() if (value := each[at]) is not None}
        limited = values.get("sent_ratio", 1.0) < CARRIED and values.get("loss_ratio", 1.0) <= LOST
        attempts = values.get("attempts", 0.0 if limited else 1.0)
        lost = values.get("loss_ratio", 0.0) if kind != "tcp" else 0.0
        first_bad = values["carried_ratio"] < CARRIED or lost > LOST or bool(values.get("broke_down"))
        bad = max(values.get("bad_attempts", float(first_bad)), values.get("broke_down", 0.0))
        usual_ms = plain.get((rung.rate_bps, number), 0.0)
        late = not first_bad and values.get("delay_p95_ms", 0.0) > usual_ms + LATE_MS
        if attempts:
            found[number] = {"attempts": attempts, "bad": min(bad, attempts), "late": float(late)}
    return found


def _delays(plain: Sequence[Trial], kind: str) -> dict[tuple[float, int], float]:
    """(rate, round) -> the p95 of plain IP's delays, ms."""
    return {
        (rung.rate_bps, number): value
        for trial in plain
        if trial.params.get("carried") == kind
        for rung in trial.curve
        for number, value in zip(rung.rounds, rung.values.get("delay_p95_ms", ()), strict=False)
        if value is not None
    }
