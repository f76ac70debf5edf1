"""Findings as rows of results/published/PAPER.toml: what a paper found, the cells that show it, and the claim's bound.

A row has a ``kind``: the ratio of two cells, the value of one, or a function of runner/papers/judges/ with the name of
the row's experiment. Each is checked as it is read (docs/add-a-paper.md).
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, TypeAdapter, ValidationError, field_validator, model_validator

from runner.data.errors import UsageError
from runner.papers import published
from runner.papers.claims import KERNEL_ESP, LESS, MORE, At, all_of, close, on_ipsec, opposite, ratio_of, single
from runner.papers.conditions import CONDITIONS, DRIVERS, Condition, Driver, unlike
from runner.papers.findings import Data, Ends, Finding, Judgement
from runner.papers.published import paper

BOUNDS = (
    "more, less, close 0.1 (within 10 % of 1), apart 0.1 (not so), as high 0.1 (at most 10 % below), within 1.2 (of "
    "the published number, by this factor), or two numbers"
)
OF_A_NUMBER: Mapping[str, Callable[[float, float], Ends]] = {  # word -> bounds by its number and the published one
    "close": lambda share, _: close(share),
    "apart": lambda share, _: close(share),
    "as high": lambda share, _: (1 / (1 + share), math.inf),
    "within": lambda factor, stated: (stated / factor, stated * factor),
}
BOUND = re.compile(rf"more|less|({'|'.join(OF_A_NUMBER)}) [0-9.]+")
CELL = re.compile(r"[^\s=]+( [a-z0-9_]+=[^\s=]+)*")


class Row(Finding):
    """A finding with its judge.

    ``beside``: what stands for IPsec in a second judgement, which is shown beside the first; ``beside_note``: what
    makes it another mechanism there. ``driver``: ``one`` where all systems have to encrypt by the same kind of driver,
    ``any`` where a VPN is compared with itself. ``conditions``: what else is asked of a run, in this order.
    ``incomparable``: why no verdict can be given, whatever is measured.
    """

    beside: Literal["", "ipsec_user"] = ""
    beside_note: str = ""
    driver: Driver = ""
    conditions: list[Condition] = []
    incomparable: str = ""

    def judge(self, data: Data) -> Judgement:
        """The verdict on a run's data, under all conditions."""
        judge = on_ipsec(self._measure, self.beside_note) if self.beside else partial(self._measure, KERNEL_ESP)
        for condition in (DRIVERS[self.driver], *map(CONDITIONS.__getitem__, self.conditions)):
            judge = condition(judge)
        return judge(data)

    def _measure(self, ipsec: str, data: Data) -> Judgement:
        measured = self.measure(ipsec, data)
        return unlike(measured, "unlike", self.incomparable) if self.incomparable else measured

    def measure(self, ipsec: str, data: Data) -> Judgement:
        """The judgement where ``ipsec`` is the VPN that stands for the paper's IPsec."""
        raise NotImplementedError


