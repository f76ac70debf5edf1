"""The weighted average rank worked by hand, and everything that can go wrong around it."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from questions.compare.runs import compare_runs
from questions.rank.caveats import unusual_traffic
from questions.rank.places import unranked_vpns
from runner.data.errors import UsageError
from runner.data.merge import merge_runs
from runner.data.trials import Measurement, Run, Status, Trial
from runner.evidence.estimates import RoundValues
from runner.ranking.basis import bases
from runner.ranking.draws import draw_means, draw_ranks, order_of
from runner.ranking.model import Weights
from runner.ranking.ranking import weighted_average
from runner.ranking.weights import default_weights
from tests.unit.reports import THREE, averages, metric_ranks, places, rank, rank_all, ranked, trials_of
from tests.unit.synthetic import CBC, IDLE, METRICS, TCP, UDP, make_run, make_trial, realistic_run


def test_the_papers_rule_by_hand() -> None:
    """Equal weights: (1+3)/2, (2+x)/2, (3+3-x)/2, where x is openvpn's expected rank among the two that tie in RTT."""
    equal = ranked(THREE, {"tcp_throughput": 1, "rtt": 1})
    x = next(standing.ranks["rtt"] for standing in equal.standings if standing.vpn == "openvpn")
    assert 1 < x < 2
    assert averages(equal) == approx({"openvpn": (2 + x) / 2, "ipsec": 2.0, "ssh_tun": (6 - x) / 2})
    assert places(equal) == {"openvpn": 1, "ipsec": 2, "ssh_tun": 3}
    heavy = ranked(THREE, {"tcp_throughput": 3, "rtt": 1})
    assert averages(heavy) == approx({"ipsec": 1.5, "openvpn": (6 + x) / 4, "ssh_tun": (9 + 3 - x) / 4})
    assert [standing.place for standing in heavy.standings] == [1, 2, 3]
    assert (
        weighted_average({"tcp_throughput": 2, "rtt": 5}, Weights(name="", values={"rtt": 0, "tcp_throughput": 9})) == 2
    )


def approx(found: dict[str, float]) -> Any:
    """Draws with some noise are hardly ever otherwise: to a hundredth of a rank."""
    return pytest.approx(found, abs=0.01)


def test_overlap_ties_and_a_tie_can_be_chained() -> None:
    """Noisy neighbours tie, though the ends of the chain are separated: a < b is not seen, a < c is."""
    noisy = {
        "a": {0: 100.0, 1: 104.0, 2: 96.0},
        "b": {0: 104.0, 1: 99.0, 2: 106.0},
        "c": {0: 112.0, 1: 114.0, 2: 110.0},
    }
    assert metric_ranks(METRICS["tcp_throughput"], noisy) == {"a": 2, "b": 1, "c": 1}
    assert metric_ranks(METRICS["rtt"], noisy) == {"a": 1, "b": 1, "c": 2}


def test_one_block_ties_all() -> None:
    assert metric_ranks(METRICS["rtt"], {"a": {0: 1.0}, "b": {0: 1000.0}}) == {"a": 1, "b": 1}


@pytest.mark.parametrize("status", ["unsupported", "failed"])
def test_a_vpn_without_a_weighted_metric_is_listed_with_its_reason(status: Status) -> None:
    values = THREE | {"ssh_forward": {"tcp_throughput": 2000.0}}
    extra = [make_trial("ssh_forward", CBC | IDLE, 0, status=status, reason="no idle today")]
    ranking = ranked(values, {"tcp_throughput": 1, "rtt": 1}, extra=extra)
    last = ranking.standings[-1]
    assert (last.vpn, last.place, last.average) == ("ssh_forward", None, None)
    assert last.missing == {"rtt": f"{status}: no idle today"}
    assert last.ranks == approx({"tcp_throughput": 1})  # it counts in what it delivers
    assert averages(ranking)["ipsec"] == pytest.approx(2.5, abs=0.01)


def test_a_port_forwarder_is_not_blamed_for_udp() -> None:
    ranking = ranked({"openvpn": {"jitter": 1.0}, "ssh_forward": {"rtt": 1.0}}, {"jitter": 1})
    assert ranking.standings[-1].missing == {"jitter": "carries TCP only"}


