"""How long an inner IP packet is on the WAN: each protocol's arithmetic, from its own specification.

All lengths are bytes of IPv4 packets without options, the Ethernet header left out on both sides. Each function
returns the layers of what is sent on the WAN, the outermost first, the inner packet among them, by the names of
runner/data/packet.py. The inner packet is taken to fit: nothing is fragmented, and nothing compressed.
"""

from __future__ import annotations

from runner.data.packet import HEADER, INNER, INSIDE, IV, OUTER, PADDING, TAG
from runner.data.packet import Layers as Layers

IPV4 = 20  # RFC 791 §3.1
UDP = 8  # RFC 768
TCP = 20 + 12  # RFC 9293 §3.1, and the timestamps option (RFC 7323 §3.2) that Linux pads to 12
ETHERNET = 14  # IEEE 802.3, without the FCS
L2TP = UDP + 6 + 4  # RFC 2661 §3.1 without the optional fields; PPP's address, control, protocol (RFC 1662 §3.1)
VXLAN = UDP + 8 + ETHERNET  # RFC 7348 §5
GRE = 4  # RFC 2784 §2, without key, sequence number and checksum

# Cipher -> block, explicit IV and the cipher's own tag. ESP: RFC 3602 (AES-CBC), RFC 2451 (3DES, Blowfish),
# RFC 2410 (NULL), RFC 4106 §3.1 (GCM), RFC 7634 §2 (ChaCha20-Poly1305).
ESP = {
    "aes-128-cbc": (16, 16, 0),
    "aes-192-cbc": (16, 16, 0),
    "aes-256-cbc": (16, 16, 0),
    "3des-cbc": (8, 8, 0),
    "blowfish-128-cbc": (8, 8, 0),
    "aes-128-gcm": (1, 8, 16),
    "aes-256-gcm": (1, 8, 16),
    "chacha20-poly1305": (1, 8, 16),
    "null": (1, 0, 0),
    # RFC 3686 (CTR), RFC 4312 (Camellia), RFC 2451 (CAST-128), RFC 4309 (CCM), RFC 4543 (GMAC)
    **{f"aes-{bits}-ctr": (1, 8, 0) for bits in (128, 192, 256)},
    **{f"camellia-{bits}-cbc": (16, 16, 0) for bits in (128, 192, 256)},
    **dict.fromkeys(("blowfish-192-cbc", "blowfish-256-cbc", "cast-128-cbc"), (8, 8, 0)),
    **{f"aes-{bits}-{mode}": (1, 8, 16) for mode in ("gcm", "ccm", "gmac") for bits in (128, 192, 256)},
}
ESP_ICV = {"aead": 0, "hmac-sha1": 12, "hmac-sha256": 16}  # RFC 2404 (96 bits), RFC 4868 §2.3 (128 bits)
ESP_ICV |= {"hmac-sha384": 24, "hmac-sha512": 32, "hmac-md5": 12, "aes-xcbc": 12, "aes-cmac": 12}  # RFC 8221 §6
HMAC = {"aead": 0, "none": 0, "hmac-md5": 16, "hmac-sha1": 20, "hmac-sha256": 32}  # whole, as OpenVPN and SSH send it


def _layers(**lengths: int) -> Layers:
    names = {"outer": OUTER, "udp": "UDP", "tcp": "TCP", "header": HEADER, "iv": IV, "inside": INSIDE}
    names |= {"inner": INNER, "padding": PADDING, "tag": TAG}
    return {names[layer]: length for layer, length in lengths.items() if length or layer == "inner"}


