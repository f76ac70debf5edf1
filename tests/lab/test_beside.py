"""What a VPN needs beside its gateways: a node of the lab, made, proven on the way, killed, refused where it has no
place. The VPN is a toy, a relay in the middle, so that it needs no layer."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.levels import NO_CIPHER
from runner.instruments.failures.breaks import break_by
from runner.instruments.failures.outage import OutageWatch, outage
from runner.instruments.operator.counts import mesh, on_paper
from runner.lab.shape.site_to_site import namespace_lab, over_ipv6
from runner.lab.software.image import Image
from runner.tunnel.bring_up import bring_up, prepare_beside, start_services, vpn_refusal
from runner.vpn.page import recipe
from runner.vpn.plugin import Vpn

RELAYED = '''
"""A relay beside the gateways, which routes between the sites."""

from runner.data.levels import NO_CIPHER
from runner.data.trials import Evidence
from runner.lab.shape.site import helper_site
from runner.vpn.plugin import Vpn


class Relayed(Vpn):
    title = "toy with a relay"
    dataplane = "userspace"
    transport = "tcp"
    comparable = recommended = NO_CIPHER
    reference = outer_ipv6 = True
    beside = "relay"

    def render_beside(self, me, sites, params, secrets):
        return {"/etc/relay.conf": "".join(f"{site.lan}\\n" for site in sites)}

    def start_beside(self, node, me, sites, params):
        node.run("sysctl", "-qw", "net.ipv4.ip_forward=1")
        node.run("ip", "addr", "replace", "172.30.0.254/24", "dev", "wan0")
        for site in sites:
            node.run("ip", "route", "replace", site.lan, "via", f"172.30.0.{site.number}")
        node.spawn("sleep", "1000", log="relay")

    def start(self, node, me, peers, params):
        assert helper_site(me, self.beside).name == "relay"
        node.run("ip", "addr", "replace", f"172.30.0.{me.number}/24", "dev", "wan0")
        for peer in peers:
            node.run("ip", "route", "replace", peer.lan, "via", "172.30.0.254", "src", me.lan_address)

    def is_up(self, node, me, peers):
        return True

    def evidence(self, node, me, peers, params):
        return Evidence(cipher="none", integrity="none", compression="off", data_path="userspace: a relay")
'''


@pytest.fixture
def toy(tmp_path: Path) -> Vpn:
    (tmp_path / "relayed.py").write_text(RELAYED)
    return load_vpn(str(tmp_path / "relayed.py"))


def test_it_is_made_counted_in_the_set_up_and_made_again(image: Image, tmp_path: Path, toy: Vpn) -> None:
    (tmp_path / "logs").mkdir()
    with namespace_lab(image, logs=tmp_path / "logs") as lab:
        assert vpn_refusal(lab, toy, NO_CIPHER) is None
        start_services(lab)
        assert "relay" not in lab.nodes
        assert bring_up(lab, toy, NO_CIPHER, {}).proof.delivered
        relay = lab.nodes["relay"]
        assert relay.run("cat", "/etc/relay.conf").stdout == "10.1.0.0/24\n10.2.0.0/24\n"
        (first,) = relay.background
        assert bring_up(lab, toy, NO_CIPHER, {}).proof.delivered
        assert lab.nodes["relay"] is relay
        assert len(relay.background) == 1
        assert not first.alive(), "what ran there runs twice"


def test_recovery_kills_it(image: Image, tmp_path: Path, toy: Vpn) -> None:
    (tmp_path / "logs").mkdir()
    with namespace_lab(image, logs=tmp_path / "logs") as lab:
        start_services(lab)
        bring_up(lab, toy, NO_CIPHER, {})
        lives = outage(
            lab, lab.sites[-1].host_address, break_by(lab, toy, NO_CIPHER, "beside"), OutageWatch(100), random.Random(1)
        )
        assert not lab.nodes["relay"].background[0].alive()
        assert lives.recovered_s == 0, "the kernel of the relay routes on"
        assert lives.timeline.events[0].what == "relay: killed"


def test_it_has_an_address_of_either_version(image: Image, toy: Vpn) -> None:
    with namespace_lab(image) as lab:
        over_ipv6(lab)
        prepare_beside(lab, toy, NO_CIPHER, {})
        assert lab.gateway(lab.sites[0]).run("ping", "-c1", "-W5", "2001:db8::254").code == 0


def test_a_lab_without_a_place_for_it_refuses(image: Image, toy: Vpn) -> None:
    with namespace_lab(image) as lab:
        lab.plug_in = None
        no = vpn_refusal(lab, toy, NO_CIPHER)
        assert no is not None
        assert no.reason == "toy with a relay needs a relay beside its gateways, and this lab has no place for one"
        with pytest.raises(MeasurementError, match="no place for a relay"):
            prepare_beside(lab, toy, NO_CIPHER, {})
        assert vpn_refusal(lab, load_vpn("none"), NO_CIPHER) is None, "the control"


def test_its_files_and_commands_are_counted_and_told(toy: Vpn) -> None:
    drafts = on_paper(toy, NO_CIPHER, mesh(2)).drafts
    assert sorted(drafts) == ["gw1", "gw2", "relay"]
    assert len(drafts["relay"].files) == 1
    assert len(drafts["relay"].lines) == 5
    assert "## relay\nput 600 /etc/relay.conf" in recipe(toy, NO_CIPHER, mesh(2))
