"""A VPN that misbehaves is not what a run says to take, though it does its work most of the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.choice.answer import answer
from runner.choice.devices import devices
from runner.choice.machine import machine_state
from runner.choice.musts import states, words_of
from runner.cli.main import main
from runner.data.store import load_run
from tests.lab.test_steady import POLICED_BPS, RATE_BPS
from tests.lab.unsteady import unsteady


@pytest.mark.alone
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["hole", "stall", "policed", "breaks"])
def test_a_vpn_that_misbehaves_is_not_taken(
    name: str, image: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, folder = unsteady(tmp_path, name, POLICED_BPS), tmp_path / "run"
    argv = ["run", "choose", "--vpn", f"openvpn,{plugin}", "--line", f"{RATE_BPS}", "--deadline", "130s"]
    monkeypatch.setattr("sys.argv", ["vpneval", *argv, "--out", str(folder), "--quiet"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    run, trials = load_run(folder)
    made = devices(run, trials)
    state = machine_state(trials, [*made])
    said = answer(made, words_of(states(run, trials)), run.needs, state=state)
    if said.candidate_of("openvpn").grade > 1 or state.forbids or state.is_disturbed:
        pytest.skip(f"this machine is too busy for OpenVPN itself: {state}")
    assert said.named[0] == "openvpn"
    assert name not in said.named or said.certainties.best == "open"
