"""The answer for one line, for many lines, and what would change it. All of it is data: runner/report makes words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.choice.device import Device
from runner.choice.grade import Graded, both_ways, grade_device, is_reckoned, limit, path_shares
from runner.choice.machine import MachineState
from runner.choice.model import (
    RATES_BPS,
    WEAKEST,
    Answer,
    Band,
    Candidate,
    Carries,
    Certainties,
    Certainty,
    Change,
    Criterion,
    Grade,
    Reason,
)
from runner.choice.reliability import FEWEST_ATTEMPTS
from runner.choice.rule import Chosen, choose
from runner.choice.thresholds import USUAL, Thresholds
from runner.choice.watched import Watched
from runner.data.named import Must
from runner.data.needs import Needs

SURE, PROBABLE = 0.95, 0.8  # chances from which on a word may be said
POSSIBLE = 0.2  # from which on a VPN is named where none is probable
HALF = 0.5  # of the draws between the user's own gateways
MORE = 1.05  # times what is carried here: gateways with cores of their own may carry more
FULFILLED = ("shown", "declared")
QUIET = MachineState()
Words = Mapping[str, Mapping[Must, str]]  # VPN -> must -> shown, declared, unknown or no


@dataclass(frozen=True)
class _Judged:
    """What the rule says of a line: VPN -> its grades and its chance of being chosen; who is named, and how sure that
    is, and who has the musts."""

    every: Mapping[str, Graded]
    chances: Mapping[str, float]
    named: list[str]
    certainties: Certainties
    able: list[str]

    @property
    def grade(self) -> int:
        """Of the first that is named."""
        return _middle(self.every[self.named[0]]) if self.named else Grade.UNKNOWN

    @property
    def unknown_vpns(self) -> list[str]:
        """Those that have the musts, and of which what counts was not measured, or leaves open whether they are of
        use."""
        grades = {vpn: _middle(self.every[vpn]) for vpn in self.able}
        return [
            vpn
            for vpn, grade in grades.items()
            if grade == Grade.UNKNOWN or (grade > Grade.SHORT and self.chances[vpn] >= POSSIBLE)
        ]

    @property
    def certainty(self) -> Certainty:
        """The word of a sentence on the first that is named. Where none carries the line, that is what is said, and
        which comes nearest is beside it."""
        return self.certainties.carries if self.grade == Grade.SHORT else self.certainties.word

    @property
    def reservations(self) -> list[Criterion]:
        """About the first that is named."""
        return _reservations(self.every[self.named[0]]) if self.named else []


def _judge(
    devices: Mapping[str, Device],
    words: Words,
    needs: Needs,
    thresholds: Thresholds,
    state: MachineState = QUIET,
    own_cores: bool = False,
) -> _Judged:
    every = {vpn: grade_device(device, needs, thresholds, own_cores=own_cores) for vpn, device in devices.items()}
    able = [vpn for vpn in every if not _lacking(words.get(vpn, {}), needs)]
    drawn = choose([every[vpn] for vpn in able], thresholds, needs.cores)
    shares = drawn.mean(axis=0) if able else []
    chances = dict.fromkeys(every, 0.0) | {vpn: float(share) for vpn, share in zip(able, shares, strict=True)}
    named, best, equal = _name(able, drawn, every, words, needs)
    certainties = Certainties()
    if named:
        first = every[named[0]]
        carries = _carries_chance(first)
        certainties = Certainties(
            best=best,
            carries=_word(max(carries, 1 - carries)),
            equal=min((equal, *map(_steady, (every[vpn] for vpn in named))), key=WEAKEST.index),
            steady=_steady(first),
        )
    if state.is_disturbed:
        certainties = certainties.at_most("probably")
    return _Judged(every, chances, named, certainties, able)


def answer(
    devices: Mapping[str, Device],
    words: Words,
    needs: Needs,
    *,
    state: MachineState = QUIET,
    own_cores: bool = False,
    thresholds: Thresholds = USUAL,
) -> Answer:
    """The answer for the line ``needs.line_bps``. ``state``: what the machine did beside: where it was not calm, a VPN
    that does not carry the line here may carry it elsewhere, and what was disturbed is not sure. ``own_cores``: of
    gateways with cores of their own."""
    judged = _judge(devices, words, needs, thresholds, state, own_cores)
    named, chances = judged.named, judged.chances
    first = judged.every[named[0]] if named else None
    candidates = [
        _candidate(one, words.get(vpn, {}), needs, chances[vpn], vpn in named, first, state.calm, thresholds)
        for vpn, one in judged.every.items()
    ]
    return Answer(
        needs=needs,
        named=named,
        certainties=judged.certainties,
        certainty=judged.certainty,
        grade=judged.grade,
        candidates=sorted(candidates, key=lambda candidate: (*_place(named, candidate.vpn), -candidate.chance)),
        unknown=judged.unknown_vpns,
    )


def bands(
    devices: Mapping[str, Device],
    words: Words,
    needs: Needs,
    *,
    state: MachineState = QUIET,
    thresholds: Thresholds = USUAL,
) -> list[Band]:
    """The bands of RATES_BPS, whatever line ``needs`` has: neighbours that have one answer are one band. Nothing is
    said of rates between two bands, which nobody asked about, and of lines that the path has no room for."""
    found: list[Band] = []
    room_bps = max((device.path_bps or math.inf for device in devices.values()), default=math.inf)
    for line_bps in (line_bps for line_bps in RATES_BPS if thresholds.payload_share * line_bps <= room_bps):
        judged = _judge(devices, words, needs.on_line(line_bps), thresholds, state)
        last, now = found[-1] if found else None, (set(judged.named), judged.grade, judged.certainty)
        if last and (set(last.named), last.grade, last.certainty) == now:
            equal = min(last.equal, judged.certainties.equal, key=WEAKEST.index)
            more = {"high_bps": line_bps, "reservations": judged.reservations, "equal": equal}
            found[-1] = last.model_copy(update=more)
            continue
        first = judged.every[judged.named[0]] if judged.named else None
        shares = path_shares(first) if first else (None, None)
        found.append(
            Band(
                low_bps=line_bps,
                high_bps=line_bps,
                named=judged.named,
                grade=judged.grade,
                certainty=judged.certainty,
                equal=judged.certainties.equal,
                reservations=judged.reservations,
                here_bps=_finite_median(first.capacity_bps) if first else None,
                most_bps=_finite_median(first.most_bps) if first else None,
                path_share=shares[0],
                path_share_down=shares[1],
                unknown=judged.unknown_vpns,
            )
        )
    return found


def changes(
    devices: Mapping[str, Device], words: Words, said: Answer, every: Sequence[Band], thresholds: Thresholds = USUAL
) -> list[Change]:
    """What would change the answer ``said``: the next higher line, the least of LOSSES where nobody knows what the path
    loses, each must that is not in force, and each that is. ``every``: the bands of all lines."""
    needs, found = said.needs, list[Change]()
    above = [band for band in every if needs.line_bps and band.low_bps > needs.line_bps]
    then = next((band for band in above if (band.named[:1], band.grade) != (said.named[:1], said.grade)), None)
    if then and not (said.grade == then.grade == Grade.SHORT):
        found.append(Change(line_bps=then.low_bps, named=then.named, grade=then.grade, reservations=then.reservations))
    found += _loss_changes(devices, words, said, thresholds)
    known = [must for must in CHANGING if must not in needs.must]
    for must in known:
        found += _must_changes(devices, words, said, (*needs.must, must), thresholds, must=must)
    for must in needs.must:
        fewer = tuple(other for other in needs.must if other != must)
        found += _must_changes(devices, words, said, fewer, thresholds, without=must)
    return found


CHANGING: tuple[Must, ...] = ("udp-blocked", "kernel", "post-quantum", "certificates", "ipv6-inside", "standard")


LOSSES = (0.0002, 0.001, 0.005)  # of the path; more is a line that needs mending first


def _loss_changes(
    devices: Mapping[str, Device], words: Words, said: Answer, thresholds: Thresholds
) -> Iterator[Change]:
    for ratio in LOSSES if said.needs.path_loss_ratio is None and said.named else ():
        needs = said.needs.model_copy(update={"path_loss_ratio": ratio})
        then = answer(devices, words, needs, thresholds=thresholds)
        if then.named and (then.named[:1], then.grade) != (said.named[:1], said.grade):
            kept = then.candidate_of(then.named[0]).reservations
            yield Change(path_loss_ratio=ratio, named=then.named, grade=then.grade, reservations=kept)
            return


def _must_changes(
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
    reservations = then.candidate_of(then.named[0]).reservations if then.named else []
    return [Change(must=must, without=without, named=then.named, grade=then.grade, reservations=reservations)]


def unsettled_lines(
    devices: Mapping[str, Device], words: Words, needs: Needs, *, state: MachineState = QUIET
) -> list[float]:
    """The lines, of those that an answer is for, that more of the same measurements would settle: here, or on gateways
    with cores of their own, no VPN is named for sure, and that is not because none has the musts, or surely none
    carries the line, or because it depends on the gateways whether one of them does. ``needs`` without a line:
    RATES_BPS. Whether a VPN is steady is no such doubt: only a long watch tells."""
    asked = [needs.line_bps] if needs.line_bps else RATES_BPS
    return [
        line
        for line in asked
        if not all(
            _is_settled(answer(devices, words, needs.on_line(line), state=state, own_cores=own), own)
            for own in (False, True)
        )
    ]


def _is_settled(said: Answer, own_cores: bool) -> bool:
    """``own_cores``: what gateways with cores of their own carry at most is no measurement that more of the same makes
    surer, and only who is best on them counts."""
    words = said.certainties
    sure = words.best == "sure" if own_cores else words.of_slices == "sure"
    unsure = [candidate for candidate in said.candidates if 1 - SURE < candidate.chance < SURE]
    unsure += [said.candidate_of(vpn) for vpn in said.named[:1] if words.carries != "sure"]
    nobody = all(any(reason.musts for reason in candidate.reasons) for candidate in said.candidates)
    nobody |= said.grade == Grade.SHORT and words.carries == "sure"
    return nobody or (sure and words.steady != "open") or any(_by_gateways(candidate) for candidate in unsure)


def _by_gateways(candidate: Candidate) -> bool:
    """Do the gateways decide whether it carries the line, and not its measurement?"""
    here_bps, most_bps = candidate.here_bps, candidate.most_bps
    return candidate.carries == "depends" and here_bps is not None and (most_bps is None or most_bps > MORE * here_bps)


def _lacking(own: Mapping[Must, str], needs: Needs) -> list[Must]:
    return [must for must in needs.must if own.get(must, "unknown") not in FULFILLED]


def _middle(one: Graded) -> int:
    return int(np.median(one.grade))


def _reservations(one: Graded) -> list[Criterion]:
    return [name for name, codes in one.codes.items() if int(np.median(codes)) == Grade.LITTLE]


def _steady(first: Graded) -> Certainty:
    if first.proven:
        return "sure"
    return "probably" if first.attempts.attempts >= FEWEST_ATTEMPTS else "open"


def _word(chance: float) -> Certainty:
    return "sure" if chance >= SURE else "probably" if chance >= PROBABLE else "open"


def _name(
    able: Sequence[str], drawn: Chosen, every: Mapping[str, Graded], words: Words, needs: Needs
) -> tuple[list[str], Certainty, Certainty]:
    """Those that are named, and how sure it is that the first belongs to the best, and that all do. First is the most
    likely, and of those that are sure the one whose musts were shown, then what carries most. Beside it stand those
    that are probably chosen together with it. Where no VPN is probable, all that are possible are named. What is
    useless in half of the draws is never named."""
    columns = {vpn: drawn[:, at] for at, vpn in enumerate(able)}
    chances = {vpn: float(column.mean()) for vpn, column in columns.items()}
    good = [vpn for vpn in able if chances[vpn] >= POSSIBLE and _middle(every[vpn]) <= Grade.SHORT]

    def place(vpn: str) -> tuple[float, bool, float, str]:
        declared = any(words[vpn].get(must) == "declared" for must in needs.must)
        unsure = 0.0 if chances[vpn] >= SURE else 1 - chances[vpn]
        return unsure, declared, -float(np.median(every[vpn].capacity_bps)), vpn

    good.sort(key=place)
    if not good:
        return [], "open", "open"
    best = _word(chances[good[0]])
    if best == "open":
        return good, "open", "open"
    together, named = columns[good[0]], good[:1]
    for vpn in good[1:]:
        if (both := together & columns[vpn]).mean() >= PROBABLE:
            together, named = both, [*named, vpn]
    return named, best, _word(float(together.mean()))


def _place(named: Sequence[str], vpn: str) -> tuple[bool, int]:
    return vpn not in named, named.index(vpn) if vpn in named else 0


def _carries(one: Graded, calm: bool) -> Carries:
    """Yes, no, or that depends on the gateways: by 95 % of the draws; between the user's own gateways yes or no."""
    if one.device.own_gateways:
        return "yes" if _carries_chance(one) >= HALF else "no"
    if np.isnan(one.capacity_bps).any():
        return "depends"
    if _carries_chance(one) >= SURE:
        return "yes"
    return "no" if calm and (one.most_room < 1).mean() >= SURE else "depends"


