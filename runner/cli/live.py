"""How a run is shown while it runs: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from questions.rank.places import ranking_name, unranked_vpns
from questions.rank.so_far import RankedNumbers, so_far
from questions.rank.values import values
from runner.catalogue import factors, load_run
from runner.data.levels import VARIANTS, Levels, traffic_factors
from runner.data.metric import Metric
from runner.data.streams import standard_error
from runner.data.streams import visible_text as shown_text
from runner.data.trials import Run, Trial
from runner.ranking.model import Weights
from runner.report.forms.terminal_answered import values_grid
from runner.report.text import count_noun, in_unit, wan
from runner.search.settings import LOSS_RATIO
from runner.sweep.plan import Planned
from runner.sweep.settings import Watch, Watcher

HEAD = 4  # lines over the rankings: what runs, how a search goes, what is done, the bar
KEPT = 60  # results, of which the last that fit are shown
COLOURS = {"ok": "green", "failed": "red", "unsupported": "yellow", "lab_error": "bold red"}


def rate(value_bps: float) -> str:
    """A rate with three digits and an SI prefix: ``417 Mbit/s``."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value_bps >= factor:
            return f"{value_bps / factor:.3g} {prefix}bit/s"
    return f"{value_bps:.3g} bit/s"


def short(value: float) -> str:
    """Three digits, and never an exponent for what is large: ``0.0123``, ``34700``."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def clock(seconds: float) -> str:
    """``12:05``: minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def levels_of(params: Mapping[str, str]) -> str:
    """The levels that tell one trial from another, in a few words."""
    words = [params.get("cipher", "")]
    if params.get("compression", "off") != "off":
        words.append(f"compression {params['compression']}")
    known = factors()
    first = ("measure", *(factor for factor, levels in known.items() if levels.before), *VARIANTS)
    words += [params[factor] for factor in ("image", *first) if factor in params]
    for factor in traffic_factors(params):
        if factor not in first:
            words.append(known.get(factor, Levels(())).say(factor, params[factor]))
    return " · ".join(word for word in [*words, wan(params)] if word and word != "none")


def result_of(trial: Trial, metrics: Mapping[str, Metric]) -> str:
    """A trial's outcome in a few words. One trial has no spread; the report has the intervals.

    ``metrics``: those of its run.
    """
    if trial.status != "ok":
        return f"{trial.status}: {trial.reason.splitlines()[0] if trial.reason else ''}"
    parts = []
    for measurement in trial.measurements:
        known = metrics.get(measurement.metric)
        if known and known.secondary:
            continue
        value = rate(measurement.value)
        if measurement.unit != "bit/s":
            value = in_unit(short(measurement.value), measurement.unit)
        parts.append(f"{known.title if known else measurement.metric} {value}")
    return ", ".join(parts)


@dataclass
class Search:
    """The progress of a search for the highest rate with hardly any loss."""

    SLICE: ClassVar = {"asked_rate_bps", "sent", "received"}  # what a slice has that is a trial of one

    tried: int = 0
    last_bps: float = 0.0
    last_loss: float = 0.0
    passed_bps: float = 0.0  # the highest rate that passed
    failed_bps: float = math.inf  # the lowest one that did not

    def learn(self, rate_bps: float, loss_ratio: float) -> None:
        """Add one more trial."""
        self.tried, self.last_bps, self.last_loss = self.tried + 1, rate_bps, max(0.0, loss_ratio)
        if loss_ratio <= LOSS_RATIO:
            self.passed_bps = max(self.passed_bps, rate_bps)
        else:
            self.failed_bps = min(self.failed_bps, rate_bps)

    @property
    def says(self) -> str:
        """``12 rates tried, the last 812 Mbit/s lost 0.3 %; between 790 Mbit/s and 850 Mbit/s``."""
        low, high = sorted((self.passed_bps, self.failed_bps))  # near the answer, a higher rate may pass by chance
        tried = (
            f"{count_noun(self.tried, 'rate')} tried, the last {rate(self.last_bps)} lost {100 * self.last_loss:.1f} %"
        )
        if self.failed_bps == math.inf:
            return f"{tried}; at least {rate(self.passed_bps)}"
        return f"{tried}; " + (f"between {rate(low)} and {rate(high)}" if low else f"less than {rate(high)}")


