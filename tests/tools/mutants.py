"""A mutation run by hand over the rooms whose code is arithmetic: ``make mutants``, some nine minutes of processor.

Each mutant is one small change in a copy of the project, tried by the unit tests that run its line, the quickest first,
until one fails. What survives was noticed by no test: the run prints it, and fails where more than a fifth of a seeded
sample survive. Not mutated: annotations and texts.
usage: python -m tests.tools.mutants [--seed N] [--count N] [--processes N] [FILE:LINE…]   (all mutants of these lines)
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import multiprocessing
import os
import random
import re
import resource
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from queue import Queue
from typing import Any

import coverage
import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("runner/evidence", "runner/ranking", "runner/search")
# Unit tests of them that try no mutant: whole populations, good to some per cent, and whole commands, which look at
# what the rooms' numbers look like.
TRY_NONE = ("test_cli", "test_faults_files", "test_report", "test_search_population", "test_watch")
SHARED = ["coverage", "pytest", "numpy", "pydantic", "scipy.optimize", "scipy.stats"]  # imported once, for all mutants
WATCHED = "watched.json"  # in a copy
PYTEST = ("-x", "-q", "--noconftest", "-p", "no:cacheprovider")
ALIVE_AT_MOST = 0.2
# A mutant that needs that many times the processor that its tests take without it, and so much besides, is noticed.
PATIENCE, IMPORTS_S = 5, 10

FORKS = multiprocessing.get_context("forkserver")
SWAPPED: dict[type[ast.AST], str] = {
    **{ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*", ast.Pow: "*"},
    **{ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="},
    **{ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is", ast.And: "or", ast.Or: "and"},
}


@dataclass(frozen=True)
class Mutant:
    """In ``file``, the text from ``start`` to ``end`` (line from 1, byte from 0) becomes ``text``."""

    file: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str

    def applied(self, source: str) -> str:
        lines = [line.encode() for line in source.splitlines(keepends=True)]
        (first, begin), (last, stop) = self.start, self.end
        changed = lines[first - 1][:begin] + self.text.encode() + lines[last - 1][stop:]
        return b"".join([*lines[: first - 1], changed, *lines[last:]]).decode()

    def __str__(self) -> str:
        source = (ROOT / self.file).read_text()
        was = " ".join(line.strip() for line in source.splitlines()[self.start[0] - 1 : self.end[0]])
        now = self.applied(source).splitlines()[self.start[0] - 1].strip()
        return f"{self.file}:{self.start[0]}: {was}\n    -> {now}"


def swapped(node: ast.AST) -> str:
    """``node`` with another operator; nothing for what has none."""
    match node:
        case ast.BinOp(left, op, right) | ast.Compare(left, [op], [right]) if type(op) in SWAPPED:
            return f"({ast.unparse(left)}) {SWAPPED[type(op)]} ({ast.unparse(right)})"
        case ast.BoolOp(op, values):
            return f" {SWAPPED[type(op)]} ".join(f"({ast.unparse(value)})" for value in values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            return ast.unparse(operand)
        case ast.AugAssign(target, op, value) if type(op) in SWAPPED:
            return f"{ast.unparse(target)} {SWAPPED[type(op)]}= {ast.unparse(value)}"
    return ""


def changed(node: ast.AST) -> str:
    """``node`` with another value or another way to go on; nothing for what has neither."""
    match node:
        case ast.IfExp(test, body, orelse):
            return f"({ast.unparse(orelse)}) if {ast.unparse(test)} else ({ast.unparse(body)})"
        case ast.Constant(bool() as value):
            return str(not value)
        case ast.Constant(int() | float() as value):
            return str(value + 1)
        case ast.Return(value) if value is not None and not (isinstance(value, ast.Constant) and value.value is None):
            return "return None"
        case ast.Continue():
            return "break"
        case ast.Break():
            return "continue"
    return ""


def without_annotations(node: ast.AST) -> Iterator[ast.AST]:
    """``node`` and all below it that runs and computes; a text in braces has its own columns and is left alone."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or isinstance(value, ast.JoinedStr):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from without_annotations(child)


