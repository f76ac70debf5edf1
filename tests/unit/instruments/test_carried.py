"""Every instrument of a throughput says how many bytes came through while the machines were watched: without them
nobody can tell what separate gateways would carry."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.instruments.instrument import at_once
from runner.instruments.tools.generator import Load
from runner.instruments.tools.limits import Limits, Piece
from runner.instruments.traffic import clients, download, duplex, packets
from runner.instruments.traffic.packets import Counted
from runner.lab.shape.site_to_site import SITES, Lab
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench
from tests.unit.data.test_own_cores import Watched
from tests.unit.helpers import Answers

SEARCH = UdpSearch(trial_duration_s=0.1, budget_s=3.0)
BYTES = 1000
MOST_PER_S = 20_000  # that the tunnel forwards, of packets of BYTES
BURSTS: dict[str, Any] = {"burst": 16.0, "longest_burst": 20}


def bench() -> Bench:
    """Nothing but readings of its machine."""
    made = Watched()
    made.lab = SimpleNamespace(shared_kernel=True)
    return cast(Bench, SimpleNamespace(get_shared=made.get_shared, lab=made.lab, address="10.2.0.2"))


def played(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tunnel that forwards MOST_PER_S of the packets of all ways together."""

    def stream(lab: Lab, load: Load, ways: Sequence[object], *_: object) -> Counted:
        per_s = load.per_s * len(ways)
        sent, came = round(per_s * load.seconds), round(min(per_s, MOST_PER_S) * load.seconds)
        return Counted(sent, load.seconds, came, came, came, 0, 0, cpu_s=1.0, **BURSTS)

    for module in (packets, duplex):
        monkeypatch.setattr(module, "stream", stream)
        monkeypatch.setattr(module, "generator", lambda bench, **more: None)


def test_a_packet_rate_says_how_much_came_through(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    found = at_once(packets.packets(bench(), BYTES, False, SEARCH, 8.0 * BYTES * MOST_PER_S))
    (load,) = found.loads
    assert found.measurements[0].value == pytest.approx(MOST_PER_S, rel=0.1)
    carried_bytes = load.looks * SEARCH.trial_duration_s * MOST_PER_S * BYTES
    assert 0.7 * carried_bytes < load.carried_bytes < 1.3 * carried_bytes


def test_both_ways_say_how_much_came_through_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    played(monkeypatch)
    found = at_once(duplex.duplex(bench(), BYTES, SEARCH, None))
    (load,) = found.loads
    assert found.measurements[0].value == pytest.approx(MOST_PER_S, rel=0.1)
    carried_bytes = load.looks * SEARCH.trial_duration_s * MOST_PER_S * BYTES
    assert 0.7 * carried_bytes < load.carried_bytes < 1.3 * carried_bytes


def lab(said: str) -> Lab:
    """One in which curl ``said`` so."""
    answers = {"curl": said, "ip -o addr": "2: eth0 inet", "ip -batch": "", "ip -force": ""}
    return cast(Lab, SimpleNamespace(host1=Answers(answers), sites=SITES))


def test_downloads_say_how_much_came_through(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clients, download):
        monkeypatch.setattr(module, "serving", lambda _: nullcontext())
        monkeypatch.setattr(module, "make_file", lambda *_: None)
    many, one = Piece(0), Piece(0)
    two = "28 3000 1.0 10.1.0.100 late\n28 500 1.0 10.1.0.101 late\n"
    clients.clients(lab(two), "10.2.0.2", 1, 2, nullcontext(many))
    download.download(lab("200 20000000 0.1 0.2 0.5\n"), "10.2.0.2", 20_000_000, nullcontext(one))
    assert (many.carried_bytes, one.carried_bytes) == (3500, 20_000_000)


def test_who_does_not_know_says_nothing() -> None:
    limits, watched = Limits(), bench()
    with limits.watch(watched):
        pass
    assert [load.carried_bytes for load in limits.machine_loads()] == [0]
