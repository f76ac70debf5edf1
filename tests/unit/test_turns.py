"""Tunnels that stand together, and the rounds in which their trials take turns: on paper, with instruments that count.

No tunnel is brought up here. ``World`` keeps what every instrument did, and makes go wrong what a test wants to.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner import catalogue
from runner.catalogue import load_vpn
from runner.data.errors import CommandError, MeasurementError, ProofError
from runner.data.levels import AES_CBC, NO_CIPHER, Levels
from runner.data.metric import Metric
from runner.data.store import load_run, open_store, read_slices
from runner.data.trials import Cell, Evidence, Proof, Trial
from runner.design.profile import PROFILES, Profile
from runner.instruments.instrument import Asked, Go, Instrument, Measuring
from runner.instruments.result import Measured, measurement
from runner.sweep import workshop
from runner.sweep.call import Outcome, Settings
from runner.sweep.loop import SIDE_EVERY, SIDE_SHARE, Loop
from runner.sweep.plan import PlannedTunnel
from runner.tunnel.bring_up import Tunnel
from tests.unit.helpers import PaperLab
from tests.unit.synthetic import make_run
from tests.unit.test_own_instrument import Watcher

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
        self.lab = PaperLab({"gw1": SimpleNamespace(lost=lambda: self.lost)})
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
        if error := self.world.never_up.get(self.planned.vpn):
            raise error
        return Paper(self.world, self.planned)


Wrong = Callable[[Paper], object]


@dataclass
class World:
    """What was done, and what goes wrong: ``wrong`` at the turn of a VPN's instrument that has this number."""

    turns: list[tuple[str, str, float]] = field(default_factory=list)  # VPN, level, and when
    wrong: dict[tuple[str, int], Wrong] = field(default_factory=dict)
    never_up: dict[str, Exception] = field(default_factory=dict)
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

    def takes_turns(self, profile: Profile) -> bool:
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
        **settings: Any,
    ) -> Outcome:
        profile = replace(PROFILES["quick"], rounds=rounds)
        image: Any = SimpleNamespace(name="paper")
        rig: Any = SimpleNamespace(stands=stands)
        deadline = None if deadline_s is None else self.world.now + deadline_s
        given = Settings(profile, repetitions, seed, image, {}, deadline=deadline, rig=rig, **settings)
        with open_store(out or self.folder) as store:
            run = make_run(("none",))
            store.save_run(run.model_copy(update={"metrics": run.metrics | {METRIC.name: METRIC}}))
            vpns = {cell.vpn: load_vpn(cell.vpn) for cell in of}
            return Loop(store, vpns, of, given, Watcher(), {}).run()

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


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    world = World()
    monkeypatch.setattr(Lane, "world", world, raising=False)
    monkeypatch.setattr(workshop, "Builder", Lane)
    monkeypatch.setattr(Loop, "probe", lambda self, known: set())
    monkeypatch.setattr("time.monotonic", lambda: world.now)
    made = Counts(world)
    monkeypatch.setattr(catalogue, "_ADDED", {"counts": made})
    yield Run(tmp_path / "run", world, made)
    assert world.standing == []  # no lab is left


def fails(text: str = "it failed") -> Wrong:
    def wrong(bench: Paper) -> None:
        raise MeasurementError(text)

    return wrong


def by_round(world: World, size: int) -> list[list[str]]:
    names = [f"{vpn} {level}" for vpn, level, _ in world.turns]
    return [names[start : start + size] for start in range(0, len(names), size)]


# --- rounds ------------------------------------------------------------------------------------------------------