class PlainProgress:
    """A ``Watcher``: one line a trial, for logs and pipes. ``quiet`` keeps only failures."""

    def __init__(self, console: Console, metrics: Mapping[str, Metric], quiet: bool = False) -> None:
        self.console, self.metrics, self.quiet = console, metrics, quiet
        self.done = self.total = 0

    def show_plan(self, trials: int, expected_s: float) -> None:
        """Print how many trials are ahead, and for how long (s)."""
        self.total = self.done + trials
        self.say(f"{trials} trials will be measured, in about {clock(expected_s)} min")

    def tunnel(self, repetition: int, vpn: str, params: Mapping[str, str]) -> None:
        """Print nothing: its trials come soon."""

    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None:
        """Print every fifth round."""
        if number % 5 == 0 and not self.quiet:
            self.say(f"round {number}: {tunnels} tunnels take turns, about {clock(remaining_s)} min to go")

    def measuring(self, planned: Planned) -> None:
        """Print nothing: its result comes soon."""

    def show_slice(self, planned: Planned, values: Mapping[str, float]) -> None:
        """Print nothing: a slice is no result."""

    def show_trial(self, trial: Trial, remaining_s: float) -> None:
        """Print the result; with ``quiet`` only what went wrong."""
        self.done += trial.status != "unsupported"
        if trial.status == "unsupported" or (self.quiet and trial.status == "ok"):  # told together, once
            return
        self.console.print(
            f"[{self.done}/{self.total}] {trial.vpn} {levels_of(trial.params)}: {result_of(trial, self.metrics)}",
            highlight=False,
            soft_wrap=True,
        )

    def say(self, text: str) -> None:
        """Print the line, unless ``quiet``."""
        if not self.quiet:
            self.console.print(text, highlight=False, soft_wrap=True)


class LiveProgress:
    """A ``Watcher`` that stays in place on the terminal: what runs now, trials done and to go, time left, the last
    results, and the ranking so far. ``rank`` makes that ranking; it is called rarely, because it takes time from
    measuring."""

    def __init__(
        self, console: Console, metrics: Mapping[str, Metric], rank: Callable[[], Sequence[RankedNumbers]] = tuple
    ) -> None:
        self.console, self.metrics, self.rank = console, metrics, rank
        self.block = 0
        self.rankings: Sequence[RankedNumbers] = ()
        self.done = self.total = self.failed = self.unsupported = 0
        self.now = "asking every VPN what it can do here"
        self.round_now = ""
        self.searches: dict[str, Search] = {}  # by the trial's id
        self.search = ""
        self.remaining_s = 0.0
        self.remaining_at = self.started = time.monotonic()
        self.last: list[Trial] = []
        # rich draws from a thread of its own; nodes are started from this one, whose death they follow.
        self.live = Live(get_renderable=self.render, console=console, refresh_per_second=4, transient=True)

    def __enter__(self) -> LiveProgress:
        self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def show_plan(self, trials: int, expected_s: float) -> None:
        """Show how many trials are ahead, and count down from ``expected_s``."""
        self.total, self.remaining_s, self.remaining_at = self.done + trials, expected_s, time.monotonic()

    def tunnel(self, repetition: int, vpn: str, params: Mapping[str, str]) -> None:
        """Show whose tunnel is coming up."""
        self.round_now = ""
        self.now = f"block {repetition} · {vpn} · {levels_of(params) or 'no cipher'} · tunnel comes up"

    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None:
        """Show the round; every fifth time with the ranking so far."""
        self.round_now = f"round {number}, {tunnels} tunnels · "
        self.remaining_s, self.remaining_at = remaining_s, time.monotonic()
        if number % 5 == 0:
            self.rankings = self.rank()

    def measuring(self, planned: Planned) -> None:
        """Show which trial runs."""
        where = self.round_now or f"block {planned.repetition} · "
        self.now = f"{where}{planned.cell.vpn} · {levels_of(planned.cell.params)}"

    def show_slice(self, planned: Planned, values: Mapping[str, float]) -> None:
        """Show the progress of the search, where the slice is a trial of one."""
        if values.keys() >= Search.SLICE and values["sent"] > 0:
            search = self.searches.setdefault(planned.id, Search())
            search.learn(values["asked_rate_bps"], 1 - values["received"] / values["sent"])
            self.search = f"{planned.cell.vpn} · {levels_of(planned.cell.params)} · {search.says}"

    def show_trial(self, trial: Trial, remaining_s: float) -> None:
        """Show the result among the last ones; after a block, the ranking so far."""
        self.failed += trial.status in ("failed", "lab_error")
        self.unsupported += trial.status == "unsupported"
        if trial.status != "unsupported":
            self.done += 1
            self.last = [*self.last, trial][-KEPT:]
        if trial.status == "ok" and trial.repetition > self.block:
            self.rankings = self.rank() if self.block else ()  # a block has just ended
            self.block = trial.repetition
        self.remaining_s, self.remaining_at = remaining_s, time.monotonic()

    def say(self, text: str) -> None:
        """Print the line above the display."""
        self.console.print(text, highlight=False)

    def render(self) -> Group:
        """The whole display at this moment."""
        left = max(0.0, self.remaining_s - (time.monotonic() - self.remaining_at))
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text("now", style="dim"),
            Text(self.now, style="bold"),
        )
        head.add_row(Text("search", style="dim"), Text(self.search or "none yet", overflow="ellipsis", no_wrap=True))
        counts = Text(f"{self.done} of {self.total or '?'} trials")
        if self.failed:
            counts.append(f" · {self.failed} failed", style="red")
        if self.unsupported:
            counts.append(f" · {self.unsupported} unsupported here", style="yellow")
        counts.append(f" · {clock(time.monotonic() - self.started)} gone · about {clock(left)} to go")
        head.add_row(Text("done", style="dim"), counts)
        bar = Table.grid()  # a bare bar would not end its line
        bar.add_row(ProgressBar(total=max(1, self.total), completed=self.done, width=min(60, self.console.width)))
        tables = rankings_that_fit(self.rankings, self.metrics, self.console, self.console.height - HEAD)
        left_lines = max(0, self.console.height - HEAD - sum(lines for _, lines in tables))
        results = last_results(self.last, left_lines, self.metrics)
        return Group(head, bar, *(table for table, _ in tables), *results)


