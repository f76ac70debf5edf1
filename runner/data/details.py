"""The details of a measurement that reports read, each by its kind: an instrument may say more, and nobody reads that.

What an instrument says beside its numbers is in the run folder as it said it, and the folder may come from anybody.
"""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError, with_config
from pydantic_core import PydanticSerializationError, to_json
from typing_extensions import TypedDict

from runner.data.kinds import Count, Line, MetricName, NotNegative, Real, Text, in_range

MOST_AT_ONCE = 1_000_000  # of what is counted one by one
OTHERS = ConfigDict(extra="allow", strict=True)

Sites = Annotated[str, StringConstraints(pattern=r"^([2-9]|[1-9][0-9]{1,5})$")]  # how many there are
Timers = Text | list[Text] | dict[Line, list[Text]]


@with_config(OTHERS)
class _Search(TypedDict):
    offered_rate_bps: Real
    loss_ratio: Real
    receiver_drop_ratio: NotRequired[Real]


@with_config(OTHERS)
class _Size(TypedDict, total=False):
    up_s: Real
    memory_bytes: Real
    cpu_s: Real
    config_bytes: Real
    config_lines: Real


@with_config(OTHERS)
class _Join(TypedDict):
    files: Count
    routes: Count
    keys: Count
    effort: Real


@with_config(OTHERS)
class _OfPaper(TypedDict):
    files: Line
    routes: Line
    keys: Line
    total: Line
    printed_at_10: Line
    recomputed: dict[Sites, Real]


@with_config(OTHERS)
class _Unsure(TypedDict):
    reason: Text
    kind: NotRequired[Line]


class _Fragments(TypedDict):
    host: Real
    gateway: Real


@with_config(OTHERS)
class _Known(TypedDict, total=False):
    trials: list[_Search] | Count
    flags: list[Line]
    estimand: Line
    interval_bps: list[Real] | None
    confirmed_rate_bps: Real | None
    breakdowns_bps: list[Real] | None
    inconclusive: dict[MetricName, _Unsure]
    kind: Line
    numbers: dict[Line, Any]
    control: dict[Line, Any] | Text
    alike: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]
    tries: Annotated[int, Field(ge=1, le=MOST_AT_ONCE)]
    reason: Text
    detection: Timers
    timers: Timers
    path_before: list[Line]
    path_after: list[Line]
    failures: Count
    unrecovered: Count
    resolution_ms: NotNegative
    watched_s: NotNegative
    lost: Annotated[int, Field(ge=0, le=MOST_AT_ONCE)]
    idle_streams: Count
    idle_clients: Count
    burst_packets: Count
    burst_packets_sent: NotNegative
    fragments_per_packet: _Fragments
    outer_packets_per_packet: NotNegative
    captured_fragments: NotNegative
    captured_lengths: dict[Line, Count]
    ciphers: list[Line]
    integrities: list[Line]
    compressions: list[Line]
    paper_asterisks: Annotated[int, Field(ge=0, le=100)]
    reasons: list[Text]
    sources: list[Text]
    outranked_by: list[MetricName]
    cpu_mhz: Real | None


class _Effort(_Known, total=False):
    joining: dict[Sites, _Join]
    paper: _OfPaper | None


@with_config(OTHERS)
class _InPaper(TypedDict, total=False):
    paper: _OfPaper


class _Mesh(_Known, total=False):
    """Of a mesh, which says what joining each size takes on paper."""

    sizes: dict[Sites, _Size]
    predicted: dict[Sites, _Size]
    joining: dict[Sites, Real]
    paper: _InPaper


EFFORT, MESH = TypeAdapter(_Effort), TypeAdapter(_Mesh)


def require_kinds(given: dict[str, Any]) -> dict[str, Any]:
    """Details as they were given. Raises ValueError for one that a report reads and that is of another kind."""
    try:
        text = to_json(given)  # as it will stand in a file
    except PydanticSerializationError:  # it cannot stand in one: whoever writes it says so
        return given
    try:
        (MESH if "sizes" in given else EFFORT).validate_json(text)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where:.100} is {first['input']!r:.60}: {first['msg']}") from None
    return given


Details = Annotated[dict[str, Any], AfterValidator(in_range), AfterValidator(require_kinds)]
