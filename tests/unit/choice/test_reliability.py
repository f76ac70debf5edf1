"""A VPN that fails now and then: every attempt counts, beside plain IP and the others in the same rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from runner.choice.answer import answer
from runner.choice.devices import devices
from runner.choice.grade import grade_device
from runner.choice.model import Answer, Grade
from runner.choice.musts import states, words_of
from runner.choice.reliability import Counts, RungAttempts, excess
from runner.choice.thresholds import USUAL
from runner.data.needs import Needs
from tests.unit.choice.made_up import RUNGS_BPS, device, needs, words
from tests.unit.choice.made_up import watched as watch
from tests.unit.choice.runs import TRUTHS, chosen_run, with_bad


def said(share_of: Callable[[str], float], seed: int = 1, passes: int = 8, **stated: object) -> Answer:
    run, trials = chosen_run(needs=Needs.model_validate({"line_bps": 5e7} | stated), passes=passes, seed=seed)
    spoilt = with_bad(trials, share_of, seed)
    return answer(devices(run, spoilt), words_of(states(run, spoilt)), run.needs)


def bad(*vpns: str, share: float = 0.4) -> Callable[[str], float]:
    return lambda vpn: share if vpn in vpns else 0.0


@pytest.mark.parametrize(
    "traffic", ["mixed", *(pytest.param(one, marks=pytest.mark.slow) for one in ("files", "calls"))]
)
@pytest.mark.parametrize("passes", [4, 24])
def test_what_fails_in_a_third_of_its_attempts_is_not_named_however_long_it_is_measured(
    traffic: str, passes: int
) -> None:
    named = [said(bad("wireguard_go", share=0.3), seed, passes, traffic=traffic).named for seed in range(8)]
    assert sum("wireguard_go" in each for each in named) <= 1
    assert all(each for each in named), "the others are"
    fine = said(bad(share=0.0), passes=passes, traffic=traffic)
    assert "wireguard_go" in fine.named, "the positive control"


def test_why_it_is_not_named_is_told_with_its_attempts() -> None:
    found = said(bad("wireguard_go")).candidate_of("wireguard_go")
    assert [reason.criterion for reason in found.reasons] == ["failures"]
    assert 0.2 < found.bad_attempts / found.attempts < 0.6
    assert found.grade == Grade.USELESS


def test_the_machine_is_excused_and_never_the_vpn() -> None:
    """What happens to all, plain IP with them, is the machine's; of two that fail neither excuses the other."""
    blamed = [
        candidate.vpn
        for seed in range(6)
        for candidate in said(lambda _: 0.15, seed).candidates
        if "failures" in [*candidate.reservations, *(reason.criterion for reason in candidate.reasons)]
    ]
    assert len(blamed) <= 2, "of 24, each with 5 %"
    two = said(bad("wireguard_go", "openvpn"))
    assert not {"wireguard_go", "openvpn"} & {*two.named}


def test_what_cannot_be_carried_anyway_is_no_failure() -> None:
    """ipsec_user carries 300 Mbit/s of datagrams: all attempts above fail, and count for no line below."""
    found = said(bad(), line_bps=1e8).candidate_of("ipsec_user")
    assert (found.bad_attempts, found.grade) == (0, Grade.FITS)


@pytest.mark.parametrize("tcp_bps", [4e8, 1.3e8, 1.245e8, 1.17e8])
def test_who_carries_less_does_not_lose_its_bad_attempts(tcp_bps: float) -> None:
    """All at 100 Mbit/s are bad: a VPN that fits a line of that rate is judged by them, with however little room."""
    rungs = tuple(
        RungAttempts(rate_bps, Counts(8, 8 * (rate_bps == 1e8)), 0, Counts(24, 0), 0)
        for rate_bps in RUNGS_BPS
        if rate_bps <= 1e8
    )
    vpn = replace(device("vpn", tcp_bps, watched=None), attempts={"tcp": rungs})
    found = answer({"vpn": vpn}, words("vpn"), needs(1e8, traffic="files"))
    assert [reason.criterion for reason in found.candidate_of("vpn").reasons] == ["failures"]
    fine = answer({"vpn": replace(vpn, attempts={"tcp": rungs[:2]})}, words("vpn"), needs(1e8, traffic="files"))
    assert fine.named == ["vpn"], "the positive control"


def test_a_long_watch_decides_what_slices_cannot() -> None:
    run, trials = chosen_run(needs=Needs(line_bps=5e7))
    made, states_of = devices(run, trials), words_of(states(run, trials))
    rate_bps = grade_device(made["wireguard_go"], run.needs, USUAL).datagrams_bps

    def watched(bad_windows: int, gap_s: float = 0.02) -> Answer:
        seen = watch(rate_bps, bad=bad_windows, gap_s=gap_s)
        return answer(made | {"wireguard_go": replace(made["wireguard_go"], watched=seen)}, states_of, run.needs)

    def first(found: Answer) -> str:
        return found.certainties.steady

    assert (watched(0).named[0], first(watched(0))) == ("wireguard_go", "sure")
    assert "wireguard_go" not in watched(90).named, "a policer that lets two seconds through"
    fast = watch(4 * rate_bps, bad=90)
    slower = answer(made | {"wireguard_go": replace(made["wireguard_go"], watched=fast)}, states_of, run.needs)
    assert "wireguard_go" in slower.named, "what fails at four times the rate tells nothing of this one"
    less = watch(rate_bps / 4, bad=90)
    faster = answer(made | {"wireguard_go": replace(made["wireguard_go"], watched=less)}, states_of, run.needs)
    assert "wireguard_go" not in faster.named, "what fails at a quarter of the rate fails here"
    assert watched(0, gap_s=3.0).candidate_of("wireguard_go").reservations == ["gap"]
    slow = watch(1e6)
    unknown = answer(made | {"wireguard_go": replace(made["wireguard_go"], watched=slow)}, states_of, run.needs)
    assert first(unknown) == "probably", "a watch at a far lower rate shows nothing of this one"


@pytest.mark.parametrize(
    ("own", "control", "low", "value", "high"),
    [
        # Newcombe 1998, table II, method 10: 56/70 and 48/80 (there with 95 % on both sides: z = 1.96).
        ((70, 56), (80, 48), 0.0524, 0.2, 0.3339),
        ((10, 9), (10, 3), 0.1705, 0.6, 0.8090),
    ],
)
def test_the_interval_of_a_difference_is_newcombes(
    own: tuple[int, int],
    control: tuple[int, int],
    low: float,
    value: float,
    high: float,
) -> None:
    assert excess(Counts(*own), Counts(*control)) == pytest.approx((low, value, high), abs=5e-4)


def test_a_copy_of_a_vpn_changes_nothing_and_loses_nobody() -> None:
    """Byte for byte: draws come from the values and not from the names."""
    for line_bps in (1e7, 1e8, 4.5e8, 6.3e8, 1e9):
        line = Needs(line_bps=line_bps)
        run, trials = chosen_run({**TRUTHS}, needs=line, noise=0.2)
        before = answer(devices(run, trials), words_of(states(run, trials)), line)
        copies = [
            trial.model_copy(update={"vpn": "twin", "id": f"twin-{trial.id}"})
            for trial in trials
            if trial.vpn == "openvpn"
        ]
        twins = run.model_copy(update={"vpns": run.vpns | {"twin": run.vpns["openvpn"]}})
        every = [*trials, *copies]
        after = answer(devices(twins, every), words_of(states(twins, every)), line)
        assert set(after.named) - {"twin"} == set(before.named), line_bps
        assert ("twin" in after.named) == ("openvpn" in before.named)