def rankings_that_fit(
    rankings: Sequence[RankedNumbers], metrics: Mapping[str, Metric], console: Console, lines: int, ended: bool = False
) -> list[tuple[RenderableType, int]]:
    """As many rankings as fit into ``lines`` lines, each with its own number of lines; the first one always."""
    fitting: list[tuple[RenderableType, int]] = []
    for ranked in rankings:
        shown = Group(*ranking_so_far(ranked, metrics, console.width, ended))
        taken = len(console.render_lines(shown))
        if fitting and taken > lines:
            break
        fitting.append((shown, taken))
        lines -= taken
    return fitting


def ranking_so_far(
    ranked: RankedNumbers, metrics: Mapping[str, Metric], width: int, ended: bool = False
) -> list[RenderableType]:
    """A ranking while the run goes on: the table, the VPNs that are not in it yet, and a note where there is only one
    repetition. ``ended``: the run is over."""
    ranking = ranked.ranking
    blocks = max((count for standing in ranking.standings for count in standing.blocks.values()), default=0)
    waiting = ", ".join(vpns for vpns, *_ in unranked_vpns(ranking))
    parts: list[RenderableType] = [Text(f"Ranking{'' if ended else ' so far'} {ranking_name(ranking)}", "bold cyan")]
    if any(standing.place for standing in ranking.standings):
        numbers = {number.metric: number for number in ranked.numbers}
        parts.append(values_grid(values(ranking, numbers, metrics, brief=True), width))
    if blocks == 1:
        parts.append(Text("one repetition: all tie" + ("" if ended else ", the next ones will tell some apart"), "dim"))
    return parts + ([Text(f"not ranked{'' if ended else ' (yet)'}: {waiting}", "dim")] if waiting else [])


def last_results(trials: Sequence[Trial], lines: int, metrics: Mapping[str, Metric]) -> list[Table]:
    """A table of at most ``lines`` of the last trials: whose each is, its levels, its result. No table where there are
    none, because an empty one would take a line."""
    results = Table.grid(padding=(0, 2))
    for trial in trials[max(0, len(trials) - lines) :]:
        results.add_row(
            Text(trial.vpn, style=COLOURS.get(trial.status, "")),
            Text(levels_of(trial.params), style="dim", overflow="ellipsis", no_wrap=True),
            Text(shown_text(result_of(trial, metrics)), overflow="ellipsis", no_wrap=True),
        )
    return [results] if results.rows else []


def is_live(console: Console) -> bool:
    """Can a display stay in place here? It can where the console and standard error are both a terminal."""
    return console.is_terminal and standard_error().isatty()


def watching(console: Console, quiet: bool, weights: Weights | None) -> Watch:
    """The watcher of a run on this console: the live display where one can stay in place, plain lines elsewhere."""

    def watch(folder: Path, run: Run) -> AbstractContextManager[Watcher]:
        if is_live(console) and not quiet:
            return LiveProgress(console, run.metrics, lambda: so_far(*load_run(folder), weights=weights))
        return nullcontext(PlainProgress(console, run.metrics, quiet))

    return watch
