"""What the router paper found of ciphers, and its judges: rates (packets/s both ways), one over another.

The paper's text has numbers for AES-GCM only; the others it draws (figures 7 to 11), so that most ratios have none.

Its shortest packet of 64 bytes is an Ethernet frame: 1.488 million a second fill a gigabit with 64 bytes and 20 of
preamble and gap. That is an IP packet of 46 bytes. A run that measured 64 bytes of IP instead is judged by these.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import combinations

from runner.data.asked import AskedRun
from runner.data.levels import AEAD, LEVELS, UNENCRYPTED
from runner.papers import claims
from runner.papers.claims import LESS, MORE, At, close, ratio_of
from runner.papers.conditions import by_one_driver, unlike, with_instructions
from runner.papers.findings import Blocks, Data, Finding, Judgement, NotMeasured
from runner.papers.published import paper
from runner.papers.scales import Basis
from runner.papers.shares import share_of

STATED, RATE = paper("router"), "packet_rate_both_ways"
SHORTEST = "46"  # bytes of IP in a frame of 64
CPUS = ("0.152", "0.05")  # of one CPU: 3.04 to 1, and little enough that nothing else is the limit
CBC, GCM, CHACHA = "aes-128-cbc", "aes-128-gcm", "chacha20-poly1305"
HERE = AskedRun(experiments="crypto_matrix", vpns="ipsec")
GENERIC, QEMU = HERE.changed(kernel="uml"), HERE.changed(kernel="qemu")
SEPARATE = ("camellia-128-cbc", "blowfish-128-cbc", "cast-128-cbc", "3des-cbc")


def cipher_cell(vpn: str, cipher: str, length: str, integrity: str = "hmac-sha256") -> At:
    """The cell of a cipher at one packet length in bytes of IP, with SHA-256 where it takes a separate integrity."""
    return At(vpn, {"cipher": cipher, "integrity": "aead" if cipher in AEAD else integrity, "packet_bytes": length})


def shortest(vpn: str, data: Data) -> str:
    """The paper's shortest packet in bytes of IP, or 64, where that was measured in its place."""
    return SHORTEST if SHORTEST in data.levels("packet_bytes", vpn) else "64"


def ipsec_finding(
    name: str,
    claim: str,
    judge: claims.Judge,
    counts: str,
    basis: Basis = "ratio",
    other: str = "",
    *,
    no_run: str = "",
    elsewhere: Sequence[AskedRun] = (),
) -> Finding:
    """A finding of §VI: the kernel's ESP decides, with userspace ESP beside it, and what makes that ``other``."""
    judged = claims.on_ipsec(judge, other)
    return Finding(
        *(name, "router", "§VI", claim, judged, basis),
        counts=counts,
        run=GENERIC,
        no_run=no_run,
        elsewhere=elsewhere,
    )


def against(data: Data, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float] = MORE) -> Judgement:
    """The packet rate at the first of each pair over that at the second lies ``between`` two bounds."""
    return claims.all_ratios(data, RATE, pairs, between)


def fastest(vpn: str, data: Data) -> Judgement:
    """AES-128-GCM over each cipher but GCM, with the shortest packets. In the paper the highest: 0.321 Mpacket/s (A),
    1.04 (B)."""
    others = [c for c in data.levels("cipher", vpn) if c not in UNENCRYPTED and "gcm" not in c] or [CBC]
    short = shortest(vpn, data)
    return against(data, {cipher: (cipher_cell(vpn, GCM, short), cipher_cell(vpn, cipher, short)) for cipher in others})


def aes_fastest(vpn: str, data: Data) -> Judgement:
    """AES-128-CBC over each other cipher with a separate integrity, with the shortest packets. The paper prints no
    number."""
    short = shortest(vpn, data)
    return against(
        data, {cipher: (cipher_cell(vpn, CBC, short), cipher_cell(vpn, cipher, short)) for cipher in SEPARATE}
    )


def key_length(vpn: str, data: Data) -> Judgement:
    """256 over 128 bits, with the shortest packets, within 10 % of 1. The paper prints no number."""
    short, ciphers = shortest(vpn, data), ("aes-256-cbc", "aes-256-gcm")
    pairs = {
        long: (cipher_cell(vpn, long, short), cipher_cell(vpn, long.replace("256", "128"), short)) for long in ciphers
    }
    return against(data, pairs, close(0.1))


