"""What a verdict is made from: the paper's own system, questions that get answers, times, a pooled variation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import pytest
from scipy import stats

from questions.papers.findings import findings, needs
from runner.data.trials import Trial
from runner.papers.claims import (
    LESS,
    MORE,
    all_of,
    close,
    compare,
    decide,
    judge_beside,
    single,
    time_within,
    times_longer,
)
from runner.papers.findings import Bound, Data, Judgement, NotMeasured, Open, ahead, judge
from runner.papers.variation import pooled_variation
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
    assert alone.verdict == "unmeasured"
    assert alone.value is None
    assert alone.reason.startswith("the paper's system decides, and was not measured: ipsec has no tcp_throughput")
    assert alone.beside.startswith("userspace ESP (ipsec_user) 1.7")
    neither = judge(finding("thesis", "ipsec-tun"), run, without(without(trials, "ipsec"), "ipsec_user"))
    assert (neither.verdict, neither.beside) == ("unmeasured", "")


def test_what_is_left_without_kernel_esp_decides_nothing() -> None:
    """That SSH forwarding is ahead of the others says nothing of IPsec."""
    run, trials = made("thesis")
    found = judge(finding("thesis", "effective"), run, without(trials, "ipsec"))
    assert found.verdict == "unmeasured"
    assert "ipsec was not measured in this" in found.reason


def test_another_mechanism_is_said() -> None:
    run, trials = made("crypto_matrix")
    found = judge(finding("crypto_matrix", "fragments"), run, trials)
    assert (found.verdict, found.systems) == ("reproduced", ["ipsec"])
    assert found.beside.endswith("(another mechanism: it fragments before it encrypts)")


def test_what_is_beside_has_no_say() -> None:
    def at(verdict: str, value: float) -> Judgement:
        return Judgement.model_validate({"verdict": verdict, "reason": "so", "value": value})

    found = judge_beside(lambda: at("reproduced", 1.0), {"other": lambda: at("not reproduced", 0.3)}, "slower")
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


@pytest.mark.parametrize(("paces", "answer"), [(1.0, "yes"), (3.0, "yes"), (0.3, "no")])
def test_a_question_is_answered_either_way(paces: float, answer: str) -> None:
    run, trials = made("load")
    faster = [
        make_trial(
            *(t.vpn, t.params, t.repetition),
            {m.metric: m.value * (paces if m.unit == "bit/s" else 1.0) for m in t.measurements},
        )
        if t.vpn == "ssh_forward"
        else t
        for t in trials
    ]
    found = judge(finding("load", "keeps-up-64"), run, faster)
    assert (found.verdict, found.answer) == ("answered", answer)
    assert found.reason.startswith(f"{answer}: ")


def test_a_question_without_data_has_no_answer() -> None:
    run, _ = made("load")
    assert judge(finding("load", "keeps-up-64"), run, []).verdict == "unmeasured"


def test_faster_is_not_as_fast() -> None:
    """A ratio of 13 is no "as fast as", but it is "as high as", which has no upper bound."""
    run, trials = made("thesis")
    fast = [
        make_trial(t.vpn, t.params, t.repetition, {m.metric: m.value * 13 for m in t.measurements})
        if t.vpn == "ssh_forward"
        else t
        for t in trials
    ]
    assert judge(finding("thesis", "forward"), run, fast).verdict == "not reproduced"
    assert judge(finding("thesis", "forward-as-high"), run, fast).verdict == "reproduced"
    slow = [
        make_trial(t.vpn, t.params, t.repetition, {m.metric: m.value / 13 for m in t.measurements})
        if t.vpn == "ssh_forward"
        else t
        for t in trials
    ]
    assert judge(finding("thesis", "forward-as-high"), run, slow).verdict == "not reproduced"


def test_two_that_share_no_round_are_not_paired() -> None:
    with pytest.raises(NotMeasured, match="in different rounds"):
        compare({1: 1.0, 2: 1.0}, {3: 2.0, 4: 2.0}, (0.0, 1.0))


def test_no_verdict_from_rounds_that_are_not_shared_though_plain_ip_was_beside_both() -> None:
    """The plain test first, and compression later: the machine drifted in between."""
    run, trials = made("thesis")
    packed = [t for t in trials if t.vpn == "ssh_forward" and t.params.get("compression") == "on"]
    later = [t.model_copy(update={"repetition": t.repetition + 10}) for t in trials if t in packed or t.vpn == "none"]
    apart = [t for t in trials if t not in packed] + later
    together, found = (judge(finding("thesis", "packed-ssh_forward-zeros"), run, some) for some in (trials, apart))
    assert together.verdict == "reproduced", "control"
    assert (found.verdict, found.short) == ("unmeasured", "measured in different rounds")


def test_a_time_is_in_seconds_beside_the_papers_ends() -> None:
    found = time_within({1: 1.63, 2: 1.64, 3: 1.66}, (1.36, 1.99), (1.63, 1.66))
    assert (found.verdict, found.unit, found.published_range) == ("reproduced", "s", (1.63, 1.66))
    assert found.number.endswith(" s")
    assert found.reason == "the interval lies between 1.36 and 1.99"
    assert time_within({1: 0.3, 2: 0.31, 3: 0.32}, (1.36, 1.99)).verdict == "not reproduced"
    assert time_within({1: 1.5}, (1.36, 1.99)).verdict == "undecided"


def spread(cells: Mapping[str, list[float]], seconds: int = 10) -> Data:
    """Of one VPN, a cell for each cipher, with these values of whole tests of so many seconds."""
    trials = [
        make_trial("openvpn", {"measure": "tcp", "cipher": cipher}, block, {"tcp_throughput": value}, samples=seconds)
        for cipher, values in cells.items()
        for block, value in enumerate(values)
    ]
    return Data(make_run(("openvpn",)), trials)


def test_the_variation_is_pooled_over_the_cells_and_has_an_interval() -> None:
    cells = {"a": [100.0, 104.0, 98.0], "b": [50.0, 53.0, 51.0, 49.0]}
    found = pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.5, 10)
    logs = [[math.log(value) for value in values] for values in cells.values()]
    squares = sum(sum((x - sum(one) / len(one)) ** 2 for x in one) for one in logs)
    assert found.value == pytest.approx(math.sqrt(math.expm1(squares / 5)))
    assert found.low == pytest.approx(math.sqrt(math.expm1(squares / stats.chi2.ppf(0.975, 5))))
    assert found.high == pytest.approx(math.sqrt(math.expm1(squares / stats.chi2.ppf(0.025, 5))))
    assert (found.verdict, found.systems, found.published) == ("reproduced", ["openvpn"], 0.5)
    assert pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.001, 10).verdict == "not reproduced"
    assert pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.05, 10).verdict == "undecided"


def test_many_cells_do_not_make_the_variation_larger() -> None:
    few = pooled_variation(spread({"a": [100.0, 104.0, 98.0]}), "tcp_throughput", ("openvpn",), 0.09, 10)
    many = spread({str(n): [100.0 * (n + 1), 104.0 * (n + 1), 98.0 * (n + 1)] for n in range(20)})
    found = pooled_variation(many, "tcp_throughput", ("openvpn",), 0.09, 10)
    assert found.value == pytest.approx(few.value)
    assert found.high is not None
    assert few.high is not None
    assert found.high < few.high


def test_two_repetitions_have_no_variation_and_other_systems_none_of_the_papers() -> None:
    with pytest.raises(NotMeasured, match="needs three repetitions"):
        pooled_variation(spread({"a": [1.0, 2.0]}), "tcp_throughput", ("openvpn",), 0.09, 10)
    with pytest.raises(NotMeasured, match="needs three repetitions"):
        pooled_variation(spread({"a": [1.0, 2.0, 3.0]}), "tcp_throughput", ("ipsec",), 0.09, 10)


@pytest.mark.parametrize(
    ("value", "low", "high", "between", "times"),
    [
        (1.1, 1.1 / 1.3, 1.1 * 1.3, (1.0, math.inf), (math.log(1.3) / math.log(1.1)) ** 2),
        (0.9, 0.9 / 1.2, 0.9 * 1.2, (1.0, math.inf), (math.log(1.2) / math.log(1 / 0.9)) ** 2),
        (1.0, 0.8, 1.25, (1 / 1.1, 1.1), (math.log(1.25) / math.log(1.1)) ** 2),  # both bounds: the wider way
        (1.2, 1.0, 1.44, (1 / 1.1, 1.1), (math.log(1.2) / math.log(1.2 / 1.1)) ** 2),  # the nearer bound is enough
        (0.5, -0.5, 1.5, (0.0, 9.0), 4.0),  # not all positive: as they are
        (1.0, 0.9, 1.1, (1.0, math.inf), None),  # on the bound
    ],
)
def test_how_much_longer_decides(
    value: float, low: float, high: float, between: tuple[float, float], times: float | None
) -> None:
    """The error falls with the root of the time."""
    found = decide(value, low, high, between)
    assert found.verdict == "undecided"
    assert found.longer == (None if times is None else pytest.approx(times))


def test_few_repetitions_need_fewer_more_because_students_quantile_falls() -> None:
    many, few = (times_longer(1.1, 1.1 / 1.3, 1.1 * 1.3, (1.0, math.inf), blocks) for blocks in (0, 3))
    assert many is not None
    assert few is not None
    assert 1 < few < many
    blocks = 3 * few  # the control: so many, and the interval ends at the bound
    quantiles = [float(stats.t.ppf(0.975, n - 1)) for n in (3, blocks)]
    assert math.log(1.3) * quantiles[1] / quantiles[0] / math.sqrt(few) == pytest.approx(math.log(1.1), rel=0.01)


def test_what_is_decided_or_has_no_interval_needs_no_number() -> None:
    assert decide(2.0, 1.5, 2.5, (1.0, 9.0)).longer is None
    assert decide(2.0, None, None, (1.0, 9.0)).longer is None
    assert decide(None, None, None, (1.0, 9.0)).reason == "there is no ratio, because a value is zero"


def test_slices_and_short_tests_say_nothing_of_how_much_whole_tests_vary() -> None:
    cells = {"a": [100.0, 104.0, 98.0]}
    assert pooled_variation(spread(cells), "tcp_throughput", ("openvpn",), 0.5, 10).verdict == "reproduced", "control"
    sliced = spread(cells, seconds=8 * 10)
    for trial in sliced.trials:
        trial.measurements[0].rounds.extend(range(8 * 10))
    for data in (sliced, spread(cells, seconds=9)):
        with pytest.raises(NotMeasured, match="are shorter, and vary more"):
            pooled_variation(data, "tcp_throughput", ("openvpn",), 0.5, 10)


def test_how_sure_a_verdict_is_is_the_p_value_against_the_claims_bound() -> None:
    """At the bound of the interval it is 5 %, and of repetitions it falls as Student's t does."""
    assert decide(1.1, 1.0, 1.21, MORE).chance == pytest.approx(0.05)
    logs = [math.log(value) for value in (1.1, 1.2, 1.15, 1.3)]
    ratio = compare(dict(enumerate(map(math.exp, logs))), dict.fromkeys(range(4), 1.0), MORE)
    assert ratio.chance == pytest.approx(stats.ttest_1samp(logs, 0).pvalue, rel=1e-6)
    assert decide(2.0, 1.9, 2.1, LESS).chance == pytest.approx(0.0, abs=1e-9)
    assert decide(1.0, 0.9, 1.1, MORE).chance is None, "there is no verdict"