def test_references_are_not_ranked_and_other_traffic_does_not_count() -> None:
    values = {"none": {"tcp_throughput": 9999.0}, **THREE}
    other = [
        make_trial("ssh_tun", CBC | TCP | change, block, {"tcp_throughput": 99999.0})
        for change in ({"payload": "zeros"}, {"streams": "4"}, {"direction": "reverse"}, {"cipher": "aes-256-gcm"})
        for block in range(3)
    ]
    ranking = ranked(values, {"tcp_throughput": 1}, extra=other)
    assert averages(ranking) == approx({"ipsec": 1, "openvpn": 2, "ssh_tun": 3})
    assert ranking.traffic["tcp_throughput"] == TCP


def test_udp_is_ranked_at_one_payload_length() -> None:
    small = [
        make_trial("ssh_tun", CBC | UDP | {"payload_bytes": "64"}, block, {"udp_throughput": 9e9}) for block in range(3)
    ]
    values = {"openvpn": {"udp_throughput": 200.0}, "ssh_tun": {"udp_throughput": 100.0}}
    ranking = ranked(values, {"udp_throughput": 1}, extra=small)
    assert averages(ranking) == approx({"openvpn": 1, "ssh_tun": 2})
    assert ranking.traffic["udp_throughput"]["payload_bytes"] == "1300"


def test_probability_of_best_against_the_closed_form() -> None:
    """Two VPNs, one metric: the chance is that of the difference of two independent t variables."""
    a, b = {0: 100.0, 1: 103.0, 2: 97.0}, {0: 101.0, 1: 101.5, 2: 102.0}
    run = make_run(("ipsec", "openvpn"))
    trials = [
        make_trial(vpn, CBC | TCP, block, {"tcp_throughput": value})
        for vpn, blocks in (("ipsec", a), ("openvpn", b))
        for block, value in blocks.items()
    ]
    weights = Weights(name="", values={"tcp_throughput": 1})
    ranking = rank(run, trials, configuration="comparable", weights=weights)
    chances = {standing.vpn: standing.best_probability for standing in ranking.standings}
    assert places(ranking) == {"ipsec": 2, "openvpn": 1}
    assert [standing.ties for standing in ranking.standings] == [["ipsec"], ["openvpn"]]
    assert chances["ipsec"] is not None
    assert chances["openvpn"] is not None
    assert chances["ipsec"] + chances["openvpn"] == pytest.approx(1)
    # Each mean has 1/√2 of the paired difference's standard error, and two degrees of freedom.
    logs = [math.log(b[block] / a[block]) for block in a]
    t = np.random.default_rng(0).standard_t(2, (2, 400_000))
    drawn = np.mean(logs) + scipy_stats.sem(logs) / math.sqrt(2) * (t[0] - t[1])
    assert chances["openvpn"] == pytest.approx(float((drawn > 0).mean()), abs=0.012)
    assert rank(run, trials, configuration="comparable", weights=weights) == ranking  # seeded
    once = [trial for trial in trials if trial.repetition == 0]
    alone = rank(run, once, configuration="comparable", weights=weights)
    assert "no probability" in alone.probability_method
    assert [(pair.probability, pair.separated) for pair in alone.pairs] == [(None, False)]
    assert places(alone) == {"ipsec": 1, "openvpn": 1}
    assert {standing.average for standing in alone.standings} == {1.5}  # nothing is known: both have the middle rank


