"""What a report says of the machines of a farm: where the order holds, who stands out, and what they differ by."""

import io
import math
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from questions.rank.machines import holds, machine_plots
from runner.data.errors import UsageError
from runner.data.merge import merge_runs
from runner.data.trials import Run, Trial
from runner.design.blocks import Table
from runner.evidence.estimates import RoundValues, estimate_pairs
from runner.report.forms.html import html_text
from runner.report.forms.terminal_answer import render_answer
from runner.report.kinds import by_kind
from runner.report.plots.vega import svg
from tests.bench.made_up_farm import MACHINE, VPNS, block_of, run_of
from tests.unit.whole_report import build, ranked_of


def measured(speeds: dict[str, dict[str, float]], blocks: int = 3) -> tuple[Run, list[Trial]]:
    """A run of so many blocks on each machine; ``speeds``: machine -> VPN -> bit/s, where it differs from VPNS."""
    trials: list[Trial] = []
    for place, (name, own) in enumerate(speeds.items()):
        for number in range(place * blocks + 1, (place + 1) * blocks + 1):
            made, _ = block_of(number, speeds={**VPNS, **own})
            trials += [trial.model_copy(update={"machine": name}) for trial in made]
    run = run_of(blocks * len(speeds)).model_copy(update={"machines": dict.fromkeys(speeds, MACHINE)})
    return run, trials


def test_the_order_holds_on_most_machines() -> None:
    slow = {"wireguard_go": 200e6}
    run, trials = measured({f"m{number}": slow if number == 7 else {} for number in range(1, 11)})
    report = build(run, trials)
    (found,) = ranked_of(report).machines
    assert (found.first, found.second) == ("wireguard_go", "ssh_tun")
    assert holds(found) == ("wireguard_go leads on 9 of 10 machines; on m7 ssh_tun leads. Not like the others: m7.")
    by_name = {one.machine: one for one in found.machines}
    assert by_name["m1"].ratios[0].ratio == pytest.approx(570 / 350, rel=0.03)
    assert by_name["m7"].ratios[0].ratio == pytest.approx(200 / 350, rel=0.03)
    assert by_name["m7"].stands_out
    assert not by_name["m1"].stands_out
    first = next(one for one in report.sections["machines"] if isinstance(one, Table))
    assert [row[0] for row in first.rows] == sorted(by_name)


def test_the_answer_and_the_page_say_on_how_many_machines_the_order_holds() -> None:
    speeds = {f"m{number}": {"wireguard_go": 200e6} if number == 7 else {} for number in range(1, 11)}
    report = build(*measured(speeds))
    console = Console(width=100, record=True, file=io.StringIO())
    render_answer(report, console)
    assert "wireguard_go leads on 9 of 10 machines; on m7 ssh_tun leads." in console.export_text()
    assert "wireguard_go over ssh_tun on each machine" in html_text(report)
    (plot,) = machine_plots(ranked_of(report).machines)
    drawn = svg(plot.spec)
    assert all(f">{name}<" in drawn for name in speeds)


def test_the_facts_in_which_machines_differ_are_shown() -> None:
    facts: dict[str, dict[str, Any]] = {}
    for number in range(1, 4):
        ring = {"rx": 256 if number == 3 else 1024}
        ports = {"gw1 lan0": {"driver": "virtual", "ring": ring, "interrupts": {str(number): ["0"]}}}
        facts[f"m{number}"] = {
            "governor": "powersave" if number == 2 else "performance",
            "bring_up_s": 0.1 * number,
            "links": [{"mtu": 1500}, {"mtu": 1400 if number == 1 else 9000}],
            "memory_bytes": 8_000_000_000 + number,
            "openssl_bps": {"aes-128-gcm": number * 1e9, "aes-256-gcm": 1e9 + number},
            "machines": {"this machine": {"governor": "again", "maker": "made up", "ports": ports}},
        }
    run, trials = measured({name: {} for name in facts})
    machines = {name: one.model_copy(update={"lab": facts[name]}) for name, one in run.machines.items()}
    report = build(run.model_copy(update={"machines": machines}), trials)
    assert {one.fact: one.values for one in report.machines_differ} == {
        "governor": [("performance", ["m1", "m3"]), ("powersave", ["m2"])],
        "openssl bps aes-128-gcm": [("1000000000", ["m1"]), ("3000000000", ["m3"])],
        "links 2 mtu": [("1400", ["m1"]), ("9000", ["m2"])],
        "ports gw1 lan0 ring rx": [("256", ["m3"]), ("1024", ["m1"])],
    }
    page = html_text(report)
    assert "Facts that differ" in page
    assert all(f"<td>{word}</td>" in page for word in ("powersave", "m1, m3"))
    assert not build(*measured({"m1": {}, "m2": {}})).machines_differ


