"""The factors of a trial and their levels: of the WAN, of the tunnel, and of what is measured in it."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.wan import PRESETS

Params = Mapping[str, str]  # tunnel factor -> level, for example {"cipher": "aes-128-cbc", …}
NO_CIPHER = {"cipher": "none", "integrity": "none", "compression": "off"}
AES_CBC = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
AES_AEAD = tuple(f"aes-{bits}-{mode}" for mode in ("gcm", "ccm", "gmac") for bits in (128, 192, 256))
AEAD = (*AES_AEAD, "chacha20-poly1305", "salsa2012-umac")
UNENCRYPTED = ("none", "null", "aes-128-gmac", "aes-192-gmac", "aes-256-gmac")  # integrity at most (RFC 2410, RFC 4543)
# Factors of what lies under the tunnel, of the tunnel (one for each combination), and of the traffic inside it.
WAN_FACTORS = (
    *("wan", "wan_delay_ms", "wan_jitter_ms", "wan_loss_ratio", "wan_rate_bps", "wan_queue_ms", "wan_mtu_bytes"),
)
TUNNEL_FACTORS = ("cipher", "integrity", "compression", "image", *WAN_FACTORS)
TRAFFIC_FACTORS = (
    *("measure", "payload", "streams", "clients", "direction", "payload_bytes", "load", "file_bytes"),
    *("packet_bytes", "fragmentation", "rekey", "device_cipher"),
    *("failure", "redundancy", "gateway_failure", "detection", "endpoint", "link_failure"),
    *("driver", "ike", "gw2_cpu"),
    *("download_bytes", "download_limit", "cpus"),
)
# What must be known of a trial before its tunnel comes up: traffic that breaks what carries it, and what
# runner/sweep/variants.py sets. Each combination has a lab of its own.
VARIANTS = ("driver", "ike", "gw2_cpu")
FAILURE_FACTORS = (
    *("failure", "redundancy", "gateway_failure", "detection", "endpoint", "link_failure"),
    *("rekey", *VARIANTS),
    *("download_bytes", "download_limit", "cpus"),
)
# Every level that a factor can have. A VPN may have fewer: what it lacks is `unsupported`, with its own words.
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
        *("salsa2012-umac", "aes-128-ecb", "blowfish-128-ecb"),
    ),
    "integrity": (
        *("hmac-sha1", "hmac-sha256", "hmac-md5", "hmac-sha384", "hmac-sha512", "aes-xcbc", "aes-cmac", "aead", "none"),
    ),
    "compression": ("off", "on", "lz4"),
    "measure": (
        *("tcp", "udp", "idle", "loaded", "download", "packets", "overhead", "mtu"),
        *("duplex", "flows", "clients", "rekey", "device", "security", "operations", "mesh"),
        *("recovery", "reroute", "failover"),
    ),
    "payload": ("random", "zeros", "text"),
    "streams": ("1", "2", "4", "8", "16", "32", "64"),
    "clients": ("1", "2", "4", "8", "16", "32", "64"),
    "direction": ("forward", "reverse"),
    "load": ("full", "half"),
    "file_bytes": ("20000000", "50000000", "500000000", "1000000000"),
    "payload_bytes": ("1300", "1470"),
    "packet_bytes": ("64", "128", "256", "512", "1024", "1400", "1500"),
    "rekey": ("esp", "ike", "clock", "protocol"),
    "driver": ("accelerated", "generic"),
    "ike": ("aes128-sha256-ecp256", "aes256-sha384-ecp384", "aes256gcm16-prfsha384-x25519", "aes128-sha256-modp4096"),
    "gw2_cpu": ("0.5", "0.2", "0.05"),
    "device_cipher": ("aes-128-cbc", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"),
    "fragmentation": ("refuse", "allow"),
    "failure": ("restart", "reboot", "wan_cut", "roaming"),
    "redundancy": ("off", "vrrp", "vrrp_fast", "ha_sync", "clusterip"),
    "gateway_failure": ("interface", "gateway", "daemon", "sync_link", "return", "none"),
    "link_failure": ("carrier", "silent"),
    "detection": ("default", "hello", "minimal_hello", "bfd"),
    "endpoint": ("loopback", "link"),
    "download_bytes": ("20000000", "50000000", "500000000", "1000000000"),
    "download_limit": ("off", "2000000"),
    "cpus": ("1", "2", "3", "4"),
    "wan": tuple(PRESETS),
    "wan_delay_ms": ("0", "25"),
    "wan_jitter_ms": ("0", "5"),
    "wan_loss_ratio": ("0", "0.001", "0.01", "0.03"),
    "wan_rate_bps": ("20000000", "100000000", "1000000000"),
    "wan_queue_ms": ("20", "200"),
    "wan_mtu_bytes": ("1500", "1400", "1280"),
}
RENAMED = {"transport": "measure"}  # what a factor was called before: --set takes both names
# Factors that take any whole number between these: a UDP payload, an IPv4 packet with a UDP header (RFC 768), a file.
RANGES = {
    **{"payload_bytes": (1, 65507), "packet_bytes": (28, 65535), "file_bytes": (1, 10**11)},
    **{"download_bytes": (10**6, 10**11), "cpus": (1, 4096)},
}
TUNNEL = ("cipher", "integrity", "compression")
TCP = {"measure": "tcp", "payload": "random", "streams": "1", "direction": "forward"}
UDP = {"measure": "udp"}
IDLE = {"measure": "idle"}
LOADED = {"measure": "loaded", "load": "full"}
DOWNLOAD = {"measure": "download", "file_bytes": "20000000"}
PACKETS = {"measure": "packets", "packet_bytes": "64"}
OVERHEAD = {"measure": "overhead", "packet_bytes": "64"}
PATH_MTU = {"measure": "mtu"}
RECOVERY = {"measure": "recovery", "failure": "restart"}
FAILOVER = {"measure": "failover", "redundancy": "vrrp", "gateway_failure": "interface"}
HA_DOWNLOAD = FAILOVER | {"gateway_failure": "none", "download_bytes": "20000000", "download_limit": "off", "cpus": "1"}
REROUTE = {"measure": "reroute", "detection": "hello", "endpoint": "loopback", "link_failure": "silent"}
DUPLEX = {"measure": "duplex", "packet_bytes": "64"}
FLOWS = {"measure": "flows", "streams": "1"}
CLIENTS = {"measure": "clients", "clients": "1"}
REKEY = {"measure": "rekey", "rekey": "esp"}
DEVICE = {"measure": "device", "device_cipher": "aes-128-cbc"}
SECURITY = {"measure": "security"}
OPERATIONS = {"measure": "operations"}
MESH = {"measure": "mesh"}
MAY_FRAGMENT = ("udp", "packets", "overhead")
BASELINE = "none"


def tunnel_levels(params: Mapping[str, str]) -> dict[str, str]:
    """The tunnel factors among ``params``."""
    return {factor: params[factor] for factor in TUNNEL if factor in params}
