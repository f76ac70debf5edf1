"""Decides which machine measures which block: a free machine gets the next one, and a block that broke goes elsewhere.

Nothing here knows of Dask: `Workers` carry the jobs and the answers. Why Dask does not decide: decision 0115.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Protocol

from pydantic import ValidationError

from runner.data.trials import Machine
from runner.farm import block
from runner.farm.block import BlockError, Introduction

MOST_BREAKS = 2  # of a machine, then it is left out
MOST_TRIES = 3  # of a block, on different machines where there are as many; then it is given up
GATHER_S = 30.0  # in which the first machines say what they are
LOOK_S = 1.0  # how often it is looked who is there
SLACK_S = 90.0  # which an answer may take beyond the block's own time


class SchedulerLost(Exception):
    """The scheduler does not answer, or is another one: the jobs given out are lost, and no worker is to blame."""


@dataclass(frozen=True)
class JobResult:
    """The end of a job. ``lost``: it was cancelled with its scheduler; ``error``: what the worker raised."""

    job: object
    result: Any = None
    error: str = ""
    lost: bool = False


class Workers(Protocol):
    """Carries jobs to machines, and their answers back."""

    def addresses(self) -> set[str]:
        """The addresses of the workers that are connected. Raises SchedulerLost."""

    def start(self, address: str, work: Callable[..., Any], *args: Any, lab: bool) -> object:
        """Give a worker a job, and return it. ``lab``: the job takes the machine's lab. Raises SchedulerLost."""

    def answers(self, within_s: float) -> list[JobResult]:
        """The answers that have come. Where there is none, wait for one for up to ``within_s`` seconds."""

    def cancel(self, job: object) -> None:
        """Cancel this job: nobody waits for it any more."""

    def reconnect(self) -> None:
        """Wait for the scheduler to come back. Raises LabError where it does not."""


@dataclass
class _Hand:
    """A worker, and what it does: it introduces itself, waits until it is admitted, or measures a block until some
    time."""

    address: str
    name: str = ""
    introduction: Introduction | None = None  # of one that is not admitted yet
    admitted: bool = False
    kind: str = ""
    has: set[int] = field(default_factory=set)  # blocks in its spool
    job: object = None
    block: int | None = None
    until: float = 0.0
    stored: list[int] = field(default_factory=list)