def test_many_parts_share_one_error() -> None:
    """Of twenty parts of a true claim, one is refuted by chance, and then the claim is not; surely refuted, it is."""
    hardly, surely = decide(0.9, 0.82, 0.99, MORE), decide(0.5, 0.45, 0.55, MORE)
    good = decide(1.5, 1.4, 1.6, MORE)
    assert hardly.verdict == "not reproduced", "control: alone it counts"
    many = {f"part {number}": partial(lambda one: one, good) for number in range(19)}
    found = all_of({**many, "hardly": lambda: hardly})
    assert (found.verdict, found.kind, found.part) == ("undecided", "shared", "hardly")
    assert found.longer is not None
    assert found.longer > 1
    assert all_of({"hardly": lambda: hardly}).verdict == "not reproduced"
    found = all_of({**many, "hardly": lambda: hardly, "surely": lambda: surely})
    assert (found.verdict, found.part) == ("not reproduced", "surely")


BELOW, ABOVE, NEITHER = (False, True), (True, False), (True, True)  # known from there only


@pytest.mark.parametrize(
    ("value", "may", "between", "verdict"),
    [
        (2.0, BELOW, MORE, "reproduced"),  # it is more, and may be more still
        (0.5, BELOW, MORE, "undecided"),
        (0.5, BELOW, LESS, "undecided"),
        (2.0, BELOW, LESS, "not reproduced"),
        (1.0, BELOW, close(0.1), "undecided"),
        (2.0, BELOW, close(0.1), "not reproduced"),
        (2.0, ABOVE, MORE, "undecided"),
        (0.5, ABOVE, MORE, "not reproduced"),
        (0.5, ABOVE, LESS, "reproduced"),
        (1.0, ABOVE, close(0.1), "undecided"),
        (0.5, NEITHER, MORE, "undecided"),
        (2.0, NEITHER, MORE, "undecided"),
    ],
)
def test_a_bound_decides_what_a_bound_can_decide(
    value: float, may: Open, between: tuple[float, float], verdict: str
) -> None:
    found = decide(value, value / 1.01, value * 1.01, between, may=may)
    assert found.verdict == verdict
    assert found.number.startswith({BELOW: "≥ ", ABOVE: "≤ ", NEITHER: "? "}[may])
    assert ("known from" in found.reason) == (verdict == "undecided")
    assert found.longer is None, "it is not the interval that leaves it open"


