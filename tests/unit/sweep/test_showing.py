"""What a settled choice takes on trust is shown in the time that is left; the trials are simulated."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from questions.choose import steps
from questions.choose.judge import choice
from questions.choose.steps import ALONE_S, LATE_S, STEADY_BPS, WATCH_S
from runner.choice.devices import devices
from runner.choice.musts import states, words_of
from runner.cli.commands.plan.work import limits
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.store import Store, load_run, open_store
from runner.data.trials import Measurement
from runner.design.question import Evidence
from runner.instruments.traffic.ladder import ROOM
from runner.sweep import rest as resting
from runner.sweep.request import Request
from runner.sweep.rest import Rest, without_kept
from runner.sweep.settings import Outcome
from tests.unit.asking import request
from tests.unit.choice.runs import TRUTHS, chosen_run, stretch
from tests.unit.instruments.test_own_instrument import Watcher
from tests.unit.synthetic import make_trial

VPNS = ",".join(sorted(TRUTHS.keys() - {"none"}))
USUAL: tuple[Must, ...] = ("networks", "tried", "maintained")
OUTAGE_S, TAKES_S = 61.0, 30.0


def needs(*musts: Must, line_bps: float | None = 5e7, **path: float) -> Needs:
    return Needs(line_bps=line_bps, path_rtt_ms=20, must=(*USUAL, *musts), **path)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "run") as made:
        yield made


@dataclass
class MadeUpStage:
    """In the place of a stage."""

    rig: Any
    deadline: float


def watch(rest: Rest, asked: Request, gap_s: float = 0.01) -> None:
    """Simulates an uncut stretch of each of these VPNs."""
    for cell in asked.cells:
        rest.before.store.append(stretch(cell.vpn, cell.params, gap_s))
    stage: Any = rest.before.stage
    stage.deadline -= WATCH_S


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Simulates the trials that are asked for: every tunnel stays closed, comes back, and carries little where packets
    are lost. Has the instrument and the VPN of each."""
    seen: list[tuple[str, str]] = []

    def simulate(rest: Rest, asked: Request) -> None:
        stage: Any = rest.before.stage
        if [experiment.name for experiment in asked.experiments] == ["steady"]:
            return watch(rest, asked)
        assert (asked.profile.rounds, asked.repetitions) == (0, 1)
        for cell in asked.cells:
            measure = cell.params["measure"]
            metric, value, unit = {
                "security": ("fail_closed", 1.0, "1"),
                "recovery": ("outage_ms", 1e3 * OUTAGE_S, "ms"),
                "tcp": ("tcp_throughput", 3e7, "bit/s"),
            }[measure]
            measured = Measurement.model_validate({"metric": metric, "value": value, "unit": unit, "better": "higher"})
            trial = make_trial(cell.vpn, cell.params, 1).model_copy(update={"measurements": [measured]})
            rest.before.store.append(trial)
            stage.deadline -= TAKES_S
            seen.append((measure, cell.vpn))

    monkeypatch.setattr(resting, "carry_on", simulate)
    return seen


@pytest.fixture
def rest(store: Store) -> Callable[..., Rest]:
    """A settled run of these needs, with so many seconds left, in a lab of this machine or (``stands`` 1) on others."""

    def made(asked: Needs, left_s: float, stands: int = 0) -> Rest:
        run, trials = chosen_run(needs=asked, noise=0.02)
        store.save_run(run)
        for trial in trials:
            store.append(trial)
        stage = MadeUpStage(SimpleNamespace(stands=stands), time.monotonic() + left_s)
        before: Any = SimpleNamespace(store=store, stage=stage, outcome=Outcome(), watcher=Watcher())
        nothing: Any = None
        return Rest(before, request("choose", vpns=VPNS, deadline_s=160.0, needs=asked), run, nothing, {})

    return made


def use(rest: Rest) -> None:
    resting.use(rest, rest.before.stage)


