"""Evidence that contradicts what was asked for, whatever the plugin makes of it.

Daemons have names of their own for a cipher. What they have in common is compared: the cipher, its mode and its key's
length, where the evidence names them; a name that is not known here contradicts nothing.
"""

from __future__ import annotations

import re

from runner.data.errors import ProofError
from runner.data.levels import AEAD, Params
from runner.data.trials import Evidence
from runner.vpn.plugin import Vpn

NOTHING = ("", "none", "null", "off", "no")
CIPHERS = {  # as daemons call them
    "aes": r"aes|rijndael",
    "chacha20": r"chacha",
    "3des": r"3des|des-?ede3|des-?cbc3",
    "blowfish": r"blowfish|\bbf\b",
    "camellia": r"camellia",
    "cast": r"\bcast",
    "twofish": r"twofish",
    "salsa2012": r"\bsalsa",
    "xsalsa20": r"xsalsa",
    "rc4": r"rc4|arcfour",
}
MODES = ("cbc", "gcm", "ccm", "ctr", "gmac", "ecb")
DIGESTS = {
    "md5": r"md5",
    "sha512": r"sha(2?-)?512",
    "sha384": r"sha(2?-)?384",
    "sha256": r"sha(2?-)?256",
    "sha1": r"sha(-?1)?\b",
    "xcbc": r"xcbc",
    "cmac": r"cmac",
}
NO_CIPHER = r"sha\d*|poly1305"  # in the name of a suite


def refuse_contradiction(vpn: Vpn, params: Params, evidence: Evidence) -> None:
    """Raise ProofError where ``evidence`` contradicts the levels ``params``, or the plugin's declared data plane."""
    if not evidence.data_path:
        return  # this gateway leaves it to the other
    plane, colon, _ = evidence.data_path.partition(":")
    if colon and plane in ("kernel", "userspace") and plane != vpn.dataplane:
        raise ProofError(f"the plugin's data plane is {vpn.dataplane}, and its evidence says {evidence.data_path!r}")
    for factor, reported, contradicts in (
        ("cipher", evidence.cipher, _other_cipher),
        ("integrity", evidence.integrity, _other_integrity),
        ("compression", evidence.compression, _other_compression),
    ):
        # A compression that cannot be switched off is declared as the word for "off".
        declared = factor == "compression" and vpn.offers.compressions.get(params[factor]) == reported
        if reported and contradicts(params, reported) and not declared:
            raise ProofError(f"asked for {factor} {params[factor]}, and the evidence says {reported!r}")


def refuse_other_exchange(vpn: Vpn, params: Params, told: str) -> None:
    """Raise ProofError where the key exchange that the daemons ``told`` is not the one that was asked for."""
    asked = params.get("key_exchange", "")
    if asked and told != vpn.offers.key_exchanges[asked]:
        raise ProofError(f"asked for key exchange {asked}, and the daemons' logs say {told or 'nothing'!r}")


def _other_cipher(params: Params, reported: str) -> bool:
    asked = params["cipher"]
    if asked in ("none", "null"):
        return reported.lower() not in NOTHING
    if asked.endswith("gmac"):  # integrity alone: some call its cipher null
        return False
    if reported.lower() in NOTHING:
        return True
    words = re.sub(NO_CIPHER, "", reported.lower().replace("_", "-"))
    ciphers = [name for name, pattern in CIPHERS.items() if re.search(pattern, words)]
    lengths = re.findall(r"(?<!\d)(128|192|256)(?!\d)", words)
    modes = [mode for mode in MODES if mode in words]
    cipher, *rest = asked.split("-")
    return any(
        (
            ciphers and cipher not in ciphers,
            ciphers and lengths and {"128", "192", "256"} & {*rest} - {*lengths},
            ciphers and modes and {*MODES} & {*rest} - {*modes},
        )
    )


def _other_integrity(params: Params, reported: str) -> bool:
    asked = params["integrity"]
    if asked == "none":
        return reported.lower() not in NOTHING
    if asked == "aead" or params["cipher"] in AEAD:
        return False
    if reported.lower() in NOTHING:
        return True
    digests = [name for name, pattern in DIGESTS.items() if re.search(pattern, reported.lower().replace("_", "-"))]
    return bool(digests) and not any(asked.endswith(name) for name in digests)


def _other_compression(params: Params, reported: str) -> bool:
    return (params["compression"] == "off") is not (reported.lower() in NOTHING)
