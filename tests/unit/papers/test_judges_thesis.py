"""The thesis' open questions: other VPNs, a ranking by security, the integrity that it does not state; and lookups."""

from __future__ import annotations

import pytest

from runner.data.trials import Trial
from runner.instruments.security.run import SecurityProbes
from runner.papers.findings import Judgement, judge
from runner.papers.judges import findings_of
from tests.unit.findings_worlds import finding, made
from tests.unit.synthetic import make_run, make_trial


@pytest.mark.parametrize(
    ("points", "answer", "order"),
    [
        (
            {"ipsec": 9.0, "openvpn": -2.0},
            "yes",
            "ipsec 9, openvpn 9, ssh_forward 5, ssh_tun 5; as set up here, not closed: openvpn",
        ),
        (
            {"ipsec": 5.0, "openvpn": -6.0},
            "no",
            "ipsec 5, openvpn 5, ssh_forward 5, ssh_tun 5; as set up here, not closed: openvpn",
        ),
        ({"ipsec": 5.0, "openvpn": 5.0}, "no", "ipsec 5, openvpn 5, ssh_forward 5, ssh_tun 5"),
    ],
)
def test_the_thesis_four_are_ranked_by_security(points: dict[str, float], answer: str, order: str) -> None:
    found = ranked({**points, "ssh_forward": 5.0, "ssh_tun": 5.0})
    assert (found.verdict, found.answer, found.note) == ("answered", answer, f"in points: {order}")


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ({"ipsec": 9.0}, "openvpn has no declared_strength"),
        ({"ipsec_user": 9.0, "openvpn": -2.0}, "the paper's system decides, and was not measured: "),
    ],
)
def test_a_ranking_by_security_needs_all_four(points: dict[str, float], reason: str) -> None:
    found = ranked({**points, "ssh_forward": 5.0, "ssh_tun": 5.0})
    assert found.verdict == "unmeasured"
    assert found.reason.startswith(reason)


def ranked(points: dict[str, float]) -> Judgement:
    """The finding on VPNs with so many points; one below zero has failed a probe."""
    trials = []
    for vpn, value in points.items():
        for block in (1, 2):
            trial = make_trial(vpn, {"measure": "security", "compression": "off"}, block, {"declared_strength": value})
            failed = {"outranked_by": ["fail_closed"] * (value < 0)}
            mine = [measured.model_copy(update={"detail": failed}) for measured in trial.measurements]
            trials.append(trial.model_copy(update={"measurements": mine}))
    run = make_run(tuple(points))
    probe = next(metric for metric in SecurityProbes.metrics if metric.name == "fail_closed")
    return judge(finding("security", "ranked"), run.model_copy(update={"metrics": {"fail_closed": probe}}), trials)


@pytest.mark.parametrize(("pace", "answer"), [(1.0, "yes"), (0.1, "no")])
def test_gre_over_ipsec_is_compared_with_ipsec_and_what_does_not_encrypt_stands_beside_it(
    pace: float, answer: str
) -> None:
    run, trials = made("thesis")
    found = judge(finding("thesis", "gre_ipsec"), run, with_pace(trials, "gre_ipsec", pace))
    assert (found.verdict, found.answer, found.systems) == ("answered", answer, ["gre_ipsec", "ipsec"])
    assert found.beside.startswith("GRE without encryption 1.8")
    without = judge(finding("thesis", "gre_ipsec"), run, [trial for trial in trials if trial.vpn != "gre_ipsec"])
    assert without.verdict == "unmeasured", "GRE without encryption is no answer"


def with_pace(trials: list[Trial], vpn: str, pace: float) -> list[Trial]:
    return [
        make_trial(t.vpn, t.params, t.repetition, {m.metric: m.value * pace for m in t.measurements})
        if t.vpn == vpn
        else t
        for t in trials
    ]


@pytest.mark.parametrize(("sha1", "answer"), [(1.5, "yes: "), (1.0, "no: ")])
def test_the_thesis_is_judged_at_one_integrity_and_the_other_answers_whether_it_matters(
    sha1: float, answer: str
) -> None:
    run, trials = made("thesis")
    before = {one.id: judge(one, run, trials) for one in findings_of("thesis")}
    assert before["integrity"].verdict == "unmeasured", "it has one"
    other = [
        make_trial(t.vpn, {**t.params, "integrity": "hmac-sha1"}, t.repetition, {"tcp_throughput": m.value * sha1})
        for t in trials
        for m in t.measurements
        if m.metric == "tcp_throughput" and t.params["integrity"] == "hmac-sha256"
    ]
    both = {one.id: judge(one, run, [*trials, *other]) for one in findings_of("thesis")}
    assert both.pop("integrity").reason.startswith(answer)
    assert both == {name: found for name, found in before.items() if name in both}
