"""The scale of declared strength: 0 to 10 points, what earns each and who says so, and what takes points away."""

from __future__ import annotations

MOST = 10
WITH_A_BREAK = 2  # at most, with a published break that is not fixed
# The probes of which each that failed takes so many points away: more than a declaration can give.
OUTRANKING = (
    *("confidentiality", "data_integrity", "anti_replay", "peer_authentication", "key_authentication"),
    "fail_closed",
)
PER_FAILURE = MOST + 1
# (points, what earns them, who says so); the order is that of ``rate`` in runner/vpn/scale.py.
SCALE = (
    (
        2,
        "a standard protocol (1 for an own one with a published specification)",
        "OSLV paper, Security: open standards",
    ),
    (2, "certificates or public keys (1 for a pre-shared key, 0 for passwords)", "NIST SP 800-77r1"),
    (
        2,
        "forward secrecy: a stolen long-term key does not open what was recorded",
        "RFC 9325 §7.3; NIST SP 800-77r1",
    ),
    (1, "a key exchange that a quantum computer does not break", "NIST IR 8547; BSI TR-02102-1 (2026-01)"),
    (
        1,
        "128 bits of strength or more in cipher and key exchange, and no blocks of 64 bits",
        "NIST SP 800-57-1r5 Tables 2 and 4; CVE-2016-2183 (Sweet32)",
    ),
    (1, "packets are authenticated: an AEAD, or an HMAC with the cipher", "RFC 8221; RFC 7366"),
    (1, "it is maintained", "NIST SP 800-40r4"),
)