def named(store: Store) -> list[str]:
    run, trials = load_run(store.folder)
    return steps.named_vpns(devices(run, trials), words_of(states(run, trials)), run.needs)


def test_musts_that_nobody_tried_are_shown_of_those_who_would_be_named(
    store: Store, rest: Callable[..., Rest], tried: list[tuple[str, str]]
) -> None:
    settled = rest(needs("fail-closed", "no-fixed-address"), left_s=3600)
    assert named(store) == []  # unknown of all of them
    use(settled)
    now = named(store)
    assert now
    assert tried == [("security", vpn) for vpn in now] + [("recovery", vpn) for vpn in now]
    run, trials = load_run(store.folder)
    found = states(run, trials)[now[0]]
    assert (found["fail-closed"].word, found["fail-closed"].run) == ("shown", "")
    assert found["no-fixed-address"].value == f"{OUTAGE_S} s"


def test_nothing_is_tried_that_does_not_fit_in_the_time_that_is_left(
    rest: Callable[..., Rest], tried: list[tuple[str, str]]
) -> None:
    use(rest(needs("fail-closed", "no-fixed-address"), left_s=45))
    assert [measure for measure, _ in tried] == ["security"]  # the one that takes at most 40 s, of one VPN


@pytest.mark.parametrize(
    ("asked", "left_s", "stands"),
    [
        (needs("fail-closed"), 3600, 1),  # between machines of somebody's
        (needs(), 3600, 0),  # no such must is in force
        (needs("fail-closed", line_bps=5e10), -1, 0),  # no time is left
    ],
)
def test_nothing_is_tried(
    asked: Needs, left_s: float, stands: int, rest: Callable[..., Rest], tried: list[tuple[str, str]]
) -> None:
    use(rest(asked, left_s, stands))
    assert tried == []


def test_nothing_is_tried_in_a_guest_kernel(rest: Callable[..., Rest], tried: list[tuple[str, str]]) -> None:
    settled = rest(needs("fail-closed"), left_s=3600)
    settled.record.lab["guest"] = "qemu-kvm"
    use(settled)
    assert tried == []


