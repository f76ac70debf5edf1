"""What a user states of the needs: by options, in a file, and on top of what a run has."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.choice.stated import state_needs
from runner.data.errors import UsageError
from runner.data.named import MUSTS, USUAL
from runner.data.needs import Needs
from runner.data.options import NeedsOptions


def test_a_line_has_one_rate_or_two() -> None:
    two = state_needs(NeedsOptions(line="100M/20M"))
    assert (two.line_bps, two.line_up_bps, two.up_bps) == (1e8, 2e7, 2e7)
    assert two.on_line(5e7).up_bps == 1e7
    for one in ("100M", "100M/100M"):
        assert state_needs(NeedsOptions(line=one), two) == Needs(line_bps=1e8), "the other rate is not kept"
    assert state_needs(NeedsOptions(path_rtt="5ms"), two).line_up_bps == 2e7


def test_nothing_need_be_given() -> None:
    assert state_needs(NeedsOptions()) == Needs()
    assert Needs().must == USUAL


def test_options_are_read() -> None:
    found = state_needs(
        NeedsOptions(
            line="1.5G", path_rtt="0.5ms", path_loss="0.05%", traffic="calls", connections="8", must=["nat,udp-blocked"]
        )
    )
    assert (found.line_bps, found.path_rtt_ms, found.traffic, found.connections) == (1.5e9, 0.5, "calls", 8)
    assert found.path_loss_ratio == pytest.approx(0.0005)
    assert set(found.must) == {*USUAL, "nat", "udp-blocked"}


@pytest.mark.parametrize(("text", "rtt_ms"), [("20ms", 20.0), ("1s", 1000.0), ("20", 20.0), ("0", 0.0)])
def test_round_trips_have_units(text: str, rtt_ms: float) -> None:
    assert state_needs(NeedsOptions(path_rtt=text)).path_rtt_ms == rtt_ms


def test_a_minus_takes_out_what_is_in_force() -> None:
    assert state_needs(NeedsOptions(must=["-networks,-tried,-maintained"])).must == ()
    assert state_needs(NeedsOptions(must=["nat,-maintained"])).must == tuple(
        m for m in MUSTS if m in ("networks", "nat", "tried")
    )


def test_a_file_is_read_and_options_come_over_it(tmp_path: Path) -> None:
    path = tmp_path / "needs.toml"
    path.write_text('line = "100M"\npath_rtt = "20ms"\npath_loss = 0.0005\ntraffic = "mixed"\nmust = ["nat"]\n')
    found = state_needs(NeedsOptions(needs=path, line="1G"))
    assert (found.line_bps, found.path_rtt_ms, found.path_loss_ratio) == (1e9, 20.0, 0.0005)
    assert "nat" in found.must


def test_what_is_not_said_is_as_before() -> None:
    before = Needs(line_bps=1e8, path_rtt_ms=20, traffic="calls")
    assert state_needs(NeedsOptions(line="1G"), before) == before.model_copy(update={"line_bps": 1e9})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (NeedsOptions(line="100M/"), ("--line",)),
        (NeedsOptions(line="100M/fast"), ("--line", "fast")),
        (NeedsOptions(line="fast"), ("--line", "fast", "200M")),
        (NeedsOptions(line="0"), ("--line",)),
        (NeedsOptions(line="-1M"), ("--line",)),
        (NeedsOptions(path_rtt="20 minutes"), ("--path-rtt", "20ms")),
        (NeedsOptions(path_rtt="-1ms"), ("--path-rtt",)),
        (NeedsOptions(path_rtt="nan"), ("--path-rtt",)),
        (NeedsOptions(path_loss="2"), ("--path-loss", "0.05%")),
        (NeedsOptions(path_loss="101%"), ("--path-loss",)),
        (NeedsOptions(traffic="video"), ("--traffic", "files, mixed, calls, transactions")),
        (NeedsOptions(connections="4"), ("--connections", "1, 8")),
        (NeedsOptions(must=["nat,fips"]), ("--must", "fips", "approved")),
        (NeedsOptions(must=["--networks"]), ("--must",)),
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_named_with_what_is_valid(given: NeedsOptions, names: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as wrong:
        state_needs(given)
    assert all(name in str(wrong.value) for name in names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('line = "100M', ("TOML",)),
        ('speed = "100M"', ("speed", "line, path_rtt")),
        ("line = -5", ("line in",)),
        ("must = 7", ("must in",)),
        ("must = [7]", ("must in",)),
        ('traffic = ["calls"]', ("traffic in",)),
        ("path_loss = true", ("path_loss in",)),
    ],
)
def test_a_wrong_file_is_named_with_its_key(tmp_path: Path, text: str, names: tuple[str, ...]) -> None:
    path = tmp_path / "needs.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as wrong:
        state_needs(NeedsOptions(needs=path))
    assert all(name in str(wrong.value) for name in (*names, str(path)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.toml"):
        state_needs(NeedsOptions(needs=tmp_path / "gone.toml"))
