"""No code reads a sentence that a person is meant to read: kinds and numbers travel, and words are made at the end.

A reason, a warning and a command line are such texts. What searches, splits or compares one of them is found here, also
where it does so in a function that is given the text. Its first line may be shown (splitlines), its white space folded
(split without an argument), and what would steer a terminal replaced (sub): nothing is decided by that.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = {
    *("reason", "warnings", "command_line", "words", "note", "summary", "sentence", "message"),
    *("today", "no_run", "known_breaks", "flaws"),
}
METHODS = {
    *("startswith", "endswith", "split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix", "find"),
    *("index", "isdigit", "casefold", "lower"),
}
READERS = {"re", "shlex"}
SHOWS = {"join", "sub", "get"}
OF_OLDER_RUNS = {"of_older"}  # runner/data/remarks.py: their trials have nothing but words
Reading = Mapping[str, set[int | str]]  # function -> the places and names of the parameters that it reads


def names_of(tree: ast.AST) -> dict[str, str]:
    """Names that stand for such a text: set from one, or the item of a loop over several."""
    found = {}
    for node in ast.walk(tree):
        pairs: list[tuple[ast.AST, ast.AST]] = []
        if isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        elif isinstance(node, ast.NamedExpr):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.For | ast.comprehension):
            pairs = [(node.target, node.iter)]
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, ast.Attribute) and value.attr in TEXTS:
                found[target.id] = value.attr
    return found


def searches(tree: ast.AST, is_text: Callable[[ast.AST], bool]) -> Iterator[ast.expr]:
    """What in this code searches, splits or compares such a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, method = node.func.value, node.func.attr
            if method in METHODS and (node.args or method != "split") and is_text(owner):
                yield node
            module = isinstance(owner, ast.Name) and (owner.id in READERS or owner.id.isupper())
            if module and method not in SHOWS and any(is_text(argument) for argument in node.args):
                yield node
        if isinstance(node, ast.Compare) and any(map(is_text, node.comparators)):
            sought = node.left
            literal = isinstance(sought, ast.Constant | ast.JoinedStr) or (
                isinstance(sought, ast.Name) and sought.id.isupper()
            )
            if literal and any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops):
                yield node


def is_name(name: str, node: ast.AST) -> bool:
    """Is this the variable ``name``?"""
    return isinstance(node, ast.Name) and node.id == name


def readers(trees: Iterable[ast.AST]) -> Reading:
    """The functions that read a text which they are given."""
    found: dict[str, set[int | str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef) or node.name in OF_OLDER_RUNS:
                continue
            names = [each.arg for each in node.args.args if each.arg not in ("self", "cls")]
            places = dict[int | str, str](enumerate(names)) | {each.arg: each.arg for each in node.args.kwonlyargs}
            for at, name in places.items():
                if any(searches(node, partial(is_name, name))):
                    found.setdefault(node.name, set()).update({at, name})
    return found


def reads(code: str, reading: Reading | None = None) -> Iterator[tuple[int, str]]:
    """The lines of this code that read a sentence, and which. ``reading``: the functions of other files that do."""
    tree = ast.parse(code)
    named = names_of(tree)
    reading = readers([tree]) if reading is None else reading

    def is_text(node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript):
            return is_text(node.value)
        if isinstance(node, ast.Name):
            return node.id in named
        return isinstance(node, ast.Attribute) and node.attr in TEXTS

    for found in searches(tree, is_text):
        yield found.lineno, ast.unparse(found)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = [*enumerate(node.args), *((keyword.arg, keyword.value) for keyword in node.keywords)]
            if any(at in reading.get(name, ()) and is_text(argument) for at, argument in given):
                yield node.lineno, ast.unparse(node)


def test_no_code_reads_a_sentence() -> None:
    codes = {
        path.relative_to(ROOT): path.read_text()
        for folder in ("runner", "vpns", "experiments")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    reading = readers(map(ast.parse, codes.values()))
    found = [f"{path}:{line}: {what}" for path, code in codes.items() for line, what in reads(code, reading)]
    assert not found, "\n".join(["Let a kind or a number travel beside the words:", *found])


@pytest.mark.parametrize(
    "code",
    [
        'trial.reason.startswith("unsupported: ")',
        "found = [one for one in trial.warnings if one.startswith(begin)]",
        'if "TCP only" in trial.reason: pass',
        "if LOST in trial.reason: pass",
        "[match for warning in trial.warnings if (match := UNDER.search(warning))]",
        "re.split(r'; ', no.reason)",
        "why = trial.reason\nif why.partition(':')[0]: pass",
        "shlex.split(report.command_line)",
        "words = call.command_line[0].split('=')",
        "if 'integer' in wrong.message: pass",
        "declared.maintained.words.lower()",
        "def confined(said):\n    return 'denied' in said\nconfined(no.reason)",
        "def look(node, *, said):\n    return DENIED.search(said)\nlook(gw1, said=no.reason)",
    ],
)
def test_each_way_of_reading_one_is_found(code: str) -> None:
    assert list(reads(code)), code


@pytest.mark.parametrize(
    "code",
    [
        "why = trial.reason.splitlines()[0]",
        "shlex.join(call.command_line)",
        "{trial.reason for trial in trials}",
        "if trial.reason in known: pass",
        "' '.join(trial.warnings)",
        "name.startswith('x')",
        "' '.join(trial.reason.split())",
        "CONTROL.sub(' ', trial.reason)",
        "def confined(said):\n    return 'denied' in said\nconfined(completed.stderr)",
    ],
)
def test_what_shows_a_sentence_reads_none(code: str) -> None:
    assert not list(reads(code)), code
