"""What happened when something was broken: a line for each kind of failure, and the timeline of the failure with the
middle outage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from runner.data.kinds import Strict
from runner.data.levels import traffic_factors
from runner.data.metric import Metric
from runner.data.trials import Measurement, Timeline, Trial
from runner.design.blocks import Block, Heading, Hyperlink, Paragraph, Table, TableCell

HEAD = ("VPN", "failure", "outage: median (least–most), n", "resolution", "what happened, seconds after the failure")
ABOUT = (
    "Outages are loss-derived: datagrams lost or late by 400 ms, over their rate, of the worse direction. The timeline "
    "is that of the failure whose outage is in the middle; ≥: given up before it had recovered. The timers: those of "
    "the gateways' configuration."
)
MOST_GAPS = 6  # of a timeline that are shown
DRAWN = 5  # failures of a cell that a plot shows
SURVIVES_MS = 400.0  # a call does not notice a shorter outage after an overload: the planning bound of ITU-T G.114


class FailureRow(Strict):
    """One kind of failure of one VPN: all outages (ms), how many never ended, the resolution (ms), the ``timers`` that
    decide, and ``steps``: events and gaps of the middle one, whose trial's folder of logs is ``log``. ``drawn``: the
    failures that a plot shows, at most DRAWN, the shortest and the longest outage and the middle among them, in this
    order."""

    vpn: str
    params: dict[str, str] = {}
    levels: str
    outages_ms: list[float]
    unrecovered: int
    resolution_ms: float
    timers: list[str]
    paths: str
    steps: list[str]
    drawn: list[Timeline] = []
    log: str = ""

    @property
    def outage(self) -> str:
        """Median (least–most) of the outages, with units, and their number; ≥ where half or more never ended."""
        low, middle, high = (_ms(f(self.outages_ms)) for f in (min, np.median, max))
        bound = "≥ " if 2 * self.unrecovered >= len(self.outages_ms) else ""
        never = f", {self.unrecovered} without recovery" if self.unrecovered else ""
        return f"{bound}{middle} ({low}–{high}), {len(self.outages_ms)}{never}"

    @property
    def verdict(self) -> str:
        """What an overload did to the tunnel; empty for other failures."""
        number, dead = len(self.outages_ms), self.unrecovered
        if self.params.get("failure") != "overload":
            return ""
        if dead:
            return "dies" if dead == number else f"dies in {dead} of {number}"
        if max(self.outages_ms) <= SURVIVES_MS:
            return "survives"
        return f"recovers after {_ms(np.median(self.outages_ms))}"

    @property
    def story(self) -> str:
        """The steps, and the paths before and after, in one line."""
        return "; ".join([*self.steps, *([self.paths] if self.paths else [])])

    @property
    def cells(self) -> tuple[str, str, str, str, TableCell]:
        """The cells of the row, in the columns of HEAD."""
        timers = f". Timers: {'; '.join(self.timers)}" if self.timers else ""
        link = Hyperlink("commands", file=f"{self.log}/commands.log") if self.log else None
        failure = ": ".join(filter(None, (self.levels, self.verdict)))
        return self.vpn, failure, self.outage, _ms(self.resolution_ms), TableCell(self.story + timers, link=link)


def failures(trials: Sequence[Trial], metrics: Mapping[str, Metric]) -> list[FailureRow]:
    """A row for each cell whose trials broke something and measured an outage."""
    cells: dict[str, list[tuple[Trial, Measurement]]] = {}
    for trial in trials:
        outages = [one for one in trial.measurements if metrics[one.metric].plot == "timelines"]
        if trial.status == "ok" and trial.timelines and outages:
            cells.setdefault(trial.cell, []).append((trial, outages[0]))
    return [_row(*zip(*own, strict=True)) for own in cells.values()]


def _row(trials: Sequence[Trial], measured: Sequence[Measurement]) -> FailureRow:
    outages = [
        (ms, line, trial.log)
        for trial, outage in zip(trials, measured, strict=True)
        for ms, line in zip(outage.samples, trial.timelines, strict=False)
    ]
    outages.sort(key=lambda each: each[0])
    details = [outage.detail for outage in measured]
    levels = ", ".join(trials[0].params[factor] for factor in traffic_factors(trials[0].params)[1:])
    before, after = ({path for detail in details for path in detail.get(key, [])} for key in PATHS)
    return FailureRow(
        vpn=trials[0].vpn,
        params=trials[0].params,
        levels=levels,
        outages_ms=[ms for ms, _, _ in outages],
        unrecovered=sum(detail.get("unrecovered", 0) for detail in details),
        resolution_ms=max(detail.get("resolution_ms", 0.0) for detail in details),
        timers=list(dict.fromkeys(_timers(details[0]))),
        paths=f"path {' or '.join(sorted(before))}, then {' or '.join(sorted(after))}" if before else "",
        steps=steps(outages[len(outages) // 2][1]),
        drawn=[outages[index][1] for index in spread(len(outages))],
        log=outages[len(outages) // 2][2],
    )


def spread(number: int) -> list[int]:
    """At most DRAWN of ``number`` indices, evenly spread; the first, the middle and the last are among them."""
    if number <= DRAWN:
        return list(range(number))
    return [step * (number - 1) // (DRAWN - 1) for step in range(DRAWN)]


PATHS = ("path_before", "path_after")


def _timers(detail: dict[str, Any]) -> Iterator[str]:
    """The timers in a measurement's detail: a text, a list of them, or a list for each gateway."""
    for source in (detail.get("detection", []), detail.get("timers", [])):
        if isinstance(source, str):
            yield source
        elif isinstance(source, dict):
            for timer in dict.fromkeys(timer for timers in source.values() for timer in timers):
                yield f"{', '.join(name for name, timers in source.items() if timer in timers)}: {timer}"
        else:
            yield from source


def steps(timeline: Timeline) -> list[str]:
    """Events and the longest gaps in their order, in seconds after the first event, which is the failure."""
    zero = timeline.events[0].at_s if timeline.events else 0.0
    longest = sorted(timeline.gaps, key=lambda gap: gap.lost, reverse=True)[:MOST_GAPS]
    entries = [(event.at_s, f"{event.at_s - zero:+.2f} {event.what}") for event in timeline.events]
    for gap in longest:
        words = f"{gap.start_s - zero:+.2f} to {gap.end_s - zero:+.2f} nothing {gap.direction} ({gap.lost} lost)"
        entries.append((gap.start_s, words))
    return [words for _, words in sorted(entries)]


def _ms(value: Any) -> str:
    return f"{float(value):.3g} ms" if value < 1000 else f"{float(value) / 1e3:.3g} s"


def section(rows: Sequence[FailureRow]) -> list[Block]:
    """The section, for every form; empty where nothing was broken."""
    if not rows:
        return []
    table = Table("Failures and what happened", HEAD, [row.cells for row in rows])
    return [Heading("Timelines", "timelines"), Paragraph(ABOUT), table]
