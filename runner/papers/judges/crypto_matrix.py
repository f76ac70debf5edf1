"""What the router paper found of ciphers beyond a row: rates (packets/s both ways), one over another.

The paper's text has numbers for AES-GCM only; the others it draws (figures 7 to 11), so that most ratios have none.

Its shortest packet of 64 bytes is an Ethernet frame: 1.488 million a second fill a gigabit with 64 bytes and 20 of
preamble and gap. That is an IP packet of 46 bytes. A run that measured 64 bytes of IP instead is judged by these.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import combinations

from runner.data.levels import AEAD, UNENCRYPTED
from runner.papers import claims
from runner.papers.claims import MORE, At, close
from runner.papers.findings import Blocks, Data, Judgement, NotMeasured
from runner.papers.shares import share_of

RATE = "packet_rate_both_ways"
SHORTEST = "46"  # bytes of IP in a frame of 64
CPUS = ("0.152", "0.05")  # of one CPU: 3.04 to 1, and little enough that nothing else is the limit
CBC, GCM, CHACHA = "aes-128-cbc", "aes-128-gcm", "chacha20-poly1305"
SEPARATE = ("camellia-128-cbc", "blowfish-128-cbc", "cast-128-cbc", "3des-cbc")


def cipher_cell(vpn: str, cipher: str, length: str, integrity: str = "hmac-sha256") -> At:
    """The cell of a cipher at one packet length in bytes of IP, with SHA-256 where it takes a separate integrity."""
    return At(vpn, {"cipher": cipher, "integrity": "aead" if cipher in AEAD else integrity, "packet_bytes": length})


def shortest(vpn: str, data: Data) -> str:
    """The paper's shortest packet in bytes of IP, or 64, where that was measured in its place."""
    return SHORTEST if SHORTEST in data.levels("packet_bytes", vpn) else "64"


def against(data: Data, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float] = MORE) -> Judgement:
    """The packet rate at the first of each pair over that at the second lies ``between`` two bounds."""
    return claims.all_ratios(data, RATE, pairs, between)


def fastest(vpn: str, data: Data) -> Judgement:
    """AES-128-GCM over each cipher but GCM, with the shortest packets. In the paper the highest: 0.321 Mpacket/s (A),
    1.04 (B)."""
    others = [c for c in data.levels("cipher", vpn) if c not in UNENCRYPTED and "gcm" not in c] or [CBC]
    short = shortest(vpn, data)
    return against(data, {cipher: (cipher_cell(vpn, GCM, short), cipher_cell(vpn, cipher, short)) for cipher in others})


def decline(vpn: str, data: Data) -> Judgement:
    """Rate at 1400 bytes over that of the shortest packets: ChaCha20's over that of AES with its HMAC."""

    def kept_ratio(cipher: str) -> Blocks:
        short, long = (cipher_cell(vpn, cipher, length) for length in (shortest(vpn, data), "1400"))
        few, many = data.blocks(RATE, vpn, **long.levels), data.blocks(RATE, vpn, **short.levels)
        return {block: few[block] / many[block] for block in few.keys() & many.keys()}

    return claims.compare(kept_ratio(CHACHA), kept_ratio(CBC), MORE).with_systems(vpn)


def same_order(vpn: str, data: Data) -> Judgement:
    """Under each integrity, of all pairs of ciphers, 0.85 or more have the order that they have under SHA-256. A pair
    that is not told apart, as where lower bounds leave its order open, is left out."""

    short = shortest(vpn, data)

    def leads(integrity: str) -> dict[tuple[str, str], bool]:
        by_cipher: dict[str, Blocks] = {}
        for cipher in (CBC, *SEPARATE):
            with suppress(NotMeasured):
                by_cipher[cipher] = data.blocks(RATE, vpn, **cipher_cell(vpn, cipher, short, integrity).levels)
        verdicts = {}
        for a, b in combinations(sorted(by_cipher), 2):
            with suppress(NotMeasured):
                verdicts[a, b] = claims.compare(by_cipher[a], by_cipher[b], MORE).verdict
        return {pair: verdict == "reproduced" for pair, verdict in verdicts.items() if verdict != "undecided"}

    model = leads("hmac-sha256")
    others = [name for name in data.levels("integrity", vpn) if name not in ("hmac-sha256", "aead")]
    held = [lead == model[pair] for name in others for pair, lead in leads(name).items() if pair in model]
    if not held:
        raise NotMeasured(
            f"{vpn}: no two ciphers whose order is known were measured under two hashes (--profile thesis does that)"
        )
    return share_of(sum(held), len(held), (0.85, 1.0)).with_systems(vpn)


def versions(vpn: str, data: Data) -> Judgement:
    """AES-128-GCM with the shortest packets on one image over another, within 10 % of 1."""
    images = data.levels("image", vpn)
    if len(images) < 2:
        raise NotMeasured("one version of strongSwan: compare two images (--gateway-image trixie,bookworm)")
    short = shortest(vpn, data)
    first, *others = [At(vpn, {**cipher_cell(vpn, GCM, short).levels, "image": image}) for image in images]
    return against(data, {f"{images[0]} over {o.levels['image']}": (first, o) for o in others}, close(0.1))
