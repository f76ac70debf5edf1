"""A hub that restarts: who comes back is timed, who does not is said, and a hub that never was down is noticed."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import InstrumentError
from runner.data.levels import Params
from runner.instruments.failures import storm as storms
from runner.instruments.failures.storm import storm
from runner.lab.node import LabNode, Node
from runner.lab.shape.site import Site
from runner.lab.software.image import Image
from runner.vpn.plugin import Vpn
from tests.lab.test_mesh import bench_for

SPOKES = 3


def forgetful(vpn: Vpn, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its second start on, the hub forgets its last spoke."""
    starts: list[str] = []
    whole = vpn.start

    def start(node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        starts.append(me.name)
        whole(node, me, peers[:-1] if starts.count(me.name) > 1 else peers, params)

    monkeypatch.setattr(vpn, "start", start)


@pytest.mark.smoke
def test_who_comes_back_is_timed_and_who_does_not_is_said(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storms, "LIMIT_S", 5.0)
    vpn = load_vpn("none")
    found = {
        each.metric: each
        for each in storm(bench_for(vpn, image, tmp_path), vpn, vpn.recommended, SPOKES, "restart").measurements
    }
    assert found["storm_half"].value <= found["storm_all"].value < 5
    assert len(found["storm_start"].detail["back_s"]) == SPOKES
    forgetful(vpn, monkeypatch)
    measured = storm(bench_for(vpn, image, tmp_path), vpn, vpn.recommended, SPOKES, "reboot")
    assert {each.metric for each in measured.measurements} == {"storm_start", "storm_half"}
    assert "2 of 3 spokes were back" in measured.remarks[0].why


def test_a_hub_is_one_process_for_all_its_spokes(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As operators run OpenVPN. Its spokes hear of a restart that its daemon is told of, and dial anew."""
    seen: list[int] = []

    def count(centre: LabNode, hub: Site, how: str) -> None:
        seen.append(len(centre.run("pgrep", "-x", "openvpn").stdout.split()))
        take_down(centre, hub, how)

    take_down = storms.take_down
    monkeypatch.setattr(storms, "take_down", count)
    vpn = load_vpn("openvpn")
    measured = storm(bench_for(vpn, image, tmp_path), vpn, vpn.recommended, SPOKES, "restart")
    assert seen == [1]
    assert len(measured.measurements[0].detail["back_s"]) == SPOKES, measured.remarks


@pytest.mark.smoke
def test_a_hub_that_was_not_down_is_noticed(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storms, "clear", lambda gateway: None)  # plain IP has no daemons to end, but routes
    vpn = load_vpn("none")
    with pytest.raises(InstrumentError, match="3 spokes were answered while the hub was down"):
        storm(bench_for(vpn, image, tmp_path), vpn, vpn.recommended, SPOKES, "restart")
