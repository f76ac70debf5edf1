"""`make compare`, its own command in its smallest form, with some of its VPNs: from the plan to the report."""

import json
import subprocess
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.store import load_run
from runner.lab.software.image import Image

REPOSITORY = Path(__file__).resolve().parents[2]
COMPARED = ("ipip", "openvpn", "ssh_forward", "wireguard_go")  # each plugin by itself: test_contract.py

pytestmark = pytest.mark.smoke


@pytest.fixture(scope="module")
def compared(image: Image, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The run folder and the terminal's output of one `make compare`."""
    out = tmp_path_factory.mktemp("compare") / "run"
    done = subprocess.run(
        [
            *("make", "--no-print-directory", "compare", "PROFILE=smallest", "REST=", f"OUT={out}"),
            f"VPNS={','.join(COMPARED)}",
        ],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert (out / "trials.jsonl").exists(), done.stderr
    assert "Traceback" not in done.stderr
    return out, done.stdout


@pytest.mark.timeout(420)
def test_every_vpn_is_measured_or_says_why_not(compared: tuple[Path, str]) -> None:
    run, trials = load_run(compared[0])
    assert {"none", *COMPARED} == set(run.vpns)
    for name in run.vpns:
        mine = [trial for trial in trials if trial.vpn == name]
        assert mine, name
        for trial in mine:
            assert trial.status in ("ok", "unsupported", "failed")
            assert trial.measurements if trial.status == "ok" else trial.reason
        if load_vpn(name).dataplane == "userspace":
            streams = [trial for trial in mine if trial.params["measure"] == "tcp"]
            assert any(trial.status == "ok" for trial in streams), [trial.reason for trial in streams]


def test_ok_has_proof_and_evidence(compared: tuple[Path, str]) -> None:
    for trial in load_run(compared[0])[1]:
        if trial.status != "ok":
            continue
        assert trial.proof is not None
        assert trial.evidence is not None
        assert trial.proof.delivered
        assert trial.proof.marker_on_wan is not trial.proof.confidential_promised
        assert trial.evidence.data_path.startswith(load_vpn(trial.vpn).dataplane)
        assert trial.encrypted is (trial.vpn not in ("none", "ipip"))
        assert (compared[0] / trial.log / "commands.log").is_file()
        files = (compared[0] / trial.log / "configuration.txt").read_text()
        assert ("[gw1] /etc/" in files) is (trial.vpn not in ("none", "ipip"))
        assert "PRIVATE KEY" not in files, "names stand for the keys"


def test_it_measures_what_a_choice_needs(compared: tuple[Path, str]) -> None:
    run, trials = load_run(compared[0])
    assert {record.name for record in run.experiments} - {"steady"} == {"choose"}  # of what is named, with time left
    assert len({trial.id for trial in trials}) == len(trials)
    ladders = {trial.vpn for trial in trials if trial.curve and trial.params["carried"] == "datagrams"}
    assert {"none", "openvpn", "wireguard_go"} <= ladders


def test_the_report_answers_and_explains(compared: tuple[Path, str]) -> None:
    folder, shown = compared
    report = json.loads((folder / "report.json").read_text())
    assert report["judgements"]["choose"]["answer"] is None, "no line was stated"
    states = report["judgements"]["choose"]["states"]
    assert states["openvpn"]["networks"]["word"] == "shown"
    assert states["ssh_forward"]["networks"]["word"] == "no"
    for suffix in ("html", "md", "csv"):
        assert (folder / f"report.{suffix}").stat().st_size > 1000
    for words in ("No answer yet", "vpneval more", "smallest profile", "report.html"):
        assert words in shown, words  # the smallest profile has too few rounds for an answer, and says so first
    assert "is the best" not in shown


def test_the_share_spent_measuring_is_recorded(compared: tuple[Path, str]) -> None:
    (call,) = load_run(compared[0])[0].invocations
    assert 0 < call.measuring_s < call.elapsed_s
    assert call.outcome == "complete"


def test_json_is_all_that_is_printed(image: Image, compared: tuple[Path, str]) -> None:
    done = subprocess.run(
        [
            *(REPOSITORY / ".venv/bin/vpneval", "report", compared[0], "--format", "json"),
            *("--weights", "tcp_throughput=1"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    standings = json.loads(done.stdout)["judgements"]["rank"]["rankings"][0]["standings"]
    assert {standing["vpn"] for standing in standings} == {"openvpn", "ssh_forward", "wireguard_go"}
