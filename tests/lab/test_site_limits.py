"""What protects the path's other traffic: --max-rate, held against the bytes that a router on the path counts."""

import os
import platform
import time
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CannotRunHere
from runner.instruments.tools.generator import Load, generating
from runner.lab.node import LabNode
from runner.lab.places import open_rig
from runner.lab.places.sent import FOLDER, STATUS, forget, send_image
from runner.lab.places.site import SiteRig
from runner.tunnel.bring_up import bring_up, make_secrets, start_services
from tests.lab.sites import TwoSites

MAX_BPS = 8e6
FLOOD = "import socket, sys, time; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); end = time.time() + 2\n"
FLOOD += "while time.time() < end: s.sendto(bytes(int(sys.argv[2])), (sys.argv[1], 9))"
pytestmark = pytest.mark.timeout(300)


def on_path(router: LabNode, port: str, way: str) -> int:
    """Bytes that the router has counted on its port, of Ethernet frames."""
    return int(router.run("cat", f"/sys/class/net/{port}/statistics/{way}_bytes").stdout)


@pytest.mark.parametrize("payload_bytes", [64, 1200])
@pytest.mark.parametrize("name", ["wireguard_go", "openvpn"])
def test_what_is_on_the_path_is_within_the_rate_whatever_the_packets_length(
    unchanged: TwoSites, tmp_path: Path, name: str, payload_bytes: int
) -> None:
    router, vpn = unchanged.between["router"], load_vpn(name)
    spec = f"site:{unchanged.sites(top=f'max_rate_bps = {MAX_BPS}')}"
    with open_rig(spec, print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
        secrets = make_secrets(vpn, rig.alone(rig.image("host"), lambda line: None), lab.sites)
        start_services(lab)
        tunnel = bring_up(lab, vpn, vpn.comparable, secrets)
        before, began = on_path(router, "wan", "rx"), time.monotonic()
        lab.host1.run("python3", "-c", FLOOD, tunnel.address, str(payload_bytes))
        rate_bps = (on_path(router, "wan", "rx") - before) * 8 / (time.monotonic() - began)
        assert 0.3 * MAX_BPS < rate_bps < MAX_BPS
        with generating(lab, tunnel.address) as generator:  # which would rather hand bursts to the kernel
            before, began = on_path(router, "wan", "rx"), time.monotonic()
            generator.play(Load((payload_bytes + 28,), 5 * MAX_BPS / 8 / payload_bytes, 2.0))
            rate_bps = (on_path(router, "wan", "rx") - before) * 8 / (time.monotonic() - began)
        assert 0.3 * MAX_BPS < rate_bps < MAX_BPS


def test_the_image_is_sent_no_faster_and_once_more_where_it_is_another(unchanged: TwoSites, tmp_path: Path) -> None:
    small = tmp_path / "small-2"
    (small / STATUS).parent.mkdir(parents=True)
    (small / STATUS).write_text("no package")
    (small / "noise").write_bytes(os.urandom(2_000_000))
    router, said = unchanged.between["router"], list[str]()
    digest = unchanged.nodes["gw1"].run("sha256sum", input="no package").stdout[:12]
    with open_rig(f"site:{unchanged.sites()}", print) as rig:
        assert isinstance(rig, SiteRig)
        image, there = replace(rig.image("host"), root=small, digest=digest), rig.connections["gw2"]
        before, began = on_path(router, "lan", "tx"), time.monotonic()
        send_image(there, image, said.append, MAX_BPS)
        took_s, bytes_sent = time.monotonic() - began, on_path(router, "lan", "tx") - before
        assert bytes_sent > 2_000_000
        assert bytes_sent * 8 / took_s < MAX_BPS
        send_image(there, image, said.append, MAX_BPS)
        assert len(said) == 1, "it was there"
        unchanged.nodes["gw2"].write(f"{FOLDER}/{small.name}/{STATUS}", "another package")
        send_image(there, image, said.append)
        assert len(said) == 2, "it is sent anew"
        assert unchanged.nodes["gw2"].run("cat", f"{FOLDER}/{small.name}/{STATUS}").stdout == "no package"
        forget(there)


def test_an_image_of_another_architecture_is_not_sent(unchanged: TwoSites, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = platform.machine()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with (
        pytest.raises(CannotRunHere, match=rf"gw1 is of the architecture '{theirs}', .*riscv64.*--image host"),
        open_rig(f"site:{unchanged.sites()}", print) as rig,
    ):
        rig.image("trixie")
    assert unchanged.nodes["gw1"].run("test", "-d", FOLDER, check=False).code != 0
