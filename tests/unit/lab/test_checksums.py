"""A lab image whose files are no longer what their packages brought, and layers that are cut."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path
from typing import cast

import pytest

from runner.data.errors import InstrumentError, PluginError, Unsupported
from runner.data.levels import Params
from runner.lab.node import Node
from runner.lab.shape.site_to_site import Lab
from runner.lab.software import checksums, layers
from runner.lab.software.checksums import damage
from runner.lab.software.image import Image
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.plugin import Software
from runner.vpn.recipe import NotedNode
from tests.unit.helpers import PaperLab
from vpns.none import PlainIp

STATUS = """Package: daemon
Depends: libcrypto-virtual (>= 3), other | libc
Pre-Depends: init

Package: libssl3t64
Provides: libcrypto-virtual (= 3)
Depends: daemon

Package: libc

Package: init

Package: unneeded
"""
FILES = {
    "daemon": "usr/sbin/daemon",
    "libssl3t64:amd64": "usr/lib/libcrypto.so.3",
    "libc": "usr/lib/libc.so.6",
    "init": "etc/init",
    "unneeded": "usr/bin/unneeded",
}


@pytest.fixture
def image(tmp_path: Path) -> Image:
    checksums._find_damage.cache_clear()
    checksums._of_package.cache_clear()
    info = tmp_path / "var/lib/dpkg/info"
    info.mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    for package, name in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        digest = hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()
        (info / f"{package}.md5sums").write_text(f"{digest}  {name}\n")
    return Image("trixie", tmp_path, "0", {})


def test_a_whole_image_is_not_damaged(image: Image) -> None:
    assert damage([image, image], ["daemon"]) == ""


@pytest.mark.parametrize("name", [name for name in FILES.values() if "unneeded" not in name])
@pytest.mark.parametrize("how", ["cut", "removed", "a folder"])
def test_a_damaged_file_of_a_package_or_of_what_it_needs_is_named(image: Image, name: str, how: str) -> None:
    file = image.root / name
    file.unlink()
    if how == "cut":
        file.write_text(name[:4])
    elif how == "a folder":
        file.mkdir()
    said = damage([image], ["daemon"])
    assert name in said
    assert said.endswith("Rebuild it with: vpneval image trixie --rebuild")
    assert ("is not the file that was installed" if how == "cut" else "is missing") in said


def test_what_the_vpn_does_not_need_is_no_reason(image: Image) -> None:
    (image.root / "usr/bin/unneeded").unlink()
    assert damage([image], ["daemon"]) == ""


def test_what_another_package_has_diverted_is_not_damaged(image: Image) -> None:
    (image.root / "usr/sbin/daemon").write_text("another")
    (image.root / "var/lib/dpkg/diversions").write_text("/usr/sbin/daemon\n/usr/sbin/daemon.distrib\nother\n")
    assert damage([image], ["daemon"]) == ""


def test_the_hosts_own_root_is_the_users(image: Image) -> None:
    assert damage([Image("host", Path("/"), "host", {})], ["bash"]) == ""


def test_a_cut_layer(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tar = tmp_path / "layer.tar.gz"
    monkeypatch.setattr(layers, "locate", lambda name, suite: tar)
    assert damage([image], ["daemon"], "libreswan") == "", "one that was never built is not damaged"
    whole = gzip.compress(bytes(range(256)) * 99)
    tar.write_bytes(whole)
    assert damage([image], ["daemon"], "libreswan") == ""
    for cut in (whole[:-9], whole[:40] + bytes([whole[40] ^ 1]) + whole[41:], b"", b"no gzip"):
        tar.write_bytes(cut)
        assert "vpneval image trixie --layer libreswan" in damage([image], ["daemon"], "libreswan"), cut


class Broken(PlainIp):
    """A plugin whose tool is damaged: it refuses, or its probe fails."""

    software = Software(tools={"daemon": "daemon"})
    how: Unsupported | Exception | None = Unsupported("the daemon does not list AES-128-CBC")

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if isinstance(self.how, Exception):
            raise self.how
        return self.how


class Found(NotedNode):
    """A gateway that has the tool."""

    def run(self, *argv: str, **options: object):  # type: ignore[no-untyped-def]
        done = super().run(*argv)
        return type(done)(0, "/usr/sbin/daemon\n", "")


@pytest.mark.parametrize("how", [Unsupported("it does not list AES-128-CBC"), PluginError("it says nothing")])
def test_a_vpn_is_not_blamed_for_a_damaged_image(image: Image, how: Unsupported | Exception) -> None:
    vpn = Broken()
    vpn.how = how
    lab = PaperLab({"gw1": Found("gw1"), "gw2": Found("gw2")})
    lab.images = (image, image)
    if isinstance(how, Unsupported):
        assert vpn_refusal(cast(Lab, lab), vpn, vpn.comparable)
    else:
        with pytest.raises(PluginError):
            vpn_refusal(cast(Lab, lab), vpn, vpn.comparable)
    checksums._find_damage.cache_clear()
    checksums._of_package.cache_clear()
    (image.root / "usr/lib/libcrypto.so.3").write_text("")
    with pytest.raises(InstrumentError, match=r"libcrypto.so.3 \(package libssl3t64\) is not the file"):
        vpn_refusal(cast(Lab, lab), vpn, vpn.comparable)
