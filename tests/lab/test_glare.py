"""fastd: two first handshakes that cross. A path with a delay makes them cross; here the answers to ARP are late."""

from __future__ import annotations

import pytest

from runner.catalogue import load_vpn
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import UP_WITHIN_S, Tunnel, bring_up, make_secrets, start_services
from runner.vpn.plugin import Vpn

# Each gateway's first packet waits for the address of the other one, which both learn at the same moment.
LATE = "table bridge late { chain forward { type filter hook forward priority 0; ether type arp drop; }; }"
ANSWERED = "sleep 0.6; nft delete table bridge late"


def up_when_answers_are_late(lab: Lab, image: Image, vpn: Vpn) -> Tunnel:
    secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), lab.sites)
    start_services(lab)
    lab.wan.run("nft", "-f", "-", input=LATE)
    lab.wan.spawn("sh", "-c", ANSWERED, log="answered")
    return bring_up(lab, vpn, vpn.comparable, secrets)


@pytest.mark.smoke
def test_the_second_end_begins_after_the_firsts_handshake(lab: Lab, image: Image) -> None:
    assert up_when_answers_are_late(lab, image, load_vpn("fastd")).setup_s < UP_WITHIN_S / 3


def test_ends_that_begin_at_once_have_a_session_each_and_carry_nothing(lab: Lab, image: Image) -> None:
    """The control: what the plugin declares of fastd is so."""
    vpn = load_vpn("fastd")
    vpn.one_end_first = False  # type: ignore[misc]
    up = r"gw1: the plugin says that the tunnel is up; gw2: the plugin says that the tunnel is up"
    with pytest.raises(TimeoutError, match=up):
        up_when_answers_are_late(lab, image, vpn)