def test_places_and_pairs_follow_from_the_draws() -> None:
    """a and b cannot be told apart, c is far behind: a and b share two places, and only that pair is in doubt."""
    values = {
        "a": {0: 100.0, 1: 104.0, 2: 96.0, 3: 101.0},
        "b": {0: 101.0, 1: 99.0, 2: 103.0, 3: 97.0},
        "c": {0: 10.0, 1: 10.2, 2: 9.9, 3: 10.1},
    }
    drawn = draw_ranks(METRICS["tcp_throughput"], values, set(), 1)
    assert drawn is not None
    order = order_of({"tcp_throughput": drawn}, {"tcp_throughput": 1.0}, ("a", "b", "c"))
    assert order.place_intervals() == {"a": (1, 2), "b": (1, 2), "c": (3, 3)}
    before, equal = order.pair("a", "b")
    assert 0.05 < before < 0.95
    assert equal == 0
    assert order.pair("b", "c")[0] > 0.99
    ranking = ranked(THREE, {"tcp_throughput": 1})
    assert [(pair.first, pair.second, pair.separated) for pair in ranking.pairs] == [
        ("ipsec", "openvpn", True),
        ("openvpn", "ssh_tun", True),
    ]
    assert [standing.place_interval for standing in ranking.standings] == [(1, 1), (2, 2), (3, 3)]


def test_one_block_of_verdicts_and_counts_is_sure_and_of_a_measurement_says_nothing() -> None:
    verdicts = {"a": {1: 1.0}, "b": {1: 0.0}, "c": {1: 1.0}}
    drawn = draw_ranks(METRICS["anti_replay"], verdicts, set(), 1)
    assert drawn is not None
    order = order_of({"anti_replay": drawn}, {"anti_replay": 2.0}, ("a", "b", "c"))
    assert order.chances_of_best() == {"a": 0.5, "b": 0.0, "c": 0.5}
    assert order.place_intervals() == {"a": (1, 1), "b": (3, 3), "c": (1, 1)}
    assert (order.pair("a", "b"), order.pair("a", "c")) == ((1.0, 0.0), (0.0, 1.0))
    assert draw_ranks(METRICS["tcp_throughput"], {"a": {1: 9e8}, "b": {1: 1e6}}, set(), 1) is None


def test_a_certain_tie_is_a_tie() -> None:
    """One is surely better in TCP, the other surely in RTT: the averages are equal, and more blocks change nothing."""
    values = {"ipsec": {"tcp_throughput": 900.0, "rtt": 3.0}, "openvpn": {"tcp_throughput": 300.0, "rtt": 1.0}}
    ranking = ranked(values, {"tcp_throughput": 1, "rtt": 1})
    assert ranking.pairs[0].equal is not None
    assert ranking.pairs[0].equal > 0.95
    assert [standing.ties for standing in ranking.standings] == [["openvpn"], ["ipsec"]]


def test_draws_in_which_two_are_equal_say_nothing_for_an_order() -> None:
    """Surely better in TCP, and in RTT a coin flip: in half of the draws ahead, in the others level."""
    values = {"ipsec": {"tcp_throughput": 900.0, "rtt": 1.0}, "openvpn": {"tcp_throughput": 300.0, "rtt": 1.0}}
    pair = ranked(values, {"tcp_throughput": 1, "rtt": 1}).pairs[0]
    assert pair.probability is not None
    assert 0.2 < pair.probability < 0.8
    assert (pair.first, pair.separated) == ("ipsec", False)


def test_two_that_are_equal_in_every_round_are_equal_in_every_draw() -> None:
    """Whatever the others' spread adds to theirs, and however their last digits were rounded."""
    noisy = {block: 80.0 * (1 + 0.1 * (-1) ** block * block) for block in range(1, 7)}
    flat = dict.fromkeys(range(1, 7), 80.0)
    values = {"a": flat, "b": {block: 80.0 * (1 + 2e-16 * block) for block in flat}, "c": noisy}
    turns = {vpn: RoundValues(blocks, dict.fromkeys(blocks, 1)) for vpn, blocks in values.items()}
    for given in (values, turns, {vpn: {**blocks, 7: 0.0} for vpn, blocks in values.items()}):
        drawn = draw_ranks(METRICS["rtt"], given, set(), 1)
        assert drawn is not None
        assert (drawn.doubled[:, 0] == drawn.doubled[:, 1]).all()
        assert len(set(drawn.doubled[:, 2].tolist())) > 1, "the third has a spread of its own"


