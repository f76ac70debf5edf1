"""Each instrument that measures in slices, closed after its first: nothing stays that does not end with the tunnel."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from greenlet import getcurrent, greenlet

from runner.catalogue import instruments, load_vpn
from runner.data.trials import Evidence, Proof
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, Whole
from runner.instruments.tools import between, generator, limits, visits
from runner.instruments.tools.beside import Delays, StampedSender
from runner.instruments.tools.cost import Spent
from runner.instruments.tools.generator import Arrived, Generator, Load
from runner.instruments.traffic import packets, soak, tcp, udp, udp_sockets
from runner.lab.node import Completed
from runner.lab.readings.wire import Outer
from runner.tunnel.bring_up import Bench, Tunnel
from tests.unit.helpers import PaperLab, report

EVIDENCE = Evidence(cipher="none", integrity="none", compression="off", data_path="paper", version="1")
PROOF = Proof(confidential_promised=False, delivered=True, marker_on_wan=False, sent_bytes=1, captured_bytes=1)
LEVELS = {"fragmentation": "allow", "payload_bytes": "1300", "packet_bytes": "512"}
PRINTED: dict[str, str] = {}  # instrument -> what its own program prints on a node, where that is not "1"
BY_ITSELF = {  # Whole, but for its many handovers, or its silences
    "failover": "test_handovers.py",
    "silence": "test_path.py",
}


class Node:
    """A node that says yes, and keeps count of what was started on it."""

    def __init__(self, name: str, open_: Counter[str], printed: str = "1") -> None:
        self.name, self.open, self.run = name, open_, MagicMock(return_value=Completed(0, printed, ""))
        self.write, self.defer, self.log, self.cpu_s = MagicMock(), MagicMock(), MagicMock(), lambda: 1.0
        self.read_log = lambda log: ""

    def spawn(self, *argv: str, log: str) -> Any:
        self.open[argv[0]] += 1
        return SimpleNamespace(stop=lambda: self.open.subtract([argv[0]]), alive=lambda: True)


def arrived(_: object, load: Load, *__: object, **___: object) -> Arrived:
    sent = max(1, round(load.per_s * load.seconds))
    offered = {"sent": sent, "bytes": 1300 * sent, "wakes": 1, "longest": 16}
    return Arrived(load, sent, 1300 * sent, load.seconds, sent, sent, sent, [(0.0, 0), (load.seconds, 1)], offered)


def answer(
    _: object, name: str, question: dict[str, Any], timeout_s: float, meanwhile: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    meanwhile()
    if question["do"] == "rtt":
        return {"ms": [0.5] * question["exchanges"]}
    seconds = question["slice_s"]
    sent = round((question["rate_bps"] or 1e9) * seconds / 8)
    return {"bytes": sent, "seconds": seconds, "carried_bytes": sent, "retransmits": 0}


@pytest.fixture
def open_(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """What is open on the nodes of a lab on paper: name -> how often."""
    found: Counter[str] = Counter()

    @contextmanager
    def probe(node: Node, name: str, *argv: str, ready: str) -> Iterator[Any]:
        found[name] += 1
        try:
            yield MagicMock()
        finally:
            found[name] -= 1

    for module in (visits, between):
        monkeypatch.setattr(module, "probe", probe)
    monkeypatch.setattr(visits, "ask_probe", answer)
    for name, value in {
        "interface": "eth0",
        "cut_by_software": False,
        "sources_of": "10.1.0.2",
        "cores_for": [0],
    }.items():
        monkeypatch.setattr(generator, name, lambda *_, value=value: value)
    monkeypatch.setattr(Generator, "play", arrived)
    monkeypatch.setattr(Generator, "begin", lambda *_: None)
    monkeypatch.setattr(Generator, "sender_report", lambda *_: {})
    monkeypatch.setattr(Generator, "finish", arrived)
    monkeypatch.setattr(Generator, "variations_ms", lambda *_: [0.1, 0.2])
    monkeypatch.setattr(limits, "_read", lambda bench: None)
    monkeypatch.setattr(tcp, "machines", lambda lab: Spent({}, 0))
    monkeypatch.setattr(tcp, "of_slice", lambda *_: {"cpu_per_gigabyte": 1.0})
    monkeypatch.setattr(tcp, "wan_bytes", lambda lab: 0)
    for name, value in {"begin": None, "finish": 1, "delays": Delays([0.1])}.items():
        monkeypatch.setattr(StampedSender, name, lambda *_, value=value: value)
    monkeypatch.setattr(generator.Generator, "stamps", lambda *_: [])
    monkeypatch.setattr(packets, "outer", lambda *_: Outer(0, 0))
    monkeypatch.setattr(packets, "cpu_spent", lambda lab: 1.0)
    for module in (packets, udp):
        monkeypatch.setattr(module, "fragments_created", lambda lab: 0)
    monkeypatch.setattr(soak, "bare_gateways", lambda bench: nullcontext({}))
    monkeypatch.setattr(soak, "iperf3", lambda *_: report("tcp"))
    monkeypatch.setattr(soak, "longest_pause_ms", lambda *_: 20.0)
    monkeypatch.setattr(soak, "read_held", lambda node: soak.Held(0.0, 9, 4096))
    monkeypatch.setattr(soak, "arrived_bytes", lambda lab: 0)
    monkeypatch.setattr(soak, "free_server", lambda lab: None)
    monkeypatch.setattr(udp, "iperf3", lambda *_: report("udp"))
    monkeypatch.setattr(udp, "receive_buffer_errors", lambda lab: 0)
    monkeypatch.setattr(udp_sockets.Programs, "play", lambda *_: udp_sockets.Datagrams(100, 1.0, 90, 5))
    return found


def searches() -> int:
    """The searches that wait for the loss of a trial."""
    gc.collect()
    return sum(isinstance(one, greenlet) and bool(one) and one is not getcurrent() for one in gc.get_objects())


SLICING = [name for name, one in instruments().items() if not isinstance(one, Whole)]


@pytest.mark.parametrize(
    ("name", "profile"), [*((name, "quick") for name in SLICING), ("udp", "thesis"), ("udp_sockets", "thesis")]
)
def test_an_instrument_that_is_closed_early_cleans_up(open_: Counter[str], name: str, profile: str) -> None:
    instrument, before = instruments()[name], searches()
    defaults = {factor: levels.default for factor, levels in instrument.factors.items() if levels.default}
    params = (
        {"measure": name} | defaults | {factor: LEVELS[factor] for factor in LEVELS if factor in instrument.factors}
    )
    printed, nodes = PRINTED.get(name, "1"), ("host1", "gw1", "wan", "gw2", "host2")
    lab: Any = PaperLab({node: Node(node, open_, printed) for node in nodes})
    bench = Bench(lab, Tunnel("10.2.0.2", 0.1, EVIDENCE, PROOF), renewal=lambda: (lab, bench.tunnel))
    measuring = instrument.measure(bench, Asked(load_vpn("openvpn"), params, PROFILES[profile], seed=1))
    found = next(measuring)
    assert found
    assert all(math.isfinite(value) for value in found.values())
    measuring.close()
    with pytest.raises(StopIteration):
        next(measuring)
    assert searches() <= before
    bench.close()
    assert not +open_, "it ends with the tunnel, if not before"


def test_the_others_have_one_slice_or_a_test_of_their_own() -> None:
    overriding = {name for name, one in instruments().items() if type(one).measure is not Whole.measure}
    assert overriding - {*SLICING} == BY_ITSELF.keys()
