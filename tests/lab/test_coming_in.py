"""Candidates that nobody named come into a run when the answer for the first ones is settled, with own plain IP."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import experiments.choose
import questions.choose
from questions.choose.judge import choice
from questions.choose.judgement import Choice
from runner.choice.devices import devices
from runner.cli.main import main
from runner.data.store import load_run
from runner.data.trials import Run, Trial


def test_candidates_come_in_when_the_first_ones_are_settled(
    image: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settled(run: Run, trials: Sequence[Trial]) -> Choice:
        climbed = any(trial.curve for trial in trials)
        return choice(run, trials).model_copy(update={"unsettled": [] if climbed else [1e8], "early": False})

    monkeypatch.setattr(questions.choose, "choice", settled)
    object.__setattr__(experiments.choose.EXPERIMENT, "first", ("wireguard_go",))
    folder = tmp_path / "run"
    argv = ["run", "choose", "--deadline", "90s", "--out", str(folder), "--quiet"]
    monkeypatch.setattr("sys.argv", ["vpneval", *argv])  # the command that is recorded
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        object.__setattr__(experiments.choose.EXPERIMENT, "first", FIRST)
    assert not ended.value.code
    run, trials = load_run(folder)
    later = {name for name, vpn in run.vpns.items() if vpn.after}
    assert later
    assert not {"none", "wireguard_go"} & later
    measured = later & {trial.vpn for trial in trials}
    assert measured, "who does not fit in the time that is left is left out, and somebody fits"
    for vpn in measured:
        mine = {trial.repetition for trial in trials if trial.vpn == vpn}
        assert mine <= {trial.repetition for trial in trials if trial.vpn == "none"}
        assert min(mine) > run.vpns[vpn].after
    assert not any(device.failed for device in devices(run, trials).values())


FIRST = experiments.choose.EXPERIMENT.first