def rounded_up(length: int, multiple: int) -> int:
    """The smallest multiple of ``multiple`` that is not below ``length``, in bytes."""
    return -(-length // multiple) * multiple


def plain(inner_bytes: int) -> Layers:
    """The packet itself: what a route alone puts around it."""
    return _layers(inner=inner_bytes)


def ipip(inner_bytes: int) -> Layers:
    """RFC 2003 §3.1: one more IPv4 header, whatever the length."""
    return _layers(outer=IPV4, inner=inner_bytes)


def gre(inner_bytes: int) -> Layers:
    """RFC 2784 §2: an IPv4 header and GRE's own, whatever the length."""
    return _layers(outer=IPV4, header=GRE, inner=inner_bytes)


def l2tp(inner_bytes: int) -> Layers:
    """L2TP version 2 (RFC 2661 §3.1) as Linux sends it: no length, no sequence numbers, PPP's header whole."""
    return _layers(outer=IPV4, udp=UDP, header=6, inside=4, inner=inner_bytes)


def l2tpv3(inner_bytes: int) -> Layers:
    """L2TPv3 over UDP (RFC 3931 §4.1.2.1): flags and version 4, session 4, the default sublayer 4 (§4.6), Ethernet."""
    return _layers(outer=IPV4, udp=UDP, header=4 + 4 + 4, inside=ETHERNET, inner=inner_bytes)


def ah(inner_bytes: int, integrity: str) -> Layers:
    """AH in tunnel mode (RFC 4302 §2): outer IPv4 header, 12 bytes, ICV; a multiple of 4 over IPv4 (§3.3.3.2.1)."""
    return _layers(outer=IPV4, header=12, tag=ESP_ICV[integrity], inner=inner_bytes)


def esp(
    inner_bytes: int,
    cipher: str,
    integrity: str,
    *,
    udp: bool = False,
    gre: bool = False,
    vxlan: bool = False,
    l2tp: bool = False,
) -> Layers:
    """ESP, RFC 4303 §2: outer IPv4 header, SPI and sequence number, IV, the payload with padding, pad length and
    next header up to a whole block and a multiple of 4, ICV.

    ``udp``: in UDP (RFC 3948 §2.1). ``gre``, ``vxlan``, ``l2tp``: the payload is such a packet in transport
    mode, else tunnel mode.
    """
    block, iv, tag = ESP[cipher]
    inside = (GRE if gre else 0) + (VXLAN if vxlan else 0) + (L2TP if l2tp else 0)
    payload = inside + inner_bytes
    return _layers(
        outer=IPV4,
        udp=UDP if udp else 0,
        header=4 + 4,
        iv=iv,
        inside=inside,
        inner=inner_bytes,
        padding=rounded_up(payload + 2, max(block, 4)) - payload,
        tag=tag + ESP_ICV[integrity],
    )


def ah_around_esp(inner_bytes: int, cipher: str, integrity: str) -> Layers:
    """AH in transport mode (RFC 4302 §2) around ESP in tunnel mode without an ICV of its own (RFC 4303 §2)."""
    inside = esp(inner_bytes, cipher, "aead")
    return inside | {HEADER: inside[HEADER] + 12, TAG: ESP_ICV[integrity]}


def wireguard(inner_bytes: int, mtu: int = 1420) -> Layers:
    """WireGuard's transport data message (whitepaper §5.4.6): type 4, receiver 4, counter 8, the packet padded to
    a multiple of 16, tag 16; in UDP. The padding never exceeds the interface's MTU, as in the Linux driver."""
    padded = max(inner_bytes, min(rounded_up(inner_bytes, 16), mtu))
    return _layers(outer=IPV4, udp=UDP, header=4 + 4, iv=8, inner=inner_bytes, padding=padded - inner_bytes, tag=16)


def openvpn(
    inner_bytes: int,
    cipher: str,
    integrity: str,
    compression: str = "off",
    *,
    tcp: bool = False,
    ethernet: bool = False,
) -> Layers:
    """OpenVPN's P_DATA_V2 (OpenVPN 2.6, crypto.h "OpenVPN Data Channel Crypto Module" and the wire protocol
    draft): opcode and peer id 4, then for an AEAD packet id 4, tag 16, payload; else HMAC, IV, and, encrypted
    with PKCS#7 padding, packet id 4 and payload. A compressor that leaves a packet as it is adds its byte.

    In UDP; with ``tcp`` in TCP, each packet after its length in 2 bytes. ``ethernet``: with TAP the payload is a frame.
    """
    block, iv, tag = ESP[cipher] if cipher != "none" else (1, 0, 0)
    inside = (0 if compression == "off" else 1) + (ETHERNET if ethernet else 0)
    around = {"outer": IPV4, "tcp": TCP, "header": 2 + 4} if tcp else {"outer": IPV4, "udp": UDP, "header": 4}
    if tag:
        return _layers(**around, iv=4, tag=tag, inside=inside, inner=inner_bytes)
    payload = 4 + inside + inner_bytes
    padding = rounded_up(payload + 1, block) - payload if block > 1 else 0  # PKCS#7 (RFC 5652 §6.3): a byte at least
    return _layers(**around, tag=HMAC[integrity], iv=iv + 4, inside=inside, inner=inner_bytes, padding=padding)


def ssh_tun(inner_bytes: int, cipher: str, integrity: str, mss: int = 1448) -> Layers:
    """SSH with a TUN, each packet in a channel message of its own, which holds while packets come slowly.

    The payload is SSH_MSG_CHANNEL_DATA (RFC 4254 §5.2): type 1, channel 4, length 4, then OpenSSH's address family 4
    (PROTOCOL §2.3) and the packet. Around it (RFC 4253 §6): packet length 4, padding length 1, at least 4 bytes of
    padding up to a whole block, MAC or tag. The packet length is left out of the rounding where it is not encrypted
    with the rest: *-etm MACs (PROTOCOL §1.7), GCM (RFC 5647 §7.3) and OpenSSH's ChaCha20-Poly1305. In TCP, one
    segment for each ``mss`` bytes begun; acknowledgements travel the other way and are not counted.
    """
    block, _, tag = ESP[cipher]
    block = 8 if cipher == "chacha20-poly1305" else max(block, 16 if tag else 8)
    inside, mac = 9 + 4, tag or HMAC[integrity]
    plain = 1 + inside + inner_bytes
    encrypted = rounded_up(plain + 4, block)
    segments = -(-(4 + encrypted + mac) // mss)
    return _layers(
        outer=segments * IPV4,
        tcp=segments * TCP,
        header=4 + 1,
        inside=inside,
        inner=inner_bytes,
        padding=encrypted - plain,
        tag=mac,
    )


def tinc(inner_bytes: int, cipher: str, integrity: str) -> Layers:
    """tinc 1.0 in router mode (manual, 6.3.1): sequence number 4 and the packet with a made-up Ethernet header 14,
    encrypted with PKCS#7 padding, then the whole digest; in UDP."""
    block, _, _ = ESP[cipher]
    payload = 4 + ETHERNET + inner_bytes
    return _layers(
        outer=IPV4,
        udp=UDP,
        iv=4,
        inside=ETHERNET,
        inner=inner_bytes,
        padding=rounded_up(payload + 1, block) - payload if block > 1 else 0,
        tag=HMAC[integrity],
    )


def vpncloud(inner_bytes: int) -> Layers:
    """VpnCloud with a TUN (src/crypto/core.rs of 2.3.0): key number 1 and 7 of the nonce's bytes, then, encrypted, the
    message's type 1 and the packet, and the tag; in UDP."""
    return _layers(outer=IPV4, udp=UDP, header=1, iv=7, inside=1, inner=inner_bytes, tag=16)
