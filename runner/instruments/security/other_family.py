"""The sites have IPv6, and the tunnel was set up for IPv4 alone: does their IPv6 leave in the clear while it is up?

The near gateway gets what every gateway has, a default route of IPv6 to the WAN. Control: a message to an address
outside (RFC 3849) is seen in the clear at the same tap.
"""

from __future__ import annotations

from typing import Literal

from runner.instruments.security.vantage import PORT, Vantage, hardware, message
from runner.lab.node.iproute import interface
from runner.lab.shape.site_to_site import batch
from runner.tunnel.inner import add_addresses
from runner.tunnel.path import no_ipv6

OUTSIDE, HOP = "2001:db8:ffff::1", "fe80::ff"
# "carried": it arrived, and not in the clear; "unseen": the control did not come out; "untried": this lab has no IPv6.
Found = Literal["open", "closed", "carried", "unseen", "untried"]


def other_family(at: Vantage) -> Found:
    """What becomes of a message between the sites' IPv6 addresses."""
    near, far = at.lab.sites[0], at.lab.sites[-1]
    gateway, far_gateway = at.lab.gateway(near), at.lab.gateway(far)
    if at.lab.kind != "netns" or at.vpn.carries == "tcp" or no_ipv6(gateway):
        return "untried"
    for site in (near, far):
        add_addresses(at.lab, site)
    port = interface(gateway, near.wan_interface)
    gateway.run("sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=0")
    batch(
        gateway,
        f"neigh replace {HOP} lladdr {hardware(far_gateway, far.wan_interface).hex(':')} dev {port} nud permanent",
        f"route replace ::/0 via {HOP} dev {port} metric 4000",
    )
    inside, outside = message(), message()
    for marker, address in ((inside, far.host_ipv6), (outside, OUTSIDE)):
        at.speaker.say(udp=marker.hex(), to=[address, PORT])
    if not at.appears(outside, outer=True):
        return "unseen"
    if at.visible(inside, at.outer()):
        return "open"
    return "carried" if at.count([inside])[0] else "closed"
