"""How a declared strength is rated by the scale of runner/data/strength.py: points, each with its reason.

The strength of cipher and key exchange is in bits by NIST SP 800-57 part 1 rev. 5, Table 2, and how long that is
acceptable by its Table 4; the points are this project's. The report and docs/security.md print all of it. It rates what
the plugin declares, which no probe shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runner.data.levels import Params
from runner.data.strength import SCALE, WITH_A_BREAK
from runner.vpn.declared import Security, Weakness

# The strength in bits by NIST SP 800-57-1r5 Table 2, of what the words of a cipher or key exchange name; the first that
# fits. What NIST does not list counts by the length of its key: Camellia, Twofish, ChaCha20, Salsa20/12, Blowfish.
CIPHER_BITS = (
    *(("rc4", 0), ("3des", 112), ("chacha20", 256), ("salsa2012", 256)),
    *(("-256", 256), ("-192", 192), ("-128", 128)),
)
KEY_EXCHANGE_BITS = (
    *(("mlkem", 192), ("ml-kem", 192), ("rsa-2048", 112), ("p-384", 192)),
    *(("p-256", 128), ("25519", 128), ("ecdh", 128)),  # OpenSSL's default group is X25519
)
ENOUGH_BITS = 128  # Table 4: what is acceptable from 2031 on; 112 bits are until the end of 2030
READABLE = ("none", "null", "gmac")  # what these ciphers carry can be read

SMALL_BLOCKS = ("3des", "blowfish", "cast")


@dataclass(frozen=True)
class Rating:
    """Points of ``MOST``, a line for each of ``SCALE``, and one for what takes points away. ``bits``: the strength of
    the weaker of cipher and key exchange, None where the key exchange is none that the table knows."""

    points: int
    reasons: tuple[str, ...]
    bits: int | None = None


def rate(declared: Security, params: Params) -> Rating:
    """Rate a declaration at these tunnel levels. Without a cipher or without authentication there are no points."""
    bits = strength(params["cipher"], declared.key_exchange)
    protocol = 2 if declared.protocol == "standard" else int(bool(declared.specification.strip()))
    earned = {
        f"{declared.protocol} protocol": protocol,
        f"authentication by {' or '.join(declared.authentication)}": max(
            map(by_authentication, declared.authentication)
        ),
        f"forward secrecy: {'yes' if declared.forward_secrecy else 'no'}": 2 * declared.forward_secrecy,
        f"post-quantum: {'yes' if declared.post_quantum else 'no'}": int(declared.post_quantum),
        f"cipher {params['cipher']} with {declared.key_exchange or 'fixed keys'}: {in_words(bits)}": int(
            bits is not None
            and bits >= ENOUGH_BITS
            and not params["cipher"].startswith(SMALL_BLOCKS)
            and not params["cipher"].endswith("-ecb")
        ),
        f"integrity {params['integrity']}": int(params["integrity"] != "none"),
        f"maintained: {declared.maintained.words}": int(declared.maintained.goes_on),
    }
    points = sum(earned.values())
    reasons = [f"{value} of {most[0]}: {what}" for (what, value), most in zip(earned.items(), SCALE, strict=True)]
    has: Mapping[Weakness, bool] = {
        "64-bit blocks": params["cipher"].startswith(SMALL_BLOCKS),
        "compression": params["compression"] != "off",
    }
    if counted := [*declared.known_breaks, *(known for level, known in declared.breaks_with.items() if has[level])]:
        points = min(points, WITH_A_BREAK)
        reasons.append(f"at most {WITH_A_BREAK}: known break: {'; '.join(counted)}")
    if params["cipher"].endswith(READABLE) or set(declared.authentication) <= {"none"}:
        points = 0
        reasons.append("0: it does not encrypt, or does not authenticate the peer")
    return Rating(points, tuple(reasons), bits)


def strength(cipher: str, key_exchange: str) -> int | None:
    """Bits of the weaker of both, for a suite is as strong as its weakest part (NIST SP 800-57-1r5); keys fixed by
    configuration leave the cipher's. None for a key exchange that is not in the table."""
    of_cipher = next((bits for name, bits in CIPHER_BITS if name in cipher), 0)
    if not key_exchange:
        return of_cipher
    of_keys = next((bits for name, bits in KEY_EXCHANGE_BITS if name in key_exchange.lower()), None)
    return None if of_keys is None else min(of_cipher, of_keys)


def in_words(bits: int | None) -> str:
    """The strength and how long it is acceptable, by NIST SP 800-57-1r5 Table 4."""
    if bits is None:
        return "strength not known"
    lasts = "2031 and beyond" if bits >= ENOUGH_BITS else "until 2030" if bits >= 112 else "not acceptable"
    return f"{bits} bits, {lasts}"


def by_authentication(kind: str) -> int:
    """The points of a kind of authentication: 2 for certificates and public keys, 1 for a pre-shared key."""
    return {"certificate": 2, "public key": 2, "pre-shared key": 1}.get(kind, 0)
