"""A worker without the lab image builds it when it joins; one that cannot is refused, with the reason."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from runner.data.store import open_store
from runner.farm import block, coordinator
from runner.farm.coordinator import Coordinator
from runner.lab.software import image
from tests.bench.made_up_farm import Fake, PaperWorkers
from tests.unit.farm.test_farm import keeper_of, whole

STATUS = "Package: openvpn\nVersion: 2.6.14-1\n\n"


@pytest.fixture(autouse=True)
def of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that has no image."""
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VPNEVAL_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


def mmdebstrap(monkeypatch: pytest.MonkeyPatch, code: int = 0) -> list[str]:
    """Replace it by one that makes a small root, or ends with this code; returns the suites that it was asked for."""
    asked: list[str] = []

    def run(argv: list[str], *, stdout: Any, **_: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(argv[-2])
        root = Path(argv[-1])
        for tool in image.NODE_TOOLS:
            (root / "usr/bin").mkdir(parents=True, exist_ok=True)
            (root / "usr/bin" / tool).touch(0o755)
        (root / "var/lib/dpkg").mkdir(parents=True)
        (root / "var/lib/dpkg/status").write_text(STATUS)
        stdout.write(b"E: no mirror answers\n" if code else b"")
        return subprocess.CompletedProcess(argv, code)

    monkeypatch.setattr(subprocess, "run", run)
    return asked


def spread(folder: Path, joined: dict[str, Any]) -> tuple[str, list[str]]:
    """A run of two blocks on one machine: why it ended before, and what was said. What it has goes into ``joined``."""
    said: list[str] = []
    with open_store(folder) as store:
        keeper = keeper_of(store, 2)

        def admit(name: str, machine: Any, images: Any) -> str:
            joined.update(images, image=machine.image)
            return keeper.join(name, machine)

        really = Fake("m1", introduces=lambda work, *args: {**work(*args), "name": "m1"})
        workers = PaperWorkers({"tcp://m1": really})
        made = Coordinator(
            workers, "key", ["trixie"], {}, [1, 2], 60.0, admit, keeper.keep, said.append, patience_s=1.0
        )
        return made.spread(), said


def test_a_worker_builds_the_image_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "LOOK_S", 0.0)
    asked, joined = mmdebstrap(monkeypatch), dict[str, Any]()
    assert spread(tmp_path / "run", joined)[0] == ""
    whole(tmp_path / "run", 2)
    assert asked == ["trixie"]
    built = image.open_image("trixie")  # the folder is there, and whole
    assert built.packages == {"openvpn": "2.6.14-1"}
    assert joined == {
        "trixie": {"digest": built.digest, "packages": built.packages},
        "image": f"trixie {built.digest}",
    }
    assert block.introduce("key", ["trixie"], {})["images"] == {"trixie": joined["trixie"]}
    assert asked == ["trixie"], "it is built once"


def test_a_worker_that_cannot_build_the_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "LOOK_S", 0.0)
    mmdebstrap(monkeypatch, 25)
    stopped, said = spread(tmp_path / "run", {})
    assert stopped.startswith("no machine is left (tcp://m1: mmdebstrap could not build the image trixie")
    assert [line for line in said if line.startswith("tcp://m1 is refused: mmdebstrap could not build")]
    assert "\nE: no mirror answers\n" in stopped
    assert "vpneval image trixie --mirror URL" in stopped
    assert not image.locate("trixie").exists()
