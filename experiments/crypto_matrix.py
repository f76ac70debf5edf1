"""Every encryption × integrity × key length of IPsec that this kernel and this strongSwan offer, and packet lengths."""

from collections.abc import Mapping
from functools import partial

from runner import findings
from runner.experiment import DUPLEX, LEVELS, Experiment, Profile
from runner.findings import LESS, MORE, At, Data, Finding, Judgement, close, ratio_of
from runner.plugin import AEAD, UNENCRYPTED, Vpn
from runner.published import paper
from vpns._esp import CIPHERS, INTEGRITIES

STATED = paper("router")
RATE = "packet_rate_both_ways"
CBC, GCM, CHACHA = "aes-128-cbc", "aes-128-gcm", "chacha20-poly1305"
PLANES = ("ipsec", "ipsec_user")
SEPARATE = ("camellia-128-cbc", "blowfish-128-cbc", "cast-128-cbc", "3des-cbc")
STAR = (CBC, "aes-256-cbc", *SEPARATE, "null", "aes-128-ctr", GCM, "aes-256-gcm", "aes-128-ccm", "aes-128-gmac", CHACHA)
SMALLEST = ((CBC, "hmac-sha256"), (GCM, "aead"), ("aes-128-gmac", "aead"))


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """All of it takes hours. The quick profile measures a star: a cipher with every integrity, the others with one."""
    cipher, integrity, length = params["cipher"], params["integrity"], params["packet_bytes"]
    if profile.name == "thesis":
        return True
    if profile.name == "smallest":
        return length in ("64", "1500") and (cipher == "none" or (cipher, integrity) in SMALLEST)
    centre = cipher in STAR and integrity in ("hmac-sha256", "aead")
    return length in ("64", "1400", "1500") and (centre or cipher in ("none", CBC))


def at(vpn: str, cipher: str, length: str = "64", integrity: str = "hmac-sha256") -> At:
    return At(vpn, {"cipher": cipher, "integrity": "aead" if cipher in AEAD else integrity, "packet_bytes": length})


def either(judge: findings.Judge, data: Data) -> Judgement:
    planes = [vpn for vpn in PLANES if vpn in data.vpns(RATE)] or ["ipsec"]
    return findings.all_of({vpn: partial(judge, vpn, data) for vpn in planes})


def each(name: str, found: str, judge: findings.Judge) -> Finding:
    return Finding(name, "router", "§VI", found, partial(either, judge))


def against(data: Data, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float] = MORE) -> Judgement:
    return findings.all_of({name: partial(ratio_of(RATE, a, b, between), data) for name, (a, b) in pairs.items()})


def fastest(vpn: str, data: Data) -> Judgement:
    others = [c for c in data.levels("cipher", vpn) if c not in UNENCRYPTED and "gcm" not in c] or [CBC]
    return against(data, {cipher: (at(vpn, GCM), at(vpn, cipher)) for cipher in others})


def aes_fastest(vpn: str, data: Data) -> Judgement:
    return against(data, {cipher: (at(vpn, CBC), at(vpn, cipher)) for cipher in SEPARATE})


def key_length(vpn: str, data: Data) -> Judgement:
    pairs = {long: (at(vpn, long), at(vpn, long.replace("256", "128"))) for long in ("aes-256-cbc", "aes-256-gcm")}
    return against(data, pairs, close(0.1))


def md5(vpn: str, data: Data) -> Judgement:
    cell = partial(at, vpn, CBC, "64")
    return against(data, {sha: (cell("hmac-md5"), cell(sha)) for sha in ("hmac-sha1", "hmac-sha512")})


def decline(vpn: str, data: Data) -> Judgement:
    """Rate at 1400 bytes over that at 64: ChaCha20's over that of AES with its HMAC."""

    def kept(cipher: str) -> findings.Blocks:
        short, long = (at(vpn, cipher, length) for length in ("64", "1400"))
        few, many = data.blocks(RATE, vpn, **long.levels), data.blocks(RATE, vpn, **short.levels)
        return {block: few[block] / many[block] for block in few.keys() & many.keys()}

    return findings.compare(kept(CHACHA), kept(CBC), MORE)


def step(vpn: str, data: Data) -> Judgement:
    between = ((times := STATED["fragmentation.step"]) / 1.05, times * 1.05)
    return ratio_of("wan_packets_per_packet", at(vpn, CBC, "1500"), at(vpn, CBC, "1400"), between, times)(data)


def share(data: Data) -> Judgement:
    said = "another generator offers another load: shown beside each other, without a verdict"
    found = next((vpn for vpn in PLANES if vpn in data.vpns(RATE)), PLANES[0])
    measured = findings.single(data.blocks("forwarded_share", found, **at(found, GCM).levels), LESS)
    theirs = STATED["gcm.a.share"] / 100
    return measured.model_copy(update={"verdict": "not comparable", "reason": said, "published": theirs})


EXPERIMENT = Experiment(
    name="crypto_matrix",
    question="Which combination of encryption and integrity lets IPsec forward the most packets, at which length?",
    method="Every combination that strongSwan and the kernel take, each asked for live; UDP packets of one length both "
    "ways at once, by a search of 3 s (warm 2 s) for the highest rate with at most 1 % loss, and the share "
    "forwarded of 1 Gbit/s offered each way. At 1500 bytes packet and encapsulation exceed the WAN's MTU.",
    source="the router paper §VI, figures 6 to 11; RFC 8221 §5",
    metrics=(RATE, "forwarded_share", "wan_packets_per_packet"),
    traffic=(DUPLEX,),
    vary={"cipher": tuple(CIPHERS), "integrity": tuple(INTEGRITIES)},
    vary_traffic={"packet_bytes": LEVELS["packet_bytes"]},
    only=("none", *PLANES),
    keep=("cipher", "integrity", "packet_bytes"),
    wanted=wanted,
    findings=(
        each("gcm-fastest", "AES-GCM is the fastest", fastest),
        each("aes-fastest", "of the ciphers with a separate integrity, AES is the fastest", aes_fastest),
        each("key-length", "the length of the key hardly matters", key_length),
        each("md5", "MD5 is cheaper than SHA", md5),
        each("chacha-decline", "ChaCha20 falls more slowly with the packet's length than AES", decline),
        each("fragments", "the packet rate on the WAN doubles at 1500 bytes", step),
        Finding(
            *("kernel", "router", "§I", "IPsec in the kernel is faster than in userspace"),
            ratio_of(RATE, at("ipsec", GCM), at("ipsec_user", GCM), MORE),
        ),
        Finding("share", "router", "§VI", "AES-GCM forwards 10.8 % of what is offered (configuration A)", share),
    ),
)
