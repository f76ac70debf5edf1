"""Loads a file of the tree's kind, a plugin, an instrument, an experiment or a question, from anywhere."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from runner.data.errors import UsageError
from runner.data.foreign import caught
from runner.vpn.guard import in_words

Kind = TypeVar("Kind")


def is_path(kind: str, name: str) -> bool:
    """Does this name a file outside the tree? Raises UsageError for a path that cannot be one."""
    if "/" in name and not name.endswith(".py"):
        article = "an" if kind[0] in "aei" else "a"
        raise UsageError(f"{article} {kind} from outside the tree is a file whose name ends in .py, not {name}")
    return name.endswith(".py")


def import_file(kind: str, name: str) -> ModuleType:
    """The module in a file outside the tree. Raises UsageError where there is none, or it cannot be loaded."""
    path = Path(name)
    spec = importlib.util.spec_from_file_location(str(path.resolve()), path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UsageError(f"no {kind} file {name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    with blame_file(f"{kind} file {name} cannot be loaded", [path]):
        spec.loader.exec_module(module)
    return module


def blame_file(what: str, files: list[Path], *passing: type[BaseException]) -> AbstractContextManager[None]:
    """Turns any exception raised within, except Ctrl-C and ``passing``, into a UsageError that names the line of a
    file."""

    def blame(broken: BaseException) -> None:
        raise UsageError(f"{what}: {in_words(broken, files)}") from broken

    return caught(blame, *passing)


def classes_in(module: ModuleType, kind: Callable[..., Kind]) -> list[type[Kind]]:
    """The subclasses of the class ``kind`` that this module defines itself."""
    here: list[Any] = [value for value in vars(module).values() if isinstance(value, type)]
    return [
        value for value in here if value.__module__ == module.__name__ and kind in value.__mro__ and value is not kind
    ]


def last_class(file: str, kinds: list[type[Kind]], base: str) -> type[Kind]:
    """The subclass of ``base`` that a file is about; its own base classes may be defined beside it.

    Raises UsageError where there is none, or where several are candidates.
    """
    last = [kind for kind in dict.fromkeys(kinds) if not any(kind in other.__mro__[1:] for other in kinds)]
    if not last:
        raise UsageError(f"{file} defines no subclass of {base}")
    if len(last) > 1:
        names = ", ".join(kind.__name__ for kind in last)
        raise UsageError(f"{file} defines several subclasses of {base}: {names}. Put each into a file of its own")
    return last[0]
