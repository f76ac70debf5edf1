"""The hours in which a site lab may measure, with a clock that is given."""

import math
import time
from contextlib import contextmanager, nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.design.profile import PROFILES
from runner.lab.places.hours import Hours
from runner.lab.places.site import SiteRig
from runner.lab.shape.site_to_site import Lab
from runner.stages.examination import hours_check
from runner.sweep import run as session
from runner.sweep.settings import Outcome, Stage, Watcher
from tests.unit.asking import made_up
from tests.unit.on_paper import THREE, on_paper

ZONE = time.tzname[0]
MIDNIGHT = datetime(2026, 11, 23)


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self, hour: int, minute: int = 30) -> None:
        self.now, self.slept_s = datetime(2026, 11, 23, hour, minute), 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds
        self.now += timedelta(seconds=seconds)

    def hours(self, between: str) -> Hours:
        return Hours(between, lambda: self.now, self.sleep)


def test_the_hours_may_go_over_midnight() -> None:
    at = {hour: Clock(hour) for hour in (0, 3, 12, 23)}
    opens = {hour: clock.hours("01:00-05:00").opens_in_s() for hour, clock in at.items()}
    assert opens == {3: 0, 0: 1800, 12: 12.5 * 3600, 23: 1.5 * 3600}
    late = {hour: clock.hours("22:00-04:00") for hour, clock in at.items()}
    assert {hour: one.opens_in_s() for hour, one in late.items()} == {0: 0, 3: 0, 23: 0, 12: 9.5 * 3600}
    assert {hour: one.left_s() for hour, one in late.items()} == {0: 12600, 3: 1800, 23: 16200, 12: 0}
    assert Hours().left_s() == math.inf
    assert Hours().opens_in_s() == 0


@pytest.mark.parametrize(
    ("hour", "need_s", "slept_s", "until"),
    [
        (0, 0, 1800, "2026-11-23 01:00"),
        (12, 0, 12.5 * 3600, "2026-11-24 01:00"),
        (3, 0, 0, ""),
        (4, 1800, 0, ""),
        (4, 1860, 20.5 * 3600, "2026-11-24 01:00"),  # it would last beyond the hours
        (4, 1e6, 20.5 * 3600, "2026-11-24 01:00"),  # no night is long enough: it gets a whole one
    ],
)
def test_who_waits_is_told_until_when(hour: int, need_s: float, slept_s: float, until: str) -> None:
    clock, said = Clock(hour), list[str]()
    clock.hours("01:00-05:00").wait(said.append, need_s)
    assert clock.slept_s == slept_s
    assert len(said) == (slept_s > 0)
    assert all(line.startswith(f"vpneval waits until {until} {ZONE} (--between 01:00-05:00): ") for line in said)
    clock.hours("01:00-05:00").wait(said.append, need_s)
    assert clock.slept_s == slept_s, "then the hours are there"


def test_the_hours_may_be_those_of_a_zone() -> None:
    in_india, in_line = Hours("10:00-11:00 Asia/Kolkata"), Hours("04:30-05:30 UTC")  # no summer time in either
    assert (in_india.zone, in_line.zone, Hours("01:00-05:00").zone) == ("IST", "UTC", ZONE)
    assert abs(in_india.opens_in_s() - in_line.opens_in_s()) < 5
    assert abs(in_india.opens_in_s() - Hours("10:00-11:00 UTC").opens_in_s()) > 5, "the control"
    assert in_india._ends() == (36000, 39600)


def test_no_hours_are_no_wait() -> None:
    clock = Clock(12)
    clock.hours("").wait(print, 1e9)
    assert clock.slept_s == 0


@pytest.mark.parametrize(("hour", "deadline_s", "left_s"), [(0, 1800.0, 1800.0), (4, 3600.0, 1800.0)])
def test_the_deadlines_clock_starts_after_the_wait_and_ends_with_the_hours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hour: int, deadline_s: float, left_s: float
) -> None:
    """Half an hour from 00:30, in hours that begin at 01:00, is from 01:00 to 01:30."""
    clock, given, said = Clock(hour), list[Stage](), list[str]()
    start = clock.now
    monkeypatch.setattr("time.monotonic", lambda: (clock.now - start).total_seconds())
    monkeypatch.setattr(SiteRig, "hours", property(lambda rig: clock.hours("01:00-05:00")))
    images: list[float] = []

    def image(rig: SiteRig, name: str, say: Any) -> Any:
        images.append(clock.slept_s)
        return SimpleNamespace(name=name)

    class PaperLoop:
        outcome = Outcome()

        def __init__(self, store: Any, vpns: Any, cells: Any, stage: Stage, *_: Any) -> None:
            given.append(stage)

        def run(self) -> Outcome:
            return self.outcome

    @contextmanager
    def written_down(*_: Any) -> Any:
        yield

    monkeypatch.setattr(SiteRig, "image", image)
    monkeypatch.setattr(session, "Conductor", PaperLoop)
    record = SimpleNamespace(seed=1, metrics={}, invocations=[], experiments=[])
    monkeypatch.setattr(SiteRig, "lab", lambda rig, image: nullcontext(Lab({})))
    monkeypatch.setattr(session, "_examine_lab", lambda *_: record)
    monkeypatch.setattr(session, "save_packages", lambda *_: None)
    monkeypatch.setattr(session, "membership", lambda run: {})
    monkeypatch.setattr(session, "written_down", written_down)
    monkeypatch.setattr(session, "use", lambda *_: None)
    asked = made_up(PROFILES["site"], image="host", deadline_s=deadline_s)
    rig = SiteRig({}, SimpleNamespace(between="01:00-05:00"), {})  # type: ignore[arg-type]
    session._run_on(rig, asked, tmp_path / "run", said.append, lambda folder, run: nullcontext(cast(Watcher, None)))
    (stage,) = given
    waited_s = 1800.0 if hour == 0 else 0.0
    assert stage.deadline == waited_s + left_s
    assert images == [waited_s], "the image is sent after the wait"
    assert [line.partition(" (")[0] for line in said] == [f"vpneval waits until 2026-11-23 01:00 {ZONE}"] * (hour == 0)


def test_rounds_end_with_the_hours_and_the_next_tunnel_waits_for_the_next_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_paper(tmp_path / "run", monkeypatch) as run:
        start, slept = run.world.now, list[float]()

        def now() -> datetime:
            return MIDNIGHT.replace(hour=1) + timedelta(seconds=run.world.now - start)

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            run.world.now += seconds

        done = run(THREE, rounds=10_000, stands=1, hours=Hours("01:00-01:01", now, sleep))
        assert done.stopped == ""
        nights, rounds = (run.world.now - start) // 86400, [len(run.rounds(vpn)) for vpn in run.trials]
    assert nights == 2, "three tunnels, a night each"
    assert sum(slept) > 1.99 * 86400 - 180
    assert all(200 < count <= 240 for count in rounds), "a minute of slices of a quarter of a second"


def test_the_doctor_does_not_wait_and_says_so() -> None:
    clock = Clock(12)
    (check,) = hours_check(clock.hours("01:00-05:00"))
    assert (check.level, clock.slept_s) == ("warning", 0)
    assert f"it is not 01:00-05:00 now (12:30 {ZONE}). The doctor does not wait" in check.says
    assert hours_check(Clock(3).hours("01:00-05:00")) == hours_check(Hours()) == []
