"""The answer for one line, for many lines, and what would change it. All of it is data: runner/report makes words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from runner.choice.devices import Device
from runner.choice.grade import Criterion, Grade, Graded, graded
from runner.choice.rule import chosen
from runner.choice.thresholds import USUAL, Thresholds
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.trials import Strict

SURE, PROBABLE, EQUAL = 0.95, 0.8, 0.5  # chances of being chosen
POSSIBLE = 0.2  # from which on a VPN is named where none is chosen in half of the draws
RATES_BPS = tuple(sorted({factor * 10.0**power for power in (7, 8, 9) for factor in (1, 2, 5)} | {1e10}))
GRID = 20  # lines a decade, where bands are looked for
MORE = 1.05  # times what is carried here: gateways with cores of their own may carry more
FULFILLED = ("shown", "declared")
Certainty = Literal["sure", "probably", "open"]
Carries = Literal["yes", "no", "depends"]
Words = Mapping[str, Mapping[Must, str]]  # VPN -> must -> shown, declared, unknown or no


class Reason(Strict):
    """Why a VPN is not named: it lacks ``musts``; by a ``criterion`` its grade is worse (``value``: by what); it costs
    more (``cost``); or it is chosen in fewer draws (no criterion)."""

    criterion: Criterion | None = None
    value: float | None = None
    musts: list[Must] = []
    unknown: bool = False


class Candidate(Strict):
    """One VPN on the line. ``chance``: the share of the draws that choose it. ``grade``: the middle one. ``carries``:
    does it carry the line? ``here_bps``: what it carries here, ``most_bps``: on gateways with cores of their own at
    most; None where nobody knows. ``cores``: of a gateway beyond plain IP, at ``cores_bps`` of payload: the demand, or
    what it carries here; ``cores_within``: where that cannot be told from plain IP's, by how much at most it may be
    more or less (95 %). ``reasons``: why it is not named. ``trials``,
    ``failed``: of those that it is judged by."""

    vpn: str
    chance: float
    grade: int
    carries: Carries
    here_bps: float | None
    most_bps: float | None
    cores: float | None
    cores_bps: float | None = None
    cores_within: float | None = None
    reasons: list[Reason] = []
    reservations: list[Criterion] = []
    musts: dict[Must, str] = {}
    trials: int = 0
    failed: int = 0


class Answer(Strict):
    """The answer for ``needs``. ``named``: the VPNs that are equally good, the first one to take; empty where no VPN
    fulfils the musts and was measured. ``grade``: of the first; SHORT: it comes nearest, and does not carry the
    line. ``unknown``: the VPNs that have the musts, and of which what counts was not measured."""

    needs: Needs
    named: list[str]
    certainty: Certainty
    grade: int
    candidates: list[Candidate]
    unknown: list[str] = []

    def of(self, vpn: str) -> Candidate:
        """The candidate of this name."""
        return next(candidate for candidate in self.candidates if candidate.vpn == vpn)


class Band(Strict):
    """The lines, from ``low_bps`` to ``high_bps``, for which the same VPNs are named, at the same grade.
    ``reservations``: about the first, on the highest of these lines. ``here_bps``, ``most_bps``: what the first
    carries; see Candidate. ``unknown``: see Answer; of the lowest of these lines."""

    low_bps: float
    high_bps: float
    named: list[str]
    grade: int
    reservations: list[Criterion] = []
    here_bps: float | None = None
    most_bps: float | None = None
    unknown: list[str] = []


class Change(Strict):
    """What would change the answer: another ``line_bps``, one more must, or one fewer (``without``); ``named`` then,
    and the first one's ``grade`` and ``reservations``."""

    line_bps: float | None = None
    must: Must | None = None
    without: Must | None = None
    named: list[str]
    grade: int
    reservations: list[Criterion] = []


@dataclass(frozen=True)
class _Judged:
    """What the rule says of a line: VPN -> its grades and its chance of being chosen; who is named, and who has the
    musts."""

    every: Mapping[str, Graded]
    chances: Mapping[str, float]
    named: list[str]
    able: list[str]

    @property
    def grade(self) -> int:
        """Of the first that is named."""
        return _middle(self.every[self.named[0]]) if self.named else Grade.UNKNOWN

    @property
    def unknown(self) -> list[str]:
        """Those that have the musts, and of which what counts was not measured, or leaves open whether they are of
        use."""
        grades = {vpn: _middle(self.every[vpn]) for vpn in self.able}
        return [
            vpn
            for vpn, grade in grades.items()
            if grade == Grade.UNKNOWN or (grade > Grade.SHORT and self.chances[vpn] >= POSSIBLE)
        ]

    @property
    def reservations(self) -> list[Criterion]:
        """About the first that is named."""
        return _reservations(self.every[self.named[0]]) if self.named else []


def _judged(
    devices: Mapping[str, Device], words: Words, needs: Needs, thresholds: Thresholds, own_cores: bool = False
) -> _Judged:
    every = {vpn: graded(device, needs, thresholds, own_cores=own_cores) for vpn, device in devices.items()}
    able = [vpn for vpn in every if not _lacking(words.get(vpn, {}), needs)]
    chances = dict.fromkeys(every, 0.0)
    if able:
        shares = chosen([every[vpn] for vpn in able], thresholds).mean(axis=0)
        chances |= {vpn: float(share) for vpn, share in zip(able, shares, strict=True)}
    return _Judged(every, chances, _named(able, chances, every, words, needs), able)