def md5(vpn: str, data: Data) -> Judgement:
    """HMAC-MD5 over SHA-1 and over SHA-512, with AES-128-CBC and the shortest packets. The paper prints no ratio of
    them."""
    short = shortest(vpn, data)
    cheap = cipher_cell(vpn, CBC, short, "hmac-md5")
    return against(data, {sha: (cheap, cipher_cell(vpn, CBC, short, sha)) for sha in ("hmac-sha1", "hmac-sha512")})


def kernel(data: Data) -> Judgement:
    """In the kernel over in userspace, AES-128-GCM with the shortest packets. The paper prints no number."""
    short = shortest("ipsec_user", data)
    return ratio_of(RATE, cipher_cell("ipsec", GCM, short), cipher_cell("ipsec_user", GCM, short), MORE)(data)


def instructions(vpn: str, data: Data) -> Judgement:
    """With the CPU's AES instructions over without, at 1400 bytes. The paper explains by them; it prints no number."""
    cells = {
        c: [At(vpn, {**cipher_cell(vpn, c, "1400").levels, "driver": d}) for d in LEVELS["driver"]] for c in (CBC, GCM)
    }
    return against(data, {cipher: (fast, slow) for cipher, (fast, slow) in cells.items()})


def decline(vpn: str, data: Data) -> Judgement:
    """Rate at 1400 bytes over that of the shortest packets: ChaCha20's over that of AES with its HMAC."""

    def kept_ratio(cipher: str) -> Blocks:
        short, long = (cipher_cell(vpn, cipher, length) for length in (shortest(vpn, data), "1400"))
        few, many = data.blocks(RATE, vpn, **long.levels), data.blocks(RATE, vpn, **short.levels)
        return {block: few[block] / many[block] for block in few.keys() & many.keys()}

    return claims.compare(kept_ratio(CHACHA), kept_ratio(CBC), MORE).with_systems(vpn)


def chacha_long(vpn: str, data: Data) -> Judgement:
    """At 1400 bytes ChaCha20 over each cipher with a separate integrity, and the AES AEADs over it (figure 11)."""
    long = "1400"
    above = {cipher: (cipher_cell(vpn, CHACHA, long), cipher_cell(vpn, cipher, long)) for cipher in (CBC, *SEPARATE)}
    below = {
        cipher: (cipher_cell(vpn, cipher, long), cipher_cell(vpn, CHACHA, long))
        for cipher in (GCM, "aes-128-ccm", "aes-128-gmac")
    }
    return against(data, above | below)


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


def step(vpn: str, data: Data) -> Judgement:
    """WAN packets for each packet sent, at 1500 over 1400 bytes: 2 in the paper, here within 5 % of it."""
    between = ((times := STATED["fragmentation.step"]) / 1.05, times * 1.05)
    return ratio_of(
        "wan_packets_per_packet", cipher_cell(vpn, CBC, "1500"), cipher_cell(vpn, CBC, "1400"), between, times
    )(data)


def share(vpn: str, data: Data) -> Judgement:
    """Forwarded over offered packets with AES-GCM and the shortest packets. The paper: 10.8 % of 2.976 Mpacket/s."""
    cell = cipher_cell(vpn, GCM, shortest(vpn, data)).levels
    measured = claims.single(data.blocks("forwarded_share", vpn, **cell), LESS).with_systems(vpn)
    theirs = STATED["gcm.a.share"] / 100
    judged = unlike(measured, "unlike", "another generator offers another load")
    return judged.model_copy(update={"published": theirs})


def configurations(vpn: str, data: Data) -> Judgement:
    """3.04 times the CPU of the second gateway, with AES-256 and MD5: the packet rate within a fifth of 3.04 times. The
    paper has two machines; here both are one gateway at two shares of a CPU."""
    fast, slow = (
        At(vpn, {**cipher_cell(vpn, "aes-256-cbc", SHORTEST, "hmac-md5").levels, "gw2_cpu": cpu}) for cpu in CPUS
    )
    times = STATED["md5.b_over_a"]
    return ratio_of(RATE, fast, slow, (times / 1.2, times * 1.2), times)(data)


