"""Links of a known rate: what is found must be what arithmetic says, within two per cent."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.trials import Value
from runner.instruments.instrument import at_once
from runner.instruments.result import measurement
from runner.instruments.tools.generator import generating
from runner.instruments.traffic.packets import packets
from runner.instruments.traffic.tcp import tcp
from runner.instruments.traffic.udp import udp
from runner.lab.software.image import Image
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench
from tests.bench import known_links as truth
from tests.bench.known_links import QUEUE_S, found_near, payload_that_fits, shaped
from tests.unit.helpers import overhead_bytes

pytestmark = [pytest.mark.alone, pytest.mark.timeout(480)]  # five attempts, where other work disturbs
WITHIN = 0.02
TRIAL_S = 2.0
SEARCH = UdpSearch(relative_width=0.015, trial_duration_s=TRIAL_S, confirm=None, budget_s=40)


@pytest.mark.parametrize(
    ("link_bps", "duration_s"),
    [(2e6, 40), (20e6, 10), (200e6, 5), (1000e6, 5)],
)
def test_tcp_fills_the_link(image: Image, tmp_path: Path, link_bps: float, duration_s: int) -> None:
    """A long test at a low rate: what is still queued at the end, some 60 ms of it, is not received."""
    with shaped(image, tmp_path, link_bps, 0.02) as bench:
        expected = truth.tcp_goodput(link_bps)
        found = found_near(
            expected,
            WITHIN,
            lambda: tcp(bench.lab, bench.address, duration_s, 1, "forward", "random").measurements[0],
        )
    assert found.value == pytest.approx(expected, rel=WITHIN)


@pytest.mark.parametrize("link_bps", [2e6, 20e6, 200e6, 1000e6])
def test_the_search_finds_the_link(image: Image, tmp_path: Path, link_bps: float) -> None:
    payload_bytes, mtu_bytes = payload_that_fits(link_bps)
    true_bps = truth.udp_throughput(link_bps, payload_bytes, 0.01, TRIAL_S, QUEUE_S)
    with shaped(image, tmp_path, link_bps, QUEUE_S, mtu_bytes=mtu_bytes) as bench:
        found = found_near(true_bps, WITHIN, lambda: at_once(udp(bench, payload_bytes, SEARCH, None)).measurements[0])
    if "generator_limited" in found.detail["flags"]:
        assert found.at_least, "a lower bound, and marked as one"
        assert found.value < true_bps
        pytest.skip(f"iperf3 offers no more than {found.value / 1e6:.0f} Mbit/s on this machine, and says so")
    assert found.value == pytest.approx(true_bps, rel=WITHIN), found.detail


@pytest.mark.parametrize(
    ("link_bps", "packet_bytes"),
    [
        (2e6, 128),
        (20e6, 512),
        (200e6, 1400),
        (1000e6, 1500),
    ],
)
def test_the_packet_rate_is_the_links(image: Image, tmp_path: Path, link_bps: float, packet_bytes: int) -> None:
    true_pps = truth.packet_rate(link_bps, packet_bytes, 0.01, TRIAL_S)
    with shaped(image, tmp_path, link_bps, QUEUE_S) as bench:
        found = found_near(true_pps, WITHIN, lambda: packet_rate(bench, packet_bytes))
    assert found.value == pytest.approx(true_pps, rel=WITHIN), found.detail
    assert found.detail["outer_packets_per_packet"] == pytest.approx(1, abs=0.02)
    assert found.detail["fragments"] == 0


def packet_rate(bench: Bench, packet_bytes: int) -> Value:
    return at_once(packets(bench, packet_bytes, False, SEARCH, None)).measurements[0]


@pytest.mark.parametrize("name", ["openvpn", "wireguard_go"])
def test_a_tunnels_bytes_are_the_ones_that_it_adds(image: Image, tmp_path: Path, name: str) -> None:
    """On a link far slower than the tunnel, the packet rate falls by exactly the bytes of the closed form."""
    vpn, packet_bytes, link_bps = load_vpn(name), 512, 10e6
    overhead = overhead_bytes(vpn, vpn.comparable, packet_bytes)
    assert overhead is not None
    assert overhead > 30
    true_pps = truth.packet_rate(link_bps, packet_bytes, 0.01, TRIAL_S, overhead)
    with shaped(image, tmp_path, link_bps, QUEUE_S, name) as bench:
        found = found_near(true_pps, WITHIN, lambda: packet_rate(bench, packet_bytes))
    assert found.value == pytest.approx(true_pps, rel=WITHIN), found.detail


@pytest.mark.parametrize("link_bps", [20e6, 1e9])
def test_short_trials_find_the_link(image: Image, tmp_path: Path, link_bps: float) -> None:
    """Frames of 1500 bytes at any rate: what a trial forwards is the link's rate and what its bucket held."""
    true_bps = truth.udp_in_time(link_bps, 1472, 0.01)
    with shaped(image, tmp_path, link_bps, QUEUE_S) as bench:
        value = found_near(true_bps, WITHIN, lambda: truth.udp_generated(bench, 1472).measurements[0])
        bench.close()
    assert value.value == pytest.approx(true_bps, rel=WITHIN)


def test_a_mixture_fills_the_link(image: Image, tmp_path: Path) -> None:
    """Packets of three lengths at once: the link's rate is one of bytes, whatever the lengths."""
    link_bps = 200e6
    load = truth.mixture(link_bps)
    expected_bps = truth.mixture_bps(load, link_bps)
    with shaped(image, tmp_path, link_bps, QUEUE_S) as bench, generating(bench.lab, bench.address) as generator:

        def found() -> Value:
            return measurement("udp_throughput", truth.mixture_came_bps(generator.play(load)))

        value = found_near(expected_bps, 0.01, found)
    assert value.value == pytest.approx(expected_bps, rel=0.01)
