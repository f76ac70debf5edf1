"""The scale by which a declared strength is rated: 0 to 10 points, each with its reason and where that comes from.

Own points for published advice; docs/security.md prints it. It rates what the plugin declares, which no probe shows.
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.declared import Security
from runner.plugin import Params

MOST = 10
WITH_A_BREAK = 2  # at most, with a published break that is not fixed
OUTRANKING = ("confidentiality", "data_integrity", "anti_replay", "peer_authentication", "key_authentication")
STRONG = ("aes-", "camellia-", "serpent-", "twofish-", "chacha20-", "salsa2012-")  # 128 bits, in keys and in blocks
READABLE = ("none", "null", "gmac")  # what these ciphers carry can be read

SMALL_BLOCKS = ("3des", "blowfish", "cast")

# (points, what earns them, who says so); the order is that of ``rate``.
SCALE = (
    (
        2,
        "a standard protocol (1 for an own one with a published specification)",
        "OSLV paper, Security: open standards",
    ),
    (2, "certificates or public keys (1 for a pre-shared key, 0 for passwords)", "NIST SP 800-77r1 §3.2.2"),
    (
        2,
        "forward secrecy: a stolen long-term key does not open what was recorded",
        "RFC 9325 §6.3; NIST SP 800-77r1 §3.5",
    ),
    (1, "a key exchange that a quantum computer does not break", "NIST IR 8547 §2.1; BSI TR-02102-1 §2.2"),
    (
        1,
        "a cipher with 128 bits of security and blocks of 128 bits",
        "NIST SP 800-57-1r5 §5.6.1; CVE-2016-2183 (Sweet32)",
    ),
    (1, "packets are authenticated: an AEAD, or an HMAC with the cipher", "RFC 8221 §4; RFC 7366"),
    (1, "it is maintained", "NIST SP 800-40r4 §2"),
)


@dataclass(frozen=True)
class Rating:
    """Points of ``MOST``, and a line for each of ``SCALE``, and for what takes points away."""

    points: int
    reasons: tuple[str, ...]


def rate(declared: Security, params: Params) -> Rating:
    """Rate a declaration at these tunnel levels. Without a cipher or without authentication there are no points."""
    protocol = 2 if declared.protocol == "standard" else int(bool(declared.specification.strip()))
    earned = {
        f"{declared.protocol} protocol": protocol,
        f"authentication by {' or '.join(declared.authentication)}": max(
            map(by_authentication, declared.authentication)
        ),
        f"forward secrecy: {'yes' if declared.forward_secrecy else 'no'}": 2 * declared.forward_secrecy,
        f"post-quantum: {'yes' if declared.post_quantum else 'no'}": int(declared.post_quantum),
        f"cipher {params['cipher']}": int(
            params["cipher"].startswith(STRONG) and not params["cipher"].endswith("-ecb")
        ),
        f"integrity {params['integrity']}": int(params["integrity"] != "none"),
        f"maintained: {declared.maintained}": int(declared.maintained.lower().startswith("yes")),
    }
    points = sum(earned.values())
    reasons = [f"{value} of {most[0]}: {what}" for (what, value), most in zip(earned.items(), SCALE, strict=True)]
    if counted := [told for told in declared.known_breaks if applies(told, params)]:
        points = min(points, WITH_A_BREAK)
        reasons.append(f"at most {WITH_A_BREAK}: known break: {'; '.join(counted)}")
    if params["cipher"].endswith(READABLE) or set(declared.authentication) <= {"none"}:
        points = 0
        reasons.append("0: it does not encrypt, or does not ask who the peer is")
    return Rating(points, tuple(reasons))


def applies(told: str, params: Params) -> bool:
    """Does a known break concern a tunnel at these levels? Not where its text says that it is fixed or not used here;
    where it names CBC, 64-bit blocks or compression, only at levels that have one of those."""
    text = told.lower()
    if "fixed in" in text or "fixed by" in text or "used here" in text:
        return False
    named = {
        "cbc": params["cipher"].endswith("-cbc"),
        "64-bit block": params["cipher"].startswith(SMALL_BLOCKS),
        "compression": params["compression"] != "off",
    }
    conditions = [met for word, met in named.items() if word in text]
    return not conditions or any(conditions)


def by_authentication(kind: str) -> int:
    return {"certificate": 2, "public key": 2, "pre-shared key": 1}.get(kind, 0)
