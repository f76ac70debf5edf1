"""Route lookups: how often the near gateway looks up a route for each packet that it sends through the tunnel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from runner.data.errors import MeasurementError, Unsupported
from runner.data.metric import Metric
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.cost import processes
from runner.instruments.tools.generator import Load, generator
from runner.lab.node import proc
from runner.lab.node.iproute import objects
from runner.lab.readings.lookups import LOOPBACK_INDEX, Lookup, lacks, trace_lookups
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

PACKETS, PER_S, PACKET_BYTES = 200, 400.0, 512
DSCP = 11  # of the stream's packets, which nothing else here has: they are told apart from those of other labs by it
TOS = DSCP << 2


def lookups(bench: Bench) -> Measured:
    """Lookups of the near gateway for each of PACKETS packets that come slowly through an idle tunnel. Raises
    MeasurementError where packets were lost."""
    load = Load((PACKET_BYTES,), PER_S, PACKETS / PER_S, burst=1, dscp=DSCP)
    by = generator(bench)
    with trace_lookups(TOS) as seen:
        counted = by.play(load)
        mine = of_gateway(bench.lab, bench.address, seen())
    if counted.received < counted.sent:
        raise MeasurementError(f"{counted.sent - counted.received} of {counted.sent} packets were lost")
    per_packet = {purpose: round(count / counted.sent, 3) for purpose, count in sorted(mine.items())}
    value = measurement("route_lookups_per_packet", mine.total() / counted.sent, per_packet=per_packet)
    return Measured([value])


def of_gateway(lab: Lab, address: str, found: Sequence[Lookup]) -> Counter[str]:
    """The near gateway's lookups among ``found``: for what -> how many.

    Of a packet that came in from the LAN; and to the other gateway, by the tunnel's daemon, or for a packet that has
    the stream's DSCP, which ESP copies (RFC 4301 §5.1.2).
    """
    site, peer, gateway = lab.sites[0], lab.sites[-1], lab.gateway(lab.sites[0])
    ports = {port["ifname"]: port["ifindex"] for port in objects(gateway, "ip", "-json", "link", "show")}
    shown = objects(gateway, "ip", "-json", "address", "show", "to", site.lan_address)
    lan = next(port["ifname"] for port in shown if "ifname" in port)
    threads = {thread for _, pid in processes([gateway]) for thread in proc.threads_of(pid)}
    purposes = Counter[str]()
    for lookup in found:
        if lookup.device not in ports or lookup.device == lan:
            continue
        if (lookup.to, lookup.incoming, lookup.tos) == (address, ports[lan], TOS):
            purposes[f"the packet, to {lookup.device}"] += 1
        elif (lookup.to, lookup.incoming) == (peer.wan_address, LOOPBACK_INDEX):
            purposes[f"what the tunnel sends, to {lookup.device}"] += lookup.thread in threads or lookup.tos == TOS
    return +purposes


class Lookups(Whole):
    """The near gateway's route lookups for a slow stream."""

    name = "lookups"
    metrics = (
        Metric(
            name="route_lookups_per_packet",
            title="Route lookups per packet",
            unit="/packet",
            better="lower",
            definition="How often the near gateway finds a route for each packet of 512 bytes of a slow stream: for "
            "the packet when it comes in from the LAN, and for what the tunnel then sends to the other gateway. "
            "Counted by the kernel's tracepoint fib:fib_table_lookup. A socket that is connected keeps its route, and "
            "looks up none; so does a tunnel in the kernel, except ESP.",
            source="thesis §5.5, figures 22 and 23 (three with a virtual interface, two with IPsec); Linux, "
            "include/trace/events/fib.h",
        ),
    )
    datagrams = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if not lab.shared_kernel:
            return Unsupported("route lookups are traced where all nodes share this machine's kernel")
        if lack := lacks():
            return Unsupported(lack)
        if params.get("underlay") == "6":
            return Unsupported("the kernel's tracepoint fib:fib_table_lookup tells lookups of IPv4 only")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 1.0

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return lookups(bench)
