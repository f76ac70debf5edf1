"""The choice of a made-up run, as reports tell it."""

from __future__ import annotations

import io
from dataclasses import replace
from itertools import product

import pytest
from rich.console import Console

from questions.choose.judge import choice
from questions.choose.words import headline, kin, lines, measures_others, not_measured, suits
from runner.choice.answer import answer
from runner.choice.devices import devices
from runner.choice.model import Answer
from runner.choice.musts import states, words_of
from runner.data.needs import Needs
from runner.data.trials import Run, Trial
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.terminal import render
from tests.unit.choice.made_up import WELL_WATCHED
from tests.unit.choice.runs import TRUTHS, Truth, chosen_run
from tests.unit.whole_report import build, choice_of, ranked_of

SCENARIOS = (
    Needs(),
    Needs(line_bps=1e8, path_rtt_ms=20),
    Needs(line_bps=1e10, path_rtt_ms=0.5),
    Needs(line_bps=2e7, path_rtt_ms=40, traffic="calls"),
    Needs(line_bps=1e9, path_rtt_ms=20, traffic="files"),
    Needs(line_bps=5e7, path_rtt_ms=30, must=("networks", "udp-blocked")),
)


def screen(run: Run, trials: list[Trial]) -> list[str]:
    console = Console(width=80, height=24, file=io.StringIO(), record=True, force_terminal=True)
    render(build(run, trials), console)
    return console.export_text().rstrip().splitlines()


@pytest.mark.parametrize("needs", SCENARIOS, ids=str)
def test_the_answer_fits_a_small_terminal_and_nothing_is_the_best(needs: Needs) -> None:
    run, trials = chosen_run(needs=needs)
    run = of_protocols(run)
    shown = screen(run, trials)
    assert len(shown) <= 24
    for text in ("\n".join(shown), markdown_text(build(run, trials))):
        assert "is the best" not in text
        assert "probably the best" not in text


def test_without_a_line_there_are_bands_and_no_single_winner() -> None:
    found = choice(*chosen_run())
    assert found is not None
    assert found.answer is None
    assert len(lines(found)) >= 3
    assert found.bands[0].named != found.bands[-1].named


def test_what_the_kernel_would_add_is_said() -> None:
    run, trials = chosen_run(needs=Needs(line_bps=1e8))
    vpns = run.vpns | {
        name: run.vpns[name].model_copy(update={"speaks": "wireguard"}) for name in ("wireguard", "wireguard_go")
    }
    found = choice(run.model_copy(update={"vpns": vpns}), trials)
    assert found is not None
    assert found.absent[:2] == ["ipsec", "wireguard"]
    assert [(one.vpn, one.kernel) for one in found.kin] == [("wireguard_go", "wireguard")]


def test_what_suits_and_is_in_the_kernel_is_not_recommended_where_nothing_in_the_kernel_was_measured() -> None:
    run, trials = chosen_run(needs=Needs(line_bps=1e8, must=("kernel",)), absent=())
    found = choice(run, trials)
    assert not found.others
    assert {"ipsec", "wireguard"} <= {*found.elsewhere}
    assert "not measured here: " in not_measured(found)
    assert measures_others(found, "run") == ""
    in_kernel = run.vpns | {"ssh_tun": run.vpns["ssh_tun"].model_copy(update={"dataplane": "kernel"})}
    found = choice(run.model_copy(update={"vpns": in_kernel}), trials)
    assert {"ipsec", "wireguard"} <= {*found.others}
    assert not found.elsewhere


SPEAK = {"wireguard": "wireguard", "wireguard_go": "wireguard", "ipsec": "ikev2-esp", "ipsec_user": "ikev2-esp"}


def of_protocols(run: Run) -> Run:
    """The run with what its plugins would have declared of their protocols."""
    vpns = {name: record.model_copy(update={"speaks": SPEAK.get(name, "")}) for name, record in run.vpns.items()}
    return run.model_copy(update={"vpns": vpns})


