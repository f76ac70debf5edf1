"""Cost against rate: how many cores of the gateways each rate of a ladder takes."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from runner.data.kinds import Strict
from runner.data.levels import BASELINE, beside_plain_ip
from runner.data.trials import Rung, Trial
from runner.evidence.model import Configuration, Summary
from runner.evidence.stats import summarise, summarise_all
from runner.evidence.ties import in_order
from runner.report import text

CARRIED = 0.95  # of a rung, as the instrument says it
PER_CORE = "throughput_per_core"
ABOUT = (
    "At each rate of the ladder: the CPU time of the lab, less what plain IP took for as many bytes in the same round, "
    "over the time that it lasted. Where the gateways are machines of their own, it is theirs. Median of the rounds "
    "and its 95 % interval; “as plain IP” where that cannot be told from 0. A rate that a VPN does not carry here has "
    "the share that came through."
)
ABOUT_PARTS = (
    "Of these cores: what the processes of each gateway had, the kernel's threads (which work for all nodes), and the "
    "rest, which cannot be told apart: the hosts' programs, and the kernel's work on packets, which it charges to "
    "whatever program is running. A VPN in the kernel works in the threads and in the rest."
)
PART = "_cpu_s"  # the end of a part's name
Kind = Literal["tcp", "datagrams"]
KINDS: tuple[tuple[Kind, str], ...] = (("tcp", "TCP"), ("datagrams", "datagrams"))  # with their words


class CoresAt(Strict):
    """One rate of one VPN's ladder: the share that was ``carried`` (median of the rounds), and the ``cores`` of both
    gateways; None where the CPU time or plain IP's is not known. ``parts``: of these, by gateway those of its
    processes, and those of the kernel's ``threads``; empty in older runs and where the machine does not count them."""

    rate_bps: float
    carried: float
    cores: Summary | None
    parts: dict[str, float] = {}

    @property
    def says(self) -> str:
        """The cores with their interval, or how much of the rate came through."""
        if self.carried < CARRIED:
            return f"carries {100 * self.carried:.0f} % of it"
        if self.cores is None:
            return text.NONE
        low, middle, high = self.cores.low, text.digits(self.cores.median), self.cores.high
        if low is None or high is None:
            return f"{middle} (no interval)"
        if low <= 0:
            return f"as plain IP (± {text.digits(max(-low, high))})"
        return f"{middle} ({text.digits(low)}–{text.digits(high)})"

    @property
    def says_parts(self) -> str:
        """The parts, and what is left of the cores."""
        if self.cores is None or not self.parts or self.carried < CARRIED:
            return text.NONE
        every = self.parts | {"rest": self.cores.median - sum(self.parts.values())}
        return ", ".join(f"{name} {cores:.2f}" for name, cores in every.items())


class CoresLadder(Strict):
    """The rates of one VPN, the lowest first, in TCP or in datagrams."""

    vpn: str
    carried: Kind
    rates: list[CoresAt]


def ladders(configuration: Configuration, trials: Sequence[Trial]) -> list[CoresLadder]:
    """The ladders of a configuration's VPNs beside plain IP's, under the same conditions."""
    plain: dict[tuple[tuple[str, str], ...], list[Trial]] = {}
    own: dict[tuple[str, tuple[tuple[str, str], ...]], list[Trial]] = {}
    for trial in trials:
        if not trial.curve or trial.params.get("carried") == "calls":  # at other rates
            continue
        conditions = tuple(sorted(beside_plain_ip(trial.params).items()))
        levels = configuration.levels.get(trial.vpn)
        if trial.vpn == BASELINE:
            plain.setdefault(conditions, []).append(trial)
            continue
        same_image = trial.params.get("image", "") == configuration.image
        if levels and same_image and trial.params.items() >= levels.items():
            own.setdefault((trial.vpn, conditions), []).append(trial)
    return [
        CoresLadder(vpn=vpn, carried=_kind(climbs[0]), rates=_rates(climbs, plain.get(conditions, [])))
        for (vpn, conditions), climbs in own.items()
    ]


def _kind(trial: Trial) -> Kind:
    return "datagrams" if trial.params.get("carried") == "datagrams" else "tcp"


