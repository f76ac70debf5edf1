"""The folder of a lab's connections: a killed runner's goes with the next run, a living one's stays."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runner.data.files import hold_lock
from runner.lab.places import private
from runner.lab.places.private import YOUNG_S, private_folder

KILLED = """
import os, signal, tempfile
tempfile.tempdir = os.environ["HERE"]
from runner.lab.places.private import private_folder
with private_folder() as folder:
    (folder / "gw1.log").write_text("a connection's words")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with TemporaryDirectory(prefix="private-", dir="/tmp") as name:  # short enough for a socket, which pytest's is not
        monkeypatch.setattr(private, "gettempdir", lambda: name)
        yield Path(name)


@pytest.mark.parametrize("name", ["x" * 90, "a b", "%h", 'a"b', "ä", "a\nb"])
def test_a_tmpdir_that_ssh_could_not_read_is_passed_by(name: str, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / name).mkdir()
    monkeypatch.setattr(private, "gettempdir", lambda: str(here / name))
    with private_folder() as folder:
        assert folder.parent == Path("/tmp")


def age(folder: Path) -> None:
    then = folder.stat().st_mtime - 2 * YOUNG_S
    os.utime(folder, (then, then))


def test_it_is_private_and_goes_at_the_end(here: Path) -> None:
    with private_folder() as folder:
        assert folder.parent == here
        assert folder.stat().st_mode & 0o777 == 0o700
    assert not list(here.iterdir())


def test_what_a_killed_runner_left_goes_with_the_next_run(here: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED], env=os.environ | {"HERE": str(here)}, check=False)
    assert done.returncode == -9
    (left,) = here.iterdir()
    with private_folder():
        assert left.exists(), "it may be a runner's that has only just begun"
    age(left)
    with private_folder():
        assert not left.exists()


def test_a_living_runners_stays_and_a_link_is_not_followed(here: Path) -> None:
    elsewhere = here / "elsewhere"
    elsewhere.mkdir()
    (here / f"{private.PREFIX}link").symlink_to(elsewhere)
    age(elsewhere)
    with private_folder() as first:
        age(first)
        with private_folder() as second:
            assert first.exists()
            assert first != second
    assert elsewhere.exists()


def test_a_runner_that_is_looked_at_while_it_begins_keeps_its_folder(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second runner has the lock of the first one's folder for a moment; a third one comes later."""
    looking: list[int] = []
    open_folder = os.open

    def looked_at(name: str, flags: int) -> int:
        if not looking:
            looking.append(open_folder(name, flags))
            assert hold_lock(looking[0], name, wait=False)
            threading.Timer(0.3, os.close, looking).start()
        return open_folder(name, flags)

    monkeypatch.setattr(os, "open", looked_at)
    with private_folder() as first:
        monkeypatch.setattr(os, "open", open_folder)
        age(first)
        with private_folder():
            assert first.exists()


def test_a_young_folder_is_not_even_locked(here: Path) -> None:
    young = here / f"{private.PREFIX}young"
    young.mkdir()
    locked: list[bool] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(private, "hold_lock", lambda *_, **__: locked.append(True))
        private._remove_abandoned(young)
        assert not locked
        age(young)
        private._remove_abandoned(young)
        assert locked, "the control"
