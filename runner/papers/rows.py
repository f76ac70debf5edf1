"""Findings as rows of results/published/PAPER.toml: what a paper found, the cells that show it, and the claim's bound.

A row has a ``kind``: the ratio of two cells, the value of one, or a function of runner/papers/judges/ with the name of
the row's experiment. Each is checked as it is read (docs/add-a-paper.md). The rows of a folder of the user's own
(findings.toml) name no function and no file, so that nothing of it is executed, or offered to be (decision 0127).
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from runner.data.asked import AskedRun
from runner.data.errors import UsageError
from runner.data.files import from_toml, is_there, read_text
from runner.data.kinds import SAID, Level, Line, MetricName, Name, Strict
from runner.data.levels import RANKED_AT
from runner.data.rows import first_of
from runner.papers.claims import KERNEL_ESP, LESS, MORE, At, all_of, close, on_ipsec, opposite, ratio_of, single
from runner.papers.conditions import CONDITIONS, DRIVERS, Condition, Driver, unlike
from runner.papers.findings import Data, Ends, Finding, Judgement
from runner.papers.published import MOST_BYTES, file_of, is_outside, paper

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
BOUND = re.compile(rf"more|less|({'|'.join(OF_A_NUMBER)}) [0-9]*[.]?[0-9]+")
BRACES = re.compile(r"{(\w*)}")
WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:@+=-]*")  # of a command: a name, or a factor=level
MOST_ROWS = MOST_PAIRS = 1000
CELL = re.compile(r"[^\s=]+( [a-z0-9_]+=[^\s=]+)*")


class Row(Finding):
    """A finding with its judge.

    ``beside``: what stands for IPsec in a second judgement, which is shown beside the first; ``beside_note``: what
    makes it another mechanism there. ``driver``: ``one`` where all systems have to encrypt by the same kind of driver,
    ``any`` where a VPN is compared with itself. ``conditions``: what else is asked of a run, in this order.
    ``incomparable``: why no verdict can be given, whatever is measured.
    """

    beside: Literal["", "ipsec_user"] = ""
    beside_note: Line = ""
    driver: Driver = ""
    conditions: list[Condition] = []
    incomparable: Line = ""

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

    ``levels``: those that a cell has where it says no other; of ``46|64`` it has the first that was measured. A TCP
    stream is the usual one where neither says otherwise.
    ``published``: the paper's number, or two of which it is the ratio, by their names in PAPER.json. ``systems``: what
    was measured without a plugin, in words."""

    metric: MetricName
    levels: Line = ""
    bound: Line | Ends
    published: Name | tuple[Name, Name] | None = None
    systems: list[Line] = []

    @field_validator("bound")
    @classmethod
    def _check_bound(cls, bound: str | Ends) -> str | Ends:
        right = BOUND.fullmatch(bound) if isinstance(bound, str) else bound[0] < bound[1]
        if not right or (isinstance(bound, str) and bound.endswith(" 0")):
            raise ValueError(f"{bound!r} is no bound; it may be {BOUNDS}, the lower first")
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
        if not stated[b]:
            raise ValueError(f"published: {b} is 0, and nothing is divided by it")
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
        read = [(ipsec if vpn == KERNEL_ESP else vpn, _with_usual(common | own)) for vpn, own in map(_read, cells)]
        measured = partial(_all_measured, data, [vpn for vpn, _ in read])
        return [At(vpn, {factor: measured(factor, level) for factor, level in own.items()}) for vpn, own in read]


def _read(cell: str) -> tuple[str, dict[str, str]]:
    """The VPN of a cell, and its levels."""
    vpn, *levels = cell.split(" ")
    return vpn, dict(level.split("=", 1) for level in levels)


def _with_usual(levels: Mapping[str, str]) -> dict[str, str]:
    """The levels, with the usual ones of what is measured where they name none."""
    return {**RANKED_AT.get(levels.get("measure", ""), {}), **levels}


def _all_measured(data: Data, vpns: Sequence[str], factor: str, level: str) -> str:
    """Of ``46|64`` the first level that each of these VPNs was measured at, else the last."""
    *first, last = level.split("|")
    return next((one for one in first if all(one in data.levels(factor, vpn) for vpn in vpns)), last)


class Ratio(OfCells):
    """The claim that the metric at cell ``a`` over that at cell ``b`` lies within the bound; or that it does in each of
    ``pairs``, each by its name. ``each``: names in braces there, and what they stand for, in every combination."""

    kind: Literal["ratio"]
    a: Line = ""
    b: Line = ""
    pairs: dict[Line, tuple[Line, Line]] = {}
    each: dict[Name, list[Level]] = {}

    @model_validator(mode="before")
    @classmethod
    def _two_cells_or_pairs(cls, row: Any) -> Any:
        has = [bool(row.get(name)) for name in ("a", "b", "pairs")]
        if has not in ([True, True, False], [False, False, True]):
            raise ValueError("a ratio has the cells a and b, or pairs")
        return row

    def named_pairs(self) -> dict[str, tuple[str, str]]:
        """The pairs, with each name in braces filled in."""
        pairs = self.pairs or {"": (self.a, self.b)}
        if (many := len(pairs) * math.prod(map(len, self.each.values()))) > MOST_PAIRS:
            raise ValueError(f"pairs and each make {many} pairs; {MOST_PAIRS} are the most")
        try:
            return {
                _fill(name, words): (_fill(a, words), _fill(b, words))
                for chosen in itertools.product(*self.each.values())
                for words in [dict(zip(self.each, chosen, strict=True))]
                for name, (a, b) in pairs.items()
            }
        except KeyError as missing:
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


