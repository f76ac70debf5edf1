"""``vpneval image --mirror``: what is no mirror is refused, and one that will not be asked is said to be so."""

import json
import os
from pathlib import Path

import pytest

from runner.lab.software import image
from tests.unit.cli.test_cli import CapSys, vpneval


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has no image, and that is asked by root; its path has no mmdebstrap."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path / "cache"


@pytest.mark.parametrize("mirror", ["debian.example", "ssh://debian.example/debian", "sources.list", "/none/sources"])
def test_what_is_no_mirror_is_refused(capsys: CapSys, mirror: str, tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://debian.example/debian trixie main\n")  # a path, but not whole
    code, _, err = vpneval(capsys, "image", "trixie", "--mirror", mirror)
    assert code == 2
    assert f"--mirror '{mirror}' is no mirror. Valid: a URL" in " ".join(err.split())


@pytest.mark.parametrize("built", [True, False])
def test_a_mirror_that_is_not_asked_is_told(capsys: CapSys, cache: Path, built: bool) -> None:
    record = image.locate("trixie").with_suffix(".json")
    record.parent.mkdir(parents=True)
    if built:
        record.write_text(json.dumps({}))
    code, _, err = vpneval(capsys, "image", "trixie", "--mirror", "http://debian.example/debian")
    assert code == 3, "the image is not whole, or there is no mmdebstrap"
    assert ("so nothing is taken from http://debian.example/debian. --rebuild builds" in " ".join(err.split())) is built
