"""The commit that a run keeps: of the tree that measured, marked where the tree differs from it."""

import subprocess
import tomllib
from pathlib import Path

import yaml

from runner.sweep.run_record import commit_of


def test_a_run_keeps_the_commit_of_its_tree(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    code, other = tmp_path / "code.py", tmp_path / "installed.py"
    code.write_text("1")
    assert commit_of(code) == "", "no tree of git"
    git("init", "-q")
    git("add", "code.py")
    git("commit", "-qm", "first")
    head = git("rev-parse", "HEAD").strip()
    assert commit_of(code) == head[:12]
    code.write_text("2")
    assert commit_of(code) == f"{head[:12]}+"
    other.write_text("")
    assert commit_of(other) == "", "a package that lies in somebody's tree is not of it"


def test_what_is_cited_is_a_valid_citation_file_with_this_version_and_licence() -> None:
    root = Path(__file__).parents[3]
    cff = yaml.safe_load((root / "CITATION.cff").read_text())
    project = tomllib.loads((root / "pyproject.toml").read_text())
    assert cff["cff-version"] == "1.2.0"
    assert (cff["version"], cff["license"]) == (project["project"]["version"], project["project"]["license"])
    assert cff["authors"]
    assert {"message", "title", "type"} <= cff.keys()
    for work in cff["references"]:
        assert all(author["family-names"] for author in work["authors"])
