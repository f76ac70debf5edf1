"""What a site lab fills in of the needs: what the path shows and the user has not stated."""

from dataclasses import replace

import pytest

from runner.choice.stated import state_needs
from runner.data.named import USUAL
from runner.data.needs import Needs
from runner.data.options import NeedsOptions
from runner.lab.shape.site import BarePath
from runner.sweep.seen import with_seen

PATH = BarePath(
    *(1400, False, "10.0.0.2 is seen as 203.0.113.1", ("udp/500", "tcp/443"), ("udp/500", "tcp/443")),
    rtt_ms=(11.0, 12.3456, 20.0),
    loss_ratio=0.02,
    rates_bps=(187.65e6, 240e6),
)


def test_the_path_is_filled_in_and_marked() -> None:
    needs = with_seen(Needs(), PATH)
    assert (needs.line_bps, needs.line_up_bps) == (240e6, 188e6)
    assert (needs.path_rtt_ms, needs.path_loss_ratio) == (12.3, 0.02)
    assert needs.path_mtu_bytes == 1400
    assert needs.must == ("networks", "nat", "maintained")
    assert set(needs.seen) == {"line_bps", "line_up_bps", "path_rtt_ms", "path_loss_ratio", "path_mtu_bytes", "nat"}
    alike = with_seen(Needs(), replace(PATH, rates_bps=(49e6, 47e6)))
    assert (alike.line_bps, alike.line_up_bps) == (47e6, None)
    assert with_seen(needs, replace(PATH, rates_bps=(1e6, 1e6))) == needs, "a later call keeps what was seen"


def test_what_the_user_states_stays() -> None:
    own = state_needs(NeedsOptions(line="50M", must=["-nat,kernel"]))
    needs = with_seen(own, PATH)
    assert needs.line_bps == 50e6
    assert needs.must == ("networks", "kernel", "maintained")
    assert set(needs.seen) == {"path_rtt_ms", "path_loss_ratio", "path_mtu_bytes"}
    later = state_needs(NeedsOptions(path_rtt="5ms"), needs)
    assert later.path_rtt_ms == 5
    assert "path_rtt_ms" not in later.seen
    assert "path_mtu_bytes" in later.seen


@pytest.mark.parametrize(
    ("path", "absent", "musts"),
    [
        (replace(PATH, loss_ratio=0.0), "path_loss_ratio", ("networks", "nat", "maintained")),
        (replace(PATH, rtt_ms=()), "path_rtt_ms", ("networks", "nat", "maintained")),
        (replace(PATH, rates_bps=()), "line_bps", ("networks", "nat", "maintained")),
        (replace(PATH, open=("tcp/443",), rtt_ms=()), "path_rtt_ms", ("networks", "udp-blocked", "nat", "maintained")),
        (replace(PATH, nat="", rates_bps=()), "line_bps", USUAL),
    ],
)
def test_what_was_not_seen_is_not_filled_in(path: BarePath, absent: str, musts: tuple[str, ...]) -> None:
    """None of a hundred packets lost is no loss of 0: that would tell nothing of one in a thousand."""
    needs = with_seen(Needs(), path)
    assert getattr(needs, absent) is None
    assert absent not in needs.seen
    assert needs.must == musts
