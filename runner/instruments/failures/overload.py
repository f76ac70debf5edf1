"""More than a tunnel can carry, for a while: does it carry again afterwards, and how soon (RFC 2544 §26.5)?"""

from __future__ import annotations

from collections.abc import Callable

from runner.data.errors import MeasurementError
from runner.instruments.tools.generator import Load, generating
from runner.lab.shape.site_to_site import Lab

OVERLOAD_S = 10.0
IP_BYTES = 1280  # no tunnel here is too narrow for it
ALL_PER_S = 10_000_000.0  # packets: more than a machine sends, so that it sends what it can
WHAT = f"packets of {IP_BYTES} bytes, as many as the host can send, for {OVERLOAD_S:g} s; the outage begins afterwards"


class Overload:
    """``load`` offers it from host1 to ``address``, host2's through the tunnel, and ``over`` notes its end, from which
    on the outage counts. ``offered_bps``: bit/s of IP, each time."""

    def __init__(self, lab: Lab, address: str) -> None:
        self.lab, self.address = lab, address
        self.offered_bps = 0.0

    def load(self) -> None:
        """Offer it, and wait until it has been sent. Raises MeasurementError where nothing could be sent at all."""
        whole = Load((IP_BYTES,), ALL_PER_S, OVERLOAD_S)
        with generating(self.lab, self.address) as generator:
            generator.begin(whole)
            offered = generator.sender_report(whole)
        if not offered.get("sent"):
            raise MeasurementError(f"the sender could not overload the tunnel: {offered.get('error', 'nothing left')}")
        self.offered_bps = offered["bytes"] * 8 / offered["seconds"]

    def note_end(self, note: Callable[[str], None]) -> None:
        """The end of the overload."""
        note(f"{OVERLOAD_S:g} s of {self.offered_bps / 1e6:.0f} Mbit/s are over")
