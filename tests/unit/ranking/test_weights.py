"""Weights: presets, files, what is wrong with them, and how far each may move."""

from pathlib import Path

import numpy as np
import pytest

from runner.catalogue import load_experiment
from runner.data.errors import UsageError
from runner.data.levels import ranked_by
from runner.ranking.model import Weights
from runner.ranking.weights import BALANCED, COST, PRESETS, default_weights, of_run, parse_weights, slack
from tests.unit.reports import THREE, ranked
from tests.unit.synthetic import METRICS, TCP


def test_slack_by_hand() -> None:
    """a: 1, 3; b: 2, 1. With weights 3 and 1, a leads by 6 to 7. TCP below 2 (w + 3 = 2w + 1), or RTT above 1.5
    (3 + 3w = 6 + w), and b does."""
    ranks = {"a": {"tcp_throughput": 1, "rtt": 3}, "b": {"tcp_throughput": 2, "rtt": 1}}
    tcp, rtt = slack(ranks, Weights(name="", values={"tcp_throughput": 3, "rtt": 1}))
    assert (tcp.metric, tcp.weight, tcp.high) == ("tcp_throughput", 3, None)
    assert tcp.low == pytest.approx(2)
    assert (tcp.below, tcp.above) == (["b"], [])
    assert rtt.high == pytest.approx(1.5)
    assert (rtt.low, rtt.below, rtt.above) == (0, [], ["b"])


def test_the_slack_is_where_the_winner_changes_and_nowhere_before() -> None:
    rng = np.random.default_rng(4)
    metrics = list(BALANCED)
    for _ in range(200):
        vpns = [f"v{i}" for i in range(int(rng.integers(2, 7)))]
        ranks = {vpn: {m: int(rng.integers(1, 6)) for m in metrics} for vpn in vpns}
        values = {m: float(rng.integers(1, 4)) for m in metrics}

        def leaders(metric: str, weight: float, ranks=ranks, values=values) -> set[str]:  # type: ignore[no-untyped-def]
            at = values | {metric: weight}
            sums = {vpn: sum(at[m] * own[m] for m in metrics) for vpn, own in ranks.items()}
            return {vpn for vpn, total in sums.items() if total < min(sums.values()) + 1e-9}

        for one in slack(ranks, Weights(name="", values=values)):
            now = leaders(one.metric, one.weight)
            end = one.high if one.high is not None else 1000.0
            for weight in np.linspace(one.low + 1e-6, end - 1e-6, 25):
                assert now & leaders(one.metric, float(weight))
            if one.high is not None:
                assert not now & leaders(one.metric, one.high + 1e-6)
                assert leaders(one.metric, one.high + 1e-6) <= set(one.above)
            if one.low > 0:
                assert not now & leaders(one.metric, one.low - 1e-6)
                assert leaders(one.metric, one.low - 1e-6) <= set(one.below)


def test_one_metric_has_no_slack() -> None:
    assert slack({"a": {"rtt": 1}, "b": {"rtt": 2}}, Weights(name="", values={"rtt": 1})) == []
    assert ranked(THREE, {"tcp_throughput": 1}).slack == []
    assert [one.metric for one in ranked(THREE, {"tcp_throughput": 1, "rtt": 1}).slack] == ["tcp_throughput", "rtt"]


def test_every_metric_can_be_ranked() -> None:
    for known in METRICS.values():
        assert ranked_by(known.measure)["measure"] == known.measure
    assert ranked_by("tcp") == TCP


def test_every_preset_names_known_metrics() -> None:
    for preset in PRESETS.values():
        assert of_run(preset, METRICS).values.keys() <= METRICS.keys()
        assert preset.counted_metrics
    assert parse_weights("balanced", {*METRICS, COST}).values == dict.fromkeys(BALANCED, 1.0)


def test_the_oslv_articles_weights_are_its_own_attributes_alike() -> None:
    """Figure 3 of the article has overhead, bandwidth, latency and jitter, and its experiment measures them."""
    weighed = PRESETS["oslv"]
    assert {*weighed.values.values()} == {1.0}
    assert {*weighed.values} == {"overhead_bytes", "tcp_throughput", "rtt", "jitter"}
    assert {*weighed.values} <= {*load_experiment("oslv").metrics}
    assert {*weighed.values} != {*PRESETS["balanced"].values}


def test_the_cost_at_full_speed_stands_in_where_a_run_has_no_other() -> None:
    old = ("tcp_throughput", "rtt", "setup_time", "cpu_per_gigabyte")
    assert parse_weights("tcp", METRICS, old).values == dict.fromkeys(old, 1.0)
    assert list(parse_weights("tcp", {*METRICS, COST}, (*old, COST)).values) == [
        "tcp_throughput",
        "rtt",
        "setup_time",
        COST,
    ]
    assert list(default_weights(old).values) == list(old)
    with pytest.raises(UsageError, match="does not measure gateway_cpu_per_gigabyte"):
        parse_weights("tcp", METRICS, old[:3])


def test_pairs_and_files(tmp_path: Path) -> None:
    wanted = {"rtt": 2.0, "tcp_throughput": 1.0}
    assert parse_weights("rtt=2, tcp_throughput=1", METRICS).values == wanted
    (tmp_path / "w.toml").write_text("[weights]\nrtt = 2\ntcp_throughput = 1.0\n")
    (tmp_path / "w.json").write_text('{"rtt": 2, "tcp_throughput": 1}')
    assert parse_weights(str(tmp_path / "w.toml"), METRICS).values == wanted
    assert parse_weights(str(tmp_path / "w.json"), METRICS, measured=["rtt", "tcp_throughput"]).values == wanted
    assert parse_weights("rtt=1,jitter=0", METRICS, measured=["rtt"]).counted_metrics == {
        "rtt": 1.0
    }  # zero is not asked for
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
        ("rt=1", "did you mean rtt.*Valid in this run: rtt"),
        ("balance", "did you mean balanced.*realtime"),
        ("", "unknown weights"),
        ("udp_throughput=1", "does not measure udp_throughput.*it measures: rtt"),
        ("balanced", "does not measure"),
        ("/nowhere/w.toml", "No such file"),
    ],
)
def test_bad_weights_say_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_weights(text, METRICS, measured=["rtt"])


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
        parse_weights(str(tmp_path / name), METRICS)


@pytest.mark.parametrize("weight", ["1e-6", "1e6", "0"])
def test_weights_of_a_millionth_to_a_million_count(weight: str) -> None:
    assert parse_weights(f"rtt={weight},jitter=1", METRICS).values["rtt"] == float(weight)


@pytest.mark.parametrize("weight", ["0.99e-6", "1000000.5", "-1", "inf", "nan"])
def test_others_do_not(weight: str) -> None:
    with pytest.raises(UsageError, match="0, or from 1e-06 to 1e"):
        parse_weights(f"rtt={weight},jitter=1", METRICS)
