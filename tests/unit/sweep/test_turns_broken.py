"""What becomes of trials that take turns when something fails, breaks, is interrupted or killed; on paper."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CommandError, InstrumentError, LabError, MeasurementError, ProofError
from runner.data.store import load_run, read_slices
from runner.data.trials import Cell
from runner.instruments.result import Measured, measurement
from runner.sweep import tunnels as builder
from runner.sweep.plan import Planned, PlannedTunnel
from tests.unit.helpers import PaperLab, named_secrets
from tests.unit.on_paper import (
    EVIDENCE,
    PROOF,
    Paper,
    Run,
    cells,
    fails,
    on_paper,
    trials_of,
)
from tests.unit.synthetic import CBC, IDLE


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with on_paper(tmp_path / "run", monkeypatch) as made:
        yield made


@pytest.mark.parametrize("error", [TimeoutError("no payload came"), CommandError("gw1", ["ip"], -9, "")])
def test_no_vpn_is_blamed_for_a_node_that_is_gone_while_its_tunnel_comes_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails_to_come_up(*_: object, **__: object) -> None:
        raise error

    lost = ""
    lab = PaperLab({"wan": SimpleNamespace(why_ended=lambda: lost)})
    monkeypatch.setattr(builder, "bring_up", fails_to_come_up)
    monkeypatch.setattr(builder.TunnelBuilder, "_lab", lambda self: lab)
    monkeypatch.setattr(builder.TunnelBuilder, "_keys", lambda self: named_secrets(self.vpn, lab.sites))
    cell = Cell(vpn="openvpn", params=CBC | IDLE)
    tunnel = PlannedTunnel("openvpn", CBC, (Planned(cell, 1),))
    settings: Any = SimpleNamespace(rig=SimpleNamespace(stands=0))
    made = builder.TunnelBuilder(load_vpn("openvpn"), tunnel, settings, builder.Shared(), tmp_path)
    with pytest.raises(type(error)):
        made.bench()
    lost = "the node wan is gone"
    with pytest.raises(LabError, match="the node wan is gone"):
        made.bench()


# --- what fails --------------------------------------------------------------------------------------------------


def test_a_slice_that_fails_once_is_begun_again_and_said(run: Run) -> None:
    run.world.wrong["openvpn", 3] = fails("the probe died")
    assert run().failed == 0
    trial = run.trials["openvpn"]
    assert trial.status == "ok"
    assert run.rounds("openvpn") == [1, 2, 4, 5, 6]
    assert trial.warnings == ["begun again after 2 slices: the probe died"]
    assert [row.number for row in read_slices(run.folder)[trial.id]] == [1, 2, 3, 4, 5]
    assert run.rounds("ipsec_user") == run.rounds("none") == [1, 2, 3, 4, 5, 6]
    assert run.world.renewed == []
    assert run.world.closed["openvpn"] == 2


def test_a_slice_that_fails_twice_ends_the_trial_with_what_it_has(run: Run) -> None:
    run.world.wrong |= {("openvpn", 3): fails("once"), ("openvpn", 5): fails("twice")}
    run()
    trial = run.trials["openvpn"]
    assert (trial.status, run.rounds("openvpn")) == ("ok", [1, 2, 4])
    assert trial.measurements[0].value == 11.0  # the median of 11, 12 and 11
    assert trial.warnings == ["begun again after 2 slices: once", "ended after 3 slices: twice"]
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]
    assert sum(turn[0] == "openvpn" for turn in run.world.turns) == 5


def test_a_trial_without_a_slice_failed(run: Run) -> None:
    run.world.wrong |= {("openvpn", 1): fails("once"), ("openvpn", 2): fails("twice")}
    assert run().failed == 1
    assert (run.trials["openvpn"].status, run.trials["openvpn"].reason) == ("failed", "twice")
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]
    lines = (run.folder / "trials.jsonl").read_text()
    assert '"interrupted"' not in "".join(line for line in lines.splitlines() if "openvpn" in line)


def test_a_failure_in_the_last_round_has_a_line_all_the_same(run: Run) -> None:
    run.world.wrong |= {("openvpn", 1): fails("at once"), ("ipsec_user", 1): fails("at once")}
    run(rounds=1)
    assert {name: one.status for name, one in run.trials.items()} == {
        "none": "ok",
        "openvpn": "failed",
        "ipsec_user": "failed",
    }
    again = run.folder.with_name("again")
    run.world.turns.clear()
    run.world.wrong = {("openvpn", 6): fails("in the last")}
    run(out=again)
    (found,) = trials_of(again)["openvpn"].measurements
    assert found.rounds == [1, 2, 3, 4, 5]
    assert trials_of(again)["openvpn"].warnings[-1] == "ended after 5 slices: in the last"


def raises(error: BaseException) -> Callable[[str, int], Any]:
    def yields(vpn: str, number: int) -> Any:
        if vpn == "openvpn":
            raise error
        return {"counted_ms": 1.0}

    return yields


def only_openvpn(what: object, otherwise: Callable[[], object]) -> Callable[..., Any]:
    return lambda vpn, *_: what if vpn == "openvpn" else otherwise()


@pytest.mark.parametrize(
    ("part", "how", "said"),
    [
        ("yields", raises(ValueError("x")), "the instrument counts is broken: on_paper.py, line "),
        ("yields", raises(SystemExit("bye")), "SystemExit: bye"),
        ("yields", raises(GeneratorExit("bye")), "GeneratorExit: bye"),
        ("yields", raises(BaseException("bare")), "BaseException: bare"),
        ("yields", raises(OSError(22, "broken")), "OSError: [Errno 22] broken"),
        ("yields", only_openvpn(None, lambda: {"counted_ms": 1.0}), "and is None"),
        (
            "yields",
            only_openvpn({"a": float("nan")}, lambda: {"counted_ms": 1.0}),
            "finite numbers, and is {'a': nan}",
        ),
        ("yields", only_openvpn({"a": "b"}, lambda: {"counted_ms": 1.0}), "to finite numbers, and is {'a': 'b'}"),
        ("returns", only_openvpn(None, Measured), "the instrument counts returned None instead of a Measured"),
        ("returns", only_openvpn(Measured([measurement("yours", 1)]), Measured), "which it does not define"),
        ("deaf", {"openvpn"}, "the instrument did not end when it was told to"),
    ],
)
def test_a_broken_instrument_fails_its_own_trial_only(run: Run, part: str, how: Any, said: str) -> None:
    setattr(run.instrument, part, how)
    outcome = run()
    assert (outcome.failed, outcome.measured, outcome.stopped) == (1, 2, "")
    trial = run.trials["openvpn"]
    assert (trial.status, trial.measurements) == ("failed", [])
    assert said in trial.reason
    assert run.rounds("ipsec_user") == run.rounds("none") == [1, 2, 3, 4, 5, 6]


def test_a_result_that_the_instrument_itself_refuses_is_a_failure(run: Run) -> None:
    def refuses(vpn: str) -> Measured:
        if vpn == "openvpn":
            raise MeasurementError("the two ends do not agree", seen=3)
        return Measured()

    run.instrument.returns = refuses
    run()
    trial = run.trials["openvpn"]
    assert (trial.status, trial.reason, trial.attempt) == ("failed", "the two ends do not agree", {"seen": 3})
    assert trial.measurements == []


def test_one_that_cannot_be_asked_at_its_end_has_its_slices(run: Run) -> None:
    def refuses(vpn: str) -> Measured:
        if vpn == "openvpn":
            raise CommandError("gw1", ["cat", "smaps"], 1, "gone")
        return Measured()

    run.instrument.returns = refuses
    run()
    assert run.rounds("openvpn") == [1, 2, 3, 4, 5, 6]
    assert run.trials["openvpn"].warnings == ["ended after 6 slices: [gw1] cat smaps exited with 1: gone"]


# --- tunnels that do not come up at first ----------------------------------------------------------------------------


@pytest.mark.parametrize("deadline_s", [None, 20.0])
@pytest.mark.parametrize("error", [TimeoutError("no payload came"), CommandError("gw1", ["openvpn"], 1, "busy")])
def test_a_tunnel_that_does_not_come_up_at_first_is_tried_once_more(
    run: Run, error: Exception, deadline_s: float | None
) -> None:
    run.world.not_at_first["openvpn"] = error
    outcome = run(deadline_s=deadline_s)
    assert (outcome.failed, outcome.measured) == (0, 3)
    assert run.world.brought_up == {"none": 1, "openvpn": 2, "ipsec_user": 1}
    assert run.trials["openvpn"].status == "ok"
    said = f"the tunnel came up at the second attempt; at the first: {error}"
    assert said in run.trials["openvpn"].warnings
    assert run.trials["ipsec_user"].warnings == []
    assert run.rounds("openvpn") == run.rounds("ipsec_user")


def test_a_tunnel_that_never_comes_up_is_tried_twice(run: Run) -> None:
    run.world.never_up["openvpn"] = TimeoutError("no payload came")
    assert run().failed == 1
    assert run.world.brought_up["openvpn"] == 2
    assert (run.trials["openvpn"].status, run.trials["openvpn"].reason) == ("failed", "no payload came")


@pytest.mark.parametrize(
    ("error", "deadline_s", "status"),
    [
        (ProofError("plaintext on the WAN", PROOF), None, "failed"),
        (InstrumentError("the answering probe had died"), None, "lab_error"),
        (TimeoutError("no payload came"), 2.5, "failed"),
    ],
)
def test_a_leak_a_broken_lab_and_a_late_tunnel_are_not_tried_again(
    run: Run, error: Exception, deadline_s: float | None, status: str
) -> None:
    run.world.not_at_first["openvpn"] = error
    run(cells("none", "openvpn"), deadline_s=deadline_s)
    assert run.world.brought_up["openvpn"] == 1
    assert run.trials["openvpn"].status == status


# --- tunnels and labs that break -------------------------------------------------------------------------------------


def breaks(bench: Paper) -> None:
    bench.works = False
    raise MeasurementError("no payload came")


def test_a_tunnel_that_carries_nothing_is_made_anew_and_the_others_are_left_alone(run: Run) -> None:
    run.world.wrong["openvpn", 3] = breaks
    run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert run.world.renewed == ["openvpn"]
    assert run.rounds("openvpn") == [1, 2, 4, 5, 6]
    assert "the tunnel carries no payload any more" in run.trials["openvpn"].warnings[0]
    for name in ("openvpn 2", "ipsec_user", "ipsec_user 2", "none", "none 2"):
        (found,) = run.trials[name].measurements
        assert (found.rounds, run.trials[name].warnings) == ([1, 2, 3, 4, 5, 6], []), name


def test_a_host_that_does_not_answer_is_a_tunnel_that_carries_nothing(run: Run) -> None:
    def hangs(bench: Paper) -> None:
        def asked() -> bool:
            raise CommandError("host1", ["python3"], None, "", 10)

        bench.carries_payload = asked  # type: ignore[method-assign]
        raise MeasurementError("it hung")

    run.world.wrong["openvpn", 3] = hangs
    run()
    assert run.world.renewed == ["openvpn"]
    assert run.rounds("openvpn") == [1, 2, 4, 5, 6]


def test_a_tunnel_that_does_not_come_up_again_leaves_its_slices(run: Run) -> None:
    run.world.wrong["openvpn", 3] = breaks
    run.world.not_again["openvpn"] = TimeoutError("no payload came within 15 s")
    run(cells("none", "openvpn", "ipsec_user", levels="12"))
    found = run.trials
    for name in ("openvpn", "openvpn 2"):
        assert found[name].status == "ok", found[name].reason
        assert found[name].warnings[-1].endswith("the tunnel did not come up again: no payload came within 15 s")
    assert run.rounds("openvpn") == [1, 2]
    assert all(found[name].measurements[0].rounds == [1, 2, 3, 4, 5, 6] for name in ("ipsec_user", "none 2"))


def test_a_new_tunnel_that_is_not_what_was_asked_for_fails_its_trials(run: Run) -> None:
    run.world.wrong["openvpn", 3] = breaks
    run.world.not_again["openvpn"] = ProofError("plaintext on the WAN", PROOF)
    run()
    trial = run.trials["openvpn"]
    assert (trial.status, trial.measurements, trial.proof) == ("failed", [], PROOF)
    assert trial.reason.startswith("plaintext on the WAN")
    assert run.rounds("ipsec_user") == [1, 2, 3, 4, 5, 6]


def test_nobody_needs_a_tunnel_whose_trials_are_over(run: Run) -> None:
    run.world.wrong |= {("openvpn", 2): fails(), ("openvpn", 3): breaks}
    run()
    assert run.rounds("openvpn") == [1]
    assert run.world.renewed == []


def test_a_lab_that_breaks_ends_the_run_and_the_others_have_their_values(run: Run) -> None:
    def gone(bench: Paper) -> None:
        bench.lost = "gw1 is gone"
        raise MeasurementError("nothing came")

    run.world.wrong["openvpn", 3] = gone
    outcome = run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert outcome.stopped == "gw1 is gone"
    statuses = {name: one.status for name, one in run.trials.items()}
    assert statuses == dict.fromkeys(("none", "none 2", "ipsec_user", "ipsec_user 2"), "ok") | dict.fromkeys(
        ("openvpn", "openvpn 2"), "lab_error"
    )
    assert {2, 3} >= {len(one.measurements[0].rounds) for one in run.trials.values() if one.status == "ok"}
    del run.world.wrong["openvpn", 3]
    run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert run.rounds("openvpn")[0] > max(run.rounds("ipsec_user"))


def test_ctrl_c_in_the_middle_of_a_slice_leaves_a_line_of_each_trial(run: Run) -> None:
    def ends(bench: Paper) -> None:
        raise KeyboardInterrupt

    run.world.wrong["openvpn", 4] = ends
    with pytest.raises(KeyboardInterrupt):
        run(cells("none", "openvpn", "ipsec_user", levels="12"))
    assert len(run.trials) == 6
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert run.rounds("openvpn") == [1, 2, 3]
    assert run.trials["openvpn"].warnings == ["ended after 3 slices: the run ended in the middle of a slice"]
    assert {3, 4} >= {len(one.measurements[0].rounds) for one in run.trials.values()}
    assert '"interrupted"' not in "\n".join((run.folder / "trials.jsonl").read_text().splitlines()[-6:])


def test_ctrl_c_in_the_first_slice_leaves_that_trial_to_be_measured(run: Run) -> None:
    def ends(bench: Paper) -> None:
        raise KeyboardInterrupt

    run.world.wrong["openvpn", 1] = ends
    with pytest.raises(KeyboardInterrupt):
        run()
    assert "openvpn" not in run.trials
    del run.world.wrong["openvpn", 1]
    run()
    assert {one.status for one in run.trials.values()} == {"ok"}
    assert len(run.trials) == 3


def test_a_full_disk_stops_the_run_and_every_line_there_is_can_be_read(run: Run) -> None:
    def full(bench: Paper) -> None:
        raise OSError(28, "No space left on device")

    run.world.wrong["openvpn", 3] = full
    assert "No space left on device" in run().stopped
    assert {run.trials[name].status for name in ("none", "ipsec_user")} == {"ok"}


# --- a run that is killed --------------------------------------------------------------------------------------------


def killed(run: Run, at: int, **how: Any) -> Path:
    """The run folder as it is on the disk when the ``at``th turn of OpenVPN has just ended."""
    there = run.folder.with_name(f"killed-{at}")
    run.world.wrong["openvpn", at] = lambda bench: shutil.copytree(run.folder, there)
    run(**how)
    run.world.wrong.clear()
    run.world.turns.clear()
    return there


@pytest.mark.parametrize("at", [2, 3, 6])
def test_of_a_killed_run_at_most_one_round_is_lost(run: Run, at: int) -> None:
    there = killed(run, at)
    lines = (there / "trials.jsonl").read_text()
    assert lines.count('"status":"interrupted"') == 3
    for trial in trials_of(there).values():
        (found,) = trial.measurements
        assert (trial.status, found.rounds) == ("ok", list(range(1, at)))
        assert trial.warnings == [f"the run ended while this was measured: {at - 1} slices"]
        assert (found.unit, found.better) == ("ms", "lower")
        assert trial.evidence == EVIDENCE


def test_what_was_killed_in_its_first_round_is_measured_again(run: Run) -> None:
    there = killed(run, 1)
    assert {one.status for one in trials_of(there).values()} <= {"lab_error"}
    assert all(one.reason == "the run ended while this was measured" for one in trials_of(there).values())
    run(out=there)
    found = trials_of(there)
    assert len(found) == 3
    assert all(one.measurements[0].rounds == [1, 2, 3, 4, 5, 6] for one in found.values())


def test_a_killed_run_goes_on_with_new_numbers(run: Run) -> None:
    there = killed(run, 4, repetitions=2)
    before = trials_of(there)
    run(out=there, repetitions=2)
    after = load_run(there)[1]
    first = [one.measurements[0].rounds for one in after if one.repetition == 1]
    second = [one.measurements[0].rounds for one in after if one.repetition == 2]
    assert first == [[1, 2, 3]] * 3
    assert second == [[4, 5, 6, 7, 8, 9]] * 3
    assert all(one.measurements == before[one.vpn].measurements for one in after if one.repetition == 1)
    run.world.turns.clear()
    run(out=there, repetitions=2)
    assert run.world.turns == []


# --- one that is measured by itself ------------------------------------------------------------------------------


def interrupted(bench: Paper) -> None:
    raise KeyboardInterrupt


def test_a_trial_by_itself_keeps_its_samples_where_the_run_is_killed(run: Run) -> None:
    run.world.wrong["openvpn", 50] = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(cells("openvpn"), rounds=0)
    trial = run.trials["openvpn"]
    (found,) = trial.measurements
    assert (trial.status, found.rounds) == ("ok", [])
    assert found.samples == [10.0 + number for number in range(1, 43)], "those of the last five seconds are lost"
    assert {row.round for row in read_slices(run.folder)[trial.id]} == {0}
    assert trial.warnings == ["the run ended while this was measured: 42 slices"]


def test_one_whose_slices_are_no_samples_is_measured_again(run: Run) -> None:
    run.instrument.yields = lambda vpn, number: {"asked_rate_bps": 1e6}
    run.world.wrong["openvpn", 50] = interrupted
    with pytest.raises(KeyboardInterrupt):
        run(cells("openvpn"), rounds=0)
    assert not run.trials


def test_one_that_fails_has_its_last_line_and_each_slice_once(run: Run) -> None:
    run.world.wrong["openvpn", 50] = fails("the tunnel broke")
    run.world.wrong["openvpn", 51] = interrupted  # the second attempt
    with pytest.raises(KeyboardInterrupt):
        run(cells("openvpn"), rounds=0)
    trial = run.trials["openvpn"]
    assert (trial.status, trial.reason) == ("failed", "the tunnel broke")
    assert [row.number for row in read_slices(run.folder)[trial.id]] == list(range(1, 50))
