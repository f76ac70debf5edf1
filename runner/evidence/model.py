"""What is known of a run's values, as plain data: a summary, a ratio, its components, and what a run compares."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from runner.data.kinds import Strict
from runner.data.metric import Metric
from runner.data.remarks import Kind

ALL_EQUAL = "all repetitions equal"  # the method of an interval without width
Blocks = Mapping[int, float]  # block -> value


class Summary(Strict):
    """The repetitions of one metric in one cell; everything but ``n`` and ``variation`` in the metric's unit.

    ``low`` and ``high`` bound the median with 95 % confidence and are None for one repetition; ``method``
    names how they were made. ``variation`` is the coefficient of variation (sample standard deviation over
    mean; the thesis' appendix tables), None for one repetition or a mean of zero.
    """

    n: int
    median: float
    mean: float
    low: float | None
    high: float | None
    variation: float | None
    method: str


class Ratio(Strict):
    """One quantity over another: geometric mean of the ratios within shared blocks, with a 95 % interval.

    ``ratio`` is None without a shared block, the bounds are None with fewer than two. ``significant``: the
    interval excludes 1.
    """

    blocks: int
    ratio: float | None
    low: float | None
    high: float | None
    significant: bool
    method: str


class Drift(Strict):
    """How one metric of the baseline moved within the blocks. ``params`` are the baseline's levels.

    ``last`` is the last over the first baseline of a block; ``between`` is the one between them over the
    geometric mean of both, which sees what comes and goes. ``moved``: one of them by more than its interval.
    """

    metric: str
    params: dict[str, str]
    last: Ratio
    between: Ratio
    moved: bool

    @property
    def is_judged(self) -> bool:
        """Are there at least two blocks to judge the drift by?"""
        return self.last.blocks > 1


class Components(Strict):
    """Where the spread of a metric comes from: standard deviations of logarithms, so about shares of 1.

    ``slice``: of one slice, with the round's and the instance's part taken off; ``round``: what moves all VPNs of a
    round alike; ``instance``: between the instances of one VPN's tunnel, None where the run has one of each.
    ``autocorrelation``: by how much the neighbourhood of rounds multiplies a variance.
    """

    slice: float
    round: float
    instance: float | None
    autocorrelation: float


class Why(NamedTuple):
    """Why a VPN has no value of a metric, in words; ``cause``: the kind of remark that says what helps, or ""."""

    words: str
    cause: Kind | Literal[""] = ""


@dataclass(frozen=True)
class Configuration:
    """A named configuration, as a run compares it: by gateway ``image``, where that is a factor. ``levels``: VPN -> its
    tunnel, of all that are not references; ``traffic``: metric -> what it was measured with, by which it is compared.
    ``metrics``: what each metric of the run is, in the order that all else here has, too; ``values``: metric -> VPN ->
    block -> value; ``bounds``: the blocks in which it is a lower bound; ``lost``: the repetitions in which it has no
    value although it was measured or was to be, where there are some; ``seconds``: metric -> VPN -> how long it was
    measured; ``why``: VPN -> metric -> why it has no value. ``seed``: of the run, for draws."""

    configuration: str
    image: str
    levels: Mapping[str, dict[str, str]]
    traffic: Mapping[str, dict[str, str]]
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    values: Mapping[str, Mapping[str, Blocks]] = field(default_factory=dict)
    bounds: Mapping[str, Mapping[str, Set[int]]] = field(default_factory=dict)
    lost: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    seconds: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    why: Mapping[str, Mapping[str, Why]] = field(default_factory=dict)
    seed: int = 0