def test_every_cell_has_one_slice_a_round_in_an_order_that_is_drawn_anew(run: Run) -> None:
    run(cells("none", "openvpn", "ipsec_user", "ssh_tun"), rounds=12)
    rounds = by_round(run.world, 4)
    assert len(rounds) == 12
    assert all(sorted(one) == sorted(rounds[0]) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 6
    for trial in run.trials.values():
        (found,) = trial.measurements
        assert (trial.status, found.rounds, len(found.samples)) == ("ok", list(range(1, 13)), 12)
    rows = read_slices(run.folder)
    assert all([row.round for row in rows[trial.id]] == list(range(1, 13)) for trial in run.trials.values())


def test_what_is_compared_is_measured_one_after_another(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "turns", 3)
    run(cells("none", "openvpn", "ipsec_user", levels="12"), rounds=6)
    rounds = by_round(run.world, 3 * 3 * 2)
    assert len(rounds) == 6
    groups = [[one[at : at + 3] for at in range(0, len(one), 3)] for one in rounds]
    for one in groups:
        assert all({name[-1] for name in group} in ({"1"}, {"2"}) for group in one)
        assert all(len({*group}) == 3 for group in one), "each VPN once"
    assert len({"".join(group[0][-1] for group in one) for one in groups}) > 2, "the groups come in random order"
    for trial in run.trials.values():
        (found,) = trial.measurements
        assert found.rounds == [1, 2, 3, 4, 5, 6]
        rows = read_slices(run.folder)[trial.id]
        middles = [
            sorted(row.values["counted_ms"] for row in rows if row.round == number)[1] for number in found.rounds
        ]
        assert found.samples == middles


def test_the_order_follows_from_the_seed(run: Run, tmp_path: Path) -> None:
    orders = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        run.world.turns.clear()
        run(rounds=8, seed=seed, out=tmp_path / name)
        orders.append(by_round(run.world, 3))
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


def test_repetitions_are_instances_whose_rounds_have_numbers_of_their_own(run: Run) -> None:
    run(rounds=4, repetitions=3)
    found = [one for one in load_run(run.folder)[1] if one.vpn == "openvpn"]
    assert [one.measurements[0].rounds for one in found] == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    rows = read_slices(run.folder)
    assert [{row.instance for row in rows[one.id]} for one in found] == [{1}, {2}, {3}]


def test_a_baseline_beside_no_vpn_has_its_rounds(run: Run) -> None:
    run(cells("none"), rounds=5)
    assert run.rounds("none") == [1, 2, 3, 4, 5]
    run.world.never_up["openvpn"] = TimeoutError("no payload came")
    again = run.folder.with_name("again")
    run(cells("none", "openvpn", levels="12")[:3], rounds=5, out=again)
    found = trials_of(again)
    assert {name: one.status for name, one in found.items()} == {"none": "ok", "none 2": "ok", "openvpn": "failed"}
    assert all(len(found[name].measurements[0].rounds) == 5 for name in ("none", "none 2"))


def test_what_does_not_come_up_is_gone_before_the_rounds(run: Run) -> None:
    run.world.never_up["openvpn"] = TimeoutError("no payload came")
    stood = list[list[str]]()
    run.world.wrong["ipsec_user", 3] = lambda bench: stood.append(sorted(run.world.standing))
    run()
    assert stood == [["ipsec_user", "none"]]
    assert run.trials["openvpn"].reason.startswith("no payload came")
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]


def test_what_no_ranking_is_made_of_has_a_turn_in_every_fifth_round(run: Run) -> None:
    def side(key: str) -> bool:
        return '"of_counts":"2"' in key

    with pytest.MonkeyPatch.context() as patch:
        ranked = {cell.key for cell in cells("none", "openvpn", levels="12") if not side(cell.key)}
        patch.setattr("runner.sweep.loop.ranked_cells", lambda *_: dict.fromkeys(ranked, 1))
        run(cells("none", "openvpn", levels="12"), rounds=7)
    assert SIDE_EVERY == 5
    found = {name: one.measurements[0].rounds for name, one in run.trials.items()}
    assert found["openvpn"] == found["none"] == [1, 2, 3, 4, 5, 6, 7]
    assert found["openvpn 2"] == found["none 2"] == [1, 6]


# --- what fails --------------------------------------------------------------------------------------------------


