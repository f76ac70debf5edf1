"""The choice of a run between a user's own two gateways, on a path that no plain IP takes."""

from collections.abc import Sequence
from typing import Any

import pytest

from questions.choose import words as choice_words
from questions.choose.judge import choice
from questions.choose.judgement import Choice
from runner.choice.model import Grade
from runner.choice.thresholds import USUAL
from runner.data.loads import CoreLoad, MachineLoad, ProcessLoad, ThreadLoad
from runner.data.named import Traffic
from runner.data.needs import Needs
from runner.data.trials import Run, Rung, Trial
from tests.unit.choice.runs import PLAIN, Truth, chosen_run, more_tcp

PATH: dict[str, Any] = {"mtu_bytes": 1400, "rtt_ms": [0.04, 0.05, 0.06], "nat": "a NAT"}


def between_sites(needs: Needs) -> tuple[Run, Sequence[Trial]]:
    """A made-up run, as a site lab has it: plain IP is unsupported there."""
    run, trials = chosen_run(needs=needs)
    run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": PATH}})
    return run, [trial for trial in trials if trial.vpn != "none"]


@pytest.mark.parametrize("line_bps", [5e7, 1e8, 7e8, 3e9, 1e10])
def test_each_vpn_carries_the_line_or_does_not(line_bps: float) -> None:
    made = choice(*between_sites(Needs(line_bps=line_bps, traffic="files")))
    assert made
    assert made.answer
    assert {candidate.carries for candidate in made.answer.candidates} <= {"yes", "no"}
    assert "depends" not in " ".join(choice_words.why_not(made.answer))
    elsewhere = choice(*chosen_run(needs=Needs(line_bps=1e10, traffic="files")))
    assert elsewhere
    assert elsewhere.answer
    assert "depends" in {candidate.carries for candidate in elsewhere.answer.candidates}, "the positive control"


def test_a_vpn_is_named_though_plain_ip_does_not_pass() -> None:
    made = choice(*between_sites(Needs(line_bps=1e8)))
    assert made
    assert made.answer
    assert made.answer.named, choice_words.why_not(made.answer)
    run, trials = between_sites(Needs(line_bps=1e8))
    nothing = choice(run.model_copy(update={"lab": run.lab | {"kind": "ssh"}}), trials)
    assert nothing
    assert nothing.answer
    assert not nothing.answer.named, "the positive control: elsewhere, nobody knows what plain IP would do"


def test_what_was_seen_on_the_path_is_said() -> None:
    seen = ("line_bps", "path_rtt_ms", "path_mtu_bytes", "nat")
    must = ("networks", "nat", "maintained")
    needs = Needs(line_bps=1e8, path_rtt_ms=12.3, path_mtu_bytes=1400, must=must, seen=seen)
    run, trials = between_sites(needs)
    said = choice_words.seen_path(choice(run, trials))
    assert said == (
        "Seen on the path: 100 Mbit/s each way, within --max-rate; a round trip of 12.3 ms; packets of up to 1400 "
        "bytes; a NAT."
    )
    unseen = run.model_copy(update={"needs": needs.model_copy(update={"seen": ()})})
    assert choice_words.seen_path(choice(unseen, trials)) == ""


PATHS = {"mtu_bytes": 1400, "rtt_ms": [0.04, 0.05, 0.06], "nat": ""}
ON_50M = {"openvpn": Truth(4.55e7, 4.5e7), "ssh_tun": Truth(1.2e7, 1e7)}


def on_path(line_bps: float, rate_bps: float = 4.8e7, traffic: Traffic = "files") -> Choice:
    """A choice on a path that carries so much without a VPN."""
    run, trials = chosen_run({"none": PLAIN, **ON_50M}, needs=Needs(line_bps=line_bps, traffic=traffic), noise=0.01)
    path = PATHS | {"rates_bps": [rate_bps, rate_bps]}
    run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": path}})
    return choice(run, [trial for trial in trials if trial.vpn != "none"])


@pytest.mark.parametrize("line_bps", [2e7, 4e7, 4.5e7, 5e7, 6e7, 1e9])
def test_who_fills_the_path_fits_whatever_the_line(line_bps: float) -> None:
    made = on_path(line_bps)
    assert made.answer
    assert made.answer.named == ["openvpn"]
    best = made.answer.candidate_of("openvpn")
    assert (best.grade, best.carries, best.reservations, best.limit) == (Grade.FITS, "yes", [], "path")
    assert best.path_share == pytest.approx(4.55 / 4.8, rel=0.02)
    slow = made.answer.candidate_of("ssh_tun")
    assert slow.path_share == pytest.approx(0.25, rel=0.05)
    assert (slow.grade, slow.limit) == (Grade.SHORT, "window")
    words = " ".join([choice_words.in_a_line(made), *choice_words.why_not(made.answer)])
    assert "of your path" in words
    assert "shared cores" not in words
    assert "this machine" not in words