def _carries_chance(one: Graded) -> float:
    return float((one.room >= 1).mean())


def _candidate(
    one: Graded,
    own: Mapping[Must, str],
    needs: Needs,
    chance: float,
    is_named: bool,
    first: Graded | None,
    calm: bool,
    thresholds: Thresholds,
) -> Candidate:
    grade = _middle(one)
    here, most, cores = (_finite_median(draws) for draws in (one.capacity_bps, one.most_bps, one.cores))
    shares, back = path_shares(one), one.device.down_bps
    both = both_ways(one.device, needs)
    with np.errstate(invalid="ignore"):  # nobody knows how often nothing
        down_bps, both_bps = (
            None if way is None else _finite_median(way * one.capacity_bps)
            for way in (None if back is None else one.back, both)
        )
    return Candidate(
        vpn=one.device.vpn,
        chance=chance,
        carries_chance=_carries_chance(one),
        grade=grade,
        carries=_carries(one, calm),
        here_bps=here,
        most_bps=most,
        cores=cores,
        cores_bps=one.cores_bps,
        cores_within=_margin_of(one.cores),
        path_share=shares[0],
        path_share_down=shares[1],
        down_bps=down_bps,
        both_bps=both_bps,
        limit=limit(one, thresholds),
        reckoned=is_reckoned(one.device, needs),
        reasons=[] if is_named else _reasons(one, own, needs, chance, first),
        reservations=_reservations(one),
        musts={must: own.get(must, "unknown") for must in needs.must},
        trials=one.device.trials,
        failed=one.device.failed,
        attempts=round(one.attempts.attempts),
        bad_attempts=round(one.attempts.bad),
        **_of_watch(one.device.watched),
    )