def test_a_slice_that_fails_once_is_begun_again_and_said(run: Run) -> None:
    run.world.wrong["openvpn", 3] = fails("the probe died")
    assert run().failed == 0
    trial = run.trials["openvpn"]
    assert trial.status == "ok"
    assert run.rounds("openvpn") == [1, 2, 4, 5, 6]
    assert trial.warnings == ["begun again after 2 slices: the probe died"]
    assert [row.number for row in read_slices(run.folder)[trial.id]] == [1, 2, 3, 4, 5]
    assert run.rounds("ipsec_user") == run.rounds("none") == [1, 2, 3, 4, 5, 6]
    assert run.world.renewed == []
    assert run.world.closed["openvpn"] == 2


def test_a_slice_that_fails_twice_ends_the_trial_with_what_it_has(run: Run) -> None:
    run.world.wrong |= {("openvpn", 3): fails("once"), ("openvpn", 5): fails("twice")}
    run()
    trial = run.trials["openvpn"]
    assert (trial.status, run.rounds("openvpn")) == ("ok", [1, 2, 4])
    assert trial.measurements[0].value == 11.0  # the median of 11, 12 and 11
    assert trial.warnings == ["begun again after 2 slices: once", "ended after 3 slices: twice"]
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]
    assert sum(turn[0] == "openvpn" for turn in run.world.turns) == 5


def test_a_trial_without_a_slice_failed(run: Run) -> None:
    run.world.wrong |= {("openvpn", 1): fails("once"), ("openvpn", 2): fails("twice")}
    assert run().failed == 1
    assert (run.trials["openvpn"].status, run.trials["openvpn"].reason) == ("failed", "twice")
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]
    lines = (run.folder / "trials.jsonl").read_text()
    assert '"interrupted"' not in "".join(line for line in lines.splitlines() if "openvpn" in line)


def test_a_failure_in_the_last_round_has_a_line_all_the_same(run: Run) -> None:
    run.world.wrong |= {("openvpn", 1): fails("at once"), ("ipsec_user", 1): fails("at once")}
    run(rounds=1)
    assert {name: one.status for name, one in run.trials.items()} == {
        "none": "ok",
        "openvpn": "failed",
        "ipsec_user": "failed",
    }
    again = run.folder.with_name("again")
    run.world.turns.clear()
    run.world.wrong = {("openvpn", 6): fails("in the last")}
    run(out=again)
    (found,) = trials_of(again)["openvpn"].measurements
    assert found.rounds == [1, 2, 3, 4, 5]
    assert trials_of(again)["openvpn"].warnings[-1] == "ended after 5 slices: in the last"


def raises(error: BaseException) -> Callable[[str, int], Any]:
    def yields(vpn: str, number: int) -> Any:
        if vpn == "openvpn":
            raise error
        return {"counted_ms": 1.0}

    return yields


def only_openvpn(what: object, otherwise: Callable[[], object]) -> Callable[..., Any]:
    return lambda vpn, *_: what if vpn == "openvpn" else otherwise()


@pytest.mark.parametrize(
    ("part", "how", "said"),
    [
        ("yields", raises(ValueError("x")), "the instrument counts is broken: test_turns.py, line "),
        ("yields", raises(SystemExit("bye")), "SystemExit: bye"),
        ("yields", raises(OSError(5, "broken")), "OSError: [Errno 5] broken"),
        ("yields", only_openvpn(None, lambda: {"counted_ms": 1.0}), "not None"),
        ("yields", only_openvpn({"a": float("nan")}, lambda: {"counted_ms": 1.0}), "to finite numbers, not {'a': nan}"),
        ("yields", only_openvpn({"a": "b"}, lambda: {"counted_ms": 1.0}), "to finite numbers, not {'a': 'b'}"),
        ("returns", only_openvpn(None, Measured), "the instrument counts returned None, which is not a Measured"),
        ("returns", only_openvpn(Measured([measurement("yours", 1)]), Measured), "which it does not define"),
        ("deaf", {"openvpn"}, "it did not end when it was told to"),
    ],
)
def test_a_broken_instrument_fails_its_own_trial_only(run: Run, part: str, how: Any, said: str) -> None:
    setattr(run.instrument, part, how)
    outcome = run()
    assert (outcome.failed, outcome.measured, outcome.stopped) == (1, 2, "")
    trial = run.trials["openvpn"]
    assert (trial.status, trial.measurements) == ("failed", [])
    assert said in trial.reason
    assert run.rounds("ipsec_user") == run.rounds("none") == [1, 2, 3, 4, 5, 6]


