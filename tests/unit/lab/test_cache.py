"""The cache is its owner's alone, and waiting for a lock is said."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from runner.data.cache import cache_dir, own_folder
from runner.data.files import await_lock, hold_lock, holder_of
from runner.lab.probes import receive
from runner.lab.software.image import open_image


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_folder_of_images_is_for_its_owner_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "cache"))
    assert mode(own_folder(cache_dir() / "layers")) == 0o700
    (tmp_path / "cache" / "images").mkdir(mode=0o755)
    with pytest.raises(Exception, match="not built yet"):
        open_image("trixie")
    assert mode(tmp_path / "cache" / "images") == 0o700, "also one of an older vpneval"


def test_the_images_that_are_sent_to_a_machine_are_for_its_owner_alone(tmp_path: Path) -> None:
    packed = subprocess.run(["tar", "-cf", "-", "-T", "/dev/null"], capture_output=True, check=True).stdout
    folder = tmp_path / "sent" / "image"
    argv = [sys.executable, "-IS", receive.__file__, str(folder)]
    subprocess.run(argv, input=packed, check=True, timeout=60, capture_output=True)
    assert mode(folder.parent) == 0o700
    assert mode(folder) == 0o755, "it is the root folder of a node"


def test_who_waits_for_a_lock_says_whose_it_is(tmp_path: Path) -> None:
    said: list[str] = []
    with (tmp_path / ".lock").open("w") as held, (tmp_path / ".lock").open("w") as waiting:
        await_lock(held, said.append)
        assert not said, "it was free"
        assert f"process {os.getpid()} (" in holder_of(held)
        waits = threading.Thread(target=await_lock, args=(waiting, said.append))
        waits.start()
        while not said:
            waits.join(0.01)
        assert not hold_lock(waiting, wait=False)
        held.close()
        waits.join(20)
        assert not waits.is_alive()
    assert f"vpneval waits for the lock {tmp_path}/.lock, which process {os.getpid()} (" in said[0]


def test_a_lock_whose_holder_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("1: FLOCK\nnonsense\n2: FLOCK ADVISORY WRITE x 00:00:0 0 EOF\n")
    with (tmp_path / ".lock").open("w") as file:
        assert holder_of(file, tmp_path / "locks") == ""
        assert holder_of(file, tmp_path / "none") == ""
