"""What measures dies, and no VPN is blamed: the trial is begun again, or is to be measured another time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.data.errors import CommandError, InstrumentError, MeasurementError
from runner.data.store import load_run
from runner.lab.node import Completed
from runner.lab.node.probing import error_class, was_killed
from runner.lab.shape.site_to_site import SITES
from runner.tunnel import proof
from runner.tunnel.bring_up import Bench
from tests.unit.on_paper import Counts, Paper, Run, Wrong, cells, on_paper


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with on_paper(tmp_path / "run", monkeypatch) as made:
        yield made


def dies(text: str = "the probe died") -> Wrong:
    def wrong(bench: Paper) -> None:
        raise InstrumentError(text)

    return wrong


def test_the_exit_code_tells_who_was_killed_from_who_failed() -> None:
    assert [was_killed(code) for code in (-9, -15, 137, 143, 0, 1, 255, None)] == [True] * 4 + [False] * 4
    assert (error_class(-9), error_class(1)) == (InstrumentError, MeasurementError)


def test_a_trial_whose_instrument_dies_is_begun_again(run: Run) -> None:
    run.world.wrong |= {("openvpn", 2): dies("once"), ("openvpn", 4): dies("twice")}
    assert run().failed == 0
    assert (run.trials["openvpn"].status, run.rounds("openvpn")) == ("ok", [1, 3, 5, 6])
    assert run.trials["openvpn"].warnings == ["begun again after 1 slices: once", "begun again after 2 slices: twice"]
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]
    assert run.world.renewed == [], "the tunnel is not to blame"


def test_who_spends_the_tunnel_begins_again_with_another(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Counts, "spends_tunnel", True)
    run.world.wrong |= {("openvpn", 2): dies("once")}
    assert run().failed == 0
    assert "openvpn" in run.world.renewed


def test_repairs_are_no_attempts_of_the_vpn(run: Run) -> None:
    def breaks(bench: Paper) -> None:
        raise MeasurementError("the tunnel stuttered")

    run.world.wrong |= {("openvpn", 1): dies(), ("openvpn", 2): dies(), ("openvpn", 3): breaks}
    assert run().failed == 0
    assert run.rounds("openvpn") == [4, 5, 6]


def test_a_command_of_a_host_that_was_killed_is_an_instrument(run: Run) -> None:
    def killed(node: str) -> Wrong:
        def wrong(bench: Paper) -> None:
            bench.lab.sites = SITES
            raise CommandError(node, ["curl"], -9, "")

        return wrong

    run.world.wrong |= {("openvpn", 2): killed("host1"), ("openvpn", 3): killed("host2"), ("openvpn", 4): killed("gw1")}
    run()
    assert run.rounds("openvpn") == [1, 5, 6], "once more where the gateway's died"


def test_one_that_dies_again_and_again_is_measured_another_time(run: Run) -> None:
    run.world.wrong |= {("openvpn", turn): dies() for turn in (1, 2, 3)}
    assert run().failed == 1
    assert (run.trials["openvpn"].status, run.trials["openvpn"].reason) == ("lab_error", "the probe died")
    run()
    assert run.trials["openvpn"].status == "ok"
    assert {one.status for one in load_run(run.folder)[1]} == {"ok"}


def test_with_slices_it_ends_with_what_it_has(run: Run) -> None:
    run.world.wrong |= {("openvpn", turn): dies() for turn in (3, 4, 5)}
    assert run().failed == 0
    assert run.rounds("openvpn") == [1, 2]


def test_an_instrument_that_dies_while_a_tunnel_comes_up_is_a_lab_error_of_that_tunnel(run: Run) -> None:
    run.world.never_up["openvpn"] = InstrumentError("the answering probe had died")
    outcome = run(cells("none", "openvpn", "ipsec_user"))
    assert outcome.stopped == "", "the others go on"
    assert run.trials["openvpn"].status == "lab_error"
    assert run.trials["ipsec_user"].status == run.trials["none"].status == "ok"


class Far:
    """A far host whose answering probe lives or not; it can be started again, or not."""

    name = "host2"

    def __init__(self, alive: bool) -> None:
        self.alive = alive

    def write(self, *_: object, **__: object) -> None:
        pass

    def run(self, *argv: str, **_: object) -> Completed:
        if argv[0] == "ss":
            return Completed(0, "LISTEN" if self.alive else "", "")
        return Completed(0 if self.alive else proof.NO_ANSWER, "", "")

    def spawn(self, *_: object, **__: object) -> None:
        self.alive = True


@pytest.mark.parametrize(
    ("answers", "tunnel", "outcome"), [(True, True, True), (True, False, False), (False, False, False)]
)
def test_a_dead_tunnel_is_told_from_a_dead_probe(answers: bool, tunnel: bool, outcome: bool) -> None:
    far = Far(answers)
    near: Any = SimpleNamespace(run=lambda *_, **__: Completed(0 if tunnel and far.alive else proof.NO_ANSWER, "", ""))
    lab: Any = SimpleNamespace(host1=near, host2=far)
    bench = Bench(lab, SimpleNamespace(address="10.2.0.2"), lambda: None)  # type: ignore[arg-type, return-value]
    assert bench.carries_payload() is outcome
    assert far.alive


def test_a_dead_probe_behind_a_whole_tunnel_is_renewed_and_said() -> None:
    far = Far(alive=False)
    near: Any = SimpleNamespace(run=lambda *_, **__: Completed(0 if far.alive else proof.NO_ANSWER, "", ""))
    lab: Any = SimpleNamespace(host1=near, host2=far)
    bench = Bench(lab, SimpleNamespace(address="10.2.0.2"), lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(InstrumentError, match="answering probe had died"):
        bench.carries_payload()
    assert bench.carries_payload()
    assert not proof.renew_answering(lab)
