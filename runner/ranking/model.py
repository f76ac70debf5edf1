"""What a ranking is, as plain data: weights, places, verdicts, and what each machine of a farm says."""

from __future__ import annotations

from functools import cached_property
from typing import Literal

from runner.data.kinds import Strict
from runner.evidence.model import Configuration

Decision = Literal["better", "worse", "same", "undecided"]
LEVEL = 0.05  # of one false verdict or more among all of a run
NO_INTERVAL = "too few measurements in common"


class Weights(Strict):
    """Metric -> weight (no unit; only proportions matter, zero means not counted), and whose they are."""

    name: str
    values: dict[str, float]

    @property
    def counted_metrics(self) -> dict[str, float]:
        """The metrics that count: those with a weight above zero."""
        return {metric: weight for metric, weight in self.values.items() if weight > 0}


class Slack(Strict):
    """How far the weight of ``metric`` may move, the others kept, before another VPN than those in the first
    place leads. ``low`` and ``high`` are weights; ``high`` is None where no weight is too large, and ``low``
    is 0 where none is too small. ``below`` and ``above`` name who leads beyond."""

    metric: str
    weight: float
    low: float
    high: float | None
    below: list[str] = []
    above: list[str] = []


class Standing(Strict):
    """One VPN in a ranking. ``ranks``: its expected rank in every metric that it delivers; ``average``: their weighted
    average; it, ``place`` and ``best_probability`` are None where the VPN is not ranked. ``missing`` maps the weighted
    metrics that it lacks to the reason, and ``causes`` to the reason's kind, where that says what helps. ``at_least``
    are those known from below only, in one block or more. ``place_interval``: from which to which place 95 % of the
    draws put it; ``ties``: the ranked VPNs that may as well stand before it as behind. ``lost``: metric -> repetitions
    in which it failed, or which its file lacks; there it stands behind the others."""

    vpn: str
    levels: dict[str, str]
    ranks: dict[str, float]
    blocks: dict[str, int]
    average: float | None = None
    place: int | None = None
    best_probability: float | None = None
    place_interval: tuple[int, int] | None = None
    ties: list[str] = []
    at_least: list[str] = []
    missing: dict[str, str] = {}
    causes: dict[str, str] = {}
    lost: dict[str, int] = {}


class Pair(Strict):
    """Two neighbours of a ranking, in their order. ``probability`` is the share of the draws in which ``first`` has
    the lower average, ``equal`` the share in which both are equal; None where nothing could be drawn.
    ``separated``: ``first`` is ahead in 95 % of the draws or more, and not less likely to be best; draws in which both
    are equal say nothing for the order."""

    first: str
    second: str
    probability: float | None = None
    equal: float | None = None
    separated: bool = False


class Ranking(Strict):
    """The ranking of one named configuration. ``standings``: the ranked by place, then the unranked by
    name. ``traffic`` is what each metric was measured with; ``titles``: of what was measured or counts; ``image`` the
    gateways' software, if a factor.
    ``pairs`` are the ranked VPNs and the next after each; ``slack`` has the counted metrics, see there."""

    configuration: str
    image: str
    weights: Weights
    traffic: dict[str, dict[str, str]]
    titles: dict[str, str]
    standings: list[Standing]
    pairs: list[Pair]
    slack: list[Slack]
    method: str
    probability_method: str

    @property
    def as_configured(self) -> Configuration:
        """The tunnels and the traffic that it compares, the VPNs in its order."""
        levels = {standing.vpn: standing.levels for standing in self.standings}
        return Configuration(self.configuration, self.image, levels, self.traffic)


class Verdict(Strict):
    """What a run says of ``a`` against ``b`` in one metric of one ranking.

    ``ratio``: a's value over b's, with its 95 % interval ``low`` to ``high``; None where there is none.
    ``decisive_low`` to ``decisive_high``: the interval that decides, at the ``level`` that all pairs of the run leave
    for this one; of the same, at twice that, as two one-sided tests have it. ``margin``: up to this factor both are the
    same. ``blocks``: the rounds or repetitions that they share. ``seconds``: undecided only, for about how many seconds
    more both would have to be measured; None where that cannot be told. ``reason``: why it is undecided, where more
    time alone does not help. ``a_bps``, ``b_bps``: of a cost, the rate that it was measured at, where that is known.
    """

    configuration: str
    image: str
    metric: str
    a: str
    b: str
    decision: Decision
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    decisive_low: float | None = None
    decisive_high: float | None = None
    margin: float
    blocks: int = 0
    level: float = LEVEL
    seconds: float | None = None
    reason: str = ""
    a_bps: float | None = None
    b_bps: float | None = None

    @cached_property
    def other_way(self) -> Verdict:
        """The same verdict, of ``b`` against ``a``. It is kept: each form asks for it anew."""
        inverse: dict[Decision, Decision] = {"better": "worse", "worse": "better"}
        ends = (self.ratio, self.high, self.low, self.decisive_high, self.decisive_low)
        names = ("ratio", "low", "high", "decisive_low", "decisive_high")
        inverted = {name: None if end is None else 1 / end for name, end in zip(names, ends, strict=True)}
        decision = inverse.get(self.decision, self.decision)
        rates = {"a_bps": self.b_bps, "b_bps": self.a_bps}
        return self.model_copy(update={"a": self.b, "b": self.a, "decision": decision, **inverted, **rates})


class MachineRatio(Strict):
    """The leader's value over the second's in one metric on one machine, with its 95 % interval."""

    metric: str
    ratio: float
    low: float
    high: float


class OneMachine(Strict):
    """What one machine says. ``leader``: the VPN with the lowest weighted average rank there; ``blocks``: its shared
    rounds or repetitions; ``stands_out``: sentences, where it differs from the others by more than chance."""

    machine: str
    blocks: int
    leader: str
    ratios: list[MachineRatio]
    stands_out: list[str] = []


class OnMachines(Strict):
    """One ranking, machine by machine; ``first`` and ``second`` are its places 1 and 2."""

    configuration: str
    image: str
    first: str
    second: str
    titles: dict[str, str]
    machines: list[OneMachine]

    @property
    def elsewhere(self) -> list[OneMachine]:
        """The machines on which another VPN leads."""
        return [machine for machine in self.machines if machine.leader != self.first]


class Agreement(Strict):
    """One order of the same VPNs in two runs. ``what`` is a metric, or ``weighted`` for the weighted average rank.

    ``tau_b``: Kendall's tau-b (Biometrika 33(3), 1945), 1 for the same order with the same ties, None where all VPNs
    tie in one of the runs. ``groups``: how many groups each run tells apart, see ``_groups``.
    """

    configuration: str
    what: str
    vpns: list[str]
    tau_b: float | None
    groups: tuple[int, int]

    @property
    def tell(self) -> str:
        """Tau-b and the groups of either run, in one phrase."""
        tau = "no tau-b: all tie" if self.tau_b is None else f"Kendall's tau-b {self.tau_b:.2f}"
        return f"{tau}; separated groups: {self.groups[0]} before, {self.groups[1]} after"
