"""The fault campaign in a short form, without labs; ``make campaign`` has the long one, with seeds not used before."""

import importlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.catalogue import load_run, load_vpn
from runner.data.errors import PluginError, UsageError
from tests.campaign.commands import CommandCase
from tests.campaign.fields import OWNED, fields, hostile, kind_of, prepare_fields, put
from tests.campaign.folders import state
from tests.campaign.judge import CODES
from tests.campaign.labs import blamed, is_instrument
from tests.campaign.lies import lie, names_of
from tests.campaign.plugins import ENDLESS, METHODS, misbehaviour, worse
from tests.campaign.processes import Processes, start_time
from tests.lab.commands import rows, wrong_slices
from tests.unit.data.test_store import EXAMPLE, trial
from tests.unit.vpn.test_faults_plugins import GW1, GW2, NODE

campaign = importlib.import_module("tests.campaign.__main__")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_hundred_cases() -> None:
    root = Path(__file__).resolve().parents[3]
    argv = [sys.executable, "-m", "tests.campaign", "--seed", "20", "--cases", "100", "--only", "commands"]
    done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(600)
def test_a_few_hostile_fields_of_run_folders() -> None:
    argv = [sys.executable, "-m", "tests.campaign", "--seed", "7", "--cases", "40", "--only", "fields"]
    done = subprocess.run(argv, cwd=Path(__file__).resolve().parents[3], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 10 cases, 0 failed" in done.stdout


def test_every_kind_of_field_is_spoiled(tmp_path: Path) -> None:
    prepare_fields(tmp_path)
    data = json.loads((tmp_path / "quick" / "run.json").read_text())
    ways = [*fields(data)]
    kinds = {kind_of(way) for way in ways}
    assert {"lab.path.mtu_bytes", "image.packages.KEY", "vpns.KEY", "invocations.[].command_line.[]", "seed"} <= kinds
    spoiled = json.loads(json.dumps(data))
    put(spoiled, ("lab", "path", "mtu_bytes"), "x")
    put(spoiled, ("vpns", "openvpn", None), "x/evil.py")
    assert spoiled["lab"]["path"]["mtu_bytes"] == "x"
    assert spoiled["vpns"].keys() - data["vpns"].keys() == {"x/evil.py"}


def test_a_line_of_code_in_a_page_is_seen() -> None:
    assert hostile(f"    {OWNED}  ")
    assert hostile(f"mtu=1400; {OWNED} # of the path")
    assert hostile("<td><img src=x onerror=alert(1)></td>")
    assert not hostile(f"a text that has {OWNED} in it")
    assert not hostile("&lt;img src=x&gt;")


def test_a_command_may_end_with_the_codes_that_the_page_of_commands_has() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/commands.md").read_text()
    table = page.partition("## Exit codes")[2].partition("\n## ")[0]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)] == [*CODES]


def test_the_misbehaving_plugin_is_the_one_that_is_played(tmp_path: Path) -> None:
    played, refused = set[str](), 0
    for number in range(200):
        body = misbehaviour(random.Random(number)).replace("while True: pass", "pass")
        file = tmp_path / f"worse{number}.py"  # one each: Python knows what it has compiled by its second and length
        file.write_text(worse(body))
        what = next((name for name in METHODS if f"def {name}(" in body), body.split()[0])
        try:
            own = vars(type(load_vpn(str(file))))
        except UsageError:
            refused += 1
        else:
            assert what in own, body
        played.add(what)
    assert played > {*METHODS}
    assert 10 < refused < 150
    file = tmp_path / "is_up.py"
    file.write_text(worse("    def is_up(self, *args):\n        raise KeyError('of Worse')\n"))
    with pytest.raises(PluginError, match="KeyError: 'of Worse'"):
        load_vpn(str(file)).is_up(NODE, GW1, [GW2])


def test_no_key_is_told_before_anybody_can_know_it() -> None:
    bodies = [misbehaviour(random.Random(number)) for number in range(500)]
    early = [body for body in bodies if any(f"def {name}(" in body for name in ("__init__", "supports", "secrets"))]
    assert "no key" in "".join(early)
    assert "KEYS" not in "".join(early)
    assert "KEYS" in "".join(bodies)
    assert ENDLESS in "".join(bodies)


def test_who_is_not_to_be_blamed_for_what_was_killed() -> None:
    assert is_instrument(["iperf3", "--server", "--port", "5201", ""])
    assert is_instrument(["python3", "-IS", "/run/vpneval/answer.py", "2222"])
    assert is_instrument(["python3", "-IS", "-", '{"name": "gw1"}'])
    assert not is_instrument(["openvpn", "--config", "/etc/openvpn/gw1.conf"])
    failed = trial("t").model_copy(update={"vpn": "openvpn", "status": "failed", "reason": "no payload"})
    assert blamed([failed], {"none", "openvpn"}) == ["openvpn is blamed: no payload"]
    assert not blamed([failed], {"none"})
    assert not blamed([failed.model_copy(update={"status": "lab_error"})], {"none", "openvpn"})


