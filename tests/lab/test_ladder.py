"""The ladder of rates through real tunnels, over plain IP, and over a link that carries less than a rung."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.slices import at_rate
from runner.data.store import load_run
from runner.data.wan import Conditions
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, Go, Measuring
from runner.instruments.tools.visits import visits
from runner.instruments.traffic.ladder import Ladder
from runner.lab.places import NamespaceRig
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import SITES, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, make_secrets, start_services
from tests.lab.commands import vpneval

LINK_BPS, LOWEST, ABOVE = 60e6, 10e6, 100e6
KINDS = ("tcp", "datagrams", "calls")


@contextmanager
def bench_of(image: Image, folder: Path, name: str, rate_bps: float | None = None) -> Iterator[Bench]:
    vpn = load_vpn(name)
    with namespace_lab(image, logs=folder) as lab:
        if rate_bps:
            wan.apply(lab, Conditions(rate_bps=rate_bps))
        start_services(lab)
        secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES)
        up = bring_up(lab, vpn, vpn.recommended, secrets)
        bench = Bench(lab, up, lambda: (lab, up))
        try:
            yield bench
        finally:
            bench.close()


def climbing(bench: Bench, name: str, carried: str) -> Measuring:
    vpn = load_vpn(name)
    params = {**vpn.recommended, "measure": "ladder", "carried": carried}
    return Ladder().measure(bench, Asked(vpn, params, PROFILES["quick"], 1))


def at(found: Mapping[str, float], name: str, rate_bps: float) -> float:
    return found[at_rate(name, rate_bps)]


@pytest.mark.parametrize(
    "name", ["none", *(pytest.param(name, marks=pytest.mark.smoke) for name in ("openvpn", "ssh_forward"))]
)
def test_a_ladder_has_what_is_carried_and_what_that_costs(image: Image, tmp_path: Path, name: str) -> None:
    with bench_of(image, tmp_path, name) as bench:
        for carried in KINDS if name != "ssh_forward" else KINDS[:1]:
            measuring = climbing(bench, name, carried)
            visits = [next(measuring), measuring.send(Go.ON), measuring.send(Go.ON)]
            assert max(at(found, "carried_ratio", LOWEST) for found in visits) > 0.95
            assert max(found["ladder_rate"] for found in visits) >= LOWEST
            counted = [found for found in visits if at_rate("cpu_s", LOWEST) in found]
            assert counted, "a machine that lets nobody wake up in time"
            for found in counted:
                assert 0 < at(found, "cpu_s", LOWEST) < 2 * at(found, "seconds", LOWEST) * 64
                assert 0.1 < at(found, "seconds", LOWEST) < 2
                carried_bps = 8 * at(found, "carried_bytes", LOWEST) / at(found, "seconds", LOWEST)
                assert carried_bps == pytest.approx(LOWEST, rel=0.5)
                parts = [at(found, f"{part}_cpu_s", LOWEST) for part in ("gw1", "gw2", "threads")]
                assert 0 <= sum(parts) < at(found, "cpu_s", LOWEST)
                if name == "openvpn":  # whose gateways' processes do the work
                    assert min(parts[:2]) > 0.02 * at(found, "cpu_s", LOWEST)
                assert all(0 <= value <= 1 for key, value in found.items() if "_ratio@" in key)
                if name != "ssh_forward":
                    assert 0 < at(found, "delay_p50_ms", LOWEST) <= at(found, "delay_p95_ms", LOWEST) < 1000
                else:
                    assert at_rate("delay_p50_ms", LOWEST) not in found
            assert not any(value for found in visits for key, value in found.items() if key.startswith("broke_down@"))


@pytest.mark.smoke
@pytest.mark.parametrize("carried", KINDS)
def test_a_rate_above_that_of_the_link_is_not_carried_and_is_a_result(
    image: Image, tmp_path: Path, carried: str
) -> None:
    with bench_of(image, tmp_path, "none", LINK_BPS) as bench:
        found = next(climbing(bench, "none", carried))
        assert found["ladder_rate"] < ABOVE
        highest = max(float(key.partition("@")[2]) for key in found if "@" in key)
        assert highest <= ABOVE, "it has not climbed on"
        if highest == ABOVE:
            share = LINK_BPS / ABOVE
            assert share / 2 < at(found, "carried_ratio", ABOVE) < 0.95
            assert at(found, "delay_p50_ms", ABOVE) > at(found, "delay_p50_ms", LOWEST), "the queue of the link"
        assert not at(found, "broke_down", highest)


@pytest.mark.smoke
def test_a_run_whose_vpns_carry_no_rate_at_all_ends_well(image: Image, tmp_path: Path) -> None:
    levels = "measure=ladder,wan_rate_bps=3440000"
    done = vpneval(
        "run", "choose", "--vpn", "openvpn", "--profile", "smallest", "--set", levels, "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    _, trials = load_run(tmp_path / "run")
    assert len(trials) == 4
    for trial in trials:
        assert (trial.status, [found.value for found in trial.measurements]) == ("ok", [0.0]), trial.reason
        (rung,) = trial.curve
        assert max(share or 0.0 for share in rung.values["carried_ratio"]) < 0.5


SLOW = """
from vpns.none import PlainIp


