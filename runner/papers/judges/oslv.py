"""What the OSLV paper compares on a link of 100 Mbit/s: VPNs in UDP with those in TCP, and VPNs of one protocol."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from statistics import fmean

from runner.evidence.ties import in_order, ranks
from runner.papers import claims
from runner.papers.cells import LEAST_OVERHEAD_BYTES, LINK_BPS, TRAFFIC, metric_of
from runner.papers.claims import LESS, MORE, close
from runner.papers.conditions import unlike
from runner.papers.findings import Blocks, Bound, Data, Judgement, NotMeasured, by_repetition
from runner.papers.members import group_mean, group_ratio
from runner.papers.published import paper
from runner.papers.tables import HEIRS
from runner.vpn import closed_form

STATED = paper("oslv")
INNER_HEADERS_BYTES = closed_form.IPV4 + closed_form.UDP
# Their routers had 2 GHz and 400 MHz. A fifth of a CPU still fills the link today; a twentieth does not.
SLOW = {"gw2_cpu": "0.05"}
OLDER = (("3des-cbc", "hmac-sha1"), ("blowfish-128-cbc", "hmac-md5"))  # of the paper's ciphers and MACs
BARE = {"cipher": "null", "integrity": "none"}
TOLERANCE = 1.2  # a claim like "50 percent lower" is met within a fifth
# The paper's groups by a security protocol (The Experimental Testbed), with today's VPNs. Its IPsec is the kernel's:
# userspace ESP belongs to none of them, and to no mean. Protocols of their own have nothing in common.
FAMILIES = {
    "SSH": ("ssh_forward", "ssh_tun", "ssh_tap", "ppp_ssh"),
    "TLS": ("stunnel_forward", "ppp_stunnel", "openconnect_tls", "softether"),
    "IPsec": ("ipsec", "ipsec_ikev1", "libreswan"),
}

# Those of its VPNs that live, by what carries their data. Its figure 2 alone shows which is which; it follows from
# their protocols. Its VTun may be either, and so is beside what the others say of UDP and TCP.
OVER_UDP = ("ipsec", "l2tp", "openvpn", "pptp", "tinc", "vtun")
OVER_TCP = ("ppp_ssh", "ppp_stunnel", "vtun_ppp")
EITHER = ("vtun", "vtun_ppp")
OWN = ("l2tp", "pptp")  # of the proprietary group without Vpnd and Htun, which the sentence leaves out
BOTH = {"openvpn": "openvpn_tcp", "vtun": "vtun_tcp"}  # the same system over UDP, and over TCP
PACKING = ("blowfish-128-cbc", "hmac-sha1")  # a block of 8 bytes and a MAC of the paper's, which is SHA-1 or MD5

BEST = tuple(HEIRS[system] for system in ("FreeS/Wan", "PPTP", "VTUN"))  # the paper's three at equal weights


def values_by_vpn(
    data: Data, metric: str, member: Callable[[str], bool] = bool, levels: Mapping[str, str] | None = None
) -> dict[str, Blocks]:
    """VPN -> block -> ``metric``, of the members that have it on this link, at ``levels`` more. Neither
    userspace ESP nor a reference is one, but for L2TP, which the paper has among its VPNs."""
    by_vpn = {}
    for vpn in data.vpns(metric):
        theirs = vpn in OVER_UDP or not data.run.vpns[vpn].reference
        if theirs and vpn != claims.USERSPACE_ESP and member(vpn):
            with suppress(NotMeasured):
                by_vpn[vpn] = metric_of(data, metric, vpn, **(levels or {}))
    return by_vpn


def udp_over_tcp(metric: str, between: tuple[float, float], published: float | None, data: Data) -> Judgement:
    """The claim that the mean of the paper's VPNs over UDP over that of those over TCP lies ``between`` two bounds.

    Beside it are these with VTun, the systems that have both transports, and all VPNs of the run. Raises NotMeasured
    where nothing over TCP, or nothing else, has ``metric``.
    """
    values = values_by_vpn(data, metric)
    stacked = {vpn: data.run.vpns[vpn].transport == "tcp" for vpn in values}

    def papers() -> Judgement:
        stated = {vpn: blocks for vpn, blocks in values.items() if vpn not in EITHER}
        return _group(data, stated, OVER_UDP, OVER_TCP, between, published)

    def with_vtun() -> Judgement:
        if not values.keys() & {*EITHER}:
            raise NotMeasured("VTun was not measured in this")
        return _group(data, values, OVER_UDP, OVER_TCP, between, published)

    def same_system() -> Judgement:
        both = {udp: tcp for udp, tcp in BOTH.items() if {udp, tcp} <= values.keys()}
        return _group(data, values, [*both], [*both.values()], between, published)

    def all_vpns() -> Judgement:
        if values.keys() <= {*OVER_UDP, *OVER_TCP}:
            raise NotMeasured("all of this run are the paper's")
        over_tcp = [vpn for vpn in values if stacked[vpn]]
        return _group(data, values, [vpn for vpn in values if not stacked[vpn]], over_tcp, between, published)

    return claims.judge_beside(
        papers,
        {
            "with VTun over UDP": with_vtun,
            "the same system over UDP and TCP": same_system,
            "all VPNs of that run": all_vpns,
        },
    )


def _group(
    data: Data,
    values: Mapping[str, Blocks],
    a: Sequence[str],
    b: Sequence[str],
    between: tuple[float, float],
    published: float | None = None,
) -> Judgement:
    """The mean over those of ``a`` over the mean over those of ``b`` that have values. Raises NotMeasured, with the
    group that has none."""
    for group in (a, b):
        if not values.keys() & {*group}:
            raise NotMeasured(f"none of {', '.join(group) or 'the two transports'} was measured in this")
    first, second = ({vpn: values[vpn] for vpn in group if vpn in values} for group in (a, b))
    return group_ratio(data, first, second, between, published)


def udp_against_tcp(data: Data, metric: str, bound: Sequence[float], stated: Sequence[float]) -> Judgement:
    """What the paper found of VPNs in UDP against those in TCP: a ratio within two bounds, within TOLERANCE,
    beside the number or the two ends that it ``stated``."""
    low, high = bound
    published = stated[0] if len(stated) == 1 else None
    judgement = udp_over_tcp(metric, (low / TOLERANCE, high * TOLERANCE), published, data)
    return judgement if published else judgement.model_copy(update={"published_range": tuple(stated)})


def utilisation(data: Data) -> Judgement:
    """The share of the link that the best of the paper's VPNs uses, with the best of all beside it. Where hosts and
    gateways share cores, that is what it uses at least, because the traffic's own programs take CPU from it."""
    rates = values_by_vpn(data, "tcp_throughput")
    if data.run.lab.get("nodes_share_cores", True):
        rates = {
            vpn: {block: Bound(rate, (False, True)) for block, rate in blocks.items()} for vpn, blocks in rates.items()
        }
    papers = {vpn: blocks for vpn, blocks in rates.items() if vpn in HEIRS.values()}
    others = {vpn: blocks for vpn, blocks in rates.items() if vpn not in papers}
    return claims.judge_beside(partial(_best, papers), {"the best of the others": partial(_best, others)})


