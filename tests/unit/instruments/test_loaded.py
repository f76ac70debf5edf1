"""Percentiles, irtt's and curl's words, and iperf3's version: numbers only where they were measured."""

import json
from typing import Any

import pytest

from runner.data.errors import CannotRunHere, MeasurementError
from runner.instruments.result import Measured
from runner.instruments.tools.iperf import check_version, version_of
from runner.instruments.tools.searched import found_rate
from runner.instruments.traffic.clients import read_clients
from runner.instruments.traffic.download import make_file, read_curl
from runner.instruments.traffic.idle import percentiles
from runner.instruments.traffic.loaded import read_irtt
from runner.instruments.traffic.udp import goodput
from runner.lab.shape.site_to_site import Lab
from runner.search import SearchResult, SearchTrial
from runner.search.model import Flag
from tests.unit.helpers import Answers, captured

Edited = dict[str, Any]


def test_percentiles_of_a_known_distribution() -> None:
    times = [float(number) for number in range(1001)]
    found = percentiles(times)
    assert (found["p50_ms"], found["p95_ms"], found["p99_ms"]) == (500, 950, 990)
    assert (found["exchanges"], found["min_ms"], found["max_ms"]) == (1001, 0, 1000)


@pytest.mark.parametrize(
    ("count", "told"), [(3, set()), (4, {"p50_ms"}), (40, {"p50_ms", "p95_ms"}), (200, {"p50_ms", "p95_ms", "p99_ms"})]
)
def test_a_percentile_without_samples_above_it_is_not_told(count: int, told: set[str]) -> None:
    assert {name for name in percentiles([1.0] * count) if name.startswith("p")} == told


def test_irtt() -> None:
    report = json.loads(captured("irtt.json"))
    found = read_irtt(report)
    assert found.metric == "udp_rtt"
    assert found.value == pytest.approx(report["stats"]["rtt"]["median"] / 1e6)
    assert len(found.samples) == report["stats"]["packets_received"]
    assert found.detail["loss_ratio"] == 0
    assert found.detail["variation_mean_ms"] == pytest.approx(
        report["stats"]["ipdv_round_trip"]["mean"] / 1e6, abs=1e-4
    )


def test_irtt_with_losses() -> None:
    report: Edited = json.loads(captured("irtt.json"))
    report["round_trips"][0]["delay"] = {}
    report["stats"]["packet_loss_percent"] = 20
    found = read_irtt(report)
    assert len(found.samples) == len(report["round_trips"]) - 1
    assert found.detail["loss_ratio"] == 0.2
    for trip in report["round_trips"]:
        trip["delay"] = {}
    with pytest.raises(MeasurementError, match="no datagram came back"):
        read_irtt(report)


def test_a_whole_download() -> None:
    found = read_curl("200 20000000 0.000177 0.000691 0.5\n", 20_000_000)
    assert found.value == 0.5
    assert found.detail["rate_bps"] == 320e6


@pytest.mark.parametrize("said", ["404 146 0.1 0.2 0.3", "200 19999999 0.1 0.2 0.3", "000 0 0 0 3"])
def test_what_is_not_the_whole_file_is_no_time(said: str) -> None:
    with pytest.raises(MeasurementError, match="not 200 and 20000000"):
        read_curl(said, 20_000_000)


def test_many_clients_downloads() -> None:
    said = "28 1000000 1.0 10.1.0.100 timed out\n28 3000000 1.0 10.1.0.101 timed out\n28 0 1.0  timed out\n"
    throughput, fairness = read_clients(said, 3)
    assert throughput.value == 32e6
    assert throughput.detail == {"slowest_bps": 0, "fastest_bps": 24e6, "idle_clients": 1}
    assert fairness.value == pytest.approx((8 + 24) ** 2 / (3 * (8**2 + 24**2)))
    (alone, _) = read_clients("0 100000000 0.5 10.1.0.100 \n", 1)
    assert alone.value == 1.6e9, "it had all of the file before the time was over"


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("28 1000 1.0 10.1.0.100 timed out\n", "curl reports 1 clients instead of 2"),
        ("28 1000 1.0 10.1.0.100 late\n7 0 0.1  Connection refused\n", "1 of 2 clients were refused, .* refused"),
        ("28 0 1.0 10.1.0.100 late\n28 0 1.0 10.1.0.101 late\n", "no client received a byte"),
    ],
)
def test_clients_without_a_number(said: str, error: str) -> None:
    with pytest.raises(MeasurementError, match=error):
        read_clients(said, 2)


