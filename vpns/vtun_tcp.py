"""VTun over TCP: as vtun, but the session is one TCP connection, which CBC needs: it goes on from packet to packet."""

from dataclasses import replace

from vpns.vtun import Vtun


class VtunTcp(Vtun):
    title = "VTun (TCP)"
    sign = replace(Vtun.sign, marks=(r"^proto tcp",))
    transport = "tcp"
    note = "no integrity: packets can be changed on the way; TCP inside the tunnel runs over TCP; no longer maintained"
    protocol = "tcp"
    offers = replace(
        Vtun.offers,
        ciphers={"aes-128-cbc": "aes128cbc", "aes-256-cbc": "aes256cbc", **Vtun.offers.ciphers},
        limits={
            "cipher": "VTun has AES and Blowfish with 128 and 256 bits, and no AEAD; its blowfish128cbc makes "
            "unreadable packets with OpenSSL 3",
            "integrity": "VTun has no integrity",
        },
    )
    comparable = {"cipher": "aes-128-cbc", "integrity": "none", "compression": "off"}