class OfCells(Row):
    """A finding about ``metric`` at cells, each a VPN and its levels: ``openvpn cipher=aes-128-cbc``.

    ``levels``: those that a cell has where it says no other; of ``46|64`` it has the first that was measured.
    ``published``: the paper's number, or two of which it is the ratio, by their names in PAPER.json. ``systems``: what
    was measured without a plugin, in words."""

    metric: str
    levels: str = ""
    bound: str | Ends
    published: str | tuple[str, str] | None = None
    systems: list[str] = []

    @field_validator("bound")
    @classmethod
    def _check_bound(cls, bound: str | Ends) -> str | Ends:
        if isinstance(bound, str) and not BOUND.fullmatch(bound):
            raise ValueError(f"{bound!r} is no bound; it may be {BOUNDS}")
        return bound

    @model_validator(mode="after")
    def _cells_are_readable(self) -> OfCells:
        for cell in (f"any {self.levels}".rstrip(), *self.cells()):
            if not CELL.fullmatch(cell):
                raise ValueError(f"{cell!r} is no cell; write a VPN and its levels: openvpn cipher=aes-128-cbc")
        self.published_number()
        self.ends()
        return self

    def cells(self) -> Iterable[str]:
        """All cells, as written."""
        raise NotImplementedError

    def published_number(self) -> float | None:
        """The paper's own number; a share where it states one in percent."""
        if not self.published:
            return None
        stated = paper(self.paper)
        if isinstance(self.published, str):
            return stated.share(self.published)
        a, b = self.published
        return stated[a] / stated[b]

    def ends(self) -> Ends:
        """The two bounds of the claim."""
        if not isinstance(self.bound, str):
            return self.bound
        if whole := {"more": MORE, "less": LESS}.get(self.bound):
            return whole
        word, _, number = self.bound.rpartition(" ")
        stated = self.published_number()
        if word == "within" and stated is None:
            raise ValueError(f"bound {self.bound!r} is about the paper's number: name it in published")
        return OF_A_NUMBER[word](float(number), stated or 0.0)

    def placed_cells(self, ipsec: str, data: Data, *cells: str) -> list[At]:
        """The cells, where ``ipsec`` stands for the paper's IPsec."""
        _, common = _read(f"any {self.levels}".rstrip())
        read = [(ipsec if vpn == KERNEL_ESP else vpn, common | own) for vpn, own in map(_read, cells)]
        measured = partial(_all_measured, data, [vpn for vpn, _ in read])
        return [At(vpn, {factor: measured(factor, level) for factor, level in own.items()}) for vpn, own in read]


def _read(cell: str) -> tuple[str, dict[str, str]]:
    """The VPN of a cell, and its levels."""
    vpn, *levels = cell.split(" ")
    return vpn, dict(level.split("=", 1) for level in levels)


def _all_measured(data: Data, vpns: Sequence[str], factor: str, level: str) -> str:
    """Of ``46|64`` the first level that each of these VPNs was measured at, else the last."""
    *first, last = level.split("|")
    return next((one for one in first if all(one in data.levels(factor, vpn) for vpn in vpns)), last)


