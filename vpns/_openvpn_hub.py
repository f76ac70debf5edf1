"""OpenVPN's server mode, as a hub with many sites is run: one process, which knows each client by its certificate.

Source: openvpn(8) 2.6, "--server", "--client-config-dir", "--iroute" and "--iroute-ipv6".
"""

from collections.abc import Sequence

from runner.data.levels import Params
from runner.lab.shape.site import Site, lower_numbered
from runner.vpn.plugin import moves

HOME = "/etc/openvpn"
OVERLAY = "10.8.0.0 255.255.255.0"
DEVICE = "tunhub"


def hub_files(me: Site, peers: Sequence[Site], params: Params, levels: str, keepalive: str) -> dict[str, str]:
    """The configuration of the hub, which all its ``peers`` dial, or of a spoke: path -> text. The files of
    certificates are those of any gateway. ``levels``: the lines of cipher and compression."""
    common = f"""\
dev {DEVICE}
dev-type tun
proto udp{me.path_version}
ca {HOME}/ca.crt
cert {HOME}/{me.name}.crt
key {HOME}/{me.name}.key
{levels}\
disable-dco
verb 3
"""
    routes = "".join(f"route {network} {mask}\n" for peer in peers for network, mask in peer.lans_netmask)
    if not lower_numbered(me, peers):
        (hub,) = peers
        dials = f"client\nnobind\nremote {hub.wan_address} 1194\n"
        dials += f"remote-cert-tls server\nverify-x509-name {hub.name} name\n"
        return {f"{HOME}/{hub.name}.conf": common + dials + routes}
    local = "" if moves(params, me) else f"local {me.wan_address}\n"
    answers = f"""\
{local}port 1194
server {OVERLAY}
topology subnet
dh none
remote-cert-tls client
client-config-dir {HOME}/clients
ccd-exclusive
{keepalive}
"""
    networks = {f"{HOME}/clients/{peer.name}": client_routes(peer, ipv6="inner" in params) for peer in peers}
    return {f"{HOME}/hub.conf": common + answers + routes, **networks}


def client_routes(peer: Site, *, ipv6: bool) -> str:
    """The networks behind a client, as the server's process routes to it."""
    networks = [f"iroute {network} {mask}\n" for network, mask in peer.lans_netmask]
    return "".join([*networks, *(f"iroute-ipv6 {network}\n" for network in peer.lans_ipv6 if ipv6)])
