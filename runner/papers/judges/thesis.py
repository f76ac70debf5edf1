"""What the thesis claims beyond a row: of TCP throughputs (bit/s), one over another."""

from collections.abc import Mapping, Sequence
from functools import partial

from runner.data.levels import BASELINE, TCP
from runner.papers import claims, variation
from runner.papers.cells import IPERFS_S, PLAIN, compressing
from runner.papers.claims import LESS, MORE, At, close
from runner.papers.conditions import link_bound
from runner.papers.findings import Blocks, Data, Judgement, NotMeasured
from runner.papers.orders import Orders, orders
from runner.papers.published import paper

SYSTEMS = ("ipsec", "openvpn", "ssh_forward", "ssh_tun")  # the thesis' four, IPsec that of the kernel
VPNS = (*SYSTEMS, claims.USERSPACE_ESP)  # measured beside them
FORWARD, TUN = "ssh_forward", "ssh_tun"
# What §6.2 names for others to evaluate, and what protects it (§2.2.4, §2.2.6): alone they do not encrypt.
FUTURE = {"gre": "GRE", "l2tp": "L2TP", "gre_ipsec": "GRE over IPsec", "l2tp_ipsec": "L2TP over IPsec"}
PROTECTED = {"gre_ipsec": "gre", "l2tp_ipsec": "l2tp"}
CIPHERS = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc", "blowfish-128-cbc")  # and 3DES, of which it says another thing
STATED = paper("thesis")
SWITCHES, BYTES = "context_switches_per_packet", "wire_bytes_per_payload_byte"
LOOKUPS = "route_lookups_per_packet"


def plain_cell(vpn: str, **levels: str) -> At:
    """The plain cell of a VPN, AES-128-CBC without compression over TCP, with ``levels`` of it changed."""
    return At(vpn, PLAIN | levels)


def encapsulation(data: Data) -> Judgement:
    """IPIP over plain IP on a link that limits plain IP: within 5 % of 1 (0.987 in the thesis, "insignificantly")."""
    link, published = link_bound(data), STATED["tcp.ipip"] / STATED["tcp.none"]
    tunnel, plain = At("ipip", TCP | link), At(BASELINE, TCP | link)
    return claims.ratio_of("tcp_throughput", tunnel, plain, close(0.05), published)(data)


def encryption(data: Data) -> Judgement:
    """On a link that limits plain IP: SSH forwarding, the thesis' fastest, over IPIP, which is what encryption leaves;
    over IPIP over plain IP, which is what encapsulation leaves (0.183 in the thesis)."""
    link = link_bound(data)
    levels = {FORWARD: PLAIN | link, "ipip": TCP | link, BASELINE: TCP | link}
    rates = {vpn: data.blocks("tcp_throughput", vpn, **of_vpn) for vpn, of_vpn in levels.items()}
    stated = {vpn: STATED[f"tcp.{vpn}"] for vpn in levels}
    published = (stated[FORWARD] / stated["ipip"]) / (stated["ipip"] / stated[BASELINE])
    return left_of(data, rates, FORWARD, published)


def left_of(data: Data, rates: Mapping[str, Blocks], vpn: str, published: float | None = None) -> Judgement:
    """What ``vpn`` leaves of IPIP's rate is less than what IPIP leaves of plain IP's: encryption costs more than
    encapsulation."""
    shared = set.intersection(*(set(blocks) for blocks in rates.values()))
    encrypted = {block: rates[vpn][block] / rates["ipip"][block] for block in shared}
    encapsulated = {block: rates["ipip"][block] / rates[BASELINE][block] for block in shared}
    return data.check_scale(claims.compare(encrypted, encapsulated, LESS, published), vpn, "ipip", BASELINE)


def order(vpn: str, data: Data) -> Orders:
    """The orders of the thesis' VPNs in all other tests, against that of the plain one, with TCP, AES-128 and no
    compression. The test with UDP is one of the others."""
    vpns = (vpn, *(system for system in SYSTEMS if system != claims.KERNEL_ESP))
    udp = {"measure": "udp", "cipher": "aes-128-cbc"}
    return orders(data, "tcp_throughput", vpns, PLAIN, {"udp_throughput": udp})


