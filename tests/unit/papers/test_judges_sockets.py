"""UDP beside TCP (thesis §5.2): of the thesis' datagrams, to a program with its socket buffer."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from questions.papers.findings import stands
from runner.catalogue import load_vpn, record_of
from runner.data.levels import TCP
from runner.data.trials import Run, Trial
from runner.papers.findings import judge
from runner.papers.judges.sockets import METRIC, THEIRS
from tests.unit.findings_worlds import finding
from tests.unit.synthetic import CBC, PLAIN, make_run, make_trial

VPNS = ("none", "ipsec", "openvpn", "ssh_tun")
ALIKE = {"none": 0.3, "ipsec": 0.92, "openvpn": 0.95, "ssh_tun": 1.05}
FINDING = finding("sockets", "tcp-udp")


def run_of(guest: str = "") -> Run:
    run = make_run(VPNS)
    return run.model_copy(
        update={"vpns": {vpn: record_of(load_vpn(vpn)) for vpn in VPNS}, "lab": {**run.lab, "guest": guest}}
    )


def trials_of(ratios: Mapping[str, float], changed: dict[str, str] | None = None) -> list[Trial]:
    return [
        make_trial(vpn, (PLAIN if vpn == "none" else CBC) | levels, block, {metric: value * (1 + block / 100)})
        for vpn, ratio in ratios.items()
        for block in (1, 2, 3)
        for levels, metric, value in (
            (THEIRS | (changed or {}), METRIC, 1e8 * ratio * (1 + block / 1000)),
            (TCP, "tcp_throughput", 1e8),
        )
    ]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ({}, "reproduced"),
        ({"openvpn": 0.6}, "not reproduced"),
        ({"ssh_tun": 1.4}, "not reproduced"),
        ({"ipsec": 0.8}, "not reproduced"),
    ],
)
def test_udp_is_close_to_tcp_in_every_vpn(ratios: dict[str, float], verdict: str) -> None:
    found = judge(FINDING, run_of(), trials_of(ALIKE | ratios))
    assert found.verdict == verdict
    assert found.beside.startswith("plain IP 0.3")


def test_every_vpn_needs_ipsec_and_one_that_differs_does_not() -> None:
    userspace = {vpn: ratio for vpn, ratio in ALIKE.items() if vpn != "ipsec"}
    assert judge(FINDING, run_of(), trials_of(userspace)).verdict == "unmeasured"
    assert judge(FINDING, run_of(), trials_of(userspace | {"openvpn": 0.6})).verdict == "not reproduced"


@pytest.mark.parametrize("vpn", ["ipsec", "openvpn"])
def test_programs_that_make_a_call_for_each_datagram_are_no_scale_in_user_mode_linux(vpn: str) -> None:
    found = judge(FINDING, run_of("uml"), trials_of(ALIKE | {vpn: 0.5}))
    assert (found.verdict, found.kind) == ("incomparable", "scale")


@pytest.mark.parametrize("changed", [{"payload_bytes": "1300"}, {"receive_buffer_bytes": "2097152"}])
def test_other_datagrams_and_buffers_are_another_test(changed: dict[str, str]) -> None:
    assert judge(FINDING, run_of(), trials_of(ALIKE, changed)).verdict == "unmeasured"


@pytest.mark.parametrize(("shared", "worth"), [(True, "no"), (False, "yes")])
def test_programs_on_the_gateways_cores_say_nothing_of_the_vpn(shared: bool, worth: str) -> None:
    """There, plain IP itself brings a program a fraction of what TCP does."""
    run = run_of()
    apart = run.model_copy(update={"lab": {**run.lab, "nodes_share_cores": shared}})
    assert stands(FINDING, apart, judge(FINDING, apart, trials_of(ALIKE | {"openvpn": 0.6}))) == worth
