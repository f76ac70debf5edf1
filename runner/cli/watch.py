"""``vpneval watch DIR``: the ranking of a run as it forms, in any terminal, also over SSH; it only reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from runner.cli.progress import clock, levels_of, result_of
from runner.data.store import check_run_folder, load_run
from runner.data.trials import Run, Trial
from runner.ranking.ranking import Missing, rank_all
from runner.ranking.weights import Weights
from runner.report.forms.terminal import WIDE, printable, ranking_so_far
from runner.report.text import counted

POLL_S = 2.0
LAST = 3  # trials shown under the ranking


def watch(
    folder: Path,
    console: Console,
    weights: Weights | None = None,
    missing: Missing = "unranked",
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the run in ``folder``, again whenever it has grown, until its last call has ended.

    On a terminal in place; elsewhere a line each time, and the ranking at the end. Raises UsageError where it is no
    run folder."""
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    gap = int(console.width >= WIDE)
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
                    live.update(view(run, trials, weights, missing, gap), refresh=True)
                elif trials[shown:]:
                    last = trials[-1]
                    result = result_of(last, run.metrics)
                    said = f"{counted(len(trials), 'trial')}: {last.vpn} {levels_of(last.params)}: {result}"
                    console.print(printable(said), markup=False, highlight=False, soft_wrap=True)
                    shown = len(trials)
                if ended(run):
                    break
            sleep(POLL_S)
    finally:
        if live:
            live.stop()
    if not live:
        console.print(view(run, trials, weights, missing, gap))


def ended(run: Run) -> bool:
    """Has the last call on this folder said how it ended? One that was killed never does: Ctrl-C ends the watching."""
    return bool(run.invocations) and bool(run.invocations[-1].ended_at)


def view(
    run: Run, trials: list[Trial], weights: Weights | None = None, missing: Missing = "unranked", gap: int = 1
) -> RenderableType:
    """What there is: how far the run is, the rankings so far, the last trials. ``gap``: blanks between columns."""
    bad = sum(trial.status in ("failed", "lab_error") for trial in trials)
    blocks = len({trial.repetition for trial in trials if trial.status == "ok"})
    call = run.invocations[-1] if run.invocations else None
    state = (call.outcome or "ended") if call and ended(run) else "running"
    head = Text.assemble((f"{run.run_id}: {state}", "bold cyan"))
    head.append(f" · {counted(len(trials), 'trial')}, {counted(blocks, 'repetition')}")
    head.append(f" · {bad} failed" if bad else "", "red")
    head.append(f" · {clock(call.elapsed_s)} min" if call and call.elapsed_s else "")
    parts: list[RenderableType] = [head]
    for ranking in rank_all(run, trials, weights=weights, missing=missing):
        parts += ranking_so_far(ranking, gap)
    parts.append(Text())
    for trial in [trial for trial in trials if trial.status != "unsupported"][-LAST:]:
        said = printable(f"{trial.vpn} {levels_of(trial.params)}: {result_of(trial, run.metrics)}")
        parts.append(Text(said, "dim", no_wrap=True))
    return Group(*parts)


def _size(folder: Path) -> int:
    """What changes whenever the run does: the bytes of its files. A run begins with its run.json."""
    check_run_folder(folder)
    return sum(
        path.stat().st_size for name in ("run.json", "trials.jsonl", "slices.jsonl") if (path := folder / name).exists()
    )
