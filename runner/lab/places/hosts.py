"""The test hosts of a site lab: namespaces on the gateways, or on machines of their own behind them.

A host of its own gets a macvlan: one more Ethernet address on its port, in the host's namespace. The gateway's port to
the host gets one more IP address. So the networks of both machines are not touched, and carry none of the tests'
addresses but those of ``lan``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from runner.data.errors import CannotRunHere
from runner.lab.node import LabNode, wait_until
from runner.lab.node.answers import Link, links, own_words
from runner.lab.places.connection import Connection
from runner.lab.places.gateways import Gateway
from runner.lab.places.sites import CABLE
from runner.lab.places.ssh import Lent
from runner.lab.shape.site import Site

ANSWERS_WITHIN_S = 15.0
# In a network namespace that goes at once: can this kernel do it?
MACVLAN = "ip link add name p0 type veth peer name p1 && ip link add link p0 name m0 type macvlan mode bridge"


def lent(port: str | None) -> Lent:
    """What gives a host its ``eth0``: a macvlan on the machine's ``port``; where that is None, a cable to the gateway,
    which the gateway's own undo removes."""
    if port is None:
        return Lent({}, cable=f"link add {CABLE} type veth peer name eth0 netns {{pid}}")
    macvlan = f"link add link {port} name eth0 netns {{pid}} type macvlan mode bridge"
    return Lent({}, cable=macvlan, uncable="link del eth0")


def usable(wanted: str, there: Sequence[Link]) -> str:
    """The port with this name or MAC address. Raises CannotRunHere where there is none, or it cannot carry a host."""
    port = next((link for link in there if wanted in (link["ifname"], link.get("address"))), None)
    if port is None:
        have = ", ".join(link["ifname"] for link in there if link["ifname"] != "lo")
        raise CannotRunHere(f"no interface {wanted} (lan_port); it has: {have or 'none'}")
    if "UP" not in port["flags"]:
        raise CannotRunHere(f"{wanted} (lan_port) is down: ip link set {port['ifname']} up")
    if "master" in port:
        raise CannotRunHere(f'{wanted} is a part of {port["master"]}: give lan_port = "{port["master"]}"')
    return port["ifname"]


def lan_port(gateway: Gateway, there: Sequence[Link], wan: str) -> str:
    """The gateway's port to its host. Raises CannotRunHere where that port cannot be used."""
    if gateway.lan_port is None:
        return CABLE
    port = usable(gateway.lan_port, there)
    if port == wan:
        raise CannotRunHere(
            f"{port} is the port of the path, so what leaves the tunnel could not be told from what must be inside of "
            "it: give the host another port, or leave [host1] and [host2] out"
        )
    return port


def fit(connection: Connection, wanted: str) -> str:
    """The port of a host of its own. Raises CannotRunHere with the reason why it cannot be used."""
    try:
        port = usable(wanted, links(connection, connection.run("ip", "-d", "-j", "addr", "show").stdout))
    except CannotRunHere as lack:
        raise CannotRunHere(f"{connection.name}: {lack}") from lack
    tried = connection.run("unshare", "--net", "sh", "-c", MACVLAN)
    if tried.code != 0:
        raise CannotRunHere(
            f"{connection.name}: its kernel makes no macvlan ({own_words(tried.stderr)}); leave [host1] and [host2] out"
        )
    return port


def check(
    nodes: Mapping[str, LabNode],
    sites: Sequence[Site],
    host_ports: Mapping[str, str],
    gateway_ports: Mapping[str, str],
) -> None:
    """Does each host of its own reach its gateway? Raises TimeoutError that names the two ports that do not meet."""
    for site in sites:
        name = f"host{site.number}"
        if name not in host_ports:
            continue
        try:
            wait_until(partial(_answers, nodes[name], site.lan_address), "an answer", ANSWERS_WITHIN_S, 0.2)
        except TimeoutError as silent:
            raise TimeoutError(
                f"{host_ports[name]} of {name} and {gateway_ports[site.name]} of {site.name} cannot reach each other: "
                f"{silent}. Are both on one Ethernet, and does it carry {site.lan}? A cloud's network drops addresses "
                "that it has not given out: there, leave [host1] and [host2] out"
            ) from silent


def _answers(node: LabNode, to: str) -> bool:
    return node.run("ping", "-c", "1", "-W", "1", to, check=False).code == 0