def _finite_median(draws: np.ndarray) -> float | None:
    middle = float(np.median(draws))
    return middle if math.isfinite(middle) else None


def _of_watch(watched: Watched | None) -> dict[str, float]:
    if watched is None:
        return {}
    return {
        "watched_s": watched.seconds,
        "watched_bps": watched.rate_bps,
        "longest_gap_s": watched.longest_gap_s,
        "worst_second_loss_ratio": watched.worst_second_loss_ratio,
    }


def _margin_of(cores: np.ndarray) -> float | None:
    low, high = (float(value) for value in np.quantile(cores, (0.025, 0.975)))
    return max(-low, abs(high)) if low <= 0 else None


def _value(one: Graded, criterion: Criterion) -> float | None:
    return _finite_median(one.values[criterion]) if criterion in one.values else None


def _reasons(one: Graded, own: Mapping[Must, str], needs: Needs, chance: float, first: Graded | None) -> list[Reason]:
    """The musts that it lacks; else that it does not carry the line; else the criteria by which it is worse than the
    ``first`` that is named; else what it costs, where it is hardly ever chosen; else that it may be as good."""
    if lacking := _lacking(own, needs):
        unknown = [must for must in lacking if own.get(must, "unknown") == "unknown"]
        surely = [must for must in lacking if must not in unknown]
        return [Reason(musts=surely or unknown, unknown=not surely)]
    grade, best = _middle(one), _middle(first) if first else Grade.UNKNOWN
    middle = {name: int(np.median(codes)) for name, codes in one.codes.items()}
    # A tunnel that is full does worse in all else. Where none carries the line, that is what sets one behind another.
    if middle[one.carrying] == Grade.SHORT and (grade == Grade.SHORT or best < Grade.SHORT):
        by: Criterion = "window" if middle.get("window") == Grade.SHORT else one.carrying
        return [Reason(criterion=by, value=_value(one, one.carrying))]
    if grade > best or best == Grade.UNKNOWN:
        worse = [name for name in middle if middle[name] > best] or [name for name in middle if middle[name] == grade]
        return [Reason(criterion=name, value=_value(one, name)) for name in worse]
    if first and np.median(one.standing) > np.median(first.standing):
        known = _reservations(first)
        return [Reason(criterion=name, value=_value(one, name)) for name in _reservations(one) if name not in known]
    return [Reason(criterion="cost", value=_finite_median(one.cores))] if chance <= 1 - PROBABLE else [Reason()]
