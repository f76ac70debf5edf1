"""What the thesis found: TCP throughputs (bit/s), one over another, and counts of cost."""

from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

from runner.data.asked import AskedRun
from runner.papers import claims
from runner.papers.claims import LESS, MORE, At, close
from runner.papers.conditions import by_any_driver, by_one_driver, says_its_driver
from runner.papers.findings import Data, Finding, Judgement
from runner.papers.thesis import (
    BYTES,
    FORWARD,
    FUTURE,
    IPERFS_S,
    PLAIN,
    PLAIN_TCP,
    PROTECTED,
    STATED,
    SWITCHES,
    SYSTEMS,
    TUN,
    USUAL_INTEGRITY,
    alike_but_3des,
    at_one_integrity,
    better,
    blind,
    compressing,
    costliest,
    differs,
    effective,
    encapsulation,
    encryption,
    encryptions,
    highest,
    integrity_matters,
    kinds_of_data,
    more_lookups,
    next_highest,
    on_files,
    plain_cell,
    same_in_every,
    same_order,
    spread,
    technologies,
)

USERSPACE_THREE = AskedRun(experiments="thesis", vpns="openvpn,ssh_forward,ssh_tun")
PLAIN_FOUR = USERSPACE_THREE.changed(
    kernel="qemu", vpns="ipsec,openvpn,ssh_forward,ssh_tun", levels=f"driver=accelerated,{PLAIN_TCP}"
)
ALL_FOUR = PLAIN_FOUR.changed(vpns="ipip,ipsec,openvpn,ssh_forward,ssh_tun", levels="driver=accelerated")


def tcp(name: str, where: str, claim: str, a: At, b: At, between: tuple[float, float], **more: Any) -> Finding:
    """A ratio of two TCP throughputs, beside the thesis' own where its text has both; ``more``: of the Finding."""
    stated = {value.id: value.value for value in STATED.values}
    theirs = [stated.get(f"tcp.{at.vpn}") if at.levels.items() >= PLAIN.items() else None for at in (a, b)]
    published = theirs[0] / theirs[1] if theirs[0] and theirs[1] and a.vpn != b.vpn else None

    def judge(vpn: str, data: Data) -> Judgement:
        first, second = (At(vpn, at.levels) if at.vpn == "ipsec" else at for at in (a, b))
        return claims.ratio_of("tcp_throughput", first, second, between, published)(data)

    judged = claims.on_ipsec(judge) if "ipsec" in (a.vpn, b.vpn) else partial(judge, "")
    of_itself = a.vpn == b.vpn
    return Finding(name, "thesis", where, claim, (by_any_driver if of_itself else by_one_driver)(judged), **more)


def extreme(cipher: str, claim: str, between: tuple[float, float], **more: Any) -> Finding:
    """The finding about TCP throughput with ``cipher`` over that with each other one, in each VPN that has it.

    The thesis prints the ends only: more than 230 Mbit/s with Blowfish, about 35 with 3DES.
    """

    def judge(vpns: tuple[str, ...], data: Data) -> Judgement:
        return claims.extreme(data, "tcp_throughput", vpns, "cipher", cipher, PLAIN, between)

    def judge_systems(data: Data) -> Judgement:
        user = claims.USERSPACE_ESP
        return claims.judge_beside(partial(judge, SYSTEMS, data), {claims.USERSPACE: partial(judge, (user,), data)})

    return Finding(cipher, "thesis", "§5.3", claim, by_any_driver(judge_systems), **more)


def compression_finding(vpn: str, payload: str, between: tuple[float, float], claim: str, **more: Any) -> Finding:
    """The finding about TCP throughput with compression of ``payload`` over that without, which sends random data."""
    where = "§5.4"
    packing = plain_cell(vpn, compression=compressing(vpn, payload), payload=payload)
    counts = f"TCP throughput of {payload}{' data' * (payload == 'random')} with compression is {{}} times that without"
    run = USERSPACE_THREE.changed(kernel="uml", vpns="ipsec") if vpn == "ipsec" else USERSPACE_THREE
    return tcp(
        f"packed-{vpn}-{payload}", where, claim, packing, plain_cell(vpn), between, counts=counts, run=run, **more
    )


def about_ipsec(
    name: str, where: str, claim: str, judge: claims.Judge, run: AskedRun = ALL_FOUR, **more: Any
) -> Finding:
    """A finding of the thesis about IPsec and others."""
    return Finding(name, "thesis", where, claim, by_one_driver(claims.on_ipsec(judge)), run=run, **more)


def costs(metric: str, a: str, b: str, claim: str, counts: str) -> Finding:
    """The finding that ``a`` has more of ``metric``, a count, than ``b``."""
    return Finding(
        f"{metric}-{a}",
        "thesis",
        "§5.5",
        claim,
        claims.ratio_of(metric, plain_cell(a), plain_cell(b), MORE),
        "count",
        counts=counts,
        run=USERSPACE_THREE.changed(kernel="uml", vpns="ipsec,openvpn,ssh_forward,ssh_tun"),
    )


