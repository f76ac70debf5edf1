"""What was asked, as a command line and back: by vpneval's own reader of older runs, and by the command itself."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from runner.data.asked import AskedFarm, AskedRun
from runner.data.invocation import asked_of, command, read, words
from runner.data.needs import Needs
from runner.data.store import load_run
from tests.unit.asking import by_the_command
from tests.unit.synthetic import make_run

# Every field with another value than its usual one.
EVERY = AskedRun(
    experiments=["transport", "./mine.py"],
    vpns=["openvpn", "/a b/own.py"],
    instruments=["./one.py", "./two.py"],
    question="./own.py",
    levels=["cipher=aes-128-cbc", "streams=4"],
    profile="site",
    repetitions=3,
    duration_s=4,
    rounds=5,
    slice_s=0.5,
    seed=7,
    lab="site:s.toml",
    kernel="uml",
    image="bookworm",
    gateway_images=["trixie", "bookworm"],
    builds=["wireguard_go@old=./a,b", "wireguard_go@new=./c"],
    at_least="5%,rtt=10%",
    out=Path("results/mine"),
    deadline_s=90.5,
    retry_failed=True,
    until_significant=False,
    weights="rtt=1",
    max_rate="200M",
    between="01:00-05:00",
    search_rates="1M-5G",
    needs=Needs(
        line_bps=1.25e8,
        path_rtt_ms=20.25,
        path_loss_ratio=0.0005,
        traffic="calls",
        connections=8,
        must=("networks", "nat", "tried"),
    ),
    farm=AskedFarm(address="tls://lab:8786", equal="kernel", timeout="2h", insecure=True),
)


def test_every_field_has_its_option() -> None:
    usual = AskedRun(experiments=[])
    assert not [field for field in AskedRun.model_fields if getattr(EVERY, field) == getattr(usual, field)]
    assert by_the_command(command(EVERY)) == EVERY
    assert read(words(EVERY)) == EVERY.with_changes(needs=Needs()), "the needs are the run's"
    assert by_the_command(command(AskedRun(experiments=["transport"], until_significant=True))).until_significant


def test_what_is_usual_is_not_written() -> None:
    assert words(AskedRun(experiments=["transport"])) == ["transport"]


def test_a_run_that_is_older_than_a_usual_must_has_not_taken_it_out() -> None:
    older = AskedRun(experiments=["choose"], needs=Needs(must=("networks", "maintained")))
    assert "--must" not in words(older)
    for out in ("-tried", "-maintained", "-maintained,-tried"):
        asked = by_the_command(f"choose --must={out}")
        assert words(asked) == ["choose", "--must", out]


def test_it_is_stored_as_json() -> None:
    assert AskedRun.model_validate_json(EVERY.model_dump_json()) == EVERY


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("a b --vpn x --vpn=y,z --set f=1 --quiet --json", {"experiments": "a,b", "vpns": "x,y,z", "levels": "f=1"}),
        (
            "a --deadline 6m --rest uml --install --weights=rtt=1",
            {"experiments": "a", "deadline_s": 360, "weights": "rtt=1"},
        ),
        ("a --out --quiet", {"experiments": "a", "out": "--quiet"}),
        ("a --reps 3 --reps 4", {"experiments": "a", "repetitions": 4}),
        ("a --until-significant --no-until-significant", {"experiments": "a", "until_significant": False}),
    ],
)
def test_command_lines_of_older_runs(line: str, asked: dict[str, Any]) -> None:
    assert read(shlex.split(line)) == AskedRun(**asked)


@pytest.mark.parametrize("line", ["a --reps many", "a --deadline soon"])
def test_what_is_no_command_line_asks_for_nothing(line: str) -> None:
    assert read(line.split()) is None


@pytest.mark.parametrize(
    ("argv", "guest", "kernel"),
    [
        ("vpneval run a --kernel host,uml", "", "host"),
        (
            "vpneval --no-color run a --kernel host,uml --out x --kernel qemu:trixie --out x/qemu-trixie",
            "qemu-kvm",
            "qemu:trixie",
        ),
        ("vpneval block", "", None),
        ("vpneval", "", None),
    ],
)
def test_an_older_run_says_it_by_its_command_line(argv: str, guest: str, kernel: str | None) -> None:
    run = make_run(("none", "openvpn"))
    call = run.invocations[0].model_copy(update={"command_line": argv.split()})
    needs = Needs(line_bps=1e8)
    asked = asked_of(run.model_copy(update={"invocations": [call], "lab": run.lab | {"guest": guest}, "needs": needs}))
    assert (asked and (asked.kernel, asked.needs)) == (kernel and (kernel, needs))
    stored = run.model_copy(update={"invocations": [call.model_copy(update={"asked": EVERY})]})
    assert asked_of(stored) == EVERY
    assert asked_of(run.model_copy(update={"invocations": []})) is None


def test_the_committed_runs_are_read() -> None:
    runs = [path.parent for path in (Path(__file__).parents[3] / "results").glob("*/*/run.json")]
    assert len(runs) > 5
    for run, _ in map(load_run, runs):
        asked = asked_of(run)
        if not run.invocations:
            continue  # made by a test
        assert asked is not None
        assert asked.profile == run.profile
