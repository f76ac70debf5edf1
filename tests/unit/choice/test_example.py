"""The run that came with vpneval, a ``make compare`` on two quiet cores: what an expert would say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from questions.choose.judge import choice
from questions.choose.judgement import Choice
from runner.catalogue import load_run
from runner.choice.model import Answer, Grade
from runner.choice.thresholds import Thresholds
from runner.data.needs import Needs

RUN, TRIALS = load_run(Path(__file__).parents[3] / "results" / "choice" / "two-cores")


def chosen(**needs: object) -> Choice:
    found = choice(RUN.model_copy(update={"needs": Needs.model_validate(needs)}), TRIALS)
    assert found is not None
    return found


def said(**needs: object) -> Answer:
    found = chosen(**needs).answer
    assert found is not None
    return found


def test_two_offices_may_take_any_that_costs_little() -> None:
    found = said(line_bps=1e8, path_rtt_ms=20)
    assert (found.named[0], found.certainties.of_slices, found.grade) == ("wireguard_go", "sure", Grade.FITS)
    assert found.certainty == "probably", "nothing was watched for long then"
    assert "openvpn" in found.named
    assert [reason.criterion for reason in found.candidate_of("ssh_tun").reasons] == ["one_connection"]
    assert found.candidate_of("ssh_forward").reasons[0].musts == ["networks"]
    assert (found.candidate_of("wireguard_go").cores or 9) < 0.2


def test_nothing_here_carries_ten_gigabits() -> None:
    found = said(line_bps=1e10, path_rtt_ms=0.5)
    assert (found.named, found.grade) == (["wireguard_go"], Grade.SHORT)
    assert found.candidate_of("openvpn").reasons[0].criterion == "capacity"
    assert found.candidate_of("wireguard_go").carries in ("no", "depends")


def test_calls_take_what_costs_little_for_each_packet() -> None:
    """Of packets of 200 bytes 20 Mbit/s are 12,500 a second: as many as of 120 Mbit/s in full packets."""
    found = said(line_bps=2e7, path_rtt_ms=40, traffic="calls")
    assert (found.named[0], found.certainties.best) == ("openvpn", "sure")
    assert "ipsec_user" in found.named


def test_a_backup_over_a_gigabit_takes_what_carries_it() -> None:
    found = said(line_bps=1e9, path_rtt_ms=20, traffic="files")
    assert (found.named, found.certainties.of_slices) == (["wireguard_go"], "sure")
    assert found.candidate_of("openvpn").carries == "depends"
    clean = chosen(line_bps=1e9, path_rtt_ms=5, path_loss_ratio=0, traffic="files")
    without = next(change for change in clean.changes if change.without == "networks")
    assert without.named[:1] == ["ssh_forward"]


def test_who_ends_tcp_shares_one_connection_that_losses_slow() -> None:
    """80 Mbit/s over 180 ms that lose 1 %: one connection carries 785 kbit/s, whoever ends TCP at the gateway."""
    far = {"line_bps": 8e7, "path_rtt_ms": 180, "path_loss_ratio": 0.01, "traffic": "files", "must": ("maintained",)}
    found = said(**far)
    one_bps = Thresholds().one_tcp_bps(180, 0.01)
    for vpn in ("ssh_forward", "ssh_tun"):
        assert vpn not in found.named
        assert found.candidate_of(vpn).here_bps == pytest.approx(one_bps)


def test_where_udp_is_blocked_there_is_a_reservation() -> None:
    found = chosen(line_bps=5e7, path_rtt_ms=30, must=("networks", "maintained", "udp-blocked"))
    assert found.answer is not None
    assert (found.answer.named, found.answer.candidate_of("ssh_tun").reservations) == (["ssh_tun"], ["one_connection"])
    assert {"openvpn_tcp", "openconnect_tls"} <= {*found.others}


def test_ipv6_and_post_quantum_are_both_shown() -> None:
    must = ("networks", "maintained", "ipv6-inside", "post-quantum")
    found = said(line_bps=1e8, path_rtt_ms=20, must=must)
    assert found.named == ["openvpn"]
    assert found.candidate_of("openvpn").musts == dict.fromkeys(must, "shown") | {"maintained": "declared"}


def test_without_a_line_each_band_has_its_vpns() -> None:
    found = chosen()
    assert {*found.unsettled} <= {1e10}, "which comes nearest on cores of its own is not known"
    assert [band.named[:1] for band in found.bands] == [["wireguard_go"]] * len(found.bands)
    sizes = [len(band.named) for band in found.bands]
    assert sizes == sorted(sizes, reverse=True)
    assert found.bands[-1].grade == Grade.SHORT
    assert found.absent == ["gre_ipsec", "ipsec", "wireguard"]


@pytest.mark.parametrize(
    "traffic", ["mixed", *(pytest.param(one, marks=pytest.mark.slow) for one in ("files", "calls", "transactions"))]
)
def test_leaving_out_what_is_not_chosen_changes_nothing(traffic: str) -> None:
    for line_bps in (2e7, 1e8, 1e9):
        before = said(line_bps=line_bps, path_rtt_ms=20, traffic=traffic)
        for vpn in [candidate.vpn for candidate in before.candidates if not candidate.chance]:
            vpns = {name: known for name, known in RUN.vpns.items() if name != vpn}
            needs = Needs.model_validate({"line_bps": line_bps, "path_rtt_ms": 20, "traffic": traffic})
            rest = [trial for trial in TRIALS if trial.vpn != vpn]
            found = choice(RUN.model_copy(update={"needs": needs, "vpns": vpns}), rest)
            assert found is not None
            assert found.answer is not None
            assert found.answer.named == before.named
