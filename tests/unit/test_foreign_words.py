"""What other programs say is read by one reader, and by no expression that takes squared time.

``readline`` waits for ever for a line's end, and keeps all of a line without one: ``runner/lab/node/lines.py`` is the
reader. An expression that begins anywhere and runs to an end that never comes is tried again from each beginning:
a megabyte takes minutes.
"""

import ast
import os
import re
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from runner.lab.node.lines import MOST_LINE, Lines, UnheardError, json_of

parser: Any = import_module("re._parser")  # what re.compile() takes an expression apart with
codes: Any = import_module("re._constants")
ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "runner" / "lab" / "probes"  # programs of nodes: they read what the runner or their peer says
OWN = {ROOT / "runner" / "data" / "files.py"}  # files, line by line with a bound
SCANS = {"search", "findall", "finditer", "sub", "subn", "split", "compile"}


def reads_lines(code: str) -> Iterator[int]:
    """The lines of code that read a line without a bound in time."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and node.attr in ("readline", "readlines"):
            yield node.lineno
        if isinstance(node, ast.For | ast.comprehension):
            last = node.iter.attr if isinstance(node.iter, ast.Attribute) else ""
            if last in ("stdout", "stderr"):
                yield node.iter.lineno


def runs_over_lines(pattern: str, flags: int = 0) -> bool:
    """May a part of the expression run over the ends of lines, up to something that has to follow it?"""
    return _runs(parser.parse(pattern, flags), flags)


def _runs(items: Any, flags: int, followed: bool = False) -> bool:
    listed = list(items)
    for at, (code, about) in enumerate(listed):
        after = followed or at + 1 < len(listed)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            _, most, what = about
            if most == codes.MAXREPEAT and after and any(_takes_newline(one, flags) for one in what):
                return True
            if _runs(what, flags, after):
                return True
        elif code is codes.SUBPATTERN:
            if _runs(about[3], flags | about[1], after):
                return True
        elif code is codes.BRANCH and any(_runs(branch, flags, after) for branch in about[1]):
            return True
    return False


def _takes_newline(one: Any, flags: int) -> bool:
    code, about = one
    if code is codes.ANY:
        return bool(flags & re.DOTALL)
    if code is codes.NOT_LITERAL:
        return bool(about != ord("\n"))
    if code is codes.IN:
        listed = list(about)
        if listed and listed[0][0] is codes.NEGATE:
            kinds = {(kind, what) for kind, what in listed[1:]}
            excluded = {(codes.LITERAL, 10), (codes.CATEGORY, codes.CATEGORY_SPACE)}
            return not kinds & excluded
        return any(kind is codes.CATEGORY and what is codes.CATEGORY_NOT_WORD for kind, what in listed)
    if code is codes.SUBPATTERN:
        return any(_takes_newline(inner, flags) for inner in about[3])
    return code is codes.BRANCH and any(_takes_newline(one, flags) for branch in about[1] for one in branch)


def expressions(code: str) -> Iterator[tuple[int, str, int]]:
    """The expressions that this code scans a text with: line, expression, flags."""
    tree = ast.parse(code)
    named = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value.value, str)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
            continue
        if not isinstance(node.func.value, ast.Name) or node.func.value.id != "re" or node.func.attr not in SCANS:
            continue
        first = node.args[0]
        text = first.value if isinstance(first, ast.Constant) else named.get(getattr(first, "id", ""))
        said = " ".join(map(ast.unparse, [*node.args[1:], *(keyword.value for keyword in node.keywords)]))
        flags = re.DOTALL if re.search(r"\bre\.(DOTALL|S)\b", said) else 0
        if isinstance(text, str):
            yield node.lineno, text, flags


def codes_of(*folders: str) -> Iterator[tuple[Path, str]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path, path.read_text()


def test_no_code_waits_for_a_line_without_a_bound() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path, code in codes_of("runner", "vpns", "experiments")
        if path not in OWN and PROGRAMS not in path.parents
        for line in reads_lines(code)
    ]
    assert not found, "\n".join(["Take runner.lab.node.lines.Lines, or a Dialogue's hear():", *found])


def test_no_expression_on_foreign_text_runs_over_lines_to_an_end_that_may_not_come() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for path, code in codes_of("runner/lab", "runner/tunnel", "runner/vpn", "runner/instruments", "vpns")
        for line, text, flags in expressions(code)
        if runs_over_lines(text, flags)
    ]
    assert not found, "\n".join(["Read it line by line, or as JSON:", *found])


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("line = process.stdout.readline()", True),
        ("line = process.stdout.readline(100)", True),
        ("for line in process.stdout: pass", True),
        ("[line for line in self.process.stderr]", True),
        ("lines.next(3.0)", False),
        ("for line in done.stdout.splitlines(): pass", False),
    ],
)
def test_each_way_of_waiting_for_a_line_is_found(code: str, wrong: bool) -> None:
    assert bool(list(reads_lines(code))) == wrong


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (r're.findall(r"^table (\S+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL)', True),
        (r're.sub(r"\{[^}]*\}", "", text)', True),
        ('BEGIN = r"a(?:.|x)*b"\nre.search(BEGIN, text, flags=re.DOTALL)', True),
        (r're.search(r"sent (\d+) bytes", text)', False),
        (r're.search(r"^mtu: (.*)$", text, re.MULTILINE)', False),
        (r're.search(r"begin(.*)", text, re.DOTALL)', False),
        (r're.fullmatch(r"\{[^}]*\}", text)', False),
    ],
)
def test_each_such_expression_is_found(code: str, wrong: bool) -> None:
    assert any(runs_over_lines(text, flags) for _, text, flags in expressions(code)) == wrong


class Pipe:
    """What a program says, all at once or bit by bit, and whether it goes on."""

    def __init__(self, said: bytes, ends: bool) -> None:
        self.reading, writing = os.pipe()

        def say() -> None:
            try:
                for at in range(0, len(said), 1 << 16):
                    os.write(writing, said[at : at + (1 << 16)])
            except OSError:
                return
            if ends:
                os.close(writing)

        threading.Thread(target=say, daemon=True).start()


@pytest.mark.parametrize(
    ("said", "ends", "why"),
    [
        (b"", True, "ended"),
        (b"", False, "late"),
        (b"half a li", True, "ended"),
        (b"half a li", False, "late"),
        (b"x" * (MOST_LINE + 2), False, "endless"),
        (b"x" * (64 << 20), True, "endless"),
        (b"x" * (MOST_LINE + 1) + b"\n", False, "endless"),
    ],
    ids=range(7),
)
def test_what_is_no_line_is_named(said: bytes, ends: bool, why: str) -> None:
    lines, began = Lines(Pipe(said, ends).reading, "gw1"), time.monotonic()
    with pytest.raises(UnheardError, match=r"^gw1 ") as wrong:
        lines.next(0.5)
    assert wrong.value.why == why
    assert len(lines.behind) <= MOST_LINE + (1 << 16)
    assert time.monotonic() - began < 20


def test_lines_come_one_by_one_whatever_arrives_at_once() -> None:
    lines = Lines(Pipe(b"a\n\nb\r\n" + b"c" * MOST_LINE + b"\nrest", True).reading, "gw1")
    assert [lines.next(20) for _ in range(4)] == [b"a", b"", b"b\r", b"c" * MOST_LINE]
    assert bytes(lines.behind) in (b"", b"rest")


def test_many_short_lines_take_no_squared_time() -> None:
    said, began = b"x\n" * 400_000, time.process_time()
    lines = Lines(Pipe(said, True).reading, "gw1")
    for _ in range(400_000):
        lines.next(60)
    assert time.process_time() - began < 30


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "nan7", b"\xff", "9" * 5_000, '"\\ud8"', "[0]" + " " * (9 << 20)], ids=range(8)
)
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        json_of(text)