def _best(rates: Mapping[str, Blocks]) -> Judgement:
    """The share of the link that the VPN with the highest mean of ``rates`` (bit/s) uses."""
    if not rates:
        raise NotMeasured("no VPN has a TCP throughput on this link")
    best = max(rates, key=lambda vpn: sum(map(float, rates[vpn].values())) / len(rates[vpn]))
    shares = {block: rate / LINK_BPS for block, rate in rates[best].items()}
    judged = claims.single(
        shares, (0, STATED["utilisation.best"] / 100), STATED["utilisation.best"] / 100
    ).with_systems(best)
    return judged.model_copy(update={"part": best, "reason": f"the best is {best}: {judged.reason}"})


def slow(data: Data) -> Judgement:
    """The same, with a slow second gateway; VPNs in the kernel have none."""
    return _best(values_by_vpn(data, "tcp_throughput", levels=SLOW))


def families(data: Data) -> Judgement:
    """Are VPNs of one protocol alike? Each with the first of its group, on the link with a slow second gateway, where
    the CPU counts as it did there."""
    rates = values_by_vpn(data, "tcp_throughput", levels=SLOW)
    pairs = {}
    for name, members in FAMILIES.items():
        first, *others = [vpn for vpn in members if vpn in rates] or [""]
        for other in others:
            alike = partial(_ratio_between, data, rates, other, first, close(0.25))
            pairs[f"{name}: {other} to {first}"] = alike
    return claims.all_of(pairs)


