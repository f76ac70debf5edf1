"""What the generator offers at most, found over plain IP before the first tunnel: a rate near that says nothing of the
VPN that carried it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from runner.data.errors import CommandError, MeasurementError
from runner.data.lab_facts import GeneratorLimit
from runner.data.trials import Cell
from runner.design.profile import Profile
from runner.instruments.tools.fragments import IP_UDP_BYTES
from runner.instruments.tools.generator import BURST, Arrived, Generator, Load, generating
from runner.instruments.traffic.udp import OFFERED, search_of
from runner.lab.shape.site import peers_of
from runner.lab.shape.site_to_site import Lab
from runner.vpn.plugin import Vpn

ETHERNET_BYTES = 1500  # of IP, in a frame
FULL_PER_S = 5e6  # more than any sender can
PIECE_S, PIECES = 0.3, 3
WITHIN_S = 3.0


def lengths_of(cells: Iterable[Cell], profile: Profile) -> list[int]:
    """Which packets to try, bytes of IP: the longest of these cells that fit an Ethernet frame, and full ones. None
    where the generator has nothing to do in them."""
    longest: list[int] = []
    for params in (cell.params for cell in cells):
        if params.get("measure") in ("packets", "duplex"):
            longest.append(int(params["packet_bytes"]))
        elif params.get("measure") == "udp" and (
            search_of(params, profile).engine == "rounds" or OFFERED.keys() & params.keys()
        ):
            longest.append(int(params["payload_bytes"]) + IP_UDP_BYTES)
    fitting = [length for length in longest if length <= ETHERNET_BYTES]
    return sorted({max(fitting, default=ETHERNET_BYTES), ETHERNET_BYTES}) if longest else []


def calibrate(lab: Lab, plain: Vpn, lengths: Sequence[int], within_s: float = WITHIN_S) -> list[GeneratorLimit]:
    """Packets of each of ``lengths`` at full speed from host1 to host2, the best of PIECES, in ``within_s`` seconds and
    a piece. A length that cannot be sent is left out; nothing where plain IP does not work here.

    ``plain``: the plugin of plain IP, whose routes the lab then has.
    """
    best: dict[int, GeneratorLimit] = {}
    with suppress(MeasurementError, CommandError, TimeoutError):
        set_up_plain_ip(lab, plain)
        with generating(lab) as generator:
            end = time.monotonic() + within_s  # in a guest kernel it takes seconds until the probes are there
            for length in [*lengths] * PIECES:
                if time.monotonic() > end:
                    break
                with suppress(MeasurementError):
                    measured = limit(at_full_speed(generator, length, PIECE_S))
                    best[length] = max(
                        best.get(length, measured), measured, key=lambda candidate: candidate.packets_per_s
                    )
    return [*best.values()]


def set_up_plain_ip(lab: Lab, plain: Vpn) -> None:
    """Plain IP between the sites, without a proof. Raises CommandError."""
    for site in lab.sites:
        plain.start(lab.gateway(site), site, peers_of(site, lab.sites), plain.comparable)


def at_full_speed(generator: Generator, ip_bytes: int, seconds: float, burst: int = BURST) -> Arrived:
    """Packets of one length as fast as they go. Raises MeasurementError as ``Generator.play``."""
    return generator.play(Load((ip_bytes,), FULL_PER_S, seconds, burst=burst))


def limit(arrived: Arrived) -> GeneratorLimit:
    """What came of packets at full speed, as it is stored: packets that came to the far host while they were sent.

    Raises MeasurementError where a busy machine let none come in time.
    """
    per_s = arrived.kept_up / arrived.seconds
    if round(per_s) < 1:
        raise MeasurementError(f"none of {arrived.sent} packets came while they were sent")
    return GeneratorLimit(
        ip_bytes=round(arrived.load.mean_bytes),
        packets_per_s=round(per_s),
        bps=round(8 * per_s * arrived.load.mean_bytes),
        by=arrived.offered["by"],
        processes=arrived.offered["processes"],
        burst_packets=arrived.load.burst,
    )


def highest_limits(known: Iterable[GeneratorLimit], measured: Iterable[GeneratorLimit]) -> list[GeneratorLimit]:
    """The highest limit of each length, because a busy machine lowers it and nothing raises it."""
    best: dict[int, GeneratorLimit] = {}
    for entry in (*known, *measured):
        best[entry.ip_bytes] = max(
            best.get(entry.ip_bytes, entry), entry, key=lambda candidate: candidate.packets_per_s
        )
    return [best[length] for length in sorted(best)]
