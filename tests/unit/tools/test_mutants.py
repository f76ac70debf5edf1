"""The mutation run's copies have all that a unit test may read."""

from pathlib import Path

from tests.tools.mutants import ROOT, copy_of_the_project


def test_a_copy_has_every_file_of_the_project(tmp_path: Path) -> None:
    """A test that reads one which is missing fails without any mutant, and the whole run with it."""
    copy = copy_of_the_project(tmp_path / "copy")
    for below in ("", "docs", "runner/shipped", "tests/unit"):
        theirs = {path.name for path in (ROOT / below).iterdir()} - {"__pycache__"}
        assert {name for name in theirs if not name.startswith(".")} == {path.name for path in (copy / below).iterdir()}
