"""The rate of a bare path between gateways, on lines whose rate, round trip and loss are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.data.wan import Conditions
from runner.lab.readings.path import RATE_S, look
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import namespace_lab
from runner.lab.software.image import Image

pytestmark = [pytest.mark.alone, pytest.mark.timeout(180)]
WITHIN = 0.1  # payload is 97 % of it


@pytest.mark.parametrize(
    ("rate_bps", "rtt_ms", "loss_ratio"),
    [(2e6, 5, 0), (20e6, 240, 0.01), (2e6, 600, 0.001), (50e6, 60, 0)],
)
def test_the_rate_is_found_on_long_and_lossy_paths(
    image: Image, tmp_path: Path, rate_bps: float, rtt_ms: float, loss_ratio: float
) -> None:
    """One TCP connection finds a tenth of the second line, and of the third."""
    line = Conditions(delay_ms=rtt_ms / 2, loss_ratio=loss_ratio, rate_bps=rate_bps, queue_ms=100)
    with namespace_lab(image, logs=tmp_path) as lab:
        if no := wan.conditions_refusal(lab, line):
            pytest.skip(no.reason)
        wan.apply(lab, line)
        near, far = (lab.gateway(site) for site in lab.sites)
        found = look(near, far, lab.sites[1].wan_address, ("udp/51820", "tcp/655"), RATE_S, 0.0, 1500)
        limited = look(near, far, lab.sites[1].wan_address, ("udp/51820", "tcp/655"), RATE_S, rate_bps / 2, 1500)
    for way in ("forward_bps", "reverse_bps"):
        assert found[way] == pytest.approx(rate_bps, rel=WITHIN)
        assert limited[way] <= 1.05 * rate_bps / 2, "the limit that was stated, of TCP beyond its first burst"
