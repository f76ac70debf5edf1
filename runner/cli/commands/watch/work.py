"""``vpneval watch DIR``: the ranking of a run as it forms, in any terminal, also over SSH; it only reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from questions.rank.so_far import so_far
from runner.catalogue import load_run
from runner.cli.live import HEAD, clock, last_results, levels_of, rankings_that_fit, result_of
from runner.data.checksum import check_line, without_checksum
from runner.data.files import open_to_read
from runner.data.invocation import asked_of
from runner.data.store import check_run_folder
from runner.data.streams import printable
from runner.data.trials import Invocation, Run, Slice, Trial, trial_id
from runner.ranking.model import Weights
from runner.report.kinds import OTHERS, by_kind
from runner.report.text import count_noun

POLL_S = 2.0
TAIL_BYTES = 65_536  # a row of slices.jsonl is much shorter
LAST = 3  # trials shown under the ranking, where the output is no terminal
ENDLESS = 1_000_000  # lines, where the output is no terminal


def watch(
    folder: Path,
    console: Console,
    weights: Weights | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the run in ``folder``, again whenever it has grown, until its last call has ended.

    On a terminal in place; elsewhere a line each time, and the ranking at the end. Raises UsageError where it is no
    run folder."""
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    seen, shown = -1, 0
    try:
        if live:
            live.start()
        while True:
            size = _size(folder)
            if size != seen:
                seen = size
                run, trials = load_run(folder)
                if live:
                    live.update(view(run, trials, console, weights, last_slice(folder)), refresh=True)
                elif trials[shown:]:
                    last = trials[-1]
                    result = result_of(last, run.metrics)
                    line = f"{count_noun(len(trials), 'trial')}: {last.vpn} {levels_of(last.params)}: {result}"
                    console.print(printable(line), highlight=False, soft_wrap=True)
                    shown = len(trials)
                if has_ended(run):
                    break
            sleep(POLL_S)
    finally:
        if live:
            live.stop()
    if not live:
        console.print(view(run, trials, console, weights))
    if said := _without_checksum(folder):
        console.print(said, highlight=False, soft_wrap=True)


def _without_checksum(folder: Path) -> str:
    """A sentence on the lines that nothing can be checked against; empty where there is none."""
    path = folder / "trials.jsonl"
    lack, lines = without_checksum(path) if path.exists() else (0, 0)
    return (
        f"{lack} of {count_noun(lines, 'line')} of trials.jsonl have no checksum: an older vpneval wrote them."
        * bool(lack)
    )


def has_ended(run: Run) -> bool:
    """Has the last call on this folder recorded how it ended? A killed call never does; then Ctrl-C ends the
    watching."""
    return bool(run.invocations) and bool(run.invocations[-1].ended_at)


def view(
    run: Run,
    trials: list[Trial],
    console: Console,
    weights: Weights | None = None,
    last: Slice | None = None,
) -> RenderableType:
    """The state of the run, in the height of the console: its progress, the rankings so far, the last trials. ``last``:
    the slice that was written last."""
    bad = sum(trial.status in ("failed", "lab_error") for trial in trials)
    blocks = len({trial.repetition for trial in trials if trial.status == "ok"})
    call = run.invocations[-1] if run.invocations else None
    over = has_ended(run)
    state = (call.outcome or "ended") if call and over else "running"
    head = Text.assemble((f"{run.run_id}: {state}", "bold cyan"))
    head.append(f" · {count_noun(len(trials), 'trial')}, {count_noun(blocks, 'repetition')}")
    head.append(f" · {bad} failed" if bad else "", "red")
    asked = asked_of(run, -1)
    head.append(f" · {_time(call, asked.deadline_s if asked else None, over)}" if call else "")
    going = [] if over else going_on(run, trials, last)
    lines = console.height - HEAD if console.is_terminal else ENDLESS
    (own, its), *others = by_kind(run, trials)
    if others:
        head.append(
            f"\nThe ranking is of the machines {', '.join(own.machines)}. {own.lab[OTHERS]} are of other kinds: "
            "vpneval report DIR --across machines has a report for each kind."
        )
        lines -= len(console.render_lines(head)) - 1
    tables = rankings_that_fit(so_far(own, its, weights), run.metrics, console, lines, over)
    left = max(0, lines - sum(taken for _, taken in tables)) if console.is_terminal else LAST
    measured = [trial for trial in trials if trial.status != "unsupported"]
    return Group(head, *going, *(table for table, _ in tables), *last_results(measured, left, run.metrics))


def going_on(run: Run, trials: Sequence[Trial], last: Slice | None) -> list[Text]:
    """Lines on what runs now, and on how many of the planned trials are still to begin."""
    cells = {cell.key: cell for experiment in run.experiments for cell in experiment.cells}
    lines = []
    if last:
        begun = last.trial.rsplit("-r", 1)[0]
        cell = next((c for c in cells.values() if trial_id(c.vpn, c.params, 1).rsplit("-r", 1)[0] == begun), None)
        what = f"{cell.vpn} · {levels_of(cell.params)}" if cell else last.trial
        lines.append(Text(printable(f"round {last.round}; the last in it: {what}"), overflow="ellipsis", no_wrap=True))
    hopeless = {trial.cell for trial in trials if trial.status == "unsupported"}
    able, every = cells.keys() - hopeless, range(1, run.repetitions + 1)
    there = {(trial.cell, trial.repetition) for trial in trials if trial.cell in able and trial.repetition in every}
    planned = len(able) * len(every)
    return [*lines, Text(f"{planned - len(there)} of {count_noun(planned, 'planned trial')} still to begin")]


def last_slice(folder: Path) -> Slice | None:
    """The last whole row of slices.jsonl; None where there is none."""
    path = folder / "slices.jsonl"
    if not path.exists():
        return None
    with open_to_read(path) as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        rows = file.read().split(b"\n")[:-1]
    try:
        return Slice.model_validate_json(check_line(rows[-1] + b"\n"), strict=True) if rows else None
    except ValueError:  # a row that is longer than the tail, or is none
        return None


def _time(call: Invocation, deadline_s: float | None, over: bool) -> str:
    """How long the call took; or how long it has been running, and how much time its deadline leaves."""
    if over:
        return f"{clock(call.elapsed_s)} min"
    try:
        gone = (datetime.now(UTC) - datetime.fromisoformat(call.started_at)).total_seconds()
    except (ValueError, TypeError):  # a folder that something happened to
        return ""
    left = f", {clock(max(0.0, deadline_s - gone))} to its deadline" if deadline_s else ""
    return f"{clock(max(0.0, gone))} gone{left}"


def _size(folder: Path) -> int:
    """A number that changes whenever the run does: the bytes of its files. A run begins with its run.json."""
    check_run_folder(folder)
    return sum(
        path.stat().st_size for name in ("run.json", "trials.jsonl", "slices.jsonl") if (path := folder / name).exists()
    )