@pytest.mark.parametrize(("tcp_bps", "by_datagrams"), [(2e6, True), (4.7e7, False)])
def test_no_vpn_is_blamed_where_the_bare_path_slows_one_tcp_connection(tcp_bps: float, by_datagrams: bool) -> None:
    truths = {"none": PLAIN, "openvpn": Truth(1.9e6, 4.5e7), "ssh_tun": Truth(1.8e6, 2e6)}
    run, trials = chosen_run(truths, needs=Needs(line_bps=5e7), noise=0.01)
    back = [
        trial.model_copy(update={"id": f"{trial.id}-back", "params": {**trial.params, "ways": "reverse"}})
        for trial in trials
        if trial.params["measure"] == "udp"
    ]
    path = PATHS | {"rates_bps": [4.8e7, 4.8e7], "tcp_bps": [tcp_bps, tcp_bps], "loss_ratio": 0.01}
    run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": path}})
    made = choice(run, [trial for trial in [*trials, *back] if trial.vpn != "none"])
    assert made.answer
    best = made.answer.candidate_of("openvpn")
    assert made.path_tcp_bps == ([tcp_bps] * 2 if by_datagrams else [])
    assert best.carries == ("yes" if by_datagrams else "no"), "the positive control: where TCP alone would fill it"
    if by_datagrams:
        assert (best.path_share, best.path_share_down) == pytest.approx((4.5 / 4.8, 4.5 / 4.8), rel=0.02)
        assert made.answer.candidate_of("ssh_tun").path_share == pytest.approx(2 / 48, rel=0.05)
        assert "2.00 Mbit/s" in choice_words.seen_path(made)


def test_a_vpn_that_leaves_most_of_the_path_is_short_of_it() -> None:
    made = on_path(1e9, 1e9)
    assert made.answer
    assert made.answer.grade == Grade.SHORT
    assert "between your gateways" in choice_words.headline(made)


def test_no_line_above_the_path_has_an_answer() -> None:
    assert max(band.high_bps for band in on_path(5e7).bands) == 5e7
    assert on_path(2e6, 1.9e6).bands == []
    without = choice(*between_sites(Needs(line_bps=1e8)))
    assert max(band.high_bps for band in without.bands) == 1e10, "where nobody knows the path"


@pytest.mark.parametrize(("busy", "reserved"), [(0.5, False), (0.95, True)])
def test_the_reserve_is_asked_of_the_gateways_cores(busy: float, reserved: bool) -> None:
    run, trials = between_sites(Needs(line_bps=1e7, traffic="files"))
    run = run.model_copy(update={"lab": run.lab | {"path": PATH | {"rates_bps": [1e7, 1e7]}}})
    thread = ProcessLoad(node="gw1", name="openvpn", role="vpn", busy=busy, busiest=ThreadLoad(busy=busy))
    core = CoreLoad(core=0, user=busy, system=0, irq=0, softirq=0, steal=0)
    load = MachineLoad(
        name="gw1", nodes=["gw1", "host1"], seconds=8, carried_bytes=10**7, cores=[core], processes=[thread]
    )
    loaded = [trial.model_copy(update={"loads": [load]}) for trial in trials if trial.vpn == "openvpn"]
    made = choice(run, loaded)
    assert made.answer
    assert ("cores" in made.answer.candidate_of("openvpn").reservations) is reserved


def with_calls(trials: Sequence[Trial], **most_bps: float) -> list[Trial]:
    """The trials, and of each VPN ladders of the packets that calls send, of which it carries so much."""
    more = []
    for trial in trials:
        if trial.vpn in most_bps and trial.params.get("carried") == "datagrams":
            curve = []
            for share in (0.1, 0.5, 0.8, 1.0, 1.25):
                rate_bps = share * USUAL.demand_bps(5e7, "calls")
                values = dict(trial.curve[0].values)
                carried = [min(1.0, most_bps[trial.vpn] / rate_bps)] * len(trial.curve[0].rounds)
                values["carried_ratio"] = [*carried]
                values["loss_ratio"] = [1 - one for one in carried]
                curve.append(Rung(rate_bps=rate_bps, rounds=trial.curve[0].rounds, values=values))
            params = trial.params | {"carried": "calls"}
            more.append(trial.model_copy(update={"params": params, "cell": f"{trial.cell} calls", "curve": curve}))
    return [*trials, *more]


