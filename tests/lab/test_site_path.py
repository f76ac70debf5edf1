"""The answer between two sites on a path of a known rate: a share of the path, and no VPN is blamed for the line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runner.lab.software.image import Image
from tests.lab.commands import vpneval
from tests.lab.sites import TwoSites, two_sites

pytestmark = pytest.mark.timeout(900)
VPNS = "openvpn,wireguard_go"
OF_A_LAB = ("this machine", "shared cores")  # words of a lab on one machine


@contextmanager
def slow_path(up: TwoSites, rates_bps: tuple[float, float]) -> Iterator[None]:
    """A path with these rates, from gw1 to gw2 and back."""
    ports = ((up.between["nat"], "out"), (up.between["router"], "wan"))
    for (node, port), rate_bps in zip(ports, rates_bps, strict=True):
        shape = ("tbf", "rate", f"{rate_bps:.0f}bit", "burst", "16000", "latency", "60ms")
        node.run("tc", "qdisc", "add", "dev", port, "root", *shape)
    try:
        yield
    finally:
        for node, port in ports:
            node.run("tc", "qdisc", "del", "dev", port, "root")


@pytest.fixture(scope="module")
def boxes(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoSites]:
    with two_sites(image, tmp_path_factory.mktemp("sites"), root=str(image.root)) as up:
        yield up


def measured(up: TwoSites, out: Path, *more: str) -> None:
    done = vpneval(
        *("run", "choose", "--lab", f"site:{up.sites()}", "--image", "host", "--profile", "site", "--reps", "2"),
        *("--rounds", "6", "--vpn", VPNS, "--max-rate", "200M", *more, "--out", out),
        timeout=800,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def answered(out: Path, *needs: str) -> dict[str, Any]:
    """The answer for these needs; none of its words are those of a lab on one machine."""
    for form in ("md", "html"):
        words = vpneval("report", out, *needs, "--format", form).stdout
        page = words.partition("<script")[0]
        assert not [wrong for wrong in OF_A_LAB if wrong in page], form
    found = json.loads(vpneval("report", out, *needs, "--format", "json").stdout)
    answer: dict[str, Any] = found["judgements"]["choose"]["answer"]
    return answer


@pytest.mark.parametrize(("rate_bps", "lines"), [(50e6, ("40M", "45M", "50M", "60M")), (2e6, ("2M",))])
def test_the_path_is_the_limit_and_no_vpn_is_blamed(
    boxes: TwoSites, tmp_path: Path, rate_bps: float, lines: tuple[str, ...]
) -> None:
    with slow_path(boxes, (rate_bps, rate_bps)):
        measured(boxes, tmp_path / "run")
    for line in lines:
        said = answered(tmp_path / "run", "--line", line, "--traffic", "files")
        for vpn in VPNS.split(","):
            one = next(one for one in said["candidates"] if one["vpn"] == vpn)
            assert 0.9 < one["path_share"] < 1.05, (line, one)
            assert (one["limit"], one["carries"]) == ("path", "yes"), (line, one)
            assert "path" not in [*one["reservations"], *(reason["criterion"] for reason in one["reasons"])]
