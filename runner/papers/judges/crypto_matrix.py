"""What the router paper found of ciphers, and its judges: rates (packets/s both ways), one over another.

The paper's text has numbers for AES-GCM only; the others it draws (figures 7 to 11), so that most ratios have none.
"""

from collections.abc import Mapping

from runner.data.levels import AEAD, LEVELS, UNENCRYPTED
from runner.papers import findings
from runner.papers.findings import LESS, MORE, At, Data, Finding, Judgement, close, ratio_of
from runner.papers.published import paper

STATED, RATE = paper("router"), "packet_rate_both_ways"
CBC, GCM, CHACHA = "aes-128-cbc", "aes-128-gcm", "chacha20-poly1305"
SEPARATE = ("camellia-128-cbc", "blowfish-128-cbc", "cast-128-cbc", "3des-cbc")


def at(vpn: str, cipher: str, length: str = "64", integrity: str = "hmac-sha256") -> At:
    """The cell of a cipher at one packet length in bytes, with SHA-256 where it takes a separate integrity."""
    return At(vpn, {"cipher": cipher, "integrity": "aead" if cipher in AEAD else integrity, "packet_bytes": length})


def each(name: str, found: str, judge: findings.Judge, basis: findings.Basis = "ratio") -> Finding:
    """A finding of §VI that holds, or not, of IPsec in the kernel and in userspace."""
    return Finding(name, "router", "§VI", found, findings.on_ipsec(RATE, judge), basis)


def against(data: Data, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float] = MORE) -> Judgement:
    """The packet rate at the first of each pair over that at the second lies ``between`` two bounds."""
    return findings.all_ratios(data, RATE, pairs, between)


def fastest(vpn: str, data: Data) -> Judgement:
    """AES-128-GCM over each cipher but GCM, at 64 bytes. The paper: 0.321 Mpacket/s (A), 1.04 (B), the highest."""
    others = [c for c in data.levels("cipher", vpn) if c not in UNENCRYPTED and "gcm" not in c] or [CBC]
    return against(data, {cipher: (at(vpn, GCM), at(vpn, cipher)) for cipher in others})


def aes_fastest(vpn: str, data: Data) -> Judgement:
    """AES-128-CBC over each other cipher with a separate integrity, at 64 bytes. The paper prints no number."""
    return against(data, {cipher: (at(vpn, CBC), at(vpn, cipher)) for cipher in SEPARATE})


def key_length(vpn: str, data: Data) -> Judgement:
    """256 over 128 bits, at 64 bytes, within 10 % of 1. The paper prints no number."""
    pairs = {long: (at(vpn, long), at(vpn, long.replace("256", "128"))) for long in ("aes-256-cbc", "aes-256-gcm")}
    return against(data, pairs, close(0.1))


def md5(vpn: str, data: Data) -> Judgement:
    """HMAC-MD5 over SHA-1 and over SHA-512, with AES-128-CBC at 64 bytes. The paper prints no ratio of them."""
    cheap = at(vpn, CBC, integrity="hmac-md5")
    return against(data, {sha: (cheap, at(vpn, CBC, integrity=sha)) for sha in ("hmac-sha1", "hmac-sha512")})


# In the kernel over in userspace, AES-128-GCM at 64 bytes. The paper prints no number.
kernel = ratio_of(RATE, at("ipsec", GCM), at("ipsec_user", GCM), MORE)


def instructions(vpn: str, data: Data) -> Judgement:
    """With the CPU's AES instructions over without, at 1400 bytes. The paper explains by them; it prints no number."""
    cells = {c: [At(vpn, {**at(vpn, c, "1400").levels, "driver": d}) for d in LEVELS["driver"]] for c in (CBC, GCM)}
    return against(data, {cipher: (fast, slow) for cipher, (fast, slow) in cells.items()})


def decline(vpn: str, data: Data) -> Judgement:
    """Rate at 1400 bytes over that at 64: ChaCha20's over that of AES with its HMAC."""

    def kept(cipher: str) -> findings.Blocks:
        short, long = (at(vpn, cipher, length) for length in ("64", "1400"))
        few, many = data.blocks(RATE, vpn, **long.levels), data.blocks(RATE, vpn, **short.levels)
        return {block: few[block] / many[block] for block in few.keys() & many.keys()}

    return findings.compare(kept(CHACHA), kept(CBC), MORE)


def step(vpn: str, data: Data) -> Judgement:
    """WAN packets for each packet sent, at 1500 over 1400 bytes: 2 in the paper, here within 5 % of it."""
    between = ((times := STATED["fragmentation.step"]) / 1.05, times * 1.05)
    return ratio_of("wan_packets_per_packet", at(vpn, CBC, "1500"), at(vpn, CBC, "1400"), between, times)(data)


def share(data: Data) -> Judgement:
    """Forwarded over offered packets with AES-GCM at 64 bytes: 10.8 % of 2.976 Mpacket/s in the paper (A)."""
    said = "another generator offers another load: shown beside each other, without a verdict"
    found = next((vpn for vpn in findings.IPSEC if vpn in data.vpns(RATE)), findings.IPSEC[0])
    measured = findings.single(data.blocks("forwarded_share", found, **at(found, GCM).levels), LESS)
    theirs = STATED["gcm.a.share"] / 100
    return measured.model_copy(update={"verdict": "not comparable", "reason": said, "published": theirs})


FINDINGS = (
    each("gcm-fastest", "AES-GCM is the fastest", fastest),
    each("aes-fastest", "of the ciphers with a separate integrity, AES is the fastest", aes_fastest),
    each("instructions", "the CPU's AES instructions are why AES is fast", instructions),
    each("key-length", "the length of the key hardly matters", key_length),
    each("md5", "MD5 is cheaper than SHA", md5),
    each("chacha-decline", "ChaCha20 falls more slowly with the packet's length than AES", decline),
    each("fragments", "the packet rate on the WAN doubles at 1500 bytes", step, "count"),
    Finding("kernel", "router", "§I", "IPsec in the kernel is faster than in userspace", kernel),
    Finding("share", "router", "§VI", "AES-GCM forwards 10.8 % of the load (configuration A)", share, "share"),
)