def test_what_is_known_from_one_side_stays_so_in_what_is_computed_of_it() -> None:
    rate = Bound(8.0, BELOW)
    assert [one.may for one in (rate / 2, rate + 1, 1 + rate, rate - 1)] == [BELOW] * 4
    assert [one.may for one in (2 / rate, 9 - rate, 1 / (rate / 2))] == [ABOVE] * 3
    assert [one.may for one in (rate / rate, rate - rate)] == [NEITHER] * 2
    assert [rate / 2, rate + 1, rate - 1, 2 / rate, 9 - rate] == [4.0, 9.0, 7.0, 0.25, 1.0]
    assert ahead(rate, 7.0) is True
    assert ahead(7.0, rate) is False
    assert ahead(rate, 9.0) is None
    assert ahead(1.0, 2.0) is False


def test_a_lower_bound_in_one_block_of_two_sides_leaves_their_ratio_open() -> None:
    exact, least = {1: 2.0, 2: 2.02}, {1: Bound(2.0, BELOW), 2: 2.02}
    half = {1: 1.0, 2: 1.01}
    assert compare(exact, half, MORE).verdict == "reproduced", "control"
    assert compare(least, half, MORE).verdict == "reproduced"
    assert compare(half, least, MORE).verdict == "not reproduced"
    for judged in (
        compare(half, least, (0.4, 0.6)),
        single(least, (1.9, 2.1)),
    ):
        assert judged.verdict == "undecided"
    assert compare({1: 2.0, 2: 2.02, 3: Bound(2.0, BELOW)}, half, (1.9, 2.1)).verdict == "reproduced", "not shared"


