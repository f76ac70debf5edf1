"""Watching a run: it shows what is there, follows what comes, ends with the run, and only reads."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from runner.cli.progress import LiveProgress
from runner.cli.watch import watch
from runner.data.errors import UsageError
from runner.data.trials import Run, Trial
from runner.report.behind import so_far
from tests.unit.synthetic import realistic_run


def write(folder: Path, run: Run, trials: list[Trial]) -> None:
    (folder / "run.json").write_text(run.model_dump_json())
    (folder / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in trials))


def running(run: Run) -> Run:
    call = run.invocations[0].model_copy(update={"ended_at": "", "outcome": ""})
    return run.model_copy(update={"invocations": [call]})


def shown(folder: Path, grow: list[tuple[Run, list[Trial]]], terminal: bool = False) -> str:
    """What ``watch`` prints when the folder becomes each of ``grow`` in turn, one a poll."""
    console = Console(width=100, file=io.StringIO(), force_terminal=terminal, record=True)
    steps = iter(grow)
    watch(folder, console, sleep=lambda _: write(folder, *next(steps)))
    return console.export_text()


def test_a_finished_run_is_shown_and_left(tmp_path: Path) -> None:
    write(tmp_path, *realistic_run(2))
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    text = shown(tmp_path, [])
    assert "synthetic: complete" in text
    assert "Ranking on equal terms" in text
    assert "so far" not in text
    assert "will tell" not in text
    assert "wireguard_go" in text
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("terminal", [False, True])
def test_a_growing_run_is_followed_to_its_end(terminal: bool, tmp_path: Path) -> None:
    run, trials = realistic_run(2)
    write(tmp_path, running(run), trials[:5])
    half = (running(run), trials[: len(trials) // 2])
    text = shown(tmp_path, [(running(run), trials[:5]), half, half, (run, trials)], terminal)
    if not terminal:  # one line each time that something came, and the ranking once
        assert text.count(" trials: ") == 3
        assert text.count("Ranking on equal terms") == 1
    assert f"{len(trials)} trials, 2 repetitions" in text


def test_what_a_log_holds_does_not_steer_the_terminal(tmp_path: Path) -> None:
    run, trials = realistic_run(1)
    trials.append(trials[0].model_copy(update={"id": "x", "status": "failed", "reason": "\x1b[2Jgone\x07"}))
    write(tmp_path, run, trials)
    console = Console(width=100, file=io.StringIO(), force_terminal=False)
    watch(tmp_path, console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[2J" not in console.file.getvalue()
    assert "\x07" not in console.file.getvalue()
    assert "gone" in console.file.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(width: int, tmp_path: Path) -> None:
    write(tmp_path, *realistic_run(2))
    console = Console(width=width, file=io.StringIO(), record=True)
    watch(tmp_path, console)
    lines = console.export_text().splitlines()
    ranked = [line for line in lines if "wireguard_go" in line and "%" in line]
    assert ranked
    assert all(len(line.split()) >= 10 for line in ranked)  # place, VPN, average, interval, chance, and the ranks


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no run\.json"):
        watch(tmp_path, Console(file=io.StringIO()))


def test_the_live_display_ranks_once_a_block() -> None:
    run, trials = realistic_run(3)
    asked = []
    done: list[Trial] = []
    console = Console(width=120, height=200, file=io.StringIO(), record=True)
    live = LiveProgress(console, run.metrics, lambda: asked.append(len(done)) or so_far(run, done))  # type: ignore[func-returns-value]
    for trial in trials:
        shifted = trial.model_copy(update={"repetition": trial.repetition + 1})
        done.append(shifted)
        live.finished(shifted, 1.0)
    assert len(asked) == 2  # after the first block, and after the second
    console.print(live.render())
    assert "Ranking so far as recommended" in console.export_text()