def _rates(own: Sequence[Trial], plain: Sequence[Trial]) -> list[CoresAt]:
    mine, beside = _by_rate(own), _by_rate(plain)
    return [
        CoresAt(
            rate_bps=rate_bps,
            carried=statistics.median(share for rung in rungs for share in _known_values(rung, "carried_ratio")),
            cores=summarise(found) if (found := cores(rungs, beside.get(rate_bps, []))) else None,
            parts=_parts(rungs, beside.get(rate_bps, [])),
        )
        for rate_bps, rungs in sorted(mine.items())
    ]


def _parts(own: Sequence[Rung], plain: Sequence[Rung]) -> dict[str, float]:
    names = sorted({name for rung in own for name in rung.values if name.endswith(PART)})
    found = {name.removesuffix(PART): cores(own, plain, name) for name in names}
    return {name: statistics.median(each) for name, each in found.items() if each}


def _by_rate(trials: Sequence[Trial]) -> dict[float, list[Rung]]:
    rungs: dict[float, list[Rung]] = {}
    for trial in trials:
        for rung in trial.curve:
            rungs.setdefault(rung.rate_bps, []).append(rung)
    return rungs


def _known_values(rung: Rung, name: str) -> list[float]:
    return [value for value in rung.values.get(name, []) if value is not None]


def cores(own: Sequence[Rung], plain: Sequence[Rung], name: str = "cpu_s") -> list[float]:
    """The gateways' cores in each round of these rungs, which are of one rate: the CPU time (the value ``name``) less
    that of plain IP for as many bytes, over the time. Plain IP's is that of the same round, or where it has none its
    median."""
    beside = {
        round_: cpu_s / size for rung in plain for round_, (cpu_s, size, _) in _spent_by_round(rung, name).items()
    }
    if not beside:
        return []
    usual = statistics.median(beside.values())
    return [
        (cpu_s - beside.get(round_, usual) * size) / seconds
        for rung in own
        for round_, (cpu_s, size, seconds) in _spent_by_round(rung, name).items()
    ]


def _spent_by_round(rung: Rung, name: str) -> dict[int, tuple[float, float, float]]:
    """Round -> CPU seconds, bytes, and seconds, where all are known and something was carried."""
    columns = [rung.values.get(what, [None] * len(rung.rounds)) for what in (name, "carried_bytes", "seconds")]
    return {
        round_: (cpu_s, size, seconds)
        for round_, cpu_s, size, seconds in zip(rung.rounds, *columns, strict=True)
        if cpu_s is not None and size and seconds
    }


def table(
    found: Sequence[CoresLadder], carried: Kind, says: Callable[[CoresAt], str] = lambda at: at.says
) -> tuple[list[str], list[list[str]]]:
    """The heads of the columns with cores, and for each VPN its name and the cells below them (what each ``says``); the
    VPN that carries most is first."""
    mine = [ladder for ladder in found if ladder.carried == carried]
    rates = sorted({at.rate_bps for ladder in mine for at in ladder.rates})
    by_vpn: Mapping[str, Mapping[float, CoresAt]] = {
        ladder.vpn: {at.rate_bps: at for at in ladder.rates} for ladder in mine
    }

    def highest_bps(vpn: str) -> float:
        return max((at.rate_bps for at in by_vpn[vpn].values() if at.carried >= CARRIED), default=0.0)

    rows = [
        [vpn, *[says(by_vpn[vpn][rate]) if rate in by_vpn[vpn] else text.NONE for rate in rates]]
        for vpn in in_order(sorted(by_vpn), [-highest_bps(vpn) for vpn in sorted(by_vpn)])
    ]
    return [_rate(rate) for rate in rates], rows


def _rate(rate_bps: float) -> str:
    scale, unit = text.prefix(rate_bps, "bit/s")
    return f"{rate_bps / scale:g} {unit}"


def most_per_core(compared: Configuration) -> str:
    """A sentence on the VPN that carries the most TCP for each core; empty where that is not known."""
    by_vpn = compared.values.get(PER_CORE, {})
    if not by_vpn:
        return ""
    summaries = summarise_all([[*blocks.values()] for blocks in by_vpn.values()])
    per_core = dict(zip(by_vpn, summaries, strict=True))
    most, *_ = in_order([*per_core], [-summary.median for summary in summaries])
    return f"{most} carries the most TCP for each core: {text.with_interval(per_core[most], 'bit/s')}."
