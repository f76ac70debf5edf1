"""What an answer is: who is named, how sure that is, and why the others are not. All of it is data: runner/report makes
words."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

from runner.data.kinds import Strict
from runner.data.named import Must
from runner.data.needs import Needs

Certainty = Literal["sure", "probably", "open"]
WEAKEST: tuple[Certainty, ...] = ("open", "probably", "sure")  # the weakest first
Carries = Literal["yes", "no", "depends"]
RATES_BPS = tuple(sorted({factor * 10.0**power for power in (7, 8, 9) for factor in (1, 2, 5)} | {1e10}))
Criterion = Literal[
    "capacity",
    "path",  # in place of capacity, between the user's own gateways
    "cores",
    "window",
    "loss",
    "delay",
    "mouth_to_ear",
    "rtt",
    "setup",
    "one_connection",
    "breakdown",
    "failures",
    "gap",
    "cost",
]
Limit = Literal["path", "packets", "cores", "window"]
Word = Literal["no", "unknown", "declared", "shown"]  # from the worst to the best
# What a state rests on. marker: payload reached the far network. ports: it forwards ports and joins no networks. wire:
# what the capture of the WAN saw. data path: where the packets are worked on. trial: a trial of just this must.
# negotiated: what the daemons agreed on. plugin: what the plugin says of the tunnel that it sets up. declaration: what
# it declares, with source and day. kin: a trial of the program that speaks the protocol of a VPN in the kernel.
# nothing: nobody tried or declared it.
How = Literal["marker", "ports", "wire", "data path", "trial", "negotiated", "plugin", "declaration", "kin", "nothing"]


class Grade(IntEnum):
    """How well a VPN suits a line. A worse grade is a larger number; UNKNOWN: what counts was not measured."""

    FITS = 0
    LITTLE = 1
    SHORT = 2
    USELESS = 3
    UNKNOWN = 4


class State(Strict):
    """How a VPN stands to one must. ``how``: what that rests on; ``value``: what was seen ("tcp", "X25519MLKEM768");
    ``trial``: its id. ``run``: the shipped run that has the trial, made on ``day`` (ISO); empty where it is this run.
    Of a declaration, ``day`` and ``sources`` are those of the declaration; of a permitted cryptography, ``sources``
    names the list. ``instead``: of a *no*, the VPNs of the same family that can."""

    word: Word
    how: How
    value: str = ""
    trial: str = ""
    run: str = ""
    day: str = ""
    sources: list[str] = []
    instead: list[str] = []


class Reason(Strict):
    """Why a VPN is not named: it lacks ``musts``; by a ``criterion`` its grade is worse (``value``: by what); it costs
    more (``cost``); or it is chosen in fewer draws (no criterion)."""

    criterion: Criterion | None = None
    value: float | None = None
    musts: list[Must] = []
    unknown: bool = False


class Candidate(Strict):
    """One VPN on the line. ``chance``: the share of the draws that choose it; ``carries_chance``: in which it carries
    the line. ``grade``: the middle one. ``carries``: does it carry the line? ``here_bps``: what it carries here,
    ``most_bps``: on gateways with cores of their own at most; None where nobody knows. ``cores``: of a gateway beyond
    plain IP, at ``cores_bps`` of payload: the demand, or what it carries here; ``cores_within``: where that cannot be
    told from plain IP's, by how much at most it may be more or less (95 %). Between the user's own gateways:
    ``path_share``, ``path_share_down``, what it carries of the path from gw1 and to it. ``limit``: what limits it,
    where that is known. ``down_bps``: what it carries to gw1; None where only the other way was measured. ``both_bps``:
    both ways at once, added; None where nobody measured that or asks for it. ``reckoned``: nobody measured the packets
    that calls send. ``reasons``: why it is not named. ``trials``, ``failed``: of those that it is judged by;
    ``attempts``, ``bad_attempts``: of its ladders and its watch; of the latter, where there was one, how long it took
    (``watched_s``), its rate, its longest gap and worst second."""

    vpn: str
    chance: float
    carries_chance: float = 0.0
    grade: int
    carries: Carries
    here_bps: float | None
    most_bps: float | None
    cores: float | None
    cores_bps: float | None = None
    cores_within: float | None = None
    path_share: float | None = None
    path_share_down: float | None = None
    down_bps: float | None = None
    both_bps: float | None = None
    limit: Limit | None = None
    reckoned: bool = False
    reasons: list[Reason] = []
    reservations: list[Criterion] = []
    musts: dict[Must, str] = {}
    trials: int = 0
    failed: int = 0
    attempts: int = 0
    bad_attempts: int = 0
    watched_s: float | None = None
    watched_bps: float | None = None
    longest_gap_s: float | None = None
    worst_second_loss_ratio: float | None = None


class Certainties(Strict):
    """Three certainties, never one word for two. ``best``: that the first VPN belongs to those that the rule chooses;
    ``carries``: that it carries the line, or does not, as the answer says; ``equal``: that all that are named belong to
    them, and do always what they do mostly; ``steady``: that the first one does so, which only many attempts show."""

    best: Certainty = "open"
    carries: Certainty = "open"
    equal: Certainty = "open"
    steady: Certainty = "probably"

    @property
    def of_slices(self) -> Certainty:
        """The weakest of those about the first VPN that more slices of the same kind make surer."""
        return min((self.best, self.carries), key=WEAKEST.index)

    def at_most(self, word: Certainty) -> Certainties:
        """These, none of them stronger than ``word``."""
        weaker = {name: min((each, word), key=WEAKEST.index) for name, each in dict(self).items()}
        return Certainties.model_validate(weaker)

    @property
    def word(self) -> Certainty:
        """The weakest of all about the first VPN: the word of a sentence on it. That others are as good has a word of
        its own."""
        return min((self.of_slices, self.steady), key=WEAKEST.index)


class Answer(Strict):
    """The answer for ``needs``. ``named``: the VPNs that are equally good, the first one to take, or, where the best is
    open, those between which it is not decided; empty where no VPN fulfils the musts and was measured. ``chance``: that
    of the first. ``certainty``: the weakest of the ``certainties`` about the first; where it does not carry the line,
    that it does not. ``grade``: of the first; SHORT: it comes nearest, and does not carry the line. ``unknown``: the
    VPNs that have the musts, and of which what counts was not measured."""

    needs: Needs
    named: list[str]
    certainties: Certainties = Certainties()
    certainty: Certainty
    grade: int
    candidates: list[Candidate]
    unknown: list[str] = []

    def candidate_of(self, vpn: str) -> Candidate:
        """The candidate of this name."""
        return next(candidate for candidate in self.candidates if candidate.vpn == vpn)


class Band(Strict):
    """The lines of RATES_BPS, from ``low_bps`` to ``high_bps``, for which the same VPNs are named, at the same grade
    and with the same word, ``certainty``. ``equal``: that these are equally good, on each of these lines.
    ``reservations``: about the first, on the highest of these lines; ``here_bps``, ``most_bps``: what it carries (see
    Candidate), and of a path; ``unknown``: see Answer, of the lowest of these lines."""

    low_bps: float
    high_bps: float
    named: list[str]
    grade: int
    certainty: Certainty = "open"
    equal: Certainty = "open"
    reservations: list[Criterion] = []
    here_bps: float | None = None
    most_bps: float | None = None
    path_share: float | None = None
    path_share_down: float | None = None
    unknown: list[str] = []


class Change(Strict):
    """What would change the answer: another ``line_bps``, a path that is known to lose ``path_loss_ratio``, one more
    must, or one fewer (``without``); ``named`` then, and the first one's ``grade`` and ``reservations``."""

    line_bps: float | None = None
    path_loss_ratio: float | None = None
    must: Must | None = None
    without: Must | None = None
    named: list[str]
    grade: int
    reservations: list[Criterion] = []
