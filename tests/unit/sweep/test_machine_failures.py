"""A run on a machine that cannot measure ends after a few failures; one VPN's or one instrument's do not end it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.data.errors import InstrumentError, MeasurementError
from runner.data.levels import AES_CBC
from runner.instruments.instrument import Asked, Measuring
from runner.instruments.result import Measured, measurement
from tests.unit.on_paper import OTHER_CIPHER, Paper, Run, cells, on_paper

MANY = cells("none", "openvpn", "ipsec_user", "ssh_tun", "tinc", "wireguard_go")
WHOLE, TURNS = 0, 6  # rounds


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with on_paper(tmp_path / "run", monkeypatch) as made:
        in_turns = made.instrument.measure

        def measure(bench: Any, asked: Asked) -> Measuring:
            """Where nothing takes turns: one slice, and the end."""
            if asked.profile.rounds:
                return (yield from in_turns(bench, asked))
            made.world.turn(asked.vpn.name, asked.params["of_counts"], bench)
            yield {"counted_ms": 10.0}
            return Measured([measurement("counted_ms", 10.0)])

        monkeypatch.setattr(made.instrument, "measure", measure)
        yield made


def dies(bench: Paper) -> None:
    raise InstrumentError("iperf3 was killed on host1")


@pytest.mark.parametrize("rounds", [WHOLE, TURNS], ids=["whole", "in turns"])
def test_where_no_wan_can_be_had_the_run_ends_after_three_tunnels_and_goes_on_later(run: Run, rounds: int) -> None:
    lacks = InstrumentError("this machine offered 500 Mbit/s to a WAN of 1000")
    run.world.never_up = {cell.vpn: lacks for cell in MANY}
    stopped = run(MANY, rounds=rounds).stopped
    assert stopped.startswith(str(lacks))
    assert sum(run.world.brought_up.values()) == 3
    assert {one.status for one in run.trials.values()} == {"lab_error"}
    run.world.never_up = {}
    assert run(MANY, rounds=rounds).stopped == ""
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert len(run.trials) == len(MANY)


@pytest.mark.parametrize("rounds", [WHOLE, TURNS], ids=["whole", "in turns"])
def test_where_the_instrument_dies_beside_every_vpn_the_run_ends(run: Run, rounds: int) -> None:
    run.world.wrong = {(cell.vpn, number): dies for cell in MANY for number in range(1, 100)}
    assert run(MANY, rounds=rounds).stopped.startswith("iperf3 was killed on host1")
    assert len([one for one in run.trials.values() if one.status == "lab_error"]) == 3


def test_one_vpn_that_fails_so_ends_no_run(run: Run) -> None:
    several = cells("openvpn", levels=("1", "2", "3"), ciphers=(AES_CBC, OTHER_CIPHER))
    run.world.never_up = {"openvpn": InstrumentError("its software is damaged")}
    assert run(several + cells("none", "ssh_tun"), rounds=WHOLE).stopped == ""
    assert run.trials["ssh_tun"].status == "ok"


def test_an_instrument_that_fails_beside_one_that_works_ends_no_run(run: Run) -> None:
    """Level 1 alone goes wrong."""
    run.world.wrong = {(cell.vpn, number): dies for cell in MANY for number in range(1, 100)}
    both = cells(*(cell.vpn for cell in MANY), levels=("1", "2"))
    assert run(both, rounds=TURNS).stopped == ""
    assert {name: one.status for name, one in run.trials.items() if name.endswith(" 2")} == {
        f"{cell.vpn} 2": "ok" for cell in MANY
    }
    assert run(both, rounds=TURNS).stopped == "", "nor a later call, which has nothing else left"


def test_vpns_that_fail_by_themselves_end_no_run(run: Run) -> None:
    run.world.never_up = {cell.vpn: MeasurementError("no payload came") for cell in MANY[1:]}
    assert run(MANY, rounds=WHOLE).stopped == ""
    assert run.trials["none"].status == "ok"
    assert len(run.trials) == len(MANY)
