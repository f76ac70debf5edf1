"""Many clients at once: what they download together, and how fairly they share it (Jain's index)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from runner.data.errors import InstrumentError, MeasurementError
from runner.data.levels import Levels
from runner.data.metric import bit_rate, share
from runner.data.trials import Value
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.fragments import fitting
from runner.instruments.tools.limits import Limits, Piece
from runner.instruments.tools.visits import HTTP_PORT, HTTP_SERVER
from runner.instruments.traffic.download import make_file, serving
from runner.instruments.traffic.flows import jain
from runner.lab.node.probing import was_killed
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

FILE_BYTES = 100_000_000  # a client that has all of it before the time is over ends early
OUT_OF_TIME = "28"  # curl(1), EXIT CODES
WANTED = "%{exitcode} %{size_download} %{time_total} %{local_ip} %{errormsg}"


def clients(
    lab: Lab, address: str, duration_s: int, number: int, around: AbstractContextManager[Piece] | None = None
) -> Measured:
    """Throughput of ``number`` clients behind the near gateway that download from the far host at once, and their
    fairness.

    Each client has an address of its own in the near site's LAN, and a connection of its own, for ``duration_s``
    seconds; one process drives them all, so that the hosts' scheduler has no part in it. A client that gets nothing
    counts as unfairness. ``around``: what watches the downloads. Raises MeasurementError where nothing arrived, or
    a client was refused.
    """
    near = [f"{lab.sites[0].host_address.rpartition('.')[0]}.{100 + client}" for client in range(number)]
    device = lab.host1.run("ip", "-o", "addr", "show", "to", lab.sites[0].host_address).stdout.split()[1]
    try:
        lab.host1.run("ip", "-batch", "-", input="".join(f"addr add {source}/32 dev {device}\n" for source in near))
        make_file(lab, FILE_BYTES)
        with serving(lab), around or nullcontext(Piece(0)) as piece:
            started = time.monotonic()
            config = "next\n".join(_one(address, source, duration_s) for source in near)
            at_once = ("--parallel", "--parallel-immediate", "--parallel-max", str(number))
            done = lab.host1.run("curl", *at_once, "--config", "-", input=config, check=False, timeout=duration_s + 15)
            elapsed = time.monotonic() - started
            if was_killed(done.code):
                raise InstrumentError(f"curl was killed on {lab.host1.name}")
            piece.carried_bytes = sum(int(line.split(" ", 2)[1]) for line in done.stdout.splitlines())
    finally:
        gone = "".join(f"addr del {source}/32 dev {device}\n" for source in near)
        lab.host1.run("ip", "-force", "-batch", "-", input=gone, check=False)
    return Measured(read_clients(done.stdout, number), elapsed)


def _one(address: str, own: str, duration_s: int) -> str:
    """A client's part of curl's configuration file, curl(1) --config and --next."""
    return (
        f'url = "http://{address}:{HTTP_PORT}/{FILE_BYTES}"\ninterface = "{own}"\noutput = "/dev/null"\nsilent\n'
        f'max-time = {duration_s}\nwrite-out = "{WANTED}\\n"\n'
    )


def read_clients(output: str, number: int) -> list[Value]:
    """The measurements in what curl wrote out, a line a client.

    Raises MeasurementError where a client is missing or was refused, and where no byte came.
    """
    ended = [line.split(" ", 4) for line in output.splitlines()]
    if len(ended) != number:
        raise MeasurementError(f"curl reports {len(ended)} clients instead of {number}")
    if refused := [fields for fields in ended if fields[0] not in ("0", OUT_OF_TIME)]:
        raise MeasurementError(f"{len(refused)} of {number} clients were refused, the first: {refused[0][4]}")
    sizes, times = [int(fields[1]) for fields in ended], [float(fields[2]) for fields in ended]
    if not any(sizes):
        raise MeasurementError("no client received a byte")
    rates = [size * 8 / seconds for size, seconds in zip(sizes, times, strict=True)]
    detail: dict[str, Any] = {"slowest_bps": min(rates), "fastest_bps": max(rates), "idle_clients": sizes.count(0)}
    return [
        measurement("clients_throughput", sum(sizes) * 8 / max(times), **detail),
        measurement("clients_fairness", jain(rates), rates),
    ]


class Clients(Whole):
    """Downloads of many clients at once."""

    name = "clients"
    factors = {"clients": Levels(("1", "2", "4", "8", "16", "32", "64"), default="1", told="{} clients".format)}
    metrics = (
        bit_rate(
            name="clients_throughput",
            title="Throughput of many clients",
            definition="All clients download an incompressible file by HTTP at the same time, each from its own "
            "address in the near LAN. The value is what they received together, divided by the time of the slowest "
            "client. Connection set-up is included.",
            source="curl(1) --parallel, --interface; thesis §6.2 (loading the gateways with multiple requests)",
            limited=True,
        ),
        share(
            name="clients_fairness",
            title="Fairness between clients",
            better="higher",
            definition="Jain's fairness index of the clients' rates. It is 1 if all clients have the same rate, and "
            "1/n if one of n clients has everything.",
            source="Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301 (1984)",
        ),
    )

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 1.2 + profile.duration_s

    def once(self, bench: Bench, asked: Asked) -> Measured:
        limits, number = Limits(), int(asked.params["clients"])
        bench.free(HTTP_SERVER)
        with fitting(bench):
            measured = clients(bench.lab, bench.address, asked.profile.duration_s, number, limits.watch(bench))
        return limits.add_loads(bench, measured)
