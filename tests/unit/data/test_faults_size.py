"""Files of a run folder that are larger than any run makes them, with holes in them (lseek(2)): told, and not read into
memory. And a folder that cannot be written any more."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.data import files
from runner.data.errors import LabError, UsageError
from runner.data.files import cut_torn, lines_of
from runner.data.store import Store, load_run, open_store, read_slices
from runner.data.trials import Run
from runner.sweep.run import on_disk
from tests.unit.on_paper import Paper, on_paper

TERABYTE = 1 << 40
RUN = Run(
    vpneval_version="0", run_id="test", created_at="2026-01-01T00:00:00+00:00", profile="quick", seed=1, repetitions=3
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with open_store(tmp_path / "run") as store:
        store.save_run(RUN)
    for name in ("trials.jsonl", "slices.jsonl"):
        (tmp_path / "run" / name).touch()
    return tmp_path / "run"


@pytest.fixture
def little_memory() -> Iterator[None]:
    """As much more memory as a run folder may need."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", ["trials.jsonl", "slices.jsonl", "run.json"])
def test_a_sparse_terabyte_is_told(folder: Path, name: str, little_memory: None) -> None:
    try:
        os.truncate(folder / name, TERABYTE)
    except OSError as error:
        pytest.skip(f"no sparse terabyte here: {error.strerror}")
    with pytest.raises(UsageError, match=name):
        read_slices(folder) if name == "slices.jsonl" else load_run(folder)


def test_a_torn_last_line_is_cut_off_however_long_it_is(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    long = b"x" * files.CHUNK * 3
    for head, torn in ((b"a\n", b"half"), (b"", b"half"), (b"a\nb\n", b""), (b"a\n", long), (b"", b"")):
        path.write_bytes(head + torn)
        cut_torn(path)
        assert path.read_bytes() == head


def test_lines_are_read_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lines").write_bytes(b"abc\nde\nf")
    assert list(lines_of(tmp_path / "lines")) == [b"abc\n", b"de\n", b"f"]
    monkeypatch.setattr(files, "MOST_BYTES", 3)
    with pytest.raises(UsageError, match="line 1: it is longer than 3 bytes"):
        list(lines_of(tmp_path / "lines"))


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOSPC])
def test_a_folder_that_cannot_be_written_any_more_stops_the_run_with_a_way_on(folder: Path, number: int) -> None:
    """At its end, too, when its run.json is written."""
    error = OSError(number, os.strerror(number), str(folder / "run.json.partial"))
    with pytest.raises(LabError, match="To continue: the same command with --out") as told, on_disk(Store(folder)):
        raise error
    assert told.value.exit_code == 4
    with pytest.raises(OSError, match="elsewhere"), on_disk(Store(folder)):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), "/elsewhere")


def test_in_the_middle_no_vpn_is_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(bench: Paper) -> None:
        def refuse(store: Store, name: str, lines: bytes) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(store.folder / name))

        monkeypatch.setattr(Store, "_append", refuse)
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path / "run/logs"))

    with on_paper(tmp_path / "run", monkeypatch) as run:
        run.world.wrong[("openvpn", 3)] = read_only
        assert "cannot be written any more (Read-only file system): make it writable" in run().stopped
        assert "failed" not in {trial.status for trial in load_run(run.folder)[1]}
