"""IPv6 between the sites: its addresses and routes through a tunnel that is up, beside those of IPv4."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import ip_network

from runner.data.errors import CommandError, MeasurementError, Unsupported, VpnevalError
from runner.data.levels import BASELINE
from runner.lab.node import LabNode, wait_until
from runner.lab.node.iproute import objects
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, batch
from runner.tunnel.path import NO_IPV6, no_ipv6
from runner.vpn.plugin import Vpn

ANSWERED_WITHIN_S = 10.0
KEPT_S = 0.2
SHORTEST_MTU = 1280  # RFC 8200 §5


def ipv6_refusal(lab: Lab, vpn: Vpn) -> Unsupported | None:
    """Why IPv6 cannot be sent through this VPN in this lab; None where it can."""
    if lab.kind not in ("netns", "site"):
        return Unsupported(f"the machines of a {lab.kind} lab keep their own IPv6 addresses and routes")
    if not vpn.inner_ipv6:
        can = "can, but vpneval's plugin cannot" if "IPv6" in vpn.declared.abilities.inner else "cannot"
        return Unsupported(f"{vpn.title} {can} carry IPv6 between the sites")
    if no_ipv6(lab.gateway(lab.sites[0])):
        return Unsupported(NO_IPV6)
    return None


def add_addresses(lab: Lab, site: Site) -> None:
    """Give the site's network addresses of IPv6 beside the others, and let its gateway forward."""
    gateway, host, address = lab.gateway(site), lab.nodes[f"host{site.number}"], site.lan_address_ipv6
    prefix = ip_network(site.lan_ipv6).prefixlen
    port = objects(gateway, "ip", "-json", "addr", "show", "to", site.lan_address)[0]["ifname"]
    on = "net.ipv6.conf.all.disable_ipv6=0"  # a machine that has it off may hand that on to new namespaces
    if lab.kind == "netns":
        gateway.run("sysctl", "-qw", on, f"net.ipv6.conf.{port}.keep_addr_on_down=1")  # as IPv4's are kept
    else:
        gateway.run("sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=0")
        hears_routers(gateway)
    gateway.run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
    host.run("sysctl", "-qw", on)
    if int(host.run("cat", "/sys/class/net/eth0/mtu").stdout) < SHORTEST_MTU:  # where the path is narrow
        batch(host, f"link set eth0 mtu {SHORTEST_MTU}")
    gateway.defer("ip", "addr", "del", f"{address}/{prefix}", "dev", port)
    batch(gateway, f"addr replace {address}/{prefix} dev {port} nodad")
    batch(host, f"addr replace {site.host_ipv6}/{prefix} dev eth0 nodad", f"route replace ::/0 via {address}")


def hears_routers(gateway: LabNode) -> None:
    """Let the ports that take routes from a router's advertisements go on doing so: a machine that forwards does not,
    unless it is told to (ip-sysctl.rst, accept_ra)."""
    shown = gateway.run("grep", "-sl", "1", "-r", "/proc/sys/net/ipv6/conf", "--include=accept_ra", check=False).stdout
    if paths := shown.split():
        gateway.run("sysctl", "-qw", *(f"{path.removeprefix('/proc/sys/')}=2" for path in paths))


def leads_into(lab: Lab, me: Site, peer: Site, vpn: Vpn) -> str:
    """The device by which IPv4 for ``peer`` leaves ``me``; "" where no route leads there, or only the WAN's, which
    does not count but for plain IP."""
    try:
        device = str(objects(lab.gateway(me), "ip", "-json", "route", "get", peer.host_address)[0]["dev"])
    except CommandError:  # the network is unreachable
        return ""
    return "" if device == me.wan_interface and vpn.name != BASELINE else device


def route(lab: Lab, me: Site, peer: Site, device: str) -> None:
    """Route the IPv6 of ``peer`` through a device of ``me``."""
    gateway = lab.gateway(me)
    gateway.run("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=0")
    # On an Ethernet the next hop must be asked for; a device between two ends has only one.
    ethernet = "link/ether" in gateway.run("ip", "link", "show", "dev", device).stdout
    via = f"via fe80::{peer.number} " if ethernet else ""
    gateway.defer("ip", "addr", "del", f"fe80::{me.number}/64", "dev", device)
    gateway.defer("ip", "-6", "route", "del", peer.lan_ipv6, "dev", device)
    batch(
        gateway,
        f"addr replace fe80::{me.number}/64 dev {device} nodad",
        f"route replace {peer.lan_ipv6} {via}dev {device}",
    )


@contextmanager
def keep_routes(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Iterator[None]:
    """Within this block a route of IPv6 that went with its device is there again KEPT_S after IPv4's is, as
    functions.sh of a recipe does it. Nothing is done unless ``inner`` is asked for."""
    ended = threading.Event()

    def keep() -> None:
        while not ended.wait(KEPT_S):
            for me, peer in both_ways(lab):
                with suppress(VpnevalError):  # what kills a gateway's processes kills these commands
                    there = lab.gateway(me).run("ip", "-6", "route", "show", "exact", peer.lan_ipv6).stdout
                    if not there.strip() and (device := leads_into(lab, me, peer, vpn)):
                        route(lab, me, peer, device)

    keeping = threading.Thread(target=keep, daemon=True)
    if "inner" in params:
        keeping.start()
    try:
        yield
    finally:
        ended.set()
        if keeping.is_alive():
            keeping.join()


def both_ways(lab: Lab) -> list[tuple[Site, Site]]:
    """The first site and the last, from either."""
    return [(lab.sites[0], lab.sites[-1]), (lab.sites[-1], lab.sites[0])]


def ipv6_through(lab: Lab, vpn: Vpn) -> str:
    """The IPv6 address of host2, which host1 reaches through the tunnel.

    Gateways route it through the device that has the route of IPv4. Raises MeasurementError where that is the WAN's,
    and nobody protects it there; and where no echo is answered.
    """
    for me, peer in both_ways(lab):
        if not (device := leads_into(lab, me, peer, vpn)):
            raise MeasurementError(
                f"{me.name} routes the sites' traffic to {me.wan_interface}: IPv6 would pass beside the tunnel"
            )
        add_addresses(lab, me)
        route(lab, me, peer, device)
    address = lab.sites[-1].host_ipv6
    echo = ("ping", "-6", "-n", "-q", "-c", "1", "-W", "1", address)
    try:
        wait_until(lambda: lab.host1.run(*echo, check=False).code == 0, "an echo by IPv6", ANSWERED_WITHIN_S)
    except TimeoutError:
        why = f"no echo by IPv6 came through the tunnel within {ANSWERED_WITHIN_S:g} s"
        raise MeasurementError(why, refutes="ipv6-inside") from None
    return address
