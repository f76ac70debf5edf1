"""Who is blamed where the TCP stream of ``loaded`` and ``rekey`` ends too early: a VPN only where nobody killed iperf3.

Take a guard out, and its test fails.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.data.errors import InstrumentError, MeasurementError
from runner.instruments.traffic import loaded, rekey
from runner.lab.node import Completed
from runner.lab.shape.site_to_site import Lab
from runner.vpn.recipe import PaperProcess
from tests.unit.helpers import Answers, PaperLab

NETSTAT = "IpExt: InOctets\nIpExt: 1000\n"
SAID = "iperf3: error - control socket has closed unexpectedly"


class Ended(PaperProcess):
    """A client that has ended with this code."""

    def __init__(self, code: int) -> None:
        self.code = code

    def alive(self) -> bool:
        return False

    def wait(self, timeout: float) -> int:
        return self.code


class Near(Answers):
    """host1, whose client has ended as soon as it is looked at."""

    def __init__(self, code: int) -> None:
        super().__init__({"cat": NETSTAT, "pkill": ""}, {"load": SAID, "rekey-load": SAID})
        self.code = code

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        return Ended(self.code)


class Far(Answers):
    """host2, with an iperf3 server or without one."""

    def __init__(self, *, listening: bool) -> None:
        super().__init__({"cat": NETSTAT})
        self.name, self.listening = "host2", listening

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        if argv[0] == "pkill":
            self.ran.append(" ".join(argv))
            self.listening = False
            return Completed(0, "", "")
        if argv[:2] == ("ss", "-Hltn"):
            return Completed(0, "LISTEN 0 4096 *:5201 *:*\n" if self.listening else "", "")
        return Completed(0, "", "") if argv[0] == "ss" else super().run(*argv, check=check)

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        self.listening = True
        return super().spawn(*argv, log=log)


RENEWED = ["pkill -KILL iperf3", "iperf3 --server --port 5201 &"]
KILLED = "the load's iperf3 was killed"
SERVER = "the iperf3 server on host2 had died: "
ENDED = "the load ended too early: "


def load_of(instrument: str, lab: Lab) -> None:
    if instrument == "loaded":
        loaded.measure_under_load(lab, "10.2.0.2", "full", 1.0, datagrams=False)
    else:
        vpn: Any = SimpleNamespace(lifecycle=lambda: SimpleNamespace(rekeying=SimpleNamespace(renew=None)))
        rekey.rekey(cast(Any, SimpleNamespace(lab=lab, address="10.2.0.2")), vpn, "esp")


@pytest.mark.parametrize(
    ("code", "listening", "kind", "said"),
    [
        (-9, True, InstrumentError, KILLED),
        (128 + 15, True, InstrumentError, KILLED),
        (1, False, InstrumentError, SERVER + SAID),
        (1, True, MeasurementError, ENDED + SAID),
        (0, True, MeasurementError, ENDED + SAID),
    ],
)
@pytest.mark.parametrize("instrument", ["loaded", "rekey"])
def test_a_load_that_is_not_there_any_more(
    monkeypatch: pytest.MonkeyPatch, instrument: str, code: int, listening: bool, kind: type[Exception], said: str
) -> None:
    far = Far(listening=listening)
    lab = cast(Lab, PaperLab({"host1": Near(code), "host2": far}))
    monkeypatch.setattr(loaded, "exchanges", lambda *_, **__: [1.0] * 300)
    with pytest.raises(MeasurementError) as told:
        load_of(instrument, lab)
    assert type(told.value) is kind
    assert str(told.value).startswith(said)
    assert far.listening, "for who measures next"
    assert [line for line in far.ran if "iperf3" in line] == ([] if listening else RENEWED)


def test_a_load_that_is_killed_while_the_last_keys_are_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = Near(-9), Far(listening=True)
    lab = cast(Lab, PaperLab({"host1": near, "host2": far}))
    alive = iter([True] * 4)  # before each of the rekeys
    monkeypatch.setattr(Ended, "alive", lambda _: next(alive, False))
    monkeypatch.setattr(rekey, "wait_until", lambda *_, **__: None)
    monkeypatch.setattr(rekey, "REKEYS", {"esp": 4})
    monkeypatch.setattr(rekey, "_exchanges", lambda *_: [1.0])
    with pytest.raises(InstrumentError, match=KILLED):
        load_of("rekey", lab)
    assert "pkill -TERM iperf3" not in near.ran