_ONE_OVER_ANOTHER = "one VPN's TCP throughput is {} times the other's"
_SHAPED = AskedRun(
    experiments="thesis",
    vpns="ipip,ssh_forward",
    levels="measure=tcp,wan_rate_bps=1000000000,cipher=aes-128-cbc,compression=off",
)
_AES = ("aes-128-cbc", "aes-192-cbc", "aes-256-cbc")
FINDINGS = (
    Finding(
        *("ipip", "thesis", "§4.1, §5.1", "IPIP costs next to nothing", encapsulation),
        counts="TCP throughput through IPIP is {} times that of plain IP",
        run=_SHAPED.changed(kernel="uml"),
    ),
    Finding(
        *("encryption", "thesis", "§4.1, §5.1", "encryption costs most", encryption),
        counts="what SSH forwarding leaves of IPIP's TCP throughput is {} times what IPIP leaves of plain IP's",
        run=_SHAPED.changed(kernel="qemu"),
    ),
    tcp(
        *(
            "forward",
            "§4.2",
            "SSH forwarding is as fast as IPsec",
            plain_cell(FORWARD),
            plain_cell("ipsec"),
            close(0.1),
        ),
        counts="TCP throughput of SSH forwarding is {} times that of IPsec",
        run=PLAIN_FOUR,
    ),
    tcp(
        *(
            "forward-as-high",
            "§6.2",
            "SSH forwarding is at least as fast as IPsec",
            plain_cell(FORWARD),
            plain_cell("ipsec"),
        ),
        (1 / 1.1, inf),
        counts="TCP throughput of SSH forwarding is {} times that of IPsec",
        run=PLAIN_FOUR,
    ),
    tcp(
        *("ipsec-tun", "§4.2", "IPsec is faster than SSH with a TUN", plain_cell("ipsec"), plain_cell(TUN), MORE),
        counts="TCP throughput of IPsec is {} times that of SSH with a TUN",
        run=PLAIN_FOUR,
    ),
    tcp(
        *("forward-tun", "§4.2", "SSH forwarding is faster than a TUN", plain_cell(FORWARD), plain_cell(TUN), MORE),
        counts="TCP throughput of SSH forwarding is {} times that of SSH with a TUN",
        run=USERSPACE_THREE,
    ),
    tcp(
        *("tun-openvpn", "§4.2", "SSH with a TUN is faster than OpenVPN", plain_cell(TUN), plain_cell("openvpn"), MORE),
        counts="TCP throughput of SSH with a TUN is {} times that of OpenVPN",
        run=USERSPACE_THREE,
    ),
    extreme(
        *("blowfish-128-cbc", "Blowfish is the fastest cipher", MORE),
        counts="TCP throughput with Blowfish is {} times that with another cipher",
        today={f"openvpn against {aes}": "CPUs have instructions for AES now, and none for Blowfish" for aes in _AES}
        | {
            f"ipsec against {aes}": "the kernel's AES is faster than its Blowfish without instructions, too"
            for aes in _AES
        },
    ),
    extreme(
        *("3des-cbc", "3DES is the slowest cipher", LESS),
        counts="TCP throughput with 3DES is {} times that with another cipher",
    ),
    about_ipsec(
        *("same-order", "Abstract", "the VPNs have the same order in almost every test", same_order),
        counts="of the pairs that the plain test tells apart, a share of {} has its order in the other tests",
    ),
    about_ipsec(
        *("same-in-every", "Abstract", "the VPNs have the same order in every test", same_in_every),
        counts="the VPN that is ahead in the plain test has in another one {} times the other's throughput",
    ),
    compression_finding("openvpn", "zeros", MORE, "OpenVPN gains by compression"),
    compression_finding(
        *("ssh_forward", "zeros", MORE, "SSH port forwarding gains by compression"),
        today={"": "AES by the CPU's instructions costs less than zlib"},
    ),
    compression_finding("ipsec", "zeros", LESS, "IPsec loses by compression"),
    compression_finding("ssh_tun", "zeros", LESS, "SSH with a TUN loses by compression"),
    *(
        compression_finding(vpn, "random", LESS, f"compressed data costs {vpn}")
        for vpn in ("ipsec", "ssh_tun", "ssh_forward")
    ),
    compression_finding("openvpn", "random", close(0.1), "compressed data costs OpenVPN's adaptive LZO nothing"),
    about_ipsec(
        *("alike-but-3des", "§5.3", "IPsec and SSH forwarding are alike but for 3DES", alike_but_3des),
        counts="TCP throughput of SSH forwarding is {} times that of IPsec",
    ),
    about_ipsec(
        *("effective", "Abstract", "IPsec and SSH forwarding are the effective ones of the four", effective),
        PLAIN_FOUR,
        counts=_ONE_OVER_ANOTHER,
    ),
    Finding(
        *("highest", "thesis", "§6.1", "SSH port forwarding with compression has the highest throughput of all"),
        by_one_driver(highest),
        counts="TCP throughput of SSH forwarding that compresses zeros is {} times another one",
        run=ALL_FOUR,
        today={
            f"over {FORWARD}": "without compression it is faster, unless AES is generic C code "
            "(thesis/packed-ssh_forward-zeros)"
        },
    ),
    about_ipsec(
        *("next-highest", "§6.1", "IPsec without compression has the next highest throughput", next_highest),
        counts="one TCP throughput is {} times the other",
        today={
            "ipsec over ipsec compressing zeros": "IPsec is faster where it compresses zeros: there is less to encrypt"
        },
    ),
    *(
        Finding(
            *(f"depends-{name}", "thesis", "Abstract", f"throughput depends on {what}"),
            alike(partial(differs, pairs)),
            counts=counts,
            run=USERSPACE_THREE,
        )
        for name, what, pairs, alike, counts in (
            ("technology", "the VPN's technology", technologies(), by_one_driver, _ONE_OVER_ANOTHER),
            (
                *("encryption", "the encryption", encryptions(), by_any_driver),
                "TCP throughput with the cipher is {} times that with AES-128",
            ),
            (
                *("data", "the kind of data, where a VPN compresses", kinds_of_data(), by_any_driver),
                "TCP throughput of zeros is {} times that of random data",
            ),
        )
    ),
    about_ipsec(
        *("costliest", "§6.2", "encryption costs IPsec more throughput than encapsulation", costliest),
        USERSPACE_THREE.changed(kernel="uml", vpns="ipip,ipsec"),
        counts="what IPsec leaves of IPIP's TCP throughput is {} times what IPIP leaves of plain IP's",
    ),
    *(
        Finding(
            *(other, "thesis", "§6.2", f"open question: is {FUTURE[other]} better? Here: faster than IPsec alone"),
            by_one_driver(partial(better, other)),
            question=True,
            counts=f"TCP throughput of {FUTURE[other]} is {{}} times that of IPsec alone",
            run=AskedRun(
                experiments="thesis", kernel="uml", vpns=(*FUTURE, "ipsec"), levels=f"driver=generic,{PLAIN_TCP}"
            ),
        )
        for other in PROTECTED
    ),
    Finding(
        *("blind", "oslv", "Overhead", "compression of what cannot be compressed gains nothing", by_any_driver(blind)),
        counts="TCP throughput of random data with compression is {} times that without",
        run=USERSPACE_THREE,
    ),
    Finding(
        *("spread", "thesis", "§4, Appendix", "the coefficient of variation is at most 9 %", spread),
        counts="the coefficient of variation of TCP throughput, pooled, is {}",
        run=USERSPACE_THREE.changed(duration_s=IPERFS_S, repetitions=10),
    ),
    costs(
        *(SWITCHES, "openvpn", "ipsec", "OpenVPN switches between kernel and user space, and IPsec does not"),
        "OpenVPN makes {} times the context switches of IPsec, per packet",
    ),
    Finding(
        *(f"{SWITCHES}-ssh_tun", "thesis", "§5.5"),
        "our question: does a virtual interface cost context switches?",
        claims.ratio_of(SWITCHES, plain_cell(TUN), plain_cell(FORWARD), MORE),
        "count",
        question=True,
        counts="SSH with a TUN makes {} times the context switches of SSH forwarding, per packet",
        run=USERSPACE_THREE,
    ),
    Finding(
        *("lookups", "thesis", "§5.5", "a virtual interface costs a route lookup more than IPsec"),
        claims.on_ipsec(more_lookups, "it has a virtual interface itself"),
        "count",
        counts="the VPN with a virtual interface looks up {} times the routes of IPsec, per packet",
        run=USERSPACE_THREE.changed(kernel="qemu", vpns="ipsec,openvpn,ssh_tun", levels="measure=lookups"),
    ),
    costs(
        *(BYTES, "ipsec", "ssh_forward", "IPsec carries more bytes than SSH forwarding"),
        "IPsec sends {} times the bytes of SSH forwarding over the WAN, per byte carried",
    ),
)
INTEGRITY = Finding(
    *("integrity", "thesis", "§3.5.1"),
    "our question: SHA-1 instead of SHA-256, where the text states no integrity, changes a throughput by a tenth",
    integrity_matters,
    question=True,
    counts="TCP throughput with HMAC-SHA-1 is {} times that with HMAC-SHA-256",
    run=USERSPACE_THREE.changed(levels=f"{PLAIN_TCP},integrity=hmac-sha1,integrity={USUAL_INTEGRITY}"),
)


def judge_on_files(found: Finding) -> Finding:
    """The finding, at one integrity, and of compression by the thesis' files where the run has them."""
    judge = says_its_driver(found.judge) if found.id in ("costliest", "packed-ipsec-zeros") else found.judge
    of_files = partial(on_files, judge, found.id.startswith("packed-"))
    return replace(found, judge=partial(at_one_integrity, of_files))


FINDINGS = (*map(judge_on_files, FINDINGS), INTEGRITY)
