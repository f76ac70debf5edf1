"""No code reads a sentence that a person is meant to read: kinds and numbers travel, and words are made at the end.

A reason, a warning and a command line are such texts. What searches or splits one of them is found here; its first line
(splitlines) may be shown, and nothing is decided by it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = {"reason", "warnings", "command_line"}
METHODS = {
    "startswith",
    "endswith",
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "find",
}
READERS = {"re", "shlex"}


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


def reads(code: str) -> Iterator[tuple[int, str]]:
    """The lines of this code that read a sentence, and which."""
    tree = ast.parse(code)
    named = names_of(tree)

    def is_text(node: ast.AST) -> bool:
        if isinstance(node, ast.Subscript):
            return is_text(node.value)
        if isinstance(node, ast.Name):
            return node.id in named
        return isinstance(node, ast.Attribute) and node.attr in TEXTS

    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            owner, method = node.func.value, node.func.attr
            if method in METHODS and is_text(owner):
                yield node.lineno, ast.unparse(node)
            module = isinstance(owner, ast.Name) and (owner.id in READERS or owner.id.isupper())
            if module and method != "join" and any(is_text(argument) for argument in node.args):
                yield node.lineno, ast.unparse(node)
        if isinstance(node, ast.Compare) and any(isinstance(operator, ast.In | ast.NotIn) for operator in node.ops):
            sought = node.left
            literal = isinstance(sought, ast.Constant | ast.JoinedStr) or (
                isinstance(sought, ast.Name) and sought.id.isupper()
            )
            if literal and any(is_text(where) for where in node.comparators):
                yield node.lineno, ast.unparse(node)


def test_no_code_reads_a_sentence() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for folder in ("runner", "vpns", "experiments")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, what in reads(path.read_text())
    ]
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
    ],
)
def test_what_shows_a_sentence_reads_none(code: str) -> None:
    assert not list(reads(code)), code