class Slow(PlainIp):
    reference = False

    def start(self, node, me, peers, params):
        super().start(node, me, peers, params)
        shape = ("tbf", "rate", "200kbit", "burst", "4000", "latency", "50ms")
        node.run("tc", "qdisc", "add", "dev", me.wan_interface, "root", *shape)
"""


def test_a_vpn_that_is_slower_than_any_rate_that_is_tried_is_no_error(image: Image, tmp_path: Path) -> None:
    """Neither its ladders nor its UDP search find a rate; its TCP does. It is a plugin of the user's own."""
    (tmp_path / "slow.py").write_text(SLOW)
    argv = ("run", "choose", "--vpn", tmp_path / "slow.py", "--reps", 1, "--rounds", 2, "--out", tmp_path / "run")
    done = vpneval(*argv)
    assert done.returncode == 0, done.stdout + done.stderr
    _, trials = load_run(tmp_path / "run")
    slow = {trial.params["measure"]: trial for trial in trials if trial.vpn == "slow"}
    assert (slow["ladder"].status, slow["ladder"].measurements[0].value) == ("ok", 0.0)
    assert slow["udp"].attempt.get("flags") == ["no_throughput"], slow["udp"]
    rates = {found.metric: found.value for found in slow["tcp"].measurements}
    assert 50e3 < rates["tcp_throughput"] < 1e6


# Times the CPU time of a byte that is sent as fast as it goes: a sender wakes up as often at either rate.
SPINS = {1e9: 6.0, 3e9: 3.0}


def test_a_paced_sender_holds_its_rate_and_sleeps_meanwhile(image: Image, tmp_path: Path) -> None:
    """At 1 and 3 Gbit/s, beside one that sends as fast as it can, in turns: by CPU seconds of its host."""
    with bench_of(image, tmp_path, "none") as bench:
        if bench.lab.host1.cpu_s() is None:
            pytest.skip("this machine does not count the CPU time of a node")
        found: dict[float | None, list[tuple[float, float]]] = {None: [], **{rate: [] for rate in SPINS}}
        for _ in range(7):
            for rate_bps, visits_of in found.items():
                before_s = bench.lab.host1.cpu_s() or 0.0
                transfer = visits(bench).tcp(0.2, rate_bps=rate_bps)
                spent_s = (bench.lab.host1.cpu_s() or 0.0) - before_s
                came_bps = 8 * transfer["bytes"] / transfer["seconds"]
                visits_of.append((came_bps, spent_s / transfer["carried_bytes"]))
        (free_bps, free_s), *paced = (
            tuple(statistics.median(one[at] for one in each) for at in (0, 1)) for each in found.values()
        )
        if free_bps < 1.3 * max(SPINS):
            pytest.skip(f"this machine carries {free_bps / 1e9:.1f} Gbit/s now: too little to pace 3 Gbit/s")
        for rate_bps, (came_bps, byte_s) in zip(SPINS, paced, strict=True):
            assert came_bps == pytest.approx(rate_bps, rel=0.05)
            print(f"{rate_bps / 1e9:g} Gbit/s: {byte_s / free_s:.2f} times the CPU time")
            assert byte_s < SPINS[rate_bps] * free_s


def test_two_ladders_of_one_tunnel_agree_on_what_a_rate_costs(image: Image, tmp_path: Path) -> None:
    """The medians of six visits each, which take turns."""
    with bench_of(image, tmp_path, "openvpn") as bench:
        both = [climbing(bench, "openvpn", "tcp") for _ in range(2)]
        costs: list[list[float]] = [[], []]
        for visit in range(6):
            for one, measuring in zip(costs, both, strict=True):
                found = measuring.send(Go.ON) if visit else next(measuring)
                if at_rate("cpu_s", LOWEST) in found:
                    one.append(at(found, "cpu_s", LOWEST) / at(found, "carried_bytes", LOWEST))
        first, second = (sorted(one)[len(one) // 2] for one in costs)
        assert first == pytest.approx(second, rel=0.25)
