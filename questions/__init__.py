"""What a run answers, a file or folder each."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from runner.data.errors import UsageError, require_known
from runner.data.kinds import Strict
from runner.design.loading import blame_file, classes_in, import_file, is_path, last_class
from runner.design.question import Going, Question, Said

USUAL = "rank"  # what a run is asked that is asked nothing else


@cache
def questions() -> dict[str, Question[Any]]:
    """Every question of questions/ by its name, that of its file or folder. The usual one comes last: where another one
    has an answer, it leaves the first place in a report to it."""
    found = dict[str, Question[Any]]()
    for module in pkgutil.iter_modules(__path__):
        kinds: list[type[Question[Any]]] = classes_in(importlib.import_module(f"questions.{module.name}"), Question)
        found[module.name] = last_class(module.name, kinds, "runner.design.question.Question")()
    return {name: found[name] for name in sorted(found, key=USUAL.__eq__)}


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
        return _guard_class(name, kind)()


METHODS = tuple(name for name, value in vars(Question).items() if callable(value) and name[0] != "_")
GIVES: dict[str, tuple[type, ...]] = {"judge": (Strict,), "going": (Going,), "say": (Said, type(None))}


def _guard_class(name: str, kind: type[Question[Any]]) -> type[Question[Any]]:
    """The class of a user's file, whose methods blame that file for what they raise and for what they must not give."""

    def guard(method: str) -> Callable[..., Any]:
        own = getattr(kind, method)

        def guard_method(self: Question[Any], *args: Any, **named: Any) -> Any:
            with blame_file(f"question {name} is broken in `{method}`", [Path(name)], UsageError):
                found = own(self, *args, **named)
                found = [*found] if isinstance(found, Iterator) else found
            if not isinstance(found, GIVES.get(method, (object,))):
                wanted = " or ".join(each.__name__ for each in GIVES[method])
                raise UsageError(f"question {name}: `{method}` must return {wanted}, not {type(found).__name__}")
            return found

        return guard_method

    return type(kind.__name__, (kind,), {method: guard(method) for method in METHODS})


def question_of(instruments: Collection[str]) -> Question[Any]:
    """What a run that measures with these instruments is asked."""
    return next((question for question in questions().values() if question.is_asked(instruments)), questions()[USUAL])