def test_nothing_is_tried_before_the_answer_is_settled(
    rest: Callable[..., Rest], tried: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("questions.choose.judge.unsettled_lines", lambda *_, **__: [5e7])
    use(rest(needs("fail-closed"), left_s=3600))
    assert tried == []


@pytest.mark.parametrize(
    ("path_loss_ratio", "who"),
    [(1e-3, [("tcp", "ssh_tun")]), (1e-5, []), (0.0, [])],
)
def test_one_connection_is_measured_where_the_path_loses_and_the_answer_depends_on_it(
    path_loss_ratio: float, who: list[tuple[str, str]], rest: Callable[..., Rest], tried: list[tuple[str, str]]
) -> None:
    use(rest(needs(path_loss_ratio=path_loss_ratio), left_s=3600))
    assert tried == who


def test_what_a_lossy_path_carried_is_known_of_the_device(
    store: Store, rest: Callable[..., Rest], tried: list[tuple[str, str]]
) -> None:
    use(rest(needs(path_loss_ratio=1e-3), left_s=3600))
    assert tried
    (seen,) = devices(*load_run(store.folder))["ssh_tun"].on_path
    assert (seen.rate_bps, seen.rtt_ms, seen.loss_ratio, seen.tcp_bps) == (7.5e7, 20, 1e-3, 3e7)


def test_a_window_is_measured_at_two_round_trips_where_the_line_asks_for_much_of_it(
    rest: Callable[..., Rest], tried: list[tuple[str, str]]
) -> None:
    far = needs(path_loss_ratio=0.0).model_copy(update={"path_rtt_ms": 300.0})
    use(rest(far, left_s=3600))
    assert tried == [("tcp", "ssh_tun"), ("tcp", "ssh_tun")]


def test_who_states_no_path_has_none_assumed() -> None:
    assert not steps.lossy(needs())
    assert not steps.lossy(needs(line_bps=None, path_loss_ratio=0.01))
    assert not steps.lossy(needs(path_loss_ratio=0.9))  # no WAN of a lab is like that


def test_the_plan_says_it() -> None:
    def said(**asked: Any) -> str:
        return " ".join(limits(request("choose", **asked)))

    every = said(deadline_s=160.0, needs=needs("mesh", path_loss_ratio=0.01))
    assert "goes to trials of mesh" in every
    assert "one TCP connection" in every
    assert "further VPNs" in every
    assert "further VPNs" not in said(deadline_s=160.0, vpns="openvpn")
    assert "the time that is left" not in said()


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """Simulates what is watched. Has each VPN and its rate, in their order."""
    seen: list[tuple[str, float]] = []

    def simulate(rest: Rest, asked: Request) -> None:
        assert len({cell.params[STEADY_BPS] for cell in asked.cells}) == 1
        seen.extend((cell.vpn, float(cell.params[STEADY_BPS])) for cell in asked.cells if cell.vpn != "none")
        watch(rest, asked)

    monkeypatch.setattr(resting, "carry_on", simulate)
    return seen


@pytest.mark.parametrize("settled", [True, False])
def test_what_is_named_is_watched_once_the_first_one_first(
    settled: bool,
    store: Store,
    rest: Callable[..., Rest],
    watched: list[tuple[str, float]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not settled:
        monkeypatch.setattr("questions.choose.judge.unsettled_lines", lambda *_, **__: [5e7])
    stated = rest(needs(), left_s=3600)
    use(stated)
    assert [vpn for vpn, _ in watched] == named(store)
    assert all(0.1 * 5e7 < rate_bps <= 0.8 * ROOM * 5e7 for _, rate_bps in watched)
    found = devices(*load_run(store.folder))[named(store)[0]].watched
    assert found
    assert found.rate_bps == watched[0][1]
    evidence = Evidence(*load_run(store.folder))
    assert not steps.watch_list(choice(evidence.run, evidence.trials), evidence)
    use(stated)  # and once more, as `more` does
    assert len(watched) == len(named(store))


def test_of_many_lines_each_first_one_is_watched_at_what_it_has_to_carry(
    store: Store, rest: Callable[..., Rest], watched: list[tuple[str, float]]
) -> None:
    use(rest(needs(line_bps=None), left_s=3600))
    assert watched
    assert len(watched) == len({vpn for vpn, _ in watched})
    for vpn, rate_bps in watched:
        assert rate_bps <= 0.8 * max(TRUTHS[vpn].udp_bps, 1e7) * 1.1


def test_nothing_is_watched_without_time(rest: Callable[..., Rest], watched: list[tuple[str, float]]) -> None:
    use(rest(needs(), left_s=ALONE_S - 1))
    assert not watched


def test_where_a_round_has_ended_late_plain_ip_is_left_out(
    store: Store, rest: Callable[..., Rest], watched: list[tuple[str, float]]
) -> None:
    use(rest(needs(), left_s=WATCH_S - 1))
    assert len(watched) == 1
    assert not any(STEADY_BPS in trial.params for trial in store.trials if trial.vpn == "none")


def test_a_run_leaves_time_to_watch_what_it_names_and_most_of_it_to_measure() -> None:
    def left_s(deadline_s: float, experiment: str = "choose", **asked: Any) -> float:
        stage: Any = MadeUpStage(None, time.monotonic() + deadline_s)
        stage.request = request(experiment, deadline_s=deadline_s, **asked)
        return float(stage.deadline - (without_kept(stage).deadline or 0))

    assert left_s(600, needs=needs()) == pytest.approx(LATE_S + WATCH_S)
    assert left_s(600) == pytest.approx(LATE_S + 2 * WATCH_S)
    assert left_s(160) == pytest.approx(LATE_S + WATCH_S)
    assert left_s(100) == 0
    assert left_s(600, "latency") == 0
