"""What the thesis found, and its judges: TCP throughputs (bit/s), one over another, and counts of cost."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations

from runner.data.levels import TCP
from runner.papers import claims, variation
from runner.papers.claims import LESS, MORE, At, close
from runner.papers.conditions import by_one_driver, link_bound
from runner.papers.findings import Blocks, Data, Finding, Judgement, NotMeasured
from runner.papers.published import paper

SYSTEMS = ("ipsec", "openvpn", "ssh_forward", "ssh_tun")  # the thesis' four, IPsec that of the kernel
VPNS = (*SYSTEMS, claims.USERSPACE_ESP)  # measured beside them
FORWARD, TUN = "ssh_forward", "ssh_tun"
FUTURE = {  # what §6.2 names for others to evaluate; §2.2.4 and §2.2.6 let IPsec protect them
    "gre": "GRE, which does not encrypt,",
    "l2tp": "L2TP, which does not encrypt,",
    "gre_ipsec": "GRE over IPsec",
    "l2tp_ipsec": "L2TP over IPsec",
}
CIPHERS = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "blowfish-128-cbc")  # and 3DES, of which it says another thing
USUAL_INTEGRITY = "hmac-sha256"  # that all VPNs are compared at; the thesis states none
PLAIN = TCP | {"cipher": "aes-128-cbc", "compression": "off"}
PLAIN_TCP = "cipher=aes-128-cbc,compression=off,payload=random,measure=tcp"  # the same for --set
STATED = paper("thesis")
IPERFS_S = 10  # how long a test of iPerf takes unless told otherwise, and the thesis tells of nothing else
SWITCHES, BYTES = "context_switches_per_packet", "wire_bytes_per_payload_byte"
VIRTUAL = ("openvpn", TUN)  # of the four, those with a virtual interface
LOOKUPS = "route_lookups_per_packet"


def compressing(vpn: str, payload: str) -> str:
    """The level of compression by which a VPN's test with this payload is judged: on. OpenVPN's LZO that adapts, its
    default then, is how §5.4 explains the result with compressed data. Zeros are judged with LZO always on: they take
    turns with random data in one tunnel, after which LZO that adapts leaves off for a minute."""
    return "adaptive" if (vpn, payload) == ("openvpn", "random") else "on"


def tcp(name: str, where: str, claim: str, a: At, b: At, between: tuple[float, float]) -> Finding:
    """A ratio of two TCP throughputs, beside the thesis' own where its text has both."""
    stated = {value.id: value.value for value in STATED.values}
    theirs = [stated.get(f"tcp.{at.vpn}") if at.levels.items() >= PLAIN.items() else None for at in (a, b)]
    published = theirs[0] / theirs[1] if theirs[0] and theirs[1] and a.vpn != b.vpn else None

    def judge(vpn: str, data: Data) -> Judgement:
        first, second = (At(vpn, at.levels) if at.vpn == "ipsec" else at for at in (a, b))
        return claims.ratio_of("tcp_throughput", first, second, between, published)(data)

    judged = claims.on_ipsec(judge) if "ipsec" in (a.vpn, b.vpn) else partial(judge, "")
    return Finding(name, "thesis", where, claim, judged if a.vpn == b.vpn else by_one_driver(judged))


def at(vpn: str, **levels: str) -> At:
    """The plain cell of a VPN, AES-128-CBC without compression over TCP, with ``levels`` of it changed."""
    return At(vpn, PLAIN | levels)


def encapsulation(data: Data) -> Judgement:
    """IPIP over plain IP on a link that limits plain IP: within 5 % of 1 (0.987 in the thesis, "insignificantly")."""
    link, published = link_bound(data), STATED["tcp.ipip"] / STATED["tcp.none"]
    tunnel, plain = At("ipip", TCP | link), At(claims.BASELINE, TCP | link)
    return claims.ratio_of("tcp_throughput", tunnel, plain, close(0.05), published)(data)