def test_machines_with_different_code_are_named() -> None:
    """`--farm-equal` may leave `versions` out; the kind of a machine does not have them."""
    run, trials = measured({"m1": {}, "m2": {}, "m3": {}})
    machines = {name: one.model_copy(update={"lab": {"kind": "netns"}}) for name, one in run.machines.items()}
    machines["m2"] = machines["m2"].model_copy(update={"versions": "0.1.0 cd"})
    (found,) = build(run.model_copy(update={"machines": machines}), trials).machines_differ
    assert (found.fact, found.values) == ("version of vpneval", [("0.1.0 ab", ["m1", "m3"]), ("0.1.0 cd", ["m2"])])


def test_machines_that_were_left_out_are_in_the_report() -> None:
    """Also where one machine is all that is left, so that no two have ratios."""
    for names in (["m1"], ["m1", "m2"]):
        run, trials = measured({name: {} for name in names})
        first = run.invocations[0]
        calls = [
            first.model_copy(update={"left_out": {"m8": "old", "m9": "its kernel is 6.1.0"}}),
            first.model_copy(update={"left_out": {"m8": "broke 2 times,\n the last time: no lab"}}),
        ]
        report = build(run.model_copy(update={"invocations": calls}), trials)
        _, *tables = report.sections["machines-differ"]
        assert isinstance(tables[-1], Table)
        assert tables[-1].rows == [
            ["m8", "broke 2 times, the last time: no lab"],
            ["m9", "its kernel is 6.1.0"],
        ]
        assert "Machines that were left out" in html_text(report)
        assert ("machines" in report.sections) == (len(names) > 1)


def test_equal_machines_have_nobody_who_stands_out() -> None:
    seen = 0
    for first in range(20):
        run, trials = measured({f"m{number}": {} for number in range(1, 7)}, blocks=1 + first % 3)
        (found,) = ranked_of(build(run, trials)).machines
        assert not found.elsewhere
        seen += any(one.stands_out for one in found.machines)
    assert seen <= 3


def test_the_differences_between_machines_are_part_of_the_interval() -> None:
    """Machines that differ by 20 % have an interval as wide as five machines give, however many rounds they have."""
    factors = (0.8, 0.9, 1.0, 1.1, 1.25)
    run, trials = measured({f"m{n}": {"openvpn": VPNS["openvpn"] * by} for n, by in enumerate(factors)}, blocks=6)
    report = build(run, trials)
    (verdict,) = [one for one in ranked_of(report).verdicts if {one.a, one.b} == {"openvpn", "ssh_tun"}]
    assert verdict.high is not None
    assert verdict.low is not None
    assert verdict.high / verdict.low > 1.25
    (spread,) = ranked_of(report).spreads
    assert spread.between == "machines"
    assert spread.components.instance == pytest.approx(0.17 / math.sqrt(2) / math.sqrt(2), rel=0.5)
    alone = build(run, [trial.model_copy(update={"machine": "m0"}) for trial in trials])
    (narrow,) = [one for one in ranked_of(alone).verdicts if {one.a, one.b} == {"openvpn", "ssh_tun"}]
    assert narrow.high is not None
    assert narrow.low is not None
    assert narrow.high / narrow.low < verdict.high / verdict.low
    assert ranked_of(alone).machines == []


@pytest.mark.parametrize("machines", [2, 4, 10])
def test_intervals_cover_what_machines_differ_by(machines: int) -> None:
    """Four equal VPNs, one of which suits the machines unlike, by 5 %: 95 % intervals hold the ratio 1 of its pairs."""
    rng, held, pairs = np.random.default_rng(machines), 0, 0
    instances = np.repeat(np.arange(machines), 24)
    for _ in range(200):
        shift = rng.normal(0, 0.05, machines)
        values = {
            vpn: RoundValues(
                dict(enumerate(np.exp(rng.normal(0, 0.05, len(instances)) + (shift[instances] if vpn == "a" else 0)))),
                dict(enumerate(instances.tolist())),
                [f"m{number}" for number in range(machines)],
            )
            for vpn in "abcd"
        }
        for (first, _), one in estimate_pairs(values).items():
            if first == "a":
                low, high = one.interval()
                held, pairs = held + (low <= 0 <= high), pairs + 1
    assert 0.925 < held / pairs < 0.975  # of 600, three of which share each draw


def test_kinds_of_machines_are_never_in_one_ranking() -> None:
    run, trials = measured({"m1": {}, "m2": {}, "m3": {"openvpn": 900e6}})
    other = MACHINE.model_copy(update={"cpu": "Another CPU"})
    run = run.model_copy(update={"machines": run.machines | {"m3": other}})
    (first, mine), (second, its) = by_kind(run, trials)
    assert {trial.machine for trial in mine} == {"m1", "m2"}
    assert {trial.machine for trial in its} == {"m3"}
    assert "about 2 machines (Made-up CPU" in first.profile_note
    assert "about 1 machine (Another CPU" in second.profile_note
    assert by_kind(run.model_copy(update={"machines": dict.fromkeys(run.machines, MACHINE)}), trials)[0][1] == trials


def test_a_farm_and_one_machine_are_not_merged() -> None:
    run, trials = measured({"m1": {}})
    with pytest.raises(UsageError, match="only one of them was measured on a farm"):
        merge_runs([(run, trials), (run.model_copy(update={"machines": {}, "run_id": "other"}), trials)])
