"""IPsec with strongSwan as in ipsec.py, but ESP in userspace: the plugin kernel-libipsec and its TUN ipsec0.

Always UDP-encapsulated (RFC 3948), tunnel mode only, no IPComp, MTU 1400; routes are in table 220.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import Params
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.plugin import no_tun
from vpns._esp import daemon_esp, no_ml_kem
from vpns.ipsec import Ipsec


class IpsecUser(Ipsec):
    title = "IPsec (strongSwan, userspace ESP)"
    sign = replace(Ipsec.sign, esp="")
    dataplane = "userspace"
    modules = "tun"
    outer_ipv6 = inner_ipv6 = several_networks = hub_and_spokes = True
    roams = "both"
    transport = "udp"
    devices = "ipsec0"
    data_path = "userspace: kernel-libipsec on ipsec0"
    offers = replace(
        Ipsec.offers,
        compressions={"off": "no"},
        limits={**Ipsec.offers.limits, "compression": "strongSwan's kernel-libipsec has no IPComp"},
    )
    software = replace(
        Ipsec.software,
        libraries=("libcharon-extra-plugins", "libstrongswan-standard-plugins"),  # kernel-libipsec; AES-NI
        openssl=True,  # and charon's own AES instructions, which go with them
    )
    start_action = "none"  # kernel-libipsec has no policies that trap; without an SA there is no route either
    libipsec = "10"  # loaded before kernel-netlink, so that it installs the SAs

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super(Ipsec, self).supports(node, params):
            return no
        if no := no_ml_kem(node, params) or daemon_esp(node, params, kernel=False):
            return no
        plugin = node.run("find", "/usr/lib/ipsec/plugins", "-name", "libstrongswan-kernel-libipsec.so", check=False)
        if not plugin.stdout:
            return Unsupported("strongSwan has no kernel-libipsec here (Debian: libcharon-extra-plugins)")
        return no_tun(node)

    def check_path(self, node: Node, peers: Sequence[Site]) -> None:
        if node.run("ip", "link", "show", "ipsec0", check=False).code != 0:
            raise ProofError("ESP is not in userspace: there is no ipsec0")
