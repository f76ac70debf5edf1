"""Finds what limits a throughput: reads the load of every machine of the lab before and after the measured traffic.

In rounds, only every third slice of a trial is read. The readings are outside of the measured time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass

from runner.data.errors import CommandError, MeasurementError
from runner.data.loads import MachineLoad
from runner.instruments.result import Measured
from runner.instruments.tools.cost import PACKET_BYTES
from runner.instruments.tools.fragments import fits
from runner.lab.readings.loads import LoadWatch, Reading, reading
from runner.tunnel.bring_up import Bench

EVERY = 3  # slices
NEAR = 0.1  # of the throughput: loads at a rate further away say little about what limits it
MOST_LOST = 0.5  # of what was sent: if more was lost, the rest does not show what a byte costs

FEW = 0.1  # fragments a packet: on a machine of its own, other programs may make some, too

Readings = Mapping[str, Reading]


@dataclass
class Piece:
    """A piece of traffic. ``carried_bytes``: the payload that came through (of a packet rate: whole packets); 0 if
    that is not known, or if most was lost."""

    rate_bps: float
    carried_bytes: float = 0.0

    def note_carried(self, received_bytes: float, sent_bytes: float) -> None:
        """Note how much came through of what was sent."""
        self.carried_bytes = received_bytes if received_bytes >= (1 - MOST_LOST) * sent_bytes else 0.0


class Limits:
    """The loads of the machines of a tunnel's lab in some slices of a trial."""

    def __init__(self) -> None:
        self._slices = 0
        self._watched: list[tuple[Piece, Readings, Readings]] = []  # what, before, after

    @contextmanager
    def slice(self, bench: Bench, rate_bps: float = 0.0) -> Iterator[Piece]:
        """A slice of the trial; the first, the fourth and so on are watched. ``rate_bps``: the offered rate, if any."""
        self._slices += 1
        if self._slices % EVERY == 1:
            with self.watch(bench, rate_bps) as piece:
                yield piece
        else:
            yield Piece(rate_bps)

    @contextmanager
    def watch(self, bench: Bench, rate_bps: float = 0.0) -> Iterator[Piece]:
        """Read the machines before and after the traffic in this block. If they cannot be read, only the load is
        missing: the measurement is still good."""
        lab, before, piece = bench.lab, _read(bench), Piece(rate_bps)
        yield piece
        if before is not None and bench.lab is lab and (after := _read(bench)) is not None:
            self._watched.append((piece, before, after))

    def add_loads(self, bench: Bench, measured: Measured) -> Measured:
        """Add the machines' loads to a measurement of TCP, and a warning with the MTU that fits, if its packets were
        fragmented. Returns ``measured``."""
        measured.loads = self.machine_loads()
        packets = sum(piece.carried_bytes for piece, _, _ in self._watched) / PACKET_BYTES
        if self._fragments([site.name for site in bench.lab.sites]) > FEW * packets:
            with suppress(MeasurementError, CommandError):  # without an answer the warning is left out
                why = bench.get_shared("fits", lambda: nullcontext(fits(bench)))
                measured.warnings += [why] if why else []
        return measured

    def _fragments(self, gateways: Sequence[str]) -> int:
        """How many fragments these gateways have made."""
        made = 0
        for _, before, after in self._watched:
            for name, machine in after.items():
                then, now = before[name]["fragments"], machine["fragments"]
                made += sum(now[node] - then[node] for node in gateways if node in now)
        return made

    def machine_loads(self, rate_bps: float | None = None) -> list[MachineLoad]:
        """The load of each machine so far; empty if none could be read. Uses the readings during which most of the
        traffic came through, or all if there are none. With ``rate_bps``: those near that rate, if there are any."""
        watch = LoadWatch()
        carrying = [entry for entry in self._watched if entry[0].carried_bytes] or self._watched
        near = [entry for entry in carrying if rate_bps and abs(entry[0].rate_bps / rate_bps - 1) <= NEAR]
        for piece, before, after in near or carrying:
            watch.add(before, after, piece.carried_bytes)
        return watch.machine_loads()


def _read(bench: Bench) -> Readings | None:
    try:
        read = bench.get_shared("loads", lambda: reading(bench.lab))
        readings: Readings = read()
    except (MeasurementError, CommandError, OSError, ValueError):  # ValueError: a kernel with another format
        with suppress(MeasurementError, CommandError, OSError):
            bench.forget("loads")
        return None
    return readings
