"""IPsec with strongSwan as in ipsec.py, but ESP in userspace: the plugin kernel-libipsec and its TUN ipsec0.

Always UDP-encapsulated (RFC 3948), tunnel mode only, no IPComp, MTU 1400; routes are in table 220.
"""

from collections.abc import Sequence

from runner.errors import ProofError
from runner.model import Evidence
from runner.node import Node
from runner.plugin import Params, Site, Unsupported
from vpns.ipsec import NEGOTIATED, Ipsec, negotiated


class IpsecUser(Ipsec):
    title = "IPsec (strongSwan, userspace ESP)"
    dataplane = "userspace"
    transport = "udp"
    compressions = {"off": "no"}
    limits = {"compression": "strongSwan's kernel-libipsec has no IPComp"}
    libipsec = "10"  # loaded before kernel-netlink, so that it installs the SAs

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super(Ipsec, self).supports(node, params):
            return no
        plugin = node.run("find", "/usr/lib/ipsec/plugins", "-name", "libstrongswan-kernel-libipsec.so", check=False)
        if not plugin.stdout:
            return Unsupported("strongSwan has no kernel-libipsec here (Debian: libcharon-extra-plugins)")
        if node.run("test", "-c", "/dev/net/tun", check=False).code != 0:
            return Unsupported("the kernel has no TUN (/dev/net/tun is missing)")
        return None

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        found = negotiated(node.run("swanctl", "--list-sas", "--raw").stdout)
        for factor in ("cipher", "integrity"):
            if found[factor] != NEGOTIATED[params[factor]]:
                raise ProofError(f"asked for {params[factor]}, negotiated {found[factor] or 'nothing'}")
        if node.run("ip", "link", "show", "ipsec0", check=False).code != 0:
            raise ProofError("ESP is not in userspace: there is no ipsec0")
        return Evidence(
            cipher=found["cipher"],
            integrity=found["integrity"],
            compression="off",
            data_path="userspace: kernel-libipsec on ipsec0",
            version=node.run("swanctl", "--version", check=False).stdout.strip(),
            facts={"encapsulation": found["encapsulation"], "mode": found["mode"]},
        )
