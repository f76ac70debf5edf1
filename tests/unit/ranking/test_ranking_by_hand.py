"""Single numbers of the ranking worked by hand: what is said of limits, spreads, machines, and of who has no place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from runner.data.limits import judge
from runner.data.loads import MachineLoad, PortLoad, QuotaLoad
from runner.data.own_cores import on_own_cores
from runner.evidence.estimates import RoundValues, components, estimate_pairs
from runner.evidence.stats import summarise
from runner.ranking.basis import Basis, bases
from runner.ranking.draws import draw_means
from runner.ranking.looks import nominal
from runner.ranking.machines import on_machines
from runner.ranking.model import LEVEL, Weights
from runner.ranking.verdicts import probabilities, seconds_to_decide, verdicts
from tests.unit.data.test_limits import TUNNEL, cores, machine, process
from tests.unit.reports import THREE, places, rank, ranked, trials_of
from tests.unit.synthetic import METRICS, make_run

ONLY_TCP = Weights(name="", values={"tcp_throughput": 1})
IDLE = (0.5, 0.5)


# What limits a throughput


def throttled(node: str, *, held_s: float = 0.0, used_up: int = 0) -> QuotaLoad:
    return QuotaLoad(nodes=[node], cores=0.2, periods=100, used_up=used_up, held_back_s=held_s)


def test_of_two_quotas_the_one_that_holds_back_more_of_its_time_is_named() -> None:
    """4 of 10 s are more than 12 of 60."""
    short = machine(*TUNNEL, busy=IDLE, quotas=[throttled("gw1", held_s=4)])
    long = machine(*TUNNEL, busy=IDLE, quotas=[throttled("gw2", held_s=12)]).model_copy(update={"seconds": 60})
    for machines in ([short, long], [long, short]):
        found = judge(machines)
        assert found is not None
        assert found.sentence == "gw1's quota: throttled 40 % of the time"


@pytest.mark.parametrize(("used_up", "limits"), [(1, False), (29, False), (30, True)])
def test_a_quota_limits_from_three_tenths_of_its_periods_on(used_up: int, limits: bool) -> None:
    found = judge([machine(*TUNNEL, busy=IDLE, quotas=[throttled("gw2", used_up=used_up)])])
    assert found is not None
    assert (found.kind == "quota") is limits


def test_the_three_ports_that_dropped_most_are_evidence_the_worst_first() -> None:
    ports = [
        PortLoad(node="wan", port=f"p{drops}", queue="", packets=10**6, drops=drops, waited=0) for drops in (1, 5, 3, 2)
    ]
    found = judge([machine(*TUNNEL, busy=IDLE, ports=ports)])
    assert found is not None
    dropped = [line for line in found.evidence if line.endswith("dropped")]
    assert [line.split(":")[1] for line in dropped] == [f" {drops} of 1000000 packets dropped" for drops in (5, 3, 2)]


def test_on_a_machine_of_its_own_the_limit_has_its_name() -> None:
    two = process("gw1", "charon", 0.7), process("gw1", "openvpn", 0.7)
    own, shared = machine(*two, name="gw1", nodes=["gw1"]), machine(*two)
    busy, together = judge([own]), judge([shared])
    assert busy is not None
    assert together is not None
    most = "both cores busy, most by gw1's charon (70 % of one) and gw1's openvpn (70 % of one)"
    assert (busy.sentence, busy.where) == (f"gw1: {most}", "gw1")
    assert (together.sentence, together.where) == (f"shared cores: {most}", "")
    stolen = judge([machine(*TUNNEL, name="gw1", nodes=["gw1"], cores=cores(*IDLE, steal=0.3))])
    assert stolen is not None
    assert (stolen.kind, stolen.where) == ("steal", "gw1")


# What separate gateways would carry


def of(load: MachineLoad) -> int:
    found = on_own_cores([[load]])
    assert found is not None
    return found.threads


def test_a_program_whose_load_is_one_threads_is_told_as_one_thread() -> None:
    one = process("gw1", "charon", 1.0, threads=17, thread=0.99)
    nine = process("gw1", "wireguard-go", 0.9, threads=9, thread=0.1)
    assert of(machine(one, carried_bytes=10**9)) == 1
    assert of(machine(nine, carried_bytes=10**9)) == 9
    assert of(machine(nine, nodes=["gw1", "gw2"], carried_bytes=10**9)) == 9, "two nodes on one machine share it"


# Spreads


def test_two_repetitions_have_a_coefficient_of_variation() -> None:
    """Of 1 and 3: a standard deviation of √2, over 2. Of one: none."""
    assert summarise([1.0, 3.0]).variation == pytest.approx(math.sqrt(2) / 2)
    assert summarise([1.0]).variation is None


def one_by_one(logs: Sequence[Sequence[float]]) -> dict[str, RoundValues]:
    """Each round has a tunnel of its own."""
    return {
        str(vpn): RoundValues(dict(enumerate(map(math.exp, own))), {number: number for number in range(len(own))})
        for vpn, own in enumerate(logs)
    }


@pytest.mark.parametrize(("vpns", "freedom", "wider"), [(3, 7, 1.0), (4, 14, 1.08069)])
def test_from_four_vpns_on_pairs_lend_each_other_their_spread(vpns: int, freedom: float, wider: float) -> None:
    """Each VPN is out by 0.1 in a round of its own: the logs of each pair have a variance of 0.02 / 7, their mean an
    eighth of it. Smyth 2004: ln of a variance with 7 degrees of freedom is low by ln 3.5 - ψ(3.5) = 0.14961 on the
    average, so that the common one is exp(0.14961) = 1.16138 times as large; with 7 each, the mean of the two is
    1.08069 times."""
    logs = [[0.1 * (number == vpn) for number in range(8)] for vpn in range(vpns)]
    for one in estimate_pairs(one_by_one(logs)).values():
        assert one.freedom == pytest.approx(freedom)
        assert one.error**2 == pytest.approx(wider * 0.02 / 7 / 8, rel=1e-4)


def in_turns(logs: Sequence[float], instances: int) -> RoundValues:
    each = len(logs) // instances
    return RoundValues(dict(enumerate(map(math.exp, logs))), {number: number // each for number in range(len(logs))})


def test_neighbours_as_far_apart_as_the_cube_root_of_the_rounds_count() -> None:
    """A ratio that rises by one step a round, in eight: neighbours have the correlations 15/21 and 23/63, each with the
    eighth that the mean takes. The third, 0.08, does not count any more."""
    found = components({"a": in_turns([0.01 * n for n in range(8)], 1), "b": in_turns([0.0] * 8, 1)})
    assert found is not None
    assert found.autocorrelation == pytest.approx(1 + 2 * (15 / 21 + 1 / 8 + 23 / 63 + 1 / 8))


def test_a_vpn_that_scatters_says_little_of_how_tunnels_differ() -> None:
    """The first VPN's tunnels are 10 % apart: their means' variance is 0.005, of which the rounds' own error takes
    2 · 0.12 · 0.0025 · 12 / 11; of a VPN's own tunnels half of that. The third one's slices scatter by a half."""
    fine = [0.001 * (-1) ** n for n in range(12)]
    values = {"a": in_turns([one + 0.05 * (1 if n < 6 else -1) for n, one in enumerate(fine)], 2)}
    values["b"] = in_turns([0.0] * 12, 2)
    two, three = components(values), components({**values, "c": in_turns([500 * one for one in fine], 2)})
    assert two is not None
    assert three is not None
    assert two.instance == pytest.approx(math.sqrt(0.004345 / 2), rel=0.01)
    assert three.instance == pytest.approx(two.instance, rel=0.01)


def test_a_block_that_one_vpn_has_alone_tells_nothing_of_it() -> None:
    shared = {"a": {0: 1.0, 1: 1.1}, "b": {0: 2.0, 1: 2.5}}
    more = {"a": {0: 1.0, 1: 1.1, 2: 9.0}, "b": {0: 2.0, 1: 2.5}}
    drawn, again = (draw_means(values, np.random.default_rng(1)) for values in (shared, more))
    assert np.allclose(drawn[:, 0] - drawn[:, 1], again[:, 0] - again[:, 1])


# Verdicts, places and reasons


def basis_of(*vpns: str) -> Basis:
    values = {vpn: {"tcp_throughput": 100.0 + 4 * number} for number, vpn in enumerate(vpns)}
    (basis,) = bases(make_run(vpns), trials_of(values, (0.93, 1.0, 1.06)), configurations=["comparable"])
    return basis


def test_how_much_longer_is_by_the_level_of_the_last_look() -> None:
    basis = basis_of("openvpn", "ssh_tun")
    basis = replace(basis, seconds={"tcp_throughput": {"openvpn": 10.0, "ssh_tun": 20.0}})
    (found,) = verdicts([basis], [{"tcp_throughput"}], looks=6, share=0.5)
    assert found.decision == "undecided"
    (pair,) = basis.pairs("tcp_throughput").values()
    tested = probabilities(METRICS["tcp_throughput"], "openvpn", "ssh_tun", pair)
    assert found.seconds == seconds_to_decide(tested, nominal(LEVEL, 6), 30.0)


def test_who_is_not_ranked_is_behind_the_last_place() -> None:
    """Also where its name comes first."""
    found = ranked(THREE | {"fastd": {"tcp_throughput": 2000.0}}, {"tcp_throughput": 1, "rtt": 1})
    assert [one.place for one in found.standings] == [1, 2, 3, None]
    assert places(found)["fastd"] is None


def test_a_port_forwarder_is_told_to_lack_what_it_could_have() -> None:
    found = ranked({"openvpn": {"tcp_throughput": 1.0}, "ssh_forward": {"rtt": 1.0}}, {"tcp_throughput": 1})
    assert found.standings[-1].missing == {"tcp_throughput": "not measured"}


# Machines of a farm


@pytest.mark.parametrize(("deviations", "stands_out"), [(5.7, []), (6.0, ["m4"]), (-6.0, ["m4"])])
def test_a_machine_stands_out_by_student_s_t_with_three_degrees_of_freedom(
    deviations: float, stands_out: list[str]
) -> None:
    """Of five machines, at 5 % in all: each at half a per cent on either side, which is 5.841 deviations of a new value
    from four others, with 0, 0 and ± 1 %: √(0.0002 / 3) · √(5 / 4)."""
    deviation = math.sqrt(0.0002 / 3) * math.sqrt(5 / 4)
    ratios = [0.0, 0.01, -0.01, 0.0, deviations * deviation]
    names = [f"m{number}" for number in range(5)]
    machines = {number: number // 2 for number in range(10)}  # two blocks each
    first = RoundValues({number: math.exp(ratios[place]) for number, place in machines.items()}, machines, names)
    second = RoundValues(dict.fromkeys(machines, 1.0), machines, names)
    run, trials = (
        make_run(("openvpn", "ssh_tun")),
        trials_of({vpn: {"tcp_throughput": 1.0} for vpn in ("openvpn", "ssh_tun")}),
    )
    ranking = rank(run, trials, configuration="comparable", weights=ONLY_TCP)
    leader, other = (one.vpn for one in ranking.standings)
    basis = replace(basis_of("openvpn", "ssh_tun"), values={"tcp_throughput": {leader: first, other: second}})
    found = on_machines(basis, ranking)
    assert found is not None
    assert [one.machine for one in found.machines if one.stands_out] == stands_out