def encryption(data: Data) -> Judgement:
    """On a link that limits plain IP: SSH forwarding, the thesis' fastest, over IPIP, which is what encryption leaves;
    over IPIP over plain IP, which is what encapsulation leaves (0.183 in the thesis)."""
    link = link_bound(data)
    levels = {FORWARD: PLAIN | link, "ipip": TCP | link, claims.BASELINE: TCP | link}
    rates = {vpn: data.blocks("tcp_throughput", vpn, **of_vpn) for vpn, of_vpn in levels.items()}
    stated = {vpn: STATED[f"tcp.{vpn}"] for vpn in levels}
    published = (stated[FORWARD] / stated["ipip"]) / (stated["ipip"] / stated[claims.BASELINE])
    return left_of(rates, FORWARD, published)


def left_of(rates: Mapping[str, Blocks], vpn: str, published: float | None = None) -> Judgement:
    """What ``vpn`` leaves of IPIP's rate is less than what IPIP leaves of plain IP's: encryption costs more than
    encapsulation."""
    shared = set.intersection(*(set(blocks) for blocks in rates.values()))
    encrypted = {block: rates[vpn][block] / rates["ipip"][block] for block in shared}
    encapsulated = {block: rates["ipip"][block] / rates[claims.BASELINE][block] for block in shared}
    return claims.compare(encrypted, encapsulated, LESS, published).of(vpn, "ipip", claims.BASELINE)


def tcp_is_udp(data: Data) -> Judgement:
    """UDP over TCP throughput within 15 % of 1, in each VPN. The thesis: 0.92 with IPsec (152 over 165 Mbit/s)."""

    def one(vpn: str) -> Judgement:
        udp = data.blocks("udp_throughput", vpn, measure="udp", cipher="aes-128-cbc")
        published = STATED["udp.ipsec"] / STATED["tcp.ipsec"] if vpn == "ipsec" else None
        return claims.compare(udp, data.blocks("tcp_throughput", vpn, **PLAIN), close(0.15), published).of(vpn)

    return claims.all_of({vpn: partial(one, vpn) for vpn in ("ipsec", "openvpn", "ssh_tun")})


def extreme(cipher: str, claim: str, between: tuple[float, float]) -> Finding:
    """The finding about TCP throughput with ``cipher`` over that with each other one, in each VPN that has it.

    The thesis prints the ends only: more than 230 Mbit/s with Blowfish, about 35 with 3DES.
    """

    def judge(vpns: tuple[str, ...], data: Data) -> Judgement:
        return claims.extreme(data, "tcp_throughput", vpns, "cipher", cipher, PLAIN, between)

    def judged(data: Data) -> Judgement:
        user = claims.USERSPACE_ESP
        return claims.beside(partial(judge, SYSTEMS, data), {claims.USERSPACE: partial(judge, (user,), data)})

    return Finding(cipher, "thesis", "§5.3", claim, judged)


def same_order(vpn: str, data: Data) -> Judgement:
    """Of all pairs of the thesis' VPNs in all other tests, 0.85 or more have the order that they have in the plain
    one, the test with TCP, AES-128 and no compression. The test with UDP is one of the others."""
    vpns = (vpn, *(system for system in SYSTEMS if system != claims.KERNEL_ESP))
    udp = {"measure": "udp", "cipher": "aes-128-cbc"}
    held = claims.order_held(data, "tcp_throughput", vpns, PLAIN, {"udp_throughput": udp})
    return claims.single(held, (0.85, 1.0)).of(*claims.measured_of(data, "tcp_throughput", vpns))


def spread(data: Data) -> Judgement:
    """The coefficient of variation of TCP throughput, pooled over all tests, is no larger than the thesis' largest."""
    return variation.pooled_variation(data, "tcp_throughput", SYSTEMS, STATED["cov.highest"] / 100, IPERFS_S)


def alike_but_3des(vpn: str, data: Data) -> Judgement:
    """SSH forwarding over IPsec with each cipher: within 10 % of 1, but not with 3DES (§5.3: a significant difference,
    in a direction that the text does not say)."""
    pairs = {c: (at(FORWARD, cipher=c), at(vpn, cipher=c)) for c in (*CIPHERS, "3des-cbc")}
    ratios = {c: claims.ratio_of("tcp_throughput", *pair, close(0.1)) for c, pair in pairs.items()}

    unlike = claims.opposite(ratios["3des-cbc"](data))  # without 3DES it would be another claim
    parts = {cipher: partial(ratios[cipher], data) for cipher in CIPHERS}
    return claims.all_of({**parts, "3des-cbc": lambda: unlike})


