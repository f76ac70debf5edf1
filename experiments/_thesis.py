"""The judges of what the thesis found, for thesis.py: TCP throughputs (bit/s), one over another, and counts of cost."""

from functools import partial

from runner.data.levels import TCP
from runner.papers import findings
from runner.papers.findings import MORE, At, Data, Finding, Judgement, close
from runner.papers.published import paper

VPNS = ("ipsec", "ipsec_user", "openvpn", "ssh_forward", "ssh_tun")
PLAIN = TCP | {"cipher": "aes-128-cbc", "compression": "off"}
STATED = paper("thesis")


def tcp(name: str, where: str, found: str, a: At, b: At, between: tuple[float, float], unlike: str = "") -> Finding:
    """A ratio of two TCP throughputs, beside the thesis' own where its text has both."""
    stated = {value.id: value.value for value in STATED.values}
    theirs = [stated.get(f"tcp.{at.vpn}") if at.levels.items() >= PLAIN.items() else None for at in (a, b)]
    published = theirs[0] / theirs[1] if theirs[0] and theirs[1] and a.vpn != b.vpn else None

    def judge(vpn: str, data: Data) -> Judgement:
        first, second = (At(vpn, at.levels) if at.vpn == "ipsec" else at for at in (a, b))
        return findings.ratio_of("tcp_throughput", first, second, between, published, unlike)(data)

    about_ipsec = "ipsec" in (a.vpn, b.vpn)
    judged = findings.on_ipsec("tcp_throughput", judge) if about_ipsec else partial(judge, "")
    return Finding(name, "thesis", where, found, judged, "share" if unlike else "ratio")


def at(vpn: str, **levels: str) -> At:
    """The plain cell of a VPN, AES-128-CBC without compression over TCP, with ``levels`` of it changed."""
    return At(vpn, PLAIN | levels)


def tcp_is_udp(data: Data) -> Judgement:
    """UDP over TCP throughput within 15 % of 1, in each VPN. The thesis: 0.92 with IPsec (152 over 165 Mbit/s)."""

    def one(vpn: str) -> Judgement:
        udp = data.blocks("udp_throughput", vpn, measure="udp", cipher="aes-128-cbc")
        published = STATED["udp.ipsec"] / STATED["tcp.ipsec"] if vpn == "ipsec" else None
        return findings.compare(udp, data.blocks("tcp_throughput", vpn, **PLAIN), close(0.15), published)

    return findings.all_of({vpn: partial(one, vpn) for vpn in ("ipsec", "openvpn", "ssh_tun")})


def extreme(cipher: str, found: str, between: tuple[float, float]) -> Finding:
    """The finding about TCP throughput with ``cipher`` over that with each other one, in each VPN that has it.

    The thesis prints the ends only: more than 230 Mbit/s with Blowfish, about 35 with 3DES.
    """

    def judge(data: Data) -> Judgement:
        return findings.extreme(data, "tcp_throughput", VPNS, "cipher", cipher, PLAIN, between)

    return Finding(cipher, "thesis", "§5.3", found, judge)


def same_order(data: Data) -> Judgement:
    """Of all pairs of VPNs in all tests, 0.85 or more have the order that they have in the plain one."""
    return findings.single(findings.order_held(data, "tcp_throughput", VPNS, PLAIN), (0.85, 1.0))


def spread(data: Data) -> Judgement:
    """The largest coefficient of variation of TCP throughput is no larger than the thesis' largest."""
    return findings.bounded(*findings.largest_variation(data, "tcp_throughput"), STATED["cov.highest"] / 100)


def packed(vpn: str, payload: str, between: tuple[float, float], found: str) -> Finding:
    """The finding about TCP throughput with compression of ``payload`` over that without, which sends random data."""
    where = "§5.4, figures 20 and 21 as the text explains them"
    return tcp(f"packed-{vpn}-{payload}", where, found, at(vpn, compression="on", payload=payload), at(vpn), between)


def costs(metric: str, a: str, b: str, found: str) -> Finding:
    """The finding that ``a`` has more of ``metric``, a count, than ``b``."""
    return Finding(f"{metric}-{a}", "thesis", "§5.5", found, findings.ratio_of(metric, at(a), at(b), MORE), "count")
