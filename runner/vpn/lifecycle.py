"""What becomes of a tunnel that stands: new keys, timers that notice a dead peer, a second gateway that takes over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from runner.data.errors import MeasurementError
from runner.lab.node import Node
from runner.lab.shape.site import Site, higher_numbered


def _no_command(node: Node, peers: Sequence[Site], what: str) -> None:
    raise MeasurementError(f"the plugin does not say which command renews the keys ({what}): its Rekeying has no renew")


def _no_clock(node: Node, peers: Sequence[Site]) -> str:
    raise MeasurementError(
        "the plugin does not say what a rekey by a timer writes into the log: its Rekeying has no mark"
    )


@dataclass(frozen=True)
class Rekeying:
    """How keys are renewed.

    ``ways``: on command (esp, the data's keys; ike), every ``params["rekey_every_s"]`` by an option (clock), or by a
    clock of the protocol that no option changes (protocol). ``renew(node, peers, what)``: ask for new keys ``what``
    (esp or ike), and return when they are new; raises TimeoutError where they stay the old ones. ``mark(node, peers)``:
    a text that changes whenever a clock has renewed keys.
    """

    ways: tuple[str, ...] = ()
    renew: Callable[[Node, Sequence[Site], str], None] = _no_command
    mark: Callable[[Node, Sequence[Site]], str] = _no_clock


def log_mark(log: str, words: str) -> Callable[[Node, Sequence[Site]], str]:
    """A ``mark``: how often ``words`` are in the log (``{}`` is the peer's name), to which each rekey adds them."""

    def mark(node: Node, peers: Sequence[Site]) -> str:
        return str(sum(node.read_log(log.format(peer.name)).count(words) for peer in peers))

    return mark


@dataclass(frozen=True)
class Timer:
    """A timer that decides how long a VPN stays dead: its lines as they stand in the files of a gateway (or in words,
    where it is fixed or a default), who says so, and at which gateway it counts."""

    lines: str
    source: str
    at: Literal["both", "dialing", "answering"] = "both"


@dataclass(frozen=True)
class HandOver:
    """How a gateway hands the tunnel's state over to a second one, which goes on with it instead of negotiating.

    ``files(own address, the other's, preferred, heartbeat_s, dead_after_s)``: path -> text of a gateway's files for it,
    "#!" a script. Shell commands, in which ``{peer.name}`` is the far site's: ``active`` takes the state over,
    ``passive`` lets it go, ``renew`` asks for new keys, ``take`` makes the active gateway responsible, ``again`` sends
    all state once more. ``has_state``: has a gateway that stands by all of it? ``port``: UDP, of the heartbeats.
    ``phase_s``: the period of what the daemons do by themselves, so that failures are caused in every phase of it.
    """

    files: Callable[[str, str, bool, float, float], dict[str, str]]
    active: str
    passive: str
    renew: str
    take: str
    again: str
    has_state: Callable[[Node], bool]
    port: int
    phase_s: float


@dataclass(frozen=True)
class Standby:
    """How a tunnel moves to a second gateway that has the same files.

    Shell commands, in which ``{peer.name}`` and ``{peer.lan}`` are those of the far site: ``active`` brings the tunnel
    up, ``passive`` takes it down, ``alive`` asks whether the daemon lives; ``{active}`` in it is a file that the
    active gateway has. ``prepare``: do everything on the second gateway up to ``active``. ``daemon``: is there one that
    could die? ``hand_over``: None where the second gateway has to negotiate anew.
    """

    active: str
    passive: str
    alive: str
    prepare: Callable[[Node], None] = lambda node: None
    daemon: bool = True
    hand_over: HandOver | None = None


@dataclass(frozen=True)
class Lifecycle:
    """What instruments ask of a tunnel that stands; empty where a VPN has nothing of it, None where it cannot move."""

    rekeying: Rekeying = Rekeying()
    timers: tuple[Timer, ...] = ()
    standby: Standby | None = None

    def timers_at(self, me: Site, peers: Sequence[Site]) -> list[str]:
        """What decides at gateway ``me`` how long the tunnel stays dead, each with its source."""
        here = "dialing" if higher_numbered(me, peers) else "answering"
        return [f"{timer.lines} ({timer.source})" for timer in self.timers if timer.at in ("both", here)]
