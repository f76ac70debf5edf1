"""Verdicts as people read them, in every form; the reader's own margins; before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from questions.compare.runs import compare_runs
from questions.rank.judgement import of_ranking
from questions.rank.verdict_words import count_verdicts, ratio, time_more, words
from runner.data.errors import UsageError
from runner.data.trials import Run, Trial
from runner.ranking.margins import with_margins
from runner.ranking.model import Verdict
from runner.report.forms.tables import json_text
from runner.report.model import Report
from tests.bench.decide import QUIET
from tests.bench.simulated_rounds import play, run_of
from tests.unit.reports import everywhere
from tests.unit.synthetic import make_run, realistic_run
from tests.unit.whole_report import build, ranked_of

VPNS = ("openvpn", "ssh_tun", "ipsec_user")
STILL = replace(QUIET, slice=0.08, drift=0.05, stolen=0.0)


def played(truth: Sequence[float], seed: int, rounds: int = 40) -> tuple[Run, list[Trial]]:
    rng = np.random.default_rng(seed)
    return run_of({"tcp_throughput": dict(zip(VPNS, play(STILL, truth, 2, rounds, rng), strict=True))})


def made(rounds: int = 40) -> Report:
    return build(*played([0.0, 0.0, 0.4], 1, rounds))


def test_every_form_says_what_is_decided() -> None:
    report = made()
    assert {one.decision for one in ranked_of(report).verdicts} == {"same", "worse"}
    for name, said in everywhere(report).items():
        assert "Of 3 pairs of VPNs in 1 metric, 3 are decided (better or worse 2, the same 1) and 0 undecided." in said
        assert "Where the spread comes from (standard deviations): TCP slices" in said, name
        assert ("ipsec_user beside openvpn" in said) is (name != "term")  # the order tells it there
    assert '"decision": "same"' in json_text(report)
    written = Report.model_validate_json(json_text(report)).judgements["rank"]["verdicts"]
    assert [Verdict.model_validate(one) for one in written] == ranked_of(report).verdicts


def test_every_form_says_what_would_decide_the_rest() -> None:
    report = made(4)
    (ranking,) = ranked_of(report).rankings
    mine = of_ranking(ranked_of(report).verdicts, ranking)
    (one,) = [one for one in mine if one.ratio and abs(math.log(one.ratio)) < 0.2]
    assert one.seconds is not None
    for said in everywhere(report).values():
        assert time_more(one.seconds) in said
        assert ratio(one) in said


def test_a_run_of_repetitions_has_verdicts_too() -> None:
    report = build(*realistic_run(3))
    assert len(ranked_of(report).verdicts) > 20
    for said in everywhere(report).values():
        assert "pairs of VPNs in 6 metrics" in said
    assert ranked_of(build(make_run(("openvpn",)), [])).verdicts == []


def test_words() -> None:
    verdict = Verdict(configuration="c", image="", metric="rtt", a="a", b="b", decision="undecided", margin=1.1)
    assert words(verdict) == "– undecided, too few measurements in common"
    asked = verdict.model_copy(update={"seconds": 150.2, "reason": ""})
    assert words(asked) == "– undecided, about 3 min more"
    assert [time_more(seconds) for seconds in (0.2, 40.1, 91, 9000)] == [
        "about 1 s more",
        "about 41 s more",
        "about 2 min more",
        "about 3 h more",
    ]
    same = {"decision": "same", "ratio": 1.0432, "decisive_low": 0.99, "decisive_high": 1.08}
    assert words(verdict.model_copy(update=same)) == "1.04 (0.99–1.08) the same"
    assert ratio(verdict) == "–"
    assert (
        ratio(verdict.model_copy(update={"ratio": 1.4321, "decisive_low": 1.36, "decisive_high": 1.51}))
        == "1.43 (1.36–1.51)"
    )
    assert count_verdicts([]) == ""


def test_margins_are_the_readers() -> None:
    run, trials = played([0.0, 0.03, 0.4], 2)
    assert [one.decision for one in ranked_of(build(run, trials)).verdicts].count("same") == 1
    strict = with_margins(run, "tcp_throughput=0.5%")
    assert strict.metrics["tcp_throughput"].margin == pytest.approx(1.005)
    assert strict.metrics["rtt"].margin == run.metrics["rtt"].margin
    assert [one.decision for one in ranked_of(build(strict, trials)).verdicts].count("same") == 0
    every = with_margins(run, "rtt=1.3, 5%")
    assert {metric.margin for name, metric in every.metrics.items() if name != "rtt"} == {1.05}
    assert every.metrics["rtt"].margin == 1.3
    assert with_margins(run, "") is run


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("rtt=much", "'much' is not a number"),
        ("0.9", "more than 0 %"),
        ("-5%", "more than 0 %"),
        ("rtt=inf", "more than 0 %"),
        ("rttt=5%", "rtt"),
    ],
)
def test_margins_that_are_none(said: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        with_margins(make_run(("openvpn",)), said)


def test_two_runs_of_rounds_have_the_same_four_verdicts() -> None:
    before = played([0.0, 0.0, 0.0], 3, 60)
    after = played([0.0, 0.5, -0.5], 4, 60)
    found = {change.vpn: change for change in compare_runs(before, after).changes}
    assert [found[vpn].verdict for vpn in VPNS] == ["no difference", "improvement", "regression"]
    moved = found["ssh_tun"].ratio
    assert moved is not None
    assert moved.low is not None
    assert moved.high is not None
    assert moved.low < math.exp(0.5) < moved.high


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(0.9, 1.2, "0.9–1.2"), (4e-21, 7e18, "too little is known yet"), (None, None, "no interval")],
)
def test_an_interval_that_says_nothing_is_said_so(low: float | None, high: float | None, said: str) -> None:
    verdict = Verdict(
        **{"configuration": "c", "image": "", "metric": "rtt", "a": "a", "b": "b", "decision": "undecided"},
        margin=1.1,
        ratio=1.05,
        decisive_low=low,
        decisive_high=high,
    )
    assert ratio(verdict) == f"1.05 ({said})"