class Interrupted(CommandCase):
    """A command that is interrupted at once, before or behind its first line; its like may end whoever plays it."""

    def _child(self, scratch: Path, folder: Path) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # as if Ctrl-C came between fork(2) and the first line
        super()._child(scratch, folder)


def test_a_command_that_is_interrupted_before_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    case = Interrupted(1, 1, tmp_path / "base")
    case.argv, case.mutations, case.lies, case.odd = ["list", "metrics"], 0, False, False
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    began = os.getpid()
    assert case._process(scratch, tmp_path / "base") == (130, "", "")
    assert os.getpid() == began
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()), "and Ctrl-C is heard again here"


def ends_its_player(seed: int, base: Path, number: int) -> tuple[str, list[str], float]:
    """In the place of ``play``."""
    if number == 3:
        os._exit(9)
    return f"case {number}", [], 0.0


def test_a_case_that_ends_who_plays_it_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(campaign, "play", ends_its_player)
    monkeypatch.setattr(campaign, "without_other_labs", lambda: None)
    found = list(campaign.outcomes(1, tmp_path, range(8)))
    assert len(found) == 8
    assert 1 <= len([said for said, wrong, _ in found if wrong]) <= 8
    assert found[-1][0] == "case 7"


def test_a_case_with_a_fault_of_the_campaign_s_own_has_failed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = dict[str, str]()
    monkeypatch.setattr(CommandCase, "run", lambda self: known["nothing"])
    _, wrong, _ = campaign.play(1, tmp_path, 2)
    assert "KeyError: 'nothing'" in wrong[0]


def test_a_process_number_that_another_process_has_now_is_nobody_s_that_is_left() -> None:
    seen = Processes()
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        seen.add({sleeper.pid, os.getpid()})
        assert seen.left() == {sleeper.pid, os.getpid()}
        began = start_time(os.getpid())
        assert began is not None
        seen._began[os.getpid()] = began - 1  # as if the number had been another's
        assert seen.left() == {sleeper.pid}
        sleeper.kill()
    assert seen.left() == set()
    seen.add({os.getpid()})
    assert seen.left() == {os.getpid()}


def test_a_folder_that_lies_lies_everywhere(tmp_path: Path) -> None:
    names = names_of(tmp_path / "outside", tmp_path / "OWNED")
    told = []
    for number in range(60):
        folder = tmp_path / str(number)
        shutil.copytree(EXAMPLE, folder / "a", ignore=shutil.ignore_patterns("logs", "report*"))
        before = state(folder)
        told.append(lie(random.Random(number), folder, names))
        assert (told[-1] == "nothing") or state(folder) != before
    for what in ("run.json line", "trials.jsonl line", "slices.jsonl line", ".block", "everywhere", "(its name)"):
        assert any(what in one for one in told), what


def without(rows: list[str], number: int) -> list[str]:
    return [*rows[:number], *rows[number + 1 :]]


@pytest.mark.parametrize(
    ("change", "goes_on", "said"),
    [
        (lambda found: found, False, "^$"),
        (lambda found: found, True, "^$"),
        (
            lambda found: [*found[:700], *found[699:]],
            False,
            r"^(\S+): slices \[1, .*; \1: \w+ is not what its slices say",
        ),
        (lambda found: without(found, 700), False, r"^(\S+): slices \[1, .*; \1: \w+ is not what its slices say"),
        (lambda found: without(found, 700), True, "rows of slices.jsonl have changed"),
        (lambda found: found[:-1], False, "is not what its slices say"),
        (
            lambda found: [*found, found[0].replace('"trial":"', '"trial":"x')],
            False,
            r"slices of x\S+, which has no line",
        ),
        (lambda found: [*found, *found], True, "was measured again"),
    ],
)
def test_slices_that_are_lost_or_doubled_are_found(
    tmp_path: Path, change: Callable[[list[str]], list[str]], goes_on: bool, said: str
) -> None:
    """In a whole run; ``goes_on``: all of it was there before the last call."""
    shutil.copytree(EXAMPLE, folder := tmp_path / "run")
    before, done = (rows(folder), {trial.id for trial in load_run(folder)[1]}) if goes_on else ([], set())
    (folder / "slices.jsonl").write_text("\n".join(change(rows(folder))) + "\n")
    assert re.search(said, "; ".join(wrong_slices(folder, before, done)))
