"""What a question is: which cells of a run go on until it has its answer, what is measured in the time that is left
then, and what the answer is, in words.

A file or folder of questions/ holds one. What it finds is data, its judgement; only ``say`` makes words of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from runner.data.asked import AskedRun
from runner.data.kinds import Strict
from runner.data.needs import Needs
from runner.data.trials import Cell, Run, Trial, VpnRecord
from runner.design.blocks import Block, Check, Heading
from runner.ranking.model import Weights

Judgement = TypeVar("Judgement", bound=Strict)


@dataclass(frozen=True)
class Evidence:
    """What a question is answered from: a run and its trials. ``weights``: those that were asked for. ``share``: how
    much of the time is over of a run that goes on, from 0 to 1; None: it has ended. ``after``: a later run with its
    trials, which this one is compared with. ``configurations``: the names of those to rank; None: all in which
    something was measured. ``led``: another question's answer comes first in the report."""

    run: Run
    trials: Sequence[Trial]
    weights: Weights | None = None
    share: float | None = None
    after: tuple[Run, Sequence[Trial]] | None = None
    configurations: Sequence[str] | None = None
    led: bool = False


class Going(NamedTuple):
    """What a question says to a run that goes on. ``cells``: those that go on; ``undecided``: what has no sure answer
    yet, a name each; ``twice``: the keys of the cells that have twice their turns; ``first``: those that nothing is
    said without: they have a turn in each of the ``first_rounds`` of a tunnel. ``tests_pairs``: this look costs all
    verdicts some of their level."""

    cells: Sequence[Cell]
    undecided: Sequence[str]
    twice: Collection[str] = frozenset()
    first: Collection[str] = frozenset()
    first_rounds: int = 0
    tests_pairs: bool = True


@dataclass(frozen=True)
class Step:
    """What to measure in the time that is left. ``experiment``: of it the measurements that have the levels ``only``;
    empty: what the run measures anyway. ``vpns``: those that it is about, the most important first; as many as have
    ``each_s`` seconds are measured, once, after one another. ``levels`` are set for it, ``wan`` is its path;
    ``duration_s``: how long what is no search lasts, where that is another than the run's. ``plain_s``: the time
    that plain IP beside them takes. ``kept``: it has the time that ``Question.kept_s`` keeps, too. ``words``: what the
    user is told, with the VPNs' names in place of ``{vpns}``."""

    words: str
    vpns: Sequence[str]
    each_s: float
    experiment: str = ""
    only: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    wan: Mapping[str, str] = field(default_factory=dict)
    duration_s: int | None = None
    plain_s: float | None = None
    kept: bool = False


class Left(NamedTuple):
    """What a run may use the rest of its time for. ``later``: VPNs that nobody named and that may come in;
    ``most_bps``: the highest rate that it may offer; ``own_lab``: its lab is on this machine's own kernel, so that it
    may attack tunnels."""

    later: Sequence[str] = ()
    most_bps: float = float("inf")
    own_lab: bool = False


class Next(NamedTuple):
    """What to do next: a word and a command; ``why``: what it is for, before the command."""

    word: str
    command: str
    why: str = ""


@dataclass(frozen=True)
class Said:
    """An answer in words. ``line``: in one line; ``brief``: what a terminal shows, and ``beside`` where it has room,
    or ``roomy`` in the place of both; ``tables``: what it shows with --full beside these; ``whole``: for what is read
    from the top, and ``below`` after the caveats; ``steps``: what to do next; ``sections``: by their names, of a report
    that the answer does not lead; ``checks``: by the names of their suites, what a CI shows as test cases;
    ``caveats``: what a reader must know before believing it; ``how``: how it was made. ``compares``: the metrics that
    it compares as a whole, so that it is told in the place of an experiment that asks for these alone, or where it was
    ``asked`` for; None: it is always told. ``headline``: the answer as the heading of a page; empty: ``line`` is it.
    ``order``: the VPNs, from the one that it names first."""

    line: str
    brief: Sequence[Block] = ()
    whole: Sequence[Block] = ()
    beside: Sequence[Block] = ()
    sections: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    steps: Sequence[Next] = ()
    checks: Mapping[str, Sequence[Check]] = field(default_factory=dict)
    roomy: Sequence[Block] = ()
    tables: Sequence[Block] = ()
    below: Sequence[Block] = ()
    caveats: Sequence[str] = ()
    how: Sequence[str] = ()
    compares: Collection[str] | None = None
    asked: bool = False
    headline: str = ""
    order: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """What a page says elsewhere. ``logs``: trial -> its folder of logs; ``colours``: VPN -> its colour; ``tables``: of
    each configuration that the run compares, metric -> the name of the table that lists its trials; ``order``: of the
    VPNs in the first answer."""

    logs: Mapping[str, str]
    colours: Mapping[str, str]
    tables: Sequence[Mapping[str, str]]
    order: Sequence[str] = ()


