"""The thesis' open questions: other VPNs, a ranking by security, the integrity that it does not state; and lookups."""

from __future__ import annotations

import pytest

from runner.data.trials import Trial
from runner.papers.findings import judge
from runner.papers.judges import findings_of
from tests.unit.findings_worlds import finding, made
from tests.unit.synthetic import make_run, make_trial


@pytest.mark.parametrize(
    ("points", "reason"),
    [
        ({"ipsec": 9.0, "openvpn": -2.0}, "yes: points: ipsec 9, ssh_forward 5, ssh_tun 5, openvpn -2; "),
        ({"ipsec": 5.0, "openvpn": 5.0}, "no: points: ipsec 5, openvpn 5, ssh_forward 5, ssh_tun 5; "),
        ({"ipsec": 9.0}, "openvpn has no declared_strength"),
        ({"ipsec_user": 9.0, "openvpn": -2.0}, "the paper's system decides, and was not measured: "),
    ],
)
def test_the_thesis_four_are_ranked_by_security(points: dict[str, float], reason: str) -> None:
    trials = [
        make_trial(vpn, {"measure": "security", "compression": "off"}, block, {"declared_strength": value})
        for vpn, value in {**points, "ssh_forward": 5.0, "ssh_tun": 5.0}.items()
        for block in (1, 2)
    ]
    found = judge(finding("security", "ranked"), make_run(tuple(dict.fromkeys(t.vpn for t in trials))), trials)
    assert found.reason.startswith(reason)
    assert (found.verdict == "answered") == reason.startswith(("yes", "no: "))


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