def lowest(data: Data, metric: str) -> Judgement:
    """Is IPsec in the kernel below every other VPN?"""
    ours, others = metric_of(data, metric, "ipsec"), values_by_vpn(data, metric, lambda vpn: vpn != "ipsec")
    rates = {"ipsec": ours, **others}
    return claims.all_of({vpn: partial(_ratio_between, data, rates, "ipsec", vpn, LESS) for vpn in others})


def _ratio_between(data: Data, values: Mapping[str, Blocks], a: str, b: str, between: tuple[float, float]) -> Judgement:
    """The claim that a VPN's ``values`` over another's lie ``between`` two bounds."""
    return data.check_scale(claims.compare(values[a], values[b], between), a, b)


def least(data: Data) -> Judgement:
    """The least overhead of any VPN, in 80 bytes, by which the paper divides all others (figure 3a).

    Without a verdict: its text does not say what the 80 bytes hold. It counted captured UDP packets of a known length,
    so that the headers of the inner packet (20 and 8 bytes) may be among them, and the link's header."""
    if not (overheads := values_by_vpn(data, "overhead_bytes")):
        raise NotMeasured("no VPN has an overhead on this link")
    means = {vpn: fmean(values.values()) for vpn, values in overheads.items()}
    name = in_order([*means], [*means.values()])[0]
    judged = claims.single({block: value / LEAST_OVERHEAD_BYTES for block, value in overheads[name].items()}, (1, 1), 1)
    whole = means[name]
    short = "the text does not say what its 80 bytes hold"
    reason = (
        f"{short}; the least here is {name}'s: {whole:g} bytes added to an IP "
        f"packet, {whole + INNER_HEADERS_BYTES:g} with the inner IP and UDP headers"
    )
    return unlike(judged.with_systems(name), "unlike", reason).model_copy(update={"short": short})


def headers(data: Data) -> Judgement:
    """Of the overhead of a 512-byte packet, what is left without cipher, IV, padding and integrity: of the paper's VPNs
    with a cipher of 8-byte blocks and SHA-1, which is what its sentence is about."""
    cipher, integrity = PACKING
    shares = {}
    for vpn in (*OVER_UDP, *OVER_TCP):
        if vpn in data.run.vpns and data.run.vpns[vpn].reference:
            continue
        with suppress(NotMeasured):
            bare, whole = (metric_of(data, "overhead_bytes", vpn, own, integrity=integrity) for own in ("null", cipher))
            tag = closed_form.ESP_ICV[integrity] if vpn == claims.KERNEL_ESP else closed_form.HMAC[integrity]
            shares[vpn] = {block: (bare[block] - tag) / whole[block] for block in bare.keys() & whole.keys()}
    if not shares:
        raise NotMeasured(f"no VPN of the paper has an overhead with {cipher} and with null, each with {integrity}")
    stated = STATED["overhead.headers"] / 100
    return group_mean(data, shares, (stated / TOLERANCE, stated * TOLERANCE), stated)


def proprietary(data: Data) -> Judgement:
    """The mean overhead of the paper's VPNs with a protocol of their own over that of its others, 512 bytes."""
    others = [vpn for vpn in (*OVER_UDP, *OVER_TCP) if vpn not in OWN]
    return _group(data, values_by_vpn(data, "overhead_bytes"), OWN, others, LESS)


