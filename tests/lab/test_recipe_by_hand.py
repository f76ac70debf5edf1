"""A recipe works by hand: written and run as a script, and printed and pasted into an interactive shell.

It comes up, carries, comes back when its daemon is killed, lets nothing out in the clear meanwhile, and leaves nothing.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.lab.node import wait_until
from runner.lab.shape.site_to_site import Lab
from runner.lab.software.image import DEFAULT, Image, open_image
from tests.contract import OLDER
from tests.lab.by_hand import (
    answers,
    bare_packets,
    carries,
    daemons,
    is_up,
    print_and_paste,
    script,
    state,
    two_gateways,
    up,
    write_and_run,
)

# Every VPN in userspace that the images have, but softether: it keeps what it was told in /var/lib/softether, and is
# not told the same again after it was killed.
NAMES = (
    *("fastd", "ipsec_user", "n2n", "nebula", "openconnect", "openconnect_tls", "openvpn", "openvpn_tap"),
    *("openvpn_tcp", "ssh_forward", "ssh_tap", "ssh_tun", "stunnel_forward", "tinc", "vtun", "vtun_tcp"),
    "wireguard_go",
)
FORMS = ("written", "pasted")
FIRST = ("wireguard_go", "pasted")
pytestmark = pytest.mark.timeout(300)


def cases() -> list[object]:
    """Both forms of every VPN. One is in the gate; files that were written are in test_tunnels_by_name.py, too."""
    return [
        pytest.param(name, form, marks=[pytest.mark.smoke] if (name, form) == FIRST else [])
        for name in NAMES
        for form in FORMS
    ]


class Tunnel:
    """Both gateways, which somebody has set up."""

    def __init__(self, lab: Lab, name: str) -> None:
        self.lab, self.gateways = lab, (lab.nodes["gw1"], lab.nodes["gw2"])
        self.ports_only = load_vpn(name).carries == "tcp"

    def works(self, within_s: float = 40) -> None:
        """Both checks are true, and the hosts reach each other."""
        for node in self.gateways:
            try:
                wait_until(lambda node=node: is_up(node), f"check.sh of {node.name}", within_s, 0.5)  # type: ignore[misc]
            except TimeoutError as late:
                raise AssertionError(
                    f"{late}: {node.run('/root/tunnel/check.sh', check=False)}\n"
                    f"{node.run('sh', '-c', 'cat /var/log/vpneval-tunnel@*.log').stdout[-3000:]}"
                ) from late
        if self.ports_only:
            carries(self.lab, both=False, entry="10.1.0.1", port=5201)
        else:
            wait_until(lambda: answers(self.lab), "the far host's answer", 10, 0.2)
            carries(self.lab)

    def is_left_alone_by_a_second_up(self) -> None:
        for node in self.gateways:
            during, running = state(node), daemons(node)
            assert "Nothing has changed" in up(node)
            assert set(state(node)) ^ set(during) == set()
            assert daemons(node) == running

    def comes_back_and_nothing_leaves_in_the_clear(self, gateway: int = 0, within_s: float = 40) -> None:
        near, seen = self.gateways[gateway], bare_packets(self.lab)
        if not (killed := daemons(near)):
            return  # a tunnel of the kernel alone, which nobody can kill
        pinging, was = self.lab.host1.spawn("ping", "-i", "0.1", "10.2.0.2", log="pinging"), script(near)
        near.run("kill", "-KILL", *killed)
        # Until then a tunnel in the kernel carries what it did.
        wait_until(lambda: script(near) not in ("", was), "the start of another tunnel", 40)
        self.works(within_s)
        pinging.stop()
        assert self.ports_only or bare_packets(self.lab) == seen, "while it was down, packets left in the clear"

    def goes(self, before: Mapping[str, list[str]]) -> None:
        """Each gateway, the answering one first, is at once as it was."""
        for node in reversed(self.gateways):
            node.run("/root/tunnel/down.sh")
            assert node.run("/root/tunnel/check.sh", check=False).code == 1
            was = before[node.name]
            with suppress(TimeoutError):  # what is left is said below
                wait_until(lambda node=node, was=was: set(state(node)) == set(was), "", 10)  # type: ignore[misc]
            processes = node.run("ps", "-eo", "pid,ppid,state,args").stdout
            assert set(state(node)) ^ set(was) == set(), f"{node.name}: {processes}"


@pytest.mark.parametrize(("name", "form"), cases())
def test_a_recipe_by_hand(image: Image, tmp_path: Path, name: str, form: str) -> None:
    gateways = open_image("bookworm" if name in OLDER else DEFAULT, say=print)
    with two_gateways(image, tmp_path, gateways) as lab:
        goes_by_hand(lab, name, form, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_the_daemons_of_the_answering_gateway_are_killed(image: Image, tmp_path: Path, name: str) -> None:
    """The dialing one notices it, and dials again."""
    gateways = open_image("bookworm" if name in OLDER else DEFAULT, say=print)
    with two_gateways(image, tmp_path, gateways) as lab:
        tunnel = Tunnel(lab, name)
        write_and_run(lab, name, tmp_path)
        tunnel.works()
        tunnel.comes_back_and_nothing_leaves_in_the_clear(gateway=1, within_s=80)  # OpenVPN looks for 60 s


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_it_comes_up_ten_times_of_ten(image: Image, tmp_path: Path, name: str, form: str) -> None:
    """With keys of their own each time, on gateways that have had it before."""
    gateways = open_image("bookworm" if name in OLDER else DEFAULT, say=print)
    with two_gateways(image, tmp_path, gateways) as lab:
        tunnel = Tunnel(lab, name)
        before = {node.name: state(node) for node in tunnel.gateways}
        for number in range(10):
            set_up(lab, name, form, tmp_path / f"{number}")
            tunnel.works()
            tunnel.goes(before)
            for node in (*tunnel.gateways, lab.host2):
                node.run("sh", "-c", "rm -rf /root/tunnel /root/*-?????? /root/keys /root/vpneval-ca")


def set_up(lab: Lab, name: str, form: str, folder: Path) -> None:
    """By files that were written, or by what was pasted."""
    if form == "written":
        write_and_run(lab, name, folder)
    else:
        print_and_paste(lab, name)


def goes_by_hand(lab: Lab, name: str, form: str, folder: Path) -> None:
    """Up, up again, back after its daemons were killed, gone; and the control of what is in the clear."""
    tunnel = Tunnel(lab, name)
    before = {node.name: state(node) for node in tunnel.gateways}
    set_up(lab, name, form, folder)
    tunnel.works()
    tunnel.is_left_alone_by_a_second_up()
    tunnel.comes_back_and_nothing_leaves_in_the_clear()
    tunnel.goes(before)
    # The control: without a recipe such packets are seen.
    seen = bare_packets(lab)
    lab.nodes["gw1"].run("sysctl", "-qw", "net.ipv4.ip_forward=1")
    wait_until(lambda: answers(lab) or bare_packets(lab) > seen, "a packet in the clear", 10)
