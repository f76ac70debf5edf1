"""The ladder of rates over made-up tunnels: which rungs are climbed, when that stops, and that a rate which is not
carried is a result."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import InstrumentError, MeasurementError
from runner.data.levels import AES_CBC
from runner.data.slices import at_rate, curve_of
from runner.data.trials import Slice
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, Go
from runner.instruments.result import Measured
from runner.instruments.tools.beside import Delays, Nothing
from runner.instruments.tools.generator import Arrived, Load
from runner.instruments.traffic import ladder
from runner.instruments.traffic.ladder import RUNGS_BPS, Ladder, rungs
from runner.lab.node import Completed
from runner.lab.node.probing import ProbeSaidError

COST_S = 0.02  # CPU seconds between two readings
Found = dict[str, float]


@dataclass
class MadeUp:
    """In the place of a bench: a tunnel that carries ``limit_bps``, breaks down above ``breaks_bps``, and whose sender
    offers ``offers_bps`` at most. ``hiccups``: rates at which nothing goes well the next time."""

    limit_bps: float
    breaks_bps: float = 1e12
    offers_bps: float = 1e12
    hiccups: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)  # of the next transfers
    up: bool = True
    renewed: int = 0
    offered: list[float] = field(default_factory=list)
    looks: int = 0
    cpu_s: float = 0.0
    counts_cpu: bool = True
    events: list[str] = field(default_factory=list)
    shared_kernel: bool = True
    address: str = "10.2.0.2"

    @property
    def lab(self) -> Any:
        return SimpleNamespace(
            shared_kernel=self.shared_kernel,
            rtt_s=0.0,
            path_loss_ratio=0.0,
            nodes={"gw1": self},
            host1=SimpleNamespace(run=self.ping),
        )

    def ping(self, *argv: str, check: bool, timeout: float) -> Completed:
        return Completed(0 if self.up else 1, "", "")

    def carries_payload(self) -> bool:
        return self.up

    def renew(self) -> None:
        self.up, self.renewed = True, self.renewed + 1

    def forget(self, name: str) -> None:
        pass

    def through(self, rate_bps: float) -> float:
        """What comes through of this rate."""
        if rate_bps in self.hiccups:
            self.hiccups.remove(rate_bps)
            return rate_bps / 2
        self.up = self.up and rate_bps <= self.breaks_bps
        return min(rate_bps, self.limit_bps) * self.up

    def tcp(
        self, slice_s: float, rate_bps: float | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> Found:
        self.events.append("load")
        meanwhile()
        if rate_bps is None:
            self.looks += 1
            rate_bps = self.limit_bps
        else:
            self.offered.append(rate_bps)
            if self.errors:
                raise self.errors.pop(0)
        came_bps = self.through(rate_bps)
        if not came_bps:
            raise ProbeSaidError("the probe visit: no payload was taken for 10 s")
        size = came_bps * slice_s / 8
        return {"bytes": size, "seconds": slice_s, "carried_bytes": size, "retransmits": 0}

    def play(self, load: Load) -> Arrived:
        rate_bps = load.per_s * 8 * (load.mean_bytes - 28)
        self.offered.append(rate_bps)
        if self.errors:
            raise self.errors.pop(0)
        sent = round(min(rate_bps, self.offers_bps) / rate_bps * load.per_s * load.seconds)
        came = round(sent * self.through(min(rate_bps, self.offers_bps)) / min(rate_bps, self.offers_bps))
        return Arrived(load, sent, 0, load.seconds, came, came, came, [(0.0, 0), (load.seconds, came)], {})


class Generating:
    """In the place of a generator."""

    def __init__(self, bench: MadeUp) -> None:
        self.bench, self.anew = bench, NoFailure

    def begin(self, load: Load) -> None:
        self.bench.events.append("load")

    def sender_report(self, load: Load) -> Found:
        return {}

    def finish(self, load: Load, offered: Found, beside: int) -> Arrived:
        return self.bench.play(load)


class NoFailure:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


class Probe(Nothing):
    """Beside the load: stamped datagrams, of which half a per cent is lost."""

    told = "one-way"

    def __init__(self, bench: MadeUp) -> None:
        self.bench = bench

    def begin(self, seconds: float, wait_s: float = 0.0) -> None:
        self.bench.events.append(f"probe in {wait_s:g} s" if wait_s else "probe")

    def delays(self) -> Delays:
        return Delays([1.0] * 19 + [9.0], 200, 199)


Climb = Callable[..., tuple[list[Found], Measured | None]]


@pytest.fixture
def climbed(monkeypatch: pytest.MonkeyPatch) -> Climb:
    """Climbs the ladder of a made-up tunnel so often."""
    monkeypatch.setattr(ladder, "may_fragment", lambda *_: False)
    monkeypatch.setattr(ladder, "visits", lambda bench: bench)
    monkeypatch.setattr(ladder, "generator", lambda bench, fragments: Generating(bench))
    monkeypatch.setattr(ladder, "stamping", lambda bench, counter: Probe(bench))
    monkeypatch.setattr(ladder, "echoing", Probe)
    monkeypatch.setattr(ladder, "ALONE_S", 0.001)

    def spent_s(lab: Any) -> dict[str, float]:
        bench = lab.nodes["gw1"]
        bench.events.append("cpu")
        bench.cpu_s += COST_S
        return {"seconds": time.monotonic()} | ({"cpu_s": bench.cpu_s} if bench.counts_cpu else {})

    monkeypatch.setattr(ladder, "spent_s", spent_s)

    def climb(
        bench: MadeUp, carried: str = "tcp", vpn: str = "openvpn", visits: int = 1, **also: str
    ) -> tuple[list[Found], Measured | None]:
        measuring, found = Ladder().measure(bench, asked(carried, vpn, **also)), list[Found]()  # type: ignore[arg-type]
        try:
            found.append(dict(next(measuring)))
            for _ in range(visits - 1):
                found.append(dict(measuring.send(Go.ON)))
            measuring.send(Go.END)
        except StopIteration as end:
            return found, end.value
        return found, None

    return climb


def asked(carried: str = "tcp", vpn: str = "openvpn", **also: str) -> Asked:
    params = {**AES_CBC, "measure": "ladder", "carried": carried, **also}
    return Asked(load_vpn(vpn), params, PROFILES["quick"], 1)


def of(found: Found, name: str) -> dict[float, float]:
    """Rate -> the value of this name."""
    return {rung.rate_bps: rung.values[name][0] or 0.0 for rung in curve(found) if name in rung.values}


def curve(found: Found) -> Any:
    return curve_of([Slice(trial="x", number=1, at_s=0, duration_s=1, values=found)])


@pytest.mark.parametrize("carried", ["tcp", "datagrams"])
def test_it_climbs_to_the_first_rung_that_is_not_carried_and_stores_that(climbed: Climb, carried: str) -> None:
    (found,), measured = climbed(MadeUp(limit_bps=150e6), carried)
    assert found["ladder_rate"] == 100e6
    assert [*of(found, "carried_ratio")] == [10e6, 30e6, 100e6, 300e6]
    assert of(found, "carried_ratio") == pytest.approx({10e6: 1, 30e6: 1, 100e6: 1, 300e6: 0.5}, abs=0.002)
    assert of(found, "broke_down") == dict.fromkeys(of(found, "carried_ratio"), 0)
    assert of(found, "cpu_s")[10e6] == pytest.approx(COST_S)
    assert of(found, "delay_p50_ms")[10e6] == 1
    assert of(found, "delay_p95_ms")[10e6] > 1
    assert found[at_rate("carried_bytes", 30e6)] * 8 == pytest.approx(30e6 * found[at_rate("seconds", 30e6)], rel=0.1)
    assert measured
    assert [(value.metric, value.value) for value in measured.measurements] == [("ladder_rate", 100e6)]
    assert measured.measurements[0].detail == {"delays": "one-way"}


def test_what_is_lost_is_the_loads_datagrams_or_the_stamped_ones_beside_tcp(climbed: Climb) -> None:
    (tcp,), _ = climbed(MadeUp(limit_bps=150e6))
    (datagrams,), _ = climbed(MadeUp(limit_bps=150e6), "datagrams")
    assert of(tcp, "loss_ratio")[300e6] == pytest.approx(0.005)
    assert of(datagrams, "loss_ratio")[300e6] == pytest.approx(0.5, abs=0.001)
    assert of(datagrams, "loss_ratio")[100e6] == 0


@pytest.mark.parametrize("carried", ["tcp", "datagrams"])
def test_who_does_not_carry_the_lowest_rung_has_a_result_and_soon_no_more_turns(climbed: Climb, carried: str) -> None:
    found, measured = climbed(MadeUp(limit_bps=3.44e6), carried, visits=9)
    assert len(found) == 3
    assert {one["ladder_rate"] for one in found} == {0.0}
    assert [*of(found[0], "carried_ratio")] == [10e6]
    assert measured
    assert measured.measurements[0].value == 0


def test_a_later_visit_goes_one_rung_beyond_the_highest_that_was_ever_carried(climbed: Climb) -> None:
    bench = MadeUp(limit_bps=1e12, hiccups=[300e6])
    (first, second, third), _ = climbed(bench, visits=3)
    assert [one["ladder_rate"] for one in (first, second, third)] == [100e6, 300e6, 1000e6]
    assert len(bench.offered) == 4 + 4 + 5


def test_a_rung_that_was_carried_before_is_offered_once_more_before_it_ends_the_climb(climbed: Climb) -> None:
    bench = MadeUp(limit_bps=400e6)
    climbed(bench)
    bench.hiccups, bench.offered = [], []
    measuring = Ladder().measure(bench, asked())  # type: ignore[arg-type]
    next(measuring)
    bench.hiccups, bench.offered = [30e6], []
    found = dict(measuring.send(Go.ON))
    assert bench.offered == [10e6, 30e6, 30e6, 100e6, 300e6, 1000e6]
    assert of(found, "carried_ratio")[30e6] == 0.5, "the second attempt takes nothing back"
    assert (of(found, "attempts")[30e6], of(found, "bad_attempts")[30e6]) == (2, 1)
    assert (of(found, "attempts")[10e6], of(found, "bad_attempts")[10e6]) == (1, 0)


@pytest.mark.parametrize("carried", ["tcp", "datagrams"])
def test_a_tunnel_that_a_rate_breaks_down_is_made_anew_and_that_is_a_result(climbed: Climb, carried: str) -> None:
    bench = MadeUp(limit_bps=1e12, breaks_bps=80e6)
    (first, second), _ = climbed(bench, carried, visits=2)
    assert of(first, "broke_down") == of(second, "broke_down") == {10e6: 0, 30e6: 0, 100e6: 1}
    assert of(first, "carried_ratio")[100e6] == 0
    assert bench.renewed == 2
    assert first["ladder_rate"] == 30e6


def test_a_sender_that_falls_short_is_no_limit_of_the_vpn(climbed: Climb) -> None:
    (found,), measured = climbed(MadeUp(limit_bps=1e12, offers_bps=150e6), "datagrams")
    assert of(found, "sent_ratio")[300e6] == pytest.approx(0.5, abs=0.01)
    assert of(found, "loss_ratio")[300e6] == 0
    assert measured
    assert measured.measurements[0].at_least
    (found,), measured = climbed(MadeUp(limit_bps=150e6), "datagrams")
    assert measured
    assert not measured.measurements[0].at_least


def test_datagrams_through_a_tunnel_in_tcp_stay_near_what_its_tcp_carries(climbed: Climb) -> None:
    bench = MadeUp(limit_bps=90e6)
    climbed(bench, "datagrams", "ssh_tun")
    assert bench.offered == pytest.approx([10e6, 30e6, 100e6])
    bench = MadeUp(limit_bps=60e6)
    (found,), _ = climbed(bench, "datagrams", "ssh_tun")
    assert bench.offered == pytest.approx([10e6, 30e6])
    assert found["ladder_rate"] == 30e6
    bench = MadeUp(limit_bps=60e6)
    climbed(bench, "datagrams", "openvpn")
    assert bench.offered[-1] == pytest.approx(100e6), "any other tunnel is overloaded"


def test_a_vpn_that_carries_tcp_only_has_no_datagrams(climbed: Climb) -> None:
    vpn, lab = load_vpn("ssh_forward"), MadeUp(1e9).lab
    refused = Ladder().refuses(lab, vpn, {"carried": "datagrams"})
    assert refused
    assert "carries TCP only" in refused.reason
    assert Ladder().refuses(lab, vpn, {"carried": "tcp"}) is None
    (found,), _ = climbed(MadeUp(limit_bps=50e6), vpn="ssh_forward")
    assert of(found, "carried_ratio")
    assert not of(found, "delay_p50_ms")
    assert not of(found, "loss_ratio")


def test_the_rungs_of_a_line_and_those_that_a_run_may_offer() -> None:
    assert rungs(asked()) == list(RUNGS_BPS)
    assert rungs(asked(line_bps="100000000")) == pytest.approx([9.3e6, 46.5e6, 74.4e6, 93e6, 116.25e6])
    slow = replace(asked(), profile=replace(PROFILES["quick"], udp=replace(PROFILES["quick"].udp, max_rate_bps=50e6)))
    assert rungs(slow) == [10e6, 30e6]
    slower = replace(slow, profile=replace(slow.profile, udp=replace(slow.profile.udp, max_rate_bps=2e6)))
    assert rungs(slower) == [2e6]


def test_a_transfer_that_does_not_end_in_time_twice_was_not_carried(climbed: Climb) -> None:
    late: list[Exception] = [
        ProbeSaidError("the probe visit: far host: no payload came for 10 s, or its end did not come")
    ] * 2
    bench = MadeUp(limit_bps=1e12, errors=list(late))
    (found,), _ = climbed(bench)
    assert of(found, "carried_ratio") == {10e6: 0}
    assert of(found, "broke_down") == {10e6: 0}
    (found,), _ = climbed(MadeUp(limit_bps=1e12, errors=late[:1]))
    assert found["ladder_rate"] == RUNGS_BPS[-1], "once does not end the climb"
    assert (of(found, "attempts")[10e6], of(found, "bad_attempts")[10e6]) == (2, 1), "and is kept"


def test_a_breakdown_in_the_first_attempt_is_kept(climbed: Climb) -> None:
    """The second attempt is in a tunnel that was made anew, and is carried."""
    bench = MadeUp(limit_bps=400e6)
    climb = Ladder().measure(bench, asked(carried="datagrams"))  # type: ignore[arg-type]
    next(climb)
    bench.breaks_bps = 20e6
    renew = bench.renew

    def mended() -> None:
        bench.breaks_bps = 1e12
        renew()

    bench.renew = mended  # type: ignore[method-assign]
    found = dict(climb.send(Go.ON))
    assert found["ladder_rate"] == 300e6
    assert of(found, "broke_down")[30e6] == 1
    assert (of(found, "attempts")[30e6], of(found, "bad_attempts")[30e6]) == (2, 1)


@pytest.mark.parametrize("share", [0.4, 0.6])
def test_the_share_of_bad_attempts_is_the_tunnels_own(climbed: Climb, share: float) -> None:
    """A second attempt does not square it."""
    rng, bench = random.Random(5), MadeUp(limit_bps=15e6)
    bench.through = lambda rate_bps: min(rate_bps, 15e6) / (2 if rng.random() < share else 1)  # type: ignore[method-assign]
    found, _ = climbed(bench, visits=400)
    attempts, bad = (sum(of(one, name)[10e6] for one in found) for name in ("attempts", "bad_attempts"))
    assert bad / attempts == pytest.approx(share, abs=0.06)
    assert statistics.fmean(of(one, "carried_ratio")[10e6] < 1 for one in found) == pytest.approx(share, abs=0.06)


@pytest.mark.parametrize(
    ("carried", "errors"),
    [
        ("tcp", [InstrumentError("the probe visit died")]),
        ("tcp", [MeasurementError("the probe visit died: a bug")] * 2),
        ("datagrams", [MeasurementError("interface and filter do not agree")] * 2),
    ],
)
def test_an_instrument_that_fails_is_no_result_of_the_vpn(
    climbed: Climb, carried: str, errors: list[Exception]
) -> None:
    with pytest.raises(type(errors[0]), match=str(errors[0])):
        climbed(MadeUp(limit_bps=1e12, errors=errors), carried)


def test_where_nobody_counts_cpu_time_the_rest_is_measured(climbed: Climb) -> None:
    (found,), _ = climbed(MadeUp(limit_bps=150e6, counts_cpu=False))
    assert not of(found, "cpu_s")
    assert found[at_rate("carried_ratio", 100e6)] == 1


def test_without_rounds_one_climb_is_the_measurement(climbed: Climb, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROFILES, "quick", replace(PROFILES["quick"], rounds=0))
    found, measured = climbed(MadeUp(limit_bps=150e6), visits=5)
    assert len(found) == 1
    assert measured


@pytest.mark.parametrize("carried", ["tcp", "datagrams"])
@pytest.mark.parametrize("vpn", ["none", "openvpn", "ssh_forward"])
def test_the_cpu_time_of_a_load_is_that_of_no_probe(climbed: Climb, vpn: str, carried: str) -> None:
    """So what is subtracted has no probe in it that a VPN which carries no datagrams cannot have."""
    bench = MadeUp(limit_bps=5e6)
    climbed(bench, "tcp" if vpn == "ssh_forward" else carried, vpn)
    probe = [] if vpn == "ssh_forward" else ["probe in 0.001 s"]  # when the time is over in which it is counted
    assert bench.events[: 3 + len(probe)] == ["cpu", "load", *probe, "cpu"]


@pytest.mark.parametrize("vpn", ["none", "openvpn", "ssh_forward"])
def test_machines_of_their_own_have_the_same_probe_for_all(climbed: Climb, vpn: str) -> None:
    bench = MadeUp(limit_bps=5e6, shared_kernel=False)
    climbed(bench, vpn=vpn)
    assert bench.events[:4] == ["cpu", "load", "probe", "cpu"]


def test_cpu_time_that_went_backwards_is_not_known(climbed: Climb, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = [{"seconds": 0.1 * at, "cpu_s": 99.0 - at, "gw1_cpu_s": 1.0 + at} for at in range(99)]
    monkeypatch.setattr(ladder, "spent_s", lambda lab: readings.pop(0))
    (found,), _ = climbed(MadeUp(limit_bps=5e6))
    assert not of(found, "cpu_s")
    assert of(found, "gw1_cpu_s") == {10e6: 1.0}