def test_calls_are_graded_by_the_packets_that_they_send() -> None:
    needs = Needs(line_bps=5e7, traffic="calls")
    run, trials = chosen_run({"none": PLAIN, **ON_50M}, needs=needs, noise=0.01)
    path = PATHS | {"rates_bps": [4.8e7, 4.8e7]}
    run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": path}})
    trials = [trial for trial in trials if trial.vpn != "none"]
    reckoned, measured = choice(run, trials), choice(run, with_calls(trials, openvpn=3.4e7, ssh_tun=8e6))
    assert reckoned.answer
    assert reckoned.answer.named == [], "the path may have been the limit of the longer packets"
    assert {one.reckoned for one in reckoned.answer.candidates} == {True}
    assert measured.answer
    assert measured.answer.named == ["openvpn"]
    best = measured.answer.candidate_of("openvpn")
    assert (best.reckoned, best.limit) == (False, "path")
    assert best.here_bps == pytest.approx(3.4e7, rel=0.02)
    assert measured.answer.candidate_of("ssh_tun").grade >= Grade.SHORT
    assert "eckoned" not in choice_words.headline(measured)


@pytest.mark.parametrize(("udp_bps", "limit"), [(4.5e8, "packets"), (4.5e7, None)])
@pytest.mark.parametrize("site", [True, False])
def test_packets_are_named_where_they_limit_calls(udp_bps: float, limit: str | None, site: bool) -> None:
    """Of packets that are six and a half times as short it carries not even twice as many; or more than that."""
    needs = Needs(line_bps=5e7, traffic="calls")
    run, trials = chosen_run({"none": PLAIN, "openvpn": Truth(udp_bps, udp_bps)}, needs=needs, noise=0.01)
    if site:
        run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": PATHS | {"rates_bps": [1e9, 1e9]}}})
        trials = [trial for trial in trials if trial.vpn != "none"]
    made = choice(run, with_calls(trials, openvpn=2e7, none=1e9))
    assert made.answer
    one = made.answer.candidate_of("openvpn")
    assert (one.grade, one.limit) == (Grade.SHORT, limit)
    assert (choice_words.LIMITS["packets"] in choice_words.headline(made)) is (limit == "packets")
    longer = choice(run.model_copy(update={"needs": Needs(line_bps=5e7)}), with_calls(trials, openvpn=2e7, none=1e9))
    assert longer.answer
    assert longer.answer.candidate_of("openvpn").limit != "packets", "of other traffic that says nothing"


def test_what_is_reckoned_of_calls_says_so() -> None:
    made = choice(*chosen_run(needs=Needs(line_bps=2e7, traffic="calls")))
    assert made.answer
    assert made.answer.named
    assert choice_words.headline(made).endswith(choice_words.RECKONED)


def both_ways(line_bps: float, up_bps: float | None, down_bps: float) -> Choice:
    """A choice on a path of 20 Mbit/s from gw1 and 100 Mbit/s to it, of which a VPN carries so much to gw1."""
    needs = Needs(line_bps=line_bps, line_up_bps=up_bps, traffic="files")
    run, trials = chosen_run({"none": PLAIN, "openvpn": Truth(1.8e7, 1.8e7)}, needs=needs, noise=0.01)
    run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": PATHS | {"rates_bps": [1.9e7, 9.6e7]}}})
    trials = more_tcp(trials, "openvpn", down_bps / 1.8e7, direction="reverse")
    return choice(run, [trial for trial in trials if trial.vpn != "none"])


@pytest.mark.parametrize(("down_bps", "fits"), [(9.3e7, True), (3e7, False)])
def test_each_way_is_graded(down_bps: float, fits: bool) -> None:
    made = both_ways(1e8, 2e7, down_bps)
    assert made.answer
    one = made.answer.candidate_of("openvpn")
    assert one.path_share == pytest.approx(1.8 / 1.9, rel=0.02)
    assert one.path_share_down == pytest.approx(down_bps / 9.6e7, rel=0.02)
    assert (one.grade == Grade.FITS, one.carries == "yes", one.limit == "path") == (fits, fits, fits)
    assert "100 Mbit/s to gw1 and 20 Mbit/s from it" in choice_words.headline(made) or fits


def test_a_line_of_one_rate_asks_both_ways_for_it() -> None:
    made = both_ways(1e8, None, 9.3e7)
    assert made.answer
    assert made.answer.candidate_of("openvpn").grade == Grade.FITS, "its path has no room for more"
