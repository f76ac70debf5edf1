"""Which VPN for the user's line: the answer, the bands of lines, what would change it, and what was not measured."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, InstanceOf

from runner.choice.device import Device
from runner.choice.machine import MachineState
from runner.choice.model import Answer, Band, Change, State, Word
from runner.data.kinds import Strict
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.scale import NoScale

# room: capacity over demand. carries: capacity, bit/s. cores: of a gateway at ``at_bps``. worst_second: share lost.
# gap, address, nat, restart: seconds. The others: counts, and bytes that are added to a packet.
Kind = Literal[
    "room",
    "carries",
    "cores",
    "worst_second",
    "gap",
    "address",
    "nat",
    "restart",
    "setup_commands",
    "setup_lines",
    "scaling_lines",
    "packet_bytes",
    "must",
]


class ComparedCell(Strict):
    """One VPN's ``value``, None where nobody measured it; ``at_least``: it is known from below only. Of a must, the
    ``word``. ``trial``: its id, empty where many trials tell it or none; ``run`` and ``day`` (ISO): of a shipped run,
    empty where it is this one; of what is only declared, ``day`` is the declaration's."""

    value: float | None = None
    at_least: bool = False
    word: Word | None = None
    trial: str = ""
    run: str = ""
    day: str = ""


class ComparedRow(Strict):
    """What is compared, with a cell for each VPN."""

    kind: Kind
    must: Must | None = None
    cells: list[ComparedCell]


class SideBySide(Strict):
    """The table. ``stated``: is ``at_bps`` the stated line? Else it is the highest usual one that all ``vpns`` carry,
    so that their cores are those of one rate."""

    vpns: list[str]
    at_bps: float
    stated: bool
    rows: list[ComparedRow]


class Kin(Strict):
    """A program that was measured, and a VPN that speaks the same protocol in the kernel and was not. ``lacks``: the
    musts that the latter does not have, as far as shipped runs and declarations tell."""

    vpn: str
    kernel: str
    lacks: list[Must] = []


class Choice(Strict):
    """The choice that a run allows. ``answer``: for the stated line, None where none is stated, or where the
    machine forbids one, and then no ``bands`` either; ``bands``: for every line; ``unsettled``: the asked lines
    that more of the same measurements would settle, bit/s; ``early``: nothing can be said yet, and the ladders of
    the first tunnels tell it soonest; ``states``: VPN -> must -> what is known of it; ``absent``: VPNs that were
    asked for and not measured here, the kernel's first; ``partly``: those of which datagrams could not be measured
    -> why; ``others``: VPNs that the run has not come to and that have the musts, as far as shipped runs and
    declarations tell; ``elsewhere``: those of them in the kernel, where this run has measured none in the kernel;
    ``kin``: of the programs that were measured; ``path_tcp_bps``: what one TCP connection carries on the bare path
    from gw1 and to it, where that does not fill it; ``machine``: what it did beside, which may forbid an answer;
    ``scale``: why data planes are not compared; ``fresh``: VPNs that have come in later and have no ladder yet;
    ``is_made``: a ladder was measured; ``beside``: what is known of the named VPNs, where they are two or more.
    ``devices`` are what all of it was made from, ``titles`` what the VPNs are called; they are not part of
    report.json."""

    needs: Needs
    answer: Answer | None = None
    bands: list[Band] = []
    changes: list[Change] = []
    unsettled: list[float]
    early: bool = False
    states: dict[str, dict[Must, State]] = {}
    absent: list[str] = []
    partly: dict[str, str] = {}
    others: list[str] = []
    elsewhere: list[str] = []
    kin: list[Kin] = []
    path_tcp_bps: list[float] = []
    machine: MachineState
    scale: NoScale | None = None
    beside: SideBySide | None = None
    fresh: list[str] = []
    is_made: bool = True
    devices: dict[str, InstanceOf[Device]] = Field(default={}, exclude=True)
    titles: dict[str, str] = Field(default={}, exclude=True)

    @property
    def named_vpns(self) -> set[str]:
        """The VPNs of the answer, or of all lines where none is stated."""
        return {*self.answer.named} if self.answer else {vpn for band in self.bands for vpn in band.named}
