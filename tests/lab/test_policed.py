"""A line that is policed with a burst: the UDP throughput is what goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, play
from runner.instruments.path.policing import lacks_tbf
from runner.instruments.tools.visits import visits
from runner.instruments.traffic.udp import Udp
from runner.lab.shape.site_to_site import namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, start_services

RATE_BPS, BURST_S, QUEUE_BYTES = 20e6, 0.05, 3100


@pytest.mark.alone
def test_a_burst_that_a_policer_lets_pass_is_no_throughput(image: Image, tmp_path: Path) -> None:
    """Of trials of 0.3 s it is a sixth; and a policer lets no queue form."""
    with namespace_lab(image, logs=tmp_path) as lab:
        if no := lacks_tbf(lab):
            pytest.skip(no.reason)
        plain = load_vpn("none")
        start_services(lab)
        bench = Bench(lab, bring_up(lab, plain, plain.comparable, {}), lambda: pytest.fail("plain IP broke down"))
        visits(bench)  # on the line without a policer, whose losses would make the first trial slow
        bucket = ("burst", f"{RATE_BPS / 8 * BURST_S:.0f}", "limit", f"{QUEUE_BYTES}")
        for port in ("gw1", "gw2"):
            lab.wan.run("tc", "qdisc", "add", "dev", port, "root", "tbf", "rate", f"{RATE_BPS:.0f}bit", *bucket)
        lab.wan.run("ip", "link", "set", "dev", "br0", "promisc", "on")
        levels = {"payload_bytes": "1300", "fragmentation": "refuse"}
        asked = Asked(
            plain, {**plain.comparable, **levels}, replace(PROFILES["quick"], rounds=0), 1, known_bps=1.5 * RATE_BPS
        )
        found = play(Udp().measure(bench, asked), lambda _: None)
        bench.close()
    throughput = next(one for one in found.measurements if one.metric == "udp_throughput")
    assert throughput.value == pytest.approx(1300 / 1342 * RATE_BPS, rel=0.06)
    assert any("burst" in warning for warning in found.warnings)
