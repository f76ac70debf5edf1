"""What an instrument is: one object in one file, which measures one thing through a tunnel that is up.

A measurement is a sequence of slices. ``measure`` is a generator: it yields after each short piece of work with what
that piece found, goes on when it is told to, and returns the result. Whoever drives it decides what comes next, and
an instrument never asks what else is measured. A measurement that cannot be cut is a ``Whole`` and yields once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.data.trials import Position, Trial
from runner.design.profile import Profile
from runner.instruments.result import Measured
from runner.lab.places import Rig
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

Found = Mapping[str, float]  # what a slice found: names that end in a unit -> numbers


class Go(Enum):
    """What a measurement is told after each of its slices."""

    ON = "on"
    END = "end"  # return what you have, or raise MeasurementError where that is no result


Measuring = Generator[Found, Go, Measured]
MadeOf = tuple[Image, Image, Callable[[str], object], Path]  # a lab: its image, the gateways', its log and its logs


@dataclass(frozen=True)
class Asked:
    """One trial: the VPN, the levels of all its factors, how long and how finely, and where a search may start.

    ``known_bps`` is where an earlier repetition's search ended, None where there was none. ``memory`` is the cell's
    own, for as long as a call of the program takes: what one repetition has learnt, the next one may use. ``wanted``:
    the metrics that its experiments ask for; none where nobody says so.
    """

    vpn: Vpn
    params: Mapping[str, str]
    profile: Profile
    seed: int
    known_bps: float | None = None
    memory: dict[str, Any] = field(default_factory=dict)
    wanted: Collection[str] = ()

    def wants(self, metric: str) -> bool:
        """Does an experiment ask for this metric?"""
        return not self.wanted or metric in self.wanted


class Instrument(ABC):
    """One instrument. Subclass it in a file of its own, or subclass ``Whole`` where a measurement cannot be cut."""

    name: ClassVar[str]  # its level of the factor ``measure``
    factors: ClassVar[Mapping[str, Levels]] = {}  # its own factors
    metrics: ClassVar[tuple[Metric, ...]]  # what it may give; a trial need not have all of them
    retired: ClassVar[tuple[Metric, ...]] = ()  # what it gave in older runs, of which reports must know all the same
    inner_ipv6: ClassVar[bool] = False  # can it send between the sites' IPv6 addresses?
    datagrams: ClassVar[bool] = False  # does it send datagrams, which a VPN that carries TCP only cannot take?
    every: ClassVar[int] = 1  # in rounds: it has a turn in every round, or in every third, say
    turns: ClassVar[int] = 1  # in such a round: short visits at several moments tell more than a long one
    full_load: ClassVar[bool] = False  # does it fill the tunnel, so that a slow clock means a throttled machine?
    needs_tunnel: ClassVar[bool] = True  # or does it count what a plugin writes down, whatever this machine can run?
    spends_tunnel: ClassVar[bool] = False  # is there no usable tunnel afterwards?
    finds_plaintext: ClassVar[bool] = False  # does it judge plaintext on the WAN itself, in place of the proof?

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        """Is it measured in rounds at these levels, a slice a round, until it is told to end? The values that its
        slices have under a metric's name are that metric's samples."""
        return False

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        """Why these levels cannot be measured in this lab, or with this VPN; None where they can."""
        if self.datagrams and vpn.carries == "tcp":
            return Unsupported(f"{vpn.title} carries TCP only", cause="tcp only")
        return None

    def labs(self, params: Mapping[str, str]) -> int:
        """How many labs with a tunnel a trial has up at once, its own among them: so many open files it needs."""
        return 1

    @abstractmethod
    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        """How long one trial will take, seconds. ``first``: is nothing known yet from an earlier repetition?"""

    @abstractmethod
    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        """Measure one trial, slice after slice. Cleans up when it is closed early.

        Raises MeasurementError, CommandError or TimeoutError where there is no number to report, and TooLongError
        where packets do not fit the tunnel.
        """

    def known_bps(self, trial: Trial) -> float | None:
        """Where the search of the next repetition should start, bit/s, by an earlier one that is ok. None: anywhere."""
        return None

    @contextmanager
    def lab(self, rig: Rig, vpn: Vpn, params: Mapping[str, str], *made_of: *MadeOf) -> Iterator[Lab]:
        """The lab of its trials, gone when the block ends: the rig's own, unless these levels need another."""
        with rig.lab(*made_of) as lab:
            yield lab

    def own_wan(self, params: Mapping[str, str]) -> bool:
        """Does ``lab`` make a WAN of another shape, whose conditions cannot be set?"""
        return False

    def openssl_cipher(self, params: Mapping[str, str]) -> str:
        """The cipher with which OpenSSL encrypts what these levels measure, whatever the VPN; "" where none does. Then
        the factor ``driver`` can be set."""
        return ""

    def again(self, params: Mapping[str, str]) -> tuple[Position, ...]:
        """Where in a block these levels are measured over plain IP once more (``between``, ``last``), so that a drift
        of the machine shows."""
        return ()

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        """What these levels ask of a plugin beside cipher, integrity and compression: more of its ``params``."""
        return {}


class Whole(Instrument):
    """An instrument whose measurement cannot be cut: one slice, which is all of it."""

    @abstractmethod
    def once(self, bench: Bench, asked: Asked) -> Measured:
        """Measure one trial. Raises as ``measure`` does."""

    def measure(self, bench: Bench, asked: Asked) -> Measuring:
        return (yield from whole(self.once(bench, asked)))


def whole(measured: Measured) -> Measuring:
    """A measurement that could not be cut, as a single slice."""
    yield {value.metric: value.value for value in measured.measurements}
    return measured


def play(measuring: Measuring, keep: Callable[[Found], object]) -> Measured:
    """Drive one measurement from its beginning to its end, and hand each slice to ``keep``.

    Raises what ``measuring`` and ``keep`` raise, and MeasurementError where ``measure`` is no generator.
    """
    if not isinstance(measuring, Generator):
        raise MeasurementError(
            "measure() is not a generator: it has no yield. For one that measures in one piece, see Whole"
        )
    try:
        readings = next(measuring)
        while True:
            keep(readings)
            readings = measuring.send(Go.ON)
    except StopIteration as end:
        measured: Measured = end.value
        return measured
    finally:
        measuring.close()


def at_once(measuring: Measuring) -> Measured:
    """Drive one measurement from its beginning to its end, and keep no slice."""
    return play(measuring, lambda readings: None)
