"""The lint on bare names: what it takes for one, and which rooms it holds to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools import names


@pytest.mark.parametrize("name", ["told", "_judged", "__of", "between", "beside", "shown", "taken", "more"])
def test_a_participle_preposition_or_pronoun_alone_is_no_name(name: str) -> None:
    assert names.is_bare(name)


@pytest.mark.parametrize("name", ["told_apart", "of_slice", "read", "speed", "field", "measure", "by_name", "__init__"])
def test_a_verb_a_noun_and_several_words_are_names(name: str) -> None:
    assert not names.is_bare(name)


def test_methods_and_inner_functions_are_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "runner" / "lab").mkdir(parents=True)
    source = "class Node:\n    def lost(self):\n        def seen(): ...\n\nasync def run(): ...\n"
    (tmp_path / "runner" / "lab" / "node.py").write_text(source)
    found = list(names.bare_names(tmp_path))
    assert found == ["runner/lab/node.py:2: lost", "runner/lab/node.py:3: seen"]