def _fill(text: str, words: Mapping[str, str]) -> str:
    """The text with what each name in braces stands for. Raises KeyError for one that stands for nothing."""
    return BRACES.sub(lambda name: words[name[1]], text)


class Value(OfCells):
    """The claim that the metric at cell ``a``, a share or a count, lies within the bound."""

    kind: Literal["value"]
    a: Line

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
# What a row of a folder of the user's own may ask of a run: names and numbers, and no files.
ASKED = {"experiments", "vpns", "levels", "profile", "repetitions", "duration_s", "kernel", "image"}


class _File(Strict):
    """``every``: of an experiment, what each of its rows has; ``runs``: what rows ask of a run, by its name."""

    finding: list[dict[str, Any]] = Field(default=[], max_length=MOST_ROWS)
    every: dict[str, dict[str, Any]] = {}
    runs: dict[str, dict[str, Any]] = {}

    def run_of(self, run: Any, row: Mapping[str, Any]) -> Any:
        """What a row asks of a run, or names: the row's experiment, where nothing else is said."""
        if isinstance(run, str) and run not in self.runs:
            raise ValueError(f"no run {run!r:.60}; [runs] has {', '.join(self.runs) or 'none'}")
        asked = self.runs[run] if isinstance(run, str) else run
        return {"experiments": row.get("experiment", "")} | asked if isinstance(asked, dict) else asked


@cache
def rows_of(name: str) -> tuple[Row, ...]:
    """The findings of a paper, in their order; empty where it has no file of them. Raises UsageError with the row, and
    what is wrong in it."""
    path = file_of(name, "toml")
    if not is_there(path):
        return ()
    try:
        read = _File.model_validate(from_toml(read_text(path, MOST_BYTES)))
    except ValidationError as wrong:
        raise UsageError(f"{path}: {first_of(wrong)}") from wrong
    except ValueError as wrong:
        raise UsageError(f"{path} is no TOML: {wrong}") from wrong
    rows = tuple(_row(name, number, raw, read) for number, raw in enumerate(read.finding, 1))
    keys = [(row.experiment, row.id) for row in rows]
    if twice := sorted({"/".join(one) for one in keys if keys.count(one) > 1}):
        raise UsageError(f"{path}: named twice: {', '.join(twice)}; give each finding an id of its own")
    return rows


def _row(name: str, number: int, raw: Mapping[str, Any], read: _File) -> Row:
    """A row, with what each row of its experiment has, and its runs by their names."""
    where = f"{file_of(name, 'toml')}, finding {number} ({raw.get('id', 'without an id')!s:.60})"
    kinds = {word: kind for word, kind in KINDS.items() if kind is not Computed or not is_outside(name)}
    every = read.every.get(str(raw.get("experiment")), {})
    asked_kind = raw.get("kind", every.get("kind"))
    if not (kind := kinds.get(str(asked_kind))):
        own = "; a paper in a folder of your own names no code" * is_outside(name)
        raise UsageError(f"{where}: kind is {asked_kind!r:.60}; it may be {', '.join(map(repr, kinds))}{own}")
    common = {field: value for field, value in every.items() if field in kind.model_fields}

    given = {**common, **raw, "paper": name}
    try:
        if "run" in given:
            given["run"] = read.run_of(given["run"], given)
        if isinstance(elsewhere := given.get("elsewhere"), list):
            given["elsewhere"] = [read.run_of(run, given) for run in elsewhere]
        row = kind.model_validate(given)
        if is_outside(name):
            _require_names(row)
    except ValidationError as wrong:
        raise UsageError(f"{where}: {'; '.join(map(_complaint, wrong.errors()))}") from wrong
    except ValueError as wrong:
        raise UsageError(f"{where}: {wrong}") from wrong
    except UsageError as wrong:
        raise UsageError(f"{where}: published: {wrong}") from wrong
    return row


def _complaint(error: ErrorDetails) -> str:
    """What is wrong, after the field that it is in."""
    if said := SAID.get(error.get("ctx", {}).get("pattern", "")):
        message = f"{error['input']!r:.60} {said}"
    else:
        message = error["msg"].removeprefix("Value error, ")
    return ": ".join([*filter(None, [".".join(map(str, error["loc"]))]), message])


def _require_names(row: Row) -> None:
    """Raise ValueError where a row asks a run for anything but names, levels and numbers."""
    for asked in filter(None, (row.run, *row.elsewhere)):
        given = {field: value for field, value in asked if value != AskedRun.model_fields[field].default}
        if more := sorted(given.keys() - ASKED):
            raise ValueError(f"run: {', '.join(more)} cannot be asked for by a paper; {', '.join(sorted(ASKED))} can")
        lists = [[value] if isinstance(value, str) else value for value in given.values() if not isinstance(value, int)]
        for word in itertools.chain.from_iterable(lists):
            if not WORD.fullmatch(word) or word.endswith(".py"):
                raise ValueError(f"run: {word!r:.60} is no name and no level; a paper names no files")
