"""What a plugin declares of its VPN beyond what a tunnel shows: its security, and what it can do.

Declared, not measured: each declaration is dated and names where to check it, and a probe that
fails outranks it.
"""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from runner.data.declaration import Declaration, Handshake

Authentication = Literal["certificate", "public key", "pre-shared key", "password", "none"]
Payload = Literal["IPv4", "IPv6", "Ethernet", "multicast", "TCP streams"]
Weakness = Literal["64-bit blocks", "compression"]
SWEET32 = "SWEET32 for 64-bit blocks (Bhargavan and Leurent, CCS 2016; https://sweet32.info/)"


@dataclass(frozen=True)
class Upkeep:
    """Who mends a VPN today. ``last``: their latest release or fix, or the last that there was; ``month`` (ISO): that
    it is of, or its year; ``more``: what else a reader must know of it."""

    by: Literal["its makers", "Debian", "the makers of Linux", "nobody"]
    last: str = ""
    month: str = ""
    more: str = ""

    @property
    def goes_on(self) -> bool:
        """Does anybody mend it?"""
        return self.by != "nobody"

    @property
    def words(self) -> str:
        """``yes, by its makers: v1.12.0 is of October 2026; Debian 13 has 1.9.3``."""
        year, _, month = self.month.partition("-")
        of = f"{self.last} is of {f'{calendar.month_name[int(month)]} {year}' if month else year}" if year else ""
        known = "; ".join(filter(None, (of, self.more)))
        return (f"yes, by {self.by}" if self.goes_on else "no") + (f": {known}" if known else "")


WITH_LINUX = Upkeep("the makers of Linux")


@dataclass(frozen=True)
class Security:
    """How a VPN protects what it carries, as its documents say.

    ``key_exchange`` is "" where keys are fixed by configuration. ``known_breaks``: of what the protocol or the package
    promises, each with where it was published; ``breaks_with``: those that concern a tunnel with such levels alone.
    ``flaws``: what is fixed or not used here, only stopped it or could have been run on it; not counted as breaks.
    ``sources``: what was opened on the day ``as_of`` (ISO) and says so: addresses, citations, or a package's own
    documents. ``unchecked``: what is said here, or named as a source, and was not opened then. ``authentication``:
    first what the plugin sets up.
    ``handshake``: the protocol of the key exchange, where lists of permitted cryptography know it.
    """

    protocol: Literal["standard", "own"]
    specification: str
    authentication: tuple[Authentication, ...]
    key_exchange: str
    forward_secrecy: bool
    post_quantum: bool
    maintained: Upkeep
    sources: tuple[str, ...]
    as_of: str
    known_breaks: tuple[str, ...] = ()
    breaks_with: Mapping[Weakness, str] = field(default_factory=dict)
    flaws: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    handshake: Handshake = ""


@dataclass(frozen=True)
class Abilities:
    """What a user asks before choosing. ``inner``: what it carries as the plugin sets it up; ``otherwise``: what else,
    where it is configured otherwise; ``outer``: the IP versions it can travel over.

    ``nat``: one gateway may be behind a NAT. ``tcp_443``: it can be carried in TCP to port 443 where UDP is blocked.
    ``roaming``: a gateway's address may change under a living tunnel. ``routes``: who sets the routes.
    ``mesh``: what the plugin renders joins any number of sites' networks, every one with every other; ``mesh_how``: by
    what, or why not. ``hub``: the last site of its mesh is one that the others dial, and stays it as others join.
    ``modes``: tunnel (whole packets between gateways), transport (between the two machines themselves). ``users``: how
    it can ask for a person, beside the gateways' own keys; empty where nobody has looked. None of it is set up here.
    ``translates``: the option by which it gives a site's network other addresses, one for one.
    """

    inner: tuple[Payload, ...]
    outer: tuple[Literal["IPv4", "IPv6"], ...]
    nat: bool
    tcp_443: bool
    roaming: bool
    routes: Literal["daemon", "configuration", "operator", "not declared"]
    mesh: bool
    mesh_how: str = ""
    hub: bool = False
    modes: tuple[Literal["tunnel", "transport"], ...] = ("tunnel",)
    users: tuple[Literal["password", "RADIUS"], ...] = ()
    translates: str = ""
    otherwise: tuple[Payload, ...] = ()


@dataclass(frozen=True)
class Declared:
    """Both of a plugin."""

    security: Security
    abilities: Abilities

    @property
    def record(self) -> Declaration | None:
        """What a run keeps of it; None of a plugin that declares nothing."""
        if self is UNDECLARED:
            return None
        security, abilities = self.security, self.abilities
        return Declaration(
            as_of=security.as_of,
            sources=list(security.sources),
            protocol=security.protocol,
            handshake=security.handshake,
            authentication=list(security.authentication),
            forward_secrecy=security.forward_secrecy,
            post_quantum=security.post_quantum,
            maintained=security.maintained.goes_on,
            inner=list(abilities.inner),
            outer=list(abilities.outer),
            nat=abilities.nat,
            roaming=abilities.roaming,
            mesh=abilities.mesh,
        )


# Of a plugin that declares nothing, which reports say.
UNDECLARED = Declared(
    Security(
        protocol="own",
        specification="",
        authentication=("none",),
        key_exchange="",
        forward_secrecy=False,
        post_quantum=False,
        maintained=Upkeep("nobody", more="not declared"),
        sources=(),
        as_of="",
    ),
    Abilities(inner=(), outer=(), nat=False, tcp_443=False, roaming=False, routes="not declared", mesh=False),
)