def effective(vpn: str, data: Data) -> Judgement:
    """IPsec and SSH forwarding, each over OpenVPN and over SSH with a TUN, at AES-128."""
    pairs = {f"{a} over {b}": (at(a), at(b)) for a in (vpn, FORWARD) for b in ("openvpn", TUN)}
    return claims.all_ratios(data, "tcp_throughput", pairs, MORE)


def with_compression(vpn: str) -> dict[str, At]:
    """What the thesis measured of a VPN in its test of compression (§3.5.1, parameter 3), each with its words."""
    return {
        vpn: at(vpn),
        **{
            f"{vpn} compressing {payload}": at(vpn, compression=compressing(vpn, payload), payload=payload)
            for payload in ("zeros", "random")
        },
    }


def highest(vpn: str, data: Data) -> Judgement:
    """SSH forwarding that compresses zeros over everything else in the test of compression, itself without it too."""
    cells = {name: cell for system in (vpn, "openvpn", FORWARD, TUN) for name, cell in with_compression(system).items()}
    first = cells.pop(f"{FORWARD} compressing zeros")
    return claims.all_ratios(
        data, "tcp_throughput", {f"over {name}": (first, cell) for name, cell in cells.items()}, MORE
    )


def next_highest(vpn: str, data: Data) -> Judgement:
    """IPsec without compression below SSH forwarding that compresses zeros, and over all other VPNs and itself.

    Without compression, SSH forwarding is above it in the thesis itself (167.6 to 165 Mbit/s): it is no part of this.
    """
    cells = {name: cell for system in (vpn, "openvpn", TUN) for name, cell in with_compression(system).items()}
    second, first = cells.pop(vpn), with_compression(FORWARD)[f"{FORWARD} compressing zeros"]
    data.blocks("tcp_throughput", FORWARD, **first.levels)  # without what is the highest, it would be another claim
    pairs = {f"{FORWARD} compressing zeros over {vpn}": (first, second)}
    pairs |= {f"{vpn} over {name}": (second, cell) for name, cell in cells.items()}
    return claims.all_ratios(data, "tcp_throughput", pairs, MORE)


def differs(pairs: Mapping[str, tuple[At, At]], data: Data) -> Judgement:
    """The claim that the throughputs of one of ``pairs`` differ by more than 10 %, whichever is the higher."""
    return claims.opposite(claims.all_ratios(data, "tcp_throughput", pairs, close(0.1)))


def technologies() -> dict[str, tuple[At, At]]:
    """Each two of the four, at AES-128 without compression."""
    return {f"{a} to {b}": (at(a), at(b)) for a, b in combinations(SYSTEMS, 2)}


def encryptions() -> dict[str, tuple[At, At]]:
    """In each of the four, each other cipher and AES-128."""
    others = [cipher for cipher in (*CIPHERS, "3des-cbc") if cipher != PLAIN["cipher"]]
    return {f"{vpn}, {cipher}": (at(vpn, cipher=cipher), at(vpn)) for vpn in SYSTEMS for cipher in others}


def kinds_of_data() -> dict[str, tuple[At, At]]:
    """In each of the four with compression, zeros and data that cannot be compressed."""
    tests = {vpn: with_compression(vpn) for vpn in SYSTEMS}
    return {
        vpn: (cells[f"{vpn} compressing zeros"], cells[f"{vpn} compressing random"]) for vpn, cells in tests.items()
    }


def costliest(vpn: str, data: Data) -> Judgement:
    """IPsec over IPIP, over IPIP over plain IP, whatever limits plain IP."""
    levels = {"ipip": TCP, claims.BASELINE: TCP, vpn: at(vpn).levels}
    return left_of({name: data.blocks("tcp_throughput", name, **of_vpn) for name, of_vpn in levels.items()}, vpn)


