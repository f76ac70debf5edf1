"""What a verdict is made from: the paper's own system, questions that get answers, times, a pooled variation."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from scipy import stats

from runner.data.trials import Trial
from runner.papers.claims import apart, beside, compare, pooled_variation, timed
from runner.papers.findings import Data, Judgement, NotMeasured, judge
from runner.report.findings import findings
from tests.unit.findings_worlds import finding, made
from tests.unit.synthetic import make_run, make_trial


def without(trials: list[Trial], vpn: str) -> list[Trial]:
    return [trial for trial in trials if trial.vpn != vpn]


def test_kernel_esp_decides_and_userspace_esp_is_beside_it() -> None:
    run, trials = made("thesis")
    both = judge(finding("thesis", "ipsec-tun"), run, trials)
    assert both.systems == ["ipsec", "ssh_tun"]
    assert both.beside.startswith("userspace ESP (ipsec_user) 1.7")
    alone = judge(finding("thesis", "ipsec-tun"), run, without(trials, "ipsec"))
    assert alone.verdict == "not comparable"
    assert alone.value is None
    assert alone.reason.startswith("the paper's system decides, and was not measured: ipsec has no tcp_throughput")
    assert alone.beside == both.beside
    neither = judge(finding("thesis", "ipsec-tun"), run, without(without(trials, "ipsec"), "ipsec_user"))
    assert (neither.verdict, neither.beside) == ("not comparable", "")


def test_what_is_left_without_kernel_esp_decides_nothing() -> None:
    """That SSH forwarding is ahead of the others says nothing of IPsec."""
    run, trials = made("thesis")
    found = judge(finding("thesis", "effective"), run, without(trials, "ipsec"))
    assert found.verdict == "not comparable"
    assert "ipsec was not measured in this" in found.reason


def test_another_mechanism_is_said() -> None:
    run, trials = made("crypto_matrix")
    found = judge(finding("crypto_matrix", "fragments"), run, trials)
    assert (found.verdict, found.systems) == ("reproduced", ["ipsec"])
    assert found.beside.endswith("(another mechanism: it fragments before it encrypts)")


def test_what_is_beside_has_no_say() -> None:
    def at(verdict: str, value: float) -> Judgement:
        return Judgement.model_validate({"verdict": verdict, "reason": "so", "value": value})

    found = beside(lambda: at("reproduced", 1.0), {"other": lambda: at("not reproduced", 0.3)}, "slower")
    assert (found.verdict, found.value, found.beside) == ("reproduced", 1.0, "other 0.3 (no interval) (slower)")


def test_every_row_names_systems_with_their_planes_kernel_and_run() -> None:
    run, trials = made("thesis")
    guest = run.model_copy(update={"lab": {**run.lab, "kernel": "6.1.176", "guest": "uml"}, "run_id": "the-run"})
    rows = {row.id: row for row in findings(guest, trials).rows}
    assert rows["ipsec-tun"].systems == ["ipsec (kernel)", "ssh_tun (userspace)"]
    assert rows["ipsec-tun"].made_from == "ipsec (kernel), ssh_tun (userspace); kernel 6.1.176 in uml; run the-run"
    assert all(row.systems and row.kernel and row.run for row in rows.values() if row.value is not None)
    bare = {row.id: row for row in findings(run, []).rows}
    assert bare["ipsec-tun"].made_from == "–"


@pytest.mark.parametrize(("paces", "answer"), [(1.0, "yes: "), (3.0, "no: ")])
def test_a_question_is_answered_either_way(paces: float, answer: str) -> None:
    run, trials = made("load")
    faster = [
        make_trial(t.vpn, t.params, t.repetition, {m.metric: m.value * paces for m in t.measurements})
        if t.vpn == "ssh_forward"
        else t
        for t in trials
    ]
    found = judge(finding("load", "keeps-up-64"), run, faster)
    assert found.verdict == "answered"
    assert found.reason.startswith(answer)
    one = judge(finding("load", "keeps-up-1"), run, faster)
    assert one.verdict == ("reproduced" if paces == 1 else "not reproduced"), "the thesis' own claim is judged"


def test_a_question_without_data_has_no_answer() -> None:
    run, _ = made("load")
    assert judge(finding("load", "keeps-up-64"), run, []).verdict == "not comparable"


def test_faster_is_not_as_fast() -> None:
    """The same ratio of 13 is no "as fast as", in whichever experiment it was found."""
    run, trials = made("thesis")
    fast = [
        make_trial(t.vpn, t.params, t.repetition, {m.metric: m.value * 13 for m in t.measurements})
        if t.vpn == "ssh_forward"
        else t
        for t in trials
    ]
    assert judge(finding("thesis", "forward"), run, fast).verdict == "not reproduced"


def test_two_that_share_no_round_are_not_paired() -> None:
    with pytest.raises(NotMeasured, match="in different rounds"):
        compare({1: 1.0, 2: 1.0}, {3: 2.0, 4: 2.0}, (0.0, 1.0))


def test_two_that_took_no_turns_are_compared_as_they_are() -> None:
    many = {block: 2.0 + block / 1e3 for block in range(40, 60)}  # rounds
    found = apart(many, {1: 1.0, 2: 1.01, 3: 0.99}, (1.5, 2.5), 2.1)
    assert (found.verdict, found.published) == ("reproduced", 2.1)
    assert found.value == pytest.approx(2.05, rel=0.01)
    assert apart(many, {1: 4.0, 2: 4.04, 3: 3.99}, (1.5, 2.5)).verdict == "not reproduced"
    assert apart(many, {1: 1.0}, (1.5, 2.5)).verdict == "not comparable"


def test_a_time_is_in_seconds_beside_the_papers_ends() -> None:
    found = timed({1: 1.63, 2: 1.64, 3: 1.66}, (1.36, 1.99), (1.63, 1.66))
    assert (found.verdict, found.unit, found.published_range) == ("reproduced", "s", (1.63, 1.66))
    assert found.number.endswith(" s")
    assert found.reason == "the interval lies between 1.36 and 1.99 s"
    assert timed({1: 0.3, 2: 0.31, 3: 0.32}, (1.36, 1.99)).verdict == "not reproduced"
    assert timed({1: 1.5}, (1.36, 1.99)).verdict == "not comparable"


def spread(cells: Mapping[str, list[float]]) -> Data:
    """Of one VPN, a cell for each cipher, with these values."""
    trials = [
        make_trial("openvpn", {"measure": "tcp", "cipher": cipher}, block, {"tcp_throughput": value})
        for cipher, values in cells.items()
        for block, value in enumerate(values)
    ]
    return Data(make_run(("openvpn",)), trials)


def test_the_variation_is_pooled_over_the_cells_and_has_an_interval() -> None:
    cells = {"a": [100.0, 104.0, 98.0], "b": [50.0, 53.0, 51.0, 49.0]}
    found = pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.5)
    logs = [[math.log(value) for value in values] for values in cells.values()]
    squares = sum(sum((x - sum(one) / len(one)) ** 2 for x in one) for one in logs)
    assert found.value == pytest.approx(math.sqrt(math.expm1(squares / 5)))
    assert found.low == pytest.approx(math.sqrt(math.expm1(squares / stats.chi2.ppf(0.975, 5))))
    assert found.high == pytest.approx(math.sqrt(math.expm1(squares / stats.chi2.ppf(0.025, 5))))
    assert (found.verdict, found.systems, found.published) == ("reproduced", ["openvpn"], 0.5)
    assert pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.001).verdict == "not reproduced"
    assert pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.05).verdict == "not comparable"


def test_many_cells_do_not_make_the_variation_larger() -> None:
    few = pooled_variation(spread({"a": [100.0, 104.0, 98.0]}), "tcp_throughput", ("openvpn",), 0.09)
    many = spread({str(n): [100.0 * (n + 1), 104.0 * (n + 1), 98.0 * (n + 1)] for n in range(20)})
    found = pooled_variation(many, "tcp_throughput", ("openvpn",), 0.09)
    assert found.value == pytest.approx(few.value)
    assert found.high is not None
    assert few.high is not None
    assert found.high < few.high


def test_two_repetitions_have_no_variation_and_other_systems_none_of_the_papers() -> None:
    with pytest.raises(NotMeasured, match="needs three repetitions"):
        pooled_variation(spread({"a": [1.0, 2.0]}), "tcp_throughput", ("openvpn",), 0.09)
    with pytest.raises(NotMeasured, match="needs three repetitions"):
        pooled_variation(spread({"a": [1.0, 2.0, 3.0]}), "tcp_throughput", ("ipsec",), 0.09)