def test_who_was_measured_badly_does_not_lead_by_ties() -> None:
    """Two of openvpn's blocks are far apart, so that nothing can be shown against it; what is likely puts it second."""
    run = make_run(("ipsec", "openvpn"))
    blocks = {
        "ipsec": {"tcp_throughput": (100.0, 101.0, 99.0), "rtt": (1.0, 1.01, 0.99)},
        "openvpn": {"tcp_throughput": (98.0, 140.0, 20.0), "rtt": (0.9, 0.91, 0.89)},
    }
    trials = [
        make_trial(vpn, CBC | (IDLE if metric == "rtt" else TCP), block, {metric: value})
        for vpn, metrics in blocks.items()
        for metric, values in metrics.items()
        for block, value in enumerate(values)
    ]
    weights = Weights(name="", values={"tcp_throughput": 3, "rtt": 1})
    ranking = rank(run, trials, configuration="comparable", weights=weights)
    assert places(ranking) == {"ipsec": 1, "openvpn": 2}
    assert not ranking.pairs[0].separated
    assert [standing.ties for standing in ranking.standings] == [["openvpn"], ["ipsec"]]


def test_one_vpn_is_no_ranking() -> None:
    ranking = ranked({"openvpn": {"rtt": 1.0}, "ssh_tun": {"tcp_throughput": 1.0}}, {"rtt": 1})
    assert {standing.place for standing in ranking.standings} == {None}
    assert unranked_vpns(ranking) == [("openvpn", "a ranking needs two VPNs", ""), ("ssh_tun", "not measured", "")]


def test_draws_of_uneven_blocks_take_off_what_moves_a_block() -> None:
    """Blocks twice and half as fast, some with two of three VPNs: the spread left is the VPNs' own, 1 %."""
    pace = (1.0, 2.0, 0.5, 1.5, 0.7, 1.2)
    noise = (1.01, 0.99, 1.0, 1.01, 0.99, 1.0)
    values = {
        vpn: {block: level * pace[block] * noise[(block + shift) % 6] for block in range(last)}
        for shift, (vpn, level, last) in enumerate([("a", 100.0, 6), ("b", 110.0, 6), ("c", 130.0, 3)])
    }
    drawn = np.exp(draw_means(values, np.random.default_rng(1)))
    middle = np.median(drawn, axis=0)
    assert middle[1] / middle[0] == pytest.approx(1.1, rel=0.02)
    assert middle[2] / middle[0] == pytest.approx(1.3, rel=0.02)
    low, high = np.quantile(drawn, [0.25, 0.75], axis=0)
    assert (high / low < 1.03).all()
    # Without a shared block there is nothing to compare within, and nothing is taken off.
    apart = {"a": {0: 100.0, 1: 200.0}, "b": {2: 100.0, 3: 50.0}}
    low, high = np.quantile(draw_means(apart, np.random.default_rng(1)), [0.25, 0.75], axis=0)
    assert (high - low > 0.5).all()


def test_one_block_borrows_the_spread_of_the_others() -> None:
    values = {"a": {0: 100.0, 1: 102.0, 2: 98.0}, "b": {0: 50.0, 1: 51.5, 2: 49.0}, "c": {1: 70.0}}
    drawn = draw_means(values, np.random.default_rng(1))
    widths = np.subtract(*np.quantile(drawn, [0.75, 0.25], axis=0))
    assert 0 < widths[2] < 0.1
    assert widths[2] > widths[0]


def test_what_is_known_from_below_only_is_never_called_worse() -> None:
    values = {"a": {0: 300.0, 1: 303.0, 2: 297.0}, "b": {0: 100.0, 1: 101.0, 2: 99.0}, "c": {0: 50.0, 1: 49.5, 2: 50.5}}
    udp = METRICS["udp_throughput"]
    assert metric_ranks(udp, values) == {"a": 1, "b": 2, "c": 3}
    assert metric_ranks(udp, values, {"b": {1}}) == {"a": 1, "b": 1, "c": 3}  # b still beats c
    assert metric_ranks(udp, values, {"a": {0, 1}}) == {
        "a": 1,
        "b": 2,
        "c": 3,
    }  # at least 300 beats 100
    assert metric_ranks(udp, values, {"b": {7}}) == {"a": 1, "b": 2, "c": 3}  # no shared block
    assert metric_ranks(METRICS["rtt"], values) == {"a": 3, "b": 2, "c": 1}
    assert metric_ranks(METRICS["rtt"], values, {"b": {1}}) == {"a": 2, "b": 2, "c": 1}  # b may be as slow as a


