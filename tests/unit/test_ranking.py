"""The weighted average rank worked by hand, and everything that can go wrong around it."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from runner.errors import UsageError
from runner.metrics import METRICS
from runner.model import Run, Status, Trial
from runner.ranking import RANKED_BY, Ranking, metric_ranks, rank, rank_all, weighted_average
from runner.report.merge import merge_runs
from runner.weights import PRESETS, Weights, default_weights, parse_weights
from tests.unit.synthetic import CBC, IDLE, TCP, UDP, make_run, make_trial, realistic_run

NOISE = (0.99, 1.0, 1.01)


def trials_of(values: Mapping[str, Mapping[str, float]], noise: tuple[float, ...] = NOISE) -> list[Trial]:
    """VPN -> metric -> value, in three blocks whose noise differs from VPN to VPN."""
    traffic = {"tcp_throughput": TCP, "cpu_per_gigabyte": TCP, "udp_throughput": UDP}
    return [
        make_trial(vpn, CBC | traffic.get(metric, IDLE), block, {metric: value * noise[(block + shift) % len(noise)]})
        for shift, (vpn, metrics) in enumerate(values.items())
        for metric, value in metrics.items()
        for block in range(len(noise))
    ]


def ranked(values: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], **options: object) -> Ranking:
    run = make_run(tuple(values))
    given = Weights(name="test", values=dict(weights))
    missing = options.pop("missing", "unranked")
    extra = options.pop("extra", [])
    assert isinstance(extra, list)
    return rank(
        run,
        trials_of(values) + extra,
        configuration="comparable",
        weights=given,
        missing=missing,  # type: ignore[arg-type]
    )


def averages(ranking: Ranking) -> dict[str, float | None]:
    return {standing.vpn: standing.average for standing in ranking.standings}


def places(ranking: Ranking) -> dict[str, int | None]:
    return {standing.vpn: standing.place for standing in ranking.standings}


THREE = {
    # TCP ranks 1, 2, 3; RTT ranks 3, 1, 1: the last two cannot be told apart.
    "ipsec": {"tcp_throughput": 900.0, "rtt": 3.0},
    "openvpn": {"tcp_throughput": 300.0, "rtt": 1.0},
    "ssh_tun": {"tcp_throughput": 200.0, "rtt": 1.001},
}


def test_the_papers_rule_by_hand() -> None:
    """Equal weights: (1+3)/2 = 2, (2+1)/2 = 1.5, (3+1)/2 = 2. TCP three times: (3+3)/4, (6+1)/4, (9+1)/4."""
    equal = ranked(THREE, {"tcp_throughput": 1, "rtt": 1})
    assert averages(equal) == {"openvpn": 1.5, "ipsec": 2.0, "ssh_tun": 2.0}
    assert places(equal) == {"openvpn": 1, "ipsec": 2, "ssh_tun": 2}  # equals share the place
    heavy = ranked(THREE, {"tcp_throughput": 3, "rtt": 1})
    assert averages(heavy) == {"ipsec": 1.5, "openvpn": 1.75, "ssh_tun": 2.5}
    assert [standing.place for standing in heavy.standings] == [1, 2, 3]
    assert (
        weighted_average({"tcp_throughput": 2, "rtt": 5}, Weights(name="", values={"rtt": 0, "tcp_throughput": 9})) == 2
    )


def test_overlap_ties_and_a_tie_can_be_chained() -> None:
    """Noisy neighbours tie, though the ends of the chain are separated: a < b is not seen, a < c is."""
    noisy = {
        "a": {0: 100.0, 1: 104.0, 2: 96.0},
        "b": {0: 104.0, 1: 99.0, 2: 106.0},
        "c": {0: 112.0, 1: 114.0, 2: 110.0},
    }
    assert metric_ranks("tcp_throughput", noisy) == {"a": 2, "b": 1, "c": 1}
    assert metric_ranks("rtt", noisy) == {"a": 1, "b": 1, "c": 2}


def test_one_block_ties_all() -> None:
    assert metric_ranks("rtt", {"a": {0: 1.0}, "b": {0: 1000.0}}) == {"a": 1, "b": 1}


@pytest.mark.parametrize("status", ["unsupported", "failed"])
def test_a_vpn_without_a_weighted_metric_is_listed_with_its_reason(status: Status) -> None:
    values = THREE | {"ssh_forward": {"tcp_throughput": 2000.0}}
    extra = [make_trial("ssh_forward", CBC | IDLE, 0, status=status, reason="no idle today")]
    ranking = ranked(values, {"tcp_throughput": 1, "rtt": 1}, extra=extra)
    last = ranking.standings[-1]
    assert (last.vpn, last.place, last.average) == ("ssh_forward", None, None)
    assert last.missing == {"rtt": f"{status}: no idle today"}
    assert last.ranks == {"tcp_throughput": 1}  # it counts in what it delivers
    assert averages(ranking)["ipsec"] == 2.5


def test_missing_worst_gives_the_last_rank_but_not_to_what_has_nothing() -> None:
    values = THREE | {"ssh_forward": {"tcp_throughput": 2000.0}, "wireguard": {}}
    ranking = ranked(values, {"tcp_throughput": 1, "rtt": 1}, missing="worst")
    by_name = {standing.vpn: standing for standing in ranking.standings}
    assert by_name["ssh_forward"].ranks == {"tcp_throughput": 1, "rtt": 4}
    assert by_name["ssh_forward"].imputed == ["rtt"]
    assert by_name["ssh_forward"].average == 2.5
    assert by_name["wireguard"].place is None
    assert by_name["wireguard"].missing == {"tcp_throughput": "not measured", "rtt": "not measured"}


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
    assert averages(ranking) == {"ipsec": 1, "openvpn": 2, "ssh_tun": 3}
    assert ranking.traffic["tcp_throughput"] == TCP


def test_udp_is_ranked_at_one_payload_length() -> None:
    small = [
        make_trial("ssh_tun", CBC | UDP | {"payload_bytes": "64"}, block, {"udp_throughput": 9e9}) for block in range(3)
    ]
    values = {"openvpn": {"udp_throughput": 200.0}, "ssh_tun": {"udp_throughput": 100.0}}
    ranking = ranked(values, {"udp_throughput": 1}, extra=small)
    assert averages(ranking) == {"openvpn": 1, "ssh_tun": 2}
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
    assert places(ranking) == {"ipsec": 1, "openvpn": 1}
    assert chances["ipsec"] is not None
    assert chances["openvpn"] is not None
    assert chances["ipsec"] + chances["openvpn"] == pytest.approx(1)
    # Each mean has 1/√2 of the paired difference's standard error, and two degrees of freedom.
    logs = [math.log(b[block] / a[block]) for block in a]
    t = np.random.default_rng(0).standard_t(2, (2, 400_000))
    drawn = np.mean(logs) + scipy_stats.sem(logs) / math.sqrt(2) * (t[0] - t[1])
    assert chances["openvpn"] == pytest.approx(float((drawn > 0).mean()), abs=0.012)
    assert rank(run, trials, configuration="comparable", weights=weights) == ranking  # seeded
    assert "no probability" in rank(run, trials[:4], configuration="comparable", weights=weights).probability_method


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
    for change in (
        {"lab": run.lab | {"kernel": "6.1.0"}},
        {"lab": run.lab | {"kind": "vagrant"}},
        {"image": {"name": "bookworm"}},
        {"profile": "thesis"},
    ):
        with pytest.raises(UsageError, match="differs"):
            merge_runs([(run, trials), (run.model_copy(update=change), trials)])


def test_every_metric_can_be_ranked() -> None:
    assert RANKED_BY.keys() == METRICS.keys()


# Weights


def test_every_preset_names_known_metrics() -> None:
    for preset in PRESETS.values():
        assert preset.values.keys() <= METRICS.keys()
        assert preset.counted
    assert parse_weights("balanced").values == dict.fromkeys(METRICS, 1.0)


def test_pairs_and_files(tmp_path: Path) -> None:
    wanted = {"rtt": 2.0, "tcp_throughput": 1.0}
    assert parse_weights("rtt=2, tcp_throughput=1").values == wanted
    (tmp_path / "w.toml").write_text("[weights]\nrtt = 2\ntcp_throughput = 1.0\n")
    (tmp_path / "w.json").write_text('{"rtt": 2, "tcp_throughput": 1}')
    assert parse_weights(str(tmp_path / "w.toml")).values == wanted
    assert parse_weights(str(tmp_path / "w.json"), measured=["rtt", "tcp_throughput"]).values == wanted
    assert parse_weights("rtt=1,jitter=0", measured=["rtt"]).counted == {"rtt": 1.0}  # zero is not asked for
    assert default_weights(["rtt"]).values == {"rtt": 1.0}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rtt=-1", "zero or more"),
        ("rtt=nan", "finite"),
        ("rtt=inf", "finite"),
        ("rtt=0,jitter=0", "all weights are zero"),
        ("rtt=", "not a number"),
        ("rtt=fast", "not a number"),
        ("rtt=1,,", "not metric=weight"),
        ("=1", "not metric=weight"),
        ("rtt=1,rtt=2", "twice"),
        ("rt=1", "did you mean rtt.*tcp_throughput"),
        ("balance", "did you mean balanced.*realtime"),
        ("", "unknown weights"),
        ("udp_throughput=1", "did not measure udp_throughput.*measured: rtt"),
        ("balanced", "did not measure"),
        ("/nowhere/w.toml", "No such file"),
    ],
)
def test_bad_weights_say_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_weights(text, measured=["rtt"])


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("w.toml", "rtt = ", "cannot be read"),
        ("w.json", "[1, 2]", "expected a table"),
        ("w.json", "{", "cannot be read"),
        ("w.json", '{"rtt": "2"}', "not a number"),
        ("w.json", '{"rtt": true}', "not a number"),
        ("w.json", "{}", "all weights are zero"),
    ],
)
def test_bad_weight_files_say_what_is_wrong(tmp_path: Path, name: str, content: str, says: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UsageError, match=says):
        parse_weights(str(tmp_path / name))


def test_a_run_without_the_configuration_says_so() -> None:
    run: Run = make_run(tuple(THREE))
    bare = run.vpns["ipsec"].model_copy(update={"configurations": {}})
    run = run.model_copy(update={"vpns": run.vpns | {"ipsec": bare}})
    ranking = rank(run, trials_of(THREE), configuration="comparable", weights=default_weights(["rtt"]))
    assert ranking.standings[-1].missing == {"rtt": "has no such configuration"}
