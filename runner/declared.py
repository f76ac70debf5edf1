"""What a plugin declares of its VPN beyond what a tunnel shows: its security, and what it can do.

Declared, not measured: each declaration is dated and names where to check it, and a probe that
fails outranks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Authentication = Literal["certificate", "public key", "pre-shared key", "password", "none"]
Payload = Literal["IPv4", "IPv6", "Ethernet", "multicast", "TCP streams"]


@dataclass(frozen=True)
class Security:
    """How a VPN protects what it carries, as its documents say.

    ``key_exchange`` is "" where keys are fixed by configuration. ``known_breaks``: each with where it was published.
    ``maintained``: "yes", or until when. ``sources``: where to check it, addresses or citations; ``as_of``: the day
    it was declared (ISO).
    """

    protocol: Literal["standard", "own"]
    specification: str
    authentication: tuple[Authentication, ...]
    key_exchange: str
    forward_secrecy: bool
    post_quantum: bool
    maintained: str
    sources: tuple[str, ...]
    as_of: str
    known_breaks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Abilities:
    """What a user asks before choosing. ``inner``: what it can carry; ``outer``: the IP versions it can travel over.

    ``nat``: one gateway may be behind a NAT. ``tcp_443``: it can be carried in TCP to port 443 where UDP is blocked.
    ``roaming``: a gateway's address may change under a living tunnel. ``routes``: who sets the routes.
    ``mesh``: one configuration per gateway joins more than two sites. ``modes``: tunnel (whole packets between
    gateways), transport (between the two machines themselves).
    """

    inner: tuple[Payload, ...]
    outer: tuple[Literal["IPv4", "IPv6"], ...]
    nat: bool
    tcp_443: bool
    roaming: bool
    routes: Literal["daemon", "configuration", "operator"]
    mesh: bool
    modes: tuple[Literal["tunnel", "transport"], ...] = ("tunnel",)