def test_a_result_that_the_instrument_itself_refuses_is_a_failure(run: Run) -> None:
    def refuses(vpn: str) -> Measured:
        if vpn == "openvpn":
            raise MeasurementError("the two ends do not agree", seen=3)
        return Measured()

    run.instrument.returns = refuses
    run()
    trial = run.trials["openvpn"]
    assert (trial.status, trial.reason, trial.attempt) == ("failed", "the two ends do not agree", {"seen": 3})
    assert trial.measurements == []


def test_one_that_cannot_be_asked_at_its_end_has_its_slices(run: Run) -> None:
    def refuses(vpn: str) -> Measured:
        if vpn == "openvpn":
            raise CommandError("gw1", ["cat", "smaps"], 1, "gone")
        return Measured()

    run.instrument.returns = refuses
    run()
    assert run.rounds("openvpn") == [1, 2, 3, 4, 5, 6]
    assert run.trials["openvpn"].warnings == ["ended after 6 slices: [gw1] cat smaps exited with 1: gone"]


# --- tunnels and labs that break -------------------------------------------------------------------------------------


def breaks(bench: Paper) -> None:
    bench.works = False
    raise MeasurementError("no payload came")


def test_a_tunnel_that_carries_nothing_is_made_anew_and_the_others_are_left_alone(run: Run) -> None:
    run.world.wrong["openvpn", 3] = breaks
    run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert run.world.renewed == ["openvpn"]
    assert run.rounds("openvpn") == [1, 2, 4, 5, 6]
    assert "the tunnel carries no payload any more" in run.trials["openvpn"].warnings[0]
    for name in ("openvpn 2", "ipsec_user", "ipsec_user 2", "none", "none 2"):
        (found,) = run.trials[name].measurements
        assert (found.rounds, run.trials[name].warnings) == ([1, 2, 3, 4, 5, 6], []), name


def test_a_host_that_does_not_answer_is_a_tunnel_that_carries_nothing(run: Run) -> None:
    def hangs(bench: Paper) -> None:
        def asked() -> bool:
            raise CommandError("host1", ["python3"], None, "", 10)

        bench.carries_payload = asked  # type: ignore[method-assign]
        raise MeasurementError("it hung")

    run.world.wrong["openvpn", 3] = hangs
    run()
    assert run.world.renewed == ["openvpn"]
    assert run.rounds("openvpn") == [1, 2, 4, 5, 6]


def test_a_tunnel_that_does_not_come_up_again_leaves_its_slices(run: Run) -> None:
    run.world.wrong["openvpn", 3] = breaks
    run.world.not_again["openvpn"] = TimeoutError("no payload came within 15 s")
    run(cells("none", "openvpn", "ipsec_user", levels="12"))
    found = run.trials
    for name in ("openvpn", "openvpn 2"):
        assert found[name].status == "ok", found[name].reason
        assert found[name].warnings[-1].endswith("the tunnel did not come up again: no payload came within 15 s")
    assert run.rounds("openvpn") == [1, 2]
    assert all(found[name].measurements[0].rounds == [1, 2, 3, 4, 5, 6] for name in ("ipsec_user", "none 2"))


def test_a_new_tunnel_that_is_not_what_was_asked_for_fails_its_trials(run: Run) -> None:
    run.world.wrong["openvpn", 3] = breaks
    run.world.not_again["openvpn"] = ProofError("plaintext on the WAN", PROOF)
    run()
    trial = run.trials["openvpn"]
    assert (trial.status, trial.measurements, trial.proof) == ("failed", [], PROOF)
    assert trial.reason.startswith("plaintext on the WAN")
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]