def test_a_lower_bound_holds_through_the_ranking() -> None:
    def bounded(trial: Trial) -> Trial:
        found = [m.model_copy(update={"detail": {"interval_bps": None}}) for m in trial.measurements]
        return trial.model_copy(update={"measurements": found}) if trial.vpn == "ssh_tun" else trial

    trials = trials_of({"openvpn": {"udp_throughput": 300.0}, "ssh_tun": {"udp_throughput": 100.0}})
    run, weights = make_run(("openvpn", "ssh_tun")), Weights(name="", values={"udp_throughput": 1})
    plain = rank(run, trials, configuration="comparable", weights=weights)
    assert places(plain) == {"openvpn": 1, "ssh_tun": 2}
    assert plain.pairs[0].separated
    held = rank(run, list(map(bounded, trials)), configuration="comparable", weights=weights)
    assert places(held) == {"openvpn": 1, "ssh_tun": 1}  # both have rank 1 in each draw
    assert {s.vpn: s.at_least for s in held.standings} == {"openvpn": [], "ssh_tun": ["udp_throughput"]}
    chances = {s.vpn: s.best_probability for s in held.standings}
    assert chances == {"openvpn": pytest.approx(0.5, abs=0.01), "ssh_tun": pytest.approx(0.5, abs=0.01)}


def test_a_realistic_run_ranks_in_the_order_of_its_truth() -> None:
    run, trials = realistic_run()
    comparable, recommended = rank_all(run, trials)
    assert (comparable.configuration, recommended.configuration) == ("comparable", "recommended")
    assert comparable.weights.name == "balanced"
    assert comparable.standings[0].vpn == "wireguard_go"
    assert [s.vpn for s in comparable.standings if s.place is None] == [
        "gre_ipsec",
        "ipsec",
        "ssh_forward",
        "wireguard",
    ]
    assert sum(s.best_probability or 0 for s in comparable.standings) == pytest.approx(1)
    bandwidth = rank_all(run, trials, weights=Weights(name="tcp", values={"tcp_throughput": 1}))[0]
    assert bandwidth.standings[0].vpn == "ssh_forward"  # it can do what is weighted now
    with pytest.raises(UsageError, match="comparable, recommended"):
        rank_all(run, trials, configurations=["comparabel"])
    assert rank_all(run, []) == []


def test_each_gateway_image_has_a_ranking_of_its_own() -> None:
    trials = [
        t.model_copy(update={"params": t.params | {"image": image}})
        for image in ("bookworm", "trixie")
        for t in trials_of(THREE)
    ]
    rankings = rank_all(make_run(tuple(THREE)), trials)
    assert [(r.configuration, r.image) for r in rankings if r.configuration == "comparable"] == [
        ("comparable", "bookworm"),
        ("comparable", "trixie"),
    ]


def test_runs_of_one_lab_merge_and_others_do_not() -> None:
    run, trials = make_run(tuple(THREE)), trials_of(THREE)
    merged, both = merge_runs([(run, trials), (run.model_copy(update={"run_id": "second"}), trials)])
    assert (merged.repetitions, len(both), len({t.id for t in both})) == (6, 2 * len(trials), 2 * len(trials))
    assert {t.repetition for t in both} == set(range(6))
    turns = [t.model_copy(update={"measurements": [with_rounds(m) for m in t.measurements]}) for t in trials]
    _, both = merge_runs([(run, turns), (run.model_copy(update={"run_id": "second"}), turns)])
    assert [t.measurements[0].rounds for t in (both[0], both[len(trials)])] == [[10, 11], [22, 23]]
    logged = [trial.model_copy(update={"log": "logs/r1"}) for trial in trials]
    _, both = merge_runs([(run, logged), (run.model_copy(update={"run_id": "second"}), logged)])
    assert {t.log for t in both} == {"synthetic/logs/r1", "second/logs/r1"}  # as seen from beside the folders
    for change in (
        {"lab": run.lab | {"kernel": "6.1.0"}},
        {"lab": run.lab | {"kind": "vagrant"}},
        {"image": {"name": "bookworm"}},
        {"profile": "thesis"},
    ):
        with pytest.raises(UsageError, match="differs"):
            merge_runs([(run, trials), (run.model_copy(update=change), trials)])


