"""What separate gateways would carry, by loads whose cost is known; and which loads tell what a byte costs."""

from __future__ import annotations

from typing import Any

import pytest

from runner.data.loads import MachineLoad
from runner.data.own_cores import on_own_cores, overtakings
from runner.instruments.tools.limits import Limits
from tests.unit.data.test_limits import SENDER, TUNNEL, machine, process, reading


def cost(name: str, busy: tuple[float, float], *, threads: int = 1, at_bps: float = 100e6) -> MachineLoad:
    """A VPN whose gateways had so many cores for ``at_bps``."""
    vpn = [process(f"gw{n}", name, share, threads=threads, thread=share / threads) for n, share in enumerate(busy, 1)]
    return machine(*vpn, SENDER, carried_bytes=round(10 * at_bps / 8))


def test_the_busiest_thread_decides_on_separate_gateways() -> None:
    found = on_own_cores([[cost("openvpn", (0.25, 0.5))]])
    assert found is not None
    assert (found.node, found.program, found.threads) == ("gw2", "openvpn", 1)
    assert (found.low_bps, found.high_bps) == pytest.approx((200e6, 600e6))


def test_threads_may_share_all_the_cores_and_need_not() -> None:
    found = on_own_cores([[cost("wireguard-go", (0.5, 0.4), threads=9)]])
    assert found is not None
    assert (found.low_bps, found.high_bps) == pytest.approx((200e6, 1200e6))


def test_several_programs_of_a_gateway_share_its_cores() -> None:
    three = [process("gw1", name, 0.5) for name in ("ssh", "pppd", "sshd")]
    found = on_own_cores([[machine(*three, carried_bytes=round(10 * 100e6 / 8))]])
    assert found is not None
    assert found.high_bps == pytest.approx(3 * 2 * 100e6 / 1.5), "two cores for three programs"


def test_the_median_trial_counts() -> None:
    trials = [[cost("openvpn", (share, 0.1))] for share in (0.4, 0.5, 0.9)]
    assert on_own_cores(trials).low_bps == pytest.approx(200e6)  # type: ignore[union-attr]


def test_a_prediction_below_what_shared_cores_carried_is_none() -> None:
    """A gateway carries with a core of its own what it carried on a shared one."""
    loads = [[cost("openvpn", (0.25, 0.5))]]
    most_bps = on_own_cores(loads).high_bps  # type: ignore[union-attr]
    found = on_own_cores(loads, 0.9 * most_bps)
    assert found is not None
    assert (found.low_bps, found.high_bps) == (0.9 * most_bps, most_bps), "no less than one shared machine carried"
    assert on_own_cores(loads, 1.0) == on_own_cores(loads)
    assert on_own_cores(loads, 1.1 * most_bps) is None


@pytest.mark.parametrize(
    "loads",
    [
        [],
        [machine(SENDER, carried_bytes=10**9)],  # the kernel carries the packets
        [machine(*TUNNEL)],  # nobody knows how much came through
        [machine(*TUNNEL, name="gw1", nodes=["gw1"], carried_bytes=10**9)],  # they are separate
    ],
)
def test_nothing_is_predicted_of_what_is_not_known(loads: list[MachineLoad]) -> None:
    assert on_own_cores([loads]) is None


def test_the_order_changes_where_the_busiest_thread_and_the_total_disagree() -> None:
    """One long thread against two short ones: the first is faster where all share the cores."""
    one, two = on_own_cores([[cost("one", (0.99, 0.01))]]), on_own_cores([[cost("two", (0.32, 0.32))]])
    assert one is not None
    assert two is not None
    here_bps = {"one": 200e6, "two": 190e6}
    assert overtakings(here_bps, {"one": one, "two": two}) == ([("two", "one")], [])
    unsure = two.model_copy(update={"low_bps": 90e6})
    assert overtakings(here_bps, {"one": one, "two": unsure}) == ([], [("two", "one")])
    assert overtakings({"one": 200e6, "two": 300e6}, {"one": one, "two": two}) == ([], [])
    assert overtakings(here_bps, {"one": one}) == ([], [])


class Watched:
    """A bench of a lab in which a program is busy all the time: it is read before and after a piece of a second."""

    def __init__(self) -> None:
        self.lab, self.now_s = object(), 0.0

    def get_shared(self, name: str, make: Any, *, port: str = "") -> Any:
        return self.read

    def read(self) -> dict[str, Any]:
        self.now_s += 1.0
        return {"this machine": reading(self.now_s)}


@pytest.mark.parametrize(
    ("pieces", "at_bps", "looks", "carried_bytes"),
    [
        ([(100, 99, 100), (100, 1, 100)], None, 1, 99),  # most of the second was lost
        ([(100, 1, 100), (100, 0, 100)], None, 2, 0),  # of all: nobody knows what a byte costs
        ([(100, 60, 100), (50, 50, 50)], 100, 1, 60),  # near the rate
        ([(100, 1, 100), (50, 50, 50)], 100, 1, 50),  # nothing came through near the rate
    ],
)
def test_a_piece_that_lost_most_does_not_tell_what_a_byte_costs(
    pieces: list[tuple[float, float, float]], at_bps: float | None, looks: int, carried_bytes: int
) -> None:
    limits, bench = Limits(), Watched()
    for rate_bps, received_bytes, sent_bytes in pieces:
        with limits.watch(bench, rate_bps) as piece:  # type: ignore[arg-type]
            piece.note_carried(received_bytes, sent_bytes)
    (found,) = limits.machine_loads(at_bps)
    assert (found.looks, found.carried_bytes) == (looks, carried_bytes)
