"""What a finding claims of an order of VPNs: that it is the same in almost every test, or in every one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from types import MappingProxyType

from runner.evidence.stats import compare_blocks
from runner.papers.claims import MORE, At, all_of, measured_of, ratio_of
from runner.papers.findings import Blocks, Data, Ends, Judgement, NotMeasured
from runner.papers.shares import share_of


@dataclass(frozen=True)
class Orders:
    """Of each two VPNs that a plain test tells apart, the one that is ahead there over the other in another test.

    ``parts``: "pair, test" -> that ratio, above 1 where the order is the same. ``tests`` and ``whole``: how many other
    tests there are, and how many have all of these pairs."""

    parts: Mapping[str, Judgement]
    vpns: Sequence[str]
    tests: int
    whole: int

    @property
    def note(self) -> str:
        """What a reader has to know where tests are missing."""
        return f"{self.whole} of {self.tests} tests have all pairs" if self.whole < self.tests else ""

    def share(self, data: Data, between: Ends) -> Judgement:
        """The claim that of the pairs that are told apart in the other tests, a share ``between`` two bounds has the
        same order."""
        ends = [(one.low, one.high) for one in self.parts.values() if one.low is not None and one.high is not None]
        held, turned = sum(low > 1 for low, _ in ends), sum(high < 1 for _, high in ends)
        judged = share_of(held, held + turned, between).model_copy(update={"note": self.note})
        return data.check_scale(judged, *self.vpns)

    def every_pair(self, data: Data) -> Judgement:
        """The claim that each pair has the same order in each test."""
        judged = all_of({name: partial(_itself, one) for name, one in self.parts.items()})
        return judged.model_copy(update={"note": self.note})


def _itself(judgement: Judgement) -> Judgement:
    return judgement


def orders(
    data: Data,
    metric: str,
    vpns: Sequence[str],
    first: Mapping[str, str],
    more: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Orders:
    """The orders of ``vpns`` in all cells of ``metric`` and those of ``more`` (metric -> its levels), against that in
    the cell ``first``. Raises NotMeasured with fewer than three VPNs, and where no pair that ``first`` tells apart was
    measured in another cell."""
    able = measured_of(data, metric, vpns)
    if len(able) < 3:
        raise NotMeasured(f"an order needs three VPNs; measured: {', '.join(able) or 'none'}")
    model = {vpn: data.blocks(metric, vpn, **first) for vpn in able}
    ahead = {(a, b): _ahead(model[a], model[b]) for a, b in combinations(able, 2)}
    pairs = [(a, b) if first_leads else (b, a) for (a, b), first_leads in ahead.items() if first_leads is not None]
    seen = {tuple(t.params[f] for f in first) for t in data.trials if {*first} <= t.params.keys() and t.vpn in able}
    others = [(metric, dict(zip(first, test, strict=True))) for test in sorted(seen - {tuple(first.values())})]
    tests = [*others, *more.items()]
    parts: dict[str, Judgement] = {}
    whole = 0
    for measured, levels in tests:
        name = ", ".join(level for factor, level in levels.items() if first.get(factor) != level)
        mine = {}
        for a, b in pairs:
            with suppress(NotMeasured):
                mine[f"{a} over {b}, {name}"] = ratio_of(measured, At(a, levels), At(b, levels), MORE)(data)
        whole += bool(mine) and len(mine) == len(pairs)
        parts |= mine
    if not parts:
        raise NotMeasured("no two VPNs that the plain test tells apart were measured together in another test")
    return Orders(parts, able, len(tests), whole)


def _ahead(a: Blocks, b: Blocks) -> bool | None:
    """Is ``a`` above ``b``? None where the blocks that they share do not tell the two apart."""
    if not a.keys() & b.keys():
        return None
    ratio = compare_blocks(a, b)
    return (ratio.ratio or 0) > 1 if ratio.significant else None
