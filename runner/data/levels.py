"""The factors of a trial and their levels: of the WAN, of the tunnel, and of what is measured in it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from runner.data.wan import PRESETS

BY_PROFILE = "by profile"
LEFT_OUT = {
    "fragmentation": "refuse",
    "uplinks": "two_routers",
    "underlay": "4",
    "inner": "4",
}  # levels that are not written down, being what nobody has to ask for


@dataclass(frozen=True)
class Levels:
    """The levels of an instrument's factor: the named ones, and, with a ``range``, any whole number in it.

    ``default`` is the level where an experiment names none: BY_PROFILE leaves it to the profile, and without one the
    factor is absent. Instruments that share a factor may differ in it. ``before``: a lab and tunnel are made for this
    level, and for no other. ``told``: how a line about a trial says a level, by default after the factor's name;
    ``"".format`` says nothing. Such a line leaves out the ``usual`` level.
    """

    named: tuple[str, ...]
    range: tuple[int, int] | None = None
    default: str | None = field(default=None, compare=False)
    before: bool = False
    told: Callable[[str], str] | None = field(default=None, compare=False)
    usual: str = field(default="", compare=False)

    def say(self, factor: str, level: str) -> str:
        """The level in the words of a line about a trial; empty where the line leaves it out."""
        if level == self.usual:
            return ""
        return self.told(level) if self.told else f"{factor} {level}"


Params = Mapping[str, str]  # tunnel factor -> level, for example {"cipher": "aes-128-cbc", …}
NO_CIPHER = {"cipher": "none", "integrity": "none", "compression": "off"}
AES_CBC = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
AES_AEAD = tuple(f"aes-{bits}-{mode}" for mode in ("gcm", "ccm", "gmac") for bits in (128, 192, 256))
AEAD = (*AES_AEAD, "chacha20-poly1305", "salsa2012-umac", "xsalsa20-poly1305")
UNENCRYPTED = ("none", "null", "aes-128-gmac", "aes-192-gmac", "aes-256-gmac")  # integrity at most (RFC 2410, RFC 4543)
# Factors of what lies under the tunnel, and of the tunnel: one for each combination. ``underlay`` and ``inner`` are IP
# versions: of the gateways' addresses on the WAN, and of what is sent between the sites.
WAN_FACTORS = (
    *("wan", "wan_delay_ms", "wan_jitter_ms", "wan_loss_ratio", "wan_rate_bps", "wan_queue_ms", "wan_mtu_bytes"),
    *("underlay", "inner"),
)
UPLINK = "uplink"  # of a site lab: the line between the gateways, one of those that its inventory names
# Of a VPN's software, one of those that its plugin names, or the image's own. Each is a VPN of the run, VPN@LEVEL.
VERSION, OWN_VERSION = "version", "debian"
TUNNEL_FACTORS = ("cipher", "integrity", "compression", "image", UPLINK, *WAN_FACTORS)
# Of the tunnel, too: by what its gateways agree on keys, where a trial asks. ``ike``: the proposal of an IKE SA;
# ``key_exchange``: the group of TLS, the method of SSH, by the names of IANA's registries.
EXCHANGES = ("ike", "key_exchange")
# Each combination has a lab of its own.
VARIANTS = ("driver", *EXCHANGES, "gw2_cpu")
SHARES = {"gw2_cpu": (0.01, 1.0)}  # of a core: any number in this range
# Every level of the factors of tunnel and WAN; instruments have factors of their own. A VPN may have fewer levels: what
# it lacks is `unsupported`, with its own words.
LEVELS: dict[str, tuple[str, ...]] = {
    "cipher": (
        "aes-128-cbc",
        "aes-192-cbc",
        "aes-256-cbc",
        "3des-cbc",
        "blowfish-128-cbc",
        "aes-128-gcm",
        "aes-256-gcm",
        "chacha20-poly1305",
        *("null", "rc4-128"),
        *("aes-128-ctr", "aes-192-ctr", "aes-256-ctr"),
        *("camellia-128-cbc", "camellia-192-cbc", "camellia-256-cbc"),
        *("blowfish-192-cbc", "blowfish-256-cbc", "cast-128-cbc", "twofish-128-cbc"),
        *("aes-192-gcm", "aes-128-ccm", "aes-192-ccm", "aes-256-ccm"),
        *("aes-128-gmac", "aes-192-gmac", "aes-256-gmac"),
        *("salsa2012-umac", "aes-128-ecb", "blowfish-128-ecb", "xsalsa20-poly1305"),
    ),
    "integrity": (
        *("hmac-sha1", "hmac-sha256", "hmac-md5", "hmac-sha384", "hmac-sha512", "aes-xcbc", "aes-cmac", "aead", "none"),
    ),
    "compression": ("off", "on", "lz4", "adaptive"),
    "driver": ("accelerated", "generic"),
    "ike": (
        *("aes128-sha256-ecp256", "aes256-sha256-ecp256", "aes256-sha384-ecp384"),
        *("aes256gcm16-prfsha384-x25519", "aes128-sha256-modp4096"),
        *("x25519-mlkem768", "ecp384-mlkem1024", "mlkem768"),
    ),
    "key_exchange": (
        *("X25519", "X25519MLKEM768"),
        *("curve25519-sha256", "mlkem768x25519-sha256", "sntrup761x25519-sha512"),
    ),
    "gw2_cpu": ("0.5", "0.2", "0.05"),
    "wan": tuple(PRESETS),
    "wan_delay_ms": ("0", "5", "25", "50"),
    "wan_jitter_ms": ("0", "5"),
    "wan_loss_ratio": ("0", "0.0001", "0.001", "0.01", "0.03"),
    "wan_rate_bps": ("20000000", "100000000", "1000000000"),
    "wan_queue_ms": ("20", "200"),
    "wan_mtu_bytes": ("1500", "1400", "1280"),
    "underlay": ("4", "6"),
    "inner": ("4", "6", "both"),  # both: IPv4, where the sites have IPv6, which has to pass, too
}
TUNNEL = ("cipher", "integrity", "compression")
WAYS = "ways"  # of datagrams: both at once, or the one to gw1; from gw1 where it is absent
TCP = {"measure": "tcp", "payload": "random", "streams": "1", "direction": "forward"}
RANKED_AT = {"tcp": TCP}  # instrument -> the levels that its metrics are ranked at; a run does not store them
BASELINE = "none"


def tunnel_levels(params: Mapping[str, str]) -> dict[str, str]:
    """The tunnel factors among ``params``, and by what keys are agreed on."""
    return {factor: params[factor] for factor in (*TUNNEL, *EXCHANGES) if factor in params}


def traffic_factors(named: Collection[str]) -> list[str]:
    """The factors among ``named`` that describe what is measured: ``measure`` first, then as they are named, the
    variants last."""
    own = (factor for factor in named if factor not in TUNNEL_FACTORS)
    return sorted(own, key=lambda factor: (factor != "measure", factor in VARIANTS))


def outside_of_tunnel(params: Mapping[str, str]) -> dict[str, str]:
    """The levels of the traffic and of the WAN: all but those of the tunnel and of its software."""
    return {factor: level for factor, level in params.items() if factor not in TUNNEL and factor != "image"}


def beside_plain_ip(params: Mapping[str, str]) -> dict[str, str]:
    """The levels that a VPN's cell shares with plain IP beside it, which has no crypto driver and no other variant."""
    return {factor: level for factor, level in outside_of_tunnel(params).items() if factor not in VARIANTS}


def ranked_by(measure: str) -> dict[str, str]:
    """The levels of the traffic by which the metrics of the instrument ``measure`` are ranked. A trial's parameters
    must name ``measure``; the other levels are compared only where they are named."""
    return RANKED_AT.get(measure, {"measure": measure, "payload": "random"})


def unusual(params: Mapping[str, str]) -> dict[str, str]:
    """The levels that belong neither to the VPN nor to the traffic: those of the WAN and of a slow gateway."""
    return {factor: params[factor] for factor in (*WAN_FACTORS, *VARIANTS) if factor in params}
