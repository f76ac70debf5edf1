"""An uncut stretch over made-up tunnels: what is lost, what is late, and what the sender or the counter explains."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from runner.instruments.tools.generator import Arrived, Load
from runner.instruments.tools.steadiness import WINDOW_S, Steadiness, steadiness

PACKET_BYTES, SECONDS, ETHERNET_BYTES = 1328, 30.0, 14
Fate = Callable[[float], float | None]  # when a packet was sent -> when it came; None: never


def stretch(
    fate: Fate,
    *,
    per_s: float = 2000.0,
    begins_s: float = 0.01,
    pauses: Sequence[tuple[float, float]] = (),
    unseen: Sequence[tuple[float, float]] = (),
    path_loss_ratio: float = 0.0,
) -> Steadiness:
    """What is told of a stretch whose packets had this ``fate``; in the ``pauses`` the sender sent none, and the
    counter looked again only at the end of each of ``unseen``."""
    due = (np.arange(round(per_s * SECONDS)) / per_s).tolist()
    sent = [at for at in due if not any(begin <= at < end for begin, end in pauses)]
    came = np.array(sorted(when for at in sent if (when := fate(at)) is not None))
    looks = np.arange(0.002, SECONDS + 3, 0.002)
    for begin, end in unseen:
        looks = looks[(looks <= begin) | (looks >= end)]
    counts = np.searchsorted(came, looks - begins_s, side="right") * (PACKET_BYTES + ETHERNET_BYTES)
    changed = np.flatnonzero(np.diff(counts, prepend=0))
    forgotten = [(end, round((end - begin) * per_s)) for begin, end in pauses]
    return steadiness(
        Arrived(
            load=Load((PACKET_BYTES,), per_s, SECONDS),
            sent=len(sent),
            sent_bytes=len(sent) * PACKET_BYTES,
            seconds=SECONDS,
            received=len(came),
            on_time=len(came),
            kept_up=len(came),
            samples=[(float(looks[at]), int(counts[at])) for at in changed],
            offered={"forgotten": forgotten},
            unseen=[(end + begins_s, end - begin) for begin, end in unseen],
        ),
        path_loss_ratio=path_loss_ratio,
    )


def soon(at: float) -> float:
    """A tunnel that takes a millisecond."""
    return at + 0.001


@pytest.mark.parametrize("per_s", [100.0, 715.0, 5_000.0])
@pytest.mark.parametrize("begins_s", [0.0, 0.05, 0.25])
def test_an_even_tunnel_loses_nothing_and_has_no_gap(per_s: float, begins_s: float) -> None:
    found = stretch(soon, per_s=per_s, begins_s=begins_s)
    assert (found.loss_ratio, found.worst_second_loss_ratio, found.bad_windows, found.limited_windows) == (0, 0, 0, 0)
    assert found.windows == round(SECONDS / WINDOW_S)
    assert len(found.loss_by_second) == round(SECONDS)
    assert found.longest_gap_s <= 1 / per_s + 0.003
    assert found.latest_s <= 1 / per_s + 0.003


def test_a_hole_is_a_loss_of_its_seconds_and_a_gap() -> None:
    found = stretch(lambda at: None if 10.3 <= at < 11.2 else soon(at))
    assert found.longest_gap_s == pytest.approx(0.9, abs=0.01)
    assert found.loss_by_second[10] == pytest.approx(0.7, abs=0.02)
    assert found.loss_by_second[11] == pytest.approx(0.2, abs=0.02)
    assert sum(found.loss_by_second) == pytest.approx(0.9, abs=0.02)
    assert found.loss_ratio == pytest.approx(0.9 / SECONDS, rel=0.01)
    assert found.bad_windows in (4, 5)


def test_a_stall_loses_nothing_and_is_late() -> None:
    """0.2 s of each second, after which all of it comes at once."""
    found = stretch(lambda at: soon(max(at, np.floor(at) + 0.2)))
    assert (found.loss_ratio, found.worst_second_loss_ratio, found.bad_windows) == (0, 0, 0)
    assert found.longest_gap_s == pytest.approx(0.2, abs=0.01)
    assert found.latest_s == pytest.approx(0.2, abs=0.01)
    assert found.late_p99_s > 0.15


def test_a_policer_with_a_large_burst_shows_in_the_seconds_after_it() -> None:
    found = stretch(lambda at: soon(at) if at < 5 or round(at * 2000) % 10 < 6 else None)
    assert found.loss_by_second[:5] == pytest.approx([0] * 5, abs=0.001)
    assert found.loss_by_second[6:] == pytest.approx([0.4] * 24, abs=0.01)
    assert found.bad_windows == pytest.approx(4 * 25, abs=1)


def test_two_states_of_delay_are_no_loss() -> None:
    found = stretch(lambda at: at + (0.06 if at % 4 < 2 else 0.001))
    assert (found.worst_second_loss_ratio, found.bad_windows) == (0, 0)
    assert found.latest_s == pytest.approx(0.06, abs=0.01)


def test_a_tunnel_that_dies_has_lost_everything_since() -> None:
    found = stretch(lambda at: soon(at) if at < 12 else None)
    assert found.longest_gap_s == pytest.approx(18, abs=0.05)
    assert found.loss_by_second[13:] == pytest.approx([1] * 17)
    assert sum(found.loss_by_second) == pytest.approx(18, abs=0.01)
    nothing = stretch(lambda at: None)
    assert nothing.longest_gap_s == SECONDS
    assert nothing.loss_by_second == [1] * 30
    assert nothing.bad_windows == nothing.windows


@pytest.mark.parametrize("pauses", [[(3.1, 3.5)], [(0.0, 0.4)], [(29.5, 30.0)], [(5, 6), (7.0, 7.3), (20.0, 20.1)]])
def test_what_the_sender_did_not_send_is_no_fault_of_the_tunnel(pauses: list[tuple[float, float]]) -> None:
    found = stretch(soon, pauses=pauses)
    assert (found.loss_ratio, found.worst_second_loss_ratio, found.bad_windows) == (0, 0, 0)
    assert found.limited_windows >= sum(end - begin for begin, end in pauses) / WINDOW_S
    assert found.longest_gap_s < 0.03
    both = stretch(lambda at: None if 15 <= at < 15.5 else soon(at), pauses=pauses)
    assert both.longest_gap_s == pytest.approx(0.5, abs=0.02)
    assert both.bad_windows == 2


def test_what_nobody_looked_at_is_no_gap_and_what_was_lost_meanwhile_is_lost() -> None:
    found = stretch(soon, unseen=[(4.0, 4.6)])
    assert (found.worst_second_loss_ratio, found.bad_windows) == (0, 0)
    assert found.longest_gap_s < 0.03
    lost = stretch(lambda at: None if 20 <= at < 22 else soon(at), unseen=[(4.0, 4.6)])
    assert lost.longest_gap_s == pytest.approx(2, abs=0.02)
    assert lost.loss_by_second[20:22] == pytest.approx([1, 1], abs=0.01)


def test_what_the_path_loses_without_a_vpn_is_no_fault_of_the_tunnel() -> None:
    rng = np.random.default_rng(1)

    def some(at: float) -> float | None:
        return None if rng.random() < 0.02 else at + 0.001

    excused = stretch(some, path_loss_ratio=0.02)
    assert excused.loss_ratio == pytest.approx(0.02, rel=0.2), "what is lost is told all the same"
    assert excused.bad_windows <= 0.05 * excused.windows
    assert stretch(some).bad_windows > 0.5 * excused.windows, "the positive control"
    assert (
        stretch(lambda at: None if rng.random() < 0.08 else at, path_loss_ratio=0.02).bad_windows
        > 0.5 * excused.windows
    )
