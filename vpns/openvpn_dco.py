"""OpenVPN with its data channel in the kernel: OpenVPN 2.6 and the module ovpn-dco-v2 (Debian: openvpn-dco-dkms).

Configured like `openvpn`, without `disable-dco`. Version 2.7 has it in the kernel's own ovpn (Linux 6.16 and later).
Sources: openvpn(8); OpenVPN 2.6's README.dco.md, which says what is not offloaded: ciphers that are not AEADs,
compression.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.declared import Declared
from runner.vpn.plugin import Secrets, Version
from vpns._links import kernel_link
from vpns.openvpn import OpenVpn

AEAD_ONLY = "OpenVPN's data-channel offload has AEAD ciphers only (README.dco.md)"


class OpenVpnDco(OpenVpn):
    title = "OpenVPN (UDP, data-channel offload)"
    sign = replace(OpenVpn.sign, link="ovpn-dco")
    dataplane = "kernel"
    modules = "ovpn-dco-v2"
    roams = "none"  # the module follows its peer, its daemon does not (docs/systems.md)
    software = replace(OpenVpn.software, openssl=False)
    offers = replace(
        OpenVpn.offers,
        ciphers={name: OpenVpn.offers.ciphers[name] for name in ("aes-128-gcm", "aes-256-gcm", "chacha20-poly1305")},
        integrities={},
        compressions={"off": ""},
        limits={
            "cipher": AEAD_ONLY,
            "integrity": AEAD_ONLY,
            "compression": "OpenVPN's data-channel offload does not compress",
        },
    )
    comparable = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}
    offloaded = True
    hub_and_spokes = False
    copies_marks = False

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        if no := super().supports(node, params):
            return no
        # The module ovpn is loaded by its netlink family's name, as its daemon does, and not by that of its links.
        node.run("genl", "ctrl", "get", "name", self.sign.link, check=False)
        return kernel_link(node, self.modules, self.sign.link)

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = super().render(me, peers, params, secrets)
        return {path: text.replace("disable-dco\n", "") for path, text in files.items()}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            node.defer("ip", "link", "del", f"tun{peer.number}")  # a daemon that is killed leaves it in the kernel
        super().start(node, me, peers, params)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        evidence = super().evidence(node, me, peers, params)
        own = f"/sys/module/{self.modules.replace('-', '_')}/version"  # the kernel's own module has none
        module = node.run("cat", own, check=False).stdout.strip()
        return evidence.model_copy(update={"version": f"{evidence.version}, {self.modules} {module}".rstrip()})


OpenVpnDco.declared = Declared(
    replace(
        OpenVpn.declared.security,
        sources=(*OpenVpn.declared.security.sources, "ovpn-dco-v2 0.0+git20231103: udp.c, peer.c (ovpn_peer_float)"),
        flaws=(
            *OpenVpn.declared.security.flaws,
            "the module answers to the source of any packet that has its peer's number, which is not encrypted, before "
            "it has authenticated it: one forged packet turns what is sent next, encrypted, to a stranger, until the "
            "peer sends again (tried with 0.0+git20241121)",
        ),
    ),
    replace(
        OpenVpn.declared.abilities,
        inner=("IPv4", "IPv6", "multicast"),  # between two ends the module sends all to its one peer (peer.c), tried
        translates="",  # its packets do not come by the daemon
        roaming=False,  # the module follows its peer, its daemon does not: until the keys are renewed (docs/systems.md)
    ),
)
OpenVpnDco.versions = {
    "2.7": Version(
        "openvpn-2.7",
        {
            "modules": "ovpn",
            "sign": replace(OpenVpn.sign, link="ovpn"),
            "declared": Declared(
                replace(
                    OpenVpn.declared.security,
                    unchecked=(
                        *OpenVpn.declared.security.unchecked,
                        "whether the kernel's ovpn answers to a source before it has authenticated it, as ovpn-dco-v2",
                    ),
                ),
                OpenVpnDco.declared.abilities,
            ),
        },
    )
}
