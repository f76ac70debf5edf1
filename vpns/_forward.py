"""Port forwarding: a gateway listens for its site's hosts, and forwards each TCP connection to the far site's host."""

from runner.lab.shape.site import Site
from runner.vpn.declared import Abilities
from runner.vpn.plugin import Vpn


class Forward(Vpn):
    """What forwards ports, whatever protects the connections on the WAN."""

    dataplane = "userspace"
    transport = "tcp"
    carries = "tcp"
    note = "it carries only TCP connections to named ports"


def local_port(me: Site, peer: Site, port: int) -> int:
    """The port on ``me`` that leads to ``port`` at the host of ``peer``: one listener cannot lead to two sites."""
    return port + 10 * (peer.number - me.number - 1)


ABILITIES = Abilities(
    inner=("TCP streams",),
    outer=("IPv4", "IPv6"),
    nat=True,
    tcp_443=True,
    roaming=False,
    routes="operator",
    mesh=False,
    mesh_how="it forwards ports and joins no networks; each far host has ports of its own",
    modes=("transport",),
)
