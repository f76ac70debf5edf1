"""``vpneval more RUN``: the run's own command again, for as long as the report says; what it says where it cannot."""

import fcntl
import json
import sys
from pathlib import Path

import pytest

from questions.rank.words import answers
from runner.cli.commands.run import work as measuring
from runner.cli.main import main
from runner.data.asked import AskedFarm
from runner.data.invocation import words
from runner.data.store import load_run
from runner.data.trials import Run, Trial
from runner.lab.places import rootless
from runner.sweep.request import Request
from tests.bench.made_up_farm import MACHINE
from tests.unit.synthetic import CBC, TCP, make_run, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of

CapSys = pytest.CaptureFixture[str]


class Conducted:
    """What would have been measured, last."""

    asked: Request


@pytest.fixture
def conducted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Conducted:
    """Everything up to the measurement is real."""
    seen = Conducted()

    def conduct(asked: Request, *_: object) -> int:
        seen.asked = asked
        return 0

    monkeypatch.setattr(measuring, "measure_and_report", conduct)
    monkeypatch.setattr(measuring, "prepare", lambda *_: None)
    monkeypatch.setattr(rootless, "enter", lambda lab: None)
    monkeypatch.chdir(tmp_path)
    return seen


def stored(made: tuple[Run, list[Trial]], command: str = "", **changes: object) -> Path:
    """The run folder of a run that was asked for so."""
    run, trials = made
    call = run.invocations[0].model_copy(update={"command_line": command.split()} if command else {})
    folder = Path("results/mine")
    folder.mkdir(parents=True)
    changed = run.model_copy(update={"invocations": [call], **changes})
    (folder / "run.json").write_text(changed.model_dump_json())
    (folder / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in trials))
    return folder


def more(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, *argv: str) -> tuple[int, str]:
    """Exit code, and what it says."""
    monkeypatch.setattr(sys, "argv", ["vpneval", "more", *argv])
    with pytest.raises(SystemExit) as ended:
        main(["more", *argv])
    out, err = capsys.readouterr()
    assert out == ""
    return int(ended.value.code or 0), err