def more_efficient(other: str, data: Data) -> Judgement:
    """TCP throughput of ``other`` over that of each of the thesis' four at AES-128. GRE and L2TP themselves encrypt
    nothing; over IPsec they use the same cipher."""
    pairs = {f"{other} over {vpn}": (at(other), at(vpn)) for vpn in SYSTEMS}
    judgement = claims.all_ratios(data, "tcp_throughput", pairs, MORE)
    if missing := [vpn for vpn in SYSTEMS if vpn not in judgement.systems]:
        raise NotMeasured(f"not measured beside {other}: {', '.join(missing)}")
    return judgement


def blind(data: Data) -> Judgement:
    """TCP throughput of random data with compression over that without: not above 1, in each VPN that compresses."""
    pairs = {vpn: (at(vpn, compression="on"), at(vpn)) for vpn in SYSTEMS}
    return claims.all_ratios(data, "tcp_throughput", pairs, (0.0, 1.1))


def packed(vpn: str, payload: str, between: tuple[float, float], claim: str) -> Finding:
    """The finding about TCP throughput with compression of ``payload`` over that without, which sends random data."""
    where = "§5.4, figures 20 and 21 as the text explains them"
    packing = at(vpn, compression=compressing(vpn, payload), payload=payload)
    return tcp(f"packed-{vpn}-{payload}", where, claim, packing, at(vpn), between)


def at_one_integrity(judge: Callable[[Data], Judgement], data: Data) -> Judgement:
    """The finding at HMAC-SHA-256 where a run has several integrities; at the run's own where it has one."""
    several = len({*data.levels("integrity")} - {"none", "aead"}) > 1
    trials = [trial for trial in data.trials if trial.params.get("integrity") in ("none", "aead", USUAL_INTEGRITY)]
    return judge(replace(data, trials=trials) if several else data)


def integrity_matters(data: Data) -> Judgement:
    """TCP throughput at HMAC-SHA-1 over that at HMAC-SHA-256, in each of the four: not within 10 % of 1 in all."""
    pairs = {vpn: (at(vpn, integrity="hmac-sha1"), at(vpn, integrity=USUAL_INTEGRITY)) for vpn in SYSTEMS}
    return claims.opposite(claims.all_ratios(data, "tcp_throughput", pairs, close(0.1)))


def more_lookups(vpn: str, data: Data) -> Judgement:
    """Route lookups of the near gateway per packet, OpenVPN's and those of SSH with a TUN over IPsec's. The thesis: 3
    over 2."""
    levels = {"measure": "lookups", "cipher": PLAIN["cipher"], "compression": "off"}
    published = STATED["lookups.virtual_interface"] / STATED["lookups.ipsec"]
    over = {other: claims.ratio_of(LOOKUPS, At(other, levels), At(vpn, levels), MORE, published) for other in VIRTUAL}
    return claims.all_of({f"{other} over {vpn}": partial(judge, data) for other, judge in over.items()})


def about_ipsec(name: str, where: str, claim: str, judge: claims.Judge) -> Finding:
    """A finding of the thesis about IPsec and others."""
    return Finding(name, "thesis", where, claim, by_one_driver(claims.on_ipsec(judge)))


def costs(metric: str, a: str, b: str, claim: str) -> Finding:
    """The finding that ``a`` has more of ``metric``, a count, than ``b``."""
    return Finding(f"{metric}-{a}", "thesis", "§5.5", claim, claims.ratio_of(metric, at(a), at(b), MORE), "count")


