"""The answer at the end of the terminal: it fits, it says what the run's data say, and what to do next."""

import io
import os
import re
import shlex
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from rich.console import Console

from questions.rank import words as answers_of
from questions.rank.judgement import Ranked, of_ranking
from questions.rank.places import groups
from questions.rank.words import answers, missing
from runner.catalogue import load_run
from runner.data.asked import AskedRun
from runner.data.needs import Needs
from runner.ranking.basis import bases
from runner.ranking.longer import seconds_to_measure
from runner.ranking.model import Verdict, Weights
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.terminal import render
from runner.report.headings import machine
from runner.report.model import Report
from tests.unit.reports import realistic
from tests.unit.synthetic import CBC, TCP, make_run, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of

EXAMPLE = Path(__file__).parents[3] / "results" / "examples" / "two-cores-quick"
CHOICE = EXAMPLE.parents[1] / "choice" / "two-cores"


def console_of(width: int, height: int, full: bool = False) -> Console:
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True)
    render(realistic(3), console, full=full, folder=Path("results/mine"))
    return console


@cache
def shown(width: int, height: int, full: bool = False) -> str:
    return console_of(width, height, full).export_text()


def picture(width: int, height: int) -> str:
    """Of the choice that came with vpneval: on a small terminal for a line, as the README shows it, else for each."""
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, record=True)
    run, trials = load_run(CHOICE)
    needs = Needs(line_bps=1e8, path_rtt_ms=20) if width < 100 else Needs()
    render(build(run.model_copy(update={"needs": needs}), trials), console, folder=Path("results") / CHOICE.name)
    options = " --line 100M --path-rtt 20ms" * (width < 100)
    made = console.export_svg(title=f"vpneval report results/{CHOICE.name}{options}")
    return re.sub(r"\s*@font-face \{.*?\n    \}\n", "\n", made, flags=re.DOTALL)  # its fonts are on a network


def test_a_run_between_two_sites_ends_with_the_command_that_makes_the_tunnel_for_them() -> None:
    levels = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    usual = "vpneval recipe openvpn --set cipher=aes-128-gcm"
    asked = AskedRun(experiments=["transport"], lab="site:mine/sites.toml", profile="site")
    assert answers_of.recipe("openvpn", levels, asked) == f"{usual} --site mine/sites.toml --write tunnel"
    assert answers_of.recipe("openvpn", levels, asked.with_changes(lab="ssh:testbed.toml")) == usual
    console = Console(width=200, height=50, file=io.StringIO(), force_terminal=True, record=True)
    run, trials = realistic_run(3)
    called = [run.invocations[0].model_copy(update={"asked": asked})]
    render(build(run.model_copy(update={"invocations": called}), trials), console, folder=Path("results/mine"))
    assert " --site mine/sites.toml --write tunnel" in console.export_text()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
def test_the_answer_fits_the_terminal(width: int, height: int, tmp_path: Path) -> None:
    lines = shown(width, height).splitlines()
    (Path(os.environ.get("VPNEVAL_SCREENSHOTS") or tmp_path) / f"terminal-{width}x{height}.svg").write_text(
        picture(width, height)
    )
    assert len(lines) < height  # the prompt takes one
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
def test_it_says_who_is_best_with_values_and_what_to_do_next(width: int, height: int) -> None:
    text = shown(width, height)
    report = realistic(3)
    first = answers(ranked_of(report))[0]
    assert " ".join(first.verdict.split()) in " ".join(text.split())
    numbers = {one.metric: one for one in ranked_of(report).behind[first.number]}
    for standing in ranked_of(report).rankings[first.number].standings:
        if standing.place:
            (row, *_) = [line for line in text.splitlines() if re.match(rf" *[\d–]+ +{standing.vpn} ", line)]
            said = float(re.findall(r"%\s+([\d.]+)", row)[0])
            median = numbers["tcp_throughput"].summaries[standing.vpn].median / 1e6
            assert said == pytest.approx(median, rel=0.005)
    for wanted in ("results/mine/report.html", "vpneval recipe wireguard_go", "vpneval more results/mine", "--full"):
        assert wanted in text


def test_every_table_is_there_with_full_and_the_answer_is_its_end() -> None:
    full, short = shown(80, 24, True), shown(80, 24)
    assert full.endswith(short)
    for experiment in realistic(3).experiments:
        assert experiment.question in full
        assert experiment.question not in short