def test_nobody_needs_a_tunnel_whose_trials_are_over(run: Run) -> None:
    run.world.wrong |= {("openvpn", 2): fails(), ("openvpn", 3): breaks}
    run()
    assert run.rounds("openvpn") == [1]
    assert run.world.renewed == []


def test_a_lab_that_breaks_ends_the_run_and_the_others_have_their_values(run: Run) -> None:
    def gone(bench: Paper) -> None:
        bench.lost = "gw1 is gone"
        raise MeasurementError("nothing came")

    run.world.wrong["openvpn", 3] = gone
    outcome = run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert outcome.stopped == "gw1 is gone"
    statuses = {name: one.status for name, one in run.trials.items()}
    assert statuses == dict.fromkeys(("none", "none 2", "ipsec_user", "ipsec_user 2"), "ok") | dict.fromkeys(
        ("openvpn", "openvpn 2"), "lab_error"
    )
    assert {2, 3} >= {len(one.measurements[0].rounds) for one in run.trials.values() if one.status == "ok"}
    del run.world.wrong["openvpn", 3]
    run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert run.rounds("openvpn")[0] > max(run.rounds("ipsec_user"))


def test_ctrl_c_in_the_middle_of_a_slice_leaves_a_line_of_each_trial(run: Run) -> None:
    def ends(bench: Paper) -> None:
        raise KeyboardInterrupt

    run.world.wrong["openvpn", 4] = ends
    with pytest.raises(KeyboardInterrupt):
        run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert len(run.trials) == 6
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert run.rounds("openvpn") == [1, 2, 3]
    assert run.trials["openvpn"].warnings == ["ended after 3 slices: the run ended in the middle of a slice"]
    assert {3, 4} >= {len(one.measurements[0].rounds) for one in run.trials.values()}
    assert '"interrupted"' not in "\n".join((run.folder / "trials.jsonl").read_text().splitlines()[-6:])


def test_ctrl_c_in_the_first_slice_leaves_that_trial_to_be_measured(run: Run) -> None:
    def ends(bench: Paper) -> None:
        raise KeyboardInterrupt

    run.world.wrong["openvpn", 1] = ends
    with pytest.raises(KeyboardInterrupt):
        run()
    assert "openvpn" not in run.trials
    del run.world.wrong["openvpn", 1]
    run()
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert len(run.trials) == 3


def test_a_full_disk_stops_the_run_and_every_line_there_is_can_be_read(run: Run) -> None:
    def full(bench: Paper) -> None:
        raise OSError(28, "No space left on device")

    run.world.wrong["openvpn", 3] = full
    assert "No space left on device" in run().stopped
    assert {run.trials[name].status for name in ("none", "ipsec_user")} == {"ok"}


# --- a run that is killed --------------------------------------------------------------------------------------------


def killed(run: Run, at: int, **how: Any) -> Path:
    """The run folder as it is on the disk when the ``at``th turn of OpenVPN has just ended."""
    there = run.folder.with_name(f"killed-{at}")
    run.world.wrong["openvpn", at] = lambda bench: shutil.copytree(run.folder, there)
    run(**how)
    run.world.wrong.clear()
    run.world.turns.clear()
    return there


@pytest.mark.parametrize("at", [2, 3, 6])
def test_of_a_killed_run_at_most_one_round_is_lost(run: Run, at: int) -> None:
    there = killed(run, at)
    lines = (there / "trials.jsonl").read_text()
    assert lines.count('"status":"interrupted"') == 3
    for trial in trials_of(there).values():
        (found,) = trial.measurements
        assert (trial.status, found.rounds) == ("ok", list(range(1, at)))
        assert trial.warnings == [f"the run ended while this was measured: {at - 1} slices"]
        assert (found.unit, found.better) == ("ms", "lower")
        assert trial.evidence == EVIDENCE


