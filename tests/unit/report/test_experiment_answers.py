"""Each experiment's question is answered on the terminal with its own numbers, not with a ranking of VPNs."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import pytest
from rich.console import Console

from runner.data.trials import Cell, ExperimentRecord, Trial
from runner.report.forms.terminal import render
from runner.report.text import close_brackets
from tests.unit.synthetic import CBC, IDLE, TCP, make_run, make_trial
from tests.unit.whole_report import build

NOISE = (0.99, 1.0, 1.01)


def said(trials: Sequence[Trial], question: str, factors: Mapping[str, list[str]], metrics: Sequence[str]) -> str:
    """What the terminal says of a run with one experiment, without line breaks."""
    cells = {trial.cell: Cell(vpn=trial.vpn, params=trial.params) for trial in trials}
    record = ExperimentRecord(
        name="asked",
        question=question,
        method="",
        source="",
        factors=dict(factors),
        metrics=[*metrics],
        cells=[*cells.values()],
    )
    trials = [trial.model_copy(update={"experiments": ["asked"]}) for trial in trials]
    console = Console(width=80, file=io.StringIO(), record=True)
    render(build(make_run(tuple(dict.fromkeys(trial.vpn for trial in trials)), (record,)), trials), console)
    return " ".join(console.export_text().split())


def times(vpn: str, levels: Mapping[str, str], metric: str, value: float) -> list[Trial]:
    return [make_trial(vpn, levels, block, {metric: value * noise}) for block, noise in enumerate(NOISE)]


def test_compression_is_worth_it_or_not_for_each_payload() -> None:
    rates = {("off", "random"): 400e6, ("on", "random"): 200e6, ("off", "zeros"): 400e6, ("on", "zeros"): 1200e6}
    trials = [
        trial
        for (compression, payload), rate in rates.items()
        for vpn in ("openvpn", "ssh_tun")
        for trial in times(vpn, CBC | TCP | {"compression": compression, "payload": payload}, "tcp_throughput", rate)
    ]
    factors = {"compression": ["off", "on"], "payload": ["random", "zeros"]}
    text = said(trials, "When is compression worth it?", factors, ["tcp_throughput"])
    assert "When is compression worth it? TCP throughput: on compression, and its ratio to no compression" in text
    assert "openvpn 200 (195–205) Mbit/s 0.50 (0.50–0.50) × random" in text
    assert "openvpn 1.20 (1.17–1.23) Gbit/s 3.00 (3.00–3.00) × zeros" in text
    assert "ranks first" not in text


@pytest.mark.parametrize(
    ("metric", "says"),
    [
        ("tcp_throughput", "aes-128-cbc, and its ratio to 3des-cbc openvpn 300 (293–308) bit/s 3.00 (3.00–3.00) ×"),
        ("cpu_per_gigabyte", "3des-cbc, and its ratio to aes-128-cbc openvpn 100 (98–103) s/GB 0.33 (0.33–0.33) ×"),
    ],
)
def test_of_several_ciphers_the_best_is_set_against_the_worst(metric: str, says: str) -> None:
    values = {"3des-cbc": 100.0, "aes-128-cbc": 300.0, "chacha20-poly1305": 200.0}
    levels = {cipher: CBC | TCP | {"cipher": cipher} for cipher in values}
    trials = [trial for cipher in values for trial in times("openvpn", levels[cipher], metric, values[cipher])]
    assert says in said(trials, "Which cipher?", {"cipher": [*values]}, [metric])


def test_numbers_are_set_against_the_first_of_them_even_where_no_block_is_shared() -> None:
    levels = CBC | TCP | {"wan_loss_ratio": "0"}
    lossless = times("openvpn", levels, "tcp_throughput", 100e6)
    lossy = [
        make_trial("openvpn", levels | {"wan_loss_ratio": "0.03"}, block, {"tcp_throughput": 10e6 * noise})
        for block, noise in enumerate(NOISE, 7)
    ]
    text = said([*lossless, *lossy], "What does loss do?", {"wan_loss_ratio": ["0", "0.03"]}, ["tcp_throughput"])
    assert "TCP throughput: WAN loss ratio 0.03, and its ratio to WAN loss ratio 0" in text
    assert "0.10 (0.10–0.10) ×" in text


def test_what_varies_nothing_is_told_by_its_values() -> None:
    trials = [*times("openvpn", CBC | IDLE, "udp_rtt", 0.2), *times("ssh_tun", CBC | IDLE, "udp_rtt", 0.3)]
    text = said(trials, "How long does a packet wait?", {}, ["udp_rtt"])
    assert "How long does a packet wait?" in text
    assert "openvpn 200 (195–205) µs, ssh_tun 300 (293–308) µs" in text


def test_what_a_vpn_costs_is_its_share_of_plain_ip() -> None:
    plain = {"cipher": "none", "integrity": "none", "compression": "off"}
    trials = [
        *times("none", plain | TCP, "tcp_throughput", 10e9),
        *times("openvpn", CBC | TCP, "tcp_throughput", 0.5e9),
    ]
    trials += [*times("ssh_tun", CBC | TCP, "tcp_throughput", 0.4e9)]
    text = said(trials, "What does a VPN cost?", {}, ["tcp_throughput"])
    assert "What does a VPN cost? TCP throughput: plain IP 10.0" in text
    assert "ssh_tun 400 (390–410) Mbit/s = 4 % of plain IP" in text
    assert "ranks first" not in text


def test_of_failures_each_one_is_told() -> None:
    outages = {"restart": 1000.0, "wan_cut": 3000.0, "roaming": 20000.0}
    trials = [
        trial
        for failure, outage_ms in outages.items()
        for trial in times("openvpn", CBC | {"measure": "recovery", "failure": failure}, "outage_ms", outage_ms)
    ]
    text = said(trials, "How long are outages?", {"failure": [*outages]}, ["outage_ms"])
    assert "openvpn restart 1.00 (0.98–1.03) s, wan cut 3.00 (2.93–3.08) s, roaming 20.0 (19.5–20.5) s" in text


def test_verdicts_name_who_passed_and_plain_ip_by_what_it_is() -> None:
    verdicts = {"none": 0.0, "openvpn": 1.0, "tinc": 1.0}
    trials = [make_trial(vpn, CBC | IDLE, 0, {"fail_closed": verdict}) for vpn, verdict in verdicts.items()]
    text = said(trials, "What leaves unencrypted?", {}, ["fail_closed"])
    assert "Fails closed: passed: openvpn, tinc; failed: plain IP" in text


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ("the gateway has no rosenpass (its layer is not built", "the gateway has no rosenpass"),
        ("no ovpn (since 6.16", "no ovpn"),
        ("no vtund (Debian: apt-get install vtun)", "no vtund (Debian: apt-get install vtun)"),
    ],
)
def test_no_bracket_is_left_open(cut: str, whole: str) -> None:
    assert close_brackets(cut) == whole
