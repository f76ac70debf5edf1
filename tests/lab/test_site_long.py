"""Site mode on lines that are long and lossy: the rate of the bare path is that of the line, and a tunnel's that of the
path."""

import statistics
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.wan import Conditions
from runner.instruments.tools.visits import visits
from runner.lab.places import open_rig
from runner.lab.places.site import SiteRig
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, make_secrets, start_services
from tests.lab.sites import two_sites

pytestmark = [pytest.mark.alone, pytest.mark.timeout(300)]
WITHIN = 0.1  # payload is 96 % of packets of 1400 bytes


@pytest.mark.parametrize(("rate_bps", "rtt_ms", "loss_ratio"), [(50e6, 240, 0), (20e6, 600, 0.001)])
def test_the_rate_of_a_long_path_is_found(
    image: Image, tmp_path: Path, rate_bps: float, rtt_ms: float, loss_ratio: float
) -> None:
    """One TCP connection finds a third of the first line, and a twentieth of the second, in the time of a short one."""
    with two_sites(image, tmp_path) as boxes:
        boxes.stretch(Conditions(delay_ms=rtt_ms / 2, loss_ratio=loss_ratio, rate_bps=rate_bps, queue_ms=100))
        with open_rig(f"site:{boxes.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            assert isinstance(rig, SiteRig)
            path = rig.measure_path(lab)
            assert lab.rtt_s == pytest.approx(rtt_ms / 1e3, rel=0.1), "whoever waits for packets knows it"
    lossy = pytest.approx(loss_ratio, abs=0.003)
    assert path.loss_ratio == lossy
    assert path.rates_bps == pytest.approx((rate_bps, rate_bps), rel=WITHIN)
    assert path.rtt_ms[1] == pytest.approx(rtt_ms, rel=0.1)


def test_a_slice_of_tcp_is_what_the_path_carries_and_not_what_its_queue_gives(image: Image, tmp_path: Path) -> None:
    """Unpaced, a window that had rested overflowed the queue: 28 and 13 Mbit/s on this line of 20."""
    vpn, rate_bps = load_vpn("wireguard_go"), 20e6
    with two_sites(image, tmp_path) as boxes:
        boxes.stretch(Conditions(delay_ms=30, rate_bps=rate_bps, queue_ms=100))
        with open_rig(f"site:{boxes.sites()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            secrets = make_secrets(vpn, rig.alone(rig.image("host"), lambda line: None), lab.sites)
            start_services(lab)
            bench = Bench(lab, bring_up(lab, vpn, vpn.comparable, secrets), lambda: pytest.fail("it broke down"))
            found = [visits(bench).tcp(0.2, direction=way) for way in ("forward", "reverse") * 3]
            bench.close()
    rates = [8 * each["bytes"] / each["seconds"] for each in found]
    assert max(rates) < rate_bps, rates
    assert statistics.median(rates) > 0.85 * rate_bps, rates
