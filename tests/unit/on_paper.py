"""Tunnels and labs on paper, for tests of the rounds in which trials take turns, with instruments that count.

No tunnel is brought up here. ``World`` keeps what every instrument did, and makes go wrong what a test wants to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from questions.rank import Rank
from runner import catalogue
from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.levels import AES_CBC, NO_CIPHER, Levels
from runner.data.metric import Metric
from runner.data.store import load_run, open_store
from runner.data.trials import Cell, Evidence, Proof, Trial
from runner.design.profile import PROFILES, Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured
from runner.sweep import tunnels
from runner.sweep.conductor import Conductor, Look
from runner.sweep.plan import PlannedTunnel
from runner.sweep.settings import Outcome, Stage
from runner.tunnel.bring_up import Tunnel
from tests.unit.asking import made_up
from tests.unit.helpers import PaperLab
from tests.unit.instruments.test_own_instrument import Watcher
from tests.unit.synthetic import make_run

EVIDENCE = Evidence(cipher="none", integrity="none", compression="off", data_path="paper", version="1")
PROOF = Proof(confidential_promised=False, delivered=True, marker_on_wan=False, sent_bytes=1, captured_bytes=1)
SLICE_S, BRING_UP_S = 0.25, 1.0
OTHER_CIPHER = {**AES_CBC, "cipher": "3des-cbc"}
METRIC = Metric(name="counted_ms", title="Counted", unit="ms", better="lower", definition="It counts.", source="none")


class Paper:
    """In the place of a bench: a tunnel on paper that can break, and be made anew."""

    def __init__(self, world: World, planned: PlannedTunnel) -> None:
        self.world, self.name, self.works = world, planned.vpn, True
        self.lost = ""
        self.lab = PaperLab({"gw1": SimpleNamespace(why_ended=lambda: self.lost)})
        self.tunnel = Tunnel("10.2.0.2", 0.1, EVIDENCE, PROOF)

    def carries_payload(self) -> bool:
        return self.works

    def renew(self) -> None:
        self.world.renewed.append(self.name)
        self.world.now += BRING_UP_S
        if error := self.world.not_again.get(self.name):
            raise error
        self.works = True


class Lane:
    """In the place of a builder."""

    world: World

    def __init__(self, vpn: Any, planned: PlannedTunnel, *_: object) -> None:
        self.planned = planned

    def __enter__(self) -> Lane:
        self.world.standing += [self.planned.vpn]
        return self

    def __exit__(self, *_: object) -> None:
        self.world.standing.remove(self.planned.vpn)

    def bench(self) -> Paper:
        self.world.now += BRING_UP_S
        self.world.brought_up[self.planned.vpn] += 1
        if error := self.world.not_at_first.pop(self.planned.vpn, None) or self.world.never_up.get(self.planned.vpn):
            raise error
        return Paper(self.world, self.planned)


Wrong = Callable[[Paper], object]


@dataclass
class World:
    """What was done, and what goes wrong: ``wrong`` at the turn of a VPN's instrument that has this number."""

    turns: list[tuple[str, str, float]] = field(default_factory=list)  # VPN, level, and when
    wrong: dict[tuple[str, int], Wrong] = field(default_factory=dict)
    never_up: dict[str, Exception] = field(default_factory=dict)
    not_at_first: dict[str, Exception] = field(default_factory=dict)  # comes up at the second attempt
    brought_up: Counter[str] = field(default_factory=Counter)  # attempts
    not_again: dict[str, Exception] = field(default_factory=dict)
    renewed: list[str] = field(default_factory=list)
    standing: list[str] = field(default_factory=list)
    closed: Counter[str] = field(default_factory=Counter)
    now: float = 1000.0

    def turn(self, vpn: str, level: str, bench: Paper) -> None:
        self.turns.append((vpn, level, self.now))
        self.now += SLICE_S
        number = sum((vpn, level) == turn[:2] for turn in self.turns)
        if level == "1" and (wrong := self.wrong.get((vpn, number))):
            wrong(bench)


