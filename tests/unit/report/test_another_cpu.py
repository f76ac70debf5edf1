"""A report says the same on every CPU, by which NumPy, BLAS and the C library choose their code: the last digits."""

import json
import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from runner.data.numbers import same
from tests.unit.findings_worlds import WORLDS

RESULTS = Path(__file__).parents[3] / "results"
FORMS = ("md", "term", "json")
SMALL = ("crypto_matrix", "load")  # in the gate
# The plain worlds of the findings are full of equal values, which is where a last digit would make an order.
PRINT = """
import sys
from runner.report.forms.markdown import markdown_text
from tests.unit.findings_worlds import made
from tests.unit.whole_report import build
for name in sys.argv[1:]:
    print(markdown_text(build(*made(name))))
"""
FOUND = 'import numpy; print(*numpy.show_config("dicts")["SIMD Extensions"].get("found", []))'


@cache
def said(argv: tuple[str, ...], off: tuple[tuple[str, str], ...] = ()) -> str:
    environment = {**os.environ, "COLUMNS": "160", "NO_COLOR": "1", **dict(off)}
    done = subprocess.run([sys.executable, *argv], env=environment, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The sets of instructions that this machine has and NumPy has code of its own for, the oldest first.
CHOSEN = said(("-c", FOUND)).split()
NONE_CHOSEN = pytest.mark.skipif(not CHOSEN, reason="NumPy has one code only for this CPU: nothing can be switched off")
EVERY = [pytest.param(CHOSEN[at:], id=f"without-{CHOSEN[at]}") for at in range(len(CHOSEN))]


def without(names: list[str]) -> dict[str, str]:
    """The environment in which NumPy does without these sets of instructions. Without all of them it is an old machine:
    BLAS and the C library do without theirs, too."""
    off = {"NPY_DISABLE_CPU_FEATURES": " ".join(names)}
    if names == CHOSEN and platform.machine() == "x86_64":
        off |= {"OPENBLAS_CORETYPE": "Nehalem", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"}
    return off


def said_the_same(argv: tuple[str, ...], names: list[str]) -> None:
    here, there = said(argv), said(argv, tuple(without(names).items()))
    assert len(here) > 1000
    if "json" in argv:  # which has every digit
        assert_equal(json.loads(here), json.loads(there))
    else:
        assert there == here


def assert_equal(a: Any, b: Any, where: str = "") -> None:
    """Equal in everything but the last digits of numbers."""
    if isinstance(a, float) and isinstance(b, float):
        assert same(a, b), where
    elif isinstance(a, dict | list) and type(a) is type(b):
        items = [(str(n), *both) for n, both in enumerate(zip(a, b, strict=True))] if isinstance(a, list) else None
        assert items is not None or [*a] == [*b], where
        for name, one, other in items or [(name, a[name], b[name]) for name in a]:
            assert_equal(one, other, f"{where}/{name}")
    else:
        assert a == b, where


@NONE_CHOSEN
@pytest.mark.parametrize("names", EVERY)
def test_what_is_switched_off_is_off(names: list[str]) -> None:
    assert said(("-c", FOUND), tuple(without(names).items())).split() == CHOSEN[: len(CHOSEN) - len(names)]


@NONE_CHOSEN
@pytest.mark.parametrize("names", EVERY[:1])
@pytest.mark.parametrize(
    "world", [pytest.param(one, marks=[] if one in SMALL else [pytest.mark.slow]) for one in WORLDS]
)
def test_orders_of_equal_values_are_the_same(world: str, names: list[str]) -> None:
    said_the_same(("-c", PRINT, world), names)


@NONE_CHOSEN
@pytest.mark.parametrize("form", ["json", *(pytest.param(form, marks=pytest.mark.slow) for form in ("md", "term"))])
def test_the_example_is_reported_the_same(form: str) -> None:
    said_the_same(("-m", "runner", "report", str(RESULTS / "examples" / "two-cores-quick"), "--format", form), CHOSEN)


@NONE_CHOSEN
@pytest.mark.slow
@pytest.mark.parametrize("names", EVERY)
@pytest.mark.parametrize("form", [*FORMS, "findings"])
def test_every_shipped_run_is_reported_the_same(form: str, names: list[str]) -> None:
    for folder in ("papers",) if form == "findings" else ("papers", "examples"):
        said_the_same(("-m", "runner", "report", str(RESULTS / folder), "--format", form), names)
