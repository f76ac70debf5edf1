"""What a user needs of a VPN: the line, the path, the traffic and the musts. A run keeps them in run.json."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from runner.data.kinds import Real, Strict
from runner.data.named import USUAL, Connections, Must, Traffic

# What a site lab fills in from its path (runner/sweep/seen.py).
Seen = Literal["line_bps", "line_up_bps", "path_rtt_ms", "path_loss_ratio", "path_mtu_bytes", "nat", "udp-blocked"]


class Needs(Strict):
    """What a user needs. ``line_bps``: the rate of the line to gw1, and from it, where
    ``line_up_bps`` says no other; ``path_rtt_ms``: the round trip of the bare
    path; ``path_loss_ratio``: the share of its packets that the path loses; ``path_mtu_bytes``: its longest packet.
    None where nobody has said or seen it. ``must``: the musts in force; ``without``: those
    that a path does not put in force. ``seen``: what the user has not stated, and was seen on the path.
    ``cores``: how many a gateway has; ``connections``: how many of TCP the line carries at once."""

    line_bps: Annotated[Real, Field(gt=0)] | None = None
    line_up_bps: Annotated[Real, Field(gt=0)] | None = None
    path_rtt_ms: Annotated[Real, Field(ge=0)] | None = None
    path_loss_ratio: Annotated[Real, Field(ge=0, le=1)] | None = None
    traffic: Traffic = "mixed"
    connections: Connections = 1
    must: tuple[Must, ...] = USUAL
    without: tuple[Must, ...] = ()
    path_mtu_bytes: Annotated[int, Field(ge=68, le=65535)] | None = None
    seen: tuple[Seen, ...] = ()
    cores: Annotated[int, Field(ge=1, le=4096)] | None = None

    @property
    def up_bps(self) -> float | None:
        """The rate of the line from gw1, bit/s."""
        return self.line_up_bps or self.line_bps

    def on_line(self, line_bps: float) -> Needs:
        """The same needs on a line of this rate to gw1; its other way keeps its share."""
        up_bps = self.line_up_bps and self.line_bps and line_bps * (self.line_up_bps / self.line_bps)
        return self.model_copy(update={"line_bps": line_bps, "line_up_bps": up_bps})