FINDINGS = (
    Finding("ipip", "thesis", "§4.1, §5.1", "IPIP costs next to nothing", encapsulation),
    Finding("encryption", "thesis", "§4.1, §5.1", "encryption costs most", encryption),
    tcp("forward", "§4.2", "SSH forwarding is as fast as IPsec", at("ssh_forward"), at("ipsec"), close(0.1)),
    tcp("ipsec-tun", "§4.2", "IPsec is faster than SSH with a TUN", at("ipsec"), at("ssh_tun"), MORE),
    tcp("forward-tun", "§4.2", "SSH forwarding is faster than a TUN", at("ssh_forward"), at("ssh_tun"), MORE),
    tcp("tun-openvpn", "§4.2", "SSH with a TUN is faster than OpenVPN", at("ssh_tun"), at("openvpn"), MORE),
    Finding("tcp-udp", "thesis", "§5.2", "UDP and TCP throughput are close, in every VPN", tcp_is_udp),
    extreme("blowfish-128-cbc", "Blowfish is the fastest cipher", MORE),
    extreme("3des-cbc", "3DES is the slowest cipher", LESS),
    about_ipsec("same-order", "Abstract", "the VPNs have the same order in almost every test", same_order),
    packed("openvpn", "zeros", MORE, "OpenVPN gains by compression"),
    packed("ssh_forward", "zeros", MORE, "SSH port forwarding gains by compression"),
    packed("ipsec", "zeros", LESS, "IPsec loses by compression"),
    packed("ssh_tun", "zeros", LESS, "SSH with a TUN loses by compression"),
    *(packed(vpn, "random", LESS, f"compressed data costs {vpn}") for vpn in ("ipsec", "ssh_tun", "ssh_forward")),
    packed("openvpn", "random", close(0.1), "compressed data costs OpenVPN's adaptive LZO nothing"),
    about_ipsec("alike-but-3des", "§5.3", "IPsec and SSH forwarding are alike but for 3DES", alike_but_3des),
    about_ipsec("effective", "Abstract", "IPsec and SSH forwarding are the effective ones of the four", effective),
    about_ipsec("highest", "§6.1", "SSH port forwarding with compression has the highest throughput of all", highest),
    about_ipsec("next-highest", "§6.1", "IPsec without compression has the next highest throughput", next_highest),
    *(
        Finding(f"depends-{name}", "thesis", "Abstract", f"throughput depends on {what}", judge)
        for name, what, judge in (
            ("technology", "the VPN's technology", by_one_driver(partial(differs, technologies()))),
            ("encryption", "the encryption", partial(differs, encryptions())),
            ("data", "the kind of data, where a VPN compresses", partial(differs, kinds_of_data())),
        )
    ),
    about_ipsec("costliest", "§6.2", "encryption costs IPsec more throughput than encapsulation", costliest),
    *(
        Finding(
            *(other, "thesis", "§6.2", f"open question: is {what} better? Here: faster than each of its four VPNs"),
            by_one_driver(partial(more_efficient, other)),
            question=True,
        )
        for other, what in FUTURE.items()
    ),
    Finding("blind", "oslv", "Overhead", "compression of what cannot be compressed gains nothing", blind),
    Finding("spread", "thesis", "§4, Appendix", "the coefficient of variation is at most 9 %", spread),
    costs(SWITCHES, "openvpn", "ipsec", "OpenVPN switches between kernel and user space, and IPsec does not"),
    Finding(
        *(f"{SWITCHES}-ssh_tun", "thesis", "§5.5"),
        "our question: does a virtual interface cost context switches?",
        claims.ratio_of(SWITCHES, at(TUN), at(FORWARD), MORE),
        "count",
        question=True,
    ),
    Finding(
        *("lookups", "thesis", "§5.5", "a virtual interface costs a route lookup more than IPsec"),
        claims.on_ipsec(more_lookups, "it has a virtual interface itself"),
        "count",
    ),
    costs(BYTES, "ipsec", "ssh_forward", "IPsec carries more bytes than SSH forwarding"),
)
INTEGRITY = Finding(
    *("integrity", "thesis", "§3.5.1"),
    "our question: SHA-1 instead of SHA-256, where the text states no integrity, changes a throughput by a tenth",
    integrity_matters,
    question=True,
)
FINDINGS = (*(replace(each, judge=partial(at_one_integrity, each.judge)) for each in FINDINGS), INTEGRITY)
RUNS = {
    "": "thesis --kernel uml --vpn ipip,ipsec,openvpn,ssh_forward,ssh_tun --set driver=generic",
    **dict.fromkeys(
        ("ipip", "encryption"),
        "thesis --kernel uml --vpn ipip,ssh_forward --set measure=tcp,wan_rate_bps=1000000000,"
        "cipher=aes-128-cbc,compression=off",
    ),
    INTEGRITY.id: f"thesis --vpn openvpn,ssh_forward,ssh_tun --set {PLAIN_TCP},integrity=hmac-sha1,"
    f"integrity={USUAL_INTEGRITY}",
    "lookups": "thesis --kernel qemu --vpn ipsec,openvpn,ssh_tun --set measure=lookups",
    "costliest": "thesis --kernel uml --vpn ipip,ipsec",
    **dict.fromkeys(
        FUTURE,
        "thesis --kernel uml --vpn gre,gre_ipsec,l2tp,l2tp_ipsec,ipsec,openvpn,ssh_forward,ssh_tun "
        f"--set driver=generic,{PLAIN_TCP}",
    ),
}
TODAY = {
    ("blowfish-128-cbc", "openvpn against aes"): "CPUs have instructions for AES now, and none for Blowfish",
    ("blowfish-128-cbc", "ipsec against aes"): "the kernel's AES is faster than its Blowfish without instructions, too",
    ("packed-ssh_forward-zeros", ""): "zlib costs more CPU than AES by the CPU's instructions",
    ("highest", "over ssh_forward:"): "without compression it is faster: zlib costs more CPU than AES",
    (
        "next-highest",
        "ipsec over ipsec compressing zeros:",
    ): "IPsec is faster where it compresses zeros: there is less to encrypt",
    ("tcp-udp", "openvpn:"): "likely, because TCP's acknowledgements cost CPU in the tunnel, too",
}
_ZEROS = "TCP throughput of zeros with compression is {} times that without compression"
_RANDOM = "TCP throughput of random data with compression is {} times that without compression"
COUNTS = {
    "ipip": "TCP throughput through IPIP is {} times that of plain IP",
    "encryption": "what SSH forwarding leaves of IPIP's TCP throughput is {} times what IPIP leaves of plain IP's",
    "forward": "TCP throughput of SSH forwarding is {} times that of IPsec",
    "ipsec-tun": "TCP throughput of IPsec is {} times that of SSH with a TUN",
    "forward-tun": "TCP throughput of SSH forwarding is {} times that of SSH with a TUN",
    "tun-openvpn": "TCP throughput of SSH with a TUN is {} times that of OpenVPN",
    "tcp-udp": "UDP throughput is {} times TCP throughput",
    "blowfish-128-cbc": "TCP throughput with Blowfish is {} times that with another cipher",
    "3des-cbc": "TCP throughput with 3DES is {} times that with another cipher",
    "same-order": "of the pairs that the plain test tells apart, a share of {} has its order in the other tests",
    **{f"packed-{vpn}-zeros": _ZEROS for vpn in ("openvpn", "ssh_forward", "ipsec", "ssh_tun")},
    **{f"packed-{vpn}-random": _RANDOM for vpn in ("openvpn", "ssh_forward", "ipsec", "ssh_tun")},
    "alike-but-3des": "TCP throughput of SSH forwarding is {} times that of IPsec",
    "effective": "one VPN's TCP throughput is {} times the other's",
    "highest": "TCP throughput of SSH forwarding that compresses zeros is {} times another one",
    "next-highest": "one TCP throughput is {} times the other",
    "depends-technology": "one VPN's TCP throughput is {} times the other's",
    "depends-encryption": "TCP throughput with the cipher is {} times that with AES-128",
    "depends-data": "TCP throughput of zeros is {} times that of random data",
    "costliest": "what IPsec leaves of IPIP's TCP throughput is {} times what IPIP leaves of plain IP's",
    "blind": "TCP throughput of random data with compression is {} times that without compression",
    "spread": "the coefficient of variation of TCP throughput, pooled, is {}",
    f"{SWITCHES}-openvpn": "OpenVPN makes {} times the context switches of IPsec, per packet",
    f"{SWITCHES}-ssh_tun": "SSH with a TUN makes {} times the context switches of SSH forwarding, per packet",
    **{other: f"TCP throughput of {what} is {{}} times that of the VPN" for other, what in FUTURE.items()},
    INTEGRITY.id: "TCP throughput with HMAC-SHA-1 is {} times that with HMAC-SHA-256",
    "lookups": "the VPN with a virtual interface looks up {} times the routes of IPsec, per packet",
    f"{BYTES}-ipsec": "IPsec sends {} times the bytes of SSH forwarding over the WAN, per byte carried",
}