def same_order(vpn: str, data: Data) -> Judgement:
    """Almost every test: of all pairs in all other tests, 0.85 or more have the order of the plain one."""
    return order(vpn, data).share(data, (0.85, 1.0))


def same_in_every(vpn: str, data: Data) -> Judgement:
    """Every test: each pair has its order in each of them."""
    return order(vpn, data).every_pair(data)


def spread(data: Data) -> Judgement:
    """The coefficient of variation of TCP throughput, pooled over all tests, is no larger than the thesis' largest."""
    return variation.pooled_variation(data, "tcp_throughput", SYSTEMS, STATED["cov.highest"] / 100, IPERFS_S)


def alike_but_3des(vpn: str, data: Data) -> Judgement:
    """SSH forwarding over IPsec with each cipher: within 10 % of 1, but not with 3DES (§5.3: a significant difference,
    in a direction that the text does not say)."""
    pairs = {c: (plain_cell(FORWARD, cipher=c), plain_cell(vpn, cipher=c)) for c in (*CIPHERS, "3des-cbc")}
    ratios = {c: claims.ratio_of("tcp_throughput", *pair, close(0.1)) for c, pair in pairs.items()}

    unlike = claims.opposite(ratios["3des-cbc"](data))  # without 3DES it would be another claim
    parts = {cipher: partial(ratios[cipher], data) for cipher in CIPHERS}
    return claims.all_of({**parts, "3des-cbc": lambda: unlike})


def with_compression(vpn: str) -> dict[str, At]:
    """What the thesis measured of a VPN in its test of compression (§3.5.1, parameter 3), each with its words."""
    return {
        vpn: plain_cell(vpn),
        **{
            f"{vpn} compressing {payload}": plain_cell(vpn, compression=compressing(vpn, payload), payload=payload)
            for payload in ("zeros", "random")
        },
    }


def highest(data: Data) -> Judgement:
    """SSH forwarding that compresses zeros over everything else in the test of compression, itself without it too.

    Reproduced it needs the paper's IPsec; one that is above it contradicts, whatever else was measured."""
    cells = {name: at for system in SYSTEMS for name, at in with_compression(system).items()}
    first = cells.pop(f"{FORWARD} compressing zeros")
    pairs = {f"over {name}": (first, cell) for name, cell in cells.items()}
    judged = claims.all_ratios(data, "tcp_throughput", pairs, MORE)
    if judged.verdict != "not reproduced" and claims.KERNEL_ESP not in judged.systems:
        raise NotMeasured("the highest of all needs IPsec, which was not measured in this")
    return judged


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


def costliest(vpn: str, data: Data) -> Judgement:
    """IPsec over IPIP, over IPIP over plain IP, whatever limits plain IP."""
    levels = {"ipip": TCP, BASELINE: TCP, vpn: plain_cell(vpn).levels}
    return left_of(data, {name: data.blocks("tcp_throughput", name, **of_vpn) for name, of_vpn in levels.items()}, vpn)


def better(data: Data, other: str) -> Judgement:
    """TCP throughput of GRE or L2TP over IPsec over that of IPsec alone, with the same cipher: what it adds. Beside it
    is what GRE or L2TP carries alone, which encrypts nothing."""
    over = partial(claims.ratio_of, "tcp_throughput")
    bare = f"{FUTURE[PROTECTED[other]]} without encryption"
    return claims.judge_beside(
        partial(over(plain_cell(other), plain_cell("ipsec"), MORE), data),
        {bare: partial(over(plain_cell(PROTECTED[other]), plain_cell("ipsec"), MORE), data)},
    )


def extreme(data: Data, cipher: str, bound: Sequence[float]) -> Judgement:
    """TCP throughput with ``cipher`` over that with each other one, in each VPN that has it.

    The thesis prints the ends only: more than 230 Mbit/s with Blowfish, about 35 with 3DES."""

    def judge_of(*vpns: str) -> Judgement:
        return claims.extreme(data, "tcp_throughput", vpns, "cipher", cipher, PLAIN, (bound[0], bound[1]))

    return claims.judge_beside(partial(judge_of, *SYSTEMS), {claims.USERSPACE: partial(judge_of, claims.USERSPACE_ESP)})
