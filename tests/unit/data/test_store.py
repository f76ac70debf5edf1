"""The run folder: what was appended is there after anything that can happen to it."""

import errno
import json
import os
import re
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.data.errors import UsageError
from runner.data.store import Store, load_run, open_store, read_slices, read_trials
from runner.data.trials import SCHEMA_VERSION, Run, Trial

EXAMPLE = next((Path(__file__).parents[3] / "results" / "examples").glob("*/run.json")).parent
RUN = Run(
    vpneval_version="0",
    run_id="test",
    created_at="2026-01-01T00:00:00+00:00",
    profile="quick",
    seed=1,
    repetitions=3,
)


def trial(name: str, reason: str = "") -> Trial:
    return Trial(
        id=name,
        vpn="none",
        params={"measure": "tcp"},
        repetition=1,
        status="ok",
        reason=reason,
        started_at="2026-01-01T00:00:00.000+00:00",
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run folder with two trials."""
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
        store.append(trial("a"))
        store.append(trial("b"))
    return tmp_path / "run"


def names(folder: Path) -> list[str]:
    return [found.id for found in load_run(folder)[1]]


def test_round_trip(folder: Path) -> None:
    run, trials = load_run(folder)
    assert run == RUN
    assert trials == [trial("a"), trial("b")]
    assert (folder / "trials.jsonl").read_bytes().count(b"\n") == 2


def test_a_second_call_goes_on(folder: Path) -> None:
    with open_store(folder) as store:
        assert [found.id for found in store.trials] == ["a", "b"]
        store.append(trial("c"))
        assert [found.id for found in store.trials] == ["a", "b", "c"]
    assert names(folder) == ["a", "b", "c"]


def test_each_line_is_on_the_disk_when_append_returns(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk = []
    monkeypatch.setattr(os, "fsync", lambda fd: on_disk.append(os.fstat(fd).st_size))
    with open_store(folder) as store:
        store.append(trial("c"))
    assert on_disk == [(folder / "trials.jsonl").stat().st_size]


def test_a_trial_measured_again_counts_once_and_last(folder: Path) -> None:
    with open_store(folder) as store:
        store.append(trial("a", "again"))
    assert names(folder) == ["b", "a"]
    assert load_run(folder)[1][-1].reason == "again"


def tear(folder: Path, text: str = '{"schema_version":1,"id":"c","vp') -> None:
    with (folder / "trials.jsonl").open("a") as file:
        file.write(text)


def test_a_torn_last_line_is_ignored_by_a_reader(folder: Path) -> None:
    tear(folder)
    before = (folder / "trials.jsonl").read_bytes()
    assert names(folder) == ["a", "b"]
    assert (folder / "trials.jsonl").read_bytes() == before


def test_a_torn_last_line_is_repaired_by_the_next_writer(folder: Path) -> None:
    tear(folder)
    with open_store(folder) as store:
        store.append(trial("c"))
    assert names(folder) == ["a", "b", "c"]


def test_a_torn_only_line_is_repaired(tmp_path: Path) -> None:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
    tear(tmp_path / "run")
    with open_store(tmp_path / "run") as store:
        assert store.trials == []
    assert (tmp_path / "run" / "trials.jsonl").read_bytes() == b""


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("not json", "Invalid JSON"),
        ("", "Invalid JSON"),
        ('{"id": "x"}', "vpn: Field required"),
        (trial("x").model_dump_json()[:-1] + ',"colour":"red"}', "colour: Extra inputs are not permitted"),
        (trial("x").model_dump_json().replace('"ok"', '"fine"'), "status: Input should be"),
    ],
)
def test_a_broken_line_in_the_middle_is_named(folder: Path, broken: str, said: str) -> None:
    path = folder / "trials.jsonl"
    first, second, _ = path.read_text().split("\n")
    path.write_text(f"{first}\n{broken}\n{second}\n")
    with pytest.raises(UsageError) as error:
        load_run(folder)
    assert f"{path}, line 2: " in str(error.value)
    assert said in str(error.value)


def edit_run(folder: Path, **fields: object) -> None:
    path = folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_another_schema_version(folder: Path) -> None:
    edit_run(folder, schema_version=99)
    with pytest.raises(UsageError, match=rf"run\.json has schema version 99; this vpneval reads {SCHEMA_VERSION}"):
        load_run(folder)


def test_another_schema_version_is_said_before_what_it_brings(folder: Path) -> None:
    edit_run(folder, schema_version=3, weather="fine")
    with pytest.raises(UsageError, match=r"has schema version 3; .* read it with the vpneval that made it, or a newer"):
        load_run(folder)
    edit_run(folder, schema_version=0)
    with pytest.raises(UsageError, match=r"has schema version 0; .* measure it again"):
        load_run(folder)


@pytest.mark.parametrize("more", [{}, {"weather": "fine"}])
def test_a_trial_of_another_schema_version(folder: Path, more: dict[str, str]) -> None:
    line = json.loads(trial("x").model_dump_json()) | {"schema_version": 3} | more
    tear(folder, json.dumps(line) + "\n")
    with pytest.raises(UsageError, match=r"trials\.jsonl, line 3 has schema version 3; this vpneval reads 2"):
        load_run(folder)


def test_an_unknown_field_in_run_json(folder: Path) -> None:
    edit_run(folder, weather="fine")
    with pytest.raises(UsageError, match=r"run\.json: weather: Extra inputs"):
        load_run(folder)


def test_what_is_not_a_run_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no run\.json"):
        load_run(tmp_path)
    with pytest.raises(UsageError, match="absent is not a run folder: it is not there"):
        load_run(tmp_path / "absent")


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match="neither empty nor a run folder"), open_store(tmp_path):
        pass
    assert os.listdir(tmp_path) == ["thesis.tex"]
    with pytest.raises(UsageError, match="is a file"), open_store(tmp_path / "thesis.tex"):
        pass


@pytest.mark.parametrize("where", ["/proc/run", "{}/file/run"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="run"), open_store(Path(where.format(tmp_path))):
        pass


def test_a_folder_in_use(folder: Path) -> None:
    with open_store(folder):
        with pytest.raises(UsageError, match="another vpneval is writing to"), open_store(folder):
            pass
        assert names(folder) == ["a", "b"]  # reading is free
    with open_store(folder) as store:
        assert len(store.trials) == 2


def test_log_folders_are_fresh(folder: Path) -> None:
    with open_store(folder) as store:
        assert [store.logs("r1-none").name for _ in range(3)] == ["r1-none", "r1-none-2", "r1-none-3"]


# --- a full disk ---------------------------------------------------------------------------------------------


def full(fd: int) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_line_that_never_reached_the_disk_is_taken_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (folder / "trials.jsonl").read_bytes()
    with open_store(folder) as store:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.append(trial("c"))
        assert (folder / "trials.jsonl").read_bytes() == before
        assert [found.id for found in store.trials] == ["a", "b"]
        monkeypatch.undo()
        store.append(trial("d"))
    assert names(folder) == ["a", "b", "d"]


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_half_a_line_is_taken_back(folder: Path, share: float) -> None:
    path = folder / "trials.jsonl"
    before = path.read_bytes()
    line = len(trial("c").model_dump_json()) + 1
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(folder) as store:
        # A file size limit, as a disk that is full after part of the line (setrlimit(2)): the write is short.
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + int(share * line), hard))
        try:
            with pytest.raises(OSError, match=r"too large|space"):
                store.append(trial("c"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before


def test_run_json_is_replaced_in_one_step(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(folder) as store:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.save_run(RUN.model_copy(update={"seed": 2}))
        assert load_run(folder)[0] == RUN
        monkeypatch.undo()
        store.save_run(RUN.model_copy(update={"seed": 2}))
    assert load_run(folder)[0].seed == 2
    assert not (folder / "run.json.partial").exists()


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A file of the user's, outside of the run folder."""
    (tmp_path / "mine").write_text("mine")
    return tmp_path / "mine"


@pytest.mark.parametrize(
    "name",
    [
        *(".lock", "run.json", "run.json.partial", "trials.jsonl", "slices.jsonl", "packages.json"),
        *("packages.json.partial", "report.html", "report.md", "report.json", "report.csv", "logs"),
    ],
)
@pytest.mark.parametrize("dangling", [False, True])
def test_a_link_in_the_place_of_a_file_is_refused_and_its_target_left_alone(
    folder: Path, mine: Path, name: str, dangling: bool
) -> None:
    target = mine.with_name("nothing") if dangling else mine
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    refused = f"{name} is a symbolic link to {target}. vpneval does not write a run folder's files through links"
    with pytest.raises(UsageError, match=refused), open_store(folder):
        pass
    assert mine.read_text() == "mine"
    assert not mine.with_name("nothing").exists()


@pytest.mark.parametrize("name", ["trials.jsonl", "run.json", "run.json.partial", "logs"])
def test_a_link_that_comes_later_is_refused_too(tmp_path: Path, mine: Path, name: str) -> None:
    def write_all(store: Store) -> None:
        store.append(trial("a"))
        store.save_run(RUN)
        store.logs("r1-none")

    with open_store(tmp_path / "run") as store:
        (tmp_path / "run" / name).symlink_to(mine)
        with pytest.raises(UsageError, match=f"{name} is a symbolic link"):
            write_all(store)
    assert mine.read_text() == "mine"


def test_a_folder_may_be_reached_through_a_link(folder: Path) -> None:
    link = folder.with_name("link")
    link.symlink_to(folder)
    with open_store(link) as store:
        store.append(trial("c"))
    assert names(folder) == ["a", "b", "c"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["trials.jsonl", ".lock"])
def test_what_is_no_file_is_refused_at_once(folder: Path, make: Callable[[Path], None], name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    make(folder / name)
    before = (folder / name).lstat()
    with pytest.raises(UsageError, match=rf"{re.escape(name)} is not a file. Remove it"), open_store(folder):
        pass
    assert (folder / name).lstat() == before


@pytest.mark.parametrize("name", ["report.html", "report.md", "report.json", "report.csv"])
def test_a_report_does_not_take_the_place_of_a_link(folder: Path, mine: Path, name: str) -> None:
    from runner.report.forms.write import replace_file

    (folder / name).symlink_to(mine)
    with pytest.raises(UsageError, match=f"{name} is a symbolic link"):
        replace_file(folder / name, b"a report")
    assert mine.read_text() == "mine"
    assert (folder / name).is_symlink()


@pytest.mark.parametrize("name", ["index.json", "index.partial", "uml"])
def test_links_in_a_parent_folder_of_runs(tmp_path: Path, mine: Path, name: str) -> None:
    from runner.cli import several
    from runner.cli.options import Shown
    from runner.lab.kernels import Uml
    from tests.unit.asking import request

    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / name).symlink_to(mine)
    with pytest.raises(UsageError, match=f"{name} is a symbolic link"):
        several._one_of_several(Uml(), tmp_path / "runs", lambda: request("transport"), Shown())
    assert mine.read_text() == "mine"


def test_a_run_of_the_examples_size_keeps_its_data_in_five_megabytes(tmp_path: Path) -> None:
    """As today's version would write what it measured; logs and the report's pages are not data."""
    run, _ = load_run(EXAMPLE)
    with open_store(tmp_path) as store:
        store.save_run(run)
        rows = read_slices(EXAMPLE)
        store.append_block(read_trials(EXAMPLE / "trials.jsonl"), [one for of in rows.values() for one in of])
    names = ("run.json", "trials.jsonl", "slices.jsonl")
    sizes = {name: (tmp_path / name).stat().st_size for name in names}
    assert min(sizes.values()) > 50_000
    assert sum(sizes.values()) < 5_000_000, sizes
    assert sum((EXAMPLE / name).stat().st_size for name in names) < 5_000_000


def test_a_folder_that_is_being_removed_is_gone_at_any_moment(folder: Path) -> None:
    with open_store(folder) as store:
        (folder / "run.json.partial").symlink_to("nowhere")  # control: another trouble is told as what it is
        with pytest.raises(UsageError):
            store.save_run(RUN)
        (folder / "run.json.partial").unlink()
        beside = FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder.parent / "beside"))
        assert not store.removed_by(beside), "what lies elsewhere says nothing of this folder"
        for path in [*folder.iterdir()]:
            path.unlink()
        with pytest.raises(FileNotFoundError) as begun:
            (folder / "run.json.partial").rename(folder / "run.json")
        assert "somebody removed or moved it" in store.trouble(begun.value)
        folder.rmdir()
        with pytest.raises(FileNotFoundError) as done:
            store.save_run(RUN)
        assert "somebody removed or moved it" in store.trouble(done.value)