def mutants() -> list[Mutant]:
    """All of them, in the order of files and lines."""
    found = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            for node in without_annotations(ast.parse(path.read_text())):
                if text := swapped(node) or changed(node):
                    assert isinstance(node, ast.expr | ast.stmt)
                    assert node.end_lineno is not None
                    assert node.end_col_offset is not None
                    wrapped = f"({text})" if isinstance(node, ast.expr) else text
                    start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
                    found.append(Mutant(file, start, end, wrapped))
    return sorted(found, key=lambda each: (each.file, each.start, each.end, each.text))


def copy_of_the_project(folder: Path) -> Path:
    """Without what is hidden: no test of these rooms reads that."""
    return Path(shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns("__pycache__", "box", ".*")))


@dataclass(frozen=True)
class Known:
    """What a run without mutants has shown of the tests: the processor's seconds of each, and who runs which line.

    A test is a name for pytest. What is run while a file of tests is imported, or by a fixture, all its tests run.
    """

    took_s: Mapping[str, float]
    of_line: Mapping[tuple[str, int], frozenset[str]]

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run what this mutant changes, the quickest first."""
        lines = {line_of_statement(mutant), *range(mutant.start[0], mutant.end[0] + 1)}
        found = frozenset[str]().union(*(self.of_line.get((mutant.file, line), frozenset()) for line in lines))
        return sorted(found, key=lambda test: (self.took_s[test], test))


def line_of_statement(mutant: Mutant) -> int:
    """The line that the statement of this mutant begins in."""
    tree = ast.parse((ROOT / mutant.file).read_text())
    return max(node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= mutant.start[0])


class Copies:
    """Copies of the project, each used by one at a time."""

    def __init__(self, folder: Path, count: int) -> None:
        self._free: Queue[Path] = Queue()
        for number in range(count):
            self._free.put(copy_of_the_project(folder / str(number)))

    @contextmanager
    def one(self) -> Iterator[Path]:
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)


def know(copies: Copies, pool: ThreadPoolExecutor) -> Known:
    """Run the unit tests of the rooms, without mutants. Raises SystemExit where one fails."""
    took_s: dict[str, float] = {}
    of_line: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
    files = [
        path
        for path in sorted((ROOT / "tests/unit").rglob("test_*.py"))
        if path.stem not in TRY_NONE
        and re.search(r"^from runner\.(evidence|ranking|search)\b", path.read_text(), re.MULTILINE)
    ]
    for of_file in pool.map(lambda path: watched_apart(copies, str(path.relative_to(ROOT))), files):
        took_s |= of_file["took_s"]
        for source, lines in of_file["lines"].items():
            for line, tests in lines.items():
                of_line[source, int(line)].update(tests)
    return Known(took_s, {line: frozenset(tests) for line, tests in of_line.items()})


def watched_apart(copies: Copies, file: str) -> dict[str, Any]:
    """What ``watch_tests`` has seen of a file of tests. Raises SystemExit where one fails."""
    with copies.one() as copy:
        if not done_apart(watch_tests, copy, file):
            raise SystemExit(f"{file} fails without any mutant")
        found: dict[str, Any] = json.loads((copy / WATCHED).read_text())
        return found


def watch_tests(copy: Path, file: str) -> None:
    """In a process of its own: run a file of tests, and write down what each takes, and who runs which line."""
    took_s: defaultdict[str, float] = defaultdict(float)

    class Watch:
        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
            began_s = time.process_time()
            try:
                return (yield)
            finally:
                took_s[item.nodeid.partition("[")[0]] += time.process_time() - began_s

    enter(copy)
    watched = coverage.Coverage(data_file=None, config_file=False, include=[f"{copy}/{room}/*" for room in ROOMS])
    watched.set_option("run:dynamic_context", "test_function")
    with watched.collect():
        code = pytest.main([*PYTEST, file], plugins=[Watch()])
    data = watched.get_data()
    names = {name.rpartition("::")[2]: name for name in took_s}
    lines = {
        str(Path(path).relative_to(copy)): {
            # Outside of tests are fixtures and imports: that may be for any test.
            line: sorted(took_s if "" in contexts else {names[context.rpartition(".")[2]] for context in contexts})
            for line, contexts in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    (copy / WATCHED).write_text(json.dumps({"took_s": took_s, "lines": lines}))
    sys.exit(code)


def survives(mutant: Mutant, copies: Copies, known: Known) -> bool:
    """Do all tests pass that run what this mutant changes?"""
    if not (tests := known.tests(mutant)):
        return True
    limit_s = IMPORTS_S + PATIENCE * sum(known.took_s[test] for test in tests)
    source = (ROOT / mutant.file).read_text()
    with copies.one() as copy:
        write(copy / mutant.file, mutant.applied(source))
        try:
            return done_apart(try_tests, copy, tests, limit_s)
        finally:
            write(copy / mutant.file, source)


def done_apart(work: Callable[..., None], *arguments: object) -> bool:
    """Does this work, in a process of its own, end with exit code 0?"""
    attempt = FORKS.Process(target=work, args=arguments)
    attempt.start()
    attempt.join()
    return attempt.exitcode == 0


def write(path: Path, source: str) -> None:
    """Python tells stale bytecode by time and size, which two mutants may share."""
    Path(cache_from_source(path)).unlink(missing_ok=True)
    path.write_text(source)


def enter(copy: Path) -> None:
    """What this process imports of the project from now on is in ``copy``; it is silent."""
    ours = ("tests", "runner", "vpns", "experiments", "questions")
    for name in [name for name in sys.modules if name.split(".")[0] in ours]:
        del sys.modules[name]
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = False  # all mutants of a copy share that of the files that do not change
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)


def try_tests(copy: Path, tests: Sequence[str], limit_s: float) -> None:
    """In a process of its own, which ends with pytest's exit code, or after so much of the processor."""
    enter(copy)
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit_s), math.ceil(limit_s)))
    sys.exit(pytest.main([*PYTEST, *tests]))


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--count", type=int, default=300)
    asked.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    asked.add_argument("lines", nargs="*", help="FILE:LINE")
    wanted = asked.parse_args()
    FORKS.set_forkserver_preload(SHARED)
    every, began = mutants(), time.monotonic()
    chosen = [one for one in every if f"{one.file}:{one.start[0]}" in wanted.lines]
    if not wanted.lines:
        chosen = random.Random(wanted.seed).sample(every, min(wanted.count, len(every)))
    folders, pools = tempfile.TemporaryDirectory(prefix="vpneval-mutants-"), ThreadPoolExecutor(wanted.processes)
    with folders as folder, pools as pool:
        copies = Copies(Path(folder), wanted.processes)
        known = know(copies, pool)
        print(f"{len(known.took_s)} tests in {time.monotonic() - began:.0f} s", flush=True)
        alive = 0
        attempts = {pool.submit(survives, mutant, copies, known): mutant for mutant in chosen}
        for number, attempt in enumerate(as_completed(attempts), 1):
            if attempt.result():
                alive += 1
                print(attempts[attempt], flush=True)
            if number % 10 == 0:
                print(f"{number} of {len(chosen)}, {alive} alive, {time.monotonic() - began:.0f} s", flush=True)
    print(f"{alive} of {len(chosen)} alive ({alive / len(chosen):.0%}); {len(every)} in all; seed {wanted.seed}")
    return 1 if alive > ALIVE_AT_MOST * len(chosen) else 0


if __name__ == "__main__":
    sys.exit(main())