def test_it_goes_on_as_the_run_was_asked_for(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    asked = "run transport cipher --vpn openvpn --vpn=wireguard_go --set cipher=aes-128-cbc --weights=tcp --seed 7"
    # Of its time, its folder, its output and a second run, nothing is asked for again.
    not_again = "--deadline 350s --rest uml --install --out=x --json --no-until-significant"
    folder = stored(realistic_run(3), f"vpneval {asked} {not_again}")
    assert more(capsys, monkeypatch, str(folder), "--deadline", "90s") == (0, "")
    now = conducted.asked
    assert [one.name for one in now.experiments] == ["transport", "cipher"]
    assert [vpn.name for vpn in now.vpns] == ["none", "openvpn", "wireguard_go"]
    assert {cell.params["cipher"] for cell in now.cells if cell.vpn == "openvpn"} == {"aes-128-cbc"}
    assert (now.asked.out, now.asked.deadline_s, now.until_significant, now.asked.seed) == (folder, 90, True, 7)
    assert now.asked.weights == "tcp"
    assert words(now.asked) == [
        *("transport", "cipher", "--vpn", "openvpn,wireguard_go", "--set", "cipher=aes-128-cbc", "--seed", "7"),
        *("--weights", "tcp", "--out", "results/mine", "--deadline", "90s", "--until-significant"),
    ]


def test_it_takes_the_time_that_the_report_names(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    folder = stored(realistic_run(3), "vpneval --no-color run transport cipher --profile quick")
    minutes = round((ranked_of(build(*load_run(folder))).seconds_more or 0) / 60)
    assert minutes
    code, said = more(capsys, monkeypatch, str(folder))
    assert code == 0
    assert f"are undecided; about {minutes} min more would decide most of them." in said
    assert conducted.asked.asked.deadline_s == 60 * minutes
    assert more(capsys, monkeypatch, str(folder), "--quiet") == (0, "")


def test_the_plan_says_the_same(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted) -> None:
    run, trials = realistic_run(3)
    asked = ("plan", "transport", "--vpn", "openvpn,wireguard_go", "--out", str(stored((run, trials))))
    report = build(run, trials)

    def plan(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main([*asked, *options])
        assert not ended.value.code
        return " ".join(capsys.readouterr().out.split())

    said = plan("--until-significant")
    assert f"about {round((ranked_of(report).seconds_more or 0) / 60)} min more would decide most of them." in said
    found = json.loads(plan("--until-significant", "--json"))
    assert found["minutes_more"] == round((ranked_of(report).seconds_more or 0) / 60)
    assert found["undecided"] == sum(answer.open for answer in answers(ranked_of(report)))
    lacks = json.loads(plan("--json"))
    assert "undecided" not in lacks, "without --until-significant the run does not go on for that"
    again = json.loads(plan("--json", "--reps", "4"))
    assert again["trials"] > lacks["trials"]
    assert "trials that results/mine lacks, about" in plan("--reps", "4")


def test_a_run_may_have_been_moved(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted) -> None:
    stored(realistic_run(3), "vpneval run transport --out results/mine").rename("elsewhere")
    assert more(capsys, monkeypatch, "elsewhere", "--deadline", "5m")[0] == 0
    assert conducted.asked.asked.out == Path("elsewhere")


def test_rounds_that_were_given_go_on_without_a_deadline(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    """A profile with so many rounds has no deadline, and another profile would be another run."""
    folder = stored(realistic_run(3), "vpneval run transport --rounds=4")
    assert more(capsys, monkeypatch, str(folder))[0] == 0
    assert (conducted.asked.profile.rounds, conducted.asked.asked.deadline_s) == (4, None)
    assert conducted.asked.until_significant


def test_it_goes_on_under_the_kernel_of_this_run(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    run, trials = realistic_run(3)
    folder = stored(
        (run, trials), "vpneval run transport --kernel host,uml --out x --kernel uml", lab=run.lab | {"guest": "uml"}
    )
    assert more(capsys, monkeypatch, str(folder), "--deadline", "5m")[0] == 0
    assert conducted.asked.asked.kernel == "uml"


def test_a_farm_gets_more_repetitions(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted) -> None:
    folder = stored(
        realistic_run(3),
        "vpneval run transport --vpn openvpn --reps 3 --farm local:2 --farm-equal kernel",
        machines={"m1": MACHINE},
    )
    assert more(capsys, monkeypatch, str(folder)) == (0, "")
    assert (conducted.asked.repetitions, conducted.asked.asked.farm) == (
        6,
        AskedFarm(address="local:2", equal="kernel"),
    )
    code, said = more(capsys, monkeypatch, str(folder), "--deadline", "5m")
    assert code == 2
    assert "was measured on a farm, which has no --deadline. Without it, vpneval goes on to 6 repetitions" in said


def decided() -> tuple[Run, list[Trial]]:
    """Of one VPN twice as much as of the other, block after block."""
    speeds = {"none": 4e8, "openvpn": 1e8, "ipsec_user": 2e8}
    return make_run(tuple(speeds)), [
        make_trial(vpn, CBC | TCP, block, {"tcp_throughput": speed * (1 + 0.001 * ((block + len(vpn)) % 3))})
        for vpn, speed in speeds.items()
        for block in range(1, 9)
    ]


def test_where_nothing_is_in_doubt_it_says_so(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    folder = stored(decided(), "vpneval run transport --weights tcp_throughput=1")
    code, said = more(capsys, monkeypatch, str(folder))
    assert (code, len(said.splitlines())) == (0, 1)
    assert "results/mine: Every pair of VPNs is decided in every metric that counts. Nothing was measured." in said
    assert not hasattr(conducted, "asked")


def test_a_run_that_goes_on_is_left_alone(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    folder = stored(realistic_run(3))
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        code, said = more(capsys, monkeypatch, str(folder))
        assert code == 2
        assert "results/mine is being measured right now. `vpneval watch results/mine` shows it" in said
    assert more(capsys, monkeypatch, str(folder), "--deadline", "5m")[0] == 0


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("vpneval block", "results/mine/run.json does not say with which command the run was made"),
        ("vpneval run transport --vpn ./mine.py", "mine.py"),
        ("vpneval run transport --lab site:sites.toml", "sites.toml"),
    ],
)
def test_what_cannot_be_asked_again_is_named(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted, command: str, said: str
) -> None:
    code, said_here = more(capsys, monkeypatch, str(stored(realistic_run(3), command)), "--deadline", "5m")
    assert (code, len(said_here.splitlines())) == (2, 1)
    assert said in said_here
    assert not hasattr(conducted, "asked")


def test_too_little_to_tell_asks_for_a_time(
    capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted
) -> None:
    run, _ = realistic_run(3)
    code, said = more(capsys, monkeypatch, str(stored((run, []))))
    assert code == 2
    assert "Say how long to measure: vpneval more results/mine --deadline 10m" in said


def test_what_is_no_run(capsys: CapSys, monkeypatch: pytest.MonkeyPatch, conducted: Conducted) -> None:
    Path("results").mkdir()
    assert "results is not a run folder: it has no run.json" in more(capsys, monkeypatch, "results")[1]
    run, _ = realistic_run(3)
    for name in ("host", "uml"):
        (folder := Path("results/both") / name).mkdir(parents=True)
        (folder / "run.json").write_text(run.model_dump_json())
    code, said = more(capsys, monkeypatch, "results/both")
    assert code == 2
    assert "results/both holds several runs. Name one of results/both/host, results/both/uml" in said
