"""IPv6 between the sites: who is refused, what a plugin is asked for, and what the gateways are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.instruments.traffic.udp_rounds import Offering, SearchMemory, shape_of
from runner.lab.node import Completed
from runner.lab.shape.site_to_site import SITES, Lab
from runner.search.rounds import StepwiseSearch
from runner.sweep.plan import tunnel_params
from runner.tunnel.inner import ipv6_refusal, ipv6_through
from tests.unit.helpers import named_secrets

IPV6 = {"measure": "udp", "payload_bytes": "1300", "inner": "6"}


class Told:
    """A node that notes its commands. A gateway has its routes through ``device``; a host is answered or not."""

    def __init__(self, device: str = "", *, ethernet: bool = False, answered: bool = True) -> None:
        self.name, self.device, self.ethernet, self.answered = "gw1", device, ethernet, answered
        self.lines: list[str] = []

    def log(self, line: str) -> None:
        self.lines.append(line)

    def defer(self, *argv: str) -> None:
        """Nothing: it notes what is done."""

    def run(self, *argv: str, check: bool = True, input: str = "") -> Completed:
        if argv[:4] == ("ip", "-json", "route", "get"):
            return Completed(0, f'[{{"dst": "{argv[4]}", "dev": "{self.device}"}}]', "")
        if argv[:4] == ("ip", "-json", "addr", "show"):
            return Completed(0, '[{"ifname": "lan0"}]', "")
        if argv[0] == "cat":
            return Completed(0, "1500", "")
        if argv[:3] == ("ip", "link", "show"):
            return Completed(0, "link/ether 02:00:00:00:00:01" if self.ethernet else "link/none", "")
        return Completed(0 if argv[0] != "ping" or self.answered else 1, "", "")


def lab_of(device: str, **more: Any) -> Any:
    nodes = {"gw1": Told(device, **more), "gw2": Told(device, **more), "host1": Told(**more), "host2": Told()}
    return Lab(cast(Any, nodes))


@pytest.mark.parametrize(
    ("vpn", "kind", "why"),
    [
        ("none", "netns", ""),
        ("openvpn", "netns", ""),
        ("openvpn_tap", "netns", ""),
        ("wireguard_go", "netns", ""),
        ("wireguard_rosenpass", "netns", "can, but vpneval's plugin cannot carry IPv6 between the sites"),
        ("ipsec", "netns", "can, but vpneval's plugin cannot carry IPv6 between the sites"),
        ("nebula", "netns", "Nebula cannot carry IPv6 between the sites"),
        ("openvpn", "ssh", "the machines of a ssh lab keep their own IPv6 addresses"),
        ("ssh_forward", "netns", "cannot carry IPv6"),
    ],
)
def test_who_cannot_carry_it_is_unsupported_with_the_reason(vpn: str, kind: str, why: str) -> None:
    no = ipv6_refusal(Lab(cast(Any, {"gw1": Told()}), kind=kind), load_vpn(vpn))
    said = no.reason if no else ""
    assert why in said if why else not said


def test_it_has_a_tunnel_of_its_own_that_the_plugin_is_asked_for() -> None:
    vpn = load_vpn("wireguard_go")
    assert tunnel_params(IPV6) == {"inner": "6"}
    secrets = named_secrets(vpn, SITES)
    usual, asked = (
        vpn.render(SITES[0], SITES[1:], {**vpn.comparable, **more}, secrets)["/etc/wireguard/wg0.conf"]
        for more in ({}, {"inner": "6"})
    )
    assert "AllowedIPs = 10.2.0.0/24\n" in usual
    assert asked == usual.replace("AllowedIPs = 10.2.0.0/24\n", "AllowedIPs = 10.2.0.0/24, fd02::/64\n")


@pytest.mark.parametrize(("ethernet", "via"), [(False, ""), (True, "via fe80::2 ")])
def test_the_sites_are_routed_through_the_tunnels_device(ethernet: bool, via: str) -> None:
    lab = lab_of("tun0", ethernet=ethernet)
    assert ipv6_through(lab, load_vpn("openvpn")) == "fd02::2"
    assert "[gw1] ip addr replace fe80::1/64 dev tun0 nodad" in lab.nodes["gw1"].lines
    assert f"[gw1] ip route replace fd02::/64 {via}dev tun0" in lab.nodes["gw1"].lines
    assert "[gw1] ip addr replace fd02::1/64 dev lan0 nodad" in lab.nodes["gw2"].lines
    assert "[gw1] ip addr replace fd02::2/64 dev eth0 nodad" in lab.nodes["host2"].lines


def test_nothing_passes_beside_the_tunnel() -> None:
    with pytest.raises(MeasurementError, match="gw1 routes the sites' traffic to wan0: IPv6 would pass beside"):
        ipv6_through(lab_of("wan0", ethernet=True), load_vpn("ipsec"))
    assert ipv6_through(lab_of("wan0", ethernet=True), load_vpn("none")) == "fd02::2", "the baseline has no other way"


def test_a_tunnel_that_does_not_carry_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runner.tunnel.inner.ANSWERED_WITHIN_S", 0.1)
    with pytest.raises(MeasurementError, match=r"no echo by IPv6 came through the tunnel within 0\.1 s"):
        ipv6_through(lab_of("tun0", answered=False), load_vpn("openvpn"))


def test_the_same_payload_has_longer_headers() -> None:
    for params, address in ((IPV6, "fd02::2"), ({"measure": "udp", "payload_bytes": "1300"}, "10.2.0.2")):
        shape, words = shape_of(params, fragment=False)
        bench = cast(Any, SimpleNamespace(address=address))
        offering = Offering(bench, shape, SearchMemory(StepwiseSearch()))
        assert shape.ip_bytes == ((1348,) if ":" in address else (1328,))
        assert words == str(shape.ip_bytes[0])
        assert offering.payload_bytes == 1300
        assert offering.load(8 * 1300 * 500, 1).per_s == 500


def test_a_mixture_has_the_payloads_that_it_has_in_ipv4() -> None:
    four, six = (
        shape_of({"payload_bytes": "1300", "lengths": "imix", **inner}, fragment=False)
        for inner in ({}, {"inner": "6"})
    )
    assert six[1] == "IMIX - ABCABAABAABA (A=60, B=596, C=1348)"
    assert [longer - 48 for longer in six[0].ip_bytes] == [shorter - 28 for shorter in four[0].ip_bytes]
