"""What a tunnel costs that carries nothing, on bare gateways: nothing is nothing, and a program that polls is seen."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import InstrumentError
from runner.instruments.traffic import quiet as quiets
from runner.instruments.traffic.quiet import FIELDS, POLLER, quiet
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import Topology, topology_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, start_services

WATCH_S = 2.0


@pytest.fixture
def bench(lab: Lab, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Plain IP's, with room for the bare gateways beside it."""
    monkeypatch.setattr(quiets, "SETTLE_S", 0.2)

    @contextmanager
    def shaped(topology: Topology) -> Iterator[Lab]:
        with topology_lab(topology, image, logs=tmp_path) as beside:
            yield beside

    start_services(lab)
    vpn = load_vpn("none")
    up = bring_up(lab, vpn, vpn.comparable, {})
    return Bench(lab, up, lambda: pytest.fail("it broke down"), meshes=shaped)


@pytest.mark.smoke
def test_plain_ip_costs_nothing_and_a_gateway_that_polls_is_seen(bench: Bench) -> None:
    of = {found.metric: found.value for found in quiet(bench, WATCH_S).measurements}
    assert {metric: of.pop(metric) for metric in ("idle_silence",)}["idle_silence"] >= WATCH_S
    assert of == dict.fromkeys(FIELDS.keys() - {"idle_silence"}, 0.0)
    bench.lab.gateway(bench.lab.sites[0]).spawn("python3", "-IS", "-c", POLLER, "192.168.0.2", "20", "5", log="poller")
    first, *others = quiet(bench, WATCH_S).measurements
    near, far = (first.detail["gateways"][name] for name in ("gw1", "gw2"))
    assert near["cpu_ms"] > 0
    assert 600 < near["wakeups"] < 1500, "1,200 a minute"
    assert far["wakeups"] == far["pss_bytes"] == 0, "who polls is the other one"
    assert 120 < near["packets"] < 600, "240 a minute, and an ICMP answer to some"
    assert near["silence_s"] < WATCH_S
    assert others[0].value == pytest.approx(near["wakeups"] / 2)


@pytest.mark.smoke
def test_it_fails_where_it_cannot_see(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiets, "POLLER", "import time; time.sleep(60)")
    with pytest.raises(InstrumentError, match="was not seen on a gateway"):
        quiet(bench, 0.5)
