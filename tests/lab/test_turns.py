"""Real tunnels that stand together: their slices, round after round, and what becomes of them when something dies."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.store import load_run, read_slices
from runner.data.trials import Slice, Trial
from runner.instruments.tools.generator import Load, generator
from runner.instruments.tools.visits import HTTP_SERVER, visits
from runner.instruments.traffic.download import download
from runner.instruments.traffic.tcp import TEXT, text_payload
from runner.lab.node import wait_until
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import SITES, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, make_secrets, start_services
from tests.lab.commands import start, until, vpneval
from tests.lab.conftest import descendants, mounts, running

ROUNDS = 7  # as few as have two of every fifth and three of every third one
STREAM = ("--set", "measure=tcp,measure=idle,streams=1,direction=forward")
TURNS = ("transport", "--profile", "quick", "--reps", "1", "--rounds", ROUNDS, "--vpn", "openvpn,ssh_forward")
THREE = (*TURNS, *STREAM)


def slices(out: Path) -> dict[str, list[Slice]]:
    with suppress(OSError):
        return read_slices(out)
    return {}


def rounds_of(out: Path) -> int:
    """How many whole rounds are on the disk."""
    return max((one.round for rows in slices(out).values() for one in rows), default=0)


def trials_of(out: Path) -> dict[tuple[str, str], Trial]:
    found = {(one.vpn, one.params["measure"]): one for one in load_run(out)[1]}
    assert len(found) == len(load_run(out)[1]) == 6
    return found


def counted(trial: Trial, metric: str) -> list[int]:
    return next(found.rounds for found in trial.measurements if found.metric == metric)


METRIC = {"tcp": "tcp_throughput", "idle": "rtt"}


# --- slices ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def taken(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("turns") / "run"
    done = vpneval("run", *TURNS, "--set", "measure=tcp,measure=idle", "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.smoke
def test_three_tunnels_stand_together_and_their_slices_are_paired(taken: Path) -> None:
    _, trials = load_run(taken)
    assert {one.status for one in trials} == {"ok"}, [one.reason for one in trials]
    assert {one.vpn for one in trials} == {"none", "openvpn", "ssh_forward"}
    rows = read_slices(taken)
    plain = {"streams": "1", "direction": "forward"}
    ranked = [one for one in trials if one.params["measure"] == "idle" or one.params.items() >= plain.items()]
    assert len(ranked) == 6
    for trial in ranked:
        assert counted(trial, METRIC[trial.params["measure"]]) == list(range(1, ROUNDS + 1))
        assert [row.round for row in rows[trial.id]] == list(range(1, ROUNDS + 1))
        assert trial.evidence
        assert trial.proof
    for trial in trials:
        if trial not in ranked:  # more streams, and the other way: every fifth round, as there is no deadline
            assert counted(trial, "tcp_throughput") == [1, 6], trial.params
    first = {trial.id: rows[trial.id][0].at_s for trial in trials}
    assert len(set(first.values())) > 1


@pytest.mark.smoke
def test_three_tunnels_stand_together_and_what_their_slices_count_is_plausible(taken: Path) -> None:
    values = {
        (one.vpn, one.params.get("streams"), one.params.get("direction")): {
            found.metric: found for found in one.measurements
        }
        for one in load_run(taken)[1]
    }
    for (vpn, streams, _), found in values.items():
        if streams is None:
            assert found["rtt"].value > 0
            assert len(found["setup_time"].samples) >= 3  # its own, and of those beside it
            assert found["rtt"].detail["exchanges"] == 20 * ROUNDS
            continue
        least = 1.0 if vpn != "ssh_forward" else 0.9  # acknowledgements of SSH's own connection are few
        # What a full queue drops is sent again: on a busy machine OpenVPN's are half as much again, iperf3's too.
        assert least < found["wire_bytes_per_payload_byte"].value < 2.0, (vpn, streams)
        assert found["cpu_per_gigabyte"].value > 0
        assert found["tcp_throughput"].detail["retransmits"] >= 0
        assert min(found["tcp_throughput"].samples) > 0
    fast = {vpn: values[vpn, "1", "forward"]["tcp_throughput"].value for vpn in ("none", "openvpn")}
    assert fast["none"] > fast["openvpn"]


@contextmanager
def bench_of(image: Image, tmp_path: Path, name: str) -> Iterator[Bench]:
    vpn = load_vpn(name)
    with namespace_lab(image, logs=tmp_path) as lab:
        start_services(lab)
        secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES)
        up = bring_up(lab, vpn, vpn.comparable, secrets)
        bench = Bench(lab, up, lambda: (lab, up))
        try:
            yield bench
        finally:
            bench.close()


@pytest.mark.smoke
@pytest.mark.parametrize("name", ["none", "openvpn", "ssh_forward"])
def test_visits_both_ways_with_several_streams_and_each_payload(image: Image, tmp_path: Path, name: str) -> None:
    with bench_of(image, tmp_path, name) as bench:
        via = visits(bench)
        for host in (bench.lab.host1, bench.lab.host2):
            host.write(TEXT, text_payload(), mode=0o644)
        for direction in ("forward", "reverse", "both"):
            for streams, payload in ((1, "random"), (4, "random"), (1, "zeros"), (2, TEXT)):
                found = via.tcp(0.15, direction=direction, streams=streams, payload=payload)
                assert 0.15 <= found["seconds"] < 5
                assert 0 < found["bytes"] <= found["carried_bytes"]
                assert found["retransmits"] >= 0
        assert len(via.exchanges(5)) == 5
        assert visits(bench) is via


@pytest.mark.smoke
def test_a_paced_slice_keeps_its_rate(image: Image, tmp_path: Path) -> None:
    with bench_of(image, tmp_path, "none") as bench:
        found = visits(bench).tcp(1.0, rate_bps=20e6)
        assert found["bytes"] * 8 / found["seconds"] == pytest.approx(20e6, rel=0.1)


@pytest.mark.smoke
@pytest.mark.parametrize("which", ["far", "near"])
def test_after_a_probe_has_died_the_next_visit_has_new_ones(image: Image, tmp_path: Path, which: str) -> None:
    with bench_of(image, tmp_path, "none") as bench:
        via = visits(bench)
        via.tcp(0.1)
        for pid in probes_below(os.getpid(), which):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(MeasurementError, match=r"^the probe visit"):
            via.tcp(0.1)
        assert visits(bench) is not via
        assert visits(bench).tcp(0.1)["bytes"] > 0
        assert len(probes_below(os.getpid(), which)) == 1


def commands(pids: set[int]) -> dict[int, list[str]]:
    found = {}
    for pid in pids:
        with suppress(OSError):  # gone meanwhile
            found[pid] = [word.decode() for word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")]
    return found


def probes_below(pid: int, which: str) -> list[int]:
    """The visiting probes of that end, of all tunnels that stand."""
    end = ["/run/vpneval/visit.py", which]
    return [
        one for one, words in commands(descendants(pid)).items() if words[0].endswith("python3") and words[2:4] == end
    ]


def kill(process: subprocess.Popen[str], *words: str) -> int:
    """Kill what a run has on its nodes whose command has all of these words; how many were."""
    found = [pid for pid, command in commands(descendants(process.pid)).items() if {*words} <= {*command}]
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(found)


INSTRUMENTS = {
    "iperf3's server": ("iperf3", "--server"),
    "iperf3": ("iperf3", "--client"),
    "the answering probe": ("/run/vpneval/answer.py",),
    "who asks it": ("/run/vpneval/ask.py", "rtt"),
    "the generator": ("/run/vpneval/generate.py",),
    "the counter": ("/run/vpneval/count.py",),
}


TRIALS = "measure=tcp,measure=idle,measure=udp,streams=1,direction=forward"
LOADED = "measure=loaded,load=full"


@pytest.mark.parametrize(
    ("experiment", "trials", "which"),
    [
        *(("transport", TRIALS, which) for which in INSTRUMENTS),
        *(("latency", LOADED, which) for which in ("iperf3's server", "iperf3")),
    ],
)
def test_no_vpn_is_blamed_for_an_instrument_that_was_killed(
    image: Image, tmp_path: Path, experiment: str, trials: str, which: str
) -> None:
    """Once, in whatever it was doing: the trial is begun again, and those after it have what they need."""
    out = tmp_path / "run"
    asked = ("--set", trials)
    process = start(out, experiment, "--profile", "smallest", "--vpn", "openvpn", *asked)
    try:
        until(process, lambda: kill(process, *INSTRUMENTS[which]) > 0, f"{which} to be killed")
        said, errors = process.communicate(timeout=240)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said + errors
    assert {trial.status for trial in load_run(out)[1]} == {"ok"}, [trial.reason for trial in load_run(out)[1]]


def test_an_instrument_that_dies_again_and_again_is_a_lab_error(image: Image, tmp_path: Path) -> None:
    asked = ("--set", "measure=tcp,measure=idle,streams=1,direction=forward")
    for number in range(3):  # on a busy machine whoever kills it may come too late
        out = tmp_path / f"run{number}"
        process = start(out, "transport", "--profile", "smallest", "--vpn", "openvpn", *asked)
        try:
            while process.poll() is None:
                kill(process, *INSTRUMENTS["who asks it"])
                time.sleep(0.01)
            said, errors = process.communicate()
        finally:
            process.kill()
            process.wait()
        if process.returncode:
            break
    assert process.returncode == 1, said + errors
    found = {trial.params["measure"]: trial for trial in load_run(out)[1] if trial.vpn == "openvpn"}
    assert (found["tcp"].status, found["idle"].status) == ("ok", "lab_error"), found
    again = vpneval("run", "transport", "--profile", "smallest", "--vpn", "openvpn", *asked, "--out", out)
    assert again.returncode == 0, again.stderr
    assert {trial.status for trial in load_run(out)[1]} == {"ok"}, "measured again"


# --- what dies in the middle of rounds -------------------------------------------------------------------------------


@contextmanager
def under_way(out: Path, argv: Sequence[object], rounds: int) -> Iterator[subprocess.Popen[str]]:
    """A run of which so many rounds are on the disk."""
    process = start(out, *argv)
    try:
        until(process, lambda: rounds_of(out) >= rounds, f"{rounds} rounds", deadline_s=120)
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("which", ["far", "near"])
def test_a_probe_that_is_killed_in_the_middle_costs_one_slice(image: Image, tmp_path: Path, which: str) -> None:
    out = tmp_path / "run"
    with under_way(out, THREE, 2) as process:
        killed = probes_below(process.pid, which)
        assert len(killed) == 3
        for pid in killed:
            os.kill(pid, signal.SIGKILL)
        said, errors = process.communicate(timeout=200)
    assert process.returncode == 0, said + errors
    hit = 0
    for (vpn, measure), trial in trials_of(out).items():
        assert trial.status == "ok", trial.reason
        again = [warning for warning in trial.warnings if warning.startswith("begun again after ")]
        fewest = ROUNDS - len(again)
        rounds = len(counted(trial, METRIC[measure]))
        assert rounds == fewest, (vpn, measure, trial.warnings)
        hit += len(again)
        assert not any("carries no payload" in warning for warning in again)
    assert hit == 3, "one slice of each tunnel"


def test_a_daemon_that_is_killed_has_its_tunnel_made_anew(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with under_way(out, THREE, 2) as process:
        daemons = [pid for pid, words in commands(descendants(process.pid)).items() if words[0].endswith("openvpn")]
        assert daemons
        for pid in daemons:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        said, errors = process.communicate(timeout=240)
    assert process.returncode == 0, said + errors
    found = trials_of(out)
    for (vpn, measure), trial in found.items():
        assert trial.status == "ok", trial.reason
        if vpn != "openvpn":
            assert counted(trial, METRIC[measure]) == list(range(1, ROUNDS + 1)), (vpn, measure)
            assert not [warning for warning in trial.warnings if "begun again" in warning]
    warnings = [warning for measure in METRIC for warning in found["openvpn", measure].warnings]
    (again,) = (warning for warning in warnings if warning.startswith("begun again after "))
    assert "the tunnel carries no payload any more" in again
    counts = sorted(len(counted(found["openvpn", measure], METRIC[measure])) for measure in METRIC)
    assert counts == [ROUNDS - 1, ROUNDS]


def test_kill_9_in_the_middle_loses_at_most_one_round(image: Image, tmp_path: Path) -> None:
    out, before_mounts = tmp_path / "run", mounts()
    with under_way(out, THREE, 2) as process:
        children = descendants(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: not running(children), "every process of the run gone")
    assert mounts() == before_mounts
    rows, last = slices(out), rounds_of(out)
    assert last >= 2
    killed = trials_of(out)
    for (vpn, measure), trial in killed.items():
        assert trial.status == "ok"
        assert trial.warnings == [f"the run ended while this was measured: {last} slices"]
        kept = [row for row in rows[trial.id] if METRIC[measure] in row.values]
        assert counted(trial, METRIC[measure]) == sorted({row.round for row in kept}) == list(range(1, last + 1)), vpn
    report = vpneval("report", out, "--write")
    assert report.returncode == 0, report.stderr
    assert (out / "report.html").stat().st_size > 1000

    more = (*THREE[:4], "2", *THREE[5:])
    done = vpneval("run", *more, "--out", out)
    assert done.returncode == 0, done.stdout + done.stderr
    after = load_run(out)[1]
    assert {one.id: one for one in after if one.repetition == 1} == {one.id: one for one in killed.values()}
    second = [one for one in after if one.repetition == 2]
    assert len(second) == 6
    for trial in second:
        assert trial.status == "ok", trial.reason
        assert counted(trial, METRIC[trial.params["measure"]]) == list(range(last + 1, last + 1 + ROUNDS))


@pytest.mark.smoke
def test_ctrl_c_in_the_middle_keeps_what_there_is_and_says_how_to_go_on(image: Image, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with under_way(out, THREE, 2) as process:
        children = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert f"--out {out}" in said
    assert "Traceback" not in said
    wait_until(lambda: not running(children), "every process of the run gone")
    for (_, measure), trial in trials_of(out).items():
        assert trial.status == "ok", trial.reason
        assert len(counted(trial, METRIC[measure])) >= 2


@pytest.mark.smoke
def test_what_holds_a_port_gives_it_to_the_next_who_needs_it(image: Image, tmp_path: Path) -> None:
    """Two counters have one socket, and a web server the port of the visits."""
    with bench_of(image, tmp_path, "none") as bench:
        for _ in range(2):
            assert visits(bench).exchanges(3)
            for fragments in (False, True):
                load = Load((256,), per_s=1000, seconds=0.2, fragment=fragments)
                arrived = generator(bench, fragments=fragments).play(load)
                assert arrived.received == arrived.offered["sent"] > 0
            bench.free(HTTP_SERVER)
            assert download(bench.lab, bench.address, 1_000_000).measurements
