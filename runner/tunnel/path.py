"""Which VPNs can live on the path between two gateways: asked before they are tried, with the reason and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatch

from runner.data.errors import Unsupported
from runner.data.levels import BASELINE
from runner.lab.node import Node
from runner.lab.shape.site import BarePath
from runner.lab.shape.site_to_site import Lab
from runner.vpn.deploy import own_devices
from runner.vpn.plugin import Vpn

NO_IPV6 = "this kernel has no IPv6, as with ipv6.disable=1 on its command line (/proc/cmdline)"


def path_refusal(lab: Lab, vpn: Vpn) -> Unsupported | None:
    """Why ``vpn`` cannot be in this lab, or between the gateways of a site lab; None where it can."""
    if vpn.beside and lab.plug_in is None:
        return Unsupported(f"{vpn.title} needs a {vpn.beside} beside its gateways, and this lab has no place for one")
    path = lab.path
    if path is None:
        return None
    if not path.on_link and vpn.name == BASELINE:
        return Unsupported("plain IP: no router on this path knows the sites' networks")
    if not path.on_link and vpn.transport == "ethernet":
        return Unsupported(f"{vpn.title} needs one Ethernet between the gateways, and this path is routed")
    if any(site.path_version == 6 for site in lab.sites) and (no := _not_over_ipv6(vpn)):
        return no
    behind = [site.name for site in lab.sites if site.public_address]
    if behind and not vpn.declared.abilities.nat:
        return Unsupported(f"{vpn.title} does not work through the NAT before {' and '.join(behind)}")
    if taken := _conflict(lab, path, vpn):
        return Unsupported(taken)
    if shut := [port for port in vpn.ports.split() if port in path.tried and port not in path.open]:
        return Unsupported(f"{', '.join(shut)} does not come through to {lab.sites[-1].name}: let it in there")
    if missing := [port for port in vpn.ports.split() if port not in path.tried and lab.sites[-1].public_address]:
        name = lab.sites[-1].name
        return Unsupported(
            f"the NAT before {name} does not forward {', '.join(missing)}: list it in forwards of [{name}]"
        )
    return None


def no_underlay(lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
    """Why the path of ``vpn`` cannot have the IP version that ``params`` name; None where it can."""
    if params.get("underlay") != "6":
        return None
    if lab.kind != "netns":
        return Unsupported(f"the gateways of a {lab.kind} lab keep their own addresses, so underlay cannot be set")
    if no_ipv6(lab.gateway(lab.sites[0])):
        return Unsupported(NO_IPV6)
    return _not_over_ipv6(vpn)


def no_ipv6(node: Node) -> bool:
    """Has the node's kernel no IPv6?"""
    return node.run("test", "-d", "/proc/sys/net/ipv6", check=False).code != 0


def _not_over_ipv6(vpn: Vpn) -> Unsupported | None:
    if vpn.outer_ipv6:
        return None
    can = "can, but vpneval's plugin cannot" if "IPv6" in vpn.declared.abilities.outer else "cannot"
    return Unsupported(f"this path is IPv6, and {vpn.title} {can} travel over IPv6")


def _conflict(lab: Lab, path: BarePath, vpn: Vpn) -> str:
    """What others have on a gateway already and the VPN would have, too, a port or a device; else ""."""
    for gateway, taken in path.taken.items():
        if used := [f"{port} ({taken[port]})" for port in vpn.ports.split() if port in taken]:
            return f"{', '.join(used)} is in use on {gateway}, and {vpn.title} would listen there"
    for site in lab.sites:
        there = path.links.get(site.name, ())
        own = own_devices(vpn, site, lab.sites) if there else []
        if both := [link for link in there if any(fnmatch(link, name) for name in own)]:
            return f"{site.name} has a tunnel's device {', '.join(both)}, which {vpn.title} would make, too"
    return ""
