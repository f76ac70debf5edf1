"""What run.json says of the lab and its image: facts, what the CPU encrypts, what the packet generator offers.

A lab may have facts that are not named here: they are shown, each text as one line, and no code goes by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, ValidationError
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from runner.data.kinds import Count, Digest, Json, Line, Name, NotNegative, Real, Strict, Version, Whole, require_lines

Positive = Annotated[Real, Field(gt=0)]
Mtu = Annotated[int, Field(ge=68, le=65535)]  # of IPv4: RFC 791


class GeneratorLimit(Strict):
    """What the packet generator offers at most: packets of ``ip_bytes`` at full speed over plain IP, counted where they
    came in at the far host. ``bps``: of IP. ``by``: the system call. ``burst_packets``: what was
    asked for; at full speed the sender makes no pause between bursts."""

    ip_bytes: Annotated[Count, Field(gt=0)]
    packets_per_s: Positive
    bps: Positive
    by: Line
    processes: Annotated[Count, Field(ge=1)]
    burst_packets: Annotated[Count, Field(ge=1)]


def generator_limits(lab: Mapping[str, Any]) -> list[GeneratorLimit]:
    """What the generator offers at most in a run whose ``lab`` this is. Empty in older runs, and where the generator
    sent nothing. Raises ValueError where that is no such list."""
    limits = lab.get("generator", [])
    if not isinstance(limits, list):
        raise ValueError(f"generator is a list of what the generator offers, not {limits!r:.60}")
    try:
        return [GeneratorLimit.model_validate(limit) for limit in limits]
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise ValueError(f"generator: {'.'.join(map(str, first['loc']))} {first['msg']}") from None


OPEN = ConfigDict(extra="allow")
# Of the path's rate: less is what its losses, its round trips or the hosts' windows leave one TCP connection.
FILLS = 0.9


def _is_limit(given: Any) -> Any:
    GeneratorLimit.model_validate(given)
    return given


GeneratorSeen = Annotated[dict[str, Any], AfterValidator(_is_limit)]


class PathFacts(TypedDict, total=False):
    """``lab.path``: see runner.lab.shape.site.BarePath."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    mtu_bytes: Mtu
    on_link: bool
    nat: Line
    tried: list[Line]
    open: list[Line]
    rtt_ms: list[NotNegative]
    loss_ratio: Annotated[Real, Field(ge=0, le=1)] | None
    dscp_kept: list[bool]
    ecn_kept: list[bool]
    clock_ahead_s: Real | None
    rates_bps: list[NotNegative]
    tcp_bps: list[NotNegative]
    most_bps: NotNegative | None
    seen_as: Line
    taken: dict[Name, dict[Line, Line]]
    answers_pings: bool
    links: dict[Name, list[Line]]


def slow_tcp_bps(tcp_bps: Sequence[float], rates_bps: Sequence[float]) -> list[float]:
    """What one TCP connection carries on a bare path, each way, where that does not fill it; else empty."""
    fills = all(tcp >= FILLS * rate for tcp, rate in zip(tcp_bps, rates_bps, strict=False))
    return [] if fills else [*tcp_bps]


class Facts(TypedDict, total=False):
    """The facts of a lab that code goes by. What a machine does not tell is ``unknown``."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    kind: Line
    kernel: Line
    guest: Line
    machine: Line
    cpu: Line
    cores: Whole | Line
    uplink: Line
    congestion_control: Line
    nodes_share_cores: bool
    wan_ip_version: Annotated[int, Field(ge=4, le=6)]
    wan_link_bps: NotNegative | Line
    openssl_bps: dict[Name, Positive]
    generator: list[GeneratorSeen]
    calibration: dict[Name, dict[Name, Real]]
    machines: dict[Line, dict[Line, Json]]
    path: PathFacts | None


class Image(TypedDict, total=False):
    """The lab image. ``gateways``: image -> digest; ``layers``: "NAME for SUITE" -> digest."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    name: Name
    digest: Digest
    packages: dict[Name, Version]
    gateways: dict[Name, Line]
    layers: dict[Line, Line]


if TYPE_CHECKING:  # code adds facts to both
    LabFacts = dict[str, Any]
    ImageFacts = dict[str, Any]
else:
    LabFacts = Annotated[Facts, AfterValidator(require_lines)]
    ImageFacts = Annotated[Image, AfterValidator(require_lines)]
