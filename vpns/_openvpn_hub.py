"""OpenVPN's server mode, as a hub with many sites is run: one process, which knows each client by its certificate.

Source: openvpn(8) 2.6, "--server", "--client-config-dir" and "--iroute".
"""

from collections.abc import Sequence

from runner.lab.shape.site import Site, lower_numbered

HOME = "/etc/openvpn"
OVERLAY = "10.8.0.0 255.255.255.0"


def hub_files(me: Site, peers: Sequence[Site], ciphers: str, keepalive: str) -> dict[str, str]:
    """The configuration of the hub, which all its ``peers`` dial, or of a spoke: path -> text. The files of
    certificates are those of any gateway."""
    common = f"""\
dev-type tun
proto udp{me.path_version}
ca {HOME}/ca.crt
cert {HOME}/{me.name}.crt
key {HOME}/{me.name}.key
data-ciphers {ciphers}
disable-dco
verb 3
"""
    if not lower_numbered(me, peers):
        (hub,) = peers
        dials = f"dev tun{hub.number}\nclient\nnobind\nremote {hub.wan_address} 1194\n"
        return {f"{HOME}/{hub.name}.conf": f"{common}{dials}remote-cert-tls server\nverify-x509-name {hub.name} name\n"}
    lan = " ".join(me.lan_netmask)
    routes = "".join(f"route {' '.join(peer.lan_netmask)}\n" for peer in peers)
    answers = f"""\
dev tun0
local {me.wan_address}
port 1194
server {OVERLAY}
topology subnet
dh none
remote-cert-tls client
client-config-dir {HOME}/clients
ccd-exclusive
push "route {lan}"
{keepalive}
"""
    networks = {f"{HOME}/clients/{peer.name}": f"iroute {' '.join(peer.lan_netmask)}\n" for peer in peers}
    return {f"{HOME}/hub.conf": common + answers + routes, **networks}