def test_what_cannot_be_told_apart_stands_in_a_group() -> None:
    for ranking in ranked_of(realistic(3)).rankings:
        found = groups(ranking)
        placed = [standing.vpn for standing in ranking.standings if standing.place]
        assert [vpn for group in found for vpn in group] == placed
        sure = {(pair.first, pair.second) for pair in ranking.pairs if pair.separated}
        for left, right in pairwise(found):
            assert {(left[-1], right[0]), (right[0], left[-1])} & sure
        for group in found:
            assert not any(pair in sure for pair in pairwise(group))


def who_is_missing(ranked: Ranked) -> str:
    (equal,) = (one for one in answers(ranked) if one.name == "on equal terms")
    return " ".join(missing(equal.absent))


def in_lab(ranked: Ranked, **facts: str) -> Ranked:
    run = ranked.evidence.run
    there = replace(ranked.evidence, run=run.model_copy(update={"lab": run.lab | facts}))
    return ranked.model_copy(update={"evidence": there})


def test_who_is_missing_is_said_once_for_each_reason_and_how_to_rank_it() -> None:
    said = who_is_missing(ranked_of(realistic(3)))
    assert said.count("ssh_forward") == 1
    assert "ssh_forward: carries TCP only (--weights tcp ranks it)." in said
    assert "wireguard: this kernel lacks what it needs (--kernel uml or qemu has it)." in said


def test_no_kernel_is_named_that_the_run_had_already() -> None:
    for guest, how in (("uml", " (--kernel qemu has it)"), ("qemu-tcg", "")):
        said = who_is_missing(in_lab(ranked_of(realistic(3)), guest=guest))
        assert f"wireguard: this kernel lacks what it needs{how}." in said


def test_a_lab_of_other_machines_has_their_kernels() -> None:
    for kind in ("site", "ssh"):
        said = who_is_missing(in_lab(ranked_of(realistic(3)), kind=kind))
        assert "--kernel" not in said
        assert "wireguard: this kernel lacks what it needs (the machines' kernels need its modules: vpneval" in said


def test_one_ranking_has_those_that_carry_tcp_only_too() -> None:
    report = realistic(3)
    for answer in answers(ranked_of(report)):
        ranking = ranked_of(report).by_tcp[answer.number]
        assert ranking is not None
        placed = [standing.vpn for standing in ranking.standings if standing.place]
        assert {"ssh_forward", "openvpn", "ssh_tun"} <= set(placed)
        said = answers_of.verdict(ranking, ranked_of(report).verdicts)
        tall, low = (" ".join(shown(*size).split()) for size in ((200, 50), (80, 24)))
        assert f"TCP only (--weights tcp): {said.split('. ')[0]}" in tall
        if answer.number == answers(ranked_of(report))[0].number:
            assert f"TCP only (--weights tcp): {said} Order: {placed[0]}" in tall
            assert f"TCP only (--weights tcp): {said.split('. ')[0]}" in low
            assert "ssh_forward: carries TCP only" not in low


def test_given_weights_are_not_answered_with_others() -> None:
    run, trials = realistic_run(3)
    report = build(run, trials, weights=Weights(name="mine", values={"udp_throughput": 1.0}))
    assert [ranked_of(report).by_tcp[answer.number] for answer in answers(ranked_of(report))] == [None, None]


def test_nobody_leads_whose_pairs_are_all_undecided_or_the_same() -> None:
    report = realistic(3)
    ranking = next(one for one in ranked_of(report).rankings if one.configuration == "recommended")
    first, second = [standing.vpn for standing in ranking.standings if standing.place][:2]
    mine = of_ranking(ranked_of(report).verdicts, ranking)
    pairs = [pair.model_copy(update={"decision": "undecided"}) for pair in mine]
    said = "No VPN leads by these weights: every pair is undecided or the same."
    assert answers_of.verdict(ranking, pairs) == said
    others = [at for at, pair in enumerate(pairs) if first not in (pair.a, pair.b)]
    of_first = [at for at, pair in enumerate(pairs) if {pair.a, pair.b} == {first, second}]

    def decided(at: int) -> list[Verdict]:
        return [*pairs[:at], pairs[at].model_copy(update={"decision": "better"}), *pairs[at + 1 :]]

    assert answers_of.verdict(ranking, decided(others[0])) == said.replace("pair is", f"pair of {first} is")
    assert first in answers_of.verdict(ranking, decided(of_first[0])).split(". ")[0]
    assert "leads" not in answers_of.verdict(ranking, decided(of_first[0]))
    none = [pair for pair in pairs if pair.metric != "rtt"]
    assert "rtt" in ranking.weights.counted_metrics
    assert "leads" not in answers_of.verdict(ranking, none)  # nobody knows