def none_excels(data: Data) -> Judgement:
    """The share of VPNs that another one beats in overhead, use of the link, latency or jitter: all, or not.

    The ends: those that are surely beaten somewhere, and those that are not surely the best everywhere.
    """
    columns = [(values_by_vpn(data, metric), metric == "tcp_throughput") for metric in TRAFFIC]
    vpns = sorted(set.intersection(*(set(values) for values, _ in columns)))
    if len(vpns) < 2:
        raise NotMeasured("needs two VPNs with overhead, use of the link, latency and jitter")

    def at_best(vpn: str) -> tuple[bool, bool]:
        """Is it surely beaten somewhere, and is it surely not beaten anywhere?"""
        beaten, free = False, True
        for values, higher in columns:
            for other in vpns:
                if other != vpn:
                    a, b = (vpn, other) if higher else (other, vpn)
                    ahead = claims.compare(values[a], values[b], MORE).verdict  # of a ratio: is ``vpn`` ahead?
                    beaten |= ahead == "not reproduced"
                    free &= ahead == "reproduced"
        return beaten, free

    outcomes = [at_best(vpn) for vpn in vpns]
    low = sum(beaten for beaten, _ in outcomes) / len(vpns)
    high = 1 - sum(free for _, free in outcomes) / len(vpns)
    return data.check_scale(claims.decide((low + high) / 2, low, high, (1.0, 1.0)), *vpns)


def best_three(data: Data) -> Judgement:
    """The mean rank in the four attributes: of the paper's three best the worst, over the best of all others."""
    columns = [
        {vpn: by_repetition(blocks) for vpn, blocks in values_by_vpn(data, metric).items()} for metric in TRAFFIC
    ]
    vpns = sorted(set.intersection(*(set(values) for values in columns)))
    if missing := [vpn for vpn in BEST if vpn not in vpns]:
        raise NotMeasured(f"not measured in all four attributes: {', '.join(missing)}")
    if not (others := [vpn for vpn in vpns if vpn not in BEST]):
        raise NotMeasured("nothing else was measured beside them")
    blocks = set.intersection(*(set(values[vpn]) for values in columns for vpn in vpns))
    mean_ranks = {block: _mean_ranks(columns, vpns, block) for block in blocks}
    worst = {block: max(rank[vpn] for vpn in BEST) for block, rank in mean_ranks.items()}
    best = {block: min(rank[vpn] for vpn in others) for block, rank in mean_ranks.items()}
    return data.check_scale(claims.compare(worst, best, LESS), *vpns)


def _mean_ranks(columns: Sequence[Mapping[str, Blocks]], vpns: Sequence[str], block: int) -> dict[str, float]:
    """VPN -> mean of its ranks (1 is best) in one block."""
    total = dict.fromkeys(vpns, 0.0)
    for values, metric in zip(columns, TRAFFIC, strict=True):
        sign = -1 if metric == "tcp_throughput" else 1
        places = ranks([sign * values[vpn][block] for vpn in vpns])
        for vpn, place in zip(vpns, places, strict=True):
            total[vpn] += place / len(TRAFFIC)
    return total


def bottleneck(data: Data) -> Judgement:
    """TCP throughput to the slow gateway without cryptography over that with it, of the paper's own VPNs: above two,
    cryptography costs that gateway more than all else. The paper's own ciphers decide, the first of OLDER that the run
    has; beside it is the same over today's."""
    rates = partial(values_by_vpn, data, "tcp_throughput", lambda vpn: vpn in HEIRS.values())
    bare = rates(SLOW | BARE)

    def faster(levels: dict[str, str]) -> Judgement:
        slower = rates(SLOW | levels)

        def one(vpn: str) -> Judgement:
            return claims.compare(bare[vpn], slower[vpn], (2, inf)).with_systems(vpn)

        return claims.all_of({vpn: partial(one, vpn) for vpn in bare if vpn in slower})

    older = {f"{cipher} with {integrity}": {"cipher": cipher, "integrity": integrity} for cipher, integrity in OLDER}
    (_, first), *others = older.items()
    by_today = {"today's AES-128 with SHA-256": partial(faster, {})}
    return claims.judge_beside(
        partial(faster, first), by_today | {name: partial(faster, levels) for name, levels in others}
    )
