"""Which packets go through a tunnel whole: a probe of echoes with DF set, and what is refused or advised by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from runner.data.errors import CommandError, MeasurementError, TooLongError
from runner.instruments.tools.counters import fragments_created
from runner.lab import probes
from runner.lab.node.probing import error_class
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

IP_UDP_BYTES, IPV6_UDP_BYTES = 28, 48
UDP_BYTES, TCP_BYTES = 8, 20
SHORTEST, LONGEST = 68, 65535  # RFC 791 §3.2: every link carries 68 bytes
ECHOES = 3
LOOKS = 3
WAIT_S, MOST_WAITS = 0.25, 40  # beyond a round trip; by a bisection of 65,535 lengths
ETHERNET_MTU = 1500


def headers_bytes(address: str) -> int:
    """The headers of IP and UDP of a packet to this address."""
    return IPV6_UDP_BYTES if ":" in address else IP_UDP_BYTES


def refuse_too_long(bench: Bench, packet_bytes: int) -> None:
    """Raise TooLongError, which names the tunnel's MTU, unless packets of this length go through it in one piece."""
    install(bench.lab)
    if goes_whole(bench.lab, bench.address, packet_bytes):
        return
    mtu = largest_whole(bench.lab, bench.address, search(bench.lab, bench.address))
    if mtu >= packet_bytes:  # it was a loss, or somebody else's fragments
        return
    raise TooLongError(
        f"a packet of {packet_bytes} bytes (IPv{ip_version(bench.address)}) is longer than the tunnel's MTU, {mtu} "
        f"bytes, and would be fragmented; send {mtu - headers_bytes(bench.address)} bytes of payload at most, or ask "
        "for it with --set fragmentation=allow"
    )


def fits(bench: Bench) -> str:
    """What would fit where packets of this tunnel travel in fragments: a sentence, "" where none do. Raises
    MeasurementError."""
    install(bench.lab)
    mtu = search(bench.lab, bench.address)
    whole = largest_whole(bench.lab, bench.address, mtu)
    if whole >= mtu:
        return ""
    segment_bytes = whole - headers_bytes(bench.address) + UDP_BYTES - TCP_BYTES
    return (
        f"packets were fragmented: the tunnel takes packets of {mtu} bytes, and the WAN's MTU is {_wan_mtu(bench.lab)} "
        f"bytes. An MTU of {whole} bytes fits: set it on the tunnel's interface, or limit TCP's MSS to {segment_bytes}"
    )


@contextmanager
def fitting(bench: Bench) -> Iterator[None]:
    """TCP through the tunnel. Where it fails on a WAN whose MTU is below Ethernet's, the error says what would fit, if
    that can be found: wireguard-go's first seconds there are lost altogether."""
    try:
        yield
    except MeasurementError as error:
        why = ""
        with suppress(MeasurementError, CommandError):
            why = fits(bench) if _wan_mtu(bench.lab) < ETHERNET_MTU else ""
        if why:
            raise type(error)(f"{error}; {why}", **error.attempt) from error
        raise


def _wan_mtu(lab: Lab) -> int:
    site = lab.sites[0]
    port = f"/sys/class/net/{site.wan_interface}/mtu"
    return lab.path.mtu_bytes if lab.path else int(lab.gateway(site).run("cat", port).stdout)


def may_fragment(bench: Bench, params: Mapping[str, str], packet_bytes: int) -> bool:
    """Was fragmentation asked for? Raises TooLongError where it was not, and the packets need it."""
    allowed = params.get("fragmentation") == "allow"
    if not allowed:
        refuse_too_long(bench, packet_bytes)
    return allowed


def install(lab: Lab) -> None:
    """Put the MTU probe on the near host. Raises CommandError."""
    lab.host1.write(f"{probes.FOLDER}/pmtu.py", probes.source("pmtu"), mode=0o644)


def search(lab: Lab, address: str) -> int:
    """The largest packet, bytes, that is answered with DF set. Raises MeasurementError where none is."""
    longest = _probe(lab, "search", address, _wait_s(lab), str(SHORTEST), str(_link_mtu(lab)))
    if not longest:
        raise MeasurementError(f"no echo of {SHORTEST} bytes was answered: the path MTU cannot be measured")
    return longest


def goes_whole(lab: Lab, address: str, length: int) -> bool:
    """Do packets of ``length`` bytes with DF set arrive, and nobody fragments what carries them?

    Fragments of other traffic, such as what a TCP connection that is given up still sends, or a loss by chance, say
    nothing of this length: it does not go whole where LOOKS looks in a row say so.
    """
    for _ in range(LOOKS):
        before = fragments_created(lab)
        if echo(lab, address, length) > 0 and fragments_created(lab) == before:
            return True
    return False


def largest_whole(lab: Lab, address: str, mtu: int) -> int:
    """The largest length up to ``mtu`` that goes through without any fragment, by bisection."""
    if goes_whole(lab, address, mtu):
        return mtu
    low, high = SHORTEST, mtu - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if goes_whole(lab, address, middle) else (low, middle - 1)
    return low


def echo(lab: Lab, address: str, length: int, *, fragment: bool = False) -> int:
    """How many of ECHOES echoes of ``length`` bytes are answered; with DF set unless ``fragment``."""
    return _probe(lab, "echo", address, _wait_s(lab), str(length), str(ECHOES), *(["fragment"] if fragment else []))


def _link_mtu(lab: Lab) -> int:
    return min(LONGEST, int(lab.host1.run("cat", "/sys/class/net/eth0/mtu").stdout))


def _wait_s(lab: Lab) -> str:
    return f"{WAIT_S + lab.rtt_s:g}"


def _probe(lab: Lab, *argv: str) -> int:
    timeout_s = 30 + MOST_WAITS * lab.rtt_s
    done = lab.host1.run("python3", "-IS", f"{probes.FOLDER}/pmtu.py", *argv, check=False, timeout=timeout_s)
    if done.code != 0:
        raise error_class(done.code)(f"the probe pmtu failed: {''.join(done.stderr.strip().splitlines()[-1:])}")
    return int(done.stdout)