class Ratio(OfCells):
    """The claim that the metric at cell ``a`` over that at cell ``b`` lies within the bound; or that it does in each of
    ``pairs``, each by its name. ``each``: names in braces there, and what they stand for, in every combination."""

    kind: Literal["ratio"]
    a: str = ""
    b: str = ""
    pairs: dict[str, tuple[str, str]] = {}
    each: dict[str, list[str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _two_cells_or_pairs(cls, row: Any) -> Any:
        has = [bool(row.get(name)) for name in ("a", "b", "pairs")]
        if has not in ([True, True, False], [False, False, True]):
            raise ValueError("a ratio has the cells a and b, or pairs")
        return row

    def named_pairs(self) -> dict[str, tuple[str, str]]:
        """The pairs, with each name in braces filled in."""
        try:
            return {
                name.format(**words): (a.format(**words), b.format(**words))
                for chosen in itertools.product(*self.each.values())
                for words in [dict(zip(self.each, chosen, strict=True))]
                for name, (a, b) in (self.pairs or {"": (self.a, self.b)}).items()
            }
        except (KeyError, IndexError, ValueError) as missing:
            raise ValueError(f"pairs name {missing} in braces; each has {', '.join(self.each) or 'nothing'}") from None

    def cells(self) -> Iterable[str]:
        """Those of all pairs."""
        return itertools.chain.from_iterable(self.named_pairs().values())

    def measure(self, ipsec: str, data: Data) -> Judgement:
        """The judgement of the one ratio, or of all."""
        between, published = self.ends(), self.published_number()
        parts = {}
        for name, pair in self.named_pairs().items():
            a, b = self.placed_cells(ipsec, data, *pair)
            parts[name] = partial(ratio_of(self.metric, a, b, between, published), data)
        judged = all_of(parts) if self.pairs else parts[""]()
        if isinstance(self.bound, str) and self.bound.startswith("apart"):
            judged = opposite(judged)
        return judged.with_systems(*self.systems) if self.systems else judged


class Value(OfCells):
    """The claim that the metric at cell ``a``, a share or a count, lies within the bound."""

    kind: Literal["value"]
    a: str

    def cells(self) -> Iterable[str]:
        """The one."""
        return (self.a,)

    def measure(self, ipsec: str, data: Data) -> Judgement:
        """The judgement of the value."""
        (at,) = self.placed_cells(ipsec, data, self.a)
        values = data.blocks(self.metric, at.vpn, **at.levels)
        return single(values, self.ends(), self.published_number()).with_systems(at.vpn)


class Computed(Row):
    """The claim that a function of runner/papers/judges/EXPERIMENT.py judges, with what it is ``given``."""

    kind: Literal["function"]
    function: str
    given: dict[str, Any] = {}

    @model_validator(mode="after")
    def _there_is_one(self) -> Computed:
        module = f"runner.papers.judges.{self.experiment}"
        try:
            there = importlib.import_module(module)
        except ModuleNotFoundError:
            raise ValueError(f"function {self.function!r}: there is no {module}") from None
        function = getattr(there, self.function, None)
        if not inspect.isfunction(function):
            known = [name for name, one in inspect.getmembers(there, inspect.isfunction) if one.__module__ == module]
            raise ValueError(f"there is no function {self.function!r} in {module}; it has {', '.join(known)}")
        try:
            inspect.signature(function, follow_wrapped=False).bind(*[None] * (1 + bool(self.beside)), **self.given)
        except TypeError as wrong:
            raise ValueError(f"function {self.function!r} does not take what it is given: {wrong}") from None
        return self

    def measure(self, ipsec: str, data: Data) -> Judgement:
        """What the function says: of ``ipsec``, where the row has something beside it."""
        function = getattr(importlib.import_module(f"runner.papers.judges.{self.experiment}"), self.function)
        judged: Judgement = function(*[ipsec] * bool(self.beside), data, **self.given)
        return judged


KINDS: Mapping[str, type[Row]] = {"ratio": Ratio, "value": Value, "function": Computed}
ROW: TypeAdapter[Ratio | Value | Computed] = TypeAdapter(Annotated[Ratio | Value | Computed, Discriminator("kind")])


@cache
def rows_of(name: str) -> tuple[Row, ...]:
    """The findings of a paper, in their order; empty where it has no file of them. Raises UsageError with the row, and
    what is wrong in it."""
    path = published.FOLDER / f"{name}.toml"
    if not path.is_file():
        return ()
    try:
        read = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as wrong:
        raise UsageError(f"{path} is no TOML: {wrong}") from wrong
    rows = tuple(_row(path, number, raw, read) for number, raw in enumerate(read.get("finding", []), 1))
    names = [(row.experiment, row.id) for row in rows]
    if twice := sorted({"/".join(one) for one in names if names.count(one) > 1}):
        raise UsageError(f"{path}: named twice: {', '.join(twice)}; give each finding an id of its own")
    return rows


def _row(path: Path, number: int, raw: dict[str, Any], read: Mapping[str, Any]) -> Row:
    """A row, with what each row of its experiment has, and its runs by their names."""
    where = f"{path}, finding {number} ({raw.get('id', 'without an id')})"
    every = read.get("every", {}).get(raw.get("experiment"), {})
    kind = KINDS.get(raw.get("kind", ""))
    common = {name: value for name, value in every.items() if kind and name in kind.model_fields}
    runs = read.get("runs", {})

    def run_of(run: str | dict[str, Any]) -> dict[str, Any]:
        if isinstance(run, str) and run not in runs:
            raise UsageError(f"{where}: no run {run!r}; [runs] has {', '.join(runs) or 'none'}")
        return {"experiments": raw.get("experiment", "")} | (runs[run] if isinstance(run, str) else run)

    named = {"run": run_of(raw["run"])} if "run" in raw else {}
    try:
        return ROW.validate_python(
            {**common, **raw, **named, "paper": path.stem, "elsewhere": [*map(run_of, raw.get("elsewhere", []))]}
        )
    except UsageError as wrong:
        raise UsageError(f"{where}: published: {wrong}") from wrong
    except ValidationError as wrong:
        said = "; ".join(
            ": ".join([*filter(None, [".".join(map(str, one["loc"][1:]))]), one["msg"].removeprefix("Value error, ")])
            for one in wrong.errors()
        )
        raise UsageError(f"{where}: {said}") from wrong
