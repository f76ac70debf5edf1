"""The title of an experiment's plot: its answer in a sentence, which compares only what differs in one factor."""

import re
from collections.abc import Mapping
from pathlib import Path

from runner.catalogue import load_run
from runner.data.trials import Cell, ExperimentRecord
from runner.report.experiments import ExperimentReport
from runner.report.titles import answer_of
from tests.unit.synthetic import CBC, PLAIN, TCP, make_run, make_trial
from tests.unit.whole_report import build

EXAMPLE = next((Path(__file__).parents[3] / "results" / "examples").glob("*/run.json")).parent
NOISE = (0.99, 1.0, 1.01)


def of(
    name: str, cells: Mapping[tuple[str, tuple[tuple[str, str], ...]], float], metric: str = "tcp_throughput"
) -> ExperimentReport:
    """An experiment of these cells, each (VPN, what differs from the usual levels) with a value in three blocks."""
    trials = [
        make_trial(vpn, (PLAIN if vpn == "none" else CBC) | TCP | dict(levels), block, {metric: value * NOISE[block]})
        for (vpn, levels), value in cells.items()
        for block in range(3)
    ]
    record = ExperimentRecord(
        name=name,
        question="How much does it matter?",
        method="iperf3",
        source="",
        factors={},
        metrics=[metric],
        cells=list({trial.cell: Cell(vpn=trial.vpn, params=trial.params) for trial in trials}.values()),
    )
    vpns = tuple(dict.fromkeys(trial.vpn for trial in trials))
    return build(make_run(vpns, (record,)), trials).experiments[0]


def levels(**factors: str) -> tuple[tuple[str, str], ...]:
    return tuple(factors.items())


def test_of_an_experiment_about_one_factor_only_this_factor_is_compared() -> None:
    """Text with compression against random payload without would be two factors at once; and that one payload is
    packed better than another does not answer when compression pays."""
    cells = {
        ("openvpn", levels(compression="off", payload="random")): 8e8,
        ("openvpn", levels(compression="lz4", payload="random")): 4e8,
        ("openvpn", levels(compression="lz4", payload="text")): 1e8,
        ("ssh_tun", levels(compression="off", payload="random")): 5e8,
        ("ssh_tun", levels(compression="lz4", payload="random")): 5.01e8,
    }
    assert answer_of(of("compression", cells)) == (
        "In openvpn, the TCP throughput with compression off is 2 times that with compression lz4 (random payload); "
        "in ssh_tun, this run cannot tell them apart."
    )


def test_cipher_and_integrity_are_one_choice() -> None:
    cells = {
        ("openvpn", levels()): 2e8,
        ("openvpn", levels(cipher="aes-128-gcm", integrity="aead")): 8e8,
        ("ssh_tun", levels()): 2e8,
        ("ssh_tun", levels(cipher="aes-128-gcm", integrity="aead")): 3e8,
    }
    assert answer_of(of("cipher", cells)) == (
        "In openvpn, the TCP throughput with aes-128-gcm is 4 times that with aes-128-cbc hmac-sha256; "
        "it matters least in ssh_tun: 1.5 times."
    )


def test_else_who_is_first_and_last_comes_before_what_changes_most() -> None:
    cells = {
        ("none", levels()): 1e9,
        ("openvpn", levels()): 5e8,
        ("openvpn", levels(streams="4")): 5.01e8,
        ("openvpn", levels(direction="reverse")): 4.99e8,
        ("ssh_tun", levels()): 1e8,
        ("ssh_tun", levels(streams="4")): 1.01e8,
    }
    said = answer_of(of("transport", cells))
    assert said.startswith("openvpn has 50.0 (")
    assert ") % of plain IP's TCP throughput, ssh_tun 10.0 (" in said
    assert said.endswith(
        ") % (1 stream, forward); this run cannot tell apart the TCP throughput of numbers of streams and "
        "directions: the intervals overlap."
    )
    more = answer_of(of("transport", cells | {("ssh_tun", levels(streams="4")): 3e8}))
    assert "; in ssh_tun, the TCP throughput with 4 streams is 3 times that with 1 stream; in openvpn, this" in more


def test_of_one_vpn_only_what_changes_is_said() -> None:
    cells = {("openvpn", levels(streams="1")): 1e8, ("openvpn", levels(streams="4")): 3e8}
    said = answer_of(of("load", cells))
    assert said == "In openvpn, the TCP throughput with 4 streams is 3 times that with 1 stream."
    cells[("openvpn", levels(streams="4"))] = 1e8
    assert answer_of(of("load", cells)).startswith("This run cannot tell apart the TCP throughput of numbers of")


def test_without_levels_it_says_who_is_first_and_last() -> None:
    cells = {("openvpn", levels()): 2e8, ("ssh_tun", levels()): 1e8}
    said = answer_of(of("reference", cells))
    assert said.startswith("openvpn has the best TCP throughput, 200 (")
    assert "; ssh_tun the worst, 100 (" in said
    assert answer_of(of("reference", {("openvpn", levels()): 2e8})) == "How much does it matter?"


def test_no_pair_differs_in_two_factors() -> None:
    """Where no two cells are alike but for one factor, none are compared with each other."""
    cells = {("openvpn", levels(streams="4")): 1e8, ("openvpn", levels(direction="reverse")): 9e8}
    assert " times " not in answer_of(of("transport", cells))


def test_the_titles_of_the_example() -> None:
    titles = {one.name: answer_of(one) for one in build(*load_run(EXAMPLE)).experiments}
    assert re.match(
        r"ssh_forward has [\d.]+ \([\d.]+–[\d.]+\) % of plain IP's TCP throughput, \w+ [\d.]+", titles["transport"]
    )
    assert re.search(r"; in [\w, ]+, this run cannot tell them apart", titles["transport"])
    assert re.match(
        r"In ssh_forward, the TCP throughput with compression off is [\d.]+ times that with compression on "
        r"\(random payload\)",
        titles["compression"],
    )
    assert re.search(r"aes-128-gcm is [\d.]+ times that with 3des-cbc hmac-sha256", titles["cipher"])