def test_what_was_killed_in_its_first_round_is_measured_again(run: Run) -> None:
    there = killed(run, 1)
    assert {one.status for one in trials_of(there).values()} <= {"lab_error"}
    assert all(one.reason == "the run ended while this was measured" for one in trials_of(there).values())
    run(out=there)
    found = trials_of(there)
    assert len(found) == 3
    assert all(one.measurements[0].rounds == [1, 2, 3, 4, 5, 6] for one in found.values())


def test_a_killed_run_goes_on_with_new_numbers(run: Run) -> None:
    there = killed(run, 4, repetitions=2)
    before = trials_of(there)
    run(out=there, repetitions=2)
    after = load_run(there)[1]
    first = [one.measurements[0].rounds for one in after if one.repetition == 1]
    second = [one.measurements[0].rounds for one in after if one.repetition == 2]
    assert first == [[1, 2, 3]] * 3
    assert second == [[4, 5, 6, 7, 8, 9]] * 3
    assert all(one.measurements == before[one.vpn].measurements for one in after if one.repetition == 1)
    run.world.turns.clear()
    run(out=there, repetitions=2)
    assert run.world.turns == []


# --- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deadline_s", [8.0, 20.0, 61.0])
def test_rounds_fill_a_deadline_and_end_in_time(run: Run, deadline_s: float) -> None:
    began = run.world.now
    run(deadline_s=deadline_s, rounds=2, repetitions=2)
    took_s = run.world.now - began
    assert deadline_s - 2.5 <= took_s <= deadline_s + 3 * SLICE_S
    found = [one for one in load_run(run.folder)[1] if one.vpn == "openvpn"]
    assert len(found) == 2
    lengths = [len(one.measurements[0].rounds) for one in found]
    assert abs(lengths[0] - lengths[1]) <= 3, "the repetitions share the time"


def test_the_baseline_alone_fills_a_deadline_too(run: Run) -> None:
    run(cells("none", levels="12"), deadline_s=30.0, rounds=2, repetitions=2)
    found = load_run(run.folder)[1]
    assert len(found) == 4
    assert sum(len(one.measurements[0].rounds) for one in found) > 0.7 * 30 / SLICE_S


def test_what_no_ranking_is_made_of_has_its_share_of_a_deadline(run: Run) -> None:
    run(cells("none", "openvpn", "ssh_tun", ciphers=(AES_CBC, OTHER_CIPHER)), deadline_s=120.0, repetitions=2)
    rows = read_slices(run.folder)
    trials = {one.id: one for one in load_run(run.folder)[1]}
    side = sum(len(rows[name]) for name, one in trials.items() if one.params["cipher"] == "3des-cbc")
    ranked = sum(len(rows[name]) for name, one in trials.items() if one.params["cipher"] == "aes-128-cbc")
    assert side
    assert 0.6 * SIDE_SHARE < side / (side + ranked) < 1.3 * SIDE_SHARE


def test_a_deadline_that_is_over_measures_nothing_and_says_so(run: Run) -> None:
    outcome = run(deadline_s=0.5)
    assert outcome.trimmed + len(run.trials) >= 2
    assert all(one.status == "ok" for one in run.trials.values())


# --- where one tunnel stands at a time -------------------------------------------------------------------------------


def test_visits_of_one_tunnel_after_another_share_the_numbers_of_their_rounds(run: Run) -> None:
    most = list[int]()
    for number in range(1, 5):
        run.world.wrong["openvpn", number] = lambda bench: most.append(len(run.world.standing))
    run(rounds=4, repetitions=2, stands=1)
    assert set(most) == {1}
    found = [(one.repetition, one.measurements[0].rounds) for one in load_run(run.folder)[1]]
    assert sorted(found, key=str) == [(1, [1, 2, 3, 4])] * 3 + [(2, [5, 6, 7, 8])] * 3
