"""IPsec as in ipsec.py, its keys agreed on by IKEv1 (RFC 2409), main mode with certificates, which IKEv2 replaced."""

from dataclasses import replace

from runner.vpn.declared import Declared
from vpns._esp import IKEV1, IKEV1_CIPHERS, IKEV1_INTEGRITIES, IKEV1_LIMITS
from vpns.ipsec import Ipsec


class IpsecIkev1(Ipsec):
    title = "IPsec with IKEv1 (strongSwan, kernel ESP)"
    versions = {}
    sign = replace(Ipsec.sign, marks=(r", IKEv1,",))
    speaks = ""
    note = "IKEv1 is historic (RFC 9395); the data path is that of `ipsec`"
    ike_version = 1
    offers = replace(Ipsec.offers, ciphers=IKEV1_CIPHERS, integrities=IKEV1_INTEGRITIES, limits=IKEV1_LIMITS, ike=IKEV1)


IpsecIkev1.declared = Declared(
    replace(
        Ipsec.declared.security,
        specification="IKEv1 (RFC 2409, historic since RFC 9395), ESP (RFC 4303)",
        handshake="IKEv1",
        flaws=(
            *Ipsec.declared.security.flaws,
            "weak pre-shared keys are found offline, in aggressive and main mode, and encrypted nonces are oracles "
            "(Felsch et al., The Dangers of Key Reuse, USENIX Security 2018; CVE-2018-5389); neither is used here",
        ),
        sources=(
            *Ipsec.declared.security.sources,
            "https://datatracker.ietf.org/doc/rfc9395/ (April 2023)",
            "CVE-2018-5389 (cve.org); its authors' account (web-in-security.blogspot.com, August 2018)",
        ),
        unchecked=("RFC 2409 and RFC 4303 were not read again",),
    ),
    replace(Ipsec.declared.abilities, roaming=False),  # MOBIKE is IKEv2's
)
