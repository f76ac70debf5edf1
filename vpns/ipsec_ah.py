"""IPsec with AH (RFC 4302) in place of ESP: tunnel mode, integrity and no encryption; IKEv2 as in ipsec.py."""

from dataclasses import replace

from runner.data.errors import Unsupported
from runner.data.levels import NO_CIPHER, Params
from runner.lab.node import Node
from runner.vpn import closed_form
from runner.vpn.declared import Declared
from runner.vpn.plugin import level_refusal
from vpns._esp import no_ml_kem
from vpns._xfrm import kernel_xfrm
from vpns.ipsec import Ipsec


class IpsecAh(Ipsec):
    title = "IPsec with AH (strongSwan, kernel)"
    versions = {}
    sign = replace(Ipsec.sign, esp="ah tunnel")
    speaks = ""
    modules = "ah4"
    transport = "ip"
    reference = True
    note = "AH authenticates and does not encrypt"
    offers = replace(
        Ipsec.offers,
        ciphers={"none": ""},
        compressions={"off": "no"},
        limits={"cipher": "AH does not encrypt (RFC 4302 §1)", "compression": "this plugin does not use IPComp"},
    )
    comparable = NO_CIPHER | {"integrity": "hmac-sha256"}
    recommended = comparable
    data_path = "kernel: AH"
    protocol = "AH"

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        no = level_refusal(self, params) or no_ml_kem(node, params)
        return no or kernel_xfrm(node, "ah", [params["integrity"]], params["compression"])

    def encapsulation(self, params: Params, inner_bytes: int) -> closed_form.Layers:
        return closed_form.ah(inner_bytes, params["integrity"])

    def proposal(self, params: Params) -> str:
        return f"ah_proposals = {self.offers.integrities[params['integrity']]}-ecp256"


IpsecAh.declared = Declared(
    replace(
        Ipsec.declared.security,
        specification="IKEv2 (RFC 7296), AH (RFC 4302): integrity only",
        breaks_with={},
        unchecked=("RFC 7296, RFC 4302, RFC 8221 §6 and RFC 3715 §2.1 were not read again",),
    ),
    replace(Ipsec.declared.abilities, nat=False),  # AH covers the outer addresses, RFC 3715 §2.1
)
