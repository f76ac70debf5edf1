"""Two runs: what is a regression, what is noise, and what stops answering."""

import numpy as np
import pytest

from questions.compare.judgement import Comparison, MetricChange
from questions.compare.runs import compare_runs
from questions.compare.trends import trends
from runner.data.trials import Run, Trial
from runner.ranking.margins import with_margins
from runner.report import text
from tests.unit.comparisons import form_of, history_html, printed
from tests.unit.synthetic import CBC, IDLE, PLAIN, TCP, make_run, make_trial, realistic_run

RUN = make_run(("none", "openvpn"))


def trials_of(values: dict[str, float], seed: int, blocks: int = 3) -> list[Trial]:
    rng = np.random.default_rng(seed)
    return [
        make_trial(
            "openvpn", CBC | (IDLE if metric == "rtt" else TCP), block, {metric: value * float(rng.normal(1, 0.01))}
        )
        for metric, value in values.items()
        for block in range(blocks)
    ]


def compared(before: list[Trial], after: list[Trial], run: Run = RUN) -> Comparison:
    return compare_runs((run, before), (run, after))


def only(comparison: Comparison) -> MetricChange:
    assert len(comparison.changes) == 1
    return comparison.changes[0]


@pytest.mark.parametrize(
    ("metric", "factor", "verdict"),
    [
        ("tcp_throughput", 0.7, "regression"),
        ("tcp_throughput", 1.4, "improvement"),
        ("rtt", 1.4, "regression"),
        ("rtt", 0.7, "improvement"),
        ("rtt", 1.0, "no difference"),
    ],
)
def test_better_and_worse_go_by_the_metric(metric: str, factor: float, verdict: str) -> None:
    result = compared(trials_of({metric: 100.0}, 1), trials_of({metric: 100.0 * factor}, 2))
    change = only(result)
    assert change.verdict == verdict
    assert change.ratio is not None
    assert change.ratio.ratio == pytest.approx(factor, rel=0.03)
    assert (result.outcome == "worse") is (verdict == "regression")
    assert ("Significant regression" in printed(result)) is (result.outcome == "worse")


@pytest.mark.parametrize(("pairs_of_runs", "at_most"), [(3, 1), pytest.param(10, 2, marks=pytest.mark.slow)])
def test_equal_runs_do_not_cry_wolf(pairs_of_runs: int, at_most: int) -> None:
    """Pairs of runs with the same truth, 96 comparisons in each; unadjusted, five of each 96 would object."""
    pairs = [(realistic_run(seed=seed), realistic_run(seed=seed + 100)) for seed in range(pairs_of_runs)]
    alarms = [sum(c.verdict in ("regression", "improvement") for c in compare_runs(a, b).changes) for a, b in pairs]
    assert sum(alarm > 0 for alarm in alarms) <= at_most


def test_one_repetition_cannot_tell() -> None:
    result = compared(trials_of({"rtt": 1.0}, 1, blocks=1), trials_of({"rtt": 9.0}, 1))
    assert only(result).verdict == "not separable"
    assert result.outcome != "worse"


def test_what_fails_now_is_a_regression_and_unsupported_is_not() -> None:
    before = trials_of({"rtt": 1.0}, 1)
    failing = [make_trial("openvpn", CBC | IDLE, 0, status="failed", reason="daemon\ndied")]
    result = compared(before, failing)
    assert (only(result).verdict, only(result).after, result.outcome) == ("now failing", None, "worse")
    assert "daemon died" in printed(result)
    refused = [make_trial("openvpn", CBC | IDLE, 0, status="unsupported", reason="no kernel module")]
    assert compared(before, refused).outcome != "worse"


def test_the_machine_is_not_blamed_on_a_vpn() -> None:
    def plain(value: float) -> list[Trial]:
        return [make_trial("none", PLAIN | TCP, block, {"tcp_throughput": value + block}) for block in range(3)]

    result = compared(plain(1000.0), plain(500.0))
    assert only(result).verdict == "regression"
    assert result.outcome != "worse"
    assert "the machine did" in printed(result)


