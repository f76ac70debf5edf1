"""Which VPNs a choice considers where none is named: they follow from the musts, and the first of them begin."""

import pytest

from runner.catalogue import load_experiment, load_vpn, record_of, vpn_names
from runner.choice.candidates import candidates
from runner.choice.musts import SHOWN_BY
from runner.data.asked import AskedRun
from runner.data.named import TRAFFICS
from runner.data.needs import Needs
from runner.sweep.request import Request, resolve

RECORDS = {name: record_of(load_vpn(name)) for name in vpn_names()}


def asked(**options: object) -> Request:
    return resolve(AskedRun.model_validate({"experiments": "choose", **options}))


def names(request: Request) -> set[str]:
    return {vpn.name for vpn in request.vpns} - {"none"}


def test_candidates_have_the_musts() -> None:
    usual, blocked = candidates(RECORDS, Needs()), candidates(RECORDS, Needs(must=("networks", "udp-blocked")))
    assert {"openvpn", "wireguard_go", "fastd"} <= {*usual}
    assert not {"none", "ipip", "ssh_forward", "tinc"} & {*usual}  # references, ports only, not maintained
    assert "openvpn" not in blocked
    assert {"openvpn_tcp", "ssh_tun"} <= {*blocked}
    assert {*candidates(RECORDS, Needs(), ports=True)} - {*usual} == {"ssh_forward", "stunnel_forward"}


def test_the_first_ones_begin_and_the_others_come_in_under_a_deadline() -> None:
    begins = asked(deadline_s=160)
    assert names(begins) == {*load_experiment("choose").first}
    assert "fastd" in {vpn.name for vpn in begins.later}
    assert names(asked()) == {*candidates(RECORDS, Needs(), ports=True)}
    assert names(asked()) < names(begins) | {vpn.name for vpn in begins.later}  # who has time to show a must may come


def test_who_may_turn_out_to_have_a_must_comes_in_last_where_a_trial_can_show_it() -> None:
    closed, tryable = Needs(must=("networks", "fail-closed")), (*SHOWN_BY,)
    usual, more = candidates(RECORDS, closed), candidates(RECORDS, closed, tryable=tryable)
    assert more[: len(usual)] == usual
    assert {*more} > {*usual}
    begins, on_machines = asked(deadline_s=160, needs=closed), asked(deadline_s=160, needs=closed, lab="vagrant")
    every = candidates(RECORDS, closed, ports=True, tryable=tryable)
    assert [vpn.name for vpn in begins.later] == [vpn for vpn in every if vpn not in names(begins)]
    assert names(on_machines) | {vpn.name for vpn in on_machines.later} == {*candidates(RECORDS, closed, ports=True)}


def test_where_no_first_one_has_the_musts_others_begin() -> None:
    begins = asked(deadline_s=160, needs=Needs(must=("ethernet",)))
    assert names(begins)
    assert not names(begins) & {*load_experiment("choose").first}


@pytest.mark.parametrize(("vpns", "longest"), [("openvpn", 1300), ("openvpn,tailscale", 1232), ("none", 1300)])
def test_the_datagrams_of_a_choice_fit_all_of_its_candidates(vpns: str, longest: int) -> None:
    request = asked(vpns=vpns)
    assert request.profile.udp_payload_bytes == longest
    found = {cell.params["payload_bytes"] for cell in request.cells if "payload_bytes" in cell.params}
    assert found == {str(longest)}
    by_hand = resolve(AskedRun.model_validate({"experiments": "recommended", "vpns": vpns}))
    assert by_hand.profile.udp_payload_bytes == 1300  # nobody chooses there


def test_who_is_named_is_measured_whatever_the_musts_are() -> None:
    assert names(asked(vpns="tinc", deadline_s=160)) == {"tinc"}
    assert not asked(vpns="tinc", deadline_s=160).later


def test_calls_are_measured_in_the_packets_that_they_send() -> None:
    kinds = {
        traffic: {cell.params.get("carried") for cell in asked(needs=Needs(traffic=traffic), vpns="openvpn").cells}
        for traffic in TRAFFICS
    }
    assert "calls" in kinds["calls"]
    assert not [traffic for traffic in TRAFFICS if traffic != "calls" and "calls" in kinds[traffic]]
    elsewhere = resolve(AskedRun.model_validate({"experiments": "transport", "needs": Needs(traffic="calls")}))
    assert "ladder" not in {cell.params["measure"] for cell in elsewhere.cells}