def answer(
    devices: Mapping[str, Device],
    words: Words,
    needs: Needs,
    *,
    calm: bool = True,
    own_cores: bool = False,
    thresholds: Thresholds = USUAL,
) -> Answer:
    """The answer for the line ``needs.line_bps``. ``calm``: did the machine do nothing else meanwhile? Else a VPN that
    does not carry the line here may carry it elsewhere. ``own_cores``: of gateways with cores of their own."""
    judged = _judged(devices, words, needs, thresholds, own_cores)
    named, chances, grade = judged.named, judged.chances, judged.grade
    candidates = [
        _candidate(one, words.get(vpn, {}), needs, chances[vpn], vpn in named, grade, calm, thresholds)
        for vpn, one in judged.every.items()
    ]
    return Answer(
        needs=needs,
        named=named,
        certainty=_certainty(max((chances[vpn] for vpn in named), default=0.0)),
        grade=grade,
        candidates=sorted(candidates, key=lambda candidate: (*_place(named, candidate.vpn), -candidate.chance)),
        unknown=judged.unknown,
    )


def bands(devices: Mapping[str, Device], words: Words, needs: Needs, thresholds: Thresholds = USUAL) -> list[Band]:
    """The bands of lines from the lowest of RATES_BPS to the highest, whatever line ``needs`` has."""
    decades = math.log10(RATES_BPS[-1] / RATES_BPS[0])
    lines = np.logspace(math.log10(RATES_BPS[0]), math.log10(RATES_BPS[-1]), 1 + round(GRID * decades))
    found: list[Band] = []
    for line_bps in map(float, lines):
        judged = _judged(devices, words, _on(needs, line_bps), thresholds)
        last = found[-1] if found else None
        if last and (set(last.named), last.grade) == (set(judged.named), judged.grade):
            found[-1] = last.model_copy(update={"high_bps": line_bps, "reservations": judged.reservations})
            continue
        first = judged.every[judged.named[0]] if judged.named else None
        found.append(
            Band(
                low_bps=line_bps,
                high_bps=line_bps,
                named=judged.named,
                grade=judged.grade,
                reservations=judged.reservations,
                here_bps=_known(first.capacity_bps) if first else None,
                most_bps=_known(first.most_bps) if first else None,
                unknown=judged.unknown,
            )
        )
    return found


def changes(
    devices: Mapping[str, Device], words: Words, said: Answer, every: Sequence[Band], thresholds: Thresholds = USUAL
) -> list[Change]:
    """What would change the answer ``said``: the next higher line, each must that is not in force, and each that is.
    ``every``: the bands of all lines."""
    needs, found = said.needs, list[Change]()
    above = [band for band in every if needs.line_bps and band.low_bps > needs.line_bps]
    if above:
        then = above[0]
        found.append(Change(line_bps=then.low_bps, named=then.named, grade=then.grade, reservations=then.reservations))
    known = [must for must in CHANGING if must not in needs.must]
    for must in known:
        found += _changed(devices, words, said, (*needs.must, must), thresholds, must=must)
    for must in needs.must:
        fewer = tuple(other for other in needs.must if other != must)
        found += _changed(devices, words, said, fewer, thresholds, without=must)
    return found


CHANGING: tuple[Must, ...] = ("udp-blocked", "kernel", "post-quantum", "certificates", "ipv6-inside", "standard")


def _changed(
    devices: Mapping[str, Device],
    words: Words,
    said: Answer,
    musts: tuple[Must, ...],
    thresholds: Thresholds,
    *,
    must: Must | None = None,
    without: Must | None = None,
) -> list[Change]:
    then = answer(devices, words, said.needs.model_copy(update={"must": musts}), thresholds=thresholds)
    if then.named[:1] in ([], said.named[:1]):
        return []
    reservations = then.of(then.named[0]).reservations if then.named else []
    return [Change(must=must, without=without, named=then.named, grade=then.grade, reservations=reservations)]


def unsettled(devices: Mapping[str, Device], words: Words, needs: Needs, *, calm: bool = True) -> list[float]:
    """The lines, of those that an answer is for, that more of the same measurements would settle: here, or on gateways
    with cores of their own, no VPN is named for sure, and that is not because none has the musts, or because it depends
    on the gateways whether one of them carries the line. ``needs`` without a line: RATES_BPS."""
    asked = [needs.line_bps] if needs.line_bps else RATES_BPS
    return [
        line
        for line in asked
        if not all(
            _settled(answer(devices, words, _on(needs, line), calm=calm, own_cores=own)) for own in (False, True)
        )
    ]


def _settled(said: Answer) -> bool:
    unsure = [candidate for candidate in said.candidates if 1 - SURE < candidate.chance < SURE]
    nobody = all(any(reason.musts for reason in candidate.reasons) for candidate in said.candidates)
    return nobody or said.certainty == "sure" or any(_by_gateways(candidate) for candidate in unsure)


