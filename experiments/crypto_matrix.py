"""Every encryption × integrity × key length of IPsec that this kernel and this strongSwan offer, and packet lengths."""

from collections.abc import Mapping

from runner import findings
from runner.experiment import DUPLEX, LEVELS, Experiment, Profile
from runner.findings import LESS, MORE, At, Data, Finding, Judgement, close, ratio_of
from runner.plugin import AEAD, UNENCRYPTED, Vpn
from runner.published import paper
from vpns._esp import CIPHERS, INTEGRITIES

STATED, RATE = paper("router"), "packet_rate_both_ways"
CBC, GCM, CHACHA = "aes-128-cbc", "aes-128-gcm", "chacha20-poly1305"
SEPARATE = ("camellia-128-cbc", "blowfish-128-cbc", "cast-128-cbc", "3des-cbc")
STAR = (CBC, "aes-256-cbc", *SEPARATE, "null", "aes-128-ctr", GCM, "aes-256-gcm", "aes-128-ccm", "aes-128-gmac", CHACHA)
SMALLEST = ((CBC, "hmac-sha256"), (GCM, "aead"), ("aes-128-gmac", "aead"))
DRIVEN = (*SMALLEST[:2], (CHACHA, "aead"))  # measured with each driver of the cipher


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """All of it takes hours. The quick profile measures a star: a cipher with every integrity, the others with one."""
    cipher, integrity, length = params["cipher"], params["integrity"], params["packet_bytes"]
    if "driver" in params:
        return (cipher, integrity) in DRIVEN and (profile.name == "thesis" or length == "1400")
    if profile.name == "smallest":
        return length in ("64", "1500") and (cipher == "none" or (cipher, integrity) in SMALLEST)
    centre = cipher in (*STAR, "none") and integrity in ("hmac-sha256", "aead", "none")
    few = cipher == "none" or (cipher, integrity) in DRIVEN if length == "1500" else centre or cipher == CBC
    return profile.name == "thesis" or (few and length in ("64", "1400", "1500"))


def at(vpn: str, cipher: str, length: str = "64", integrity: str = "hmac-sha256") -> At:
    return At(vpn, {"cipher": cipher, "integrity": "aead" if cipher in AEAD else integrity, "packet_bytes": length})


def each(name: str, found: str, judge: findings.Judge, basis: findings.Basis = "ratio") -> Finding:
    return Finding(name, "router", "§VI", found, findings.on_ipsec(RATE, judge), basis)


def against(data: Data, pairs: Mapping[str, tuple[At, At]], between: tuple[float, float] = MORE) -> Judgement:
    return findings.all_ratios(data, RATE, pairs, between)


def fastest(vpn: str, data: Data) -> Judgement:
    others = [c for c in data.levels("cipher", vpn) if c not in UNENCRYPTED and "gcm" not in c] or [CBC]
    return against(data, {cipher: (at(vpn, GCM), at(vpn, cipher)) for cipher in others})


def aes_fastest(vpn: str, data: Data) -> Judgement:
    return against(data, {cipher: (at(vpn, CBC), at(vpn, cipher)) for cipher in SEPARATE})


def key_length(vpn: str, data: Data) -> Judgement:
    pairs = {long: (at(vpn, long), at(vpn, long.replace("256", "128"))) for long in ("aes-256-cbc", "aes-256-gcm")}
    return against(data, pairs, close(0.1))


def md5(vpn: str, data: Data) -> Judgement:
    cheap = at(vpn, CBC, integrity="hmac-md5")
    return against(data, {sha: (cheap, at(vpn, CBC, integrity=sha)) for sha in ("hmac-sha1", "hmac-sha512")})


kernel = ratio_of(RATE, at("ipsec", GCM), at("ipsec_user", GCM), MORE)


def instructions(vpn: str, data: Data) -> Judgement:
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
    between = ((times := STATED["fragmentation.step"]) / 1.05, times * 1.05)
    return ratio_of("wan_packets_per_packet", at(vpn, CBC, "1500"), at(vpn, CBC, "1400"), between, times)(data)


def share(data: Data) -> Judgement:
    said = "another generator offers another load: shown beside each other, without a verdict"
    found = next((vpn for vpn in findings.IPSEC if vpn in data.vpns(RATE)), findings.IPSEC[0])
    measured = findings.single(data.blocks("forwarded_share", found, **at(found, GCM).levels), LESS)
    theirs = STATED["gcm.a.share"] / 100
    return measured.model_copy(update={"verdict": "not comparable", "reason": said, "published": theirs})


EXPERIMENT = Experiment(
    name="crypto_matrix",
    question="Which combination of encryption and integrity lets IPsec forward the most packets, at which length?",
    method="Every combination that strongSwan and the kernel take, each asked for live; UDP packets of one length both "
    "ways at once, by a search of 3 s (warm 2 s) for the highest rate with at most 1 % loss, and the share forwarded "
    "of 1 Gbit/s offered each way; three ciphers also with each driver: with the CPU's instructions, and without.",
    source="the router paper §VI, figures 6 to 11; RFC 8221 §5",
    metrics=(RATE, "forwarded_share", "wan_packets_per_packet"),
    traffic=(DUPLEX, DUPLEX | {"driver": "generic"}),
    vary={"cipher": tuple(CIPHERS), "integrity": tuple(INTEGRITIES)},
    vary_traffic={"packet_bytes": LEVELS["packet_bytes"], "driver": LEVELS["driver"]},
    only=("none", *findings.IPSEC),
    keep=("cipher", "integrity", "packet_bytes"),
    wanted=wanted,
    findings=(
        each("gcm-fastest", "AES-GCM is the fastest", fastest),
        each("aes-fastest", "of the ciphers with a separate integrity, AES is the fastest", aes_fastest),
        each("instructions", "the CPU's AES instructions are why AES is fast", instructions),
        each("key-length", "the length of the key hardly matters", key_length),
        each("md5", "MD5 is cheaper than SHA", md5),
        each("chacha-decline", "ChaCha20 falls more slowly with the packet's length than AES", decline),
        each("fragments", "the packet rate on the WAN doubles at 1500 bytes", step, "count"),
        Finding("kernel", "router", "§I", "IPsec in the kernel is faster than in userspace", kernel),
        Finding("share", "router", "§VI", "AES-GCM forwards 10.8 % of the load (configuration A)", share, "share"),
    ),
)
