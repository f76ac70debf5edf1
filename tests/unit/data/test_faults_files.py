"""Files that are not what they should be: every reader says what is wrong, where, and what is valid; none waits."""

import os
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.choice.stated import state_needs
from runner.cli.main import main
from runner.data.errors import UsageError
from runner.data.options import NeedsOptions
from runner.data.parent import indexed_runs
from runner.data.store import load_run, open_store
from runner.lab.places.inventory import read_inventory
from runner.lab.places.labfile import read_lab_file
from runner.ranking.weights import parse_weights
from tests.unit.data.test_store import RUN, trial
from tests.unit.synthetic import METRICS

pytestmark = pytest.mark.timeout(30)  # nothing waits for somebody to write into a FIFO
FILES = ("run.json", "trials.jsonl", "slices.jsonl")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
        store.append(trial("a").model_copy(update={"status": "interrupted"}))  # so that its slices are asked for
    (tmp_path / "run" / "slices.jsonl").touch()
    return tmp_path / "run"


def a_socket(path: Path) -> None:
    os.chdir(path.parent)  # an address of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)


@contextmanager
def nobody() -> Iterator[None]:
    """Without root, whom every file lets in."""
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(was)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(("make", "what"), [(os.mkfifo, "a FIFO"), (os.mkdir, "a folder"), (a_socket, "")])
def test_a_run_folder_with_something_else_in_place_of_a_file(
    folder: Path, name: str, make: Callable[[Path], None], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / name).unlink()
    make(folder / name)
    with pytest.raises(UsageError, match=f"{name} (is {what}|cannot be read)"):
        load_run(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_the_user_may_not_read(folder: Path, name: str) -> None:
    for path in folder.parents:
        if not path.stat().st_mode & stat.S_IXOTH:
            path.chmod(0o755)
    (folder / name).chmod(0)
    with nobody(), pytest.raises(UsageError, match=f"{name} cannot be read: Permission denied; read it as its owner"):
        load_run(folder)


def test_a_folder_that_the_user_may_not_enter(folder: Path) -> None:
    folder.chmod(0)
    with nobody(), pytest.raises(UsageError, match="cannot be read: Permission denied; read it as its owner"):
        load_run(folder)


def test_an_index_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "index.json").mkdir()
    with pytest.raises(UsageError, match=r"index.json is a folder"):
        indexed_runs(tmp_path)
    (tmp_path / "index.json").rmdir()
    for text in ('{"runs": 3}', '{"runs": [{"kernel": "uml", "folder": 3}]}', "[" * 100_000, "\xff", "[]"):
        (tmp_path / "index.json").write_text(text, "latin-1")
        with pytest.raises(UsageError, match="is not an index of runs"):
            indexed_runs(tmp_path)


def test_a_path_of_100_000_characters() -> None:
    with pytest.raises(UsageError, match="File name too long; 255 bytes a name and 4096 a path are the most") as told:
        load_run(Path("a" * 100_000))
    assert len(str(told.value)) < 500
    with pytest.raises(UsageError, match="is not a valid file name"):
        load_run(Path("a\0b"))


NESTED = 100_000


def test_what_is_nested_too_deep(folder: Path, tmp_path: Path) -> None:
    deep = "[" * NESTED
    for name, text in (("w.json", deep), ("w.toml", "rtt = " + deep[:3000])):
        (tmp_path / name).write_text(text)
        with pytest.raises(UsageError, match="nested too deep"):
            parse_weights(str(tmp_path / name), METRICS)
    with pytest.raises(UsageError, match="is not TOML: it is nested too deep"):
        read_inventory(tmp_path / "w.toml")
    (tmp_path / "lab.yml").write_text("nodes: " + "[" * 2000)
    with pytest.raises(UsageError, match=r"lab.yml"):
        read_lab_file(tmp_path / "lab.yml")
    for name in ("run.json", "trials.jsonl"):
        before = (folder / name).read_text()
        for text in (deep, '{"schema_version":1,"a":' + deep, '{"schema_version":1,"lab":' + deep):
            (folder / name).write_text(text + "\n")
            with pytest.raises(UsageError, match=name):
                load_run(folder)
        (folder / name).write_text(before)


def test_trials_without_their_run_are_not_mixed_with_new_ones(folder: Path) -> None:
    (folder / "run.json").unlink()
    with (
        pytest.raises(UsageError, match=r"has trials but no run.json, which says how they were measured"),
        open_store(folder),
    ):
        pass
    (folder / "trials.jsonl").write_bytes(b"")
    with open_store(folder) as store:
        assert store.trials == []


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.mark.parametrize("name", FILES)
def test_what_git_lfs_left_in_a_files_place(folder: Path, name: str) -> None:
    (folder / name).write_text(POINTER)
    with pytest.raises(UsageError, match=f"{name} is a pointer of Git LFS, not the file itself. Get it with: git lfs"):
        load_run(folder)
    (folder / "w.toml").write_text(POINTER)
    with pytest.raises(UsageError, match="is a pointer of Git LFS"):
        parse_weights(str(folder / "w.toml"), METRICS)


def test_what_windows_has_saved_begins_with_a_byte_order_mark(tmp_path: Path) -> None:
    weights, needs, lab, machines = (tmp_path / name for name in ("w.toml", "n.toml", "lab.yml", "machines.toml"))
    for path, text in ((weights, "rtt = 2"), (needs, 'line = "100M"'), (lab, "nodes: 3"), (machines, "[gw1]\nlan = 3")):
        path.write_text(text, encoding="utf-8-sig")
    assert parse_weights(str(weights), METRICS).values["rtt"] == 2
    assert state_needs(NeedsOptions(needs=needs)).line_bps == 100e6
    with pytest.raises(UsageError, match=r"lab.yml:1: nodes"):  # not: unknown key '\ufeffnodes'
        read_lab_file(lab)
    with pytest.raises(UsageError, match=r"machines.toml:2: \[gw1\] lan: Input should be a valid string"):
        read_inventory(machines)


def test_the_command_says_it_in_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trials.jsonl").unlink()
    os.mkfifo(folder / "trials.jsonl")
    with pytest.raises(SystemExit, match="2"):
        main(["report", str(folder)])
    assert "trials.jsonl is a FIFO; a file is needed here" in " ".join(capsys.readouterr().err.split())