def kin_of(run: Run, trials: list[Trial]) -> tuple[set[str], str]:
    """Who is named, and what is said of the kernel's VPNs."""
    found = choice(of_protocols(run), trials)
    assert found is not None
    return found.named_vpns, kin(found)


def test_of_a_program_that_is_named_or_ruled_out_the_kernels_own_is_spoken_of() -> None:
    named, said = kin_of(*chosen_run(needs=Needs(line_bps=1e9, path_rtt_ms=20, traffic="files")))
    assert named == {"wireguard_go"}
    assert "wireguard speaks the protocol of wireguard_go" in said
    assert "ipsec speaks the protocol of ipsec_user" in said, "which is ruled out"
    assert "take it instead of wireguard_go" in said
    assert "instead of ipsec_user" not in said
    dear = TRUTHS | {"wireguard_go": Truth(3.5e9, 6e8, 300.0), "openvpn": Truth(1.5e9, 9e8, 10.0)}
    named, said = kin_of(*chosen_run(dear, needs=Needs(line_bps=1e8, path_rtt_ms=20)))
    assert "wireguard_go" not in named
    assert "wireguard speaks the protocol of wireguard_go" in said
    assert "instead of wireguard_go" not in said


def test_the_kernels_own_need_not_have_been_asked_for() -> None:
    _, said = kin_of(*chosen_run(absent=()))
    assert "wireguard speaks the protocol of wireguard_go" in said
    assert "ipsec or libreswan speaks the protocol of ipsec_user" in said


def test_nothing_is_said_of_a_vpn_of_the_kernel_that_was_measured_or_may_not_do() -> None:
    truths = TRUTHS | {"wireguard": Truth(4e9, 2e9, 8.0)}
    _, said = kin_of(*chosen_run(truths, absent=("ipsec",)))
    assert "ipsec_user" in said
    assert "wireguard" not in said
    blocked = Needs(line_bps=5e7, path_rtt_ms=30, must=("networks", "udp-blocked"))
    _, said = kin_of(*chosen_run(needs=blocked))
    assert said == "", "neither has the must"


def test_why_speaks_of_the_kernels_own_of_the_vpns_that_it_is_asked_about() -> None:
    run, trials = chosen_run(needs=Needs(line_bps=1e8, path_rtt_ms=20))
    found = choice(of_protocols(run), trials)
    assert "wireguard speaks" in " ".join(suits(found, "wireguard_go", "ssh_tun"))
    assert "ipsec" not in suits(found, "wireguard_go", "ssh_tun")[-1]
    assert "In the kernel" not in " ".join(suits(found, "ssh_tun", "openvpn"))


@pytest.mark.parametrize("seed", range(4))
def test_four_passes_name_what_the_whole_run_names(seed: int) -> None:
    for line_bps in (2e7, 1e8, 5e8, 1e9):
        needs = Needs(line_bps=line_bps, path_rtt_ms=20)
        few, whole = (answered(*chosen_run(needs=needs, passes=passes, seed=seed)) for passes in (4, 16))
        assert few.named[0] in whole.named or few.certainty != "sure"


def edited(trials: list[Trial], vpn: str, how: str, repetition: int) -> list[Trial]:
    """The trials after something happened to those of one VPN."""
    hit = [trial for trial in trials if trial.vpn == vpn and trial.repetition == repetition]
    rest = [trial for trial in trials if trial not in hit]
    if how == "dropped":
        return rest
    if how == "failed":
        gone = {"status": "failed", "measurements": [], "curve": [], "reason": "the tunnel broke down"}
        return rest + [trial.model_copy(update=gone) for trial in hit]
    if how == "cut":
        return rest + [trial.model_copy(update={"curve": trial.curve[:1]}) for trial in hit]
    return trials + [trial.model_copy(update={"repetition": trial.repetition + 7}) for trial in hit]


def answered(run: Run, trials: list[Trial]) -> Answer:
    words = words_of(states(run, trials))
    return answer(devices(run, trials), words, run.needs)


