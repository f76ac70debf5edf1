"""What a tunnel carries, tried: an Ethernet frame that is no IP, and an IP multicast, put into the near gateway's end.

Whether it comes out at the far gateway's end has to be as declared. The control is an ordinary datagram that is sent
after them, in the same tunnel, and is seen by the same listener.
"""

from collections.abc import Sequence

import pytest

from runner.catalogue import load_vpn
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import vpn_refusal
from runner.vpn.plugin import Vpn
from tests.lab.test_abilities import LabFor, bring, keys, lab_for, only_by, reworded

__all__ = ["lab_for"]  # a fixture

MULTICAST = "239.1.2.3"
# IEEE 802: EtherType 0x88b5 is for local experiments. A frame counts with its header only: on a TUN, which has no
# Ethernet, its payload goes in bare, and some carry even that.
LISTEN = """
import socket, sys
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind((sys.argv[1], 0))
print("ready", flush=True)
while True:
    frame = tap.recv(65535)
    if frame[:6] == b"\\xff" * 6 and frame[12:14] == b"\\x88\\xb5" and frame[14:].startswith(b"marker:Ethernet"):
        print("seen Ethernet", flush=True)
    for marker in (b"multicast", b"control!"):
        if b"marker:" + marker in frame:
            print("seen", marker.decode(), flush=True)
"""
# A tunnel in the kernel may refuse to send what it does not carry (WireGuard: EPROTONOSUPPORT, ENOKEY).
SEND = """
import contextlib, socket, sys
device, far, group = sys.argv[1:]
tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM)
with contextlib.suppress(OSError):
    tap.sendto(b"marker:Ethernet" + bytes(64), (device, 0x88b5, 0, 0, b"\\xff" * 6))
out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("0.0.0.0") * 2
    + socket.if_nametoindex(device).to_bytes(4, sys.byteorder))
out.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
with contextlib.suppress(OSError):
    out.sendto(b"marker:multicast", (group, 9))
out.sendto(b"marker:control!", (far, 9))
"""

IPSEC = ("ether type arp accept", "ip protocol { esp, ah } accept", "udp dport { 500, 4500 } accept")


def device_to(gateway: LabNode, address: str) -> str:
    route = gateway.run("ip", "route", "get", address).stdout.split()
    return route[route.index("dev") + 1]


def carried(lab: Lab, wanted: set[str]) -> set[str]:
    """Ethernet, multicast: those that came through the tunnel from the first gateway to the second before the control
    did, or, of those ``wanted``, within ten seconds (n2n sends to all by its supernode, and to one directly)."""
    near, far = (lab.gateway(site) for site in lab.sites)
    into = device_to(near, lab.sites[1].host_address)
    if into == lab.sites[0].wan_interface:  # IPsec without a device of its own: nothing may get by beside it
        only_by(lab, *IPSEC)
    listener = far.spawn("python3", "-c", LISTEN, device_to(far, lab.sites[0].host_address), log="listener")
    wait_until(lambda: "ready" in far.read_log("listener"), "the listener listening")

    def seen() -> set[str]:
        return set(far.read_log("listener").split())

    def all_there() -> bool:
        near.run("python3", "-c", SEND, into, lab.sites[1].lan_address, MULTICAST)
        return seen() >= wanted | {"control!"}

    wait_until(all_there, f"{', '.join((*sorted(wanted), 'the control'))} at the far end of the tunnel", 10)
    listener.stop()
    return seen() & {"Ethernet", "multicast"}


def declared(vpn: Vpn) -> set[str]:
    abilities = vpn.declared.abilities
    return {str(payload) for payload in (*abilities.inner, *abilities.otherwise)} & {"Ethernet", "multicast"}


def carries_what_is_declared(lab: Lab, vpn: Vpn) -> None:
    """That, and no more."""
    bring(lab, vpn)
    wanted = declared(vpn)
    assert carried(lab, wanted) == wanted


AS_CONFIGURED = (
    *("openvpn", "openvpn_tap", "ssh_tun", "ssh_tap", "n2n", "nebula", "wireguard_go", "ipsec_user", "openconnect"),
    *("softether", "vpncloud", "yggdrasil", "masque"),
)


@pytest.mark.parametrize("name", AS_CONFIGURED)
def test_it_carries_what_is_declared_and_no_more(lab_for: LabFor, name: str) -> None:
    carries_what_is_declared(lab_for(name), load_vpn(name))


# What the plugin renders is for IP; the system can switch Ethernet as well, in these words. The near gateway's device.
SWITCHED = {
    "fastd": ("fastd2", "mode tun;", "mode multitap;"),
    "tinc": ("tinc0", "Mode = router", "Mode = switch"),
    "vtun_tcp": ("vtun2", "type tun;", "type ether;"),
}


def of_taps(argv: Sequence[str]) -> Sequence[str]:
    """`ip tuntap add … mode tun`, for a TAP."""
    return ["tap" if word == "tun" else word for word in argv]


@pytest.mark.smoke
@pytest.mark.parametrize("name", SWITCHED)
def test_ethernet_where_the_plugin_asks_for_ip(lab_for: LabFor, name: str) -> None:
    vpn, (near_device, old, new) = load_vpn(name), SWITCHED[name]
    assert "Ethernet" in declared(vpn)
    lab = lab_for(name)
    if no := vpn_refusal(lab, vpn, vpn.comparable):
        pytest.skip(f"{name}: {no.reason}")
    secrets = keys(lab, vpn)
    switched = reworded(vpn, lambda text, me: text.replace(old, new), of_taps)
    for me, peer in (lab.sites[::-1], lab.sites):
        for path, text in switched.render(me, [peer], vpn.comparable, secrets).items():
            lab.gateway(me).write(path, text)
        switched.start(lab.gateway(me), me, [peer], vpn.comparable)
    near, far = (lab.gateway(site) for site in lab.sites)
    far.spawn("python3", "-c", LISTEN, near_device.replace("2", "1"), log="listener")

    def seen() -> bool:
        near.run("python3", "-c", SEND, near_device, lab.sites[1].lan_address, MULTICAST, check=False)  # no route yet
        return "seen Ethernet" in far.read_log("listener")

    wait_until(seen, "an Ethernet frame at the far end of the tunnel", 20)
