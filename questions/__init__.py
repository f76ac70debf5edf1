"""What a run answers, a file or folder each."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from runner.data.errors import UsageError, require_known
from runner.design.loading import blame_file, classes_in, import_file, is_path, last_class
from runner.design.question import Question

USUAL = "rank"  # what a run is asked that is asked nothing else


@cache
def questions() -> dict[str, Question[Any]]:
    """Every question of questions/ by its name, that of its file or folder."""
    found = dict[str, Question[Any]]()
    for module in pkgutil.iter_modules(__path__):
        kinds: list[type[Question[Any]]] = classes_in(importlib.import_module(f"questions.{module.name}"), Question)
        found[module.name] = last_class(module.name, kinds, "runner.design.question.Question")()
    return found


def load_question(name: str) -> Question[Any]:
    """The question ``name``: a file or folder of questions/, or a path to a file outside the tree. Raises UsageError
    with the near matches for an unknown one, and for a file that is no question."""
    if not is_path("question", name):
        require_known("question", name, [*questions()])
        return questions()[name]
    kinds: list[type[Question[Any]]] = classes_in(import_file("question", name), Question)
    kind = last_class(name, kinds, "runner.design.question.Question")
    lacks = [what for what in ("name", "looks_at") if not hasattr(kind, what)] + sorted(kind.__abstractmethods__)
    if lacks:
        raise UsageError(f"question {name} is not finished: {kind.__name__} lacks {', '.join(lacks)}")
    with blame_file(f"question {name} cannot be made", [Path(name)]):
        return kind()


def question_of(instruments: Collection[str]) -> Question[Any]:
    """What a run that measures with these instruments is asked."""
    return next((question for question in questions().values() if question.is_asked(instruments)), questions()[USUAL])