def test_a_mean_is_never_set_beside_a_median() -> None:
    run, trials = make_run(tuple(THREE)), trials_of(THREE)

    def told(estimand: str, run_id: str, payload: str = "random") -> tuple[Run, list[Trial]]:
        changed = [
            trial.model_copy(
                update={
                    "params": trial.params | {"payload": payload},
                    "measurements": [
                        one.model_copy(update={"detail": {"estimand": estimand}}) for one in trial.measurements
                    ],
                }
            )
            for trial in trials
        ]
        return run.model_copy(update={"run_id": run_id}), changed

    means, medians, others = told("mean", "a"), told("median", "b"), told("median", "c", "zeros")
    for together in (lambda: merge_runs([means, medians]), lambda: compare_runs(means, medians)):
        with pytest.raises(UsageError, match="is the mean in the run a, and the median in the run b"):
            together()
    merge_runs([means, means, others])  # of other traffic: nothing of theirs is compared


def with_rounds(measurement: Measurement) -> Measurement:
    return measurement.model_copy(update={"rounds": [10, 11]})


def test_a_run_without_the_configuration_says_so() -> None:
    run: Run = make_run(tuple(THREE))
    bare = run.vpns["ipsec"].model_copy(update={"configurations": {}})
    run = run.model_copy(update={"vpns": run.vpns | {"ipsec": bare}})
    ranking = rank(run, trials_of(THREE), configuration="comparable", weights=default_weights(["rtt"]))
    assert ranking.standings[-1].missing == {"rtt": "has no such configuration"}


def test_what_most_vpns_were_measured_with_ranks_and_is_told() -> None:
    """Two VPNs on a shaped WAN, in more trials, lose against the two on the bare one; three win, and say so."""
    bare = trials_of({"openvpn": {"tcp_throughput": 2e8}, "ssh_tun": {"tcp_throughput": 1e8}})
    slow = {"wan_rate_bps": "100000000"}
    shaped = [
        make_trial(vpn, CBC | TCP | slow, block, {"tcp_throughput": 9e7 + 1e6 * block + number})
        for number, vpn in enumerate(("openvpn", "ssh_tun"))
        for block in range(8)
    ]
    run = make_run(("openvpn", "ssh_tun", "ipsec_user"))
    (basis,) = bases(run, [*bare, *shaped], configurations=["comparable"])
    assert basis.traffic["tcp_throughput"] == TCP
    assert unusual_traffic([basis]) == []
    third = [make_trial("ipsec_user", CBC | TCP | slow, block, {"tcp_throughput": 8e7 + block}) for block in range(3)]
    (basis,) = bases(run, [*bare, *shaped, *third], configurations=["comparable"])
    assert basis.traffic["tcp_throughput"] == TCP | slow
    (said,) = unusual_traffic([basis])
    assert said.startswith("Ranking comparable: TCP throughput: ranked by what was measured with WAN 100 Mbit/s")


def test_a_metric_under_other_traffic_is_not_mixed_in() -> None:
    """The idle tunnel's round trip, and the same metric beside a load: the factor that one has and the other lacks."""
    trials = trials_of({"openvpn": {"rtt": 1.0}, "ssh_tun": {"rtt": 2.0}})
    loaded = [make_trial("openvpn", CBC | IDLE | {"load": "tcp"}, block, {"rtt": 900.0 + block}) for block in range(2)]
    ranking = rank(
        make_run(("openvpn", "ssh_tun")),
        trials + loaded,
        configuration="comparable",
        weights=Weights(name="", values={"rtt": 1}),
    )
    assert averages(ranking) == approx({"openvpn": 1, "ssh_tun": 2})
    assert ranking.traffic["rtt"] == IDLE
