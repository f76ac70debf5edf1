"""A tunnel in use for a while: a gateway that leaks descriptors is seen to, and a rekey is noticed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.trials import Value
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.traffic import soak as soaks
from runner.instruments.traffic.soak import LEAKER, Soak
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import Topology, topology_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, make_secrets, start_services

SOAK_S = 13  # two rekeys of OpenVPN's


@pytest.mark.parametrize("leaks", [False, True])
def test_a_gateway_that_leaks_is_seen_and_so_is_a_rekey(
    lab: Lab, image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaks: bool
) -> None:
    monkeypatch.setattr(soaks, "SLICE_S", 1.0)
    monkeypatch.setattr(soaks, "LEAK_S", 0.1)

    @contextmanager
    def shaped(topology: Topology) -> Iterator[Lab]:
        with topology_lab(topology, image, logs=tmp_path) as beside:
            yield beside

    vpn, params = load_vpn("openvpn"), {"soak_s": str(SOAK_S), "soak_load": "10", "measure": "soak"}
    levels = {**vpn.recommended, "rekey_every_s": "6"}
    secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), lab.sites)
    start_services(lab)
    bench = Bench(lab, bring_up(lab, vpn, levels, secrets), lambda: pytest.fail("it broke down"), meshes=shaped)
    if leaks:
        lab.gateway(lab.sites[1]).spawn("python3", "-IS", "-c", LEAKER, "0.2", "4096", log="leaker")
    measured = at_once(Soak().measure(bench, Asked(vpn, {**vpn.recommended, **params}, PROFILES["smallest"], 1)))
    found: dict[str, Value] = {value.metric: value for value in measured.measurements}
    gained = found["soak_descriptors"].detail["by_gateway"]
    assert gained["gw1"] == 0
    assert (25 < gained["gw2"] < 70) if leaks else gained["gw2"] == 0, "five a second, from one third to the other"
    assert found["soak_pause"].detail["rekeys"] >= 1
    assert "soak_memory" not in found, "in seconds a heap still grows"
