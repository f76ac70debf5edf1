"""What a settled choice takes on trust is shown by its own trials, in the time that is left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import questions.choose
from questions.choose.judge import choice
from questions.choose.judgement import Choice
from runner.choice.devices import FEWEST, devices
from runner.choice.musts import states
from runner.cli.main import main
from runner.data.store import load_run
from runner.data.trials import Run, Trial

LADDERS = [f"{carried} of {vpn}" for carried in ("tcp", "datagrams") for vpn in ("none", "openvpn_tcp")]
ASKED = "--line 20M --path-rtt 10ms --path-loss 0.1% --traffic files --must udp-blocked,mesh"


def test_a_must_and_the_loss_of_the_path_are_shown(
    image: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settled(run: Run, trials: Sequence[Trial]) -> Choice:
        climbed = [trial for trial in trials if trial.curve and len(trial.curve[0].rounds) >= FEWEST]
        lines = [] if len(climbed) == len(LADDERS) else [2e7]
        return choice(run, trials).model_copy(update={"unsettled": lines, "early": False})

    monkeypatch.setattr(questions.choose, "choice", settled)
    monkeypatch.setattr("questions.choose.judge.shipped_runs", list)  # nothing is known from before
    folder = tmp_path / "run"
    argv = ["run", "choose", "--vpn", "openvpn_tcp", *ASKED.split()]
    monkeypatch.setattr("sys.argv", ["vpneval", *argv, "--deadline", "100s", "--out", str(folder), "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    run, trials = load_run(folder)
    assert run.invocations[-1].elapsed_s <= 100
    assert {"musts", "wan"} <= {record.name for record in run.experiments}
    mesh = states(run, trials)["openvpn_tcp"]["mesh"]
    assert (mesh.word, mesh.run) == ("shown", "")
    assert mesh.trial in {trial.id for trial in trials}
    device = devices(run, trials)["openvpn_tcp"]
    (seen,) = device.on_path
    assert (seen.rate_bps, seen.rtt_ms, seen.loss_ratio) == (3e7, 10, 1e-3)
    assert 1e6 < seen.tcp_bps < 1.5 * 2e7
    assert not device.failed