USERSPACE_STEP = "another mechanism: it fragments before it encrypts"
NEEDS_DRIVER = (
    "the paper's CPUs had instructions for AES, for which User Mode Linux has no driver; where the kernel has ESP and "
    "such a driver"
)
_FASTER = "the packet rate with {} is {{}} times that with another cipher"
FINDINGS = (
    ipsec_finding(
        *("gcm-fastest", "AES-GCM is the fastest", with_instructions(fastest)),
        _FASTER.format("AES-128-GCM"),
        no_run=NEEDS_DRIVER,
        elsewhere=(HERE,),
    ),
    ipsec_finding(
        *("aes-fastest", "of the ciphers with a separate integrity, AES is the fastest"),
        *(with_instructions(aes_fastest), _FASTER.format("AES-128-CBC")),
        no_run=NEEDS_DRIVER,
        elsewhere=(HERE,),
    ),
    ipsec_finding(
        *("instructions", "the CPU's AES instructions are why AES is fast", instructions),
        "the packet rate with the CPU's instructions is {} times that without",
        no_run="a kernel takes its fastest driver for everybody, so that no run has both; two runs side by side show "
        "it without a verdict",
        elsewhere=(GENERIC, QEMU),
    ),
    ipsec_finding(
        *("key-length", "the length of the key hardly matters", key_length),
        "the packet rate with a key of 256 bits is {} times that with 128 bits",
    ),
    ipsec_finding("md5", "MD5 is cheaper than SHA", md5, "the packet rate with MD5 is {} times that with a SHA"),
    ipsec_finding(
        *("same-order", "the ciphers have the same order under every hash", same_order),
        "a share of {} of all pairs of ciphers has the same order under another hash",
    ),
    ipsec_finding(
        *("versions", "strongSwan's version hardly matters", versions),
        "the packet rate with one version is {} times that with another",
    ),
    ipsec_finding(
        *("chacha-decline", "ChaCha20 falls more slowly with the packet's length than AES", decline),
        "at 1400 bytes, the share of its rate of short packets that ChaCha20 keeps is {} times AES's",
    ),
    ipsec_finding(
        *("chacha-long", "with long packets only the AES AEADs are faster than ChaCha20"),
        with_instructions(chacha_long),
        "at 1400 bytes, the packet rate of the one claimed to be faster is {} times that of the other",
        no_run=NEEDS_DRIVER,
        elsewhere=(HERE,),
    ),
    ipsec_finding(
        *("fragments", "the packet rate on the WAN doubles at 1500 bytes (here: for each packet sent)", step),
        "the WAN carries {} times as many packets for each one sent, at 1500 bytes as at 1400",
        *("count", USERSPACE_STEP),
    ),
    Finding(
        *("kernel", "router", "§I", "IPsec in the kernel is faster than in userspace", by_one_driver(kernel)),
        counts="the packet rate in the kernel is {} times that in userspace",
        run=QEMU.changed(vpns="ipsec,ipsec_user", levels="driver=accelerated"),
    ),
    ipsec_finding(
        *("share", "AES-GCM forwards 10.8 % of the load (configuration A)", share),
        *("a share of {} of the offered packets is forwarded", "share"),
    ),
    ipsec_finding(
        *("configurations", "machine B is 3.04 times as fast as A by its CPU (AES-256, MD5)", configurations),
        "the packet rate with 3.04 times the CPU is {} times as high",
        no_run="no quota holds the kernel's ESP back, so that two pairs of machines are needed, with this run on each",
        elsewhere=(HERE.changed(lab="ssh:testbed.toml"),),
    ),
    Finding(
        *("cpu", "router", "§VI", "our question: userspace ESP is 3.04 times as fast with 3.04 times the CPU"),
        partial(configurations, claims.USERSPACE_ESP),
        question=True,
        counts="the packet rate with 3.04 times the CPU is {} times as high",
        run=AskedRun(
            experiments="crypto_matrix",
            vpns="ipsec_user",
            levels=f"gw2_cpu={CPUS[0]},gw2_cpu={CPUS[1]},cipher=aes-256-cbc,integrity=hmac-md5,packet_bytes={SHORTEST}",
        ),
    ),
)