def test_a_file_that_does_not_fit_into_memory() -> None:
    host2 = Answers({"cat /proc/meminfo": "MemTotal: 4000000 kB\nMemAvailable: 1000000 kB\n"})
    with pytest.raises(MeasurementError, match=r"1000000000 bytes does not fit: 1024000000 .* host2"):
        make_file(Lab({"host2": host2}), 10**9)  # type: ignore[dict-item]
    assert host2.ran == ["cat /proc/meminfo"]


def test_iperf3_that_is_too_old_is_named_with_its_version() -> None:
    said = "iperf {} (cJSON 1.7.15)\nLinux gw1\n"
    assert check_version(Answers({"iperf3 --version": said.format("3.18")})) == "3.18"
    assert check_version(Answers({"iperf3 --version": said.format("3.9")})) == "3.9"
    assert version_of("iperf 3.1.3") < version_of("iperf 3.18+") < (3, 19)
    with pytest.raises(CannotRunHere, match=r"iperf3 3\.1 on gw1 is too old. vpneval needs 3\.2"):
        check_version(Answers({"iperf3 --version": said.format("3.1.3")}))
    with pytest.raises(CannotRunHere, match=r"iperf3 3\.9 on gw1 .* needs 3\.16"):
        check_version(Answers({"iperf3 --version": said.format("3.9")}), (3, 16))
    with pytest.raises(MeasurementError, match="is not a version of iperf3: 'bash"):
        version_of("bash: iperf3: command not found")


def trial(offered_bps: float, loss_ratio: float) -> SearchTrial:
    return SearchTrial(offered_bps, offered_bps, 1.0, 1000, 1000 * (1 - loss_ratio), "estimate")


def searched(*trials: SearchTrial) -> SearchResult:
    return SearchResult(100e6, None, None, trials, 1.0, frozenset())


def test_goodput_is_what_the_nearest_passing_trial_received() -> None:
    result = searched(trial(200e6, 0.5), trial(100e6, 0.2), trial(98e6, 0.005), trial(90e6, 0))
    found = goodput(result, 100e6)
    assert [measured.value for measured in found] == [pytest.approx(98e6 * 0.995)]


def test_no_goodput_without_a_trial_near_the_throughput() -> None:
    assert goodput(searched(trial(100e6, 0.02), trial(90e6, 0)), 100e6) == []
    assert goodput(searched(), 100e6) == []


def test_a_bound_from_below_needs_a_pass_that_no_higher_rate_contradicts() -> None:
    def found(*losses: float, flag: Flag = "unconfirmed") -> float | str:
        trials = tuple(trial(1e8 + 1e7 * number, loss) for number, loss in enumerate(losses))
        measured = Measured()
        try:
            rate_bps = found_rate(SearchResult(None, None, None, trials, 1.0, frozenset({flag})), "rate", measured)
        except MeasurementError as error:
            return str(error)
        assert "rate is at least this" in measured.warnings[0]
        return rate_bps

    assert str(found()).startswith("no rate: unconfirmed: the search's time was over before a rate was confirmed to")
    assert str(found(1.0, flag="no_throughput")).startswith("no rate: no_throughput: more than 1% is lost even at the")
    assert "2.0% at 110 Mbit/s" in str(found(0.0, 0.02))
    assert "2.0% at 110 Mbit/s" in str(found(0.02, 0.02))
    assert found(0.0, 0.005) == pytest.approx(1.1e8)
    assert found(0.06, 0.0) == pytest.approx(1.1e8)  # what failed below it was an accident
    assert found(0.0, 0.02, flag="generator_limited") == pytest.approx(1e8)


def test_what_was_found_is_no_bound() -> None:
    measured = Measured()
    assert found_rate(searched(trial(1e8, 0.0)), "rate", measured) == 100e6
    assert not measured.warnings