@dataclass(frozen=True)
class Card:
    """What a page shows of an answer in its first place. ``macros``: the template that draws it, in the question's
    ``folder``, with ``context``: its macros are ``contents``, ``answer`` (it gets the element of its
    headline, ``h1`` in the first place), ``sections`` behind it, and perhaps ``appendix``; ``scripts`` beside it answer
    anew for other needs, from ``data``; ``costs``: plots of what the VPNs cost."""

    folder: Path
    macros: str
    context: Mapping[str, Any]
    scripts: Sequence[str] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    costs: Sequence[Block] = ()


class Question(ABC, Generic[Judgement]):
    """A question that a run answers. ``name``: of its file; ``looks_at``: at which shares of a deadline's time its
    ``going`` is asked; ``tunnels``: of each VPN, one after another, that it needs at least; ``latecomers``: VPNs may
    come into a run that has others, and are compared with them; ``leads``: its answer comes first in a report."""

    name: str
    looks_at: Sequence[float]
    tunnels: int = 1
    latecomers: bool = False
    leads: bool = True

    def is_asked(self, instruments: Collection[str]) -> bool:
        """Is a run that measures with these instruments asked this question?"""
        return False

    def candidates(self, records: Mapping[str, VpnRecord], needs: Needs, *, tries: bool = False) -> Sequence[str]:
        """The VPNs, of these, that a run measures where its user names none, the likeliest first. ``tries``: the run
        may show what is not known of them."""
        return [*records]

    def more_traffic(self, asked: AskedRun) -> Sequence[Mapping[str, str]]:
        """What a run measures beside what its experiments do, with all levels, because its needs ask for it."""
        return ()

    @abstractmethod
    def judge(self, evidence: Evidence) -> Judgement:
        """What the run says: values, intervals, decisions, chances, reasons. It is data, and may be nothing yet."""

    @abstractmethod
    def going(self, evidence: Evidence, judgement: Judgement, cells: Sequence[Cell], left_s: float) -> Going:
        """Which of these cells go on, by what ``left_s`` seconds can decide."""

    @abstractmethod
    def longer_s(self, evidence: Evidence, judgement: Judgement) -> float | None:
        """For how many seconds a run should go on to have its answer; 0: it has it; None: nothing tells."""

    @abstractmethod
    def tell_open(self, evidence: Evidence, judgement: Judgement) -> str:
        """What has no sure answer yet, and how long that takes, or that everything has one, in a sentence."""

    def kept_s(self, asked: AskedRun, left_s: float) -> float:
        """How many of the seconds that are left are kept for steps at the run's end."""
        return 0.0

    def steps(self, evidence: Evidence, judgement: Judgement, left: Left) -> Iterable[Step]:
        """What the time that is left is used for, the most useful first."""
        return ()

    def plan(self, asked: AskedRun, left: Left) -> Sequence[str]:
        """Sentences on what such a run does beside the cells that it is asked for."""
        return ()

    @abstractmethod
    def say(self, judgement: Judgement, where: str) -> Said | None:
        """The answer in words; None where the run says nothing. ``where``: the run folder, as commands name it."""

    def card(self, judgement: Judgement, where: str, page: Page) -> Card | None:
        """The answer for a page, where it is drawn and not told."""
        return None

    def onepage(self, judgement: Judgement) -> Sequence[Block]:
        """The answer on one page, for a reader who was told nothing: sections, of which the first is headed by the
        answer."""
        said = self.say(judgement, "")
        return [Heading(said.headline or said.line), *said.brief, *said.beside] if said else []
