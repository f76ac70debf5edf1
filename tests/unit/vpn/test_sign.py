"""The signs of a standing tunnel: which VPN declares what, and what the probe tells of a program's configuration."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.lab.probes.seen import policer_counts, select_lines, words_of, xfrm
from runner.lab.readings.seen import SEEN
from runner.vpn.plugin import Vpn
from runner.vpn.recognised import standing
from runner.vpn.sign import Sign

VPNS = [load_vpn(name) for name in vpn_names()]
STATES = """src 192.0.2.1 dst 192.0.2.2
\tproto esp spi 0xc1 reqid 1 mode tunnel
\tauth-trunc hmac(sha256) 0x00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff 128
\tenc cbc(aes) 0x00112233445566778899aabbccddeeff
"""
POLICY = "src 10.1.0.0/24 dst 10.2.0.0/24 tmpl 192.0.2.1 192.0.2.2 esp tunnel"


def seen(**changes: Any) -> Any:
    counters: dict[str, Any] = {"ip": {}, "policed": {}, "xfrm": {}, "packets": {}}
    empty: dict[str, Any] = {
        "host": "gw",
        "kernel": "6.12",
        "cpu": {},
        "cores": 2,
        "root": True,
        "links": [],
        "routes": [],
    }
    empty |= {"processes": [], "answers": [], "states": [], "policies": [], "listening": [], "lacks": []}
    return SEEN.validate_python(empty | {"counters": counters} | changes)


def link(name: str, kind: str) -> dict[str, Any]:
    return {"ifname": name, "flags": ["UP"], "mtu": 1400, "addr_info": [], "linkinfo": {"info_kind": kind}}


def program(name: str, *devices: str, told: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"pid": 7, "name": name, "devices": [*devices], "sockets": [], "told": [*told], "closed": []}


def test_no_two_vpns_have_the_same_signs() -> None:
    def signs(vpns: list[Vpn]) -> list[Sign]:
        return [replace(vpn.sign, tells=(), config={}, asks=()) for vpn in vpns if vpn.name != "none"]

    assert len({repr(sign) for sign in signs(VPNS)}) == len(signs(VPNS))
    assert len({repr(sign) for sign in signs([*VPNS, VPNS[0]])}) < len(signs([*VPNS, VPNS[0]])), "it would be seen"
    assert not [vpn.name for vpn in VPNS if vpn.sign == Sign() and vpn.name != "none"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("wireguard", {"links": [link("office", "wireguard")]}),
        ("wireguard_go", {"links": [link("office", "tun")], "processes": [program("wireguard-go", "office")]}),
        ("openvpn", {"links": [link("a", "tun")], "processes": [program("openvpn", "a", told=("proto udp",))]}),
        (
            "openvpn_tcp",
            {"links": [link("a", "tun")], "processes": [program("openvpn", "a", told=("proto tcp-client",))]},
        ),
        ("openvpn_tap", {"links": [link("a", "tun")], "processes": [program("openvpn", "a", told=("dev tap0",))]}),
        ("openvpn_dco", {"links": [link("a", "ovpn-dco")], "processes": [program("openvpn")]}),
        ("ipsec", {"states": xfrm(STATES), "policies": [POLICY], "processes": [program("charon")]}),
        ("libreswan", {"states": xfrm(STATES), "policies": [POLICY], "processes": [program("pluto")]}),
        ("ipsec_user", {"links": [link("ipsec0", "tun")], "processes": [program("charon-systemd", "ipsec0")]}),
        (
            "gre_ipsec",
            {
                "links": [link("gre1", "gre")],
                "states": xfrm(STATES.replace("mode tunnel", "mode transport")),
                "policies": [POLICY.replace("tunnel", "transport")],
                "processes": [program("charon")],
            },
        ),
        ("fastd", {"links": [link("a", "tun")], "processes": [program("fastd", "a", told=('method "null"',))]}),
        ("tinc", {"links": [link("a", "tun")], "processes": [program("tincd", "a")]}),
        ("gre", {"links": [link("gre1", "gre")]}),
        ("", {"links": [link("a", "tun")], "processes": [program("secret-tool", "a")]}),
        ("", {"states": xfrm(STATES), "policies": [POLICY]}),
    ],
)
def test_a_tunnel_is_that_of_its_signs(name: str, changes: dict[str, Any]) -> None:
    assert [tunnel.vpn for tunnel in standing(seen(**changes), VPNS)] == [name]


def test_a_ppp_line_to_the_provider_is_no_tunnel() -> None:
    ports = {"links": [link("ppp0", "ppp")], "processes": [program("pppd"), program("sshd")]}
    assert standing(seen(**ports, routes=[{"dst": "default", "dev": "ppp0"}]), VPNS) == []
    assert [tunnel.device for tunnel in standing(seen(**ports), VPNS)] == ["ppp0"]


def test_an_ssh_session_and_a_daemon_without_a_tunnel_are_none() -> None:
    idle = [program("sshd"), program("ssh"), program("charon"), program("openvpn")]
    assert standing(seen(processes=idle), VPNS) == []


def test_what_is_not_named_is_not_told() -> None:
    lines = ["cipher AES-256-GCM", "secret hush", "auth-user-pass hush", "  tls-auth hush", "# cipher hush", "hush"]
    assert select_lines(lines, ["cipher", "auth"]) == ["cipher AES-256-GCM"]
    assert select_lines(lines, ["*"]) != select_lines(lines, ["cipher"]), (
        "all of them, where a VPN says that none is secret"
    )
    argv = ["edge", "-a", "10.0.0.1", "-k", "hush", "-M", "1300", "-phush"]
    assert select_lines([f"{name} {value}" for name, value in words_of(argv)], ["a", "M"]) == ["a 10.0.0.1", "M 1300"]


def test_the_kernels_states_are_told_without_their_keys() -> None:
    (state,) = xfrm(STATES)
    assert state == "src 192.0.2.1 dst 192.0.2.2 proto esp mode tunnel hmac(sha256) cbc(aes)"


# As tc-police(8) of iproute2 6.1 prints it: no kernel of these tests has the classifiers.
POLICER = """filter protocol all pref 49152 matchall chain 0
filter protocol all pref 49152 matchall chain 0 handle 0x1
  not_in_hw
\taction order 1:  police 0x1 rate 1Mbit burst 10Kb mtu 2Kb action drop overhead 0b
\tref 1 bind 1  installed 5 sec used 0 sec firstused 5 sec
\tAction statistics:
\tSent 85680 bytes 60 pkt (dropped 21, overlimits 21 requeues 0)
\tbacklog 0b 0p requeues 0
"""


def test_a_policers_counters_are_read() -> None:
    assert policer_counts(POLICER) == [60, 21]
    assert policer_counts(POLICER + POLICER) == [120, 42]
    assert policer_counts(POLICER.replace("police", "mirred")) == [0, 0]
