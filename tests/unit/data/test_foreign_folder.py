"""A run folder that somebody sent is data: its notes and indices reach no other file, its fields are what they are, and
a bit that has changed is found."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from runner.cli.folders import one_run
from runner.data.checksum import LENGTH, check_line, has_checksum, with_checksum, without_checksum
from runner.data.errors import UsageError
from runner.data.irregular import load_told
from runner.data.parent import add_to_index, indexed_runs
from runner.data.store import load_run, open_store, read_slices, read_trials
from runner.data.trials import Invocation, Run, Slice, Trial
from tests.unit.data.test_store import EXAMPLE, RUN, trial

SAMPLE = 400  # lines of the example


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with three trials and two slices."""
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
        for name in "abc":
            store.append(trial(name))
        store.append_slices([Slice(trial="a", number=n, at_s=n, duration_s=0.5, values={"rtt": 1.5}) for n in (1, 2)])
    return tmp_path / "run"


@pytest.mark.parametrize(
    "note",
    [
        {"../victim": 0},
        {"VICTIM": 0},
        {"run.json": 0},
        {"logs/../../victim": 0},
        {"trials.jsonl": -1},
        {"trials.jsonl": "0"},
        {"trials.jsonl": True},
        {"trials.jsonl": 1.5},
        {"trials.jsonl": None},
        ["trials.jsonl"],
        7,
    ],
)
def test_a_note_on_a_block_cuts_no_other_file(folder: Path, note: Any) -> None:
    victim = folder.parent / "victim"
    victim.write_text("whole")
    text = json.dumps(note).replace("VICTIM", str(victim))
    before = (folder / "run.json").read_bytes(), (folder / "trials.jsonl").read_bytes()
    (folder / ".block").write_text(text)
    with (
        pytest.raises(UsageError, match=r"\.block is not what vpneval writes there.*remove that file"),
        open_store(folder),
    ):
        pass
    assert victim.read_text() == "whole"
    assert ((folder / "run.json").read_bytes(), (folder / "trials.jsonl").read_bytes()) == before


def test_a_note_on_a_block_lengthens_no_file_and_follows_no_link(folder: Path) -> None:
    size = (folder / "trials.jsonl").stat().st_size
    (folder / ".block").write_text(json.dumps({"trials.jsonl": size + 10**12, "slices.jsonl": 0}))
    with open_store(folder):
        pass
    assert (folder / "trials.jsonl").stat().st_size == size
    assert (folder / "slices.jsonl").stat().st_size == 0, "the control: what was added after the note is cut off"
    victim = folder.parent / "victim"
    victim.write_text("whole")
    (folder / "slices.jsonl").unlink()
    (folder / "slices.jsonl").symlink_to(victim)
    (folder / ".block").write_text(json.dumps({"slices.jsonl": 0}))
    with pytest.raises(UsageError, match="symbolic link"), open_store(folder):
        pass
    assert victim.read_text() == "whole"


@pytest.mark.parametrize("name", ["../elsewhere", "/etc", "..", ".", "", "a/b", "a\nb", 7, None])
def test_an_index_leads_nowhere_but_to_what_lies_beside_it(tmp_path: Path, folder: Path, name: Any) -> None:
    parent = tmp_path / "parent"
    parent.mkdir()
    add_to_index(parent, "host", "complete")
    folder.rename(parent / "host")
    assert indexed_runs(parent) == [parent / "host"] == [one_run(parent)]
    (parent / "index.json").write_text(json.dumps({"schema_version": 1, "runs": [{"kernel": "x", "folder": name}]}))
    with pytest.raises(UsageError, match=r"index\.json is not an index of runs"):
        indexed_runs(parent)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vpn", "x/evil.py"),
        ("vpn", "-oProxyCommand=x"),
        ("vpn", "a\nb"),
        ("experiments", ["../x"]),
        ("id", "../../x"),
        ("repetition", "1"),
        ("repetition", -1),
        ("repetition", True),
        ("repetition", 1.5),
        ("repetition", 10**30),
        ("params", {"cipher": "$(id)"}),
        ("params", {"cipher": "a`id`"}),
        ("params", {"x y": "a"}),
        ("log", "/etc"),
        ("log", "logs/../../x"),
        ("started_at", "<b>"),
        ("duration_s", float("inf")),
        ("duration_s", 1e200),
        ("duration_s", "1"),
        ("encrypted", "yes"),
        ("attempt", {"trials": [{"rate": float("nan")}]}),
        ("attempt", {"rate": 10**400}),
        ("reason", "x" * 2_000_000),
        ("machine", "a\u2028b"),
    ],
)
def test_a_field_of_a_trial_that_is_not_of_its_kind_is_refused_with_its_name(
    folder: Path, field: str, value: Any
) -> None:
    line = json.loads(trial("d").model_dump_json())
    Trial.model_validate_json(json.dumps(line), strict=True)
    (folder / "trials.jsonl").write_text(json.dumps(line | {field: value}) + "\n")
    with pytest.raises(UsageError, match=rf"trials\.jsonl, line 1: .*{field}") as refused:
        load_run(folder)
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lab", {"path": {"mtu_bytes": "1400; id >OWNED #"}}),
        ("lab", {"path": {"mtu_bytes": 10**9}}),
        ("lab", {"path": {"answers_pings": "no"}}),
        ("lab", {"cores": [2]}),
        ("lab", {"uplink": "a\nb"}),
        ("lab", {"wan_ip_version": "4"}),
        ("lab", {"anything": float("inf")}),
        ("lab", {"anything": {"deep": ["one", "```\nid"]}}),
        ("lab", {"a key\nof two lines": 1}),
        ("lab", {"path": {"anything": "a\u2028b"}}),
        ("image", {"anything": "a\x1b[2J"}),
        ("image", {"packages": {"openvpn": "2.6\n```\nid\n```"}}),
        ("image", {"packages": {"a b": "1"}}),
        ("image", {"name": "../x"}),
        ("run_id", "../../x"),
        ("vpneval_version", "<script>"),
        ("repetitions", 10**15),
        ("vpns", {"x/evil.py": {}}),
        ("created_at", "now`id`"),
        ("commit", "$(id)"),
        ("profile", "a/b"),
    ],
)
def test_a_field_of_a_run_that_is_not_of_its_kind_is_refused_with_its_name(
    folder: Path, field: str, value: Any
) -> None:
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(run | {field: value}))
    with pytest.raises(UsageError, match=rf"run\.json: {field}"):
        load_run(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("round", "9" * 5000),
        ("round", "-1"),
        ("number", "1e400"),
        ("trial", json.dumps("a-r\x1b[2J1")),
        ("trial", json.dumps("../a")),
        ("duration_s", '"$(id)"'),
        ("values", '{"rtt": NaN}'),
    ],
)
def test_a_slice_that_is_not_of_its_kind_is_refused(folder: Path, field: str, value: str) -> None:
    """A report reads them, too, to find what is missing in trials.jsonl."""
    call = Invocation(command_line=[], started_at="", outcome="complete")
    run = load_run(folder)[0].model_copy(update={"invocations": [call]})
    (folder / "run.json").write_text(run.model_dump_json())
    row = {"trial": '"a"', "number": "3", "round": "1", "at_s": "0", "duration_s": "1", "values": "{}"} | {field: value}
    with (folder / "slices.jsonl").open("a") as file:
        file.write("{" + ",".join(f'"{name}":{text}' for name, text in row.items()) + "}\n")
    with pytest.raises(UsageError, match=r"slices\.jsonl, line 3"):
        load_told(folder)


