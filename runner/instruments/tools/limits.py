"""What limits a throughput: every machine of the lab is read before and after the traffic that is measured.

In rounds only every third slice of a trial has readings around it, outside of its marks.
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
NEAR = 0.1  # of the throughput: what was offered beyond that says little of what limits it
MOST_LOST = 0.5  # of what was sent: where more was lost, the little that came through does not tell what a byte costs

FEW = 0.1  # fragments a packet: on a gateway that is a machine of its own, other programs may make some

Readings = Mapping[str, Reading]


@dataclass
class Piece:
    """A piece of traffic. ``carried_bytes``: payload that has come through in all of it (of a packet rate the whole
    packets), 0 where nobody says so or most was lost."""

    rate_bps: float
    carried_bytes: float = 0.0

    def note_carried(self, received_bytes: float, sent_bytes: float) -> None:
        """Note how much came through of what was sent."""
        self.carried_bytes = received_bytes if received_bytes >= (1 - MOST_LOST) * sent_bytes else 0.0


class Limits:
    """What the machines of a tunnel's lab were busy with, in some of the slices of a trial."""

    def __init__(self) -> None:
        self._slices = 0
        self._watched: list[tuple[Piece, Readings, Readings]] = []  # what, before, after

    @contextmanager
    def slice(self, bench: Bench, rate_bps: float = 0.0) -> Iterator[Piece]:
        """A slice of the trial, offered at ``rate_bps`` if at one: the first, the fourth and so on are watched."""
        self._slices += 1
        if self._slices % EVERY == 1:
            with self.watch(bench, rate_bps) as piece:
                yield piece
        else:
            yield Piece(rate_bps)

    @contextmanager
    def watch(self, bench: Bench, rate_bps: float = 0.0) -> Iterator[Piece]:
        """Traffic around which the machines are read. What cannot be read is left out: the measurement stands."""
        lab, before, piece = bench.lab, _read(bench), Piece(rate_bps)
        yield piece
        if before is not None and bench.lab is lab and (after := _read(bench)) is not None:
            self._watched.append((piece, before, after))

    def add_loads(self, bench: Bench, measured: Measured) -> Measured:
        """``measured`` of TCP with what the machines were busy with; and with a warning where its packets travelled in
        fragments, which names the MTU that fits."""
        measured.loads = self.machine_loads()
        packets = sum(piece.carried_bytes for piece, _, _ in self._watched) / PACKET_BYTES
        if self._fragments([site.name for site in bench.lab.sites]) > FEW * packets:
            with suppress(MeasurementError, CommandError):  # what cannot be asked is left out: the measurement stands
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
        """The load of each machine so far; empty where it could not be read. Only readings during which most came
        through count, if there are any; with ``rate_bps``, of these only those at about that rate, if there are any."""
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
    except (MeasurementError, CommandError, OSError, ValueError):  # ValueError: a kernel that tells it in other words
        with suppress(MeasurementError, CommandError, OSError):
            bench.forget("loads")
        return None
    return readings