class Counts(Instrument):
    """A slice of it is the number of its turn. ``returns`` is called for its result."""

    name = "counts"
    metrics = (METRIC,)
    factors: Mapping[str, Levels] = {"of_counts": Levels(("1", "2", "3"), default="1")}  # type: ignore[misc]

    def __init__(self, world: World) -> None:
        self.world = world
        self.yields: Callable[[str, int], Any] = lambda vpn, number: {"counted_ms": 10.0 + number}
        self.returns: Callable[[str], Any] = lambda vpn: Measured()
        self.deaf: set[str] = set()

    def takes_turns(self, params: Mapping[str, str], profile: Profile) -> bool:
        return profile.rounds > 0

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return SLICE_S

    def measure(self, bench: Any, asked: Asked) -> Measuring:
        vpn, number, go = asked.vpn.name, 0, Go.ON
        try:
            while go is Go.ON or vpn in self.deaf:
                number += 1
                self.world.turn(vpn, asked.params["of_counts"], bench)
                go = yield self.yields(vpn, number)
            return cast(Measured, self.returns(vpn))
        finally:
            self.world.closed[vpn] += 1


def cells(*vpns: str, levels: Sequence[str] = "1", ciphers: Sequence[Mapping[str, str]] = (AES_CBC,)) -> list[Cell]:
    return [
        Cell(vpn=vpn, params={**tunnel, "measure": "counts", "of_counts": level})
        for vpn in vpns
        for tunnel in ((NO_CIPHER,) if vpn == "none" else ciphers)
        for level in levels
    ]


THREE = cells("none", "openvpn", "ipsec_user")


@dataclass
class Run:
    """Calls of the loop on one folder, in a world of their own."""

    folder: Path
    world: World
    instrument: Counts

    def __call__(
        self,
        of: Sequence[Cell] = THREE,
        *,
        rounds: int = 6,
        repetitions: int = 1,
        seed: int = 1,
        out: Path | None = None,
        stands: int = 0,
        deadline_s: float | None = None,
        look: Look | None = None,
        watcher: Watcher | None = None,
        experiments_of: Mapping[str, list[str]] | None = None,
        until_significant: bool = False,
        **settings: Any,
    ) -> Outcome:
        profile = replace(PROFILES["quick"], rounds=rounds)
        image: Any = SimpleNamespace(name="paper", root=Path("/"))
        rig: Any = SimpleNamespace(stands=stands)
        deadline = None if deadline_s is None else self.world.now + deadline_s
        about = {name: settings.pop(name) for name in ("first", "retry_failed") if name in settings}
        asked = made_up(profile, repetitions, seed=seed, **about)
        given = Stage(request=asked, image=image, deadline=deadline, rig=rig, **settings)
        with open_store(out or self.folder) as store:
            run = make_run(("none",))
            store.save_run(run.model_copy(update={"metrics": run.metrics | {METRIC.name: METRIC}}))
            vpns = {cell.vpn: load_vpn(cell.vpn) for cell in of}
            found = Conductor(
                store, vpns, of, given, watcher or Watcher(), experiments_of or {}, look, until_significant
            )
            found.looks_at = Rank.looks_at
            return found.run()

    @property
    def trials(self) -> dict[str, Trial]:
        """By VPN, and by level where that is not 1."""
        return trials_of(self.folder)

    def rounds(self, vpn: str) -> list[int]:
        (found,) = self.trials[vpn].measurements
        return found.rounds


def trials_of(folder: Path) -> dict[str, Trial]:
    def name(one: Trial) -> str:
        return one.vpn + (f" {one.params['of_counts']}" if one.params["of_counts"] != "1" else "")

    return {name(one): one for one in load_run(folder)[1]}


@contextmanager
def on_paper(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Calls of the loop, with the world and the clock on paper. No lab may be left at the end."""
    world = World()
    monkeypatch.setattr(Lane, "world", world, raising=False)
    monkeypatch.setattr(tunnels, "TunnelBuilder", Lane)
    monkeypatch.setattr(Conductor, "probe", lambda self, known: set())
    monkeypatch.setattr("time.monotonic", lambda: world.now)
    made = Counts(world)
    monkeypatch.setattr(catalogue, "_ADDED", {"counts": made})
    yield Run(folder, world, made)
    assert world.standing == []


def fails(text: str = "it failed") -> Wrong:
    def wrong(bench: Paper) -> None:
        raise MeasurementError(text)

    return wrong


def by_round(world: World, size: int) -> list[list[str]]:
    names = [f"{vpn} {level}" for vpn, level, _ in world.turns]
    return [names[start : start + size] for start in range(0, len(names), size)]
