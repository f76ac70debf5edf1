"""Watching a run: it shows what is there, follows what comes, ends with the run, and only reads."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from questions.rank.so_far import so_far
from runner.catalogue import load_run
from runner.cli.commands.watch.work import last_slice, view, watch
from runner.cli.live import LiveProgress
from runner.data.errors import UsageError
from runner.data.trials import Cell, Run, Slice, Trial
from runner.sweep.plan import Planned
from tests.unit.synthetic import realistic_run

EXAMPLE = next((Path(__file__).parents[3] / "results" / "examples").glob("*/run.json")).parent


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
        live.show_trial(shifted, 1.0)
    assert len(asked) == 2  # after the first block, and after the second
    console.print(live.render())
    assert "Ranking so far as recommended" in console.export_text()


def slice_of(trial: Trial, number: int) -> Slice:
    return Slice(trial=trial.id, number=number, round=number, at_s=0.0, duration_s=1.0, values={"rtt": 1.0})


def seen(run: Run, trials: list[Trial], last: Slice | None) -> str:
    console = Console(width=120, height=60, file=io.StringIO(), force_terminal=True, record=True)
    console.print(view(run, trials, console, last=last))
    return console.export_text()


def test_a_watched_run_shows_its_round_what_ran_last_and_what_is_still_to_begin() -> None:
    run, made = realistic_run(2)
    trials = [trial.model_copy(update={"repetition": trial.repetition + 1}) for trial in made]  # they count from 1
    run = run.model_copy(update={"repetitions": 3})
    mine = next(trial for trial in trials if trial.vpn == "wireguard_go" and trial.params["measure"] == "tcp")
    text = seen(running(run), trials, slice_of(mine, 12))
    assert "round 12; the last in it: wireguard_go · chacha20-poly1305 · tcp" in text
    can = {cell.key for one in run.experiments for cell in one.cells}
    can -= {trial.cell for trial in trials if trial.status == "unsupported"}
    begun = {(trial.cell, trial.repetition) for trial in trials if trial.cell in can}
    assert 0 < len(begun) < 3 * len(can)
    assert f"{3 * len(can) - len(begun)} of {3 * len(can)} planned trials still to begin" in text
    assert "still to begin" not in seen(run, trials, slice_of(mine, 12)), "it has ended"


def test_the_last_whole_row_is_the_last_slice(tmp_path: Path) -> None:
    _, trials = realistic_run(1)
    assert last_slice(tmp_path) is None
    rows = [slice_of(trials[0], number).model_dump_json() + "\n" for number in range(1, 2001)]
    (tmp_path / "slices.jsonl").write_text("".join(rows) + rows[0][:20])
    found = last_slice(tmp_path)
    assert found
    assert found.number == 2000
    (tmp_path / "slices.jsonl").write_text("no row\n")
    assert last_slice(tmp_path) is None


def test_the_live_display_shows_how_a_search_goes() -> None:
    run, _ = realistic_run(1)
    console = Console(width=140, height=50, file=io.StringIO(), record=True)
    live = LiveProgress(console, run.metrics)
    udp = Planned(Cell(vpn="openvpn", params={"cipher": "aes-128-cbc", "measure": "udp"}), 1)
    other = Planned(Cell(vpn="ssh_tun", params=udp.cell.params), 1)

    def says(planned: Planned, **values: float) -> str:
        live.show_slice(planned, values)
        console.print(live.render())
        return console.export_text()

    assert "search  none yet" in says(udp, jitter=0.1)
    assert "1 rate tried, the last 400 Mbit/s lost 0.5 %; at least 400 Mbit/s" in says(
        udp, asked_rate_bps=4e8, sent=1000, received=995
    )
    assert (
        "openvpn · aes-128-cbc · udp · 2 rates tried, the last 600 Mbit/s lost 40.0 %; between 400 Mbit/s and"
        in says(udp, asked_rate_bps=6e8, sent=1000, received=600)
    )
    assert "ssh_tun · aes-128-cbc · udp · 1 rate tried, the last 600 Mbit/s lost 100.0 %; less than 600 Mbit/s" in says(
        other, asked_rate_bps=6e8, sent=1000, received=0
    )
    assert "3 rates tried, the last 450 Mbit/s" in says(udp, asked_rate_bps=4.5e8, sent=1000, received=1000), (
        "each its own"
    )
    assert "3 rates tried, the last 450 Mbit/s" in says(udp, jitter=0.1), "it stays while other things run"


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 50)])
def test_both_displays_use_the_height_that_there_is_and_no_more(width: int, height: int) -> None:
    run, trials = load_run(EXAMPLE)
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True)
    live = LiveProgress(console, run.metrics, lambda: so_far(run, trials))
    for trial in trials:
        live.show_trial(trial, 100.0)
    live.rankings, live.search = so_far(run, trials), "openvpn · aes-128-cbc · udp · " + "many rates tried, " * 20
    mine = next(trial for trial in trials if trial.vpn == "openvpn")
    for shown in (live.render(), view(running(run), trials, console, last=slice_of(mine, 12))):
        text = "\n".join("".join(piece.text for piece in line) for line in console.render_lines(shown))
        assert height - 3 <= len(text.splitlines()) <= height
        assert "Ranking so far as recommended" in text
        assert "Ranking so far on equal terms" in text
