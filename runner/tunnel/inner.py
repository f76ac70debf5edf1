"""IPv6 between the sites: its addresses and routes through a tunnel that is up, beside those of IPv4."""

from __future__ import annotations

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import BASELINE
from runner.lab.node import wait_until
from runner.lab.node.iproute import objects
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, batch
from runner.tunnel.path import NO_IPV6, no_ipv6
from runner.vpn.plugin import Vpn

ANSWERED_WITHIN_S = 10.0


def refused(lab: Lab, vpn: Vpn) -> Unsupported | None:
    """Why IPv6 cannot be sent through this VPN in this lab; None where it can."""
    if lab.kind != "netns":
        return Unsupported(f"the machines of a {lab.kind} lab keep their own IPv6 addresses and routes")
    if not vpn.inner_ipv6:
        can = "can, but vpneval's plugin cannot" if "IPv6" in vpn.declared.abilities.inner else "cannot"
        return Unsupported(f"{vpn.title} {can} carry IPv6 between the sites")
    if no_ipv6(lab.gateway(lab.sites[0])):
        return Unsupported(NO_IPV6)
    return None


def addressed(lab: Lab, site: Site) -> None:
    """Give the site's network addresses of IPv6 beside the others, and let its gateway forward."""
    gateway, host, here = lab.gateway(site), lab.nodes[f"host{site.number}"], site.lan_ipv6.removesuffix("/64")
    on = "net.ipv6.conf.all.disable_ipv6=0"  # a machine that has it off may hand that on to new namespaces
    gateway.run("sysctl", "-qw", on, "net.ipv6.conf.all.forwarding=1")
    host.run("sysctl", "-qw", on)
    batch(gateway, f"addr replace {here}1/64 dev lan0 nodad")
    batch(host, f"addr replace {site.host_ipv6}/64 dev eth0 nodad", f"route replace ::/0 via {here}1")


def ipv6_through(lab: Lab, vpn: Vpn) -> str:
    """The IPv6 address of host2, which host1 reaches through the tunnel.

    Gateways route it through the device that has the route of IPv4. Raises MeasurementError where that is the WAN's,
    and nobody protects it there; and where no echo is answered.
    """
    for me, peer in ((lab.sites[0], lab.sites[-1]), (lab.sites[-1], lab.sites[0])):
        gateway = lab.gateway(me)
        device = objects(gateway, "ip", "-json", "route", "get", peer.host_address)[0]["dev"]
        if device == me.wan_interface and vpn.name != BASELINE:
            raise MeasurementError(
                f"{me.name} routes the sites' traffic to {device}: IPv6 would pass beside the tunnel"
            )
        addressed(lab, me)
        gateway.run("sysctl", "-qw", f"net.ipv6.conf.{device}.disable_ipv6=0")
        # On an Ethernet the next hop must be asked for; a device between two ends has only one.
        ethernet = "link/ether" in gateway.run("ip", "link", "show", "dev", device).stdout
        via = f"via fd00::{peer.number} " if ethernet else ""
        batch(
            gateway,
            f"addr replace fd00::{me.number}/64 dev {device} nodad",
            f"route replace {peer.lan_ipv6} {via}dev {device}",
        )
    address = lab.sites[-1].host_ipv6
    echo = ("ping", "-6", "-n", "-q", "-c", "1", "-W", "1", address)
    try:
        wait_until(lambda: lab.host1.run(*echo, check=False).code == 0, "an echo by IPv6", ANSWERED_WITHIN_S)
    except TimeoutError:
        why = f"no echo by IPv6 came through the tunnel within {ANSWERED_WITHIN_S:g} s"
        raise MeasurementError(why, refutes="ipv6-inside") from None
    return address
