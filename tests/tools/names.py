"""Functions whose whole name is a participle, a preposition or a pronoun, like ``told`` or ``of``: it does not say what
the function does or returns. A verb does, or the noun of what it returns.

``python -m tests.tools.names`` lists all of them; ``--check`` fails if there is one.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.tools.rooms import PACKAGES, ROOT

BARE = re.compile(
    "[a-z]+(ed|een|own|aken|iven|ound|eld)"
    "|begun|chosen|done|gone|kept|left|lost|made|meant|met|said|sent|spent|stood|told"
    "|among|apart|at|away|before|behind|beside|by|from|here|in|inside|of|off|on|out|outside|over|own|since|than|there"
    "|under|until|up|upon|with|within"
    "|all|any|both|each|every|it|its|less|more|most|none|others?|some|such|th(at|em|ese|ey|is|ose)|wh(at|ere|ich|om?|ose)"
)
NOT_BARE = re.compile("bed|bound|exceed|feed|field|need|proceed|round|seed|shed|speed|yield")  # that look like one


def is_bare(name: str) -> bool:
    """Is the whole name, but for underscores around it, a participle, a preposition or a pronoun?"""
    word = name.strip("_")
    return bool(BARE.fullmatch(word)) and not NOT_BARE.fullmatch(word)


def bare_names(root: Path = ROOT) -> Iterator[str]:
    """``path:line: name`` of each function with a bare name."""
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and is_bare(node.name):
                yield f"{path.relative_to(root)}:{node.lineno}: {node.name}"


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="exit 1 if a function has a bare name")
    found = list(bare_names())
    if not parser.parse_args(argv).check:
        print("\n".join(found))
    elif found:
        sys.exit("\n".join(f"{place}: say what it does (a verb) or returns (a noun)" for place in found))


if __name__ == "__main__":
    main()
