"""Metrics of the probes from the WAN (docs/security.md); each a verdict, but for the declared strength."""

from runner.data.metrics.metric import Metric

SECURITY = [
    Metric(
        "confidentiality",
        "Confidentiality",
        "1",
        "higher",
        "1 where no part of a random marker that went through the tunnel both ways was in the clear on the WAN, "
        "else 0.",
        "RFC 3552 §3.2.1 (confidentiality violations); OSLV paper, Table 4; docs/security.md",
        "security",
    ),
    Metric(
        "data_integrity",
        "Data integrity",
        "1",
        "higher",
        "1 where nothing altered was delivered when bits of the outer packets were flipped on the way, else 0.",
        "RFC 3552 §3.3.3 (message modification); OSLV paper, Table 4; docs/security.md",
        "security",
    ),
    Metric(
        "anti_replay",
        "Anti-replay",
        "1",
        "higher",
        "1 where every message was delivered once when its packets were sent again, at once and later, else 0.",
        "RFC 3552 §3.3.1 (replay attacks), RFC 4303 §3.4.3; OSLV paper, Table 4; docs/security.md",
        "security",
    ),
    Metric(
        "peer_authentication",
        "Refuses packets of strangers",
        "1",
        "higher",
        "1 where no packet that somebody without a key had made on the WAN was delivered to the far host, else 0.",
        "RFC 3552 §3.3.2 (message insertion); OSLV paper, Table 4; docs/security.md",
        "security",
    ),
    Metric(
        "key_authentication",
        "Refuses peers with other keys",
        "1",
        "higher",
        "1 where no payload came through with a peer that runs the same VPN with private keys of its own, at "
        "either end, else 0.",
        "RFC 3552 §3.3.5 (man-in-the-middle); OSLV paper, Table 4; docs/security.md",
        "security",
    ),
    Metric(
        "fail_closed",
        "Fails closed",
        "1",
        "higher",
        "1 where nothing between the sites was on the WAN in the clear while the peer was cut off, and after the "
        "VPN's processes on the near gateway were killed, else 0. The gateway has a default route to the WAN.",
        "RFC 4301 §5.1 (what matches no policy is discarded); docs/security.md",
        "security",
    ),
    Metric(
        "diversion_resistance",
        "Cannot be diverted",
        "1",
        "higher",
        "1 where the far gateway sent no payload to a third address after somebody without a key had sent it packets "
        "from there, captured ones as they were and altered ones, else 0.",
        "RFC 9146 §6 (when a peer's address may be updated), RFC 9000 §9.3.1; docs/security.md",
        "security",
    ),
    Metric(
        "length_hiding",
        "Hides lengths",
        "1",
        "higher",
        "1 where the lengths of packets on the WAN do not follow those inside (correlation below 0.5), else 0.",
        "RFC 4303 §2.7 (traffic flow confidentiality padding), RFC 3552 §3.2.1; docs/security.md",
        "security",
    ),
    Metric(
        "content_hiding",
        "Lengths do not tell content",
        "1",
        "higher",
        "1 where repetitive content is as long on the WAN as random content (within 5 %), else 0.",
        "RFC 7457 §2.6 (CRIME); docs/security.md",
        "security",
    ),
    Metric(
        "declared_strength",
        "Declared strength",
        "1",
        "higher",
        "Points, 0 to 10, of what the plugin declares of its security at these levels, by the scale of that page; less "
        "11 for each failed probe of confidentiality, integrity, replay, authentication or failing closed.",
        "docs/security.md; runner/vpn/declared.py, with its sources",
        "security",
    ),
]