def _by_gateways(candidate: Candidate) -> bool:
    """Do the gateways decide whether it carries the line, and not its measurement?"""
    here_bps, most_bps = candidate.here_bps, candidate.most_bps
    return candidate.carries == "depends" and here_bps is not None and (most_bps is None or most_bps > MORE * here_bps)


def _on(needs: Needs, line_bps: float) -> Needs:
    return needs.model_copy(update={"line_bps": line_bps})


def _lacking(own: Mapping[Must, str], needs: Needs) -> list[Must]:
    return [must for must in needs.must if own.get(must, "unknown") not in FULFILLED]


def _middle(one: Graded) -> int:
    return int(np.median(one.grade))


def _reservations(one: Graded) -> list[Criterion]:
    return [name for name, codes in one.codes.items() if int(np.median(codes)) == Grade.LITTLE]


def _certainty(chance: float) -> Certainty:
    return "sure" if chance >= SURE else "probably" if chance >= PROBABLE else "open"


def _named(
    able: Sequence[str], chances: Mapping[str, float], every: Mapping[str, Graded], words: Words, needs: Needs
) -> list[str]:
    """Those that half of the draws choose: the sure ones first, then those whose musts were all shown, then what
    carries most. Where there is none, those that are possible. What is useless in half of the draws is not named."""
    least = EQUAL if any(chances[vpn] >= EQUAL for vpn in able) else POSSIBLE
    good = [vpn for vpn in able if chances[vpn] >= least and _middle(every[vpn]) <= Grade.SHORT]

    def place(vpn: str) -> tuple[bool, bool, float, str]:
        declared = any(words[vpn].get(must) == "declared" for must in needs.must)
        return chances[vpn] < SURE, declared, -float(np.median(every[vpn].capacity_bps)), vpn

    return sorted(good, key=place)


def _place(named: Sequence[str], vpn: str) -> tuple[bool, int]:
    return vpn not in named, named.index(vpn) if vpn in named else 0


def _carries(one: Graded, demand_bps: float, calm: bool) -> Carries:
    """Yes, no, or that depends on the gateways: by 95 % of the draws; between the user's own gateways yes or no."""
    if one.device.own_gateways:
        return "yes" if (one.capacity_bps >= demand_bps).mean() >= EQUAL else "no"
    if np.isnan(one.capacity_bps).any():
        return "depends"
    if (one.capacity_bps >= demand_bps).mean() >= SURE:
        return "yes"
    return "no" if calm and (one.most_bps < demand_bps).mean() >= SURE else "depends"


def _candidate(
    one: Graded,
    own: Mapping[Must, str],
    needs: Needs,
    chance: float,
    is_named: bool,
    best: int,
    calm: bool,
    thresholds: Thresholds,
) -> Candidate:
    assert needs.line_bps is not None
    grade = _middle(one)
    here, most, cores = (_known(draws) for draws in (one.capacity_bps, one.most_bps, one.cores))
    return Candidate(
        vpn=one.device.vpn,
        chance=chance,
        grade=grade,
        carries=_carries(one, thresholds.demand_bps(needs.line_bps), calm),
        here_bps=here,
        most_bps=most,
        cores=cores,
        cores_bps=one.cores_bps,
        cores_within=_within(one.cores),
        reasons=[] if is_named else _reasons(one, own, needs, grade, best),
        reservations=_reservations(one),
        musts={must: own.get(must, "unknown") for must in needs.must},
        trials=one.device.trials,
        failed=one.device.failed,
    )


def _known(draws: np.ndarray) -> float | None:
    middle = float(np.median(draws))
    return middle if math.isfinite(middle) else None


def _within(cores: np.ndarray) -> float | None:
    low, high = (float(value) for value in np.quantile(cores, (0.025, 0.975)))
    return max(-low, abs(high)) if low <= 0 else None


def _value(one: Graded, criterion: Criterion) -> float | None:
    return _known(one.values[criterion]) if criterion in one.values else None


def _reasons(one: Graded, own: Mapping[Must, str], needs: Needs, grade: int, best: int) -> list[Reason]:
    """The musts that it lacks; else that it does not carry the line; else the criteria by which it is worse; else what
    it costs."""
    if lacking := _lacking(own, needs):
        unknown = [must for must in lacking if own.get(must, "unknown") == "unknown"]
        surely = [must for must in lacking if must not in unknown]
        return [Reason(musts=surely or unknown, unknown=not surely)]
    middle = {name: int(np.median(codes)) for name, codes in one.codes.items()}
    # A tunnel that is full does worse in all else. Where none carries the line, that is what sets one behind another.
    if middle["capacity"] == Grade.SHORT and (grade == Grade.SHORT or best < Grade.SHORT):
        return [Reason(criterion="capacity", value=_value(one, "capacity"))]
    if grade > best or best == Grade.UNKNOWN:
        worse = [name for name in middle if middle[name] > best] or [name for name in middle if middle[name] == grade]
        return [Reason(criterion=name, value=_value(one, name)) for name in worse]
    return [Reason(criterion="cost", value=_known(one.cores))]