def test_every_bit_of_a_line_that_flips_is_found(folder: Path) -> None:
    path = folder / "trials.jsonl"
    whole = path.read_bytes()
    begin = whole.index(b"\n") + 1
    for at in range(8 * begin, 8 * (whole.index(b"\n", begin) + 1)):
        flipped = bytearray(whole)
        flipped[at // 8] ^= 1 << at % 8
        path.write_bytes(flipped)
        with pytest.raises(UsageError, match=r"trials\.jsonl, line 2: "):
            read_trials(path)
    path.write_bytes(whole)
    assert [one.id for one in read_trials(path)] == ["a", "b", "c"], "the control"


def test_a_number_that_has_changed_is_told_with_what_to_do(folder: Path) -> None:
    path = folder / "slices.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"rtt":1.5', b'"rtt":1.4', 1))
    with pytest.raises(UsageError, match=r"line 1: it is not as it was written: .*sed -i 1d \S+slices\.jsonl.* --out "):
        read_slices(folder)
    run = json.loads((folder / "run.json").read_text())
    call = {"command_line": [], "started_at": "", "outcome": "complete"}
    (folder / "run.json").write_text(json.dumps(run | {"invocations": [call]}))
    with pytest.raises(UsageError, match="line 1: it is not as it was written"):
        load_told(folder)


def test_lines_of_older_runs_have_no_checksum_and_are_read(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE, folder := tmp_path / "run", ignore=shutil.ignore_patterns("logs"))
    path = folder / "trials.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    older = [line for line in lines if not has_checksum(line)] or [check_line(line).rstrip() + b"\n" for line in lines]
    path.write_bytes(b"".join(older))
    before = load_run(folder)
    with open_store(folder) as store:
        store.append(trial("new"))
    assert without_checksum(path) == (len(older), len(older) + 1)
    run, trials = load_run(folder)
    assert (run, trials[:-1]) == before
    assert trials[-1] == trial("new")


def test_a_line_with_a_checksum_is_json_that_says_the_same() -> None:
    text = trial("a").model_dump_json()
    line = with_checksum(text)
    found = json.loads(line)
    assert re.fullmatch("[0-9a-f]{8}", found.pop("crc32"))
    assert found == json.loads(text)
    assert check_line(line) == text.encode()
    assert len(line) == len(text) + LENGTH - 1
    with pytest.raises(ValidationError, match="crc32"):  # where another program has written the line anew
        Trial.model_validate_json(json.dumps(json.loads(line)))


def test_a_line_that_another_program_wrote_anew_is_told(folder: Path) -> None:
    path = folder / "trials.jsonl"
    path.write_text("".join(json.dumps(json.loads(line)) + "\n" for line in path.read_text().splitlines()))
    with pytest.raises(UsageError, match=r"line 1: another program has written it.*take crc32 out"):
        read_trials(path)


def test_all_that_is_shipped_is_of_its_kinds() -> None:
    results = Path(__file__).parents[3] / "results"
    read = 0
    for path in sorted(results.rglob("run.json")):
        Run.model_validate_json(path.read_bytes(), strict=True)
        for line in (path.parent / "trials.jsonl").read_bytes().splitlines(keepends=True)[:SAMPLE]:
            Trial.model_validate_json(check_line(line), strict=True)
            read += 1
    assert read > SAMPLE
