"""Who fragments the thesis' datagrams: of 1470 bytes of payload, and so 1498 bytes long."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from runner.data.trials import Measurement, Run, Trial
from runner.papers.findings import trials_of

DATAGRAM_BYTES = "1498"
HEAD = (
    *("VPN", "cipher", "who fragments", "fragments by the host", "by the gateway"),
    *("packets on the WAN", "as fragments"),
)
SOME = 0.5  # fragments of a datagram: other programs on a gateway make some, too
ABOUT = (
    "A datagram of 1470 bytes of payload is an IP packet of 1498 bytes, to which a tunnel adds its own. Numbers are a "
    "datagram's, medians of the repetitions: fragments that the sending host has made and that its gateway has (IP's "
    "counter FragCreates), packets on the WAN, and how many of these were fragments of another packet. The datagrams "
    "may be fragmented (DF is not set), and come slowly through an idle tunnel."
)
READ = {"fragments_per_packet", "outer_packets_per_packet", "captured_fragments", "captured_lengths"}


def rows(run: Run, trials: Sequence[Trial]) -> list[list[str]]:
    """A row for each VPN and cipher at which such datagrams were sent; empty for a run of other experiments."""
    cells: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for trial in trials_of(run, trials, "thesis"):
        datagrams = trial.params.get("packet_bytes") == DATAGRAM_BYTES and trial.params.get("fragmentation") == "allow"
        for measured in trial.measurements if datagrams and trial.status == "ok" else ():
            if measured.detail.keys() >= READ and sum(measured.detail["captured_lengths"].values()):
                cells[trial.vpn, trial.params["cipher"]].append(measured)
    return [[vpn, cipher, *_numbers(measured)] for (vpn, cipher), measured in cells.items()]


def _numbers(measured: Sequence[Measurement]) -> list[str]:
    """Who fragments, and how much: the cells of a row."""
    host, gateway = (
        statistics.median(m.detail["fragments_per_packet"][who] for m in measured) for who in ("host", "gateway")
    )
    outer = statistics.median(m.detail["outer_packets_per_packet"] for m in measured)
    # Of the captured packets as many are fragments.
    shares = [m.detail["captured_fragments"] / sum(m.detail["captured_lengths"].values()) for m in measured]
    fragments = outer * statistics.median(shares)
    who = "the host" if host > SOME else ""
    if gateway > SOME:
        what = "its outer packet" if fragments > SOME else "the datagram itself"
        who += ", and " * bool(who) + f"the gateway, {what}"
    return [who or "nobody", *(f"{number:.2f}" for number in (host, gateway, outer, fragments))]
