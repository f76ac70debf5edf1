"""The tunnel's MTU: the longest packet that goes through it whole, and what becomes of longer ones."""

from __future__ import annotations

from collections.abc import Mapping

from runner.data.metric import Metric
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.counters import fragments_created
from runner.instruments.tools.fragments import ECHOES, echo, install, largest_whole, search
from runner.tunnel.bring_up import Bench


def path_mtu(bench: Bench) -> Measured:
    """The path MTU from host1 to host2, by ICMP echo with DF set, and where fragmentation begins.

    A tunnel that takes long packets and has its own outer packets fragmented has a larger path MTU than what it
    carries unfragmented; both are reported. Raises MeasurementError where no echo is answered.
    """
    install(bench.lab)
    mtu = search(bench.lab, bench.address)
    whole = largest_whole(bench.lab, bench.address, mtu)
    before = fragments_created(bench.lab)
    answered = echo(bench.lab, bench.address, mtu + 1, fragment=True)
    made = fragments_created(bench.lab) - before
    longer = {"bytes": mtu + 1, "sent": ECHOES, "answered": answered, "fragments": made}
    value = measurement("path_mtu", float(mtu), unfragmented_bytes=whole, one_byte_more=longer)
    warnings = [f"path MTU: packets longer than {whole} bytes travel in fragments"] if whole < mtu else []
    return Measured([value], warnings=warnings)


class Mtu(Whole):
    """A search for the path MTU by echoes."""

    name = "mtu"
    metrics = (
        Metric(
            name="path_mtu",
            title="Path MTU",
            unit="byte",
            better="higher",
            definition="The length of the longest IPv4 packet with DF set that the far host answers through the "
            "tunnel.",
            source="RFC 1191 §3 (path MTU), by ICMP echo",
        ),
    )
    inner_ipv6 = True
    datagrams = True

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 1.5

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return path_mtu(bench)