def test_more_repetitions_are_not_promised_where_a_part_is_known_from_one_side() -> None:
    wide, least = decide(1.1, 0.9, 1.3, MORE), decide(0.5, 0.4, 0.6, MORE, may=BELOW)
    found = all_of({"wide": lambda: wide, "least": lambda: least})
    assert (found.verdict, found.bound, found.longer) == ("undecided", "≥", None)
    assert needs(found, make_run(("ipsec",)), 3) == ""
    assert needs(wide, make_run(("ipsec",)), 3), "control"


def ended_early(trials: list[Trial], vpn: str, **levels: str) -> list[Trial]:
    """The trials, those of a cell with a search that ended before a higher rate failed."""
    ended = {"interval_bps": None, "confirmed_rate_bps": None}
    return [
        t.model_copy(update={"measurements": [m.model_copy(update={"detail": ended}) for m in t.measurements]})
        if t.vpn == vpn and levels.items() <= t.params.items()
        else t
        for t in trials
    ]


def test_a_search_that_ended_early_decides_only_upwards() -> None:
    """AES-GCM is at its limit or above it: it may be the fastest; another cipher that is bounded may be faster."""
    run, good = made("crypto_matrix")
    _, bad = made("crypto_matrix", False)
    fastest = finding("crypto_matrix", "gcm-fastest")
    for trials, before, after in ((good, "reproduced", "reproduced"), (bad, "not reproduced", "undecided")):
        assert judge(fastest, run, trials).verdict == before, "control"
        found = judge(fastest, run, ended_early(trials, "ipsec", cipher="aes-128-gcm"))
        assert (found.verdict, found.bound) == (after, "≥")
    others = [cipher for cipher in Data(run, good).levels("cipher", "ipsec") if cipher != "aes-128-gcm"]
    for cipher in others:
        good = ended_early(good, "ipsec", cipher=cipher)
    assert judge(fastest, run, good).verdict == "undecided"
    (row,) = [row for row in findings(run, good).rows if row.id == "gcm-fastest"]
    assert row.measured_words.startswith("≤ ")
    assert not row.is_undecided, "it is not the interval"


def test_an_order_without_the_papers_own_system_is_another_one() -> None:
    run, trials = made("thesis")
    same = finding("thesis", "same-in-every")
    whole = judge(same, run, trials)
    assert {*whole.systems} == {"ipsec", "openvpn", "ssh_forward", "ssh_tun"}
    assert whole.beside.startswith("userspace ESP (ipsec_user) ")
    alone = judge(same, run, without(trials, "ipsec"))
    assert (alone.verdict, alone.value) == ("unmeasured", None)
    assert alone.beside.startswith("userspace ESP (ipsec_user) ")
    neither = judge(same, run, without(without(trials, "ipsec"), "ipsec_user"))
    assert (neither.verdict, neither.beside) == ("unmeasured", "")
    assert neither.reason.startswith("ipsec was not measured in this")