def test_differences_and_unshared_cells_are_named() -> None:
    other = RUN.model_copy(update={"lab": RUN.lab | {"kernel": "6.19.0"}, "run_id": "after"})
    result = compare_runs((RUN, trials_of({"rtt": 1.0}, 1)), (other, trials_of({"tcp_throughput": 1.0}, 1)))
    assert result.differences == ["lab kernel: 6.18.0 → 6.19.0"]
    assert result.only_before == ["openvpn (aes-128-cbc hmac-sha256, idle)"]
    text = printed(result)
    assert "share no measurement" in text
    assert "lab kernel" in text
    assert Comparison.model_validate_json(result.model_dump_json()) == result


@pytest.mark.parametrize("width", [80, 100])
def test_it_fits_the_terminal(width: int) -> None:
    run, before = realistic_run()
    after = [
        t.model_copy(update={"measurements": [m.model_copy(update={"value": m.value * 2}) for m in t.measurements]})
        for t in before
    ]
    text = printed(compare_runs((run, before), (run, after)), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text


def with_baseline(vpn: float, plain: float, seed: int, metric: str = "tcp_throughput") -> list[Trial]:
    """Four blocks in which the machine's pace moves a lot from block to block, and both with it."""
    rng = np.random.default_rng(seed)
    traffic = IDLE if metric == "setup_time" else TCP
    trials = []
    for block in range(4):
        pace = float(rng.normal(1, 0.15))
        trials += [
            make_trial(name, params | traffic, block, {metric: value * pace * float(rng.normal(1, 0.005))}, position=at)
            for name, params, value, at in (("none", PLAIN, plain, "first"), ("openvpn", CBC, vpn, "within"))
        ]
    return trials


def changes(comparison: Comparison) -> dict[str, MetricChange]:
    return {change.vpn: change for change in comparison.changes}


def test_shares_of_the_baseline_see_through_a_slower_machine() -> None:
    """The whole machine at 60 %: absolute numbers would blame the VPN."""
    before, slower = with_baseline(300, 9000, 1), with_baseline(180, 5400, 2)
    found = changes(compared(before, slower))
    assert found["openvpn"].of_baseline
    assert found["openvpn"].verdict == "no difference"
    assert found["openvpn"].ratio is not None
    assert found["openvpn"].ratio.ratio == pytest.approx(1, rel=0.02)
    assert not found["none"].of_baseline
    text = printed(compared(before, slower))
    assert "compared as shares of each run's own baseline" in text
    assert "1 as absolute numbers" in text
    # And a VPN that lost a tenth on a machine that moves by 15 % from block to block.
    lost = compared(before, with_baseline(270, 9000, 3))
    assert changes(lost)["openvpn"].verdict == "regression"
    assert lost.outcome == "worse"


def test_absolute_numbers_where_there_is_no_baseline_or_none_that_means_anything() -> None:
    before, after = with_baseline(300, 9000, 1), with_baseline(300, 9000, 2)
    alone = [trial for trial in after if trial.vpn == "openvpn"]
    assert not changes(compared(before, alone))["openvpn"].of_baseline
    assert "Compared as absolute numbers" in printed(compared(before, alone))
    setup = compared(with_baseline(1.0, 0.02, 1, "setup_time"), with_baseline(1.0, 0.02, 2, "setup_time"))
    assert not changes(setup)["openvpn"].of_baseline
    zero = [
        t.model_copy(update={"measurements": [m.model_copy(update={"value": 0.0}) for m in t.measurements]})
        if t.vpn == "none"
        else t
        for t in after
    ]
    assert not changes(compared(before, zero))["openvpn"].of_baseline


def test_a_lower_bound_is_no_regression() -> None:
    def bounded(trials: list[Trial]) -> list[Trial]:
        detail = {"interval_bps": None}
        return [
            t.model_copy(update={"measurements": [m.model_copy(update={"detail": detail}) for m in t.measurements]})
            for t in trials
        ]

    slow, fast = trials_of({"tcp_throughput": 70.0}, 1), trials_of({"tcp_throughput": 100.0}, 2)
    assert only(compared(fast, slow)).verdict == "regression"
    held = compared(fast, bounded(slow))
    assert (only(held).verdict, only(held).reason) == ("not separable", "after: only a lower bound is known")
    assert held.outcome != "worse"
    assert only(compared(bounded(slow), fast)).verdict == "not separable"
    assert only(compared(bounded(fast), slow)).verdict == "regression"  # at least 100 before, 70 now


def test_the_margin_decides_and_there_is_one_answer() -> None:
    """A fall of 3 % that is significant: no regression at a margin of 10 %, one at a margin of 2 %."""
    before, after = trials_of({"tcp_throughput": 100.0}, 1, 12), trials_of({"tcp_throughput": 96.9}, 2, 12)

    def at(margin: str) -> Comparison:
        return compared(before, after, with_margins(RUN, margin))

    wide, narrow = at("10%"), at("2%")
    assert only(wide).adjusted_p is not None
    assert (only(wide).adjusted_p or 1) < 0.05, "it is significant"
    assert (only(wide).verdict, wide.outcome) == ("no difference", "fine")
    assert (only(narrow).verdict, narrow.outcome) == ("regression", "worse")
    for comparison in (wide, narrow):
        assert ("No significant regression" in printed(comparison)) is not (comparison.outcome == "worse")
        assert " worse" not in printed(comparison), "one answer"


def on(cpu: str, trials: list[Trial], kernel: str = "6.18.0") -> tuple[Run, list[Trial]]:
    return RUN.model_copy(update={"lab": RUN.lab | {"cpu": cpu, "kernel": kernel}}), trials


def test_on_another_machine_shares_decide_and_absolute_values_do_not() -> None:
    slow = [*with_baseline(180, 5400, 2), *trials_of({"rtt": 3.0}, 4)]
    before = [*with_baseline(300, 9000, 1), *trials_of({"rtt": 1.0}, 3)]
    found = compare_runs(on("One CPU", before), on("Another CPU", slow))
    by_metric = {change.metric: change for change in found.changes if change.vpn == "openvpn"}
    assert (by_metric["rtt"].verdict, by_metric["rtt"].of_baseline) == ("not judged", False)
    assert by_metric["tcp_throughput"].verdict == "no difference"
    assert found.outcome == "fine"
    alone = [trial for trial in slow if trial.measurements[0].metric == "rtt"]
    of_one = [trial for trial in before if trial.measurements[0].metric == "rtt"]
    assert compare_runs(on("One CPU", of_one), on("Another CPU", alone)).outcome == "cannot tell"
    # The control: the same numbers on one machine, whose kernel is what was changed.
    assert compare_runs(on("One CPU", of_one), on("One CPU", alone, "6.19.0")).outcome == "worse"


def test_where_the_baseline_has_changed_absolute_values_do_not_decide() -> None:
    def run_of(plain: float, seed: int) -> list[Trial]:
        steady = [make_trial("none", PLAIN | TCP, n, {"tcp_throughput": plain * (1 + n / 1000)}) for n in range(4)]
        return [*steady, *trials_of({"rtt": 1.0 if plain > 600 else 1.6}, seed)]

    assert compared(run_of(1000, 1), run_of(500, 2)).outcome == "cannot tell"
    assert compared(run_of(1000, 1), [*run_of(1000, 2)[:4], *trials_of({"rtt": 1.6}, 2)]).outcome == "worse"


def test_memory_never_decides() -> None:
    assert compared(trials_of({"memory_bytes": 1e6}, 1), trials_of({"memory_bytes": 5e6}, 2)).outcome == "cannot tell"
    assert compared(trials_of({"rtt": 1.0}, 1), trials_of({"rtt": 5.0}, 2)).outcome == "worse"


def test_what_shares_nothing_is_no_success() -> None:
    result = compared(trials_of({"rtt": 1.0}, 1), trials_of({"tcp_throughput": 1.0}, 1))
    assert result.outcome == "nothing measured"
    assert "No significant regression" not in printed(result) + form_of(result)


def test_the_smallest_difference_that_would_be_seen_is_printed() -> None:
    """What the runs say that they would see, they see; and of a third of that they say nothing."""
    runs = [trials_of({"tcp_throughput": 100.0}, seed, 20) for seed in range(10)]
    first = compared(runs[0], runs[1], with_margins(RUN, "0.1%"))
    assert first.smallest
    assert first.smallest == first.largest
    assert f"a difference of {text.percent(first.smallest - 1)} would show in 80% of such runs" in printed(first)
    seen = [
        compared(runs[n], trials_of({"tcp_throughput": 100.0 / first.smallest}, n + 50, 20), with_margins(RUN, "0.1%"))
        for n in range(10)
    ]
    assert sum(one.outcome == "worse" for one in seen) >= 5
    few = [
        compared(runs[n], trials_of({"tcp_throughput": 100.0 / first.smallest ** (1 / 3)}, n + 50, 20))
        for n in range(10)
    ]
    assert not any(one.outcome == "worse" for one in few)


def test_the_page_says_what_the_terminal_says() -> None:
    before, after = (
        trials_of({"tcp_throughput": 100.0, "rtt": 1.0}, 1),
        trials_of({"tcp_throughput": 50.0, "rtt": 1.0}, 2),
    )
    comparison = compared(before, after)
    page = form_of(comparison)
    assert comparison.outcome == "worse"
    assert "Significant regression" in page
    for change in comparison.changes:
        assert change.verdict in page
        assert change.ratio
        assert text.change(change.ratio) in page
    assert page.count("<figure>") == 2
    assert '<td class="bad">regression</td>' in page
    assert "&lt;td" not in page, "no element is shown as text"
    assert "No significant regression" in form_of(compared(before, before))


def test_history_has_a_trend_for_each_vpn_and_metric_and_keeps_labs_apart() -> None:
    runs = []
    for month, speed in ((3, 400.0), (1, 100.0), (2, 200.0)):
        run = RUN.model_copy(update={"run_id": f"run{month}", "created_at": f"2026-0{month}-01T00:00:00+00:00"})
        runs.append((run, trials_of({"tcp_throughput": speed}, month)))
    elsewhere = runs[0][0].model_copy(update={"lab": RUN.lab | {"cpu": "<b>Another</b>"}, "run_id": "far"})
    found = trends([*runs, (elsewhere, runs[0][1])])
    here = next(trend for trend in found if trend.vpn == "openvpn" and len(trend.runs) == 3)
    assert here.runs == ["run1", "run2", "run3"]  # by date
    assert [round(one.median, -2) for one in here.summaries if one] == [100, 200, 400]
    assert {trend.lab for trend in found} != {here.lab}
    page = history_html(found)
    assert "&lt;b&gt;Another" in page
    assert "<b>Another" not in page
    assert page.count("<figure>") == len({(trend.lab, trend.configuration, trend.metric) for trend in found})
    assert text.with_interval(here.summaries[0], "bit/s") in page  # type: ignore[arg-type]


def test_history_has_plain_ip_beside_the_vpns() -> None:
    """So that a reader sees whether the VPN moved, or the machine did."""
    runs = []
    for day, plain in ((1, 9000.0), (2, 5000.0)):
        run = RUN.model_copy(update={"run_id": f"run{day}", "created_at": f"2026-01-0{day}"})
        runs.append((run, with_baseline(300, plain, day)))
    found = {trend.vpn: [round(one.median, -3) for one in trend.summaries if one] for trend in trends(runs)}
    assert {*found} == {"openvpn", "plain IP"}
    assert found["plain IP"] == [pytest.approx(9000, rel=0.3), pytest.approx(5000, rel=0.3)]
    assert "plain IP" in history_html(trends(runs))
    alone = [(run, [trial for trial in trials if trial.vpn == "openvpn"]) for run, trials in runs]
    assert {trend.vpn for trend in trends(alone)} == {"openvpn"}