def place(run: Run, trials: list[Trial], vpn: str) -> tuple[int, float]:
    """How good the answer is for one VPN: taken, equally good, or not named; and the grade."""
    found = answered(run, trials)
    if vpn not in {candidate.vpn for candidate in found.candidates}:
        return 0, -9
    return (2 if found.named[:1] == [vpn] else 1 if vpn in found.named else 0), -found.candidate_of(vpn).grade


HOWS, VPNS = ("dropped", "failed", "cut", "repeated"), ("wireguard_go", "openvpn", "ipsec_user", "ssh_tun")
EDITS = [  # each of both once in the gate
    pytest.param(how, vpn, marks=[] if HOWS.index(how) == VPNS.index(vpn) else [pytest.mark.slow])
    for how, vpn in product(HOWS, VPNS)
]


@pytest.mark.parametrize(("how", "vpn"), EDITS)
def test_what_happens_to_its_own_trials_never_improves_a_vpns_answer(how: str, vpn: str) -> None:
    for line_bps, repetition in product((2e7, 1e8, 1e9), (1, 2)):
        run, trials = chosen_run(needs=Needs(line_bps=line_bps, path_rtt_ms=20), passes=8)
        before, after = place(run, trials, vpn), place(run, edited(trials, vpn, how, repetition), vpn)
        assert after <= before, (how, vpn, line_bps, before, after)


def test_a_vpn_with_failed_trials_is_named_with_them() -> None:
    run, trials = chosen_run(needs=Needs(line_bps=1e8, path_rtt_ms=20))
    shown = "\n".join(screen(run, edited(trials, "openvpn", "failed", 1)))
    assert "openvpn gave no number in 5 of 10 trials" in shown


def test_in_user_mode_linux_the_kernels_vpns_are_compared_with_each_other_alone() -> None:
    truths = {name: TRUTHS[name] for name in ("none", "wireguard_go")} | {
        "ipsec": Truth(3e8, 2e8),
        "gre_ipsec": Truth(2.8e8, 1.9e8),
    }
    run, trials = chosen_run(truths, absent=(), guest="uml")
    report = build(run, trials)
    assert {vpn for band in choice_of(report).bands for vpn in band.named} <= {"ipsec", "gre_ipsec"}
    compared = {vpn for pair in ranked_of(report).verdicts for vpn in (pair.a, pair.b)}
    assert compared <= {"ipsec", "gre_ipsec"}
    assert any("wireguard_go" in caveat for caveat in report.caveats)


def test_headline_says_take_and_how_sure() -> None:
    """It is the word of the weakest certainty: what was not watched for long is probable at most."""
    found = choice(*chosen_run(needs=Needs(line_bps=1e9, path_rtt_ms=20, traffic="files")))
    assert found is not None
    assert headline(found).startswith("Take probably wireguard_go: it carries your 1 Gbit/s")
    devices = {vpn: replace(device, watched=WELL_WATCHED) for vpn, device in found.devices.items()}
    words = {vpn: {must: state.word for must, state in own.items()} for vpn, own in found.states.items()}
    sure = found.model_copy(update={"answer": answer(devices, words, found.needs)})
    assert headline(sure).startswith("Take wireguard_go: it carries your 1 Gbit/s")
    assert headline(sure).endswith("Sure.")


def test_why_a_vpn_has_no_datagrams_is_said() -> None:
    """Else "not measured" is all that a user learns of it."""
    why = "a packet of 1328 bytes (IPv4) is longer than the tunnel's MTU, 1280 bytes"
    run, trials = chosen_run(needs=Needs(line_bps=1e8))
    refused = {"status": "unsupported", "reason": why, "measurements": [], "curve": []}
    short = [
        trial.model_copy(update=refused) if (trial.vpn, trial.params["measure"]) == ("openvpn", "udp") else trial
        for trial in trials
    ]
    found, before = choice(run, short), choice(run, trials)
    assert found is not None
    assert before is not None
    assert (found.partly, before.partly) == ({"openvpn": why}, {})
    page, text = html_text(build(run, short)), " ".join(" ".join(screen(run, short)).split())
    assert "1280 bytes" in page.split("</dl>")[0]
    assert "No datagrams of openvpn: a packet of 1328 bytes" in text
