"""Site mode with a user who may use sudo without a password, and nothing else."""

from dataclasses import replace
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.places import open_rig
from runner.lab.places.sent import forget, send_image
from runner.lab.places.site import SiteRig
from runner.lab.software.image import Image
from tests.lab.sites import BOXES, two_sites
from tests.lab.test_site import tunnelled
from tests.lab.test_ssh_lab import as_before, settled, with_sudo

pytestmark = pytest.mark.timeout(600)


def test_a_user_with_sudo_is_enough(image: Image, tmp_path: Path) -> None:
    with two_sites(image, tmp_path, root=with_sudo(image)) as boxes:
        for name in BOXES:
            boxes.nodes[name].run("useradd", "-m", "-s", "/bin/sh", "tester")
            boxes.nodes[name].run("mv", "/root/.ssh", "/home/tester/")
            boxes.nodes[name].run("chown", "-R", "tester:tester", "/home/tester/.ssh")
        spec = f"site:{boxes.sites({name: {'user': 'tester'} for name in BOXES})}"
        before = settled(boxes)
        with pytest.raises(CannotRunHere, match=r"(?s)gw1: tester may not become root.*gw2.*NOPASSWD"):
            open_rig(spec, print).__enter__()
        as_before(boxes, before)
        for name in BOXES:
            boxes.nodes[name].write("/etc/sudoers.d/vpneval", "tester ALL=(ALL) NOPASSWD: ALL\n", 0o440)
        before = settled(boxes)
        small = tmp_path / "small-3"
        small.mkdir()
        with open_rig(spec, print) as rig:
            assert isinstance(rig, SiteRig)
            with rig.lab(rig.image("host"), logs=tmp_path) as lab:
                assert tunnelled(rig, lab, "openvpn") > 1e6
            there = send_image(rig.connections["gw1"], replace(rig.image("host"), root=small), print).root
            assert boxes.nodes["gw1"].run("stat", "-c", "%U", str(there)).stdout.strip() == "root"
            forget(rig.connections["gw1"])
        as_before(boxes, before)
