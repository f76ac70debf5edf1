"""What others may change runs nowhere: actions and base images are named by digest, in the jobs to copy as well."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
JOBS = [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "docs" / "ci").glob("*.yml")]
FILES = [*JOBS, ROOT / "vagrant" / "Containerfile"]
NAMED = re.compile(r"^\s*(?:- )?(?:uses:|image:|FROM) (\S+)", re.MULTILINE)
PINNED = re.compile(r"[^@\s]+@(?:[0-9a-f]{40}|sha256:[0-9a-f]{64})")


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_actions_and_images_are_pinned_by_digest(file: Path) -> None:
    assert not [name for name in NAMED.findall(file.read_text()) if not PINNED.fullmatch(name)]


def test_they_are_seen() -> None:
    every = [name for file in FILES for name in NAMED.findall(file.read_text())]
    assert {name.partition("@")[0] for name in every} >= {
        "actions/checkout",
        "debian:12",
        "docker.io/library/debian:trixie-slim",
    }