@dataclass
class Coordinator:
    """Spreads the blocks ``todo`` of the run whose key is ``run``.

    ``admit`` gets a name, what that machine is and its images, and says why it may not take part, or ""; ``keep`` puts
    a block's answer into the run folder, and raises BlockError where it is not one; ``note`` writes down who gets no
    blocks, and why. ``shared``: how many blocks of each kind of machine the folder has, where kinds are to have equally
    many; None where each machine that is free gets the next. ``again``: blocks that the folder has and that are to be
    measured once more, each with the begin of one of its trials.
    """

    workers: Workers
    run: str
    images: Sequence[str]
    request: Mapping[str, Any]
    todo: list[int]
    timeout_s: float
    admit: Callable[[str, Machine, Mapping[str, Any]], str]
    keep: Callable[[int, str, object], None]
    say: Callable[[str], None]
    choose: Callable[[Sequence[Machine]], None] | None = None  # what all must be like, from the first ones
    note: Callable[[str, str], None] = lambda name, why: None  # "": it is asked again
    shared: Counter[str] | None = None
    again: Mapping[int, str] = field(default_factory=dict)
    patience_s: float = 120.0  # without any machine
    introduce: Callable[..., dict[str, Any]] = block.introduce
    play: Callable[..., bytes] = block.play
    left_out: dict[str, str] = field(default_factory=dict)  # machine -> why
    given_up: dict[int, str] = field(default_factory=dict)  # block -> why
    _hands: dict[str, _Hand] = field(default_factory=dict)
    _twins: set[str] = field(default_factory=set)  # addresses of those whose machine has another worker
    _breaks: Counter[str] = field(default_factory=Counter)
    _broke_on: dict[int, list[str]] = field(default_factory=dict)  # block -> the machines, one for each try
    _looked: float = -LOOK_S

    def spread(self) -> str:
        """Have all blocks measured. Returns why it ended before that, or "". Raises LabError where the scheduler does
        not come back, and OSError where the run folder cannot be written."""
        began = last_seen = time.monotonic()
        while self.todo or any(hand.block is not None for hand in self._hands.values()):
            try:
                self._turn(time.monotonic() - began)
            except SchedulerLost:
                self._lose_all()
                self.workers.reconnect()
                began = last_seen = time.monotonic()
            if any(hand.admitted or hand.job is not None for hand in self._hands.values()):
                last_seen = time.monotonic()
            elif time.monotonic() - last_seen > self.patience_s:
                return self._nobody()
        return "; ".join(f"block {number} was given up: {why}" for number, why in self.given_up.items())

    def _turn(self, since_s: float) -> None:
        """See which workers are connected, give blocks to the free ones, and handle the answers."""
        now = time.monotonic()
        if now - self._looked >= LOOK_S:
            self._looked = now
            self._look()
        self._admit(since_s)
        self._give()
        for answer in self.workers.answers(LOOK_S):
            self._hear(answer)
        self._give_up_late()

    def _nobody(self) -> str:
        who = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
        return f"no machine is left ({who})" if who else f"no worker came within {self.patience_s:.0f} s"

    # --- Who is there ------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        there = self.workers.addresses()
        for hand in [hand for hand in self._hands.values() if hand.address not in there]:
            if hand.block is not None:
                self._broke(hand, "its worker died or did not answer", gone=True)
            self._rest(hand)
            del self._hands[hand.address]
        for address in sorted(there - self._hands.keys()):
            self._hands[address] = hand = _Hand(address)
            self._ask(hand)

    def _ask(self, hand: _Hand) -> None:
        """Ask a worker to introduce itself. It gets no block before it has answered."""
        hand.admitted, hand.block = False, None
        hand.job = self.workers.start(
            hand.address, self.introduce, self.run, list(self.images), dict(self.again), lab=False
        )

    def _rest(self, hand: _Hand) -> None:
        """Cancel the worker's job; it has no block any more."""
        if hand.job is not None:
            self.workers.cancel(hand.job)
        hand.job, hand.block = None, None

    def _lose_all(self) -> None:
        """Take back all jobs, which are lost with the scheduler. All workers are asked again."""
        self.say("The scheduler does not answer. vpneval waits for it; what is finished stays on the machines.")
        self.todo[:0] = [hand.block for hand in self._hands.values() if hand.block is not None]
        for hand in self._hands.values():
            self._rest(hand)
        for address in self._twins:
            self.note(address, "")
        self._hands.clear()
        self._twins.clear()

    def _admit(self, waited_s: float) -> None:
        """Admit or refuse the machines that have introduced themselves. The first ones are judged together, because
        what most of them have in common decides."""
        met = [(hand, hand.introduction) for hand in self._hands.values() if hand.introduction]
        if waited_s < GATHER_S and any(not hand.name for hand in self._hands.values()):
            return  # who has not answered yet may have some of the blocks
        if met and self.choose:
            self.choose([introduction.machine for _, introduction in met])
            self.choose = None
        for hand, introduction in met:
            self._admit_one(hand, introduction)

    def _admit_one(self, hand: _Hand, introduction: Introduction) -> None:
        """Admit or refuse a machine. A second worker of one, such as the new one after a restart, waits until the
        scheduler forgets the other."""
        if any(other.admitted and other.name == hand.name for other in self._hands.values()):
            if hand.address not in self._twins:
                self._twins.add(hand.address)
                why = f"the machine {hand.name} has another worker already, and one lab at a time"
                self.note(hand.address, why)
                self.say(f"{hand.address} gets no blocks: {why}")
            return
        if hand.address in self._twins:
            self._twins.discard(hand.address)
            self.note(hand.address, "")
        hand.introduction = None
        if hand.name in self.left_out:
            return
        if why := self.admit(hand.name, introduction.machine, introduction.images):
            self._leave_out(hand.name, why)
            self.say(f"{hand.name} is refused: {why}")
        else:
            hand.admitted, hand.has, hand.kind = True, set(introduction.has), introduction.machine.kind

    # --- Blocks ------------------------------------------------------------------------------------------------------

    def _give(self) -> None:
        left = self._left_of_kinds()
        for hand in self._hands.values():
            if not hand.admitted or hand.job is not None:
                continue
            if left is not None and left[hand.kind] <= 0 and hand.has.isdisjoint(self.todo):
                continue
            if (number := self._next(hand)) is None:
                continue
            if left is not None:
                left[hand.kind] -= 1
            self.todo.remove(number)
            hand.block, hand.until = number, time.monotonic() + self.timeout_s + SLACK_S
            job = (self.run, number, dict(self.request), self.timeout_s, hand.stored)
            hand.stored = []
            hand.job = self.workers.start(hand.address, self.play, *job, lab=True)

    def _left_of_kinds(self) -> Counter[str] | None:
        """Kind of machine -> how many more blocks it gets, where the kinds of the connected machines share the
        blocks."""
        if self.shared is None:
            return None
        kinds = {hand.kind for hand in self._hands.values() if hand.admitted}
        have = Counter(hand.kind for hand in self._hands.values() if hand.block is not None) + self.shared
        share = math.ceil((len(self.todo) + sum(have[kind] for kind in kinds)) / max(1, len(kinds)))
        return Counter({kind: share - have[kind] for kind in kinds})

    def _next(self, hand: _Hand) -> int | None:
        """The block for this machine: one that it has, else the first one that no other machine has. A block that broke
        here comes last, and only if no other machine can try it."""
        others = [other for other in self._hands.values() if other is not hand]
        elsewhere = set[int]().union(*(other.has for other in others if other.has))
        # Where kinds share the blocks, only one of the same kind can try it.
        names = {other.name for other in others if other.admitted and (self.shared is None or other.kind == hand.kind)}
        tried = self._broke_on.get
        own = (number for number in self.todo if number in hand.has)
        free = (number for number in self.todo if number not in elsewhere and hand.name not in tried(number, ()))
        last = (number for number in self.todo if number not in elsewhere and names.issubset(tried(number, ())))
        return next(chain(own if hand.has else (), free, last), None)

    def _hear(self, answer: JobResult) -> None:
        hand = next((hand for hand in self._hands.values() if hand.job == answer.job), None)
        if hand is None:
            return  # given up before it came
        number, hand.job, hand.block = hand.block, None, None
        if answer.lost:
            if number is not None:
                self.todo.insert(0, number)
            self._hands.pop(hand.address, None)  # it is asked again
        elif number is None:
            self._meet(hand, answer)
        elif answer.error:
            hand.block = number
            self._broke(hand, answer.error)
        else:
            self._came(hand, number, answer.result)

    def _meet(self, hand: _Hand, answer: JobResult) -> None:
        why = answer.error
        try:
            introduction = None if why else Introduction.model_validate(answer.result)
        except ValidationError as wrong:
            first = wrong.errors()[0]
            place = ".".join(map(str, first["loc"])) or "its introduction"
            introduction, why = None, f"{place} is {first['input']!r:.80}, which no vpneval says: {first['msg']}"
        if introduction is None:
            hand.name = hand.address
            self._leave_out(hand.address, why)
            self.say(f"{hand.address} is refused: {why}")
            return
        hand.name, hand.introduction = introduction.name, introduction

    def _came(self, hand: _Hand, number: int, packed: object) -> None:
        try:
            self.keep(number, hand.name, packed)
        except BlockError as wrong:
            hand.block = number
            self._broke(hand, str(wrong))
            hand.stored.append(number)  # it would give the same again
        else:
            hand.has.discard(number)
            hand.stored.append(number)
            if self.shared is not None:
                self.shared[hand.kind] += 1
            left = len(self.todo) + sum(other.block is not None for other in self._hands.values())
            self.say(f"block {number} came from {hand.name} and is stored; {left} are left")

    def _give_up_late(self) -> None:
        now = time.monotonic()
        for hand in list(self._hands.values()):
            if hand.block is not None and now > hand.until:
                self._broke(hand, f"no answer within {self.timeout_s + SLACK_S:.0f} s")

    def _broke(self, hand: _Hand, why: str, *, gone: bool = False) -> None:
        """Give the worker's block to another machine. The worker gets its next block when it answers again, or is left
        out."""
        number = hand.block
        assert number is not None
        self._rest(hand)
        hand.has.discard(number)
        self._breaks[hand.name] += 1
        tried = self._broke_on.setdefault(number, [])
        tried.append(hand.name)
        self.say(f"block {number} came to nothing on {hand.name}: {why}")
        if len(tried) < MOST_TRIES:
            self.todo.insert(0, number)
        else:
            machines = sorted(set(tried))
            fewer = f"{MOST_TRIES} times on {' and '.join(machines)}"
            where = f"on {MOST_TRIES} machines" if len(machines) == MOST_TRIES else fewer
            self.given_up[number] = f"it broke {where}, the last time on {hand.name}: {why}"
        if self._breaks[hand.name] >= MOST_BREAKS:
            self._leave_out(hand.name, f"broke {MOST_BREAKS} times, the last time: {why}")
            hand.admitted, hand.has = False, set()
            self.say(f"{hand.name} is left out from now on: it broke {MOST_BREAKS} times")
        elif not gone:
            self._ask(hand)

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        self.note(name, why)
