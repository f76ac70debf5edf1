"""``--set version=``: each version is a VPN of the run, with its own layer."""

from types import SimpleNamespace
from typing import cast

import pytest

from runner.catalogue import load_vpn, version_names
from runner.data.errors import UsageError
from runner.lab.shape.site_to_site import Lab
from runner.lab.software import layers
from runner.tunnel.bring_up import equip, vpn_refusal
from runner.vpn.plugin import Version
from tests.unit.asking import by_the_command, request
from tests.unit.helpers import Answers
from vpns.tinc import Tinc


def names(*vpns: str, levels: str) -> list[str]:
    return [vpn.name for vpn in request("transport", vpns=vpns, levels=levels).vpns]


def test_each_level_is_a_vpn_and_who_has_none_is_measured_as_it_is() -> None:
    both = "version=debian,version=2026"
    assert names("wireguard_go", levels=both) == ["none", "wireguard_go", "wireguard_go@2026"]
    assert names("wireguard_go", "openvpn", levels="version=2026") == ["none", "wireguard_go@2026", "openvpn"]
    assert names("nebula", "wireguard_go@2026", levels=f"{both},version=1.10") == [
        *("none", "nebula", "nebula@1.10", "wireguard_go@2026")
    ]
    assert names("boringtun", levels="version=debian") == ["none", "boringtun"], "it inherits no other's versions"


def test_a_factor_s_levels_follow_one_another() -> None:
    asked = by_the_command("run transport --vpn wireguard_go --set version=debian,2026,measure=tcp")
    assert asked.levels == ("version=debian", "version=2026", "measure=tcp")


@pytest.mark.parametrize(
    ("vpns", "levels", "says"),
    [
        (["nebula"], "version=2026", "unknown version '2026'. Valid for these VPNs: debian, 1.10"),
        (["wireguard_go@2023"], "", "unknown version of wireguard_go '2023'"),
        (["tinc@1.1"], "", "tinc has one version only, that of the image"),
    ],
)
def test_what_is_wrong_is_a_sentence(vpns: list[str], levels: str, says: str) -> None:
    with pytest.raises(UsageError) as wrong:
        names(*vpns, levels=levels)
    assert says in str(wrong.value)


def test_a_version_is_its_plugin_with_another_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tinc, "versions", {"1.1": Version("tinc-1.1", {"note": "newer"})})
    old, new = load_vpn("tinc"), load_vpn("tinc@1.1")
    assert (new.name, new.title, new.note) == ("tinc@1.1", f"{old.title}, version 1.1", "newer")
    assert (new.software.layer, new.software.tools) == ("tinc-1.1", old.software.tools)
    assert (old.software.layer, old.note) == ("", "")


@pytest.mark.parametrize("name", version_names())
def test_every_version_has_its_layer(name: str) -> None:
    assert load_vpn(name).software.layer in layers.names()
    assert not load_vpn(name.partition("@")[0]).software.layer, "the version would lack what that layer has"


def test_a_version_is_unpacked_over_what_the_image_has(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked, why = list[str](), ""

    def unpack(node: object, name: str) -> str:
        unpacked.append(name)
        return why

    monkeypatch.setattr(layers, "unpack", unpack)
    node = Answers({"which": "/usr/bin/wg\n/usr/bin/wireguard-go\n"})
    assert equip(node, load_vpn("wireguard_go")) is None
    assert unpacked == [], "the image's own needs no layer"
    assert equip(node, load_vpn("wireguard_go@2026")) is None
    assert unpacked == ["wireguard-go-2026"]
    why = "its layer is not built; build it with: vpneval image trixie --layer wireguard-go-2026"
    no = equip(node, load_vpn("wireguard_go@2026"))
    assert no is not None
    assert why in no.reason, "the image's wireguard-go is not taken for it"


def test_a_version_does_not_come_onto_a_machine_of_somebody() -> None:
    no = vpn_refusal(cast(Lab, SimpleNamespace(kind="ssh", path=None)), load_vpn("wireguard_go@2026"), {})
    assert no is not None
    assert "Ask for wireguard_go there" in no.reason