def undecided(metric: str, a: str, b: str, seconds: float | None) -> Verdict:
    return Verdict(
        configuration="c", image="", metric=metric, a=a, b=b, decision="undecided", margin=1.1, seconds=seconds
    )


def test_pairs_share_what_is_measured_of_a_vpn_and_all_of_an_instrument_the_baseline() -> None:
    run, trials = realistic_run(3)

    def seconds(*found: Verdict) -> float | None:
        return seconds_to_measure(run, found, bases(run, trials))

    two = [undecided("tcp_throughput", "a", "b", 60), undecided("tcp_throughput", "a", "c", 100)]
    assert seconds(*two) == pytest.approx(50 + 30 + 50 + 50)
    assert seconds(*two, undecided("cpu_per_gigabyte", "a", "b", 40)) == pytest.approx(180)
    assert seconds(*two, undecided("rtt", "a", "b", 40)) == pytest.approx(180 + 60)
    assert seconds(undecided("rtt", "a", "b", None)) is None
    assert seconds(two[0].model_copy(update={"decision": "better", "seconds": None})) is None
    slow = undecided("rtt", "a", "b", 40_000)
    assert seconds(*[undecided("rtt", "a", f"{n}", 40) for n in range(9)], slow) == pytest.approx(11 * 20)


def test_every_form_says_the_same_of_how_long_it_takes() -> None:
    report = realistic(3)
    minutes = round((ranked_of(report).seconds_more or 0) / 60)
    first = next(one for one in answers(ranked_of(report)) if one.open)
    said = answers_of.sure(ranked_of(report), first)
    assert f"about {minutes} min more would decide most of them." in said
    tall = " ".join(shown(200, 50).split())
    mine = Path("results/mine")
    written, page = markdown_text(report, folder=mine), html_text(report, mine)
    for form in (tall, " ".join(shown(80, 24).split()), written):
        assert f"{said.removesuffix('.')}: vpneval more results/mine" in form
    assert said in page
    assert "<code>vpneval more results/mine</code>" in page
    for form in (tall, written, page):
        assert {*re.findall(r"(about \d+ (?:min|h) more) would decide most", form)} == {f"about {minutes} min more"}


def test_a_command_that_goes_on_can_be_pasted() -> None:
    report = realistic(3)
    first = next(one for one in answers(ranked_of(report)) if one.open)
    assert shlex.split(answers_of.go_on(ranked_of(report), first, "my runs/x y")) == ["vpneval", "more", "my runs/x y"]
    assert answers_of.go_on(ranked_of(report), replace(first, open=0), "x") == ""


def report_of(blocks: int, vpns: tuple[str, ...]) -> Report:
    cells = [(number, vpn, block) for number, vpn in enumerate(vpns) for block in range(blocks)]
    made = [make_trial(vpn, CBC | TCP, block, {"tcp_throughput": 1e8 * (1 + number)}) for number, vpn, block in cells]
    return build(make_run(vpns), made)


def test_one_vpn_and_one_repetition_crown_nobody() -> None:
    (alone,) = answers(ranked_of(report_of(3, ("openvpn",))))
    assert alone.verdict == "No VPN could be ranked."
    (once,) = answers(ranked_of(report_of(1, ("openvpn", "ssh_tun"))))
    assert once.verdict == "openvpn and ssh_tun cannot be told apart: too little was measured."


def test_one_core_is_not_cores() -> None:
    run, trials = realistic_run(2)
    report = build(run.model_copy(update={"lab": run.lab | {"cores": 1}}), trials)
    assert ", 1 core, " in machine(report)
    assert not re.search(r"\b1 cores", report.model_dump_json())
