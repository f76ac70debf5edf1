"""Site mode on lines that are long and lossy: the rate of the bare path is that of the line."""

from pathlib import Path

import pytest

from runner.data.wan import Conditions
from runner.lab.places import open_rig
from runner.lab.places.site import SiteRig
from runner.lab.software.image import Image
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
    assert path.rates_bps == pytest.approx((rate_bps, rate_bps), rel=WITHIN)
    assert path.rtt_ms[1] == pytest.approx(rtt_ms, rel=0.1)
