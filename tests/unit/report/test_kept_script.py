"""The script that every page runs is kept: only as it was bundled here, and only where nobody else can write it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import vl_convert

from runner.data.guest import GUEST
from runner.report.plots import vega

EVIL = "alert('evil')"


@pytest.fixture
def bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was bundled, in an empty cache."""
    made: list[str] = []

    def bundle(snippet: str, version: str) -> str:
        made.append(snippet)
        return "made here"

    monkeypatch.setenv("VPNEVAL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(vl_convert, "javascript_bundle", bundle)
    vega.script.cache_clear()
    yield made
    vega.script.cache_clear()


def kept(cache: Path) -> Path:
    """Make the script, and forget it but for the file."""
    assert vega.script() == "made here"
    vega.script.cache_clear()
    (path,) = (cache / "cache").glob("vega-*.js")
    return path


def test_it_is_bundled_once(bundled: list[str], tmp_path: Path) -> None:
    assert kept(tmp_path).stat().st_mode & 0o777 == 0o644
    assert vega.script() == "made here"
    assert len(bundled) == 1


def elsewhere(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


SPOILT: dict[str, Callable[[Path], object]] = {
    "another text": lambda path: path.write_text(EVIL),
    "half of it": lambda path: path.write_text("made"),
    "nothing in it": lambda path: path.write_text(""),
    "no UTF-8": lambda path: path.write_bytes(b"\xff"),
    "writable by all": lambda path: path.chmod(0o666),
    "writable by a group": lambda path: path.chmod(0o664),
    "a link": elsewhere,
    "somebody else's": lambda path: os.chown(path, 54321, 54321),
}


@pytest.mark.parametrize("how", SPOILT)
@pytest.mark.parametrize("guest", ["", "uml"])
def test_a_script_that_somebody_else_may_have_written_is_not_used(
    how: str, guest: str, bundled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how.startswith("somebody") and os.geteuid():
        pytest.skip("only root gives a file away")
    SPOILT[how](kept(tmp_path))
    if guest:
        monkeypatch.setenv(GUEST, guest)
    assert vega.script() == (vega.ABSENT if guest else "made here")
    assert len(bundled) == (1 if guest else 2)


def test_a_guest_uses_the_script_of_the_user_whose_cache_it_is(
    bundled: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = kept(tmp_path)
    if os.geteuid() == 0:
        os.chown(path, 54321, 54321)
        os.chown(path.parent, 54321, 54321)
    monkeypatch.setenv(GUEST, "uml")
    assert vega.script() == "made here"


def test_a_script_by_its_old_name_is_not_used(bundled: list[str], tmp_path: Path) -> None:
    path = kept(tmp_path)
    path.rename(path.with_name(path.name.rpartition("-")[0] + ".js"))
    assert vega.script() == "made here"
    assert len(bundled) == 2
