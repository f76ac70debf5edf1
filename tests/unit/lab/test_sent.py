"""The lab image on its way to a gateway: how much is sent, and how long it takes, is said before the first byte is."""

import hashlib
import subprocess
from pathlib import Path
from typing import cast

import pytest

from runner.lab.node import Completed
from runner.lab.places import sent as sending
from runner.lab.places.connection import Connection
from runner.lab.software.image import Image


class Here:
    """A connection to a gateway that is this machine."""

    name = "gw1"

    def argv(self, *argv: str) -> list[str]:
        return [*argv]

    def run(self, *argv: str, timeout: float = 20.0) -> Completed:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout)
        return Completed(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("max_rate_bps", "told"),
    [
        (None, "vpneval sends the image small to gw1: 2 MB (once; remove it there with: rm -r "),
        (80e6, "2 MB, which takes 0 s at least, at no more than 80 Mbit/s (once; "),
        (10e6, "2 MB, which takes 2 s at least, at no more than 10 Mbit/s (once; "),
    ],
)
def test_the_size_of_the_image_is_said_before_it_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_rate_bps: float | None, told: str
) -> None:
    monkeypatch.setattr(sending, "FOLDER", str(tmp_path / "there"))
    root = tmp_path / "small-1"
    status = root / sending.STATUS
    status.parent.mkdir(parents=True)
    status.write_bytes(b"x" * 2_000_000)
    image = Image("small", root, hashlib.sha256(status.read_bytes()).hexdigest()[:12], {})
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        assert not (tmp_path / "there").exists(), "nothing has been sent"

    for _ in range(2):  # the second time, it is there
        there = sending.send_image(cast(Connection, Here()), image, say, max_rate_bps)
        assert (there.root / sending.STATUS).read_bytes() == status.read_bytes()
    assert len(said) == 1
    assert told in said[0]
