"""``vpneval more RUN`` with real tunnels: the run goes on, and what it had stays as it was."""

from pathlib import Path

from runner.data.store import load_run
from runner.lab.software.image import Image
from tests.lab.commands import lines, rows, vpneval, wrong_slices

TCP = ("--set", "measure=tcp,streams=1,direction=forward")


def test_a_run_goes_on_where_it_is_in_doubt(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "run"
    begun = vpneval("run", "transport", "--vpn", "openvpn,openvpn_tcp", *TCP, "--deadline", "10s", "--out", out)
    assert begun.returncode == 0, begun.stderr
    before, trials = rows(out), {trial.id for trial in load_run(out)[1]}
    moved = out.rename(tmp_path / "moved")
    went_on = vpneval("more", moved, "--deadline", "10s", "--json")
    assert went_on.returncode == 0, went_on.stderr
    assert went_on.stdout.startswith("{")
    assert not wrong_slices(moved, before, trials)
    run, now = load_run(moved)
    assert trials < {trial.id for trial in now}
    assert {trial.vpn for trial in now} == {"none", "openvpn", "openvpn_tcp"}
    assert run.invocations[1].command_line[1:4] == ["run", "transport", "--vpn"], "what `more` stands for"


def test_a_farm_goes_on_to_twice_as_many_repetitions(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = ("--vpn", "openvpn", *TCP, "--profile", "smallest", "--reps", "1", "--farm", "local:1", "--out", out)
    begun = vpneval("run", "transport", *argv)
    assert begun.returncode == 0, begun.stderr
    before = lines(out)
    went_on = vpneval("more", out)
    assert went_on.returncode == 0, went_on.stderr
    assert lines(out)[: len(before)] == before
    assert {trial.repetition for trial in load_run(out)[1] if trial.vpn == "openvpn"} == {1, 2}
